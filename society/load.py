"""Reading a scenario: its file, what is set from outside, its code, and what they refer to.

Everything that is wrong goes into one report, and is told at once.

Knows: in which order the parts are read, and what each of them needs.
Does not know: how a society runs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs

from society.agent import Agent
from society.casting import budget_of, check_names, meaning_of_models, models_of
from society.catalog import Catalog
from society.codefile import CodeFailed, CodeFile, run_code
from society.environment import Environment
from society.errors import Fault
from society.files import Files
from society.fingerprint import fingerprint, meaning_of
from society.host import AsyncHost
from society.locate import Path as KeyPath
from society.locate import Places, assembled, locate, path_text
from society.pins import meaning_of_pins, pins_of
from society.populate import Ground, populate
from society.references import (
    Known,
    events_of,
    hosts_of,
    measures_of,
    policy_of,
    sensors_of,
    servers_of,
    shared_of,
    until_of,
)
from society.report import Report
from society.scenario import Scenario
from society.setting import with_settings
from society.structure import structured
from society.tables import ScenarioTable
from society.topology import topology_of

_AT: Final = re.compile(r"(?P<why>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)


def load_scenario(
    path: str | os.PathLike[str],
    *,
    set: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    pinned: bool = True,
) -> Scenario:
    """Return the scenario in a TOML file.

    Args:
        path: The file. What it names is relative to it, wherever the program was started.
        set: Values by path: `parameters.patience`, `patience`, `shared.status`, `agents.citizen.count`.
        environ: What `{ env = "NAME" }` refers to.
        pinned: Whether tool servers must offer what `digest` says. Without it, its files may be missing.

    Raises:
        ScenarioFaults: With every fault of the file, its code and the settings, each with its line.
    """
    files, settings = Files(Path(path)), dict(set or {})
    text = _text(files)
    report = Report(str(files.shown), locate(text))
    data = _data(text, report)
    settings = _as_run(data, files) | settings
    data, report.settings, refused = with_settings(data, settings)
    report.faults += refused
    environment = Environment(environ, report)
    table, left_out = structured(environment.resolved(data), report)

    for number, file in enumerate(table.inputs):
        files.read(file, ("inputs", number), report)
    if table.activation == "partial" and table.rate is None and ("rate",) not in left_out:
        report.add(("activation",), "partial goes with `rate`, the probability with which an agent joins a round")
    code = _code(table, files, report)
    models = models_of(table.models, files, report)
    if not any(out[0] == "models" for out in left_out):
        check_names(table.model, table.agents, table.models, report)
    ground = Ground(report=report, code=code, files=files, parameters=table.parameters, seed=table.seed)
    populations = populate(table.agents, ground)
    # A graph of which something was left out would only fail a second time.
    is_graph_whole = not any(out[0] == "topology" for out in left_out)
    everyone = [agent for some in populations.values() for agent in some]
    topology = topology_of(table.topology, everyone, ground) if is_graph_whole else None
    pins = pins_of(table.servers, files, report) if pinned else {}
    parts = _parts(
        table,
        populations,
        pins,
        files.folder,
        Known(
            report=report,
            code=code,
            names=frozenset(_names(populations)),
            spared=tuple(_spared(data, left_out)),
            place=table.run.file or files.path.name,
        ),
    )
    if not table.agents and not any(out[0] == "agents" for out in left_out):
        report.add((), "no agents: a society has at least one [[agents]]")
    report.conclude()

    name = table.name or Path(table.run.file or files.path).stem
    written = structured(environment.named(data), report)[0] if environment.used else table
    report.conclude()  # a reference where only certain words can stand
    meaning = meaning_of(written, name, populations, topology)
    meaning |= meaning_of_pins(pins) | meaning_of_models(models, written.models)

    def again(*, seed: int) -> Scenario:
        return load_scenario(path, set=settings | {"seed": seed}, environ=environ, pinned=pinned)

    return Scenario(
        name=name,
        about=table.about,
        path=files.path,
        activation=table.activation,
        rate=table.rate,
        seed=table.seed,
        max_ticks=table.max_ticks,
        limits=table.limits,
        parameters=table.parameters,
        models=models,
        model=table.model,
        budget=budget_of(table.budget),
        on_error=table.on_error,
        quiet=table.quiet,
        topology=topology,
        meaning=meaning,
        fingerprint=fingerprint(meaning),
        pins={
            server: files.named(there.digest.file)
            for server, there in table.servers.items()
            if there.digest is not None and there.digest.file is not None
        },
        inputs=tuple(files.inputs),
        folder=files.folder,
        absolute=dict(files.absolute),
        code=code.module if code else None,
        behaviors=tuple(vars(code.module)[function] for function in code.functions()) if code else (),
        settings=settings,
        again=again,
        **parts,
    )


def _parts(
    table: ScenarioTable,
    populations: Mapping[int, list[Agent]],
    pins: Mapping[str, str | Catalog],
    folder: Path,
    known: Known,
) -> dict[str, Any]:
    """Return what is made of the sections that refer to each other, or to the code."""
    servers = servers_of(table.servers, pins, folder, known)
    every_host = (*(known.code.distinct_hosts() if known.code else ()), *servers.values())
    hosts = hosts_of(table.agents, populations, servers, known)
    shared = shared_of(table.shared, known)
    return {
        "agents": tuple(_with_policies(table, populations, hosts, known)),
        "hosts": hosts,
        "every_host": every_host,
        "shared": shared,
        "policy": policy_of(table.policy, ("policy",), sensors_of(every_host), table, known),
        "events": events_of(table.events, shared, table.shared, known),
        "measures": measures_of(table.measures, table.shared, known),
        "until": until_of(table, known),
    }


def _with_policies(
    table: ScenarioTable,
    populations: Mapping[int, list[Agent]],
    hosts: Mapping[str, list[AsyncHost]],
    known: Known,
) -> Iterator[Agent]:
    for entry in table.agents:
        agents = populations.get(entry.index, [])
        sensors = sensors_of(hosts[agents[0].name]) if agents else ()
        own = policy_of(entry.policy, ("agents", entry.index, "policy"), sensors, table, known)
        for agent in agents:
            yield attrs.evolve(agent, policy=agent.policy + own) if own.rules or own.default == "deny" else agent


def _text(files: Files) -> str:
    """Return the text of the scenario file.

    Raises:
        ScenarioFaults: It cannot be read, or is not in UTF-8.
    """
    report = Report(str(files.shown), Places({}, (), None))
    content = files.read(files.path.name, (), report)
    if content is not None:
        try:
            return content.decode("utf-8-sig")  # some editors begin a file with a mark
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            why = f"not UTF-8: byte {content[error.start]:#04x} at offset {error.start}"
            report.faults.append(Fault(file=report.file, line=line, message=why))
    report.conclude()
    raise AssertionError("unreachable")


def _data(text: str, report: Report) -> dict[str, Any]:
    """Return what a TOML text holds; with repeated keys, the first of each, and all of them are reported.

    Raises:
        ScenarioFaults: It is no TOML.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        report.add((), "nested too deep")
    except ValueError as error:  # not only TOML's own: also a number with more digits than Python reads
        twice = report.places.twice
        for one in twice:
            fault = Fault(
                file=report.file,
                line=one.again,
                path=path_text(one.path),
                message=f"written twice, first in line {one.first}; keep one",
            )
            report.faults.append(fault)
        if twice and report.places.stopped is None:
            try:
                return assembled(report.places)
            except ValueError as inner:
                report.faults.append(_no_toml(inner, report, None))
        else:
            report.faults.append(_no_toml(error, report, report.places.stopped if twice else None))
    report.conclude()
    raise AssertionError("unreachable")


