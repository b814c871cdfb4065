// SPDX-License-Identifier: BSD-2-Clause
//! A console server. It owns the ports and the GSI of a serial line, prints what clients in other
//! tasks send, each message as a whole, and gives them the lines that are typed. The driver is an
//! ordinary thread: ports are mapped like memory, and an interrupt is a message.

#![no_std]
#![no_main]

use core::str;
use keel_examples::pipe::{Answer, Pipe, ATOMIC};
use keel_examples::typed::{Typed, LINE as LONGEST};
use keel_l4::abi::call::IRQ_MODE_DEFAULT;
use keel_l4::call::Failure;
use keel_l4::clan::{ChildMain, Clan};
use keel_l4::ipc::{call, Message, Received};
use keel_l4::message::{ask, reply, value, Request as _};
use keel_l4::program::Program;
use keel_l4::serial::{Serial, FIFO_BYTES, PORTS_LOG2};
use keel_l4::server::{self, answer_later, Server};
use keel_l4::start::Stack;
use keel_l4::{kernel_object, println, requests, sigma0, thread, utcb, Error, Id};

keel_l4::program!(main);

/// The first serial line of a PC. boot.conf gives this program its ports and its GSI.
const PORT: u16 = 0x3f8;
const GSI: Id = Id::irq(4);

static STACK: Stack<{ 32 << 10 }> = Stack::new();

requests! {
    /// The services of the console.
    enum Request {
        /// Prints the bytes after the words; answers when they are in the buffer.
        Write { count: u64 } = 1,
        /// Answers when everything was passed to the serial line; `Busy` while another client waits
        /// for that.
        Flush = 2,
        /// Answers when a line was typed: its length, with its bytes after the words; 0 at the end
        /// of the input. `Busy` while another client waits for that.
        Read = 3,
    }
}

/// A console is a pipe whose reader is a serial line: while the transmitter is empty, the driver
/// waits at the pipe's other end like any reader.
struct Console {
    pipe: Pipe,
    serial: Serial,
    me: Id,
    /// Whether the transmitter has all bytes that came: the driver waits for more.
    idle: bool,
    flushing: Option<Id>,
    typed: Typed,
    reading: Option<Id>,
}

impl Console {
    fn open() -> Result<Console, Failure> {
        sigma0::ports(PORT, PORTS_LOG2)?;
        kernel_object::bind(GSI, IRQ_MODE_DEFAULT)?;
        let mut console = Console {
            pipe: Pipe::new(),
            serial: Serial::open(PORT),
            me: utcb::my_id(),
            idle: true,
            flushing: None,
            typed: Typed::new(),
            reading: None,
        };
        console.serial.interrupt();
        console.feed();
        Ok(console)
    }

    /// Asks the pipe for as many bytes as the empty transmitter takes, now or when they come.
    fn feed(&mut self) {
        self.idle = true;
        self.with_pipe(|pipe, me, answer| pipe.read(me, FIFO_BYTES as u64, answer));
        if let Some(client) = self.flushing.take_if(|_| self.idle) {
            answer_later(client, reply(Ok(())));
        }
    }

    /// Answers the client that reads, if the line is complete.
    fn give_line(&mut self, client: Id) {
        let (shown, line) = self.typed.line();
        self.with_pipe(|pipe, me, answer| pipe.write(me, shown.bytes(), answer));
        match line {
            Some(line) => answer_later(client, Answer::Data(line.bytes()).message()),
            None => self.reading = Some(client),
        }
    }

    /// Calls `act` with the pipe, and passes bytes for the driver to the serial line.
    fn with_pipe(&mut self, act: impl FnOnce(&mut Pipe, Id, &mut dyn FnMut(Id, Answer))) {
        let (me, serial, idle) = (self.me, self.serial, &mut self.idle);
        act(&mut self.pipe, me, &mut |to, answer| match answer {
            Answer::Data(bytes) if to == me => {
                serial.fill(bytes);
                *idle = false;
            }
            // The driver itself echoes what is typed, and does not wait.
            _ if to == me => {}
            answer => answer_later(to, answer.message()),
        });
    }
}

