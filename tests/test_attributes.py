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


@both
@ROOTS
def test_users_cannot_fill_the_memory_by_files(system: str, options: list[str]) -> None:
    """All places where they may write take less than all; services keep /run."""
    script = """
    total=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)
    sum=0; for place in /tmp /dev/shm /run /run/lock; do sum=$((sum + $(stat -f -c '%b * %S / 1024' $place))); done
    test $(stat -f -c %T /) = tmpfs && sum=$((sum + $(stat -f -c '%b * %S / 1024' /)))
    echo $((100 * sum / total))
    fill() { setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "cat /dev/zero > $1/file" 2>&1 | grep -o 'No space.*'; }
    fill /tmp; fill /dev/shm; fill /run/lock
    echo service > /run/service && wc -c < /run/service
    python3 -c "print(len(bytearray($total * 1024 * 8 // 100)) > 0)"; stat -c %a /tmp /dev/shm /run /run/lock
    """
    memory = ["--mem", "512"] if not options else []
    done = run_guest(system, SCRIPT, stdin=script.encode(), limit_s=LIMIT_S, options=[*options, *memory])
    share, *rest = done.output.splitlines()
    assert 60 < int(share) <= 92
    assert rest == ["No space left on device"] * 3 + ["8", "True", "1777", "1777", "755", "1777"], done.error
