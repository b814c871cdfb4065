// SPDX-License-Identifier: GPL-2.0-only
//! What is fixed at boot about the machine: its memory, and the words of the kernel's command line.
//!
//! boot.rs sets all of it before the first thread runs; from then on it is only read.

use crate::base::{abi::*, *};

/// First byte of the kernel's image.
pub const KERNEL_START: u64 = 0x10_0000;
/// Where the root task lies.
pub const ROOT_IMAGE: Range = Range::new(0x40_0000, 0x80_0000);
/// What the boot tables map.
pub const BOOT_MAPPED: u64 = 4 << 30;

/// Sets of memory, with room for more pieces than a firmware tells.
pub(crate) type Memory = Ranges<128>;

/// RAM, the memory that nobody may have, and RAM without that.
pub(crate) struct Facts {
    pub(crate) ram: Memory,
    pub(crate) forbidden: Memory,
    pub(crate) users: Memory,
}

pub(crate) static FACTS: Global<core::cell::OnceCell<Facts>> = Global::new(core::cell::OnceCell::new());

/// How far the direct map reaches.
pub static MAPPED_END: Global<Cell<u64>> = Global::new(Cell::new(BOOT_MAPPED));

pub static WORDS_GIVEN: Global<Cell<u32>> = Global::new(Cell::new(0));

/// Words of the command line that switch something.
pub enum Word {
    /// A panic may use the emulator's exit device.
    DebugExit,
    /// SYSCALL leaves in the registers what the user had there.
    NoClear,
    /// SYSCALL does not try the IPC fast paths.
    NoFast,
    /// Translations are not tagged with their spaces.
    NoPcid,
    /// The console is shown on the screen.
    Screen,
    /// Threads may be put into windows though the processor knows no segment limits.
    SmallUnsafe,
    /// The root task may create tasks that run in supervisor mode.
    Supervisor,
    /// The local APICs are switched to x2APIC mode first, as some firmware leaves them.
    X2Apic,
    /// Likewise, and as if they were locked in it.
    X2ApicLocked,
}

/// The words, in the order of `Word`, as a command line has them.
pub(crate) const WORDS: &[u8] = b"debug-exit noclear nofast nopcid screen small-unsafe supervisor x2apic x2apic-locked";

/// Takes ranges out of a set of memory.
pub(crate) fn take(memory: &mut Memory, taken: impl IntoIterator<Item = Range>) {
    for range in taken {
        memory.remove(range).expect("the memory map has fewer pieces");
    }
}

/// Leaves so many pieces of memory and leaves nothing out, because what is in no piece is taken for
/// a device's. First the gaps between the firmware's pieces that are all RAM become the firmware's
/// too, which costs nothing: sigma0 looks at RAM first. Then the smallest pieces of free RAM beside
/// them do, then the gaps with devices, and last other RAM. How much free RAM was lost, if anything
/// was done.
pub(crate) fn limit(ram: &Memory, free: &mut Memory, firmware: &mut Memory, pieces: usize) -> Option<u64> {
    let devices = |gap: &Range| {
        let inside = ram.iter().map(|piece| Range::new(piece.start.max(gap.start), piece.end.min(gap.end)).size());
        gap.size() - inside.sum::<u64>()
    };
    let mut lost = None;
    while free.iter().count() + firmware.iter().count() > pieces {
        // What goes, with its place in that order, its cost, and whether it is free RAM.
        let gaps = firmware.gaps().map(|gap| (2 * (devices(&gap) > 0) as u8, devices(&gap), false, gap));
        let beside = |piece: Range| Range::new(piece.start.saturating_sub(1), piece.end.saturating_add(1));
        let order = |piece: Range| if firmware.overlaps(beside(piece)) { 1 } else { 3 };
        let free_pieces = free.iter().map(|piece| (order(piece), piece.size(), true, piece));
        let choice = gaps.chain(free_pieces).min_by_key(|(order, cost, ..)| (*order, *cost));
        let Some((.., is_free, range)) = choice.filter(|(.., range)| firmware.insert(*range).is_ok()) else { break };
        let piece = is_free.then_some(range);
        take(free, piece);
        lost = Some(lost.unwrap_or(0) + piece.map_or(0, Range::size));
    }
    lost
}

/// Whether a physical address is RAM that users may have.
pub fn is_ram(physical: PhysAddr) -> bool {
    FACTS.get().is_some_and(|facts| facts.users.contains(Range::new(physical.raw(), physical.raw() + 1)))
}

/// Whether the command line has a word.
pub fn has_word(word: Word) -> bool {
    WORDS_GIVEN.get() >> word as u32 & 1 == 1
}
