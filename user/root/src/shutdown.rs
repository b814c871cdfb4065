// SPDX-License-Identifier: BSD-2-Clause
//! Shutdown of the machine: by QEMU's exit port if it exists, otherwise by ACPI, otherwise by the
//! methods that PCs have in common.
//!
//! Ports and registers are claimed at the start, so that no request can fail at the end. Shutdown
//! does not depend on Linux, which has the same registers. Only a requested power off or reboot
//! touches the hardware: after a failure the machine halts, so that the log stays on the screen.

use crate::log;
use crate::machine::{firmware, is_outside};
use core::cell::OnceCell;
use core::sync::atomic::{AtomicBool, Ordering};
use keel_l4::abi::acpi;
use keel_l4::abi::fpage::{PAGE_SHIFT, PAGE_SIZE};
use keel_l4::device::{input, input_word, output, output_word, Registers};
use keel_l4::kip::kip;
use keel_l4::protocol::boot::{
    DEBUG_EXIT_PORT, EXIT_PORTS_LOG2, SHUTDOWN_POWER_OFF, SHUTDOWN_REBOOT, SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED,
};
use keel_l4::ranges::Range;
use keel_l4::{ipc, println, sigma0, thread};
use keel_root::power::{objects, soft_off, Control, Off, Power, Register, FIXED, MORE_OBJECTS, OBJECTS};

/// Time for a method to have its effect: QEMU continues for a moment (from version 9 on), and a
/// power supply needs some time.
const END_TAKES_NS: u64 = 1_000_000_000;
/// How often the control registers' owner is polled, and the pause between two polls.
const LOOKS: u32 = 3000;
const LOOK_NS: u64 = 1_000_000;
/// Log2 of the ports of a control register.
const CONTROL_LOG2: u8 = 1;
/// The value of a port without a device. QEMU's exit port reads as zero.
const NO_DEVICE: u8 = 0xff;
/// The chipset's reset register: select a full reset, then start it.
const CHIPSET: u16 = 0xcf9;
const CHIPSET_CHOOSE: u8 = 0x02;
const CHIPSET_BEGIN: u8 = 0x06;
/// The keyboard controller's status and command port; the bit of a pending command; the command
/// that pulses the reset line.
const KEYBOARD: u16 = 0x64;
const KEYBOARD_FULL: u8 = 1 << 1;
const KEYBOARD_RESET: u8 = 0xfe;

/// A one-byte register that the root task has.
enum Reached {
    Port(u16),
    Memory(Registers, u64),
}

impl Reached {
    fn open(register: Register) -> Option<Reached> {
        let address = match register {
            Register::Port(port) => return claim(port, 0).then_some(Reached::Port(port)),
            Register::Memory(address) => address,
        };
        let page = address / PAGE_SIZE * PAGE_SIZE;
        if !is_outside(Range::new(page, page.checked_add(PAGE_SIZE)?)) {
            return None;
        }
        Some(Reached::Memory(Registers::map(page, PAGE_SHIFT as u8).ok()?, address - page))
    }

    fn write(&self, value: u8) {
        match self {
            Reached::Port(port) => output(*port, value),
            Reached::Memory(registers, offset) => registers.write_byte(*offset, value),
        }
    }
}

/// The methods of shutdown without an exit port.
struct Ways {
    off: Option<Off>,
    /// The sleep control register, if that is the method.
    sleep: Option<Reached>,
    reset: Option<(Reached, u8)>,
    has_chipset: bool,
    has_keyboard: bool,
}

/// State of the root task's only thread.
struct Kept(OnceCell<Ways>);

// SAFETY: the root task has one thread.
unsafe impl Sync for Kept {}

static HAS_EXIT: AtomicBool = AtomicBool::new(false);
static WAYS: Kept = Kept(OnceCell::new());

/// Gets 2^`log2` ports.
fn claim(port: u16, log2: u8) -> bool {
    sigma0::ports(port, log2).is_ok()
}

/// Finds the exit port. A PC has no device there: the ports from 0xf0 on belonged to a coprocessor.
pub fn find_exit() {
    let port = DEBUG_EXIT_PORT as u16;
    HAS_EXIT.store(claim(port, EXIT_PORTS_LOG2 as u8) && input(port) != NO_DEVICE, Ordering::Relaxed);
}

