// SPDX-License-Identifier: BSD-2-Clause
//! The boot configuration: its syntax, and the errors that the text alone can have. `docs/boot.md`
//! describes it to users. `plan` checks whether modules and memory exist.

use core::fmt;
use keel_l4::abi::fpage::PAGE_SIZE;
use keel_l4::abi::ids::GSI_COUNT;
use keel_l4::list::{Full, List};
use keel_l4::ranges::Range;

/// The most tasks in a configuration.
pub const MAX_TASKS: usize = 16;
/// The most modules of one initial RAM disk.
pub const MAX_INITRD: usize = 4;
/// The most GSIs of one task.
pub const MAX_IRQS: usize = keel_l4::protocol::boot::START_IRQS as usize;
/// The most port ranges of one task.
pub const MAX_PORTS: usize = 16;
/// The most ranges of device memory of one task.
pub const MAX_DEVICES: usize = 8;
/// Highest priority of a task. A server may use two priorities above its own; these too are below
/// the root task's.
pub const MAX_PRIORITY: u64 = 190;
/// Log2 of the largest range of task numbers.
const MAX_TASKS_LOG2: u32 = 18;
/// The most processors that a task can ask for. The µ-kernel supports fewer.
const MAX_PROCESSORS: u64 = 64;
/// Default quota in pages of kernel memory.
const DEFAULT_QUOTA: Quota = Quota::Pages(256);
/// Default priority.
const DEFAULT_PRIORITY: u64 = 100;
/// The first ports of com1 to com4.
const SERIAL_PORTS: [(&str, u16); 4] = [("com1", 0x3f8), ("com2", 0x2f8), ("com3", 0x3e8), ("com4", 0x2e8)];
/// Ports of one serial line.
pub const SERIAL_PORT_COUNT: u64 = 8;

/// A value and its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At<T> {
    /// Line number, from 1 on.
    pub line: u32,
    /// The value.
    pub value: T,
}

/// How much memory a task gets, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All memory that is left.
    Rest,
    /// This many bytes, anywhere.
    Size(u64),
    /// Exactly these bytes.
    Fixed(Range),
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A plain task.
    #[default]
    Native,
    /// An operating-system server: it may shut the machine down, and its image is mapped with all
    /// rights.
    Server,
}

/// Where a task is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// It runs in user mode, in a space of its own.
    #[default]
    Task,
    /// It runs in supervisor mode, in the upper half of the spaces of all its tasks. It is trusted
    /// like the µ-kernel.
    Kernel,
    /// It runs in user mode, in a space of its own and in the upper half of those of its tasks that
    /// run 32-bit code.
    Resident,
}

/// A quota of kernel memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// This many pages.
    Pages(u64),
    /// This percentage of the kernel's pool.
    Percent(u64),
}

impl Quota {
    /// The quota in pages; `pool` is the size of the kernel's pool in pages.
    pub fn pages(self, pool: u64) -> u64 {
        match self {
            Quota::Pages(pages) => pages,
            Quota::Percent(share) => pool * share / 100,
        }
    }
}

impl Default for Quota {
    fn default() -> Quota {
        DEFAULT_QUOTA
    }
}

/// What happens when a task that may shut the machine down panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The other tasks continue.
    #[default]
    Continue,
    /// The machine shuts down.
    Stop,
    /// The task is restarted.
    Restart,
}

/// One task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task<'a> {
    /// Its name.
    pub name: At<&'a str>,
    /// The module that contains its image.
    pub image: At<&'a str>,
    /// Its kind.
    pub kind: Kind,
    /// Its place.
    pub place: At<Place>,
    /// Whether it may shut the machine down.
    pub may_shut_down: bool,
    /// Its memory in addition to the image.
    pub memory: Option<At<Memory>>,
    /// Bytes of RAM that it may ask sigma0 for in addition.
    pub extra: u64,
    /// The modules of its initial RAM disk.
    pub initrd: List<At<&'a str>, MAX_INITRD>,
    /// Its GSIs.
    pub irqs: List<At<u32>, MAX_IRQS>,
    /// Its ports.
    pub ports: List<At<Range>, MAX_PORTS>,
    /// Its device memory.
    pub devices: List<At<Range>, MAX_DEVICES>,
    /// Whether it has all ports, device memory and interrupts that no other task names.
    pub hardware: bool,
    /// Its priority.
    pub priority: u64,
    /// Kernel memory that it and its clan may use.
    pub quota: Quota,
    /// Task numbers that it may use: a power of two, or 0.
    pub tasks: u64,
    /// Processors that it should use, if the machine has as many.
    pub processors: u64,
    /// Its command line.
    pub args: &'a str,
}

