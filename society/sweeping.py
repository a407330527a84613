"""Sweeps: a scenario with many values of its parameters, activations and seeds, a process for each core.

    plan ─▶ worker, worker, … ─▶ rows in the order of the plan, however many workers there were

A row says all that it takes to run it alone: its activation, seed and settings, and the command that does so.

Knows: the order of runs, processes, and what becomes of one that dies.
Does not know: how one run is carried out (sweep_worker.py), or files that rows are written to (sweep_table.py).
"""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import trio

from society.declaring import ACTIVATIONS
from society.errors import Fault, ScenarioError, ScenarioFaults, suggestion
from society.load import load_scenario
from society.mentions import check_read
from society.scenario import Scenario
from society.sweep_worker import MEANING

Row = dict[str, Any]
"""A run, or with `series` a round of one: what was set, how it ended, and the measures, by column."""

ENDINGS: Final = ("outcome", "reason", "rounds")
_encode, _decode = msgspec.json.encode, msgspec.json.decode


@attrs.frozen(kw_only=True)
class Planned:
    """One run of a sweep."""

    number: int
    """From 0, in the order of the plan."""
    activation: str
    seed: int
    varied: Mapping[str, Any]
    """Settings by path: what this run has and others have not."""
    command: str
    """What repeats this run alone."""

    @property
    def identity(self) -> Row:
        return {"run": self.number, "activation": self.activation, "seed": self.seed, **self.varied}


@attrs.frozen(kw_only=True)
class Plan:
    """All runs of a sweep: for each combination of values, each activation with each seed."""

    path: Path
    settings: Mapping[str, Any]
    """What all runs have set."""
    max_ticks: int | None
    series: bool
    columns: tuple[str, ...]
    """Of the rows: those that say which run it is, how it ended, the measures, the digest, the command."""
    meaning: str
    """What the fingerprint of the first run's scenario begins with."""
    runs: tuple[Planned, ...]


async def sweep(
    scenario: str | os.PathLike[str] | Scenario,
    vary: Mapping[str, Iterable[Any]] | None = None,
    seeds: Iterable[int] | None = None,
    *,
    activations: Sequence[str] | None = None,
    max_ticks: int | None = None,
    set: Mapping[str, Any] | None = None,
    series: bool = False,
    workers: int | None = None,
) -> list[Row]:
    """Run a scenario with every combination of values, activations and seeds; return a row for each run, in order.

    Args:
        scenario: A scenario file, or a scenario that was loaded from one.
        vary: By path, or by a parameter's name, the values that it takes. The last one changes fastest.
        seeds: The scenario's own where None.
        activations: The scenario's own where None.
        max_ticks: The most rounds of a run, instead of the scenario's own.
        set: What all runs have set, by path.
        series: A row for each round instead, round 0 included.
        workers: How many processes; as many as there are cores where None. The rows are the same, and in the same order.

    A run that fails is a row like the others, with outcome `failed`, or `error` where it could not be run at all.

    Raises:
        ScenarioError: The scenario is wrong, or there is nothing to vary by that name.
    """
    plan = planned(
        scenario, vary or {}, seeds, activations=activations, max_ticks=max_ticks, settings=set or {}, series=series
    )
    rows: list[Row] = []
    await carry_out(plan, plan.runs, lambda run, found: rows.extend(found), workers=workers)
    return rows