def _no_toml(error: ValueError, report: Report, stopped: int | None) -> Fault:
    """Return the fault for a text that is no TOML; after a repeated key only the line is known."""
    if stopped is not None:
        return Fault(file=report.file, line=stopped, message="no TOML from here on")
    found = _AT.fullmatch(str(error))
    if found is None:
        return Fault(file=report.file, message=f"no TOML: {error}")
    line, column = found["line"], found["column"]
    hint = "; a text stands in quotes" if found["why"] == "Invalid value" else ""
    return Fault(
        file=report.file,
        line=int(line) if line else None,
        column=int(column) if column else None,
        message=f"no TOML: {found['why']}{'' if line else ' at the end of the file'}{hint}",
    )


def _as_run(data: Mapping[str, Any], files: Files) -> dict[str, Any]:
    """Return what was set when the scenario was run that this file is a copy of; find its other files."""
    run = data.get("run")
    if not isinstance(run, dict):
        return {}
    if isinstance(run.get("folder"), str):
        files.within = run["folder"]
    return dict(run["set"]) if isinstance(run.get("set"), dict) else {}


def _code(table: ScenarioTable, files: Files, report: Report) -> CodeFile | None:
    if table.code is None:
        return None
    if files.read(table.code, ("code",), report) is not None:
        try:
            code = run_code(files.named(table.code), files.as_shown(table.code))
        except CodeFailed as failed:
            report.faults.append(failed.fault)
        else:
            for path in code.beside:
                files.note(path, path.read_bytes())
            return code
    return CodeFile(ModuleType("unread"), whole=False)


def _names(populations: Mapping[int, Iterable[Agent]]) -> Iterator[str]:
    for agents in populations.values():
        for agent in agents:
            yield agent.name
            if agent.group is not None:
                yield agent.group


def _spared(data: Mapping[str, Any], left_out: Iterable[KeyPath]) -> Iterator[str]:
    """Yield the names of entries that something was wrong with."""
    entries = data.get("agents")
    for path in left_out:
        match path:
            case ("agents", int(number), *_) if isinstance(entries, list) and isinstance(entries[number], dict):
                entry: Any = entries[number]
                yield from (name for key in ("name", "from") if isinstance(name := entry.get(key), str))