/// Finds the methods to power the machine off and to reset it.
pub fn find() {
    let power =
        acpi::find_map(kip().rsdp, FIXED, &mut firmware, Some).map(|fixed| Power::new(fixed, sleep_types(fixed)));
    let Power { off, reset } = power.unwrap_or_default();
    // Set once.
    let _ = WAYS.0.set(Ways {
        off: off.filter(|off| match off {
            Off::Control { registers, enable } => {
                registers.iter().flatten().all(|control| claim(control.port, CONTROL_LOG2))
                    && enable.is_none_or(|(port, _)| claim(port, 0))
            }
            Off::Sleep(..) => true,
        }),
        sleep: match off {
            Some(Off::Sleep(register, _)) => Reached::open(register),
            _ => None,
        },
        reset: reset.and_then(|(register, value)| Some((Reached::open(register)?, value))),
        has_chipset: claim(CHIPSET, 0),
        has_keyboard: claim(KEYBOARD, 0),
    });
}

/// The sleep types of S5, from the first AML table that has them.
fn sleep_types(fixed: &[u8]) -> Option<[u8; 2]> {
    let first = objects(fixed).and_then(|at| acpi::table(at, OBJECTS, &mut firmware)).and_then(soft_off);
    first.or_else(|| acpi::find_map(kip().rsdp, MORE_OBJECTS, &mut firmware, soft_off))
}

impl Ways {
    fn power_off(&self) {
        match self.off {
            Some(Off::Control { registers, enable }) => {
                if let [Some(first), _] = registers {
                    enable_acpi(first, enable);
                }
                // The type first, as ACPI 6.4, 16.1.6 requires for hardware that needs two writes.
                for begin in [0, Control::BEGIN] {
                    for Control { port, value } in registers.into_iter().flatten() {
                        output_word(port, input_word(port) & !Control::MASK | value | begin);
                    }
                }
            }
            Some(Off::Sleep(_, value)) => self.sleep.iter().for_each(|register| register.write(value)),
            None => {}
        }
        ipc::sleep(END_TAKES_NS);
    }

    fn reset(&self) {
        if let Some((register, value)) = &self.reset {
            register.write(*value);
            ipc::sleep(END_TAKES_NS);
        }
        if self.has_chipset {
            output(CHIPSET, CHIPSET_CHOOSE);
            output(CHIPSET, CHIPSET_BEGIN);
            ipc::sleep(END_TAKES_NS);
        }
        if self.has_keyboard {
            look_until(|| input(KEYBOARD) & KEYBOARD_FULL == 0);
            output(KEYBOARD, KEYBOARD_RESET);
            ipc::sleep(END_TAKES_NS);
        }
    }
}

/// Asks the firmware to give the control registers to ACPI, if no Linux did so before.
fn enable_acpi(first: Control, enable: Option<(u16, u8)>) {
    let is_enabled = || input_word(first.port) & Control::ENABLED != 0;
    if let Some((port, value)) = enable.filter(|_| !is_enabled()) {
        output(port, value);
        look_until(is_enabled);
    }
}

/// Polls for a condition, with a limit.
fn look_until(is_so: impl Fn() -> bool) {
    let _ = (0..LOOKS).any(|_| {
        let so = is_so();
        if !so {
            ipc::sleep(LOOK_NS);
        }
        so
    });
}

/// Shuts the machine down with `code` (`SHUTDOWN_*`). Sleeps without end if that is impossible, or
/// after a failure.
pub fn shut_down(code: u64) -> ! {
    log::drain();
    if HAS_EXIT.load(Ordering::Relaxed) {
        output(DEBUG_EXIT_PORT as u16, code as u8);
        ipc::sleep(END_TAKES_NS);
    }
    // The log has the code of the shutdown.
    match (WAYS.0.get(), code) {
        (Some(ways), SHUTDOWN_POWER_OFF | SHUTDOWN_TESTS_PASSED | SHUTDOWN_TESTS_FAILED) => {
            println!("root: the machine is powered off (code {code:#x})");
            log::drain();
            ways.power_off();
            println!("root: that had no effect; the machine halts and can be switched off");
        }
        (Some(ways), SHUTDOWN_REBOOT) => {
            println!("root: the machine is reset (code {code:#x})");
            log::drain();
            ways.reset();
            println!("root: that had no effect; the machine halts and can be reset by hand");
        }
        _ => println!("root: the machine halts (code {code:#x})"),
    }
    thread::park()
}
