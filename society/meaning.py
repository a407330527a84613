"""The meaning of a society made in Python: what may not change when a run of it is resumed (J7), by key path.

    parameters.patience        3
    policy.rules[0]            ["never", "restart", "shared.open"]
    tools.pay                  ["idempotent"]
    until                      "shared.open == 0"

A function is told by its qualified name: its code may be mended, and replaying it finds what it does. What a scenario's
file says has its own fingerprint (`fingerprint.py`); of its code, only the names of tools, sensors and sub-agents count.
SHARED, agents and the rest of what the journal is folded by are in `declare.py`.

Knows: which parts are meaning, and how to name where two meanings differ.
Does not know: journals, or what is done about a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from society.agent import Agent, qualified
from society.host import Desk, Tool
from society.policy import Policy
from society.records import Start
from society.values import plain

_encode = msgspec.json.Encoder().encode


def meaning_in_python(
    *,
    agents: Sequence[Agent],
    parameters: Mapping[str, Any],
    policy: Policy,
    until: Any,
    quiet: bool,
    events: Mapping[int, Sequence[Any]],
    measures: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what a society was given besides what its journal is folded by."""
    meaning: dict[str, Any] = {f"parameters.{name}": plain(value) for name, value in parameters.items()}
    meaning |= _policy("policy", policy)
    for agent in agents:
        if agent.policy.rules or agent.policy.default != "allow":
            meaning |= _policy(f"agents.{agent.name}.policy", agent.policy)
        told = getattr(agent.behavior, "meaning", {})  # of one that a model drives
        meaning |= {f"agents.{agent.name}.{key}": value for key, value in told.items()}
    if until is not None:
        meaning["until"] = _condition(until)
    if quiet:
        meaning["quiet"] = True
    for round in sorted(events):
        for number, event in enumerate(events[round]):
            meaning[f"events in round {round}[{number}]"] = plain(event)
    return meaning | {f"measures.{name}": qualified(measure) for name, measure in measures.items()}


def meaning_of_hosts(desks: Iterable[Desk], agents: Iterable[tuple[str, Desk]]) -> dict[str, Any]:
    """Return what agents can reach: names, and what is declared of tools. Not the code behind them.

    Args:
        desks: Each one once, in the order of the agents.
        agents: Each with its desk.
    """
    meaning: dict[str, Any] = {}
    distinct = list(desks)
    paths = {id(desk): f"hosts[{number}]." if len(distinct) > 1 else "" for number, desk in enumerate(distinct)}
    for desk in distinct:
        path = paths[id(desk)]
        meaning |= {f"{path}tools.{name}": _tool(tool) for name, (_, tool) in desk.tools.items()}
        meaning |= {f"{path}sensors.{name}": True for name in desk.sensors}
        for name, (_, subagent) in desk.subagents.items():
            meaning[f"{path}sub-agents.{name}"] = "with tick" if subagent.with_tick else "opaque"
        meaning |= {f"{path}reconcilers.{name}": True for name in desk.reconcilers}
    if len(distinct) > 1:
        meaning |= {f"agents.{name}.hosts": paths[id(desk)][:-1] for name, desk in agents}
    return meaning


def _tool(tool: Tool) -> list[str]:
    return [flag for flag in ("idempotent", "reads_only") if getattr(tool, flag)]


def _policy(path: str, policy: Policy) -> dict[str, Any]:
    found: dict[str, Any] = {} if policy.default == "allow" else {f"{path}.default": policy.default}
    for number, rule in enumerate(policy.rules):
        when = None if rule.when is None else _condition(rule.when)
        found[f"{path}.rules[{number}]"] = [rule.kind, rule.tool, when]
    return found


def _condition(when: Any) -> str:
    text = when if isinstance(when, str) else getattr(when, "text", None)
    return text if isinstance(text, str) else qualified(when)


# ── differences ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def differences(before: Start, now: Start) -> list[str]:
    """Return what differs in meaning, one line each: `limits.inbox_capacity: 5, now 10`."""
    told: list[str] = []
    old, new = _meaning(before), _meaning(now)
    for path in dict.fromkeys([*old, *new]):
        if path not in new:
            told.append(f"{path} is gone (it was {_short(old[path])})")
        elif path not in old:
            told.append(f"{path} is new: {_short(new[path])}")
        elif _encode(old[path]) != _encode(new[path]):
            # As they are written: 1, 1.0 and true are equal to Python, and not the same; so is another order of keys.
            told.append(f"{path}: {_short(old[path])}, now {_short(new[path])}")
    return told


def _meaning(start: Start) -> dict[str, Any]:
    # Lists first, where two of them tell of a change of order what its parts cannot.
    found: dict[str, Any] = {"activation": start.activation, "seed": start.seed, "agents": start.agents}
    for key, value in start.declared.items():
        if key == "agents":
            for agent in value:
                # Where a behavior stands is code, not meaning; what it does is found out by replaying it.
                path = f"agents.{agent['name']}"
                found |= {f"{path}.{field}": agent[field] for field in agent if field not in ("name", "behavior")}
        elif key == "shared":
            found["shared"] = list(value)
            for name, entry in value.items():
                found |= {f"shared.{name}.{field}": entry[field] for field in entry}
        else:
            found["limits.inbox_capacity" if key == "inbox_capacity" else key] = value
    for path, value in start.meaning.items():
        found.setdefault(path, value)
    return found


def _short(value: Any) -> str:
    text = repr(plain(value))
    return text if len(text) <= 120 else text[:117] + "…"
