"""Runs that survive, as processes: run, resume, replay, fork, and reading what is there (P28, P49, P51, P54, P59, P76, P82)."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.test_cli import environment, last_line, scenario, society

STORY = """
@host.tool('note', idempotent=True)
async def note(number): return number

async def live(tick):
    tick.share("seen", await tick.call('note', number=tick.round))
    tick.broadcast("hello", round=tick.round)
"""
SEEN = "[shared]\nseen = { initial = [], merge = 'append' }\n"

WAITING = """
import os, pathlib
@host.tool('pay', thread=THREAD, idempotent=IDEMPOTENT)
async def pay(eur):
    pathlib.Path(os.environ['BEGUN']).touch()
    while not pathlib.Path(os.environ['GO']).exists():
        await trio.sleep(0.02)
    return eur

async def live(tick):
    try:
        if tick.round == 2:
            tick.share("seen", await tick.call('pay', eur=5))
    except society.ActionInDoubt:
        tick.note("who knows")
"""
BLOCKED = WAITING.replace("async def pay", "def pay").replace("await trio.sleep(0.02)", "import time; time.sleep(0.02)")


def story(folder: Path, **more: Any) -> Path:
    return scenario(folder, STORY, SEEN, ("ada", "bob"), **{"max_ticks": 4, **more})


def waiting(folder: Path, code: str = WAITING, idempotent: bool = True) -> Path:
    code = code.replace("IDEMPOTENT", str(idempotent)).replace("THREAD", "True")
    return scenario(folder, code, SEEN, ("ada", "bob"), max_ticks=4)


def signs(folder: Path) -> dict[str, str]:
    """Return where the tool `pay` says that it has begun, and looks whether it may end."""
    return {"BEGUN": str(folder / "begun"), "GO": str(folder / "go")}


def started(file: Path, run: Path, *options: object) -> subprocess.Popen[str]:
    """Start a run and wait until its tool has begun."""
    command = [sys.executable, "-m", "society", "run", str(file), "--store", str(run), *map(str, options)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(**signs(file.parent)),
        cwd=file.parent,
    )
    for _ in range(500):
        if (file.parent / "begun").exists():
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run."""
    told = society("run", story(tmp_path), "--store", tmp_path / "run", "--quiet")
    assert told.returncode == 0, told.stderr
    return tmp_path / "run"


# Keeping.


def test_a_run_is_kept_in_a_fresh_folder(tmp_path: Path) -> None:
    told = society("run", story(tmp_path), "--trace", "t", cwd=tmp_path)

    (folder,) = (tmp_path / "runs").iterdir()
    assert f"kept in runs/{folder.name}" in told.stdout
    assert ":" not in folder.name
    assert list(contents(folder)) == [
        "inputs/digests.json",
        "inputs/tale.py",
        "journal.jsonl",
        "scenario.toml",
        "trace.jsonl",
    ]
    assert (folder / "trace.jsonl").read_bytes() == (tmp_path / "t").read_bytes()


def test_the_trace_is_the_same_whether_or_not_the_run_is_kept(run: Path, tmp_path: Path) -> None:
    told = society("run", tmp_path / "tale.toml", "--no-store", "--trace", tmp_path / "t", cwd=tmp_path)

    assert told.returncode == 0
    assert not (tmp_path / "runs").exists()
    assert (tmp_path / "t").read_bytes() == (run / "trace.jsonl").read_bytes()


def test_what_the_environment_holds_is_in_no_file_of_a_run(tmp_path: Path) -> None:
    file = story(tmp_path)
    file.write_text(file.read_text().replace("[shared]", '[parameters]\nkey = { env = "KEY" }\n[shared]'))

    told = society("run", file, "--store", tmp_path / "run", environ={"KEY": "open-sesame"})

    assert told.returncode == 0
    assert not [name for name, content in contents(tmp_path / "run").items() if b"open-sesame" in content]


def test_a_scenario_that_makes_no_society_leaves_no_folder(tmp_path: Path) -> None:
    file = scenario(tmp_path, "def live(tick): pass\n")
    file.write_text(file.read_text().replace("behavior = 'live'", "behavior = 'live'\nobserve = ['nothing']"))
    (tmp_path / "empty").mkdir()

    for folder in (tmp_path / "new", tmp_path / "empty"):
        told = society("run", file, "--store", folder)
        assert told.returncode == 2
        assert "nothing" in told.stderr
    assert not (tmp_path / "new").exists()
    assert not contents(tmp_path / "empty")


