"""What agents let others see, round by round: public states stand in no trace, and runs may part there first.

Knows: public states, who is next to whom, and who had a tick when.
Does not know: traces, or why two runs are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from society.records import Barrier
from society.state import State
from society.values import EMPTY

AT_MOST: Final = 8
"""Of neighbors that are told about at a parting."""
TURN: Final = "a tick in this round"


@attrs.define
class Showing:
    """The public states of one run. `take` is called with each barrier."""

    in_turn: bool = False
    """Whether what one shows counts at once."""
    first: Mapping[str, Mapping[str, Any]] = EMPTY
    """Before round 1, by agent."""
    names: tuple[str, ...] = ()
    """In declared order, those who were born in the run too."""
    neighbors: Mapping[str, Sequence[str]] | None = None
    ticks: list[list[str]] = attrs.field(factory=list)
    """For each round who had a tick, in order of activation."""
    changes: list[list[tuple[int, str, Mapping[str, Any]]]] = attrs.field(factory=list)
    """For each round: (place among the ticks, agent, what it set; None for what it took away)."""

    def take(
        self, before: State, after: State, neighbors: Mapping[str, Sequence[str]] | None, barrier: Barrier
    ) -> None:
        if not self.ticks:
            self.first, self.neighbors = before.publics, neighbors
        self.names = after.names
        self.ticks.append([ended.agent for ended in barrier.ticks])
        self.changes.append(
            [
                (place, ended.agent, {**dict.fromkeys(ended.public_gone or ()), **(ended.public or {})})
                for place, ended in enumerate(barrier.ticks)
                if ended.ending == "well" and barrier.conflict is None and (ended.public or ended.public_gone)
            ]
        )

    def seen(self, agent: str, round: int) -> dict[str, str]:
        """Return what others showed an agent when it first ticked in a round: what it is about → what it was, and from when."""
        if agent not in self.ticks[round - 1]:
            return {TURN: "no"}
        shown = self._shown(round, self.ticks[round - 1].index(agent) if self.in_turn else 0)
        others = self.names if self.neighbors is None else self.neighbors.get(agent, ())
        return {
            f"{key} of {other}": f"{value!r}, {_since(number, round)}"
            for other in others
            if other != agent
            for key, (value, number) in shown.get(other, EMPTY).items()
        }

    def _shown(self, round: int, upto: int) -> dict[str, dict[str, tuple[Any, int]]]:
        """Return what everybody shows before a place among the ticks of a round: agent → key → (value, since which round)."""
        shown = {agent: {key: (value, 0) for key, value in public.items()} for agent, public in self.first.items()}
        for number, changes in enumerate(self.changes[:round], 1):
            for place, agent, changed in changes:
                if number < round or place < upto:
                    held = shown.setdefault(agent, {})
                    held |= {key: (value, number) for key, value in changed.items()}
        return {
            agent: {key: held for key, held in public.items() if held[0] is not None} for agent, public in shown.items()
        }


def _since(number: int, round: int) -> str:
    if number == 0:
        return "from the start"
    return "set earlier in this round" if number == round else f"set in round {number}"


def first_parting(left: Showing, right: Showing) -> tuple[int, str, str, Any, Any] | None:
    """Return where what two societies show parts first: (round, agent, key, the value on each side, None for none)."""
    ours, theirs = dict(left.first), dict(right.first)
    for round, (one, other) in enumerate(zip(left.changes, right.changes, strict=False), 1):
        for shown, changes in ((ours, one), (theirs, other)):
            for _, agent, changed in changes:
                shown[agent] = {**shown.get(agent, EMPTY), **changed}
        changed_ones = {agent for _, agent, _ in (*one, *other)}
        for agent in dict.fromkeys([*left.names, *right.names]) if changed_ones else ():
            if agent in changed_ones and ours.get(agent) != theirs.get(agent):
                here, there = ours.get(agent, EMPTY), theirs.get(agent, EMPTY)
                for key in dict.fromkeys([*here, *there]):
                    if here.get(key) != there.get(key):
                        return round, agent, key, here.get(key), there.get(key)
    return None


def seen_differently(left: Showing, right: Showing, round: int, agent: str) -> tuple[tuple[str, str, str], ...]:
    """Return (what, on the left, on the right) of what others showed an agent in a round, as far as it differs; the first few."""
    if round > min(len(left.ticks), len(right.ticks)):
        return ()
    ours, theirs = left.seen(agent, round), right.seen(agent, round)
    if TURN in ours or TURN in theirs:
        return () if ours == theirs else ((TURN, ours.get(TURN, "yes"), theirs.get(TURN, "yes")),)
    found = [
        (what, ours.get(what, "nothing"), theirs.get(what, "nothing"))
        for what in dict.fromkeys([*ours, *theirs])
        if ours.get(what) != theirs.get(what)
    ]
    return tuple(found[:AT_MOST])
