// SPDX-License-Identifier: BSD-2-Clause
//! The native task beside a hostile or failing server. It beats, receives the server's reports and
//! whatever else is sent to it, has the server restarted when reports stop, and judges.

use crate::judge::{
    violations, Options, Verdict, LEAST_CALL, NANOSECONDS_PER_MICROSECOND, NANOSECONDS_PER_MILLISECOND,
};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{KIND_INTERRUPT, KIND_USER};
use keel_l4::abi::ids::TASK_FIRST_FREE;
use keel_l4::call::Failure;
use keel_l4::ipc::{wait, Timeout};
use keel_l4::kip::now;
use keel_l4::protocol::boot::Start;
use keel_l4::start::Stack;
use keel_l4::thread::{self, park};
use keel_l4::timer::Timer;
use keel_l4::{kernel_object, println, record, root, utcb, Id};

/// The label of reports by the server's first thread: its calls since the last report, or one life.
pub const DONE: u32 = 0x5ca1_ab1e;
/// Nanoseconds between two beats.
const INTERVAL: u64 = 5_000_000;
/// Nanoseconds without a report after which the server is restarted.
const SILENCE: u64 = 50_000_000;
/// Words that the witness checks and changes at each beat.
const WORDS: usize = 64;

static STACK: Stack<{ 16 << 10 }> = Stack::new();
/// Beats, the most nanoseconds that one was late, and the beats at which the witness's memory had
/// changed.
static BEATS: AtomicU64 = AtomicU64::new(0);
static LATEST: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicU64 = AtomicU64::new(0);

/// The witness's thread, as seen from the thread `me` of the same clan: the first task of the boot
/// configuration, which is never restarted.
pub const fn id(me: Id) -> Id {
    Id::thread(1, TASK_FIRST_FREE as u32, 0, me.nesting())
}

/// Receives until the server has done enough or the time is over. Returns the number of failed
/// cases.
pub fn run(record: &Start) -> Result<u32, Failure> {
    let options = Options::read(record::command_line(record));
    let server = utcb::my_id().task() as u64 + 1;
    // Work that the root task does for others delays this thread, so another one beats.
    let beating = thread::spawn(&STACK, beat, 0)?;
    thread::set_priority(beating, record.priority + 1)?;
    let began = now();
    let (mut heard, mut done, mut silences) = (began, 0, 0);
    while done < options.calls && now() - began < options.limit {
        match wait(Timeout::At(heard + SILENCE)) {
            // Not even the first thread of a hostile server can be trusted to report the truth.
            Ok(received)
                if received.tag.kind() == KIND_USER
                    && received.from.task() as u64 == server
                    && received.from.lthread() == 0
                    && received.tag.label() == DONE =>
            {
                done += received.words[0].min((now() - heard) / LEAST_CALL);
                heard = now();
            }
            _ if now() >= heard + SILENCE => {
                root::restart(server)?;
                silences += 1;
                heard = now();
            }
            _ => {}
        }
    }
    let took = now() - began;
    let (beats, latest) = (BEATS.load(Relaxed), LATEST.load(Relaxed));
    println!(
        "witness: {done} done in {} ms, {silences} times no report came; {beats} beats, the latest {} us late",
        took / NANOSECONDS_PER_MILLISECOND,
        latest / NANOSECONDS_PER_MICROSECOND
    );
    let mut verdict = Verdict::default();
    verdict.case("server-did-it", done >= options.calls, format_args!("{} calls or lives", options.calls));
    verdict.case("witness-in-time", latest <= options.late, format_args!("at most {} ns, got {latest}", options.late));
    let due = took / (INTERVAL + options.late);
    verdict.case("witness-beats", beats >= due, format_args!("{due} beats, got {beats}"));
    let changed = CHANGED.load(Relaxed);
    verdict.case(
        "witness-unharmed",
        changed == 0,
        format_args!("its memory as it was, but it changed {changed} times"),
    );
    if options.checks {
        let violated = violations();
        verdict.case("invariants-hold", violated == Some(0), format_args!("no violation, got {violated:?}"));
    }
    let answer = kernel_object::account(Id::NIL);
    verdict.case("kernel-answers", answer.is_ok(), format_args!("the account, got {answer:?}"));
    println!("{} passed, {} failed", verdict.passed, verdict.failed);
    Ok(verdict.failed)
}

/// Beats without end.
extern "C" fn beat(_: u64) -> ! {
    let failure = try_beat();
    println!("witness: the heartbeat stopped: {failure:?}");
    park()
}

fn try_beat() -> Result<(), Failure> {
    let timer = Timer::claim()?;
    let mut deadline = now() + INTERVAL;
    let mut pattern = [0; WORDS];
    timer.set(Some(deadline))?;
    loop {
        // It receives messages of others too, and ignores all except its timer's.
        let Ok(received) = wait(Timeout::Never) else { continue };
        if received.tag.kind() != KIND_INTERRUPT || received.from != timer.id() {
            continue;
        }
        let late = now().saturating_sub(deadline);
        LATEST.fetch_max(late, Relaxed);
        let beats = BEATS.load(Relaxed);
        CHANGED.fetch_add(u64::from(black_box(&pattern).iter().any(|word| *word != beats)), Relaxed);
        BEATS.store(beats + 1, Relaxed);
        pattern = black_box([beats + 1; WORDS]);
        // A missed beat is not made up for.
        deadline += (late / INTERVAL + 1) * INTERVAL;
        timer.set(Some(deadline))?;
    }
}
