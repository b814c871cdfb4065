// SPDX-License-Identifier: BSD-2-Clause
//! The loop of a server: one open wait, then one ipc for each message, which delivers the answer
//! and waits for the next message.
//!
//! [`serve`] is for a function from request to reply. A [`Server`] keeps state, may answer later,
//! and also receives faults, exceptions, preemptions, interrupts and notifications.

use crate::call::Failure;
use crate::ipc::{send, send_and_wait, send_as, send_as_and_wait, wait, Message, Received, Timeout};
use crate::message::{reply, Field, Request};
use crate::pager::Fault;
use crate::preempter::Preemption;
use crate::utcb;
use keel_abi::call::{
    KIND_EXCEPTION, KIND_INTERRUPT, KIND_NOTIFY, KIND_PAGE_FAULT, KIND_PREEMPTION, KIND_TRIGGER, KIND_USER,
    TAG_FROM_OUTSIDE, TAG_REDIRECTED,
};
use keel_abi::{Error, Id, Side};

/// What a server does with each kind of message. If a method returns `None`, the sender keeps
/// waiting: the server answers later by [`answer_later`], or never.
pub trait Server {
    /// The requests of clients. The loop answers all other messages with an error.
    type Request: Request;

    /// A client's request. `received` has the sender, and what else came with the message.
    fn request(&mut self, request: Self::Request, received: &Received) -> Option<Message>;

    /// A message to another task that came to the server because the server is the chief on its
    /// path. The sender sees the answer as one of `destination`. By default the server serves the
    /// faults of its clan itself and forwards no request.
    fn redirected(&mut self, received: &Received, _destination: Id) -> Option<Message> {
        match received.tag.kind() {
            KIND_PAGE_FAULT if !received.tag.has(TAG_FROM_OUTSIDE) => self.fault(&Fault::of(received)),
            KIND_EXCEPTION | KIND_TRIGGER if !received.tag.has(TAG_FROM_OUTSIDE) => self.exception(received),
            KIND_PREEMPTION if !received.tag.has(TAG_FROM_OUTSIDE) => preempted(self, received),
            KIND_USER => Some(reply::<()>(Err(Error::Denied))),
            _ => None,
        }
    }

    /// A page fault of a thread whose pager is the server.
    fn fault(&mut self, _fault: &Fault) -> Option<Message> {
        None
    }

    /// An exception of a thread whose exception handler is the server.
    fn exception(&mut self, _received: &Received) -> Option<Message> {
        None
    }

    /// A thread whose preempter is the server lost the processor. By default it resumes at once.
    fn preempted(&mut self, _preemption: &Preemption) -> Option<Message> {
        Some(Message::label(0))
    }

    /// An interrupt or a timer's message from the kernel object `source`, at the kernel time `time`
    /// in nanoseconds.
    fn interrupt(&mut self, _source: Id, _time: u64) {}

    /// A notification, with the bits that were set since the last one.
    fn notified(&mut self, _bits: u64) {}

    /// The answer to `received` was not delivered: its sender does not wait for it, or there is no
    /// memory for a mapping.
    fn undelivered(&mut self, _received: &Received, _failure: Failure) {}
}

/// Serves in an endless loop.
pub fn run(server: &mut impl Server) -> ! {
    loop {
        run_until(server, |_| false);
    }
}

/// Serves until `over` is true, which is checked first and after each message. After an error of
/// the wait itself (a cancellation) it waits again.
pub fn run_until<S: Server>(server: &mut S, over: impl Fn(&S) -> bool) {
    if over(server) {
        return;
    }
    let mut next = wait(Timeout::Never);
    loop {
        let Ok(received) = next else {
            next = wait(Timeout::Never);
            continue;
        };
        let answering = received.tag.has(TAG_REDIRECTED).then(utcb::destination);
        let answer = answer(server, &received, answering);
        if over(server) {
            if let Some(message) = answer {
                // A client that no longer exists needs no answer.
                let _ = respond(&received, answering, message);
            }
            return;
        }
        next = match answer {
            Some(message) => deliver(server, &received, answering, message),
            None => wait(Timeout::Never),
        };
    }
}

/// Serves the clients that wait now, without waiting itself: for a server with long work of its
/// own.
pub fn serve_waiting(server: &mut impl Server) {
    while let Ok(received) = wait(Timeout::Zero) {
        let answering = received.tag.has(TAG_REDIRECTED).then(utcb::destination);
        if let Some(message) = answer(server, &received, answering) {
            if let Err(failure) = respond(&received, answering, message) {
                server.undelivered(&received, failure);
            }
        }
    }
}

/// Sends the answer to `received`, with `answering` as its virtual sender where that is another
/// thread.
fn respond(received: &Received, answering: Option<Id>, message: Message) -> Result<(), Failure> {
    match answering {
        Some(id) => send_as(id, received.from, message, Timeout::Zero),
        None => send(received.from, message, Timeout::Zero),
    }
}

/// Answers a client that was left waiting. The answer is dropped if the client does not wait.
pub fn answer_later(client: Id, message: Message) {
    // A client that no longer exists needs no answer.
    let _ = send(client, message, Timeout::Zero);
}

fn answer(server: &mut impl Server, received: &Received, destination: Option<Id>) -> Option<Message> {
    if let Some(destination) = destination {
        return server.redirected(received, destination);
    }
    match received.tag.kind() {
        KIND_USER => match Request::decode(received) {
            Ok(request) => server.request(request, received),
            Err(error) => Some(reply::<()>(Err(error))),
        },
        KIND_PAGE_FAULT => server.fault(&Fault::of(received)),
        KIND_EXCEPTION | KIND_TRIGGER => server.exception(received),
        KIND_INTERRUPT => {
            server.interrupt(received.from, received.words[0]);
            None
        }
        KIND_NOTIFY => {
            server.notified(received.words[0]);
            None
        }
        KIND_PREEMPTION => preempted(server, received),
        _ => None,
    }
}

/// Separate from requests, which must be fast.
#[cold]
fn preempted(server: &mut (impl Server + ?Sized), received: &Received) -> Option<Message> {
    Preemption::of(received).and_then(|told| server.preempted(&told))
}

fn deliver(
    server: &mut impl Server,
    received: &Received,
    answering: Option<Id>,
    message: Message,
) -> Result<Received, Failure> {
    let next = match answering {
        Some(id) => send_as_and_wait(id, received.from, message, Timeout::Zero, Timeout::Never),
        None => send_and_wait(received.from, message, Timeout::Zero, Timeout::Never),
    };
    if let Err(failure @ Failure { side: Side::Send, .. }) = next {
        server.undelivered(received, failure);
    }
    next
}

/// A server that is a function.
struct Function<F, Q, A>(F, core::marker::PhantomData<fn(Q) -> A>);

impl<Q: Request, A: Field, F: FnMut(Id, Q) -> Result<A, Error>> Server for Function<F, Q, A> {
    type Request = Q;

    fn request(&mut self, request: Q, received: &Received) -> Option<Message> {
        Some(reply((self.0)(received.from, request)))
    }
}

/// Serves in an endless loop: `answer` turns a client's request into its reply.
pub fn serve<Q: Request, A: Field>(answer: impl FnMut(Id, Q) -> Result<A, Error>) -> ! {
    run(&mut Function(answer, core::marker::PhantomData))
}
