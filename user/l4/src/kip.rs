// SPDX-License-Identifier: BSD-2-Clause
//! The kernel interface page (KIP) of a task whose kernel area is at the default address: memory
//! regions, boot modules, the clock. The kernel writes the page at boot; it never changes later.

use core::cell::UnsafeCell;
use keel_abi::fpage::{FPAGE_READ, PAGE_SHIFT};
use keel_abi::memory::{AREA_DEFAULT, AREA_KIP, KIP_MODULES, KIP_REGIONS};
use keel_abi::{Fpage, Info, Region};

/// A boot module: its physical memory and its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Its command line, path first.
    pub command_line: &'a [u8],
}

impl<'a> Module<'a> {
    /// Base name of the first word of the command line.
    pub fn name(&self) -> &'a [u8] {
        let first = self.command_line.split(|b| b.is_ascii_whitespace()).next().unwrap_or(&[]);
        first.rsplit(|b| *b == b'/').next().unwrap_or(&[])
    }
}

/// The KIP of the calling task. The kernel area must be at `AREA_DEFAULT`.
pub fn kip() -> &'static Info {
    // SAFETY: the caller's task has it there.
    unsafe { kip_at(AREA_DEFAULT) }
}

/// The KIP of the calling task, whose kernel area is at another address.
///
/// # Safety
/// The kernel area is at `area`.
pub unsafe fn kip_at(area: u64) -> &'static Info {
    // SAFETY: the kernel maps this page read-only into every task whose kernel area is at this
    // address, and never changes it after the start.
    unsafe { &*((area + AREA_KIP) as *const Info) }
}

/// The page for `mappable_copy`.
#[repr(C, align(4096))]
struct KipCopy(UnsafeCell<Info>);

// SAFETY: `mappable_copy` is the only access, and its callers guarantee one thread at a time.
unsafe impl Sync for KipCopy {}

static KIP_COPY: KipCopy = KipCopy(UnsafeCell::new(Info::zeroed()));

/// Copies the KIP into a page of the program and returns that page. The kernel's own page cannot be
/// mapped on.
///
/// # Safety
/// One thread at a time.
pub unsafe fn mappable_copy() -> Fpage {
    // SAFETY: by this function's own contract.
    unsafe { *KIP_COPY.0.get() = *kip() };
    Fpage::memory(KIP_COPY.0.get() as u64, PAGE_SHIFT as u8, FPAGE_READ)
}

/// The memory regions of a KIP.
pub fn regions(page: &Info) -> impl Iterator<Item = Region> + '_ {
    let count = page.region_count.min(KIP_REGIONS) as usize;
    page.regions.chunks_exact(3).take(count).map(|r| Region { start: r[0], end: r[1], kind: r[2] })
}

/// The boot modules of a KIP.
pub fn modules(page: &Info) -> impl Iterator<Item = Module<'_>> {
    let count = page.module_count.min(KIP_MODULES) as usize;
    page.modules.chunks_exact(3).take(count).map(|m| Module { start: m[0], end: m[1], command_line: text(page, m[2]) })
}

/// The words of the kernel's command line in a KIP.
pub fn kernel_words(page: &Info) -> impl Iterator<Item = &[u8]> {
    text(page, page.command_line).split(|byte| byte.is_ascii_whitespace())
}

/// The zero-terminated bytes at `offset` in the page; empty if the offset is outside it.
fn text(page: &Info, offset: u64) -> &[u8] {
    // SAFETY: the page is a plain array of words, so all its bytes are initialised and readable.
    let bytes = unsafe { core::slice::from_raw_parts((page as *const Info).cast::<u8>(), size_of::<Info>()) };
    let from = bytes.get(offset as usize..).unwrap_or(&[]);
    &from[..from.iter().position(|b| *b == 0).unwrap_or(from.len())]
}

/// The kernel time in nanoseconds, computed from the time-stamp counter.
pub fn now() -> u64 {
    time(kip())
}

/// [`now`], by this KIP.
pub fn time(page: &Info) -> u64 {
    // SAFETY: reading the time-stamp counter touches nothing.
    let tsc = unsafe { core::arch::x86_64::_rdtsc() };
    let ticks = tsc.saturating_sub(page.tsc_base) as u128;
    ((ticks * page.tsc_mult as u128) >> page.tsc_shift) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_by_its_base_name() {
        let name = |line: &'static str| Module { start: 0, end: 0, command_line: line.as_bytes() }.name();
        assert_eq!(name("/boot/x/vmlinux console=/dev/ttyS0"), b"vmlinux");
        assert_eq!(name("boot.conf"), b"boot.conf");
        assert_eq!(name(""), b"");
        assert_eq!(name("dir/ a"), b"");
    }

    #[test]
    fn text_ends_inside_the_page() {
        let mut page = Info::zeroed();
        page.module_count = 99;
        page.modules[2] = 4095;
        page.modules[5] = u64::MAX;
        page.strings[203] = u64::MAX;
        assert_eq!(modules(&page).next().map(|m| m.command_line.len()), Some(1));
        assert_eq!(modules(&page).nth(1).map(|m| m.command_line.len()), Some(0));
        assert_eq!(modules(&page).count(), KIP_MODULES as usize);
    }
}
