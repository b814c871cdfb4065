# SPDX-License-Identifier: GPL-2.0-only
"""Native guests on the debug build: run until their end, then inspected by the debugger.

Also the tests of debugger, invariant check and event trace on such guests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import boot, bootconf, examples, guest, rust, slot, trace
from .config import KERNEL_IMAGE, Settings
from .debugger import KEY, Dialogue, Script, ask, line, lines

TIMEOUT_S = 60.0
# The start of the debugger's help: the release build's image has no such text.
HELP = b"threads, tasks, queues"
# The root task's last words on a machine without an exit device.
STANDS_STILL = b"root: the machine halts"
# The kernel's command line: the fast paths record no events; the size of each processor's ring buffer in KB.
TRACING = "nofast trace=256"
HEARTBEAT = """\
log com3
task heartbeat {
	image heartbeat
	priority 180
	args interval=50ms
}
"""
# Invalid commands: unknown words, malformed numbers, too many of them, and an empty line.
NONSENSE = (
    "no such command",
    "registers 3",
    "registers 99.0",
    "registers 3.65535",
    "registers -1.0",
    "backtrace 3.0.0",
    "map 3",
    "map 3 ffffffff80100000",
    "map 3 no-number",
    "map 1048576 0",
    "memory",
    "memory ffffffffffffffff",
    "memory ffff9fffffffffff",
    "memory 100000 8 99",
    "memory 0 1 3",
    "set 100000",
    "set ffffffffffffff00 0",
    "trace -1",
    "x" * 300,
    "\x00\x7f\x08\x1b\x1b[A\xff?",
)


@dataclass(frozen=True)
class Found:
    """The faults that a test found; empty if all was as expected."""

    results: list[tuple[str, str]] = field(default_factory=list)

    def expect(self, name: str, answer: list[str], *patterns: str) -> re.Match[str] | None:
        """The answer has lines that match the patterns as a whole, in this order; the last match."""
        at, match = 0, None
        for pattern in patterns:
            while at < len(answer) and not (match := re.fullmatch(pattern, answer[at])):
                at += 1
            if at == len(answer):
                self.results.append((name, f"expected a line {pattern!r}, got {answer[-12:]}"))
                return None
            at += 1
        self.results.append((name, ""))
        return match


def run(settings: Settings, template: Path, choices: boot.Choices, script: Script, until: bytes) -> bytes:
    """Boot a configuration, run the debugger's commands when the log has `until`, and return the log."""
    log = bytearray()

    def watch(data: bytes) -> bool:
        log.extend(data)
        return until in log

    with slot.taken(settings, f"debugger-{template.parent.name}") as mine:
        described = boot.tests_guest(settings, choices, mine)
        mine.note_symbols({slot.KERNEL: described.kernel})
        limit = choices.timeout_s or TIMEOUT_S
        guest.run(settings, described, guest.Plan(slot=mine, timeout_s=limit, watch_log=watch, debugger=Dialogue(script)))
    return bytes(log)


def traced(settings: Settings, template: Path, processors: int = 1, timeout_s: float | None = None) -> list[trace.Event]:
    """The last events of a native guest that ran to its end, or until its time limit."""
    choices = boot.Choices(
        boot_template=template,
        debugger=True,
        processors=processors,
        timeout_s=timeout_s,
        kernel_line=TRACING,
    )
    answers: list[list[str]] = []
    run(settings, template, choices, ask([trace.COMMAND], answers), STANDS_STILL)
    return trace.parse(answers[0]) if answers else []