/// The whole configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config<'a> {
    /// First port of the serial line for the log.
    pub log_port: u16,
    /// What a server's panic does.
    pub on_panic: OnPanic,
    /// Whether a server that asks for a reboot is restarted, and not the machine.
    pub restarts_on_reboot: bool,
    /// Whether a machine without an exit port halts at shutdown and is not powered off or reset.
    pub halts_at_shutdown: bool,
    /// Whether an IOMMU confines the DMA of devices to tasks with devices.
    pub confines_devices: bool,
    /// The tasks.
    pub tasks: List<Task<'a>, MAX_TASKS>,
}

impl Task<'_> {
    /// Whether the task may shut the machine down, which makes its failure a panic.
    pub fn has_shutdown_right(&self) -> bool {
        self.kind == Kind::Server || self.may_shut_down
    }
}

impl Config<'_> {
    /// Whether the modules of a task are needed after the start.
    pub fn may_restart(&self, task: &Task<'_>) -> bool {
        task.has_shutdown_right() && (self.on_panic == OnPanic::Restart || self.restarts_on_reboot)
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Bytes that are not UTF-8.
    NotText,
    /// An unknown word.
    Unknown,
    /// A value is missing.
    Missing(&'static str),
    /// An invalid value.
    Bad(&'static str),
    /// A second value.
    Twice,
    /// More than the limit.
    TooMany,
    /// The file ends inside a task.
    Unclosed,
    /// A task without an image.
    NoImage,
    /// A statement that only servers may have.
    OnlyServers(&'static str),
    /// No task at all.
    NoTasks,
    /// An earlier task has the same resource.
    Conflict(&'static str),
}

/// An error: the problem, the line, and the word where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError<'a> {
    /// Line number, from 1 on.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
    /// The word.
    pub word: &'a str,
}

/// A word from the file, safe to print: shortened, and without control characters.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        for c in self.0.chars().take(SHOWN) {
            write!(f, "{}", if c.is_control() { '?' } else { c })?;
        }
        f.write_str(if self.0.chars().count() > SHOWN { "..." } else { "" })
    }
}

impl fmt::Display for ConfigError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Quoted(self.word);
        write!(f, "boot.conf:{}: ", self.line)?;
        match self.problem {
            Problem::NotText => write!(f, "this line is not text"),
            Problem::Unknown => match RENAMED.iter().find(|(old, _)| *old == word.0) {
                Some((_, new)) => write!(f, "'{word}' is called '{new}' now"),
                None => write!(f, "unknown word '{word}'"),
            },
            Problem::Missing(what) => write!(f, "'{word}' needs {what}"),
            Problem::Bad(what) => write!(f, "'{word}' is not {what}"),
            Problem::Twice => write!(f, "'{word}' is given twice"),
            Problem::TooMany => write!(f, "too many: no room for '{word}'"),
            Problem::Unclosed => write!(f, "task '{word}' has no closing '}}'"),
            Problem::NoImage => write!(f, "task '{word}' has no image"),
            Problem::OnlyServers(what) => write!(f, "'{what}' is for servers, and task '{word}' is none"),
            Problem::NoTasks => write!(f, "no task is named"),
            Problem::Conflict(what) => write!(f, "{what} of task '{word}' belongs to an earlier task"),
        }
    }
}

