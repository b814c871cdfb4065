// SPDX-License-Identifier: BSD-2-Clause
//! The root task's services to the tasks it started: their page faults, their output, the end of
//! the machine, and what happens when one of them fails.

use crate::launch::Running;
use crate::machine::end;
use crate::uart;
use keel_l4::abi::boot::{
    END_PANIC, END_POWER_OFF, END_REBOOT, END_TESTS_FAILED, END_TESTS_PASSED, ROOT_END, ROOT_PRINT,
};
use keel_l4::abi::call::{KIND_EXCEPTION, KIND_PAGE_FAULT, KIND_TRIGGER, KIND_USER, REGISTER_WORDS};
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_WRITE};
use keel_l4::abi::Frame;
use keel_l4::ipc::{send_and_wait, wait, Message, Received, Timeout};
use keel_l4::print::unpack;
use keel_l4::{println, utcb, Error, Side};
use keel_root::lines::Lines;

/// What the loop works on.
pub struct Service<'a> {
    tasks: &'a [Running<'a>],
    stop_on_panic: bool,
    lines: Lines,
}

impl<'a> Service<'a> {
    /// Serves `tasks`; a server's panic ends the machine if `stop_on_panic`.
    pub fn new(tasks: &'a [Running<'a>], stop_on_panic: bool) -> Service<'a> {
        Service { tasks, stop_on_panic, lines: Lines::new() }
    }

    /// Serves for ever.
    pub fn run(mut self) -> ! {
        let mut next = wait(Timeout::Never);
        loop {
            next = match next {
                Ok(received) => match self.answer(&received) {
                    Some(reply) => {
                        let result = send_and_wait(received.from, reply, Timeout::Zero, Timeout::Never);
                        if matches!(result, Err(f) if f.side == Side::Send && f.error == Error::NoMemory) {
                            self.fail(&received, "the kernel has no memory left for its mappings");
                        }
                        result
                    }
                    None => wait(Timeout::Never),
                },
                Err(_) => wait(Timeout::Never),
            };
        }
    }

    fn answer(&mut self, received: &Received) -> Option<Message> {
        match (received.tag.kind(), received.tag.label() as u64) {
            (KIND_PAGE_FAULT, access) => self.page_fault(received, access),
            (KIND_EXCEPTION | KIND_TRIGGER, _) => {
                self.exception(received);
                None
            }
            (KIND_USER, ROOT_PRINT) => {
                let (bytes, used) = unpack(&received.words);
                self.lines.add(received.from.task(), &bytes[..used], uart::write);
                Some(Message::label(0))
            }
            (KIND_USER, ROOT_END) => self.end_of_machine(received),
            (KIND_USER, _) => Some(Message::label(Error::NotSupported as u32)),
            _ => None,
        }
    }

    fn task(&self, received: &Received) -> Option<&'a Running<'a>> {
        self.tasks.iter().find(|t| t.number == received.from.task())
    }

    fn page_fault(&mut self, received: &Received, access: u64) -> Option<Message> {
        let [address, ip, ..] = received.words;
        match self.task(received).and_then(|task| task.pages.answer(address, access)) {
            Some(items) => Some(Message::label(0).with_maps(&items)),
            None => {
                let how = match access {
                    FPAGE_WRITE => "write to",
                    FPAGE_EXEC => "jump to",
                    _ => "read of",
                };
                self.lines.flush(uart::write);
                println!("root: {} {how} {address:#x} at ip {ip:#x}", self.name(received));
                self.fail(received, "a page fault that nobody answers");
                None
            }
        }
    }

    fn exception(&mut self, received: &Received) {
        self.lines.flush(uart::write);
        let frame = frame(received);
        println!(
            "root: {} exception {} error {:#x} ip {:#x} sp {:#x} flags {:#x}",
            self.name(received),
            received.tag.label(),
            received.words[0],
            frame.ip,
            frame.sp,
            frame.flags
        );
        println!(
            "root: ax {:#x} bx {:#x} cx {:#x} dx {:#x} si {:#x} di {:#x} bp {:#x}",
            frame.ax, frame.bx, frame.cx, frame.dx, frame.si, frame.di, frame.bp
        );
        println!(
            "root: r8 {:#x} r9 {:#x} r10 {:#x} r11 {:#x} r12 {:#x} r13 {:#x} r14 {:#x} r15 {:#x}",
            frame.r8, frame.r9, frame.r10, frame.r11, frame.r12, frame.r13, frame.r14, frame.r15
        );
        self.fail(received, "an exception that nobody handles");
    }

    fn name(&self, received: &Received) -> &'a str {
        self.task(received).map_or("a task of another's clan", |t| t.name)
    }

    /// The thread never gets its answer, so it stands still. A server's failure is its panic.
    fn fail(&mut self, received: &Received, why: &str) {
        self.lines.flush(uart::write);
        println!("root: task {}: thread {:?} stopped: {why}", self.name(received), received.from);
        if self.task(received).is_some_and(|t| t.server) {
            self.panicked();
        }
    }

    fn panicked(&mut self) {
        if self.stop_on_panic {
            end(END_PANIC);
        }
        println!("root: the other tasks run on");
    }

    fn end_of_machine(&mut self, received: &Received) -> Option<Message> {
        let Some(task) = self.task(received).filter(|t| t.may_end) else {
            return Some(Message::label(Error::Denied as u32));
        };
        let code = received.words[0];
        self.lines.flush(uart::write);
        match code {
            END_POWER_OFF | END_REBOOT | END_TESTS_PASSED | END_TESTS_FAILED => {
                let what = match code {
                    END_POWER_OFF => "power off",
                    END_REBOOT => "reboot",
                    END_TESTS_PASSED => "tests passed",
                    _ => "tests failed",
                };
                println!("root: task {}: {what}", task.name);
                end(code)
            }
            END_PANIC => {
                println!("root: task {} panicked", task.name);
                self.panicked();
                None
            }
            _ => Some(Message::label(Error::Invalid as u32)),
        }
    }
}

/// The frame in an exception message of a native thread, in words 6 and up.
fn frame(received: &Received) -> Frame {
    let mut frame = Frame::zeroed();
    let words = (&raw mut frame).cast::<u64>();
    let count = (received.tag.words() as usize).saturating_sub(REGISTER_WORDS as usize);
    for index in 0..count.min(size_of::<Frame>() / 8) {
        // SAFETY: the frame consists of that many words.
        unsafe { words.add(index).write(utcb::word(REGISTER_WORDS as usize + index)) };
    }
    frame
}
