# SPDX-License-Identifier: GPL-2.0-only
"""The emulated machines, as data. Keel and native Linux run on the same one."""

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

EMULATOR = "qemu-system-x86_64"
# `max` without what the emulator does badly or Keel and the baseline do not use;
# with ERMS it would copy byte by byte. FSRM, which newer emulators have, implies ERMS: with FSRM alone Linux 6.1's memmove
# fails.
KVM_HOST_CPU = "max,-erms,-fsrm,-la57,-pku,-mpx"
CPU = f"{KVM_HOST_CPU},-svm"
# The usual processor under a KVM whose own machine is emulated: the SVM of QEMU's TCG (7.2) does not report XSETBV to KVM.
NESTED_CPU = f"{CPU},-xsave"
# With this KVM does not read the guest's task priority for QEMU. If it did, QEMU would write the guest's registers back, the task
# register as a busy one, with which the emulated SVM denies every port to user programs.
NESTED_ARGUMENTS = ("-global", "kvm-apic.vapic=off")
DEFAULT_MEMORY_MB = 2048
LEAST_MEMORY_MB = 64
# The memory for the suite on the µ-kernel: it can exhaust it in reasonable time.
TESTS_MEMORY_MB = 512
# The number that Linux is built for (NR_CPUS); the µ-kernel runs on more.
MOST_PROCESSORS = 8

# A write of v to this port ends QEMU with the status (v << 1) | 1.
EXIT_PORT = 0xF4
EXIT_POWER_OFF = 0x10
EXIT_REBOOT = 0x11
EXIT_LINUX_PANIC = 0x12
EXIT_KERNEL_PANIC = 0x13
EXIT_BOOT_CONFIGURATION = 0x14
EXIT_TESTS_PASSED = 0x20
EXIT_TESTS_FAILED = 0x21
EXIT_PROBE = 0x30


def emulator_status(value: int) -> int:
    """QEMU's exit status when the guest writes this value to the exit port."""
    return (value << 1) | 1


def exit_value(status: int | None) -> int | None:
    """What the guest wrote to the exit port; None if QEMU ended otherwise."""
    return status >> 1 if status is not None and status > 0 and status & 1 else None


@dataclass(frozen=True)
class SerialPort:
    """One serial line of the machine."""

    name: str
    port: int
    interrupt: int
    use: str


# COM3 shares its interrupt with COM1 on a PC; it is written by polling only.
CONSOLE = SerialPort("console", 0x3F8, 4, "Linux's console")
EXEC = SerialPort("exec", 0x2F8, 3, "the framed channel to the guest's init")
LOG = SerialPort("log", 0x3E8, 4, "the log of the µ-kernel and the native tasks")
SERIAL_PORTS = (CONSOLE, EXEC, LOG)
# A port of virtio's for the same channel, where it carries much; the name by which the guest's init finds it. QEMU gives
# number 0 to a console only.
PORT = "port"
PORT_NAME = "keel.exec"
PORT_DEVICES = ("virtio-serial-pci,max_ports=2", f"virtserialport,chardev={PORT},name={PORT_NAME}")
# Only a guest with the debug build has it.
DEBUGGER = SerialPort("debugger", 0x2E8, 3, "the debugger of the µ-kernel")


