"""What a replay holds a society to: the recorded rounds, crossing by crossing and contribution by contribution (J8).

Knows: the records of each round, and how to name the first difference.
Does not know: how behaviors run; they run as ever, with all answers from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from society.errors import ReplayDivergence
from society.records import Barrier, Contribution, Crossing, Late


@attrs.define
class Recorded:
    """One recorded round."""

    barrier: Barrier
    records: list[Any]


@attrs.define
class Replaying:
    rounds: Mapping[int, Recorded]
    failure_passed: bool = False
    """The run was resumed after its last round had failed: what it ended with then is not that failure."""

    compared: int = 0
    """The last round that was compared. Of one that ended in a conflict, nothing was applied."""

    @property
    def goes_on(self) -> bool:
        """Whether more rounds were recorded."""
        return self.compared + 1 in self.rounds

    def of_round(self, round: int) -> list[Any]:
        """Return the crossings and proofs of a round."""
        return list(self.rounds[round].records)

    def late_ticks(self, round: int) -> dict[tuple[str, int], Contribution]:
        """Return the ticks that were late: how far they came depended on time, so they are not run again."""
        found = self.rounds[round].barrier.ticks
        return {(tick.agent, tick.tick): tick for tick in found if tick.ending == "late"}

    def failed(self, round: int, agent: str, number: int) -> bool:
        """Tell whether a tick was recorded as failed: what it had in flight then left no record."""
        found = self.rounds[round].barrier.ticks
        return any((tick.agent, tick.tick, tick.ending) == (agent, number, "failed") for tick in found)

    def compare(self, barrier: Barrier) -> None:
        """Compare a barrier with the recorded one.

        Raises:
            ReplayDivergence: The first difference, in order of activation.
        """
        self.compared = barrier.round
        recorded = self.rounds[barrier.round].barrier
        if recorded == barrier:
            return
        for was, now in zip(recorded.ticks, barrier.ticks, strict=False):
            if was != now:
                raise tick_divergence(barrier.round, was, now)
        for field in ("events", "ticks", "merged", "conflict", "settled", "in_doubt", "measures"):
            was, now = getattr(recorded, field), getattr(barrier, field)
            if was != now:
                raise ReplayDivergence(barrier.round, "the barrier", field, short(was), short(now))


def recorded_rounds(records: Sequence[Any]) -> tuple[dict[int, Recorded], list[Any]]:
    """Return the recorded rounds by number, and the records of the round that was never closed."""
    found: dict[int, Recorded] = {}
    gathered: list[Any] = []
    for record in records:
        if isinstance(record, Crossing | Late):
            gathered.append(record)
        elif isinstance(record, Barrier):
            found[record.round] = Recorded(record, gathered)
            gathered = []
    return found, gathered


def tick_divergence(round: int, was: Contribution, now: Contribution) -> ReplayDivergence:
    """Return the first difference between two contributions of one tick."""
    if (was.agent, was.tick) != (now.agent, now.tick):
        return ReplayDivergence(round, was.agent, "activation", was.agent, now.agent)
    for place in range(max(len(was.did), len(now.did))):
        one = tuple(was.did[place]) if place < len(was.did) else None
        other = tuple(now.did[place]) if place < len(now.did) else None
        if one != other:
            at = (one or other or ("", "0"))[1]
            return ReplayDivergence(round, was.agent, f"after {at}", short(one), short(other))
    for field in ("ending", "error", "where", "state", "gone", "public", "public_gone", "waiting_for"):
        one, other = getattr(was, field), getattr(now, field)
        if one != other:
            return ReplayDivergence(round, was.agent, field, short(one), short(other))
    raise AssertionError("two contributions that differ in nothing")


def short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "…"
