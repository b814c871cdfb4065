# SPDX-License-Identifier: GPL-2.0-only
"""Modes, capabilities and access lists of the default root's files, on each kind of root, and the bounds of what is in memory."""

import pytest
from conftest import SCRIPT, SYSTEMS, run_guest

LIMIT_S = 300
# All files with more than permissions, with their owners: as Debian's packages have them, and as their scripts make them
# (ping's by setcap, redis's by dpkg-statoverride, the journal's by systemd-tmpfiles, which gives it an access list, too).
EXPECTED = """\
2770 redis redis /etc/redis
2755 root shadow /usr/bin/chage
4755 root root /usr/bin/chfn
4755 root root /usr/bin/chsh
2755 root shadow /usr/bin/expiry
4755 root root /usr/bin/gpasswd
4755 root root /usr/bin/mount
4755 root root /usr/bin/newgrp
4755 root root /usr/bin/passwd
755 root root /usr/bin/ping security.capability=0100000200200000000000000000000000000000
2755 root _ssh /usr/bin/ssh-agent
4755 root root /usr/bin/su
4755 root root /usr/bin/umount
4754 root messagebus /usr/lib/dbus-1.0/dbus-daemon-launch-helper
4755 root root /usr/lib/openssh/ssh-keysign
2755 root shadow /usr/sbin/unix_chkpwd
2775 root staff /var/local
2755 root systemd-journal /var/log/journal \
system.posix_acl_access=0200000001000700ffffffff04000500ffffffff080005000400000010000500ffffffff20000500ffffffff \
system.posix_acl_default=0200000001000700ffffffff04000500ffffffff080005000400000010000500ffffffff20000500ffffffff
2750 redis adm /var/log/redis
2775 root mail /var/mail
1777 root root /var/tmp
"""
LISTED = """
import os, pwd, grp, stat
device, rows = os.lstat("/").st_dev, []
for place, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.lstat(os.path.join(place, name)).st_dev == device]
    for path in (os.path.join(place, name) for name in folders + files):
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            continue
        held = [f"{name}={os.getxattr(path, name).hex()}" for name in sorted(os.listxattr(path))]
        mode = stat.S_IMODE(info.st_mode)
        if held or mode & 0o7000:
            owner = pwd.getpwuid(info.st_uid).pw_name, grp.getgrgid(info.st_gid).gr_name
            rows.append((path, " ".join([f"{mode:o}", *owner, path, *held])))
print("\\n".join(row for path, row in sorted(rows)))
"""
PING = "setpriv --reuid 65534 --regid 65534 --clear-groups ping -q -c 1 -w 20 127.0.0.1 > /dev/null; echo $?"
# How a root is: on a disk, or in memory.
ROOTS = pytest.mark.parametrize("options", [[], ["--icount"]], ids=["disk", "memory"])
both = pytest.mark.parametrize("system", SYSTEMS)


@both
@ROOTS
def test_the_files_of_the_default_root_are_as_debian_has_them(system: str, options: list[str]) -> None:
    """And a user can ping, by a capability of that program."""
    script = f"python3 -c '{LISTED}'\n{PING}\nls -A / | grep keel-"
    done = run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S, options=options)
    assert done.output == EXPECTED + "0\n", done.error


# Makes files without data, as many as there can be, then one with as much data as fits.
FILLED = """
import errno, os, sys
for place in sys.argv[1:]:
    try:
        for number in range(1 << 30):
            os.close(os.open(f"{place}/{number}", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        print(place, number > 0, errno.errorcode[error.errno])
    try:
        with open(f"{place}/0", "wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
    except OSError as error:
        print(place, errno.errorcode[error.errno])
"""


@both
@pytest.mark.parametrize("options", [[], ["--icount"], ["--init", "systemd"]], ids=["disk", "memory", "systemd"])
def test_users_cannot_fill_the_memory_by_files(system: str, options: list[str]) -> None:
    """All places where they may write, full of files and data, leave memory to others; services keep /run."""
    in_memory = "--icount" in options
    places = "/tmp /dev/shm /run/lock /var/tmp" if in_memory else "/tmp /dev/shm /run/lock"
    script = f"""
    setpriv --reuid 65534 --regid 65534 --clear-groups python3 -c '{FILLED}' {places}
    echo service > /run/service && wc -c < /run/service
    stat -c %a /tmp /dev/shm /run /run/lock
    total=$(awk '/^MemTotal/ {{ print $2 }}' /proc/meminfo)
    python3 -c "print(len(bytearray($total * 1024 * 4 // 100)) > 0)"
    """
    memory = [*options, "--mem", "1536" if in_memory else "384"]
    done = run_guest(system, SCRIPT, stdin=script.encode(), limit_s=2 * LIMIT_S, options=memory)
    filled = [line for place in places.split() for line in (f"{place} True ENOSPC", f"{place} ENOSPC")]
    assert done.output.splitlines() == [*filled, "8", "1777", "1777", "755", "1777", "True"], done.error