def test_a_folder_goes_on_with_its_own_scenario_only(run: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "tale.toml", contents(run)

    same = society("run", file, "--store", run, "--json")
    other = society("run", file, "--store", run, "--seed", 5)

    assert json.loads(same.stdout)["outcome"] == "finished"
    assert other.returncode == 2
    assert "seed: 0 became 5" in other.stderr
    assert contents(run) == before


@pytest.mark.parametrize("kept", ["journal.jsonl", "scenario.toml", "trace.jsonl"])
def test_an_export_is_not_written_over_what_it_reads_or_what_a_run_is_resumed_from(run: Path, kept: str) -> None:
    before = contents(run)

    told = society("trace", "export", run, "-o", run / kept)

    assert told.returncode == 2
    assert "Choose another file" in told.stderr
    assert contents(run) == before


@pytest.mark.parametrize("option", ["--trace", "--measures"])
def test_a_run_is_not_written_over_its_scenario_or_over_a_journal(run: Path, tmp_path: Path, option: str) -> None:
    file, before = tmp_path / "tale.toml", contents(run)
    text = file.read_text()

    for path in (file, run / "journal.jsonl"):
        told = society("run", file, "--no-store", option, path)
        assert told.returncode == 2
        assert "Choose another file" in told.stderr
    assert file.read_text() == text and contents(run) == before


# Interrupted, killed, failed: and on.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_how_to_go_on_and_goes_on_from_anywhere(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    process = started(waiting(tmp_path), tmp_path / "run")

    process.send_signal(number)
    out, err = process.communicate(timeout=10)

    assert process.returncode == code
    assert "Traceback" not in out + err
    way = f"society resume {tmp_path / 'run'}"
    assert last_line(out).startswith(f"exit {code}: interrupted after 1 round: ")
    assert last_line(out).endswith(f"; go on with: {way}")
    shown = society("trace", "show", tmp_path / "run")
    assert 'pay {"eur": 5}' in shown.stderr
    assert last_line(shown.stderr) == f"go on with: {way}"

    (tmp_path / "go").touch()
    told = society("resume", tmp_path / "run", environ=signs(tmp_path), cwd=tmp_path / "else")
    whole = society("run", tmp_path / "tale.toml", "--no-store", "--trace", tmp_path / "t", environ=signs(tmp_path))

    assert (told.returncode, whole.returncode) == (0, 0)
    assert society("trace", "verify", tmp_path / "run").returncode == 0
    # The one difference is that the action was settled.
    difference = json.loads(society("trace", "diff", tmp_path / "run", tmp_path / "t", "--json").stdout)
    assert {each["kind"] for each in difference["differences"]} <= {"action"}


def test_a_killed_run_tells_what_it_was_doing_and_is_in_doubt_when_it_goes_on(tmp_path: Path) -> None:
    process = started(waiting(tmp_path, idempotent=False), tmp_path / "run")
    process.kill()
    process.communicate()

    shown = society("trace", "show", tmp_path / "run", "--kind", "round")
    told = society("resume", tmp_path / "run", environ=signs(tmp_path))

    assert "after 1 round the journal just ends" in shown.stderr
    assert shown.stderr.count('pay {"eur": 5}') in (1, 2)  # of the two that want to, one may be on its way
    assert last_line(shown.stderr) == f"go on with: society resume {tmp_path / 'run'}"
    assert told.returncode == 3
    assert "in doubt" in last_line(told.stdout)


@pytest.mark.parametrize("thread", [True, False])
def test_a_blocked_call_does_not_keep_the_process_and_is_in_doubt_on_resume(thread: bool, tmp_path: Path) -> None:
    file = waiting(tmp_path, BLOCKED.replace("THREAD", str(thread)), idempotent=False)
    process = started(file, tmp_path / "run")

    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    if process.poll() is None:  # it blocks the loop itself; a thread is left behind at the first signal
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=5)

    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert last_line(out or err).endswith(f"; go on with: society resume {tmp_path / 'run'}")
    told = society("resume", tmp_path / "run", "--json", environ=signs(tmp_path))
    assert told.returncode == 3
    assert {one["tool"] for one in json.loads(told.stdout)["in_doubt"]} == {"pay"}


