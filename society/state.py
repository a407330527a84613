"""The state of a society between two rounds: what the next round's snapshot is made of.

Nothing in it is ever changed. SHARED, versions and agents' memories are persistent maps, so a snapshot costs nothing
however large they are (R1), and a reference kept from an old round still shows that round.

Knows: the parts, and what a society starts from.
Does not know: how a round changes it; that is `barrier.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import immutables
import msgspec

from society.agent import Agent
from society.errors import ScenarioError
from society.messages import Message, Receipt
from society.shared import Shared
from society.spending import Spent
from society.values import FrozenDict, Value

COUNTS = (
    "rounds",
    "ticks",
    "failed_ticks",
    "late_ticks",
    "reads",
    "tool_calls",
    "llm_calls",
    "questions",
    "delegations",
    "denied",
    "timeouts",
    "in_doubt",
    "messages_sent",
    "messages_delivered",
    "messages_read",
    "messages_refused",
    "messages_undelivered",
    "shared_writes",
    "shared_conflicts",
    "births",
    "retired",
)
"""The names in `metrics`. Messages are counted as copies: a broadcast to 199 is 199 sent, though it is one message."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One effect and how it ended, as `tick.in_doubt` and `tick.stranded` tell it."""

    id: str
    agent: str
    round: int
    tool: str
    arguments: Value
    ending: str
    """`done`, `failed`, `in_doubt` or `not_executed`."""
    result: Value = None


@attrs.frozen(kw_only=True)
class Terms:
    """What was declared for the whole society and never changes in a run."""

    shared: Mapping[str, Shared]
    """In declared order."""
    in_turn: bool
    """Agents tick one after another, and contributions count at once (Q2)."""
    inbox_capacity: int | None = None
    retire_failed: bool = False
    """on_error = "retire"."""
    places: Mapping[str, int] = attrs.field(init=False)
    """Where each key stands in declared order."""

    @places.default
    def _places(self) -> Mapping[str, int]:
        return {key: place for place, key in enumerate(self.shared)}


@attrs.frozen(kw_only=True)
class State:
    round: int = 0
    """Rounds that were completed."""
    names: tuple[str, ...]
    """All agents there ever were, in declared order; a place is never used again."""
    groups: Mapping[str, str | None]
    live: tuple[str, ...]
    """Those who have not left, in declared order."""
    retired: frozenset[str] = frozenset()
    births: tuple[Mapping[str, Any], ...] = ()
    """What `spawn` recorded of each agent that was born, in order."""
    keys: tuple[str, ...]
    """SHARED's keys, in declared order."""
    shared: immutables.Map[str, Value]
    versions: immutables.Map[str, int]
    changed: Mapping[str, int] = attrs.field(factory=dict)
    """Versions that the last barrier changed."""
    inboxes: Mapping[str, Sequence[Message]] = attrs.field(factory=dict)
    """What was sent and not yet read; only those who have any."""
    receipts: Mapping[str, Sequence[Receipt]] = attrs.field(factory=dict)
    memories: immutables.Map[str, FrozenDict]
    """`tick.state` of those who have any."""
    publics: immutables.Map[str, FrozenDict]
    doubts: Mapping[str, Action] = attrs.field(factory=dict)
    """Actions in doubt, by id, in order of their rounds."""
    stranded: Mapping[str, tuple[Action, ...]] = attrs.field(factory=dict)
    counts: Mapping[str, int]
    spent: Mapping[str, Spent] = attrs.field(factory=dict)
    """What was used of models, by agent; only those who asked one."""


def first_state(agents: Sequence[Agent], shared: Mapping[str, Shared]) -> State:
    """Return the state before round 1.

    Raises:
        ScenarioError: Two agents have one name, or there is none.
    """
    names = tuple(agent.name for agent in agents)
    if not names:
        raise ScenarioError("a society has at least one agent.")
    if len(set(names)) < len(names):
        seen: set[str] = set()
        for index, name in enumerate(names):
            if name in seen:
                raise ScenarioError(
                    f"agents[{index}].name: {name!r} is taken by an earlier agent; messages are addressed by name."
                )
            seen.add(name)
    return State(
        names=names,
        groups={agent.name: agent.group for agent in agents},
        live=names,
        keys=tuple(shared),
        shared=immutables.Map({key: declared.initial for key, declared in shared.items()}),
        versions=immutables.Map(dict.fromkeys(shared, 0)),
        memories=immutables.Map({agent.name: agent.state for agent in agents if agent.state}),
        publics=immutables.Map({agent.name: agent.public for agent in agents if agent.public}),
        counts=dict.fromkeys(COUNTS, 0),
    )


def action_of(record: Any, ending: str, result: Value = None) -> Action:
    """Return the action of an `Intent` record, with how it ended."""
    return Action(record.id, record.agent, record.round, record.tool, record.arguments, ending, result)
