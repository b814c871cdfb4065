// SPDX-License-Identifier: BSD-2-Clause
//! As much of PCI as a driver needs to begin: finding its device, its registers' place, its interrupt by message.
//! (PCI Local Bus Specification 3.0: chapter 6.1 the header, 6.8.1 MSI, 3.2.2.3.2 the two ports.)

use keel_l4::call::Failure;
use keel_l4::device::{input_long, output_long};
use keel_l4::sigma0;
use keel_l4::source::MessageInterrupt;

/// The ports: which register, and its value.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const PORTS_LOG2: u8 = 3;
const ENABLE: u32 = 1 << 31;
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
/// At most so many capabilities find room: a longer chain is a circle.
const MOST_CAPABILITIES: usize = 48;

/// MSI's first register: what it can, and whether it is on.
const MSI_ON: u32 = 1 << 16;
const MSI_64: u32 = 1 << 23;

/// A device without further functions, on the first bus.
#[derive(Clone, Copy)]
pub struct Pci(u32);

impl Pci {
    /// The first device with this identity: the vendor in bits 15:0, the device above. Asks for PCI's ports.
    pub fn find(identity: u32) -> Result<Option<Pci>, Failure> {
        sigma0::ports(ADDRESS, PORTS_LOG2)?;
        Ok((0..DEVICES).map(|number| Pci(ENABLE | number << 11)).find(|device| device.read(IDENTITY) == identity))
    }

    fn read(self, register: u32) -> u32 {
        output_long(ADDRESS, self.0 | register);
        input_long(DATA)
    }

    fn write(self, register: u32, value: u32) {
        output_long(ADDRESS, self.0 | register);
        output_long(DATA, value);
    }

    /// Lets the device answer at its registers' place, which the firmware chose, and reach memory by itself. The place, if
    /// the firmware chose one below 4 GB.
    pub fn switch_on(self) -> Option<u64> {
        let base = self.read(BASE_ADDRESS);
        if base == 0 || base & BASE_KIND != 0 {
            return None;
        }
        // Zeros leave the status in the upper half alone.
        let command = self.read(COMMAND_STATUS) & 0xffff;
        self.write(COMMAND_STATUS, command | COMMAND_MEMORY | COMMAND_BUS_MASTER);
        Some(u64::from(base))
    }

    /// Lets the device raise `interrupt`; false if it cannot.
    pub fn send_interrupts(self, interrupt: &MessageInterrupt) -> bool {
        let mut place = self.read(CAPABILITIES) & CAPABILITY_PLACE;
        for _ in 0..MOST_CAPABILITIES {
            let capability = self.read(place);
            if place != 0 && capability & 0xff == CAPABILITY_MSI {
                self.write(place + 4, interrupt.address as u32);
                let data = if capability & MSI_64 != 0 { place + 12 } else { place + 8 };
                if capability & MSI_64 != 0 {
                    self.write(place + 8, (interrupt.address >> 32) as u32);
                }
                self.write(data, interrupt.data);
                self.write(place, capability | MSI_ON);
                return true;
            }
            place = capability >> 8 & CAPABILITY_PLACE;
        }
        false
    }
}
