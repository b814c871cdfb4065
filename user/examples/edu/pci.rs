// SPDX-License-Identifier: BSD-2-Clause
//! The first steps of a PCI driver: it finds its device, the address of the registers, and enables
//! its MSI. (PCI Local Bus Specification 3.0: 6.1 for the header, 6.8.1 for MSI.)

use keel_l4::call::Failure;
use keel_l4::kernel_object::Msi;
use keel_l4::pci::{self, Function, FUNCTIONS_OF_DEVICE};

/// On the first bus.
const DEVICES: u32 = 32;

/// Registers of the header, 4 bytes each.
const IDENTITY: u32 = 0x00;
const COMMAND_STATUS: u32 = 0x04;
const BASE_ADDRESS: u32 = 0x10;
const CAPABILITIES: u32 = 0x34;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// A base address of 4 bytes in memory: bits 3:0 are zero.
const BASE_KIND: u32 = 0xf;
const CAPABILITY_MSI: u32 = 5;
const CAPABILITY_PLACE: u32 = 0xfc;
/// The most capabilities that can exist: a longer list is a cycle.
const MOST_CAPABILITIES: usize = 48;

/// MSI's first register: its features, and whether it is on.
const MSI_ON: u32 = 1 << 16;
const MSI_64: u32 = 1 << 23;

/// A device without further functions, on the first bus.
#[derive(Clone, Copy)]
pub struct Pci(Function);

impl Pci {
    /// The first device with this identity: the vendor in bits 15:0, the device in 31:16. Asks
    /// sigma0 for PCI's ports.
    pub fn find(identity: u32) -> Result<Option<Pci>, Failure> {
        pci::claim()?;
        let mut devices = (0..DEVICES).map(|number| Pci(Function(number * FUNCTIONS_OF_DEVICE)));
        Ok(devices.find(|device| device.0.read(IDENTITY) == identity))
    }

    /// Enables the device's registers at the address that the firmware chose, and its DMA. Returns
    /// the address if it is below 4 GB.
    pub fn switch_on(self) -> Option<u64> {
        let base = self.0.read(BASE_ADDRESS);
        if base == 0 || base & BASE_KIND != 0 {
            return None;
        }
        // Zeros do not change the status in the upper half.
        let command = self.0.read(COMMAND_STATUS) & 0xffff;
        self.0.write(COMMAND_STATUS, command | COMMAND_MEMORY | COMMAND_BUS_MASTER);
        Some(u64::from(base))
    }

    /// Makes the device raise `interrupt`; false if it cannot.
    pub fn send_interrupts(self, interrupt: &Msi) -> bool {
        let mut place = self.0.read(CAPABILITIES) & CAPABILITY_PLACE;
        for _ in 0..MOST_CAPABILITIES {
            let capability = self.0.read(place);
            if place != 0 && capability & 0xff == CAPABILITY_MSI {
                self.0.write(place + 4, interrupt.address as u32);
                let data = if capability & MSI_64 != 0 { place + 12 } else { place + 8 };
                if capability & MSI_64 != 0 {
                    self.0.write(place + 8, (interrupt.address >> 32) as u32);
                }
                self.0.write(data, interrupt.data);
                self.0.write(place, capability | MSI_ON);
                return true;
            }
            place = capability >> 8 & CAPABILITY_PLACE;
        }
        false
    }
}
