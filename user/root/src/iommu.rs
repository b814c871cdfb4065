// SPDX-License-Identifier: BSD-2-Clause
//! Confines the DMA of all devices to the memory of tasks with devices, if the machine has Intel's
//! IOMMU (*Intel Virtualization Technology for Directed I/O*, revision 4.0, chapter 11). Owns the
//! units' registers; `remapping` builds the tables that the units read.

use crate::machine::{bytes_mut, firmware, is_outside, Claimed};
use core::arch::x86_64::{_mm_clflush, _mm_mfence};
use core::fmt;
use keel_l4::abi::acpi;
use keel_l4::abi::fpage::{PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::memory::REGION_KERNEL;
use keel_l4::abi::Region;
use keel_l4::device::Registers;
use keel_l4::kip::{kip, regions};
use keel_l4::println;
use keel_l4::protocol::boot::START_REGIONS;
use keel_l4::ranges::Range;
use keel_root::config::{Config, Task};
use keel_root::plan::{Free, Plan};
use keel_root::remapping::{units, Shape, Table, Tables, Units, MAX_UNITS, SIGNATURE};

/// Registers: capabilities, commands and their status, the root table, invalidation, faults.
const CAPABILITIES: u64 = 0x08;
const MORE_CAPABILITIES: u64 = 0x10;
const COMMAND: u64 = 0x18;
const STATUS: u64 = 0x1c;
const ROOT_TABLE: u64 = 0x20;
const CONTEXT_COMMAND: u64 = 0x28;
const FAULT_STATUS: u64 = 0x34;
/// Capabilities: 3 and 4 levels, superpages of 2 MB, a write buffer that needs flushes, and the
/// offset of the fault registers in units of 16 bytes.
const LEVELS_3: u64 = 1 << 9;
const LEVELS_4: u64 = 1 << 10;
const SUPERPAGES: u64 = 1 << 34;
const WRITE_BUFFER: u64 = 1 << 4;
const FAULT_REGISTERS_SHIFT: u32 = 24;
const FAULT_REGISTERS_MASK: u64 = 0x3ff;
const FAULT_COUNT_SHIFT: u32 = 40;
const FAULT_COUNT_MASK: u64 = 0xff;
/// Extended capabilities: the offset of the IOTLB registers in units of 16 bytes. The invalidation
/// register is the second of them.
const INVALIDATION_SHIFT: u32 = 8;
const INVALIDATION_MASK: u64 = 0x3ff;
const REGISTER_UNIT: u64 = 16;
/// Offset of the upper half of an 8-byte register.
const UPPER_HALF: u64 = 4;
const INVALIDATION: u64 = 8;
/// Commands, and the status bits that acknowledge them.
const TRANSLATE: u32 = 1 << 31;
const SET_ROOT_TABLE: u32 = 1 << 30;
const FLUSH_WRITE_BUFFER: u32 = 1 << 27;
const QUEUED_INVALIDATION: u32 = 1 << 26;
const REMAP_INTERRUPTS: u32 = 1 << 25;
/// Upper halves of the invalidation registers: start; all contexts; all IOTLB entries.
const INVALIDATE: u32 = 1 << 31;
const ALL_CONTEXTS: u32 = 1 << 29;
const ALL_TRANSLATIONS: u32 = 1 << 28;
/// The words of a fault record: the address, the device, reason and kind, and the valid bit.
const FAULT_WORDS: [u64; 4] = [0, 4, 8, FAULT_KIND];
const FAULT_KIND: u64 = 12;
const FAULT_REASON_MASK: u32 = 0xff;
const FAULT_IS_READ: u32 = 1 << 30;
const FAULT_IS_THERE: u32 = 1 << 31;
/// Faults were lost because all records were in use.
const FAULTS_LOST: u32 = 1;
/// Status reads after which a unit counts as broken.
const PATIENCE: u32 = 1 << 20;
/// Size of a cache line.
const CACHE_LINE: usize = 64;

/// Why an existing IOMMU is not used.
enum Problem {
    /// ACPI's table is invalid.
    Table,
    /// The registers of a unit are not available, or too far apart.
    Registers,
    /// The units have no depth of tables in common.
    Levels,
    /// A unit does not execute a command.
    Silent,
    /// No memory for the tables.
    Memory,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Table => "ACPI's table of it makes no sense",
            Problem::Registers => "its registers cannot be reached",
            Problem::Levels => "its units have no depth of tables in common",
            Problem::Silent => "it does not answer",
            Problem::Memory => "there is no memory for its tables",
        })
    }
}