def test_a_second_process_is_refused_at_once_and_may_read(tmp_path: Path) -> None:
    process = started(waiting(tmp_path), tmp_path / "run")
    before = contents(tmp_path / "run")

    second = society("resume", tmp_path / "run", environ=signs(tmp_path))
    shown = society("trace", "show", tmp_path / "run")

    assert contents(tmp_path / "run") == before
    assert second.returncode == 1
    assert f"in use by process {process.pid}" in second.stderr
    assert shown.returncode == 0
    assert f"under way in process {process.pid}" in shown.stderr
    process.kill()
    process.communicate()
    (tmp_path / "go").touch()
    assert society("resume", tmp_path / "run", environ=signs(tmp_path)).returncode == 0


def test_a_failed_run_goes_on_when_its_code_was_mended_where_it_lies(tmp_path: Path) -> None:
    file = scenario(tmp_path, "def live(tick):\n    assert tick.round < 2\n", max_ticks=3)

    failed = society("run", file, "--store", tmp_path / "run")
    code = tmp_path / "run/inputs/tale.py"
    code.write_text(code.read_text().replace("< 2", "< 9"))
    told = society("resume", tmp_path / "run")

    assert failed.returncode == 1
    assert last_line(failed.stdout).endswith(f"; go on with: society resume {tmp_path / 'run'}")
    assert "tale.py is not what it was" in told.stderr
    assert last_line(told.stdout) == "exit 1: finished after 3 rounds, but 1 tick failed"


def test_a_conflict_leads_on_by_a_fork_from_the_round_before(tmp_path: Path) -> None:
    code = "def live(tick):\n    if tick.round == 3:\n        tick.share('x', 1)\n"
    file = scenario(tmp_path, code, "[shared]\nx = { initial = 0, merge = 'error' }\n", ("ada", "bob"), max_ticks=4)

    told = society("run", file, "--store", tmp_path / "run")
    shown = society("trace", "show", tmp_path / "run")

    way = f"society fork {tmp_path / 'run'} --at 2"
    assert told.returncode == 1
    assert last_line(told.stdout).endswith(f"; go on with: {way}")
    assert last_line(shown.stderr) == f"go on with: {way}"


def test_a_full_disk_is_told_with_path_cause_and_how_to_go_on(tmp_path: Path) -> None:
    file = story(tmp_path, max_ticks=60)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))

    full = society("run", file, "--store", tmp_path / "run", preexec_fn=limit)
    shown = society("trace", "show", tmp_path / "run")
    told = society("resume", tmp_path / "run", "--json")

    assert full.returncode == 1
    assert "journal.jsonl: cannot be written: File too large" in full.stderr
    assert "Traceback" not in full.stderr
    assert last_line(full.stderr) == f"exit 1: JournalUnwritable; go on with: society resume {tmp_path / 'run'}"
    assert shown.returncode == 0
    assert json.loads(told.stdout)["rounds"] == 60


# What may change, and what not.


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("'ada'", "'eve'", "eve"),
        ("merge = 'append'", "merge = 'union'", "merge"),
        ("max_ticks = 4", "max_ticks = 4\nseed = 9", "seed"),
    ],
)
def test_a_changed_meaning_is_refused_and_named_and_nothing_changes(old: str, new: str, says: str, run: Path) -> None:
    text = (run / "scenario.toml").read_text().replace('"ada"', "'ada'")
    assert old in text
    (run / "scenario.toml").write_text(text.replace(old, new))
    before = contents(run)

    told = society("resume", run, "--ticks", 6)

    assert told.returncode == 2
    assert "meaning has changed" in told.stderr
    assert says in told.stderr
    assert contents(run) == before


def test_comments_and_more_rounds_are_no_change_and_force_is_recorded(run: Path) -> None:
    file = run / "scenario.toml"
    file.write_text("# a comment\n" + file.read_text())

    more = society("resume", run, "--ticks", 6, "--json")
    file.write_text(file.read_text().replace("max_ticks = 4", "max_ticks = 4\nseed = 9"))
    forced = society("resume", run, "--ticks", 7, "--force")

    assert json.loads(more.stdout)["rounds"] == 6
    assert forced.returncode == 0
    assert b'"record":"override"' in (run / "journal.jsonl").read_bytes()


# Torn and damaged.


def test_a_torn_journal_is_read_and_goes_on(run: Path) -> None:
    whole = (run / "trace.jsonl").read_bytes()
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])

    shown, verified = society("trace", "show", run), society("trace", "verify", journal)
    told = society("resume", run)

    assert "torn" in shown.stderr
    assert "torn" in verified.stderr
    assert (shown.returncode, verified.returncode, told.returncode) == (0, 0, 0)
    assert (run / "trace.jsonl").read_bytes() == whole


