// SPDX-License-Identifier: BSD-2-Clause
//! Threads that send or receive one long message and report the result to the worker.

use crate::case::{Fault, Outcome};
use crate::threads::{child_plan, make_child, own, park, Spawn, PAGER};
use core::cell::UnsafeCell;
use keel_l4::abi::call::{CALL_IPC, IPC_RECEIVE, KIND_USER, MAX_STRINGS, STATE_RECEIVING, STATE_SENDING};
use keel_l4::abi::{Status, StringItem};
use keel_l4::call::{invoke, Failure, Registers};
use keel_l4::ipc::{receive, send, sleep, Message, Received, Timeout};
use keel_l4::kip::now;
use keel_l4::protocol::status::failure;
use keel_l4::task::NewTask;
use keel_l4::{strings, thread, utcb, Error, Id, Side, Tag};

/// Threads that one case can use.
const POSTS: usize = 8;
const PARTS: usize = MAX_STRINGS as usize;
/// Nanoseconds between two checks of a thread's state, and the most that it may take to change.
const NAP: u64 = 100_000;
const PATIENCE: u64 = 5_000_000_000;

/// The job of a thread.
#[derive(Clone, Copy)]
pub struct Job {
    /// It receives; otherwise it sends.
    receives: bool,
    partner: Id,
    /// Its strings, or its buffers.
    parts: [StringItem; PARTS],
    count: usize,
    message: Message,
    /// How long page faults of the partner may take, in sends and in receives.
    faults: (Timeout, Timeout),
    worker: Id,
}

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The status.
    pub status: Result<(), Failure>,
    /// Sender and tag of the received message.
    pub from: Id,
    /// See `from`.
    pub tag: Tag,
    /// The received words.
    pub words: [u64; 6],
    /// The received strings.
    pub strings: [StringItem; PARTS],
}

const NOTHING: End = End {
    status: Ok(()),
    from: Id::NIL,
    tag: Tag(0),
    words: [0; 6],
    strings: [StringItem { address: 0, length: 0 }; PARTS],
};

impl End {
    /// The received strings, as many as the tag says.
    pub fn arrived(&self) -> &[StringItem] {
        &self.strings[..self.tag.strings() as usize]
    }
}

/// The jobs and their results. The worker writes a job before it starts the thread, and reads the
/// result after the thread has reported.
struct Table(UnsafeCell<[(Job, End); POSTS]>);

// SAFETY: see `Table`.
unsafe impl Sync for Table {}

const IDLE: Job = Job {
    receives: false,
    partner: Id::NIL,
    parts: [StringItem { address: 0, length: 0 }; PARTS],
    count: 0,
    message: Message::label(0),
    faults: (Timeout::Never, Timeout::Never),
    worker: Id::NIL,
};

static TABLE: Table = Table(UnsafeCell::new([(IDLE, NOTHING); POSTS]));

impl Job {
    /// Sends `parts` to `partner`.
    pub fn send(partner: Id, parts: &[StringItem]) -> Job {
        let mut job = Job { partner, count: parts.len(), worker: utcb::my_id(), ..IDLE };
        job.parts[..parts.len()].copy_from_slice(parts);
        job
    }

    /// Receives from `partner` into `parts`.
    pub fn receive(partner: Id, parts: &[StringItem]) -> Job {
        Job { receives: true, ..Job::send(partner, parts) }
    }

    /// With this tag and these words.
    pub fn with(self, message: Message) -> Job {
        Job { message, ..self }
    }

    /// With this timeout for page faults of the partner.
    pub fn within(self, faults: Timeout) -> Job {
        self.within_each(faults, faults)
    }

    /// With different timeouts for sends and for receives.
    pub fn within_each(self, sends: Timeout, receives: Timeout) -> Job {
        Job { faults: (sends, receives), ..self }
    }

