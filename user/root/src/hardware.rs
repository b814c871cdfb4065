// SPDX-License-Identifier: BSD-2-Clause
//! The ports and the device memory that a task may have: what the configuration names, or
//! everything in the machine that no other task has.

use crate::config::{Config, Task, MAX_DEVICES, SERIAL_PORT_COUNT};
use keel_l4::abi::fpage::{HALF_SHIFT, PAGE_SIZE};
use keel_l4::abi::memory::{KIP_REGIONS, REGION_FIRMWARE};
use keel_l4::abi::Region;
use keel_l4::list::Full;
use keel_l4::protocol::boot::{DEBUG_EXIT_PORT, EXIT_PORTS_LOG2};
use keel_l4::ranges::{Range, Ranges};

/// The most pieces of device memory: the gaps between RAM, without the memory of other tasks.
const MAX_PIECES: usize = 2 * MAX_DEVICES + KIP_REGIONS as usize / 2;
const ALL_PORTS: Range = Range::new(0, 1 << 16);
const ALL_MEMORY: Range = Range::new(0, 1 << HALF_SHIFT);

/// The ports and the device memory of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware {
    /// Ports.
    pub ports: Ranges<MAX_PIECES>,
    /// Device memory, and the firmware's memory, which sigma0 gives read-only.
    pub devices: Ranges<MAX_PIECES>,
}

impl Hardware {
    /// The hardware of task `index` in a machine with these regions. It never contains RAM,
    /// whatever the configuration names.
    pub fn new(config: &Config<'_>, index: usize, regions: impl Iterator<Item = Region>) -> Result<Hardware, Full> {
        let task = &config.tasks[index];
        let mut mine = if task.hardware { rest(config, index)? } else { named(task)? };
        for region in regions.filter(|region| region.kind != REGION_FIRMWARE) {
            mine.devices.remove(Range::new(region.start, region.end).grow_to(PAGE_SIZE))?;
        }
        Ok(mine)
    }
}

fn named(task: &Task<'_>) -> Result<Hardware, Full> {
    let mut mine = Hardware::default();
    task.ports.iter().try_for_each(|range| mine.ports.insert(range.value))?;
    task.devices.iter().try_for_each(|range| mine.devices.insert(range.value))?;
    Ok(mine)
}

/// All hardware without what the root task needs and what other tasks name.
fn rest(config: &Config<'_>, index: usize) -> Result<Hardware, Full> {
    let mut mine = Hardware::default();
    mine.ports.insert(ALL_PORTS)?;
    mine.devices.insert(ALL_MEMORY)?;
    let log = config.log_port as u64;
    mine.ports.remove(Range::new(log, log + SERIAL_PORT_COUNT))?;
    mine.ports.remove(Range::new(DEBUG_EXIT_PORT, DEBUG_EXIT_PORT + (1 << EXIT_PORTS_LOG2)))?;
    for (_, other) in config.tasks.iter().enumerate().filter(|(number, _)| *number != index) {
        other.ports.iter().try_for_each(|range| mine.ports.remove(range.value))?;
        other.devices.iter().try_for_each(|range| mine.devices.remove(range.value))?;
    }
    Ok(mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use keel_l4::abi::memory::{REGION_FREE, REGION_KERNEL};

    fn hardware(text: &str, index: usize) -> Hardware {
        let region = |start, end, kind| Region { start, end, kind };
        let regions = [
            region(0x1000, 0x9_fc00, REGION_FREE),
            region(0x9_fc00, 0xa_0000, REGION_FIRMWARE),
            region(0x10_0000, 0x800_0000, REGION_FREE),
            region(0x7ff_0000, 0x800_0000, REGION_FIRMWARE),
            region(0xfee0_0000, 0xfee0_1000, REGION_KERNEL),
        ];
        Hardware::new(&parse(text.as_bytes()).unwrap(), index, regions.into_iter()).unwrap()
    }

    #[test]
    fn only_what_is_named() {
        let hardware = hardware("task a { image x ports 0x80-0x8f devices 0xb8000-0xb9fff 0x100000-0x101fff }", 0);
        assert_eq!((hardware.ports.total(), hardware.ports.contains(Range::new(0x80, 0x90))), (16, true));
        assert_eq!(
            (hardware.devices.total(), hardware.devices.contains(Range::new(0xb_8000, 0xb_a000))),
            (0x2000, true)
        );
    }

    #[test]
    fn the_rest_is_what_nobody_else_has() {
        let text =
            "log com1 task a { image x hardware rest }\ntask b { image y ports 0x70-0x71 devices 0xb8000-0xb9fff }";
        let Hardware { ports, devices } = hardware(text, 0);
        for given in [Range::new(0, 0x70), Range::new(0x2f8, 0x3f8), Range::new(0xcf8, 0x1_0000)] {
            assert!(ports.contains(given), "{given:?}");
        }
        for kept in [Range::new(0x71, 0x72), Range::new(0x3f8, 0x400), Range::new(0xf4, 0xf8)] {
            assert!(!ports.overlaps(kept), "{kept:?}");
        }
        for given in [Range::new(0, 0x1000), Range::new(0xe_0000, 0x10_0000), Range::new(0x800_0000, 0xfee0_0000)] {
            assert!(devices.contains(given), "{given:?}");
        }
        let kept = [(0x1000, 0xa_0000), (0xb_8000, 0xb_a000), (0x10_0000, 0x800_0000), (0xfee0_0000, 0xfee0_1000)];
        assert!(!kept.iter().any(|(start, end)| devices.overlaps(Range::new(*start, *end))));
    }
}