impl Server for Console {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        match request {
            Request::Write { count } => {
                let mut bytes = [0; ATOMIC];
                match received.bytes(count, &mut bytes) {
                    Ok(count) => self.with_pipe(|pipe, _, answer| pipe.write(received.from, &bytes[..count], answer)),
                    Err(error) => return Some(reply::<u64>(Err(error))),
                }
            }
            Request::Flush if self.idle => return Some(reply(Ok(()))),
            Request::Flush if self.flushing.is_some() => return Some(reply::<()>(Err(Error::Busy))),
            Request::Flush => self.flushing = Some(received.from),
            Request::Read if self.reading.is_some() => return Some(reply::<u64>(Err(Error::Busy))),
            Request::Read => self.give_line(received.from),
        }
        None
    }

    /// A key was pressed, or the transmitter is empty.
    fn interrupt(&mut self, gsi: Id, _time: u64) {
        while self.serial.asks() {
            while let Some(byte) = self.serial.read() {
                self.typed.key(byte);
            }
        }
        if let Some(client) = self.reading.take() {
            self.give_line(client);
        }
        // The GSI belongs to this task, so the call succeeds.
        let _ = kernel_object::acknowledge(gsi);
        if !self.idle && self.serial.is_empty() {
            self.feed();
        }
    }
}

extern "C" fn driver(_: u64) -> ! {
    match Console::open() {
        Ok(mut console) => server::run(&mut console),
        Err(failure) => panic!("the console cannot be opened: {failure}"),
    }
}

/// Prints `text` on the console at `console`.
fn write(console: Id, text: &str) -> Result<(), Failure> {
    for chunk in text.as_bytes().chunks(ATOMIC) {
        let request = Request::Write { count: chunk.len() as u64 };
        value::<u64>(call(console, request.encode().with_bytes(chunk))?)?;
    }
    Ok(())
}

/// The next line that is typed, without its end; `None` at the end of the input.
fn read(console: Id, buffer: &mut [u8; LONGEST]) -> Result<Option<&str>, Failure> {
    let answer = call(console, Request::Read.encode())?;
    let count = value::<u64>(answer)?;
    let used = answer.bytes(count, buffer).map_err(Failure::call)?;
    Ok(buffer[..used].strip_suffix(b"\n").map(|line| str::from_utf8(line).unwrap_or("what?")))
}

fn first(console: u64) -> Result<(), Failure> {
    write(Id(console), "first task: no other text\nfirst task: between my two lines\n")
}

fn second(console: u64) -> Result<(), Failure> {
    write(Id(console), "second task: nor\nsecond task: between mine\n")
}

fn third(console: u64) -> Result<(), Failure> {
    for line in ["third task: but I write\n", "third task: line by line\n"] {
        write(Id(console), line)?;
    }
    Ok(())
}

fn talker(console: u64) -> Result<(), Failure> {
    let console = Id(console);
    write(console, "what is your name? ")?;
    let mut line = [0; LONGEST];
    let name = read(console, &mut line)?.unwrap_or("whoever you are");
    for part in ["good day, ", name, "\n"] {
        write(console, part)?;
    }
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    let console = thread::spawn(&STACK, driver, 0)?;
    let clients: [(&str, ChildMain); 3] = [("first", first), ("second", second), ("third", third)];
    let mut clan = Clan::new(program);
    for (name, client) in clients {
        clan.start(name, client, console.0)?;
    }
    clan.run()?;
    clan.start("talker", talker, console.0)?;
    clan.run()?;
    ask::<()>(console, &Request::Flush)?;
    println!("{} tasks have written to the serial line, and one has read", clients.len());
    Ok(())
}