/// The words of one line.
struct Words<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.rest.split_whitespace().next().filter(|word| !word.starts_with('#'))
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        let after = self.rest.find(word).unwrap_or(0) + word.len();
        self.rest = &self.rest[after..];
        Some(word)
    }

    /// The rest of the line, without a closing brace at its end.
    fn remainder(&mut self) -> &'a str {
        let text = self.rest.trim();
        match text.strip_suffix('}').filter(|t| t.is_empty() || t.ends_with(char::is_whitespace)) {
            Some(before) => {
                self.rest = "}";
                before.trim_end()
            }
            None => {
                self.rest = "";
                text
            }
        }
    }

    fn error<T>(&self, problem: Problem, word: &'a str) -> Result<T, ConfigError<'a>> {
        Err(ConfigError { line: self.line, problem, word })
    }

    fn value(&mut self, keyword: &'a str, what: &'static str) -> Result<&'a str, ConfigError<'a>> {
        match self.next() {
            Some("}") | None => self.error(Problem::Missing(what), keyword),
            Some(word) => Ok(word),
        }
    }

    /// The value of a statement that is allowed once.
    fn value_once(
        &mut self,
        keyword: &'a str,
        what: &'static str,
        seen: &mut bool,
    ) -> Result<&'a str, ConfigError<'a>> {
        let word = self.value(keyword, what)?;
        if core::mem::replace(seen, true) {
            return self.error(Problem::Twice, keyword);
        }
        Ok(word)
    }

    fn number(&mut self, keyword: &'a str, what: &'static str, max: u64) -> Result<u64, ConfigError<'a>> {
        let word = self.value(keyword, what)?;
        match number(word).filter(|n| *n <= max) {
            Some(number) => Ok(number),
            None => self.error(Problem::Bad(what), word),
        }
    }

    /// One or more words up to the next statement, each passed to `take`.
    fn list(
        &mut self,
        keyword: &'a str,
        what: &'static str,
        mut take: impl FnMut(&'a str) -> Result<(), Problem>,
    ) -> Result<(), ConfigError<'a>> {
        let mut found = false;
        while let Some(word) = self.peek().filter(|w| *w != "}" && !KEYWORDS.contains(w)) {
            self.next();
            found = true;
            if let Err(problem) = take(word) {
                return self.error(problem, word);
            }
        }
        if found {
            Ok(())
        } else {
            self.error(Problem::Missing(what), keyword)
        }
    }
}

/// Words of older versions, and their present names.
const RENAMED: [(&str, &str); 2] = [("on-end", "on-shutdown"), ("may-end", "may-shutdown")];

/// The statements of a task.
const KEYWORDS: [&str; 16] = [
    "image",
    "kind",
    "place",
    "may-shutdown",
    "memory",
    "extra",
    "initrd",
    "irq",
    "ports",
    "devices",
    "hardware",
    "priority",
    "quota",
    "tasks",
    "processors",
    "args",
];

/// A decimal number, or a hexadecimal one with the prefix 0x.
fn number(word: &str) -> Option<u64> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |hex| (hex, 16));
    if digits.starts_with('+') {
        None
    } else {
        u64::from_str_radix(digits, radix).ok()
    }
}

/// A number of bytes, with the suffix K, M or G. Must be whole pages.
fn bytes(word: &str) -> Option<u64> {
    let unit = [('K', 10), ('M', 20), ('G', 30)].into_iter().find(|(letter, _)| word.ends_with(*letter));
    let (digits, shift) = unit.map_or((word, 0), |(_, shift)| (&word[..word.len() - 1], shift));
    let size = number(digits)?.checked_mul(1 << shift)?;
    (size > 0 && size % PAGE_SIZE == 0).then_some(size)
}

/// Ports as `first-last`, or one port.
fn ports(word: &str) -> Option<Range> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last <= u16::MAX as u64).then_some(Range::new(first, last + 1))
}

/// Device memory as `first-last`: whole pages.
fn device(word: &str) -> Option<Range> {
    let (first, last) = word.split_once('-')?;
    let range = Range::new(number(first)?, number(last)?.checked_add(1)?);
    (!range.is_empty() && (range.start | range.end) % PAGE_SIZE == 0).then_some(range)
}

/// Parses the configuration. Returns the first error.
pub fn parse(text: &[u8]) -> Result<Config<'_>, ConfigError<'_>> {
    let mut config = Config { log_port: 0, confines_devices: true, ..Config::default() };
    let mut open: Option<Open<'_>> = None;
    let mut seen = Seen::default();
    let mut line = 0;
    for bytes in text.split(|b| *b == b'\n') {
        line += 1;
        let rest =
            core::str::from_utf8(bytes).map_err(|_| ConfigError { line, problem: Problem::NotText, word: "" })?;
        let mut words = Words { rest, line };
        while let Some(word) = words.next() {
            match &mut open {
                Some(task) if word == "}" => {
                    let task = task.close()?;
                    config.tasks.push(task).or_else(|_| words.error(Problem::TooMany, task.name.value))?;
                    open = None;
                }
                Some(task) => task.statement(word, &mut words)?,
                None => open = global(&mut config, &mut seen, word, &mut words)?,
            }
        }
    }
    if let Some(open) = open {
        let name = open.task.name;
        return Err(ConfigError { line: name.line, problem: Problem::Unclosed, word: name.value });
    }
    if config.log_port == 0 {
        config.log_port = SERIAL_PORTS[2].1;
    }
    check(&config, line)?;
    Ok(config)
}

