// SPDX-License-Identifier: BSD-2-Clause
//! The root task's services for its tasks: page faults, output, shutdown, requests to sigma0, and
//! the failure of a task.
//!
//! The cost of a mapping depends on what the receiver already has mapped, so the receiver controls
//! it. The root task therefore maps at a priority just above the client's maximum, to avoid
//! priority inversion.

use crate::iommu::Iommu;
use crate::launch::{Running, PRIORITIES_ABOVE};
use crate::log;
use crate::machine::obtain;
use crate::restart::{set_priority, Maker};
use crate::shutdown::shut_down;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_USER, REGISTER_WORDS};
use keel_l4::abi::fpage::CACHE_WRITE_BACK;
use keel_l4::abi::Frame;
use keel_l4::call::Failure;
use keel_l4::ipc::{send, send_as, Message, Received, Timeout};
use keel_l4::kip::mappable_copy;
use keel_l4::lines::Lines;
use keel_l4::message::{reply, Request as _};
use keel_l4::pager::Fault;
use keel_l4::protocol::boot::{
    SHUTDOWN_PANIC, SHUTDOWN_POWER_OFF, SHUTDOWN_REBOOT, SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED,
};
use keel_l4::root::Request;
use keel_l4::server::{self, Server};
use keel_l4::sigma0::{self, give};
use keel_l4::{println, utcb, Error, Id};
use keel_root::config::{Config, OnPanic};
use keel_root::grants::Grants;

/// The state of the loop.
pub struct Service<'a> {
    pub(crate) tasks: &'a mut [Running<'a>],
    on_panic: OnPanic,
    restarts_on_reboot: bool,
    lines: Lines,
    iommu: Option<&'a Iommu>,
}

impl<'a> Service<'a> {
    /// Serves `tasks` as the configuration says. Accesses that the `iommu` refused are logged at
    /// the tasks' requests.
    pub fn new(tasks: &'a mut [Running<'a>], config: &Config<'a>, iommu: Option<&'a Iommu>) -> Service<'a> {
        let Config { on_panic, restarts_on_reboot, .. } = *config;
        Service { tasks, on_panic, restarts_on_reboot, lines: Lines::new(), iommu }
    }

    /// Serves in an endless loop; `maker` restarts failed tasks.
    pub fn run(mut self, maker: &mut Maker<'a>) -> ! {
        loop {
            server::run_until(&mut self, |service| service.failed().is_some());
            if let Some(index) = self.failed() {
                maker.restart(&mut self, index);
            }
        }
    }

    fn failed(&self) -> Option<usize> {
        self.tasks.iter().position(|task| task.failed)
    }

    fn task(&self, thread: Id) -> Option<&Running<'a>> {
        self.tasks.iter().find(|t| t.number == thread.task())
    }

    fn name(&self, thread: Id) -> &'a str {
        self.task(thread).map_or("a task of another's clan", |t| t.name)
    }

    /// Leaves the thread without an answer, so that it stays blocked. The failure of a task that
    /// may shut the machine down is its panic.
    fn fail(&mut self, thread: Id, why: &str) {
        self.lines.flush(log::write);
        println!("root: task {}: thread {thread:?} stopped: {why}", self.name(thread));
        if self.task(thread).is_some_and(|t| t.may_shut_down) {
            self.panicked(thread);
        }
    }

    fn panicked(&mut self, thread: Id) {
        match self.on_panic {
            OnPanic::Stop => shut_down(SHUTDOWN_PANIC),
            OnPanic::Continue => println!("root: the other tasks continue"),
            OnPanic::Restart => self.restart_later(thread),
        }
    }

    fn restart_later(&mut self, thread: Id) {
        let task = self.tasks.iter_mut().find(|task| task.number == thread.task());
        task.expect("only a task of the configuration may shut down").failed = true;
    }

    /// Answers with a mapping, at a priority just above all threads of the client's task, with
    /// `answering` as the virtual sender where that is another thread. Returns an answer that the
    /// caller must send in the usual way. If the receiver did not take the message, the kernel
    /// reported the error to a client that asked for memory; a client that faulted stays blocked.
    fn give(&mut self, client: Id, answering: Option<Id>, message: Message) -> Result<Option<Message>, Failure> {
        let task = self.task(client).filter(|_| message.tag.maps() > 0);
        let Some(priority) = task.map(|task| task.priority) else { return Ok(Some(message)) };
        let ours = set_priority(priority + PRIORITIES_ABOVE + 1);
        let sent = match answering {
            Some(id) => send_as(id, client, message, Timeout::Zero),
            None => send(client, message, Timeout::Zero),
        };
        set_priority(ours);
        sent.map(|()| None)
    }

    fn not_given(&mut self, client: Id, failure: Failure) {
        if failure.error == Error::NoMemory {
            self.fail(client, "the kernel has no memory left for its mappings");
        }
    }

    /// A task that may shut the machine down may also restart a task of lower priority.
    fn restart(&mut self, number: u64, client: Id) -> Result<(), Error> {
        let asking = *self.task(client).filter(|task| task.may_shut_down).ok_or(Error::Denied)?;
        let mut others = self.tasks.iter_mut().filter(|task| task.may_restart && task.priority < asking.priority);
        let task = others.find(|task| task.number as u64 == number).ok_or(Error::Denied)?;
        task.failed = true;
        self.lines.flush(log::write);
        println!("root: task {}: will be restarted for task {}", task.name, asking.name);
        Ok(())
    }

    fn shut_down_for(&mut self, code: u64, client: Id) -> Option<Message> {
        if !self.task(client).is_some_and(|t| t.may_shut_down) {
            return Some(reply::<()>(Err(Error::Denied)));
        }
        let name = self.name(client);
        self.lines.flush(log::write);
        match code {
            SHUTDOWN_REBOOT if self.restarts_on_reboot => {
                println!("root: task {name}: reboot");
                self.restart_later(client);
                None
            }
            SHUTDOWN_POWER_OFF | SHUTDOWN_REBOOT | SHUTDOWN_TESTS_PASSED | SHUTDOWN_TESTS_FAILED => {
                let what = match code {
                    SHUTDOWN_POWER_OFF => "power off",
                    SHUTDOWN_REBOOT => "reboot",
                    SHUTDOWN_TESTS_PASSED => "tests passed",
                    _ => "tests failed",
                };
                println!("root: task {name}: {what}");
                shut_down(code)
            }
            SHUTDOWN_PANIC => {
                println!("root: task {name} panicked");
                self.panicked(client);
                None
            }
            _ => Some(reply::<()>(Err(Error::Invalid))),
        }
    }
}

