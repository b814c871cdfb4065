# SPDX-License-Identifier: GPL-2.0-only
"""fio on every kind of disk, curl and iperf3 on every kind of network card, natively and on Keel."""

import socket
from pathlib import Path

import pytest
from conftest import DEBIAN_PACKAGES, SCRIPT, SYSTEMS, Result, run_guest
from test_devices import HOST, LIMIT_S, Echo, disk, serving

FIO_MB = 8
DISKS = {"/dev/vdb": "virtio", "/dev/sda": "ahci", "/dev/nvme0n1": "nvme"}
# fio's jobs with verification: the engine, the pattern of writes, the block size, the queue depth.
FIO_JOBS = ("libaio randwrite 4k 16", "io_uring randrw 16k 8", "psync write 128k 1")
FIO = f"""
for disk in {" ".join(DISKS)}; do
    while read -r engine how block depth; do
        fio --name=job --filename=$disk --size={FIO_MB}M --ioengine=$engine --rw=$how --bs=$block --iodepth=$depth \\
            --direct=1 --verify=crc32c --verify_fatal=1 --minimal > /tmp/log 2>&1
        echo "$disk $engine $how $?"
        grep -i 'verify:\\|error' /tmp/log
    done <<END
{chr(10).join(FIO_JOBS)}
END
done
exit 0
"""
CARDS = ("virtio", "e1000")
NETWORK_BYTES = 16 << 20
IPERF_PORT = 5201
# Both ends of iperf3 are in the guest: packets go through the card to the host, where the emulator forwards a port to the guest.
NETWORK = f"""
head -c {NETWORK_BYTES} /dev/urandom > /tmp/file
curl -sS --data-binary @/tmp/file "$SERVER" | cmp - /tmp/file && echo echoed
iperf3 -s -D -p {IPERF_PORT}
until ss -Hltn | grep -q :{IPERF_PORT}; do :; done
for options in "" "-R" "-P 4" "--bidir"; do
    iperf3 -c {HOST} -p "$PORT" -t 3 $options > /tmp/log 2>&1
    echo "iperf3 $options $? $(grep -c 'receiver$' /tmp/log)"
done
cat /tmp/log >&2
exit 0
"""


def test_fio_verifies_on_every_disk(tmp_path: Path) -> None:
    """fio reads back what it wrote, by three methods, on a disk on virtio, AHCI and NVMe."""
    results: dict[str, Result] = {}
    for system in SYSTEMS:
        images = [f"--drive={bus}:{disk(tmp_path / f'{system}-{bus}.img', FIO_MB << 20)}" for bus in DISKS.values()]
        results[system] = run_guest(system, SCRIPT, stdin=FIO.encode(), limit_s=LIMIT_S, options=[*DEBIAN_PACKAGES, *images])
    wanted = [f"{device} {engine} {how} 0" for device in DISKS for engine, how, *_ in map(str.split, FIO_JOBS)]
    assert {system: result.output.splitlines() for system, result in results.items()} == dict.fromkeys(SYSTEMS, wanted)


def free_port() -> int:
    """A free port of the host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_network_through_every_card(system: str, card: str) -> None:
    """curl sends a file and gets it back. iperf3 succeeds in either direction, with several streams, and in both directions at
    once.
    """
    port = free_port()
    forward = ["--qemu-arg=-set", f"--qemu-arg=netdev.net.hostfwd=tcp:127.0.0.1:{port}-:{IPERF_PORT}"]
    with serving(Echo) as server:
        script = f"SERVER={server} PORT={port}\n{NETWORK}"
        options = [*DEBIAN_PACKAGES, "--nic", card, *forward]
        result = run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S, options=options)
    wanted = ["echoed", "iperf3  0 1", "iperf3 -R 0 1", "iperf3 -P 4 0 5", "iperf3 --bidir 0 2"]
    assert result.output.splitlines() == wanted, result.error
