# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's arguments for the guests that Keel starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from keel import machine, qemu

NATIVE = qemu.Guest(kernel=Path("/k/bzImage"), command_line="console=ttyS0", ramdisk=Path("/k/root.cpio"))
KEEL = qemu.Guest(
    kernel=Path("/k/kernel.elf"),
    modules=(qemu.Module(Path("/k/sigma0")), qemu.Module(Path("/k/a,b"), "x=1,2")),
)


def after(argv: list[str], option: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option]


def test_native_has_one_ram_disk_and_a_command_line() -> None:
    argv = qemu.arguments(NATIVE)
    assert after(argv, "-initrd") == ["/k/root.cpio"]
    assert after(argv, "-append") == ["console=ttyS0"]


def test_modules_are_joined_and_their_commas_doubled() -> None:
    assert after(qemu.arguments(KEEL), "-initrd") == ["/k/sigma0,/k/a,,b x=1,,2"]


def test_a_comma_in_a_path_ends_no_option() -> None:
    described = replace(
        NATIVE,
        gdb_socket=Path("/a,b/gdb"),
        disks=(qemu.Disk(Path("/a,b/disk"), "raw"),),
        disc=Path("/a,b/disc"),
        display="vnc=unix:/a,b/vnc",
        extra=qemu.plugin(Path("/a,b=c/x.so"), "output=/a,b/report", "part=on"),
    )
    argv = qemu.arguments(described)
    assert not [word for word in argv if "a,b" in word]
    assert sum("a,,b" in word for word in argv) == 5
    assert after(argv, "-plugin") == ["file=/a,,b=c/x.so,output=/a,,b/report,part=on"]


def test_both_systems_get_the_same_machine() -> None:
    own = {"-kernel", "-append", "-initrd"}

    def common(argv: list[str]) -> list[str]:
        return [w for i, w in enumerate(argv) if w not in own and argv[i - 1] not in own]

    assert common(qemu.arguments(NATIVE)) == common(qemu.arguments(KEEL))


def test_the_serial_lines_come_in_the_order_of_their_ports() -> None:
    argv = qemu.arguments(replace(NATIVE, console="socket,fd=5", exec="socket,fd=6", log="socket,fd=7"))
    assert after(argv, "-serial") == [f"chardev:{port.name}" for port in machine.SERIAL_PORTS]
    assert "socket,fd=6,id=exec" in after(argv, "-chardev")


def test_a_port_has_a_name_by_which_the_guest_finds_it() -> None:
    argv = qemu.arguments(replace(NATIVE, port="socket,fd=8"))
    assert "socket,fd=8,id=port" in after(argv, "-chardev")
    devices = [device for device in after(argv, "-device") if device.startswith("virt")]
    assert devices == ["virtio-serial-pci,max_ports=2", "virtserialport,chardev=port,name=keel.exec"]
    assert not any("virtserialport" in word for word in qemu.arguments(NATIVE))


def test_a_board_without_pci_gets_its_serial_lines_as_devices() -> None:
    argv = qemu.arguments(replace(NATIVE, model="microvm"))
    assert after(argv, "-machine") == ["microvm"] and not after(argv, "-serial")
    lines = [device for device in after(argv, "-device") if device.startswith("isa-serial")]
    assert lines == [
        f"isa-serial,chardev={port.name},iobase={port.port:#x},irq={port.interrupt}" for port in machine.SERIAL_PORTS
    ]


def test_an_iommu_comes_before_the_devices_that_heed_it() -> None:
    disks = (qemu.Disk(Path("/a"), "raw"), qemu.Disk(Path("/b"), "raw", bus="nvme"))
    described = replace(NATIVE, has_iommu=True, disks=disks, card="virtio", random_numbers=True)
    argv = qemu.arguments(described)
    assert after(argv, "-machine") == ["q35"]
    usual = [device for device in after(argv, "-device") if not device.startswith("isa-")]
    assert usual[0] == "intel-iommu"
    assert [device.split(",")[0] for device in usual if "iommu_platform=on" in device] == [
        "virtio-blk-pci",
        "virtio-net-pci",
        "virtio-rng-pci",
    ]
    assert not any("iommu" in word for word in qemu.arguments(replace(described, has_iommu=False)))


