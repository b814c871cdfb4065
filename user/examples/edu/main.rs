// SPDX-License-Identifier: BSD-2-Clause
//! A driver for a PCI device, QEMU's `edu`, which computes factorials and copies memory: registers
//! by mapping, interrupts by MSI, DMA. The driver is a task without privileges except the hardware
//! that boot.conf gives it. On a machine with an IOMMU its device can access the memory of this
//! driver only.

#![no_std]
#![no_main]

mod pci;

use core::str;
use keel_l4::abi::memory::REGION_KERNEL;
use keel_l4::call::Failure;
use keel_l4::device::Registers;
use keel_l4::ipc::{receive, Timeout};
use keel_l4::kernel_object::{bind_msi, Msi};
use keel_l4::kip::{kip, regions};
use keel_l4::memory::Pages;
use keel_l4::program::Program;
use keel_l4::protocol::boot::DIRECT_MAP;
use keel_l4::{println, Error};
use pci::Pci;

keel_l4::program!(main);

/// Vendor and device (QEMU, docs/specs/edu; the registers too).
const IDENTITY: u32 = 0x11e8_1234;
const REGISTERS_LOG2: u8 = 20;
const VERSION: u64 = 0x00;
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const CAUSE: u64 = 0x24;
const ACKNOWLEDGE: u64 = 0x64;
const DMA_FROM: u64 = 0x80;
const DMA_TO: u64 = 0x88;
const DMA_COUNT: u64 = 0x90;
const DMA_COMMAND: u64 = 0x98;
/// Status: raise an interrupt when the factorial is ready.
const STATUS_INTERRUPT: u32 = 0x80;
/// DMA commands: start, from the device to memory, interrupt at the end.
const DMA_BEGIN: u32 = 1;
const DMA_TO_MEMORY: u32 = 2;
const DMA_INTERRUPT: u32 = 4;
/// The device's own memory, as its DMA sees it.
const BUFFER: u64 = 0x40000;

const TEXT: &[u8] = b"there and back";
/// The µ-kernel's image is at this address and above.
const KERNEL_FROM: u64 = 1 << 20;

struct Edu {
    registers: Registers,
    interrupt: Msi,
}

impl Edu {
    fn open() -> Result<Edu, Failure> {
        let nothing = Failure::call(Error::NoPartner);
        let device = Pci::find(IDENTITY)?.ok_or(nothing)?;
        let place = device.switch_on().ok_or(nothing)?;
        let registers = Registers::map(place, REGISTERS_LOG2)?;
        let interrupt = bind_msi()?;
        if !device.send_interrupts(&interrupt) {
            return Err(Failure::call(Error::NotSupported));
        }
        Ok(Edu { registers, interrupt })
    }

    /// Waits for the interrupt; returns its cause, as the device reports it.
    fn wait(&self) -> Result<u32, Failure> {
        receive(self.interrupt.id, Timeout::Never)?;
        let cause = self.registers.read(CAUSE);
        self.registers.write(ACKNOWLEDGE, cause);
        Ok(cause)
    }

    fn factorial(&self, number: u32) -> Result<u32, Failure> {
        self.registers.write(STATUS, STATUS_INTERRUPT);
        self.registers.write(FACTORIAL, number);
        self.wait()?;
        Ok(self.registers.read(FACTORIAL))
    }

    /// Copies bytes between memory (its physical address) and the device's buffer. The device has
    /// 28 address bits; the memory of a task that asks for little is below that.
    fn copy(&self, from: u64, to: u64, count: usize, direction: u32) -> Result<(), Failure> {
        for (register, value) in [(DMA_FROM, from), (DMA_TO, to), (DMA_COUNT, count as u64)] {
            self.registers.write(register, value as u32);
        }
        self.registers.write(DMA_COMMAND, DMA_BEGIN | DMA_INTERRUPT | direction);
        self.wait().map(|_| ())
    }
}

/// Whether the device, whose buffer has the text, can read `victim`. What it reads from memory that
/// it cannot access depends on the machine: nothing, or zeros.
fn reaches(edu: &Edu, victim: u64, memory: &Pages) -> Result<bool, Failure> {
    edu.copy(victim, BUFFER, TEXT.len(), 0)?;
    edu.copy(BUFFER, physical(memory), TEXT.len(), DMA_TO_MEMORY)?;
    let mut bytes = [0; TEXT.len()];
    memory.read(0, &mut bytes);
    Ok(bytes != *TEXT && bytes != [0; TEXT.len()])
}

/// The physical address of the pages, for a device.
fn physical(pages: &Pages) -> u64 {
    pages.address() - DIRECT_MAP
}

fn main(mut program: Program) -> Result<(), Failure> {
    let edu = Edu::open()?;
    println!("the device says {:#x}", edu.registers.read(VERSION));
    for number in [5, 10, 12] {
        println!("{number}! = {}", edu.factorial(number)?);
    }
    let (there, back) = match (program.memory.take(1), program.memory.take(1)) {
        (Some(there), Some(back)) => (there, back),
        _ => return Err(Failure::call(Error::NoMemory)),
    };
    there.write(0, TEXT);
    edu.copy(physical(&there), BUFFER, TEXT.len(), 0)?;
    edu.copy(BUFFER, physical(&back), TEXT.len(), DMA_TO_MEMORY)?;
    let mut text = [0; TEXT.len()];
    back.read(0, &mut text);
    println!("by DMA: {}", str::from_utf8(&text).unwrap_or("something else"));
    let kernel = regions(kip()).find(|region| region.kind == REGION_KERNEL && region.start >= KERNEL_FROM);
    let kernel = kernel.ok_or(Failure::call(Error::NoMemory))?.start;
    if reaches(&edu, kernel, &back)? {
        println!("the µ-kernel's memory: within reach");
        return Ok(());
    }
    // Without the IOMMU this would be the machine's end.
    edu.copy(BUFFER, kernel, TEXT.len(), DMA_TO_MEMORY)?;
    println!("the µ-kernel's memory: out of reach");
    Ok(())
}
