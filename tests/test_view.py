"""The screen: a terminal, a pipe, a reader that has gone (P77, P79, P81)."""

from __future__ import annotations

import io
import os
import pty
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import pytest
import trio
import trio.testing

from society.grids import Grid
from society.lines import Part, sparkline
from society.view import Screen, curves, progress

HOSTILE = "x [/] [/INST] [bold]loud[/bold] [red] arr[0] [link=file] \\[ :smile:"
ESCAPES = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")


@contextmanager
def terminal(columns: int = 80, **environ: str) -> Iterator[tuple[Screen, Any]]:
    """Give a screen on a terminal of its own, and a function that returns what is seen on it."""
    ours, theirs = pty.openpty()
    out = os.fdopen(theirs, "w", encoding="utf-8")
    screen = Screen(out, out, {"TERM": "xterm-256color", "COLUMNS": str(columns), **environ})

    def seen() -> str:
        out.flush()
        os.set_blocking(ours, False)
        found = b""
        try:
            while piece := os.read(ours, 65536):
                found += piece
        except BlockingIOError:
            pass
        return found.decode()

    yield screen, seen
    out.close()
    os.close(ours)


def piped() -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(out, io.StringIO(), {}), out


def table(cell: str) -> Grid:
    return Grid(cell, ("name", cell), ((Part(cell, "name"), Part(cell, "value")),))


@pytest.mark.parametrize("text", [HOSTILE, "[", "[/nope]", "\\"])
def test_what_looks_like_markup_appears_as_it_is(text: str) -> None:
    with terminal(200) as (screen, seen):
        screen.print([(Part(text, "agent"),)])
        screen.say(text)
        screen.grid(table(text))
        assert ESCAPES.sub("", seen()).count(text) >= 5


def test_no_data_controls_the_terminal() -> None:
    with terminal(200, NO_COLOR="1") as (screen, seen):
        screen.print([(Part("a\x1b]0;owned\x07b\x9b2J\u202e", "value"),)])
        screen.grid(table("\x1b[2J"))
        shown = ESCAPES.sub("", seen())
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "a\\x1b]0;owned\\x07b\\x9b2J\\u202e" in shown


def test_a_file_gets_no_escapes_and_nothing_is_cut() -> None:
    screen, out = piped()
    name = "n" * 5000

    screen.print([(Part(name, "agent"), Part(" is here", "bad"))])
    screen.grid(table(name))

    assert "\x1b" not in out.getvalue()
    assert out.getvalue().splitlines()[0] == name + " is here"
    assert out.getvalue().count(name) == 5
    assert screen.bound is None


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {}])
def test_twenty_columns_are_enough(environ: Mapping[str, str]) -> None:
    with terminal(20, **environ) as (screen, seen):
        screen.grid(table("a name of many words and letters"))
        screen.print([(Part("w" * 60, "name"),)])
        shown = ESCAPES.sub("", seen())
    assert "w" * 60 in shown
    assert "…" not in shown


def test_no_color_means_no_color() -> None:
    with terminal(NO_COLOR="1") as (screen, seen):
        screen.print([(Part("x", "bad"),)])
        assert not re.search("\x1b\\[(3|4)[0-9]", seen())


def test_letters_that_an_encoding_lacks_are_written_in_others() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    screen = Screen(out, io.StringIO(), {})

    screen.print([(Part("a → b … é"),)])

    assert raw.getvalue() == b"a -> b ... \\xe9\n"


def test_a_document_is_utf8_whatever_the_locale_and_has_standard_output_to_itself() -> None:
    raw = io.BytesIO()
    err = io.StringIO()
    screen = Screen(io.TextIOWrapper(raw, encoding="latin-1"), err, {})

    screen.document('{"a":"→"}\n'.encode())
    screen.tell("exit 0: done")

    assert raw.getvalue() == '{"a":"→"}\n'.encode()
    assert err.getvalue() == "exit 0: done\n"


def test_a_reader_that_has_gone_costs_nothing_but_the_print() -> None:
    read, write = os.pipe()
    out = os.fdopen(write, "w")
    screen = Screen(out, io.StringIO(), {})
    os.close(read)

    for _ in range(3):
        screen.print([(Part("x" * 100_000),)])
    screen.document(b"{}")
    out.close()  # raises nothing either


class Town:
    """A society that is always in its third round."""

    progress = (3, 1, 4)

    def __init__(self) -> None:
        self.metrics = {"messages_sent": 1200}
        self.curves: dict[str, list[float | None]] = {"joined": [float(number) for number in range(32)]}
        self.stats = {"tools": {"calls": 7, "in_flight": 2, "waiting": 1}, "llm": {"calls": 0}, "reads": {"calls": 3}}