/// The statements, of those that are allowed once, that were seen.
#[derive(Default)]
struct Seen {
    panic: bool,
    reboot: bool,
    shutdown: bool,
    iommu: bool,
}

/// Parses a statement outside of tasks. Opens a task if the statement is `task`.
fn global<'a>(
    config: &mut Config<'a>,
    seen: &mut Seen,
    word: &'a str,
    words: &mut Words<'a>,
) -> Result<Option<Open<'a>>, ConfigError<'a>> {
    match word {
        "log" => {
            let name = words.value(word, "com1 to com4")?;
            if config.log_port != 0 {
                return words.error(Problem::Twice, word);
            }
            match SERIAL_PORTS.into_iter().find(|(n, _)| *n == name) {
                Some((_, port)) => config.log_port = port,
                None => return words.error(Problem::Bad("com1 to com4"), name),
            }
        }
        "on-panic" => {
            const WHAT: &str = "stop, continue or restart";
            let what = words.value_once(word, WHAT, &mut seen.panic)?;
            config.on_panic = match what {
                "stop" => OnPanic::Stop,
                "continue" => OnPanic::Continue,
                "restart" => OnPanic::Restart,
                _ => return words.error(Problem::Bad(WHAT), what),
            };
        }
        "on-reboot" => {
            const WHAT: &str = "stop or restart";
            let what = words.value_once(word, WHAT, &mut seen.reboot)?;
            config.restarts_on_reboot = match what {
                "stop" => false,
                "restart" => true,
                _ => return words.error(Problem::Bad(WHAT), what),
            };
        }
        "on-shutdown" => {
            const WHAT: &str = "poweroff or halt";
            let what = words.value_once(word, WHAT, &mut seen.shutdown)?;
            config.halts_at_shutdown = match what {
                "poweroff" => false,
                "halt" => true,
                _ => return words.error(Problem::Bad(WHAT), what),
            };
        }
        "iommu" => {
            const WHAT: &str = "on or off";
            let what = words.value_once(word, WHAT, &mut seen.iommu)?;
            config.confines_devices = match what {
                "on" => true,
                "off" => false,
                _ => return words.error(Problem::Bad(WHAT), what),
            };
        }
        "task" => {
            let name = words.value(word, "a name")?;
            if words.next() != Some("{") {
                return words.error(Problem::Missing("'{' on the same line"), word);
            }
            if config.tasks.iter().any(|t| t.name.value == name) {
                return words.error(Problem::Twice, name);
            }
            return Ok(Some(Open::new(At { line: words.line, value: name })));
        }
        _ => return words.error(Problem::Unknown, word),
    }
    Ok(None)
}

/// A task before its closing brace.
struct Open<'a> {
    task: Task<'a>,
    /// Bit n: statement n of KEYWORDS was seen.
    seen: u32,
}