/// All units of the machine, and the memory of the tables that they share.
pub struct Iommu {
    units: [Option<Unit>; MAX_UNITS],
    said: Units,
    shape: Shape,
    tables: Range,
}

/// Logs that devices are not confined, and why.
fn unused(problem: Problem) {
    println!("root: the IOMMU is not used: {problem}");
}

/// Whether devices may access a task's memory.
fn drives_devices(task: &Task<'_>) -> bool {
    task.hardware || !task.devices.is_empty()
}

impl Iommu {
    /// Finds the units and takes the memory for their tables from `free`. Logs the reason if they
    /// cannot be used.
    pub fn find(config: &Config<'_>, free: &mut Free) -> Option<Iommu> {
        if !config.confines_devices {
            return None;
        }
        let table = acpi::find_map(kip().rsdp, SIGNATURE, &mut firmware, Some)?;
        Iommu::open(table, config, free).map_err(unused).ok()
    }

    fn open(table: &[u8], config: &Config<'_>, free: &mut Free) -> Result<Iommu, Problem> {
        let said = units(table).filter(|said| !said.registers.is_empty()).ok_or(Problem::Table)?;
        let mut units = [const { None }; MAX_UNITS];
        let mut common = u64::MAX;
        for (unit, at) in units.iter_mut().zip(said.registers.iter()) {
            let new = Unit::open(*at)?;
            common &= new.capabilities;
            *unit = Some(new);
        }
        let levels = [(LEVELS_4, 4), (LEVELS_3, 3)].into_iter().find(|(bit, _)| common & bit != 0);
        let (_, levels) = levels.ok_or(Problem::Levels)?;
        let shape = Shape { levels, superpages: common & SUPERPAGES != 0 };
        let drivers = config.tasks.iter().filter(|task| drives_devices(task)).count();
        // A task's memory, its image, and its extra memory.
        let ranges = drivers * (START_REGIONS as usize + 2) + said.reserved.iter().count();
        let end = regions(kip()).map(|region| region.end).chain(said.reserved.iter().map(|range| range.end)).max();
        let size = shape.tables(ranges, end.unwrap_or(0)) as u64 * PAGE_SIZE;
        let tables = free.find(size, PAGE_SIZE).ok_or(Problem::Memory)?;
        free.remove(tables).map_err(|_| Problem::Memory)?;
        Ok(Iommu { units, said, shape, tables })
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().flatten()
    }

    /// The units' registers, which no task may have.
    pub fn registers(&self) -> impl Iterator<Item = Region> + '_ {
        self.said.registers.iter().map(|at| Region { start: *at, end: at + PAGE_SIZE, kind: REGION_KERNEL })
    }

    /// Confines DMA from now on to the memory of tasks with devices and the memory that the
    /// firmware reserves for its own devices.
    pub fn confine(&self, config: &Config<'_>, plan: &Plan, claimed: &mut Claimed) {
        claimed.claim(self.tables);
        match self.begin(config, plan) {
            Ok(pages) => println!(
                "root: DMA is confined to tasks with devices: {} IOMMU, {pages} pages of tables",
                self.said.registers.len()
            ),
            Err(problem) => unused(problem),
        }
    }

    /// Fills the tables and enables translation in all units. Returns the number of pages of the
    /// tables.
    fn begin(&self, config: &Config<'_>, plan: &Plan) -> Result<usize, Problem> {
        // SAFETY: these are claimed, whole pages that no task has.
        let place = unsafe { bytes_mut(self.tables).align_to_mut::<Table>().1 };
        let mut tables = Tables::new(place, self.tables.start, self.shape).map_err(|_| Problem::Memory)?;
        let drivers = config.tasks.iter().zip(plan.iter()).filter(|(task, _)| drives_devices(task));
        let memory = drivers.flat_map(|(_, share)| share.memory.iter().chain([share.image, share.extra]));
        for range in memory.chain(self.said.reserved.iter().filter(|range| is_outside(*range))) {
            tables.allow(range).map_err(|_| Problem::Memory)?;
        }
        // Not every unit snoops the processors' caches.
        for line in tables.used().as_flattened().chunks(CACHE_LINE / size_of::<u64>()) {
            // SAFETY: the address is in the program's own memory.
            unsafe { _mm_clflush(line.as_ptr().cast()) };
        }
        // SAFETY: the instruction only orders memory accesses.
        unsafe { _mm_mfence() };
        self.units().try_for_each(|unit| unit.translate(tables.root()))?;
        Ok(tables.used().len())
    }

    /// Logs the accesses that were refused to devices since the last call.
    pub fn report(&self) {
        self.units().for_each(Unit::report);
    }
}

