"""The meaning of a scenario: what may not change when a run of it is resumed (J7), by key path, and one digest of it.

    seed                               7
    shared.status.initial              "open"
    agents                             ["analyst", "citizen"]       in declared order
    agents.citizen.population          {"agents": 1000, "sha256": …}

It is what the file says, not how: a default that is written down, a comment, another order of keys in a table of
settings change nothing. The order of agents, of SHARED keys, of events, and of the keys inside values has a meaning:
behaviors walk them. Not in it: `about`, `max_ticks`, limits other than `inbox_capacity`, and the text of the code.

Knows: which parts are meaning.
Does not know: files, or how they were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from society.agent import Agent, qualified
from society.locate import path_text
from society.policy import Policy
from society.tables import AgentTable, EventTable, MeasureTable, PolicyTable, ScenarioTable

_encode = msgspec.json.Encoder().encode


def fingerprint(meaning: Mapping[str, Any]) -> str:
    """Return the sha256 of a meaning, in hex."""
    return hashlib.sha256(_encode(sorted(meaning.items()))).hexdigest()


def meaning_of(
    table: ScenarioTable,
    name: str,
    populations: Mapping[int, Sequence[Agent]],
    topology: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the meaning of a scenario file.

    Args:
        table: The file, where a reference to the environment stands for its value.
        name: Of the scenario.
        populations: The agents that each entry of the file stands for, by its number. Those of a function or of rows are
            meaning; what the others are, their own keys say.
    """
    meaning: dict[str, Any] = {"name": name}
    for key in ("activation", "seed", "until", "on_error", "quiet"):
        meaning[key] = getattr(table, key)
    meaning |= _given("rate", table.rate)
    meaning["limits.inbox_capacity"] = table.limits.inbox_capacity
    meaning |= _values("parameters", table.parameters)
    meaning["shared"] = list(table.shared)
    for key, shared in table.shared.items():
        for field, value in attrs.asdict(shared, recurse=False).items():
            meaning[path_text(("shared", key, field))] = _plain(value)
    for server, there in table.servers.items():
        path = path_text(("servers", server))
        # Not its environment and headers, where secrets are; what its tools are is found out when it is opened.
        meaning |= _given(f"{path}.command", there.command and [*there.command, *there.args])
        meaning |= _given(f"{path}.url", there.url)
        meaning |= _given(f"{path}.digest", there.digest and there.digest.sha256)
        meaning |= _given(f"{path}.trust", list(there.trust) or None)
    meaning |= _policy("policy", table.policy)
    if table.model is not None:
        meaning["model"] = table.model
    meaning["agents"] = [entry.label for entry in table.agents]
    for entry in table.agents:
        meaning |= _agent(entry, populations.get(entry.index, ()))
    if table.topology is not None:
        meaning |= {"topology.graph": table.topology.graph, "topology.group": table.topology.group}
        meaning |= _values("topology.options", table.topology.options)
        meaning["topology.edges"] = hashlib.sha256(_encode(topology)).hexdigest()
    for number, event in enumerate(table.events):
        meaning |= _event(f"events[{number}]", event)
    meaning["measures"] = [measure.name for measure in table.measures]
    for measure in table.measures:
        meaning |= _measure(measure)
    return meaning


def population(agents: Sequence[Agent]) -> dict[str, Any]:
    """Return how many agents there are and a digest of all that is meaning in them, in order."""
    lines = b"\n".join(_encode(_declared(agent)) for agent in agents)
    return {"agents": len(agents), "sha256": hashlib.sha256(lines).hexdigest()}


def _declared(agent: Agent) -> list[Any]:
    values = [agent.name, agent.group, agent.index, qualified(agent.behavior), agent.observe, agent.state, agent.public]
    asks = [] if agent.model is None else [agent.model]
    return [*values, _rules(agent.policy), agent.policy.default, *asks]


def _rules(policy: Policy) -> list[list[str | None]]:
    return [[rule.kind, rule.tool, None if rule.when is None else _condition(rule.when)] for rule in policy.rules]


def _condition(when: Any) -> str:
    text = getattr(when, "text", when)
    return text if isinstance(text, str) else qualified(when)


def _values(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name; their order is one, too: behaviors may walk them."""
    found: dict[str, Any] = {path: list(values)} if values else {}
    for key, value in values.items():
        found[f"{path}.{path_text((key,))}"] = value
    return found


def _policy(path: str, policy: PolicyTable) -> dict[str, Any]:
    found: dict[str, Any] = {} if policy.default == "allow" else {f"{path}.default": policy.default}
    for number, rule in enumerate(policy.rules):
        for kind in rule.kinds:
            found[f"{path}.rules[{number}]"] = [kind, getattr(rule, kind), rule.when]
    return found


def _agent(entry: AgentTable, agents: Sequence[Agent]) -> dict[str, Any]:
    path = path_text(("agents", entry.label))
    found: dict[str, Any] = {}
    for key in ("behavior", "count", "hosts", "model"):
        found |= _given(f"{path}.{key}", getattr(entry, key))
    if entry.prompt is not None and agents:
        found |= {f"{path}.{key}": value for key, value in agents[0].behavior.meaning.items()}  # type: ignore[attr-defined]
    found |= _given(f"{path}.from", entry.from_)
    if entry.observe:
        found[f"{path}.observe"] = list(entry.observe)
    found |= _policy(f"{path}.policy", entry.policy)
    found |= _values(f"{path}.state", entry.state)
    found |= _values(f"{path}.public", entry.public)
    if entry.from_ is not None or entry.rows is not None:
        found[f"{path}.population"] = population(agents)
    return found


def _event(path: str, event: EventTable) -> dict[str, Any]:
    found: dict[str, Any] = {f"{path}.round": event.round}
    if event.share is not None:
        found[f"{path}.share"] = event.share
    if event.send is not None:
        found[f"{path}.send"] = {"to": event.send.to, "kind": event.send.kind, "body": event.send.body}
    return found


def _measure(measure: MeasureTable) -> dict[str, Any]:
    path = path_text(("measures", measure.name))
    return {f"{path}.value": measure.value, f"{path}.per": measure.per}


def _given(path: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {path: _plain(value)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each key path at which two meanings differ, in the order of the file."""
    return [
        f"{path}: {_shown(before, path)} became {_shown(after, path)}"
        for path in _ordered(before, after)
        if path not in before or path not in after or _encode(before[path]) != _encode(after[path])
    ]


def _ordered(*meanings: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(path for meaning in meanings for path in meaning))


def _shown(meaning: Mapping[str, Any], path: str) -> str:
    return _encode(meaning[path]).decode() if path in meaning else "nothing"