def judge(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each test with what is wrong, or nothing."""
    found = Found()
    template = settings.build / "heartbeat.conf"
    template.parent.mkdir(parents=True, exist_ok=True)
    template.write_text(HEARTBEAT)
    choices = boot.Choices(boot_template=template, debugger=True, processors=2, kernel_line="nofast trace=16")
    run(settings, template, choices, _conversation(found), b"heartbeat 3")
    yield from found.results
    if not found.results or found.results[-1][0] != "end":
        yield "end", "the conversation broke off"
    images = [(settings.keel_directory / name).read_bytes() for name in (KERNEL_IMAGE, rust.DEBUGGER_IMAGE)]
    yield "not in the normal kernel", "" if [HELP in image for image in images] == [False, True] else "it is there"
    example = settings.repository / examples.FOLDER / "rpc" / bootconf.NAME
    yield from trace_problems(traced(settings, example))


def _conversation(found: Found) -> Script:
    """All of the debugger's commands, on two processors with a heartbeat."""
    greeting = yield KEY
    found.expect("key", lines(greeting), r"debugger: key on processor 0; .*")
    found.expect("help", lines((yield line("help"))), r"threads, tasks, .*", r".*hexadecimal.*")
    for nonsense in NONSENSE:
        found.expect(f"nonsense {nonsense[:12]!a}", lines((yield line(nonsense))), r"not understood: .*")
    timer = r"3\.0v1 Receiving partner source 0x900 open false .*"
    found.expect("threads", lines((yield line("threads"))), r"1\.0v1 .*", r"2\.0v1 .*", timer, r" +priority 180 processor 0")
    tasks = lines((yield line("tasks")))
    account = found.expect("tasks", tasks, r"task 3 chief 2 lthreads 1 account (0x[0-9a-f]+) uses [0-9]+ of ([0-9]+):")
    found.expect("queues", lines((yield line("queues"))), r"processor 0 runs .* deadline \d+", r"processor 1 runs nil .*")
    registers = lines((yield line("registers 3.0")))
    found.expect("registers", registers, r"r15 .*", r"ip 0x1[0-9a-f]{6}", r"cs 0x33", r"gs_base 0x600000001000")
    found.expect("backtrace", lines((yield line("backtrace"))), *[r"  0xffffffff801[0-9a-f]{5}"] * 3)
    found.expect("backtrace of a thread", lines((yield line("backtrace 3.0"))), *[r"  0x1[0-9a-f]{6}"] * 3)
    tree = lines((yield line("map 3 1000000")))
    place = r"(0x[0-9a-f]+) by (0x[0-9a-f]+)"
    page = found.expect("map", tree, r"  task 1 .*", r"    task 2 .*", rf"      task 3 0x1000000 .* rights 5 at {place}")
    if page is None or account is None:
        return
    ours = [text.split()[1] for text in lines((yield line("memory 1000000 4 3")))]
    physical = [text.split()[1] for text in lines((yield line(f"memory {page[1]} 4")))]
    same = "" if len(ours) == 4 and ours == physical else f"{ours} at the address, {physical} in the page"
    found.results.append(("memory", same))
    found.expect("check", lines((yield line("check"))), r"check: ok")
    yield from _damage_mapping(found, page[2])
    yield from _damage_account(found, account[1], int(account[2]))
    found.expect(
        "trace", lines((yield line("trace 8"))), r"\d+ 0 MESSAGE source 0x900 3\.0v1 .* KERNEL", r"\d+ 0 IDLE .*", r"\d+ 1 .*"
    )
    before = lines((yield line("trace 1")))
    after = yield line("go") + KEY
    found.expect("go", lines(after), r"debugger: key on processor 0; .*")
    later = lines((yield line("trace 1")))
    found.results.append(("time advances", "" if _time(later) > _time(before) else f"{before}, then {later}"))
    found.expect("panic", lines((yield line("panic"))), r"PANIC: .*", r"debugger: panic on processor 0; .*")
    found.expect("check after a panic", lines((yield line("check"))), r"check: ok")
    yield from _forbidden(found)
    found.results.append(("end", ""))


def _forbidden(found: Found) -> Script:
    """The kernel's own protection stops each of these by a page fault in the kernel, with these bits of the error code."""
    present, write, fetch = 1, 2, 16
    for name, command, error in (
        ("SMAP: the kernel reads a user's page", "touch read 1000000 3", present),
        ("SMEP: the kernel runs a user's page", "touch run 1000000 3", present | fetch),
        ("the kernel writes to its text", "touch write ffffffff80110000", present | write),
        ("the kernel runs its data", "touch run ffff800000100000", present | fetch),
        ("the page below the stack", "touch below-stack", 0),
        ("a panic with a user's gs base", "touch nothing-by-gs 1000000", 0),
    ):
        panic = rf"exception 14 in the kernel at .*, error {error:#x}"
        found.expect(name, lines((yield line(command))), panic, r"debugger: panic on processor 0; .*")


def _time(answer: list[str]) -> int:
    events = trace.parse(answer)
    return events[-1].time_ns if events else 0


def _damage_mapping(found: Found, entry: str) -> Script:
    """The check sees a page-table entry that leads elsewhere, one with too many rights, and one that is missing."""
    value = int(lines((yield line(f"memory {entry} 1")))[0].split()[1], 16)
    where = r"check: task 3 at 0x1000000: "
    for name, wrong, complaint in (
        ("an entry that leads elsewhere", value + 0x1000, where + "it came from where it is not mapped"),
        ("an entry for the kernel's memory", 0x10_0000 | value & 0xFFF, where + "forbidden memory"),
        ("an entry that is missing", 0, r"check: task 3 table 0x1000000: \d+ entries, not \d+"),
    ):
        yield line(f"set {entry} {wrong:x}")
        found.expect(f"check finds {name}", lines((yield line("check"))), complaint, r"check: \d+ violations")
        yield line(f"set {entry} {value:x}")
    found.expect("check after the damage", lines((yield line("check"))), r"check: ok")


def _damage_account(found: Found, account: str, limit: int) -> Script:
    """The check sees an account with a page too many."""
    words = [text.split()[1] for text in lines((yield line(f"memory {account} 10")))]
    offset = next(8 * index for index, word in enumerate(words) if int(word, 16) == limit)
    place = int(account, 16) + offset
    yield line(f"set {place:x} {limit + 1:x}")
    complaint = r"check: the limits are \d+ pages, used and free are \d+"
    found.expect("check finds a page too many", lines((yield line("check"))), complaint, "check: 1 violations")
    yield line(f"set {place:x} {limit:x}")
    found.expect("check of the mended account", lines((yield line("check"))), r"check: ok")


def trace_problems(events: list[trace.Event]) -> Iterator[tuple[str, str]]:
    """Whether the trace of the example rpc shows a call with its reply, and a page fault with its answer."""
    calls = [at for at, event in enumerate(events) if event.kind == "MESSAGE" and event.label == 1 and event.name == "USER"]
    clients = {events[at].thread for at in calls if _replied(events, at)}
    yield "a call and its reply", "" if clients else "the trace does not show them"
    faults = [at for at, event in enumerate(events) if event.kind == "FAULT" and _answered(events, at)]
    yield "a page fault and its answer", "" if faults else "the trace does not show them"


def _follows(events: list[trace.Event], at: int, *wanted: tuple[str, str, str]) -> bool:
    """Whether kind, thread and partner follow an event in this order."""
    seen = ((event.kind, event.thread, event.partner) for event in events[at:])
    return all(any(one == want for one in seen) for want in wanted)


def _replied(events: list[trace.Event], at: int) -> bool:
    client, server = events[at].thread, events[at].partner
    steps = (("MESSAGE", client, server), ("SWITCH", server, client), ("LEAVE", server, "nil"), ("CALL", server, "nil"))
    return _follows(events, at, *steps, ("MESSAGE", server, client), ("SWITCH", client, server), ("LEAVE", client, "nil"))


def _answered(events: list[trace.Event], at: int) -> bool:
    faulter, pager = events[at].thread, events[at].partner
    there, back = ("MESSAGE", faulter, pager), ("MESSAGE", pager, faulter)
    return _follows(events, at, there, ("SWITCH", pager, faulter), back, ("LEAVE", faulter, "nil"))