/// One unit.
struct Unit {
    registers: Registers,
    capabilities: u64,
    /// Address of the IOTLB invalidation register.
    invalidation: u64,
    /// Address of the fault records.
    faults: u64,
    fault_count: u64,
}

impl Unit {
    fn open(physical: u64) -> Result<Unit, Problem> {
        let page = Range::new(physical, physical.checked_add(PAGE_SIZE).ok_or(Problem::Registers)?);
        if !is_outside(page) {
            return Err(Problem::Registers);
        }
        let registers = Registers::map(physical, PAGE_SHIFT as u8).map_err(|_| Problem::Registers)?;
        let [capabilities, more] = [CAPABILITIES, MORE_CAPABILITIES]
            .map(|at| registers.read(at) as u64 | (registers.read(at + UPPER_HALF) as u64) << 32);
        let invalidation = (more >> INVALIDATION_SHIFT & INVALIDATION_MASK) * REGISTER_UNIT + INVALIDATION;
        let faults = (capabilities >> FAULT_REGISTERS_SHIFT & FAULT_REGISTERS_MASK) * REGISTER_UNIT;
        let fault_count = (capabilities >> FAULT_COUNT_SHIFT & FAULT_COUNT_MASK) + 1;
        if invalidation + INVALIDATION > PAGE_SIZE || faults + fault_count * REGISTER_UNIT > PAGE_SIZE {
            return Err(Problem::Registers);
        }
        Ok(Unit { registers, capabilities, invalidation, faults, fault_count })
    }

    /// Starts translation by the tables at `root`. It replaces a translation that the firmware
    /// started.
    fn translate(&self, root: u64) -> Result<(), Problem> {
        self.command(0, TRANSLATE | QUEUED_INVALIDATION | REMAP_INTERRUPTS, 0)?;
        if self.capabilities & WRITE_BUFFER != 0 {
            self.command(FLUSH_WRITE_BUFFER, FLUSH_WRITE_BUFFER, 0)?;
        }
        self.registers.write(ROOT_TABLE, root as u32);
        self.registers.write(ROOT_TABLE + UPPER_HALF, (root >> 32) as u32);
        self.command(SET_ROOT_TABLE, SET_ROOT_TABLE, SET_ROOT_TABLE)?;
        self.invalidate(CONTEXT_COMMAND, ALL_CONTEXTS)?;
        self.invalidate(self.invalidation, ALL_TRANSLATIONS)?;
        self.command(TRANSLATE, TRANSLATE, TRANSLATE)
    }

    /// Gives a command and waits until the bits `answering` of the status are `wanted`.
    fn command(&self, command: u32, answering: u32, wanted: u32) -> Result<(), Problem> {
        self.registers.write(COMMAND, command);
        self.wait(STATUS, answering, wanted)
    }

    /// Invalidates a cache of the unit. The lower half of the register is written first, because a
    /// write of the upper half starts the command.
    fn invalidate(&self, register: u64, what: u32) -> Result<(), Problem> {
        self.registers.write(register, 0);
        self.registers.write(register + UPPER_HALF, INVALIDATE | what);
        self.wait(register + UPPER_HALF, INVALIDATE, 0)
    }

    fn wait(&self, register: u64, bits: u32, wanted: u32) -> Result<(), Problem> {
        let done = (0..PATIENCE).any(|_| self.registers.read(register) & bits == wanted);
        if !done {
            return Err(Problem::Silent);
        }
        Ok(())
    }

    fn report(&self) {
        let status = self.registers.read(FAULT_STATUS);
        if status == 0 {
            return;
        }
        for number in 0..self.fault_count {
            let fault = self.faults + number * REGISTER_UNIT;
            let [low, high, source, kind] = FAULT_WORDS.map(|word| self.registers.read(fault + word));
            if kind & FAULT_IS_THERE != 0 {
                self.registers.write(fault + FAULT_KIND, FAULT_IS_THERE);
                println!(
                    "root: device {:02x}:{:02x}.{:x} was refused to {} {:#x} (reason {})",
                    source >> 8 & 0xff,
                    source >> 3 & 0x1f,
                    source & 7,
                    if kind & FAULT_IS_READ != 0 { "read" } else { "write" },
                    (high as u64) << 32 | low as u64,
                    kind & FAULT_REASON_MASK,
                );
            }
        }
        if status & FAULTS_LOST != 0 {
            self.registers.write(FAULT_STATUS, FAULTS_LOST);
            println!("root: more was refused to devices");
        }
    }
}
