"""A birth: an agent that is born in a run, as it is recorded, and made again from that where a run goes on.

Code is not recorded. A function is found again by its name; an agent that a model drives is values, but for its fallback.

Knows: what of an agent is recorded.
Does not know: rights of newborns (`members.py`), or when they join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from society.agent import Agent, qualified
from society.budget import Budget
from society.declare import recorded_agent
from society.errors import ResumeRefused
from society.policy import Policy, described_policy, policy_of
from society.values import freeze

Find: TypeAlias = Callable[[str], Any]
"""`find(qualified name)` gives a function, or None."""


def described(agent: Agent) -> dict[str, Any]:
    """Return what is recorded of an agent that is born; rules, model, budget and what drives it where it has any."""
    found = recorded_agent(agent)
    if agent.policy != Policy():
        found["policy"] = described_policy(agent.policy)
    if agent.model is not None:
        found["model"] = agent.model
    if agent.budget is not None:
        found["budget"] = attrs.asdict(agent.budget)
    if (driven := getattr(agent.behavior, "written", None)) is not None:
        found["driven"] = freeze(driven, "driven")
    return found


def lost(agent: Agent, find: Find) -> str | None:
    """Return why another process could not make an agent again, or None where it could."""
    again = "Name it in `behaviors=`, or give a function that stands at the top of its module."
    if getattr(agent.behavior, "written", None) is not None:
        fallback = agent.behavior.fallback  # type: ignore[attr-defined]  # what is `written` is a model's
        if fallback is None or find(qualified(fallback)) is fallback:
            return None
        return f"the fallback of {agent.name!r} ({qualified(fallback)}) again. {again}"
    if find(qualified(agent.behavior)) is agent.behavior:
        return None
    return f"the behavior of {agent.name!r} ({qualified(agent.behavior)}) again. {again}"


def born(birth: Mapping[str, Any], find: Find) -> Agent:
    """Return the agent of a birth that stands in a journal.

    Raises:
        ResumeRefused: Its behavior or its fallback is not found again.
    """
    name, driven = birth["name"], birth.get("driven")
    if driven is None:
        behavior = _found(find, birth["behavior"], f"the behavior of {name!r}")
    else:
        from society.model_agent import driven_as_written

        fallback = driven["fallback"]
        behavior = driven_as_written(
            name, driven, None if fallback is None else _found(find, fallback, f"the fallback of {name!r}")
        )
    budget = birth.get("budget")
    return Agent(
        name,
        behavior,
        observe=birth["observe"],
        state=birth["state"],
        public=birth["public"],
        group=birth["group"],
        index=birth["index"],
        policy=policy_of(birth.get("policy")),
        model=birth.get("model"),
        budget=None if budget is None else Budget(**budget),
    )


def _found(find: Find, name: str, what: str) -> Any:
    function = find(name)
    if function is None:
        raise ResumeRefused(f"{what}, {name}, is not found again; name it in behaviors=")
    return function