def test_progress_says_the_round_ticks_messages_and_calls_at_each_boundary() -> None:
    assert ["".join(part.text for part in line) for line in progress(Town(), 8)] == [
        "round 3 of 8  1 of 4 ticks done  1,200 messages",
        "  tools: 2 in flight, 1 waiting of 7 calls",
        "  reads: idle of 3 calls",
    ]


def test_progress_says_that_a_service_was_crowded_and_what_is_left_of_the_width() -> None:
    for width, said in ((2, "2"), (float("inf"), "any number")):
        town = Town()
        town.stats = {"llm": {"calls": 9, "in_flight": 2, "waiting": 4, "narrowed": 1, "width": width}}
        assert "".join(part.text for part in progress(town, 8)[1]) == (
            f"  llm: 2 in flight, 4 waiting of 9 calls; its service was crowded, {said} at once now"
        )


def told_of(town: Town, width: int) -> list[str]:
    return ["".join(part.text for part in line) for line in curves(town, width)]


def test_measures_are_curves_as_wide_as_there_is_room_for_with_their_last_number() -> None:
    town = Town()
    town.curves = {"joined": [0.0, 1.0, 2.0, 3.5], "mood": [None, 1 / 3, 1 / 3, None], "never": [None]}
    assert told_of(town, 80) == ["  joined ▁▃▅█  3.5", "  mood    ▁▁   0.333333", "  never     nothing yet"]
    town.curves = {"joined": [float(number) for number in range(10_000)]}
    assert told_of(town, 80) == [f"  joined {sparkline(range(60), 60)}  9999"]
    assert [len(line) <= 20 for line in told_of(town, 20)] == [True]
    assert told_of(town, 12) == ["  joined 9999"]
    town.curves = {f"m{number}": [1.0] for number in range(9)}
    assert told_of(town, 80)[-1] == "  and 3 more measures"


@pytest.mark.parametrize(
    ("numbers", "width", "drawn"),
    [
        ([], 8, ""),
        ([None, None], 8, "  "),
        ([5, 5, 5], 8, "▁▁▁"),
        ([0, 7], 8, "▁█"),
        ([0, None, 8], 8, "▁ █"),
        ([0, 0, 8, 8], 2, "▁█"),
        (range(800), 8, "▁▂▃▄▅▆▇█"),
        ([-1e308, 0.0], 8, "▁█"),
    ],
)
def test_a_sparkline_goes_from_the_least_to_the_greatest_number(numbers: Any, width: int, drawn: str) -> None:
    assert sparkline(list(numbers), width) == drawn


@pytest.mark.trio
@pytest.mark.parametrize("columns", [20, 80])
async def test_a_terminal_shows_the_curves_of_a_run_in_progress(
    autojump_clock: trio.testing.MockClock, columns: int
) -> None:
    with terminal(columns) as (screen, seen):
        async with screen.watching(Town(), 8):
            await trio.sleep(1)
        shown = seen()
    assert "joined" in shown and "▁" in shown and "31" in shown


@pytest.mark.trio
async def test_a_terminal_shows_a_run_in_progress_and_is_clean_after_it(autojump_clock: trio.testing.MockClock) -> None:
    with terminal() as (screen, seen):
        async with screen.watching(Town(), 8):
            await trio.sleep(1)
        shown = seen()
    assert "round 3 of 8" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert not screen.is_live


@pytest.mark.trio
@pytest.mark.parametrize("columns", [20, 80])
async def test_a_dumb_terminal_gets_plain_lines(autojump_clock: trio.testing.MockClock, columns: int) -> None:
    with terminal(columns, TERM="dumb") as (screen, seen):
        async with screen.watching(Town(), 8):
            await trio.sleep(1000)
        shown = seen()
    assert "\x1b" not in shown
    assert 5 < shown.count("round 3 of 8") < 30


@pytest.mark.trio
async def test_without_a_terminal_a_short_run_says_nothing_and_a_long_one_little(
    autojump_clock: trio.testing.MockClock,
) -> None:
    err = io.StringIO()
    screen = Screen(io.StringIO(), err, {})
    async with screen.watching(Town(), 8):
        await trio.sleep(1)
    assert err.getvalue() == ""
    async with screen.watching(Town(), 8):
        await trio.sleep(3600)
    assert 10 < len(err.getvalue().splitlines()) < 100
    assert "\x1b" not in err.getvalue()


@pytest.mark.trio
async def test_progress_that_nobody_reads_does_not_stop_the_run(autojump_clock: trio.testing.MockClock) -> None:
    read, write = os.pipe()
    err: TextIO = os.fdopen(write, "w")
    os.close(read)
    screen = Screen(io.StringIO(), err, {})
    done = False
    async with screen.watching(Town(), 8):
        await trio.sleep(100)
        done = True
    assert done
    err.close()
