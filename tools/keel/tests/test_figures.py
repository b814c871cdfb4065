# SPDX-License-Identifier: GPL-2.0-only
"""How the µ-kernel's figures are read and judged."""

import json

from keel.figures import KNOWN, MEASURED_RUST, Figure, as_json, as_text, judge, leeway, parse, rows

LINE = '{"name":"null-call","median":241,"least":240,"most":1300,"idled":false}'

UNSCRUBBED = LINE.replace("241", "230")


def within() -> list[Figure]:
    return [Figure(name, known.ceiling, known.ceiling, known.ceiling, False) for name, known in KNOWN.items()]


def test_only_the_figures_are_read() -> None:
    assert parse(f"root: task bench\n{LINE}\nroot: end\n") == [Figure("null-call", 241, 240, 1300, False)]


def test_figures_at_their_ceilings_pass() -> None:
    assert not [problem for _, problem in judge(within(), 1.0) if problem]


def test_only_an_older_compiler_has_leeway() -> None:
    assert leeway(MEASURED_RUST) == leeway((2, 0)) == 1
    above = [Figure(figure.name, figure.median + 1, figure.least, figure.most, False) for figure in within()]
    assert not [problem for _, problem in judge(above, leeway((1, 85))) if problem]


def test_what_is_above_its_ceiling_unknown_missing_or_idled_fails() -> None:
    figures = within()[3:]
    first, second = figures[:2]
    figures[0] = Figure(first.name, first.median + 1, first.least, first.most + 1, False)
    figures[1] = Figure(second.name, 1, 1, 1, True)
    figures.append(Figure("another", 1, 1, 1, False))
    failed = {name for name, problem in judge(figures, 1.0) if problem}
    assert failed == {first.name, second.name, "another", *list(KNOWN)[:3]}


def test_the_table_shows_the_spread_and_the_references() -> None:
    line = as_text(rows(parse(LINE), parse(UNSCRUBBED))).splitlines()[2]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["null-call", "241", "230", "241", "80", "240 to 1300"]


def test_json_has_the_ceiling() -> None:
    written = json.loads(as_json(parse(LINE), parse(UNSCRUBBED), []))
    assert written["figures"]["null-call"]["ceiling"] == KNOWN["null-call"].ceiling
