"""What a scenario file refers to: SHARED keys, hosts, sensors, agents, functions, conditions. Found, or reported.

Knows: how each section's names are resolved.
Does not know: TOML, files, or how agents are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from society.agent import Agent
from society.catalog import Catalog
from society.codefile import CodeFile, unknown
from society.conditions import compile_condition, compile_until
from society.errors import ScenarioError, ValueRefused
from society.expressions import ConditionFault, Names
from society.host import AsyncHost, join
from society.locate import Path
from society.mcp_host import AsyncMCPHost
from society.merge import check_fit
from society.messages import WORLD
from society.policy import Policy, Rule
from society.report import Report
from society.shared import MERGE_RULES, Shared
from society.tables import AgentTable, EventTable, MeasureTable, PolicyTable, ScenarioTable, ServerTable, SharedTable
from society.values import FrozenDict


@attrs.frozen(kw_only=True)
class Known:
    """What there is to refer to."""

    report: Report
    code: CodeFile | None
    names: frozenset[str]
    """Of agents and groups."""
    spared: tuple[str, ...]
    """Names of entries that are wrong themselves: a reference to them, or to a member, is no second fault."""
    place: str
    """The scenario's file name, without its folder: traces show it, and must not tell where a project lies."""

    def is_agent(self, name: str) -> bool:
        return name in self.names or any(name == spared or name.startswith(f"{spared}-") for spared in self.spared)

    def function(self, name: str, path: Path, what: str) -> Callable[..., Any] | None:
        found = self.code.function(name) if self.code else None
        if found is None:
            message, near = unknown(name, self.code, what)
            self.report.add(path, message, near=near)
        return found


def shared_of(tables: Mapping[str, SharedTable], known: Known) -> dict[str, Shared]:
    """Return SHARED as it is declared, in the order of the file."""
    declared = {}
    for key, table in tables.items():
        path: Path = ("shared", key)
        for field in ("writers", "readers"):
            for number, name in enumerate(getattr(table, field) or ()):
                if not known.is_agent(name) and (field, name) != ("writers", WORLD):
                    known.report.unknown((*path, field, number), "unknown agent", name, sorted(known.names))
        merge = _merge(table.merge, (*path, "merge"), known)
        if merge is None:
            continue
        try:
            declared[key] = Shared(table.initial, merge, writers=table.writers, readers=table.readers)
        except ScenarioError as error:
            known.report.add(path, str(error).removeprefix("shared: ").rstrip("."))
    return declared


def _merge(name: str, path: Path, known: Known) -> Any:
    if name in MERGE_RULES:
        return name
    function = known.code.function(name) if known.code else None
    if function is None:
        functions = known.code.functions() if known.code else []
        known.report.unknown(
            path, "neither a merge rule nor a function of the code file:", name, [*MERGE_RULES, *functions]
        )
    return function


def servers_of(
    tables: Mapping[str, ServerTable], pins: Mapping[str, str | Catalog], folder: os.PathLike[str], known: Known
) -> dict[str, AsyncMCPHost]:
    """Return the tool servers as hosts that are opened with the run."""
    servers = {}
    for name, table in tables.items():
        if known.code and name in known.code.hosts():
            known.report.add(("servers", name), f"the code file has a host of this name, too: {name}")
        command = None if table.command is None else [*table.command, *table.args]
        try:
            servers[name] = AsyncMCPHost(
                name,
                command=command,
                url=table.url,
                digest=pins.get(name),
                trust=table.trust,
                env=table.env,
                cwd=folder if command else None,
                headers=table.headers,
            )
        except ScenarioError as error:
            known.report.add(("servers", name), str(error).rstrip("."))
    return servers


