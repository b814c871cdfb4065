// SPDX-License-Identifier: GPL-2.0-only
//! The transitions from each mode of a local APIC to each that is used, against the manual's state
//! diagram.

use super::*;

const OFF: u64 = 0;
const XAPIC: u64 = ON;
const X2APIC: u64 = ON | X2;
/// The boot processor's flag and the usual address, which stay.
const REST: u64 = 0xfee0_0100;

/// The transitions that the processor allows (Intel SDM volume 3, figure 11-27); any other one is a
/// #GP.
fn is_allowed(from: u64, to: u64) -> bool {
    matches!((from, to), (OFF, XAPIC) | (XAPIC, OFF) | (XAPIC, X2APIC) | (X2APIC, OFF))
}

#[test]
fn every_mode_is_reached_by_allowed_steps() {
    for from in [OFF, XAPIC, X2APIC] {
        for wanted in [XAPIC, X2APIC] {
            let mut now = from;
            for value in changes(REST | from, wanted) {
                assert_eq!(value & !(ON | X2), REST);
                let next = value & (ON | X2);
                assert!(is_allowed(now, next), "{now:#x} to {next:#x}, on the way from {from:#x} to {wanted:#x}");
                now = next;
            }
            assert_eq!(now, wanted);
        }
    }
}

#[test]
fn what_is_right_already_is_not_written() {
    assert_eq!(changes(REST | XAPIC, XAPIC).count() + changes(REST | X2APIC, X2APIC).count(), 0);
}

#[test]
fn large_ids_and_the_lock_need_it() {
    assert!(!is_needed(false, [0, 1, 254].into_iter()));
    assert!(is_needed(false, [0, 255].into_iter()));
    assert!(is_needed(true, [0].into_iter()));
}