# How a disk is attached, with the words for it; `{}` is the number of the disk.
BUSES = {
    "virtio": "virtio-blk-pci,drive=disk{0}",
    "ahci": "ide-hd,drive=disk{0},bus=ahci.{0}",
    "nvme": "nvme,drive=disk{0},serial=keel{0}",
}
# More than the ports of QEMU's AHCI controller are never needed.
MOST_DISKS = 6
AHCI = "ich9-ahci,id=ahci"
# Network cards, without the firmware that could boot from them.
CARDS = {
    "virtio": "virtio-net-pci,netdev=net,romfile=",
    "e1000": "e1000,netdev=net,romfile=",
}
# After a card: its network leads neither to the host nor beyond. What is forwarded still comes in.
RESTRICTED = ",restrict=on"
NETWORKS = (*CARDS, *(f"{card}{RESTRICTED}" for card in CARDS), "none")
# OVMF's code and variables, which are as new at every start.
UEFI_FILES = (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd"))
UEFI = (
    f"if=pflash,format=raw,unit=0,readonly=on,file={UEFI_FILES[0]}",
    f"if=pflash,format=raw,unit=1,snapshot=on,file={UEFI_FILES[1]}",
)
# The usual machine, one for an IOMMU, and one that has no PCI.
USUAL_MODEL = "pc"
IOMMU_MODEL = "q35"
MICROVM = "microvm"
IOMMU = "intel-iommu"
# Options that make QEMU's virtio devices access memory through the IOMMU.
BEHIND_IOMMU = ",disable-legacy=on,iommu_platform=on"
DISC = "ide-cd,drive=disc,bootindex=0"
RANDOM_NUMBERS = "virtio-rng-pci"
# A directory of the host, with the tag by which the guest's init finds it; `{}` is its number. The init has as many.
SHARE = "virtio-9p-pci,fsdev=share{0},mount_tag=share{0}"
MOST_SHARES = 8
# What QEMU's user-mode network gives the guest: its address, the gateway and the name server. The card keeps its name.
NETWORK_PARAMETERS = ("ip=10.0.2.15::10.0.2.2:255.255.255.0:keel:eth0:off:10.0.2.3", "net.ifnames=0")
# The choices for process 1 of a guest.
INITS = ("keel", "systemd")
ROOT_DISK = "/dev/vda"


def is_microvm(model: str) -> bool:
    """Whether a board, given with its options, is the one without PCI."""
    return model.split(",")[0] == MICROVM


class Emulator(Enum):
    """The emulators."""

    QEMU = "QEMU"
    BOCHS = "Bochs"
    KVM = "QEMU under KVM"


@dataclass(frozen=True)
class TestMachine:
    """A machine that the suite of the µ-kernel runs on, and Linux where it is one of MACHINES."""

    name: str
    emulator: Emulator
    processors: int = 1
    processor: str = CPU
    kernel_line: str = ""
    # Where Linux runs there, a word of placement.PLACES.
    linux_place: str = "task"
    icount: bool = False
    arguments: str = ""
    # It has the debug build, which checks its invariants when it is asked.
    checks: bool = False
    timeout_s: float = 300.0
    # The version of QEMU that it asks for; the host's without one.
    qemu: str = ""
    # QEMU's board, with what is left out of it.
    model: str = USUAL_MODEL
    memory_mb: int = TESTS_MEMORY_MB
    # It boots by UEFI and GRUB from an ISO image.
    uefi: bool = False
    # Those of MACHINE_TESTS that `./keel test` runs on it each time.
    daily: tuple[str, ...] = ()

    def has_host_clock(self) -> bool:
        """Whether its time is the host's, and so depends on the load there."""
        return self.emulator is not Emulator.BOCHS and not self.icount


# The word of the µ-kernel's command line by which there are small address spaces although QEMU's translator does not
# check segment limits.
UNSAFE = "small-unsafe"

# One of Bochs's processors, with PCID, INVPCID, SMEP, SMAP, UMIP, FSGSBASE and XSAVE.
BOCHS_PROCESSOR = "corei7_icelake_u"
# Bochs checks what QEMU's translator does not, such as segment limits and reserved bits, and has PCID and INVPCID,
# though it drops all TLB entries at every change of space.
TEST_MACHINES = (
    TestMachine("qemu-1", Emulator.QEMU, kernel_line=UNSAFE),
    TestMachine("qemu-1-nofast", Emulator.QEMU, kernel_line=f"nofast {UNSAFE}"),
    TestMachine("qemu-1-supervisor", Emulator.QEMU, kernel_line=f"supervisor {UNSAFE}"),
    TestMachine("qemu-2-supervisor", Emulator.QEMU, processors=2, kernel_line=f"supervisor {UNSAFE}"),
    # With the debug build each race occurs every time (topic races).
    TestMachine("qemu-2", Emulator.QEMU, processors=2, kernel_line=UNSAFE, checks=True),
    TestMachine("qemu-4", Emulator.QEMU, processors=4, kernel_line=UNSAFE),
    # The emulator of Debian 13 on every host.
    TestMachine("parallel", Emulator.QEMU, processors=4, kernel_line=UNSAFE, qemu="10"),
    # Without that word small address spaces are refused.
    TestMachine("qemu-1-small", Emulator.QEMU, arguments="only=small"),
    # PCID, INVPCID, SMEP, SMAP, UMIP, FSGSBASE and XSAVE are all there, or none of them.
    TestMachine("bochs", Emulator.BOCHS, processors=2, processor=BOCHS_PROCESSOR),
    # The local APICs are locked in x2APIC mode, which QEMU's translator does not have. Bochs cannot leave it.
    TestMachine("bochs-x2apic", Emulator.BOCHS, processors=2, processor=BOCHS_PROCESSOR, kernel_line="x2apic-locked"),
    TestMachine("bochs-supervisor", Emulator.BOCHS, processors=2, processor=BOCHS_PROCESSOR, kernel_line="supervisor"),
    TestMachine("bochs-old", Emulator.BOCHS, processor="corei5_lynnfield_750"),
)

# Tests on a machine unlike the usual one: the suite of the µ-kernel, Linux until each kind of shutdown, a µ-kernel panic.
MACHINE_TESTS = ("suite", "power-off", "reboot", "panic", "kernel-panic")
# Nested KVM in an emulated machine takes five times as long.
KVM_LIMIT_S = 1200.0
# Machines unlike the usual one; docs/machines.md says what each has.
MACHINES = (
    TestMachine("q35", Emulator.QEMU, kernel_line=UNSAFE, processors=2, model="q35"),
    TestMachine(
        "q35-nopit",
        Emulator.QEMU,
        kernel_line=UNSAFE,
        model="q35,pit=off",
        daily=("power-off", "reboot", "panic", "kernel-panic"),
    ),
    TestMachine("microvm", Emulator.QEMU, kernel_line=UNSAFE, model=MICROVM, daily=("power-off", "reboot")),
    TestMachine("6gb", Emulator.QEMU, kernel_line=UNSAFE, processors=2, memory_mb=6144, daily=("power-off",)),
    TestMachine("uefi", Emulator.QEMU, kernel_line=UNSAFE, model="q35", uefi=True),
    TestMachine("kvm", Emulator.KVM, kernel_line=UNSAFE, timeout_s=KVM_LIMIT_S, daily=("suite", "power-off")),
    TestMachine("kvm-2", Emulator.KVM, processors=2, kernel_line=UNSAFE, timeout_s=KVM_LIMIT_S),
    TestMachine("kvm-colocated", Emulator.KVM, kernel_line=UNSAFE, linux_place="kernel", timeout_s=KVM_LIMIT_S),
    TestMachine("kvm-2-colocated", Emulator.KVM, processors=2, kernel_line=UNSAFE, linux_place="kernel", timeout_s=KVM_LIMIT_S),
    # As some firmware leaves the local APICs, in a mode that QEMU's translator does not have.
    TestMachine("kvm-x2apic", Emulator.KVM, kernel_line=f"x2apic-locked {UNSAFE}", timeout_s=KVM_LIMIT_S),
)

# The hostile programs, half a million calls in all. On the deterministic clock a seed reproduces a run, and on one processor
# the delay of a heartbeat depends on the kernel alone. Two processors take turns on that clock; four run as threads of the
# host, to find races: there the delay depends on the host's load. On one of them the kernel checks all of its
# invariants, during the run and at its end.
HOSTILE_MACHINES = (
    TestMachine("hostile-1", Emulator.QEMU, kernel_line=UNSAFE, icount=True, arguments="calls=200000 late-us=1000"),
    TestMachine(
        "hostile-2", Emulator.QEMU, processors=2, kernel_line=UNSAFE, icount=True, arguments="calls=150000 late-us=2000000"
    ),
    TestMachine(
        "hostile-checked",
        Emulator.QEMU,
        processors=2,
        kernel_line=UNSAFE,
        icount=True,
        arguments="calls=100000 late-us=2000000 checks=1",
        checks=True,
    ),
    TestMachine("hostile-4", Emulator.QEMU, processors=4, kernel_line=UNSAFE, arguments="calls=50000 late-us=2000000"),
    TestMachine(
        "hostile-parallel", Emulator.QEMU, processors=4, kernel_line=UNSAFE, arguments="calls=50000 late-us=2000000", qemu="10"
    ),
    # Only where segments have limits the random programs run in windows.
    TestMachine(
        "hostile-bochs",
        Emulator.BOCHS,
        processors=2,
        processor=BOCHS_PROCESSOR,
        arguments="calls=30000 late-us=2000000 limit-s=2000",
        timeout_s=900.0,
    ),
)
HOSTILE_LONG = TestMachine(
    "hostile-long",
    Emulator.QEMU,
    kernel_line=UNSAFE,
    icount=True,
    arguments="calls=2000000 late-us=1000 limit-s=1000",
    timeout_s=3600.0,
)
# A server that fails again and again while it spins, and is restarted this often; and one that attacks with its own
# threads until it fails or has been silent for a while. A deletion delays a heartbeat by as much as
# docs/caveats.md says, and each line about a restart by as much as the host takes for it.
SERVER_MACHINES = (
    TestMachine("hostile-server", Emulator.QEMU, icount=True, arguments="spins=1 calls=50 late-us=10000 limit-s=10"),
    TestMachine(
        "hostile-server-2", Emulator.QEMU, processors=2, icount=True, arguments="spins=1 calls=50 late-us=2000000 limit-s=60"
    ),
    TestMachine("attacking-server", Emulator.QEMU, icount=True, arguments="calls=60000 late-us=5000"),
    TestMachine(
        "attacking-server-2",
        Emulator.QEMU,
        processors=2,
        icount=True,
        arguments="calls=20000 late-us=2000000 checks=1",
        checks=True,
    ),
)
# Unmaps that take long. On one processor a heartbeat is delayed by the kernel's longest time between preemption points, on two
# that take turns a little more; four run as threads of the host, which delays theirs. In a crowd a server fails while its
# threads map on seven other processors: its restart must end, within milliseconds if the host is idle.
UNMAPS_MACHINES = (
    TestMachine("unmaps", Emulator.QEMU, icount=True, arguments="late-us=5000"),
    TestMachine("unmaps-2", Emulator.QEMU, processors=2, icount=True, arguments="late-us=5000"),
    TestMachine("unmaps-4", Emulator.QEMU, processors=4, arguments="late-us=2000000 within-ms=10000"),
    TestMachine("unmaps-crowd", Emulator.QEMU, processors=8, arguments="crowd=1 late-us=10000000 within-ms=10000"),
)
# Direct calls, while other processors look at both sides and change them. On the deterministic clock the processors take turns;
# on the host's they are threads of the host, to find races, and on two of them the kernel checks its invariants. Bochs has PCID.
PAIRS_MACHINES = (
    TestMachine("pairs", Emulator.QEMU, kernel_line="supervisor", icount=True),
    TestMachine("pairs-2", Emulator.QEMU, processors=2, kernel_line="supervisor", icount=True),
    TestMachine("pairs-checked", Emulator.QEMU, processors=2, kernel_line="supervisor", checks=True),
    TestMachine("pairs-4", Emulator.QEMU, processors=4, kernel_line="supervisor"),
    TestMachine(
        "pairs-bochs",
        Emulator.BOCHS,
        processors=2,
        processor=BOCHS_PROCESSOR,
        kernel_line="supervisor",
        arguments="rounds=100",
    ),
)
# The same of a server in user mode that its 32-bit clients' spaces show.
RESIDENTS_MACHINES = tuple(
    replace(tested, name=tested.name.replace("pairs", "residents"), arguments="rounds=100") for tested in PAIRS_MACHINES
)
# Random accesses of a small task, which nothing but segment limits holds back.
SMALL_LONG = TestMachine(
    "small-random-long",
    Emulator.BOCHS,
    processor="corei7_icelake_u",
    arguments="only=small-random attacks=1000000",
    timeout_s=3600.0,
)
SERVER_LONG = (
    TestMachine(
        "attacking-server-long",
        Emulator.QEMU,
        icount=True,
        arguments="calls=1000000 late-us=10000 limit-s=1000",
        timeout_s=3600.0,
    ),
    TestMachine(
        "attacking-server-2-long",
        Emulator.QEMU,
        processors=2,
        icount=True,
        arguments="calls=1000000 late-us=2000000 limit-s=10000",
        timeout_s=3600.0,
    ),
)
