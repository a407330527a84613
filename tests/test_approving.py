"""People at the command line: asked at a terminal one at a time, never without one, or later (K5, P30, P32)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from society.approving import asked
from society.lines import text
from tests.test_cli import environment, last_line, scenario, society

PAYING = """
@host.tool('pay', thread=False)
def pay(eur, to):
    return eur

async def live(tick):
    tick.share("seen", tick.agent)
    if tick.round > 1 or tick.agent == "eve":
        return
    try:
        tick.share("paid", await tick.call("pay", eur=5, to=tick.agent + "\\x1b[31m[bold]"))
    except society.ActionDenied as denied:
        tick.note(denied.by)
"""
TOML = """
[shared]
paid = { initial = 0, merge = "sum" }
seen = { initial = [], merge = "append" }
[policy]
rules = [{ approve = "pay" }]
"""


@pytest.fixture
def paying(tmp_path: Path) -> Path:
    return scenario(tmp_path, PAYING, TOML, ("ada", "bob", "eve"))


def verdicts(folder: Path) -> dict[str, str]:
    """Return by agent what came of its action: how it ended, or who kept it from beginning."""
    events = [json.loads(line) for line in (folder / "trace.jsonl").read_text("utf-8").splitlines()]
    return {
        one["agent"]: one["result"]["by"] if one["ending"] == "denied" else one["ending"]
        for one in events
        if one.get("kind") == "action"
    }


class Terminal:
    """A process whose three streams are a terminal, and what is seen there."""

    def __init__(self, *arguments: object, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "society", *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm", COLUMNS="100"),
            cwd=cwd,
        )
        os.close(theirs)
        self.seen = ""

    def until(self, awaited: str) -> str:
        """Return what is seen from here on up to a text."""
        began = len(self.seen)
        while awaited not in self.seen[began:]:
            self.seen += os.read(self._ours, 65536).decode()
        return self.seen[began:]

    def type(self, typed: str) -> None:
        time.sleep(0.2)  # what is typed before the question stands is dropped
        os.write(self._ours, typed.encode())

    def end(self) -> int:
        try:
            while piece := os.read(self._ours, 65536):
                self.seen += piece.decode()
        except OSError:
            pass  # the other side is closed
        os.close(self._ours)
        return self.process.wait(timeout=10)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    there: list[Terminal] = []

    def started(*arguments: object) -> Terminal:
        there.append(Terminal(*arguments, cwd=tmp_path))
        return there[-1]

    yield started
    for one in there:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


# Without a terminal.


@pytest.mark.parametrize("options", [(), ("--approve", "ask"), ("--approve", "never")])
@pytest.mark.parametrize("closed", [True, False])
def test_without_a_terminal_nobody_answers_at_once_and_others_go_on(
    options: tuple[str, ...], closed: bool, paying: Path, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"preexec_fn": lambda: os.close(0)} if closed else {}

    told = society("run", paying, "--store", tmp_path / "run", "--json", *options, **more)

    assert told.returncode == 0
    assert "Traceback" not in told.stderr
    assert json.loads(told.stdout)["shared"] == {"paid": 0, "seen": ["ada", "bob", "eve"] * 2}
    assert verdicts(tmp_path / "run") == {"ada": "no_answer", "bob": "no_answer"}


def test_an_approval_that_a_behavior_cannot_do_without_fails_its_tick(tmp_path: Path) -> None:
    code = PAYING.replace("except society.ActionDenied as denied:\n        tick.note(denied.by)", "finally: pass")

    told = society("run", scenario(tmp_path, code, TOML), "--store", tmp_path / "run")

    assert told.returncode == 1
    assert "ActionDenied" in told.stdout


def test_the_people_of_a_scenario_come_before_the_one_at_the_terminal(tmp_path: Path) -> None:
    file = scenario(tmp_path, PAYING + "\nhost.approver = lambda request: True\n", TOML)

    own = society("run", file, "--store", tmp_path / "own")
    never = society("run", file, "--store", tmp_path / "never", "--approve", "never")

    assert (own.returncode, never.returncode) == (0, 0)
    assert verdicts(tmp_path / "own") == {"ada": "done"}
    assert verdicts(tmp_path / "never") == {"ada": "no_answer"}


# At a terminal.


def test_one_question_after_another_is_asked_with_agent_tool_arguments_and_rule(
    terminal: Callable[..., Terminal], paying: Path, tmp_path: Path
) -> None:
    there = terminal("run", paying, "--store", tmp_path / "run")

    first = there.until("Approve? [y/n] ")
    there.type("perhaps\n")
    again = there.until("Approve? [y/n] ")
    there.type("y\n")
    second = there.until("Approve? [y/n] ")
    there.type("n\n")
    code = there.end()

    assert code == 0
    who, other = ("ada", "bob") if "ada" in first else ("bob", "ada")
    assert "wants to use" in first
    assert "eur = " in first
    assert other not in first  # one at a time
    assert "approve pay (tale.toml:" in first
    assert "\x1b[31m[bold]" not in first  # data is no markup, and controls nothing
    assert "wants to use" not in again
    assert other in second
    assert verdicts(tmp_path / "run") == {who: "done", other: "refused"}


def test_what_is_typed_before_a_question_stands_is_no_answer(
    terminal: Callable[..., Terminal], paying: Path, tmp_path: Path
) -> None:
    there = terminal("run", paying, "--store", tmp_path / "run")
    there.until("Approve? [y/n] ")
    there.type("y\ny\ny\n")  # the second and third line came before the second question
    there.until("Approve? [y/n] ")
    there.type("n\n")
    there.end()

    assert sorted(verdicts(tmp_path / "run").values()) == ["done", "refused"]


def test_the_end_of_what_is_typed_is_no_answer(terminal: Callable[..., Terminal], paying: Path, tmp_path: Path) -> None:
    there = terminal("run", paying, "--store", tmp_path / "run")
    for _ in range(2):
        there.until("Approve? [y/n] ")
        there.type("\x04")
    there.end()

    assert verdicts(tmp_path / "run") == {"ada": "no_answer", "bob": "no_answer"}


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_question_ends_the_run_resumable(
    number: int, expected: int, terminal: Callable[..., Terminal], paying: Path, tmp_path: Path
) -> None:
    there = terminal("run", paying, "--store", tmp_path / "run")
    there.until("Approve? [y/n] ")
    there.process.send_signal(number)
    code = there.end()

    assert code == expected
    assert "go on with: society resume" in there.seen
    assert "Traceback" not in there.seen
    told = society("resume", tmp_path / "run", "--approve", "never")
    assert told.returncode == 0
    assert verdicts(tmp_path / "run") == {"ada": "no_answer", "bob": "no_answer"}


# Later.


def test_answers_come_from_another_process_and_resume_goes_on_with_them(paying: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    waits = society("run", paying, "--store", run, "--approve", "wait")
    listed = society("approve", run)
    questions = json.loads(society("approve", run, "--json").stdout)["waiting"]
    shown = society("trace", "show", run)

    assert waits.returncode == 1
    assert last_line(waits.stdout).endswith(f"; go on with: society approve {run}, then society resume {run}")
    assert [one["agent"] for one in questions] == ["ada", "bob"] or [one["agent"] for one in questions] == [
        "bob",
        "ada",
    ]
    assert all(one["tool"] == "pay" and one["arguments"]["eur"] == 5 for one in questions)
    assert all(one["id"] in listed.stdout for one in questions)
    assert "2 questions wait" in last_line(listed.stdout)
    assert "waits for approval of pay" in shown.stderr

    ids = {one["agent"]: one["id"] for one in questions}
    yes = society("approve", run, ids["ada"][:12])
    still = society("resume", run)  # goes on waiting for the other one, terminal or not
    no = society("approve", run, ids["bob"], "--refuse", "--json")
    told = society("resume", run)

    assert "approved; 1 more to answer" in last_line(yes.stdout)
    assert still.returncode == 1
    assert "waiting" in last_line(still.stdout)
    assert json.loads(no.stdout)["answered"]["as"] == "refused"
    assert told.returncode == 0
    assert verdicts(run) == {"ada": "done", "bob": "refused"}
    assert society("replay", run).returncode == 0


def test_a_question_in_words_is_answered_with_words(tmp_path: Path) -> None:
    code = "async def live(tick):\n    tick.share('said', await tick.ask_human('Which one?'))\n"
    run, file = tmp_path / "run", scenario(tmp_path, code, "[shared]\nsaid = ''\n", max_ticks=1)
    society("run", file, "--store", run, "--approve", "wait")
    (question,) = json.loads(society("approve", run, "--json").stdout)["waiting"]

    wrong = society("approve", run, question["id"])
    right = society("approve", run, question["id"], "--answer", "the left one")
    told = society("resume", run, "--json")

    assert question["question"] == "Which one?"
    assert wrong.returncode == 2
    assert "--answer TEXT" in wrong.stderr
    assert right.returncode == 0
    assert json.loads(told.stdout)["shared"]["said"] == "the left one"


def test_what_does_not_wait_cannot_be_answered(paying: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    society("run", paying, "--store", run, "--approve", "wait")

    told = society("approve", run, "nothing-like-it")

    assert told.returncode == 2
    assert "what waits for an answer" in told.stderr
    assert society("approve", run, "--refuse").returncode == 2


# What is shown.


def test_arguments_are_shown_whole_and_as_data() -> None:
    lines = [
        text(line) for line in asked("ada", "pay", {"to": "x" * 500 + "\x1b[2J", "n": [1, {"a": "é"}]}, "approve pay")
    ]

    assert lines == [
        "ada wants to use pay",
        '  to = "' + "x" * 500 + '\\u001b[2J"',
        '  n = [1, {"a": "é"}]',
        "  asked by approve pay",
    ]
