"""What a society declares, as the first record of its journal holds it, and back: enough to fold the journal without code.

Knows: how SHARED, agents and terms are written down and read again.
Does not know: behaviors; a merge function is written by its name, and its results stand in the barriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from society.agent import Agent, qualified
from society.draw import digest
from society.records import Start
from society.shared import Shared
from society.state import State, Terms, first_state


def declaration(
    agents: Sequence[Agent],
    shared: Mapping[str, Shared],
    terms: Terms,
    on_error: str,
    *,
    rate: float | None = None,
    topology: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the declarations as one value."""
    more: dict[str, Any] = {}
    if rate is not None:
        more["rate"] = rate
    if topology is not None:  # nothing is folded by it, so a digest will do to tell that it has changed
        more["topology"] = digest("topology", list(topology.items())).hex()
    return {
        "shared": {key: _shared(declared) for key, declared in shared.items()},
        "agents": [recorded_agent(agent) for agent in agents],
        "in_turn": terms.in_turn,
        "inbox_capacity": terms.inbox_capacity,
        "on_error": on_error,
        **more,
    }


def declared(start: Start) -> tuple[Terms, State]:
    """Return the terms and the first state of a recorded run."""
    found = start.declared
    shared = {
        key: Shared(
            entry["initial"],
            entry["merge"] if entry["merge"] is not None else _function_of_old(entry["function"]),
            writers=entry["writers"],
            readers=entry["readers"],
        )
        for key, entry in found["shared"].items()
    }
    terms = Terms(
        shared=shared,
        in_turn=found["in_turn"],
        inbox_capacity=found["inbox_capacity"],
        retire_failed=found["on_error"] == "retire",
    )
    agents = [
        Agent(
            entry["name"],
            _nobody,
            state=entry["state"],
            public=entry["public"],
            group=entry["group"],
            index=entry["index"],
        )
        for entry in found["agents"]
    ]
    return terms, first_state(agents, shared)


def _shared(declared: Shared) -> dict[str, Any]:
    by_name = isinstance(declared.merge, str)
    return {
        "initial": declared.initial,
        "merge": declared.merge if by_name else None,
        "function": None if by_name else qualified(declared.merge),
        "writers": declared.writers and list(declared.writers),
        "readers": declared.readers and list(declared.readers),
    }


def recorded_agent(agent: Agent) -> dict[str, Any]:
    """Return what is recorded of every agent, whether it was there from the beginning or is born."""
    return {
        "name": agent.name,
        "behavior": qualified(agent.behavior),
        "observe": list(agent.observe),
        "state": agent.state,
        "public": agent.public,
        "group": agent.group,
        "index": agent.index,
    }


def _function_of_old(name: str) -> Any:
    def merged(value: Any, contribution: Any) -> Any:
        raise AssertionError(f"{name} is code; what it merged stands in the barrier")

    return merged


def _nobody(tick: Any) -> None:
    """Stands where a behavior was: folding runs none."""