impl<'a> Open<'a> {
    fn new(name: At<&'a str>) -> Open<'a> {
        let task = Task { name, priority: DEFAULT_PRIORITY, processors: 1, ..Task::default() };
        Open { task, seen: 0 }
    }

    fn close(&self) -> Result<Task<'a>, ConfigError<'a>> {
        let name = self.task.name;
        if self.task.image.line == 0 {
            return Err(ConfigError { line: name.line, problem: Problem::NoImage, word: name.value });
        }
        if self.task.place.value != Place::Task && self.task.kind != Kind::Server {
            let problem = Problem::OnlyServers(match self.task.place.value {
                Place::Kernel => "place kernel",
                _ => "place resident",
            });
            return Err(ConfigError { line: self.task.place.line, problem, word: name.value });
        }
        Ok(self.task)
    }

    fn statement(&mut self, word: &'a str, words: &mut Words<'a>) -> Result<(), ConfigError<'a>> {
        let Some(index) = KEYWORDS.iter().position(|k| *k == word) else {
            return words.error(Problem::Unknown, word);
        };
        if self.seen & 1 << index != 0 {
            return words.error(Problem::Twice, word);
        }
        self.seen |= 1 << index;
        let task = &mut self.task;
        match word {
            "image" => task.image = At { line: words.line, value: words.value(word, "a module's name")? },
            "kind" => task.kind = kind(word, words)?,
            "place" => task.place = At { line: words.line, value: place(word, words)? },
            "may-shutdown" => task.may_shut_down = true,
            "memory" => task.memory = Some(At { line: words.line, value: memory(word, words)? }),
            "extra" => task.extra = extra(word, words)?,
            "hardware" => match words.value(word, "rest")? {
                "rest" => task.hardware = true,
                other => return words.error(Problem::Bad("rest"), other),
            },
            "priority" => task.priority = words.number(word, "a priority from 0 to 190", MAX_PRIORITY)?,
            "quota" => task.quota = quota(word, words)?,
            "tasks" => task.tasks = task_numbers(word, words)?,
            "processors" => task.processors = processors(word, words)?,
            "args" => task.args = words.remainder(),
            _ => self.lists(word, words)?,
        }
        Ok(())
    }

    /// Parses the statements that take a list.
    fn lists(&mut self, word: &'a str, words: &mut Words<'a>) -> Result<(), ConfigError<'a>> {
        let (task, line) = (&mut self.task, words.line);
        let full = |_: Full| Problem::TooMany;
        match word {
            "initrd" => words.list(word, "a module's name", |w| task.initrd.push(At { line, value: w }).map_err(full)),
            "irq" => words.list(word, "a GSI", |w| {
                let value = number(w).filter(|n| *n < GSI_COUNT).ok_or(Problem::Bad("a GSI"))? as u32;
                task.irqs.push(At { line, value }).map_err(full)
            }),
            "devices" => words.list(word, "a range of device memory", |w| {
                let value = device(w).ok_or(Problem::Bad("whole pages of device memory such as 0xb8000-0xb8fff"))?;
                task.devices.push(At { line, value }).map_err(full)
            }),
            _ => words.list(word, "a range of ports", |w| {
                let value = ports(w).ok_or(Problem::Bad("a range of ports such as 0x3f8-0x3ff"))?;
                task.ports.push(At { line, value }).map_err(full)
            }),
        }
    }
}

fn kind<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<Kind, ConfigError<'a>> {
    match words.value(keyword, "server or native")? {
        "server" => Ok(Kind::Server),
        "native" => Ok(Kind::Native),
        word => words.error(Problem::Bad("server or native"), word),
    }
}

fn place<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<Place, ConfigError<'a>> {
    const WHAT: &str = "task, kernel or resident";
    match words.value(keyword, WHAT)? {
        "task" => Ok(Place::Task),
        "kernel" => Ok(Place::Kernel),
        "resident" => Ok(Place::Resident),
        word => words.error(Problem::Bad(WHAT), word),
    }
}

fn memory<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<Memory, ConfigError<'a>> {
    const WHAT: &str = "rest or a size such as 512M";
    let word = words.value(keyword, WHAT)?;
    if word == "rest" {
        return Ok(Memory::Rest);
    }
    let Some(size) = bytes(word) else {
        return words.error(Problem::Bad(WHAT), word);
    };
    if words.peek() != Some("at") {
        return Ok(Memory::Size(size));
    }
    words.next();
    let at = words.value("at", "a physical address")?;
    match number(at).filter(|a| a % PAGE_SIZE == 0).and_then(|a| Some(Range::new(a, a.checked_add(size)?))) {
        Some(range) => Ok(Memory::Fixed(range)),
        None => words.error(Problem::Bad("a page-aligned physical address"), at),
    }
}

fn extra<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<u64, ConfigError<'a>> {
    const WHAT: &str = "a size such as 8M";
    let word = words.value(keyword, WHAT)?;
    bytes(word).map_or_else(|| words.error(Problem::Bad(WHAT), word), Ok)
}