def planned(
    scenario: str | os.PathLike[str] | Scenario,
    vary: Mapping[str, Iterable[Any]],
    seeds: Iterable[int] | None,
    *,
    activations: Sequence[str] | None = None,
    max_ticks: int | None = None,
    settings: Mapping[str, Any],
    series: bool = False,
) -> Plan:
    """Return the runs of a sweep, checked as far as can be without running them."""
    if isinstance(scenario, Scenario):
        settings = {**scenario.settings, **settings}
        scenario = scenario.path
    if max_ticks is not None and (isinstance(max_ticks, bool) or not isinstance(max_ticks, int) or max_ticks < 1):
        raise ScenarioError(f"sweep: {max_ticks!r} is not a number of rounds, 1 or more.")
    path = Path(scenario).absolute()
    values = {key: list(those) for key, those in vary.items()}
    for key, those in values.items():
        if key in ("seed", "activation"):
            raise ScenarioError(f"sweep: {key} is varied by `{'seeds' if key == 'seed' else 'activations'}`, not here.")
        if not those:
            raise ScenarioError(f"sweep: {key} has no values.")
    seeds = None if seeds is None else tuple(dict.fromkeys(seeds))
    if seeds == ():
        raise ScenarioError("sweep: there is no seed.")
    first_run = {**settings, **{key: those[0] for key, those in values.items()}}
    try:
        first = load_scenario(path, set=first_run if seeds is None else {**first_run, "seed": seeds[0]})
    except ScenarioFaults as found:
        raise ScenarioFaults(tuple(_blamed(fault, values) for fault in found.faults)) from None
    check_read(values, first, "vary")
    activations = tuple(dict.fromkeys(activations or (first.activation,)))
    for activation in activations:
        if activation not in ACTIVATIONS:
            raise ScenarioError(f"sweep: {activation!r} is no activation.{suggestion(str(activation), ACTIVATIONS)}")
    runs = [
        Planned(
            number=number,
            activation=activation,
            seed=seed,
            varied=dict(zip(values, those, strict=True)),
            command=_command(path, activation, seed, {**settings, **dict(zip(values, those, strict=True))}, max_ticks),
        )
        for number, (those, activation, seed) in enumerate(
            itertools.product(itertools.product(*values.values()), activations, seeds or (first.seed,))
        )
    ]
    measured = [
        f"{name}.mean" if getattr(measure, "by_agent", False) else name for name, measure in first.measures.items()
    ]
    endings = (*ENDINGS, "round") if series else ENDINGS
    return Plan(
        path=path,
        settings=dict(settings),
        max_ticks=max_ticks,
        series=series,
        columns=("run", "activation", "seed", *values, *endings, *measured, "digest", "meaning", "command"),
        meaning=first.fingerprint[:MEANING],
        runs=tuple(runs),
    )


async def carry_out(
    plan: Plan,
    runs: Sequence[Planned],
    found: Callable[[Planned, list[Row]], None],
    *,
    workers: int | None = None,
) -> None:
    """Carry out runs of a plan, and call `found` with the rows of each, in the order of the plan."""
    left = iter(runs)
    ended: dict[int, list[Row]] = {}
    waiting = iter(runs)
    next_told = next(waiting, None)

    def tell() -> None:
        nonlocal next_told
        while next_told is not None and next_told.number in ended:
            found(next_told, ended.pop(next_told.number))
            next_told = next(waiting, None)

    async def work() -> None:
        worker: trio.Process | None = None
        try:
            for run in left:
                if worker is None:
                    worker = await _started()
                reply = await _asked(worker, plan, run)
                if reply is None:
                    status = await worker.wait()
                    worker = None
                    how = f"signal {-status}" if status < 0 else f"exit code {status}"
                    reply = [{"outcome": "error", "reason": f"its process died ({how})"}]
                ended[run.number] = [_row(plan, run, one) for one in reply]
                tell()
        finally:
            if worker is not None:
                worker.kill()
                with trio.CancelScope(shield=True):
                    await worker.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(min(workers or os.cpu_count() or 1, len(runs))):
            nursery.start_soon(work)


async def _started() -> trio.Process:
    # A session of its own: Ctrl+C is for the sweep, which ends its workers itself.
    return await trio.lowlevel.open_process(
        [sys.executable, "-m", "society.sweep_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


async def _asked(worker: trio.Process, plan: Plan, run: Planned) -> list[Row] | None:
    """Let a worker carry out a run; return what it says of it, or None where it died."""
    assert worker.stdin is not None and worker.stdout is not None
    job = {
        "path": str(plan.path),
        "set": {**plan.settings, **run.varied, "seed": run.seed},
        "activation": run.activation,
        "max_ticks": plan.max_ticks,
        "series": plan.series,
    }
    reply = b""
    try:
        await worker.stdin.send_all(_encode(job) + b"\n")
        while not reply.endswith(b"\n"):
            chunk = await worker.stdout.receive_some()
            if not chunk:
                return None
            reply += chunk
    except trio.BrokenResourceError:
        return None
    return _decode(reply)  # type: ignore[no-any-return]


def _row(plan: Plan, run: Planned, said: Row) -> Row:
    whole = {**run.identity, **said, "command": run.command}
    return {column: whole.get(column) for column in plan.columns}


def _command(path: Path, activation: str, seed: int, settings: Mapping[str, Any], max_ticks: int | None) -> str:
    words = ["society", "run", os.path.relpath(path), "--activation", activation, "--seed", str(seed)]
    if max_ticks is not None:
        words += ["--ticks", str(max_ticks)]
    for key, value in settings.items():
        words += ["--set", f"{key}={_toml(value)}"]
    return shlex.join([*words, "--no-store"])


def _toml(value: Any) -> str:
    """Return a value as TOML writes it; that of JSON is the same but for tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_encode(key).decode()} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return _encode(value).decode()


def _blamed(fault: Fault, varied: Collection[str]) -> Fault:
    """Return a fault in what is varied as one of that, and not of what is set."""
    return attrs.evolve(fault, file="vary") if fault.file == "--set" and fault.path in varied else fault