    fn run(&self) -> End {
        strings::set_fault_timeouts(self.faults.0, self.faults.1);
        if !self.receives {
            let message = self.message.with_strings(&self.parts[..self.count]);
            return End { status: send(self.partner, message, Timeout::Never), ..NOTHING };
        }
        // SAFETY: the case provided this memory for the job.
        unsafe { strings::offer(&self.parts[..self.count]) };
        // Results that come with an error matter too, so the registers are read directly.
        let after = invoke(Registers { ax: CALL_IPC | IPC_RECEIVE, dx: self.partner.0, ..Registers::default() });
        let received = Received::from(after);
        let status = failure(Status(after.ax)).map_or(Ok(()), |(side, error)| Err(Failure { side, error }));
        let mut end = End { status, from: received.from, tag: received.tag, words: received.words, ..NOTHING };
        for (place, string) in end.strings.iter_mut().zip(strings::arrived(received.tag)) {
            *place = string;
        }
        end
    }
}

extern "C" fn main(number: u64) -> ! {
    // SAFETY: entry `number` belongs to this thread from its start to its report.
    let (job, end) = unsafe { &mut (*TABLE.0.get())[number as usize] };
    *end = job.run();
    let _ = end.status.inspect_err(|failure| crate::errors::note_message(*failure));
    let _ = send(job.worker, Message::label(0), Timeout::Never);
    park()
}

/// A thread with a job.
#[derive(Clone, Copy)]
pub struct Post {
    /// The thread.
    pub id: Id,
    number: usize,
}

impl Post {
    /// Prepares thread `number` of the suite's own task.
    pub fn create(number: usize) -> Result<Post, Failure> {
        Post::paged_by(Id::ROOT, number)
    }

    /// [`Post::create`] with a pager.
    pub fn paged_by(pager: Id, number: usize) -> Result<Post, Failure> {
        let id = Spawn { pager, ..Spawn::new(main, number as u64) }.create()?;
        Ok(Post { id, number })
    }

    /// Starts the thread.
    pub fn start(&self, job: Job) -> Result<(), Failure> {
        // SAFETY: the thread does not run yet.
        unsafe { (*TABLE.0.get())[self.number] = (job, NOTHING) };
        thread::act(self.id, keel_l4::abi::memory::EX_START).map(|_| ())
    }

    /// Starts the thread and waits until it waits for its partner.
    pub fn start_and_wait(&self, job: Job) -> Outcome {
        self.start(job)?;
        self.reaches(if job.receives { STATE_RECEIVING } else { STATE_SENDING })
    }

    /// Starts `job` in a child task that shares the suite's memory.
    pub fn in_child(number: usize, job: Job) -> Result<Post, Failure> {
        Post::in_child_paged_by(own(PAGER), number, job)
    }

    /// [`Post::in_child`] with a pager.
    pub fn in_child_paged_by(pager: Id, number: usize, job: Job) -> Result<Post, Failure> {
        // SAFETY: the thread does not exist yet.
        unsafe { (*TABLE.0.get())[number] = (job, NOTHING) };
        let child = make_child(&NewTask { pager: pager.0, ..child_plan(main, number as u64) })?;
        Ok(Post { id: child.thread, number })
    }

    /// Its present state (`STATE_*`) and partner.
    pub fn state(&self) -> Result<(u64, Id), Failure> {
        thread::schedule(self.id, 0, 0, 0).map(|told| (told.state, told.partner))
    }

    /// Waits until its state is `state`.
    pub fn reaches(&self, state: u64) -> Outcome {
        self.until(|told| told.0 == state)
    }

    /// Waits until its state is `state`, with `partner`.
    pub fn reaches_with(&self, state: u64, partner: Id) -> Outcome {
        self.until(|told| told == (state, partner))
    }

    fn until(&self, right: impl Fn((u64, Id)) -> bool) -> Outcome {
        let end = now() + PATIENCE;
        let mut last = self.state()?;
        while !right(last) {
            if now() > end {
                return Err(Fault::new(format_args!("expected another state of a thread than {last:?}")));
            }
            sleep(NAP);
            last = self.state()?;
        }
        Ok(())
    }

    /// The result of its job. An earlier fault message of the thread is no report.
    pub fn end(&self) -> Result<End, Failure> {
        while receive(self.id, Timeout::Never)?.tag.kind() != KIND_USER {}
        // SAFETY: the thread has reported.
        Ok(unsafe { (*TABLE.0.get())[self.number].1 })
    }
}

/// A failure, as a status.
pub const fn failed(side: Side, error: Error) -> Result<(), Failure> {
    Err(Failure { side, error })
}