fn quota<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<Quota, ConfigError<'a>> {
    const WHAT: &str = "a number of pages or a share such as 80%";
    let word = words.value(keyword, WHAT)?;
    let share = word.strip_suffix('%').and_then(number).filter(|share| *share <= 100).map(Quota::Percent);
    let pages = number(word).filter(|pages| *pages <= u32::MAX as u64).map(Quota::Pages);
    share.or(pages).map_or_else(|| words.error(Problem::Bad(WHAT), word), Ok)
}

fn task_numbers<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<u64, ConfigError<'a>> {
    const WHAT: &str = "a power of two up to 262144";
    let word = words.value(keyword, WHAT)?;
    match number(word).filter(|n| n.is_power_of_two() && n.ilog2() <= MAX_TASKS_LOG2) {
        Some(count) => Ok(count),
        None => words.error(Problem::Bad(WHAT), word),
    }
}

fn processors<'a>(keyword: &'a str, words: &mut Words<'a>) -> Result<u64, ConfigError<'a>> {
    const WHAT: &str = "a number of processors from 1 to 64";
    match words.number(keyword, WHAT, MAX_PROCESSORS)? {
        0 => words.error(Problem::Bad(WHAT), "0"),
        count => Ok(count),
    }
}

/// Checks what depends on several tasks.
fn check<'a>(config: &Config<'a>, last_line: u32) -> Result<(), ConfigError<'a>> {
    if config.tasks.is_empty() {
        return Err(ConfigError { line: last_line, problem: Problem::NoTasks, word: "" });
    }
    let log = Range::new(config.log_port as u64, config.log_port as u64 + SERIAL_PORT_COUNT);
    for (index, task) in config.tasks.iter().enumerate() {
        let conflict = |line, what| Err(ConfigError { line, problem: Problem::Conflict(what), word: task.name.value });
        let earlier = &config.tasks[..index];
        for ports in task.ports.iter() {
            let theirs = earlier.iter().flat_map(|t| t.ports.iter()).any(|p| p.value.overlaps(ports.value));
            if theirs || ports.value.overlaps(log) {
                return conflict(ports.line, if theirs { "a port" } else { "a port of the log" });
            }
        }
        for device in task.devices.iter() {
            if earlier.iter().flat_map(|t| t.devices.iter()).any(|d| d.value.overlaps(device.value)) {
                return conflict(device.line, "device memory");
            }
        }
        for irq in task.irqs.iter() {
            if earlier.iter().flat_map(|t| t.irqs.iter()).any(|i| i.value == irq.value) {
                return conflict(irq.line, "a GSI");
            }
        }
        if task.hardware && earlier.iter().any(|t| t.hardware) {
            return conflict(task.name.line, "the rest of the hardware");
        }
        for module in task.initrd.iter() {
            if earlier.iter().flat_map(|t| t.initrd.iter()).any(|m| m.value == module.value) {
                return conflict(module.line, "an initrd module");
            }
        }
        if let Some(memory) = task.memory {
            if earlier.iter().filter_map(|t| t.memory).any(|m| same_memory(m.value, memory.value)) {
                return conflict(memory.line, "the memory");
            }
        }
    }
    Ok(())
}