def test_the_debug_build_has_a_fourth_line_and_no_exit() -> None:
    argv = qemu.arguments(replace(KEEL, debugger="socket,fd=9", has_exit=False))
    assert after(argv, "-serial")[3:] == [f"chardev:{machine.DEBUGGER.name}"]
    assert not any("isa-debug-exit" in device for device in after(argv, "-device"))
    assert any("isa-debug-exit" in device for device in after(qemu.arguments(KEEL), "-device"))


def test_the_instruction_clock_is_the_documented_one() -> None:
    assert after(qemu.arguments(replace(NATIVE, icount=True)), "-icount") == ["shift=0,sleep=off"]
    assert "-icount" not in qemu.arguments(NATIVE)


def test_only_a_stopped_guest_waits_for_gdb() -> None:
    attached = replace(NATIVE, gdb_socket=Path("/r/gdb"))
    assert "-S" not in qemu.arguments(attached)
    assert "-S" in qemu.arguments(replace(attached, stopped=True))
    assert after(qemu.arguments(attached), "-gdb") == ["chardev:gdb"]


def test_the_users_arguments_come_last() -> None:
    assert qemu.arguments(replace(NATIVE, extra=("-d", "int")))[-2:] == ["-d", "int"]


def test_the_exit_port_gives_odd_statuses() -> None:
    assert machine.emulator_status(machine.EXIT_POWER_OFF) == 33
    assert machine.exit_value(33) == machine.EXIT_POWER_OFF
    assert [machine.exit_value(status) for status in (None, 0, 2, -9)] == [None] * 4


def test_there_is_one_processor_unless_the_guest_says_otherwise() -> None:
    assert after(qemu.arguments(KEEL), "-smp") == ["1"]
    assert after(qemu.arguments(replace(KEEL, processors=4)), "-smp") == ["4"]


def test_disks_keep_only_what_they_are_told_to() -> None:
    disks = (
        qemu.Disk(Path("/d/a,b"), "raw"),
        qemu.Disk(Path("/d/c"), "qcow2", "ahci", keep=True),
        qemu.Disk(Path("/d/e"), "raw", "nvme"),
    )
    argv = qemu.arguments(replace(NATIVE, disks=disks))
    drives = [dict(word.partition("=")[::2] for word in drive.replace(",,", ";").split(",")) for drive in after(argv, "-drive")]
    assert [(drive["file"], drive["format"], drive["snapshot"]) for drive in drives] == [
        ("/d/a;b", "raw", "on"),
        ("/d/c", "qcow2", "off"),
        ("/d/e", "raw", "on"),
    ]
    devices = after(argv, "-device")
    assert [d.split(",")[0] for d in devices if "drive=" in d] == ["virtio-blk-pci", "ide-hd", "nvme"]
    assert devices.count(machine.AHCI) == 1 and machine.AHCI not in after(qemu.arguments(NATIVE), "-device")


def test_the_devices_that_are_needed_are_known() -> None:
    disks = (qemu.Disk(Path("/d/a"), "raw"), qemu.Disk(Path("/d/b,device=x"), "raw", "ahci"))
    wanted = ["isa-debug-exit", "ich9-ahci", "virtio-blk-pci", "ide-hd", "e1000", "virtio-rng-pci"]
    assert qemu.models(replace(NATIVE, disks=disks, card="e1000", random_numbers=True)) == wanted
    assert qemu.models(NATIVE) == ["isa-debug-exit"]


@pytest.mark.parametrize("card", machine.CARDS)
def test_a_card_has_a_network(card: str) -> None:
    argv = qemu.arguments(replace(NATIVE, card=card))
    assert after(argv, "-netdev") == ["user,id=net"]
    assert machine.CARDS[card] in after(argv, "-device")
    restricted = qemu.arguments(replace(NATIVE, card=card, is_restricted=True))
    assert after(restricted, "-netdev") == ["user,id=net,restrict=on"] and after(restricted, "-device") == after(argv, "-device")
    assert "-netdev" not in qemu.arguments(NATIVE)