def hosts_of(
    entries: Iterable[AgentTable],
    agents: Mapping[int, list[Agent]],
    servers: Mapping[str, AsyncMCPHost],
    known: Known,
) -> dict[str, list[Any]]:
    """Return each agent's hosts by its name. An entry that names none has all hosts of the code file, and all servers."""
    there: dict[str, Any] = {**(known.code.hosts() if known.code else {}), **servers}
    is_read = known.code is None or known.code.whole
    every: list[Any] = [*(known.code.distinct_hosts() if known.code else []), *servers.values()]
    hosts: dict[str, list[Any]] = {}
    for entry in entries:
        path: Path = ("agents", entry.index)
        chosen = every if entry.hosts is None else _chosen(entry.hosts, (*path, "hosts"), there, known)
        try:
            sensors = join(chosen, entry.label).sensors
        except ScenarioError as error:
            known.report.add((*path, "hosts") if entry.hosts else path, str(error).rstrip("."))
            sensors = {}
        for number, sensor in enumerate(entry.observe):
            if sensor not in sensors and is_read and len(chosen) == len(entry.hosts or chosen):
                known.report.unknown((*path, "observe", number), "no host of the agent has a sensor", sensor, sensors)
        hosts |= {agent.name: chosen for agent in agents.get(entry.index, ())}
    return hosts


def _chosen(names: Iterable[str], path: Path, there: Mapping[str, Any], known: Known) -> list[Any]:
    for number, name in enumerate(names):
        if name not in there and (known.code is None or known.code.whole):
            is_server = any(isinstance(host, AsyncMCPHost) for host in there.values())
            what = "neither a host of the code file nor a server:" if is_server else "the code file has no host"
            known.report.unknown((*path, number), what, name, there)
    return [there[name] for name in names if name in there]


def events_of(
    tables: Iterable[EventTable], shared: Mapping[str, Shared], tables_shared: Mapping[str, Any], known: Known
) -> tuple[FrozenDict, ...]:
    """Return what the world does, in the order of the file: `{"round", "share"}` or `{"round", "send"}`."""
    events = []
    for table in tables:
        path: Path = ("events", table.index)
        if table.send is not None:
            send = table.send
            if not known.is_agent(send.to):
                known.report.unknown((*path, "send", "to"), "unknown agent", send.to, sorted(known.names))
            sent = FrozenDict({"to": send.to, "kind": send.kind, "body": send.body})
            events.append(FrozenDict({"round": table.round, "send": sent}))
        for key, value in (table.share or {}).items():
            if key not in tables_shared:
                known.report.unknown((*path, "share", key), "unknown SHARED key", key, tables_shared)
            elif key in shared:
                _check_share(key, value, shared[key], (*path, "share", key), known.report)
        if table.share is not None:
            events.append(FrozenDict({"round": table.round, "share": table.share}))
    return tuple(events)


def _check_share(key: str, value: Any, shared: Shared, path: Path, report: Report) -> None:
    try:
        check_fit(shared.merge, key, shared.initial, value)
    except ValueRefused as refused:
        report.add(path, refused.found)


PUBLIC: Final = "public."


def measures_of(
    tables: Iterable[MeasureTable], shared: Mapping[str, SharedTable], known: Known
) -> dict[str, Callable[..., Any]]:
    """Return each measure's function of a view.

    A measure of a SHARED key, or of a key of agents' public state (`public.KEY`), is its number, or the length of its list.
    """
    measures: dict[str, Callable[..., Any]] = {}
    for table in tables:
        path: Path = ("measures", table.index)
        if table.name in measures:
            known.report.add((*path, "name"), f"an earlier measure is called {table.name!r}, too")
        function = known.code.function(table.value) if known.code else None
        if table.per == "society" and table.value in shared:
            function = SharedMeasure(table.value)
            _check_measured(table.value, shared[table.value].initial, (*path, "value"), known.report)
        if table.value.startswith(PUBLIC):
            key = table.value.removeprefix(PUBLIC)
            measures[table.name] = PublicMeasures(key) if table.per == "agent" else PublicMeasure(key)
            continue
        if function is None:
            functions = known.code.functions() if known.code else []
            keys = shared if table.per == "society" else {}
            what = "neither a SHARED key nor a function of the code file:" if keys else "no function of the code file:"
            known.report.unknown((*path, "value"), what, table.value, [*keys, *functions])
            continue
        measures[table.name] = per_agent(function) if table.per == "agent" else function
    return measures


