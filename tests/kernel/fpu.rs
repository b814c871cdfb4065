// SPDX-License-Identifier: GPL-2.0-only
//! The size of an FPU state, from what CPUID says.

use super::*;

const ALL: u64 = 7;
const LEGACY: u64 = 3;
/// The offset of AVX's state, the same on every processor that has AVX.
const PLACE: [usize; 2] = [576, 256];

#[test]
fn a_state_has_room_for_each_component() {
    assert_eq!(area(LEGACY, 576, [0, 0]), Some(576));
    assert_eq!(area(ALL, 832, PLACE), Some(832));
}

/// If a hypervisor reports too small a size, the processor still does not write beyond a state.
#[test]
fn what_cpuid_tells_too_small_is_made_up_for() {
    assert_eq!(area(ALL, 0, PLACE), Some(832));
    assert_eq!(area(ALL, 576, [1024, 256]), Some(1280));
    assert_eq!(area(LEGACY, 0, PLACE), Some(576));
}

#[test]
fn a_state_that_is_too_large_is_refused() {
    assert_eq!(area(ALL, MAX_SIZE + 1, PLACE), None);
    assert_eq!(area(ALL, 832, [MAX_SIZE, 256]), None);
    assert_eq!(area(ALL, 832, [usize::MAX, 256]), None);
    assert_eq!(area(ALL, usize::MAX, PLACE), None);
    assert_eq!(area(ALL, MAX_SIZE, PLACE), Some(MAX_SIZE));
}