def test_damage_is_told_with_record_and_byte_and_nothing_changes(run: Path) -> None:
    journal = run / "journal.jsonl"
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    journal.write_bytes(damaged)
    before = contents(run)

    for command in (("trace", "verify"), ("trace", "show"), ("resume",), ("replay",), ("fork", "--at", "1")):
        told = (
            society(*command[:2], run, *command[2:])
            if command[0] == "trace"
            else society(command[0], run, *command[1:])
        )
        assert told.returncode == 1
        assert "journal.jsonl: record " in told.stderr
        assert " at byte " in told.stderr
    facts = json.loads(society("trace", "verify", run, "--json").stdout)
    assert facts[0]["record"] > 1
    assert facts[0]["offset"] > 0
    assert contents(run) == before


def test_a_trace_that_tells_another_story_than_its_journal_is_no_whole_run(run: Path, tmp_path: Path) -> None:
    society("run", tmp_path / "tale.toml", "--ticks", 4, "--seed", 3, "--no-store", "--trace", run / "trace.jsonl")
    assert society("trace", "verify", run).returncode == 0  # the same events: the seed changes none here

    society("run", tmp_path / "tale.toml", "--activation", "sequential", "--no-store", "--trace", run / "trace.jsonl")

    told = society("trace", "verify", run)
    assert told.returncode == 1
    assert "not what the journal beside it tells" in told.stderr


# replay.


def test_a_replay_needs_the_folder_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "tale.toml").unlink()
    (tmp_path / "tale.py").unlink()
    run.rename(tmp_path / "moved")

    told = society("replay", tmp_path / "moved")
    facts = json.loads(society("replay", tmp_path / "moved", "--json").stdout)

    assert last_line(told.stdout) == "exit 0: 4 rounds replayed, and nothing differs"
    assert facts["same"] is True
    assert facts["digest"] in told.stdout


def test_a_replay_that_differs_names_the_first_difference_and_exits_with_four(run: Path) -> None:
    code = run / "inputs/tale.py"
    code.write_text(
        code.read_text().replace("number=tick.round", "number=tick.round + (tick.agent == 'ada' and tick.round > 2)")
    )

    told = society("replay", run)
    facts = json.loads(society("replay", run, "--json").stdout)

    assert told.returncode == 4
    assert "round 3" in told.stderr
    assert "ada" in told.stderr
    assert facts["same"] is False
    assert facts["difference"]["round"] == 3


# fork.


def test_a_fork_without_changes_tells_the_same_story(run: Path, tmp_path: Path) -> None:
    before = contents(run)
    told = society("fork", run, "--at", 2, "--store", tmp_path / "other")

    assert told.returncode == 0
    assert (tmp_path / "other/trace.jsonl").read_bytes() == (run / "trace.jsonl").read_bytes()
    assert contents(run) == before


def test_a_fork_with_a_change_is_a_run_like_any_other(run: Path, tmp_path: Path) -> None:
    told = society("fork", run, "--at", 2, "--set", 'shared.seen=["x"]', "--ticks", 5, "--json", cwd=tmp_path)
    facts = json.loads(told.stdout)
    other = tmp_path / facts["folder"]
    shutil.rmtree(run)

    assert facts["shared"]["seen"] == ["x", 3, 3, 4, 4, 5, 5]
    assert other.parent == tmp_path / "runs"
    assert society("replay", other).returncode == 0
    assert json.loads(society("resume", other, "--ticks", 6, "--json").stdout)["rounds"] == 6


@pytest.mark.parametrize("wrong", [("--at", 9), ("--at", 1, "--set", "shared.sen=1"), ("--at", 1, "--store", "run")])
def test_a_fork_that_cannot_be_makes_nothing(wrong: tuple[object, ...], run: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)

    told = society("fork", run, *wrong, cwd=tmp_path)

    assert told.returncode == 2
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", ["resume", "replay", "approve", ("trace", "show")])
def test_a_folder_that_is_not_there_is_wrong_usage_or_no_run(command: Any, tmp_path: Path) -> None:
    words = (command,) if isinstance(command, str) else command
    told = society(*words, tmp_path / "nothing")

    assert told.returncode in (1, 2)
    assert "nothing" in told.stderr
    assert "Traceback" not in told.stderr
