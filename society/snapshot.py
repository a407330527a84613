"""What all agents of a round look at, and through what they reach out.

Synchronized, nothing of it changes before the barrier. In turn, what earlier ticks of the round contributed already counts.

Knows: the state before the round, the round in progress, the terms and the gate.
Does not know: which ticks run, or when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from society.agent import Agent
from society.barrier import RoundInProgress, effects
from society.births import described
from society.host import Desk, is_async
from society.state import Action, State, Terms
from society.values import Value

if TYPE_CHECKING:
    from society.gate import Gate
    from society.neighbors import Topology
    from society.tick import Tick


@attrs.define
class Member:
    """An agent with all that is worked out for it once: its hosts joined, its policy ready to judge."""

    agent: Agent
    desk: Desk
    judge: Any = None
    """A `judge.Judge`, or None where no rule says anything."""
    calls_plain: bool = attrs.field(init=False)
    """Its behavior is a plain function, where nothing can be awaited."""
    plain: bool = attrs.field(init=False)
    """It is called where it stands, without a task of its own."""
    sleeps: bool = attrs.field(init=False)
    """Without messages or receipts it does nothing, so that its sensors need not be read."""

    def __attrs_post_init__(self) -> None:
        self.calls_plain = not is_async(self.agent.behavior)
        self.plain = self.calls_plain and not self.agent.observe
        self.sleeps = getattr(self.agent.behavior, "wake", None) == "inbox"


@attrs.define
class Snapshot:
    round: int
    before: State
    going: RoundInProgress
    terms: Terms
    parameters: Mapping[str, Value]
    seed: int
    gate: Gate
    check_birth: Callable[[Agent, str], None]
    """`check_birth(agent, parent)` refuses a birth that a durable run could not find again."""
    births: dict[int, tuple[dict[str, Any], Agent]] = attrs.field(factory=dict)
    """Agents asked for in this round, with their descriptions, by the identity of these: of two that one parent asked
    for by one name, the first may have been part of something that did not end well."""
    neighbors: Topology | None = None

    def expect_birth(self, parent: str, agent: Agent) -> dict[str, Any]:
        """Return what is recorded of an agent that its parent asks for."""
        self.check_birth(agent, parent)
        if agent.model is not None or getattr(agent.behavior, "asks", False):
            self.gate.check_model(agent)
        recorded = described(agent)
        self.births[id(recorded)] = recorded, agent
        return recorded

    def effects(self, tick: Tick) -> list[Action]:
        """Return the actions that a tick has started so far and that are not in flight: those are not in doubt yet."""
        flying = {entry.at for entry in tick.flying}
        return effects([record for record in tick.records if record.at not in flying] if flying else tick.records)
