# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of the counts of blocks: functions, regions, shares."""

from collections import Counter

from keel.profile import MICRO_KERNEL, NATIVE_KERNEL, PROGRAMS, SERVER, USER, Profile, as_folded, read_blocks, read_symbols, rows

KERNEL_TEXT = """\
0000000000100000 T ap_start
ffffffff80100000 t keel_kernel::ipc::receive::<u8>
ffffffff80100040 T leave_to_user
ffffffff80200000 d DATA
"""
SERVER_TEXT = """\
ffffffffc1000000 T _stext
ffffffffc1000010 T schedule
ffffffffc1000100 T _etext
ffffffffc1000200 D jiffies
"""
IMAGES = [read_symbols(MICRO_KERNEL, KERNEL_TEXT), read_symbols(SERVER, SERVER_TEXT)]


def test_blocks_belong_to_functions_and_regions() -> None:
    lines = ["0xffffffff80100008 3 10", "0xffffffff80100044 2 1", "0xffffffffc1000010 7 1", "0xffffffffc1000018 1 2"]
    lines += ["0x555555555000 5 2"]
    assert read_blocks(lines, IMAGES).counts == Counter(
        {(MICRO_KERNEL, "receive"): 30, (MICRO_KERNEL, "leave_to_user"): 2, (SERVER, "schedule"): 9, (USER, PROGRAMS): 10}
    )


def test_code_of_the_lower_half_is_a_program_s() -> None:
    # The µ-kernel has boot code there, which does not run any more.
    assert read_blocks(["0x1000100 1 1", "0x400000 1 1"], IMAGES).counts == Counter({(USER, PROGRAMS): 2})


def test_modules_are_those_of_the_image_below() -> None:
    lines = ["0xffffffffe0000010 3 1", "0xffffffff80300000 2 1"]
    assert read_blocks(lines, IMAGES).counts == Counter({(SERVER, "?"): 3, (MICRO_KERNEL, "leave_to_user"): 2})


def test_a_native_task_beside_the_kernel() -> None:
    task = read_symbols(USER, "0000000001000000 T main\n0000000001000100 T other\n")
    lines = ["0x1000000 1 1", "0x1000100 1 2", "0xffffffff80100000 1 4"]
    counts = {(USER, "main"): 1, (USER, "other"): 2, (MICRO_KERNEL, "receive"): 4}
    assert read_blocks(lines, [IMAGES[0], task]).counts == Counter(counts)


def test_a_kernel_s_unknown_address_is_not_lost() -> None:
    native = [read_symbols(NATIVE_KERNEL, "ffffffff81000000 T _text\nffffffff81001000 T _etext\n")]
    assert read_blocks(["0xffffffffc0000000 4 2"], native).counts == Counter({(NATIVE_KERNEL, "?"): 8})


def test_rows_tell_regions_first_and_shares_of_all() -> None:
    profile = Profile(Counter({(SERVER, "schedule"): 300, (USER, PROGRAMS): 100, (SERVER, "rest"): 0}))
    assert rows(profile, 1)[1:] == [
        ["300", "75.0%", SERVER, ""],
        ["100", "25.0%", USER, ""],
        ["300", "75.0%", SERVER, "schedule"],
    ]
    assert as_folded(profile).splitlines()[1] == "server;schedule 300"


def test_nothing_is_no_error() -> None:
    assert rows(Profile(Counter()), 5) == [["instructions", "share", "where", "function"]]
