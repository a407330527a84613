"""Sweeps: the same rows in the same order however many processes, and what becomes of runs that fail."""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from society import ScenarioError, sweep
from society.commands.sweep import Watch, varied
from society.sweep_table import Table
from society.sweeping import Planned, Row, carry_out, planned
from tests.test_cli import ROOT, society

TOWN = """
code = "town.py"
max_ticks = 4
seed = 5
[parameters]
step = 1
unread = 2
fails_with = 0
[shared]
total = { initial = 0, merge = "sum" }
[[agents]]
name = "adder"
behavior = "adder"
count = 2
[[measures]]
name = "total"
value = "total"
[[measures]]
name = "own"
value = "own"
per = "agent"
"""
CODE = """
import os

def adder(tick):
    print("what a scenario prints is not among the rows")
    if tick.parameters["step"] == tick.parameters["fails_with"]:
        if tick.round == 3:
            raise ValueError("enough")
    if tick.parameters["step"] == 99:
        os._exit(7)
    tick.share("total", tick.parameters["step"])
    tick.state["own"] = tick.state.get("own", 0) + 1

def own(agent):
    return agent.state.get("own", 0)
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    (tmp_path / "town.py").write_text(CODE)
    path = tmp_path / "town.toml"
    path.write_text(TOWN)
    return path


def swept(town: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "society", "sweep", str(town), *arguments], capture_output=True, text=True, timeout=60
    )


def run_all(path: Path, vary: Any, seeds: Any = (1, 2), **options: Any) -> list[Row]:
    return trio.run(lambda: sweep(path, vary, seeds, **options))


def test_rows_and_their_order_are_the_same_with_one_worker_and_with_three(town: Path) -> None:
    vary, activations = {"step": [1, 2, 3]}, ("synchronized", "shuffled")
    alone = run_all(town, vary, activations=activations, workers=1)
    together = run_all(town, vary, activations=activations, workers=3)

    assert alone == together
    assert [(row["step"], row["activation"], row["seed"]) for row in alone[:5]] == [
        (1, "synchronized", 1),
        (1, "synchronized", 2),
        (1, "shuffled", 1),
        (1, "shuffled", 2),
        (2, "synchronized", 1),
    ]
    assert [row["total"] for row in alone[::4]] == [8, 16, 24]
    assert {row["own.mean"] for row in alone} == {4.0}


def test_the_command_of_a_row_repeats_just_that_run(town: Path, tmp_path: Path) -> None:
    row = run_all(town, {"step": [3]}, [9], activations=["shuffled"])[0]
    command = shlex.split(row["command"])

    assert command[:2] == ["society", "run"]
    subprocess.run(
        [sys.executable, "-m", "society", *command[1:], "--quiet", "--trace", str(tmp_path / "t.jsonl")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    from society import Trace

    assert Trace.load(tmp_path / "t.jsonl").digest == row["digest"]


def test_a_run_that_fails_and_one_whose_process_dies_are_rows_and_the_others_go_on(town: Path) -> None:
    rows = run_all(town, {"step": [1, 2, 99, 3]}, [1], set={"fails_with": 2}, workers=1)

    assert [row["outcome"] for row in rows] == ["finished", "failed", "error", "finished"]
    assert rows[1]["rounds"] == 3
    assert "enough" in rows[1]["reason"]
    assert rows[2]["reason"] == "its process died (exit code 7)"


def test_a_series_has_a_row_for_each_round(town: Path) -> None:
    rows = run_all(town, {}, [1], series=True)

    assert [(row["round"], row["total"], row["own.mean"]) for row in rows] == [
        (round, 2 * round, round) for round in range(5)
    ]


def test_without_values_and_seeds_it_is_the_scenario_itself(town: Path) -> None:
    (row,) = run_all(town, None, None)

    assert (row["seed"], row["activation"], row["outcome"]) == (5, "synchronized", "finished")


@pytest.mark.parametrize(
    ("vary", "options", "said"),
    [
        ({"stepp": [1]}, {}, "did you mean step?"),
        ({"unread": [1]}, {}, "nobody reads the parameter 'unread'"),
        ({"step": []}, {}, "step has no values"),
        ({"seed": [1]}, {}, "seed is varied by `seeds`"),
        ({}, {"activations": ["shufled"]}, "Did you mean 'shuffled'?"),
        ({}, {"seeds": []}, "there is no seed"),
        ({}, {"max_ticks": 0}, "0 is not a number of rounds, 1 or more"),
        ({}, {"max_ticks": "3"}, "'3' is not a number of rounds, 1 or more"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_anything_runs(town: Path, vary: Any, options: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said.replace("?", r"\?")):
        run_all(town, vary, **options)


def test_values_are_typed_as_a_list_or_as_a_range_counted_in_decimals() -> None:
    assert varied("b=[1, 2.5, 'x']") == ("b", [1, 2.5, "x"])
    assert varied("n=0:4") == ("n", [0, 1, 2, 3])
    assert varied("p=0:0.4:0.1") == ("p", [0.0, 0.1, 0.2, 0.3])
    assert varied("n=3:0:-1") == ("n", [3, 2, 1])
    for wrong in ("n", "n=", "n=[1", "n=1:2:0", "n=2:1", "n=0:1:1e-9", "n=a:b"):
        with pytest.raises(ScenarioError, match="--vary"):
            varied(wrong)


# Tables that a sweep goes on with.


def test_a_sweep_that_was_stopped_anywhere_goes_on_and_ends_with_the_same_table(town: Path, tmp_path: Path) -> None:
    plan = planned(town, {"step": [1, 2]}, [1, 2], settings={})
    whole = tmp_path / "whole.csv"
    carried: list[Planned] = []

    def go_on(path: Path) -> None:
        table = Table(path, plan)

        def add(run: Planned, rows: list[Row]) -> None:
            carried.append(run)
            table.add(run, rows)

        trio.run(lambda: carry_out(plan, plan.runs[table.done :], add, workers=2))

    go_on(whole)
    data = whole.read_bytes()
    lines = data.splitlines(keepends=True)
    for cut in (0, len(lines[0]), len(b"".join(lines[:3])), len(data) - 1):
        part = tmp_path / "part.csv"
        part.write_bytes(data[:cut])
        go_on(part)
        assert part.read_bytes() == data
    carried.clear()
    go_on(whole)
    assert carried == []


def test_a_table_of_another_sweep_is_left_alone(town: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    one = planned(town, {"step": [1, 2]}, [1], settings={})
    table = Table(path, one)
    trio.run(lambda: carry_out(one, one.runs, table.add, workers=1))
    before = path.read_bytes()

    with pytest.raises(ScenarioError, match="its run 0 has step 1, not 4"):
        Table(path, planned(town, {"step": [4, 2]}, [1], settings={}))
    with pytest.raises(ScenarioError, match="its columns are"):
        Table(path, planned(town, {}, [1], settings={}))
    with pytest.raises(ScenarioError, match="the scenario has changed since"):
        Table(path, planned(town, {"step": [1, 2]}, [1], settings={"fails_with": 8}))
    assert path.read_bytes() == before


def test_the_command_writes_a_tidy_table_and_says_which_run_failed(town: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    ended = swept(town, "--vary", "step=1:4", "--seeds", "1", "--set", "fails_with=2", "-o", str(path), "--quiet")

    assert ended.returncode == 1, ended.stderr
    assert "1 run of 3 failed; run 1: " in ended.stdout + ended.stderr
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["outcome"], row["total"]) for row in rows] == [
        ("0", "finished", "8"),
        ("1", "failed", "8"),
        ("2", "finished", "24"),
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--vary", "step=[1]", "--vary", "step=[2]"], "--vary step: given twice"),
        (["-o", "table.xls"], "expected a name that ends in .csv or .parquet"),
        (["--ticks", "-1"], "-1 is not a number of rounds"),
    ],
)
def test_what_would_be_lost_or_passed_over_in_silence_is_refused(town: Path, typed: list[str], said: str) -> None:
    ended = swept(town, *typed)
    assert (ended.returncode, ended.stdout) == (2, "") and said in ended.stderr


def test_parquet_has_numbers_as_numbers(town: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    ended = swept(town, "--vary", "step=[1,2]", "--seeds", "0:2", "-o", str(path), "--quiet")

    assert ended.returncode == 0, ended.stderr
    assert polars.read_parquet(path)["total"].to_list() == [8, 8, 16, 16]
    assert [found.name for found in tmp_path.glob("t.*")] == ["t.parquet"]


@pytest.mark.parametrize("command", ["sweep", "compare"])
def test_no_row_depends_on_the_hash_seed(command: str) -> None:
    gossip = ROOT / "scenarios" / "gossip.toml"
    how = ("--activations", "synchronized,shuffled", "--seeds", "0:2", "--ticks", "3", "--json")
    said = {society(command, gossip, *how, environ={"PYTHONHASHSEED": str(seed)}).stdout for seed in (1, 2)}
    assert len(said) == 1 and '"' in said.pop()


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_sweep_in_progress_says_how_much_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    screen = Said()
    watch = Watch(screen, runs=40, done=20, quiet=False)
    for _ in range(20):
        now[0] += 6
        watch.ended()
    assert screen.lines[0] == "20 of 40 runs are in the table already"
    assert screen.lines[1] == "22 of 40 runs, 1:48 left"
    assert screen.lines[-1] == "40 of 40 runs, 0:00 left"
