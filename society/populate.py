"""The agents that a scenario file declares, one by one: named ones, counted ones, rows of a table, those of a function.

Knows: how an entry becomes agents, and which names are taken.
Does not know: policies, hosts, or what else the file holds.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from society.agent import Agent, check_name
from society.casting import budget_of, driven_by
from society.codefile import CodeFile, fault_of, unknown, unread
from society.draw import stream
from society.errors import RAISED, ScenarioError
from society.files import Files
from society.locate import Path as KeyPath
from society.report import Report
from society.tables import MOST, AgentTable
from society.values import freeze


@attrs.frozen(kw_only=True)
class Setup:
    """What a function named by `from` makes its agents of."""

    parameters: Mapping[str, Any]
    rng: random.Random
    """A stream of its own, keyed by the seed and the function's name."""
    folder: Path
    """That of the scenario file."""


@attrs.frozen(kw_only=True)
class Ground:
    """What all entries of one file share."""

    report: Report
    code: CodeFile | None
    files: Files
    parameters: Mapping[str, Any]
    seed: int


def populate(entries: tuple[AgentTable, ...], ground: Ground) -> dict[int, list[Agent]]:
    """Return the agents of each entry, by the entry's number in the file, in order.

    An entry that is wrong has no agents; what is wrong is in the report.
    """
    taken: dict[str, KeyPath] = {}
    labels: dict[str, KeyPath] = {}
    found: dict[int, list[Agent]] = {}
    for entry in entries:
        path: KeyPath = ("agents", entry.index)
        at = (*path, "from" if entry.from_ else "name")
        if entry.label in labels:
            _twice(ground.report, at, entry.label, labels[entry.label])
            continue
        labels[entry.label] = at
        agents = found[entry.index] = list(_agents(entry, path, ground))
        for agent in agents:
            earlier = taken.get(agent.name, labels.get(agent.name, at))
            if agent.name in taken or earlier != at:
                _twice(ground.report, at, agent.name, earlier)
                break  # a thousand more of them would say no more
            taken[agent.name] = at
    return found


def _agents(entry: AgentTable, path: KeyPath, ground: Ground) -> Iterator[Agent]:
    if entry.from_ is not None:
        yield from _made(entry.from_, path, ground)
        return
    assert entry.name is not None
    behavior: Any = unread
    if entry.behavior is not None:
        behavior = _function(entry.behavior, (*path, "behavior"), "behavior", ground)
    elif entry.prompt is not None:
        behavior = driven_by(entry, path, ground) or unread
    try:
        check_name(entry.name)
    except ScenarioError as error:
        ground.report.add((*path, "name"), str(error).rstrip("."))
        return
    like = partial(
        Agent,
        behavior=behavior,
        observe=entry.observe,
        public=entry.public,
        model=entry.model,
        budget=budget_of(entry.budget),
    )
    if entry.rows is not None:
        for index, (name, state) in enumerate(_rows(entry.rows, (*path, "rows"), ground)):
            whole = freeze({**entry.state, **state})
            yield like(name or f"{entry.name}-{index}", state=whole, group=entry.name, index=index)
    elif entry.count is None:
        yield like(entry.name, state=entry.state)
    else:
        for index in range(_count(entry.count, (*path, "count"), ground)):
            yield like(f"{entry.name}-{index}", state=entry.state, group=entry.name, index=index)


def _function(name: str, path: KeyPath, what: str, ground: Ground) -> Callable[..., Any]:
    """Return a function of the code file; where there is none, one that stands for it until the faults are told."""
    function = ground.code.function(name) if ground.code else None
    if function is None:
        message, near = unknown(name, ground.code, what)
        ground.report.add(path, message, near=near)
        return unread
    return function


def _count(count: int | str, path: KeyPath, ground: Ground) -> int:
    if isinstance(count, int):
        return count
    key = count.removeprefix("parameters.")
    if key not in ground.parameters:
        ground.report.unknown(path, "unknown parameter", key, ground.parameters)
        return 0
    value = ground.parameters[key]
    if type(value) is not int or not 0 <= value <= MOST:
        ground.report.add(path, f"{count} is {value!r}", expected=f"a whole number from 0 to {MOST:,} there")
        return 0
    return value


def _made(name: str, path: KeyPath, ground: Ground) -> Iterator[Agent]:
    """Call a function of the code file and yield the agents that it returns."""
    at = (*path, "from")
    function = _function(name, at, "from", ground)
    if function is unread:
        return
    assert ground.code is not None
    setup = Setup(parameters=ground.parameters, rng=stream(ground.seed, "from", name), folder=ground.files.folder)
    try:
        agents = list(function(setup))
    except RAISED as error:  # the author's code: whatever it raises is a fault of the scenario
        fault = fault_of(error, ground.code, ground.files)
        ground.report.faults.append(attrs.evolve(fault, path=f"{name}(setup)"))
        return
    for number, agent in enumerate(agents):
        if not isinstance(agent, Agent):
            ground.report.add(at, f"{name}(setup) returns agents; its item {number} is of type {type(agent).__name__}")
            return
    yield from agents


def _rows(name: str, path: KeyPath, ground: Ground) -> list[tuple[str | None, dict[str, Any]]]:
    """Return (name, state) of each row of a CSV file. A column is numbers only if all of its cells are."""
    content = ground.files.read(name, path, ground.report)
    if content is None:
        return []
    try:
        table = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        ground.report.add(path, f"{name} is no CSV in UTF-8: {error}")
        return []
    if not table:
        ground.report.add(path, f"{name} is empty; its first line names the columns")
        return []
    header, *rows = table
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            ground.report.add(path, f"{name}, row {number}: {len(row)} cells under {len(header)} columns")
            return []
    twice = [column for position, column in enumerate(header) if column in header[:position]]
    if twice:
        ground.report.add(path, f"{name}: the column {twice[0]!r} is there twice")
        return []
    columns = {column: [row[position] for row in rows] for position, column in enumerate(header)}
    names: list[str | None] = [*columns.pop("name", [None] * len(rows))]
    typed = {column: _typed(cells) for column, cells in columns.items()}
    return [(name, {column: cells[row] for column, cells in typed.items()}) for row, name in enumerate(names)]


def _typed(cells: list[str]) -> list[Any]:
    for read in (_whole, _real, _truth):
        try:
            return [read(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


def _whole(cell: str) -> int:
    number = int(cell)
    if str(number) != cell or not -(2**63) <= number < 2**63:  # 007 and 1_000 are texts
        raise ValueError(cell)
    return number


def _real(cell: str) -> float:
    number = float(cell)
    if "_" in cell or number in (float("inf"), float("-inf")) or number != number:
        raise ValueError(cell)
    if cell.lstrip("+-")[:1] == "0" and cell.lstrip("+-")[1:2].isdigit():
        raise ValueError(cell)
    return number


def _truth(cell: str) -> bool:
    if cell not in ("true", "false"):
        raise ValueError(cell)
    return cell == "true"


def _twice(report: Report, path: KeyPath, name: str, earlier: KeyPath) -> None:
    _, line = report.where(earlier)
    at = f" in line {line}" if line and earlier != path else ""
    report.add(path, f"the name {name!r} is taken by an earlier agent{at}; messages are addressed by name")