fn same_memory(a: Memory, b: Memory) -> bool {
    match (a, b) {
        (Memory::Rest, Memory::Rest) => true,
        (Memory::Fixed(a), Memory::Fixed(b)) => a.overlaps(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "# a machine\nlog com1\non-panic stop on-shutdown halt\ntask linux {\n    image vmlinux\n    kind server\n    \
        memory rest\n    initrd root.cpio init.cpio\n    irq 3 4   # serial\n    ports 0x2f8-0x2ff 0x70-0x71\n    \
        priority 110\n    quota 8192\n    tasks 32768\n    processors 4\n    args console=ttyS0 a=# b\n}\n\
        task heartbeat { image heartbeat  priority 150  args interval=100ms }\n";

    fn error(text: &str) -> String {
        parse(text.as_bytes()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(GOOD.as_bytes()).unwrap();
        assert_eq!((config.log_port, config.on_panic, config.tasks.len()), (0x3f8, OnPanic::Stop, 2));
        assert_eq!((config.halts_at_shutdown, config.confines_devices, config.restarts_on_reboot), (true, true, false));
        let linux = &config.tasks[0];
        assert_eq!((linux.image.value, linux.kind, linux.priority), ("vmlinux", Kind::Server, 110));
        assert_eq!((linux.tasks, linux.args), (32768, "console=ttyS0 a=# b"));
        assert_eq!((linux.quota, linux.quota.pages(1 << 15)), (Quota::Pages(8192), 8192));
        assert_eq!((linux.processors, config.tasks[1].processors), (4, 1));
        assert_eq!(linux.memory, Some(At { line: 7, value: Memory::Rest }));
        assert_eq!(linux.initrd.iter().map(|m| m.value).collect::<Vec<_>>(), ["root.cpio", "init.cpio"]);
        assert_eq!(linux.irqs.iter().map(|m| m.value).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(linux.ports[1].value, Range::new(0x70, 0x72));
        let beat = &config.tasks[1];
        assert_eq!((beat.quota, Quota::Percent(80).pages(1 << 15)), (DEFAULT_QUOTA, 26214));
        assert_eq!((beat.name.line, beat.args, beat.priority), (17, "interval=100ms", 150));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!((bytes("512M"), bytes("4096"), bytes("1G")), (Some(512 << 20), Some(4096), Some(1 << 30)));
        for bad in
            ["", "M", "0", "0M", "100", "-1M", "+1M", "99999999999999999999", "18446744073709551615G", "1 M", "0x"]
        {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn errors_name_line_and_word() {
        let cases = [
            ("", "boot.conf:1: no task is named"),
            ("\nbogus", "boot.conf:2: unknown word 'bogus'"),
            ("log", "boot.conf:1: 'log' needs com1 to com4"),
            ("log lpt1", "boot.conf:1: 'lpt1' is not com1 to com4"),
            ("log com1\nlog com1", "boot.conf:2: 'log' is given twice"),
            ("on-panic maybe", "boot.conf:1: 'maybe' is not stop, continue or restart"),
            ("on-panic stop\non-panic stop", "boot.conf:2: 'on-panic' is given twice"),
            ("on-reboot continue", "boot.conf:1: 'continue' is not stop or restart"),
            ("on-reboot stop on-reboot stop", "boot.conf:1: 'on-reboot' is given twice"),
            ("on-shutdown leave", "boot.conf:1: 'leave' is not poweroff or halt"),
            ("on-end stay", "boot.conf:1: 'on-end' is called 'on-shutdown' now"),
            ("task a { image x kind server place here }", "boot.conf:1: 'here' is not task, kernel or resident"),
            ("task a { image x\nplace kernel }", "boot.conf:2: 'place kernel' is for servers, and task 'a' is none"),
            (
                "task a { image x\nplace resident }",
                "boot.conf:2: 'place resident' is for servers, and task 'a' is none",
            ),
            ("task a { image x kind server place }", "boot.conf:1: 'place' needs task, kernel or resident"),
            ("task a { image x may-end }", "boot.conf:1: 'may-end' is called 'may-shutdown' now"),
            ("on-shutdown halt on-shutdown poweroff", "boot.conf:1: 'on-shutdown' is given twice"),
            ("iommu maybe", "boot.conf:1: 'maybe' is not on or off"),
            ("iommu on\niommu off", "boot.conf:2: 'iommu' is given twice"),
            ("task a", "boot.conf:1: 'task' needs '{' on the same line"),
            ("task a {\n image x\n", "boot.conf:1: task 'a' has no closing '}'"),
            ("task a {\n}", "boot.conf:1: task 'a' has no image"),
            ("task a { image }", "boot.conf:1: 'image' needs a module's name"),
            ("task a { image x image y }", "boot.conf:1: 'image' is given twice"),
            ("task a { image x priority 191 }", "boot.conf:1: '191' is not a priority from 0 to 190"),
            ("task a { image x quota 101% }", "boot.conf:1: '101%' is not a number of pages or a share such as 80%"),
            ("task a { image x\n tasks 3 }", "boot.conf:2: '3' is not a power of two up to 262144"),
            ("task a { image x processors 0 }", "boot.conf:1: '0' is not a number of processors from 1 to 64"),
            ("task a { image x processors 65 }", "boot.conf:1: '65' is not a number of processors from 1 to 64"),
            ("task a { image x processors -1 }", "boot.conf:1: '-1' is not a number of processors from 1 to 64"),
            ("task a { image x ports 9-8 }", "boot.conf:1: '9-8' is not a range of ports such as 0x3f8-0x3ff"),
            ("task a { image x extra 5 }", "boot.conf:1: '5' is not a size such as 8M"),
            (
                "task a { image x devices 0xb8000-0xb8ffe }",
                "boot.conf:1: '0xb8000-0xb8ffe' is not whole pages of device memory such as 0xb8000-0xb8fff",
            ),
            ("task a { image x hardware all }", "boot.conf:1: 'all' is not rest"),
            ("task a { image x devices }", "boot.conf:1: 'devices' needs a range of device memory"),
            ("task a { image x memory 5 }", "boot.conf:1: '5' is not rest or a size such as 512M"),
            ("task a { image x }\ntask a { image x }", "boot.conf:2: 'a' is given twice"),
            ("task a { image x irq }", "boot.conf:1: 'irq' needs a GSI"),
            ("task a { image x }\n}", "boot.conf:2: unknown word '}'"),
        ];
        for (text, message) in cases {
            assert_eq!(error(text), message);
        }
    }

    #[test]
    fn who_may_be_started_anew() {
        let may = |line: &str| {
            let text = format!(
                "{line}\ntask a {{ image x kind server }} task b {{ image x may-shutdown }} task c {{ image x }}"
            );
            let config = parse(text.as_bytes()).unwrap();
            config.tasks.iter().map(|task| config.may_restart(task)).collect::<Vec<_>>()
        };
        assert_eq!(may("on-panic restart"), [true, true, false]);
        assert_eq!(may("on-panic stop on-reboot restart"), [true, true, false]);
        assert_eq!(may("on-panic continue on-reboot stop"), [false; 3]);
    }

    #[test]
    fn claims_of_two_tasks_are_seen() {
        let two = |a: &str| format!("task a {{ image x {a} }}\ntask b {{ image y {a} }}");
        assert_eq!(error(&two("irq 4")), "boot.conf:2: a GSI of task 'b' belongs to an earlier task");
        assert_eq!(error(&two("ports 1-5")), "boot.conf:2: a port of task 'b' belongs to an earlier task");
        assert_eq!(
            error(&two("devices 0x1000-0x2fff")),
            "boot.conf:2: device memory of task 'b' belongs to an earlier task"
        );
        assert_eq!(
            error(&two("hardware rest")),
            "boot.conf:2: the rest of the hardware of task 'b' belongs to an earlier task"
        );
        assert_eq!(error(&two("memory rest")), "boot.conf:2: the memory of task 'b' belongs to an earlier task");
        assert_eq!(
            error(&two("memory 1M at 0x100000")),
            "boot.conf:2: the memory of task 'b' belongs to an earlier task"
        );
        assert_eq!(error(&two("initrd r")), "boot.conf:2: an initrd module of task 'b' belongs to an earlier task");
        assert!(error("task a { image x ports 0x3e8 }").contains("a port of the log"));
    }

    #[test]
    fn hostile_text_gives_an_error_and_nothing_else() {
        assert_eq!(parse(b"task \xff {").unwrap_err().problem, Problem::NotText);
        assert!(error(&format!("task {} {{\n}}", "x\u{7}".repeat(1000))).len() < 200);
        let mut seed = 88172645463325252u64;
        let words = [
            "task", "{", "}", "image", "args", "a", "memory", "rest", "at", "irq", "4", "\n", "#", "initrd", "0x",
            "ports", "1-2", "devices", "0-0xfff", "extra", "1M", "hardware",
        ];
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                text += words[(seed % words.len() as u64) as usize];
                text.push(' ');
            }
            if let Err(e) = parse(text.as_bytes()) {
                assert!(e.line >= 1 && !e.to_string().contains('\n'));
            }
        }
    }

    #[test]
    fn bounds_hold() {
        let irqs: String = (0..40).fold(String::new(), |line, n| line + &format!(" {n}"));
        assert_eq!(error(&format!("task a {{ image x irq{irqs} }}")), "boot.conf:1: too many: no room for '32'");
        let tasks: String = (0..20).fold(String::new(), |text, n| text + &format!("task t{n} {{ image x }}\n"));
        assert_eq!(error(&tasks), "boot.conf:17: too many: no room for 't16'");
    }
}