def _check_measured(key: str, initial: Any, path: Path, report: Report) -> None:
    if isinstance(initial, (str, dict)):
        kind = "a text" if isinstance(initial, str) else "a table"
        report.add(path, f"shared.{key} holds {kind}; a measure is a number or the length of a list: use a function")


@attrs.frozen
class SharedMeasure:
    """The number that a SHARED key holds, or how long its list is."""

    key: str

    def __call__(self, view: Any) -> Any:
        value = view.shared[self.key]
        return len(value) if isinstance(value, list) else value


@attrs.frozen
class PublicMeasures:
    """The number that each agent shows under a key of its public state, by name; of those who show one."""

    by_agent: ClassVar = True
    key: str

    def __call__(self, view: Any) -> dict[str, Any]:
        return {agent.name: self.of(agent) for agent in view.agents if not agent.retired and self.key in agent.public}

    def of(self, agent: Any) -> Any:
        value = agent.public[self.key]
        if isinstance(value, list):
            return len(value)
        if value is None or isinstance(value, (str, dict)):
            raise TypeError(
                f"{agent.name} shows {value!r} as {self.key}; a measure is a number or the length of a list"
            )
        return value


@attrs.frozen
class PublicMeasure:
    """What all agents show under a key of their public state, added up; None where nobody shows anything."""

    key: str

    def __call__(self, view: Any) -> Any:
        found = PublicMeasures(self.key)(view)
        return sum(found.values()) if found else None


@attrs.frozen
class AgentMeasure:
    """A number for each agent that has not retired, by its name."""

    by_agent: ClassVar = True
    function: Callable[..., Any]

    def __call__(self, view: Any) -> dict[str, Any]:
        return {agent.name: self.function(agent) for agent in view.agents if not agent.retired}


def per_agent(function: Callable[..., Any]) -> AgentMeasure:
    return AgentMeasure(function)


def until_of(table: ScenarioTable, known: Known) -> Any:
    """Return `until` as a function: one of the code file, or a condition."""
    text = table.until
    if text is None:
        return None
    function = known.code.function(text) if known.code else None
    if function is not None:
        return function
    names = Names(shared=_tuple(table.shared), parameters=_tuple(table.parameters))
    if text.isidentifier() and text not in ("true", "false"):
        known.function(text, ("until",), "until")
        return None
    try:
        return compile_until(text, names=names, place=_place(("until",), known))
    except ConditionFault as fault:
        known.report.add(("until",), _said(fault))
        return None


def policy_of(table: PolicyTable, path: Path, sensors: Iterable[str], declared: ScenarioTable, known: Known) -> Policy:
    """Return a policy with its conditions compiled; each rule knows the line that it stands in."""
    rules = []
    names = Names(shared=_tuple(declared.shared), sensors=_tuple(sensors))
    for rule in table.rules:
        at = (*path, "rules", rule.index)
        place = _place(at, known)
        (kind,) = rule.kinds
        when: Any = None
        if rule.when is not None:
            try:
                when = compile_condition(rule.when, names=names, place=place)
            except ConditionFault as fault:
                known.report.add((*at, "when"), _said(fault))
                continue
        try:
            rules.append(Rule(kind, getattr(rule, kind), when, place=place))
        except ScenarioError as error:
            known.report.add((*at, kind), str(error).rstrip("."))
    return Policy(*rules, default=table.default)


def _tuple(names: Iterable[str]) -> Any:
    return tuple(names)  # `Names` converts with the bare `tuple`, for which the type checker knows no argument


def _place(path: Path, known: Known) -> str:
    file, line = known.report.where(path)
    return f"{known.place}:{line}" if line is not None else file


def _said(fault: ConditionFault) -> str:
    return str(attrs.evolve(fault, place=""))


def sensors_of(hosts: Iterable[AsyncHost]) -> list[str]:
    """Return the names of all sensors of some hosts."""
    return list(dict.fromkeys(name for host in hosts for name in host.sensors))
