// SPDX-License-Identifier: BSD-2-Clause
//! The root task's services to the tasks it started: their page faults, their output, the end of
//! the machine, and what happens when one of them fails.

use crate::launch::Running;
use crate::log;
use crate::machine::end;
use keel_l4::abi::boot::{END_PANIC, END_POWER_OFF, END_REBOOT, END_TESTS_FAILED, END_TESTS_PASSED};
use keel_l4::abi::call::REGISTER_WORDS;
use keel_l4::abi::Frame;
use keel_l4::call::Failure;
use keel_l4::ipc::{Message, Received};
use keel_l4::lines::Lines;
use keel_l4::message::reply;
use keel_l4::pager::Fault;
use keel_l4::root::Request;
use keel_l4::server::{self, Server};
use keel_l4::{println, utcb, Error, Id};

/// What the loop works on.
pub struct Service<'a> {
    tasks: &'a [Running<'a>],
    stop_on_panic: bool,
    lines: Lines,
}

impl<'a> Service<'a> {
    /// Serves `tasks`; the panic of one that may end the machine does so if `stop_on_panic`.
    pub fn new(tasks: &'a [Running<'a>], stop_on_panic: bool) -> Service<'a> {
        Service { tasks, stop_on_panic, lines: Lines::new() }
    }

    /// Serves for ever.
    pub fn run(mut self) -> ! {
        server::run(&mut self)
    }

    fn task(&self, thread: Id) -> Option<&'a Running<'a>> {
        self.tasks.iter().find(|t| t.number == thread.task())
    }

    fn name(&self, thread: Id) -> &'a str {
        self.task(thread).map_or("a task of another's clan", |t| t.name)
    }

    /// The thread never gets its answer, so it stands still. The failure of a task that may end the machine is
    /// its panic.
    fn fail(&mut self, thread: Id, why: &str) {
        self.lines.flush(log::write);
        println!("root: task {}: thread {thread:?} stopped: {why}", self.name(thread));
        if self.task(thread).is_some_and(|t| t.may_end) {
            self.panicked();
        }
    }

    fn panicked(&mut self) {
        if self.stop_on_panic {
            end(END_PANIC);
        }
        println!("root: the other tasks run on");
    }

    fn end_of_machine(&mut self, code: u64, client: Id) -> Option<Message> {
        let Some(task) = self.task(client).filter(|t| t.may_end) else {
            return Some(reply::<()>(Err(Error::Denied)));
        };
        self.lines.flush(log::write);
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
            _ => Some(reply::<()>(Err(Error::Invalid))),
        }
    }
}

impl Server for Service<'_> {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        match request {
            Request::Print { text } => {
                self.lines.add(received.from.task(), &text, log::write);
                Some(reply(Ok(())))
            }
            Request::End { code } => self.end_of_machine(code, received.from),
        }
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let items = self.task(fault.thread).and_then(|task| task.pages.answer(fault.address, fault.access));
        if items.is_none() {
            self.lines.flush(log::write);
            println!("root: {} {fault}", self.name(fault.thread));
            self.fail(fault.thread, "a page fault that nobody answers");
        }
        items.map(|items| Message::label(0).with_maps(&items))
    }

    fn exception(&mut self, received: &Received) -> Option<Message> {
        self.lines.flush(log::write);
        let frame = frame(received);
        println!(
            "root: {} exception {} error {:#x} ip {:#x} sp {:#x} flags {:#x}",
            self.name(received.from),
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
        self.fail(received.from, "an exception that nobody handles");
        None
    }

    fn undelivered(&mut self, received: &Received, failure: Failure) {
        if failure.error == Error::NoMemory {
            self.fail(received.from, "the kernel has no memory left for its mappings");
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