impl Server for Service<'_> {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        if let Some(iommu) = self.iommu {
            iommu.report();
        }
        match request {
            Request::Print { text } => {
                self.lines.add(received.from.task(), &text, log::write);
                Some(reply(Ok(())))
            }
            Request::Shutdown { code } => self.shut_down_for(code, received.from),
            Request::Restart { task } => Some(reply(self.restart(task, received.from))),
        }
    }

    /// sigma0 is the only task outside the clan.
    fn redirected(&mut self, received: &Received, destination: Id) -> Option<Message> {
        let grants = self.tasks.iter_mut().find(|t| t.number == received.from.task()).map(|t| &mut t.grants);
        let answer = match (received.tag.kind(), grants) {
            (KIND_USER, Some(grants)) => Some(in_place_of_sigma0(grants, received)),
            (KIND_USER, None) => Some(reply::<()>(Err(Error::Denied))),
            (KIND_PAGE_FAULT, Some(grants)) => {
                let page = grants.fault(Fault::of(received).address);
                if page.is_err() {
                    let name = self.name(received.from);
                    println!("root: task {name}: thread {:?} stopped: sigma0 has no such page for it", received.from);
                }
                page.is_ok().then(|| give(page))
            }
            _ => None,
        };
        let given = self.give(received.from, Some(destination), answer?);
        if let (KIND_PAGE_FAULT, &Err(failure)) = (received.tag.kind(), &given) {
            self.not_given(received.from, failure);
        }
        given.unwrap_or(None)
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let items = self.task(fault.thread).and_then(|task| task.pages.answer(fault.address, fault.access));
        if items.is_none() {
            self.lines.flush(log::write);
            println!("root: {} {fault}", self.name(fault.thread));
            self.fail(fault.thread, "an unresolved page fault");
        }
        let message = items.map(|items| Message::label(0).with_maps(&items));
        let given = self.give(fault.thread, None, message?);
        given.unwrap_or_else(|failure| {
            self.not_given(fault.thread, failure);
            None
        })
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
        self.fail(received.from, "an unhandled exception");
        None
    }

    fn undelivered(&mut self, received: &Received, failure: Failure) {
        self.not_given(received.from, failure);
    }
}

/// Answers a task's request to sigma0 within its grants.
fn in_place_of_sigma0(grants: &mut Grants, received: &Received) -> Message {
    match sigma0::Request::decode(received) {
        Ok(sigma0::Request::Map { fpage }) => give(grants.map(fpage).and_then(|fpage| {
            // The root task got all RAM at the start.
            let here = !fpage.is_io() && fpage.cache() == CACHE_WRITE_BACK;
            let obtained = if here { Ok(()) } else { obtain(fpage) };
            obtained.map(|()| fpage).map_err(|failure| failure.error)
        })),
        Ok(sigma0::Request::Any { fpage }) => give(grants.any(fpage)),
        // SAFETY: the root task has one thread.
        Ok(sigma0::Request::Kip) => give(Ok(unsafe { mappable_copy() })),
        Ok(sigma0::Request::Interrupt { gsi }) => reply(grants.gsi(gsi)),
        Err(error) => reply::<()>(Err(error)),
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
