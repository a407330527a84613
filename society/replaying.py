"""What a replay holds a society to: the recorded rounds, crossing by crossing and contribution by contribution (J8).

Knows: the records of each round, and how to name the first difference.
Does not know: how behaviors run; they run as ever, with all answers from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import attrs

from society.errors import ReplayDivergence
from society.records import Barrier, Contribution, Crossing, Late, order

AGES: Final = 1e9
"""Seconds, of a replay's clock, which jumps: longer than any behavior waits before it gives a crossing up."""
NOTHING: Final = "nothing"
"""What was recorded where the code asks for one crossing more."""
NOTHING_MORE: Final = "nothing more"
"""What the code asks for where more was recorded."""


@attrs.define
class Recorded:
    """One recorded round."""

    barrier: Barrier
    records: list[Any]


@attrs.frozen
class Parted:
    """Where a tick asked for another crossing than was recorded."""

    difference: ReplayDivergence
    did: list[tuple[Any, ...]]
    """What it had done by then."""

    def first(self, was: Contribution) -> ReplayDivergence:
        """Return the difference, or one between what the tick was recorded to have done before and what it did."""
        if was.ending != "well":
            return self.difference
        at = order(self.difference.crossing.partition(".")[0])
        recorded = (done for done in was.did if order(done[1]) < at)
        mine = (done for done in self.did if order(done[1]) < at)
        for one, other in zip_longest(recorded, mine):
            if one is None and self.difference.asked == NOTHING_MORE:
                break
            if other is None and self.difference.recorded == NOTHING:
                break
            if one is None or other is None or tuple(one) != tuple(other):
                return _done_otherwise(self.difference.round, was.agent, one, other)
        return self.difference


@attrs.define
class Replaying:
    rounds: Mapping[int, Recorded]
    failure_passed: bool = False
    """The run was resumed after its last round had failed: what it ended with then is not that failure."""

    compared: int = 0
    """The last round that was compared. Of one that ended in a conflict, nothing was applied."""

    parted: dict[tuple[str, int], Parted] = attrs.field(factory=dict)
    """Where ticks of the open round parted from what was recorded, in each the first by ordinal."""
    ends: dict[tuple[str, int], Callable[[], None]] = attrs.field(factory=dict)
    """What ends each tick of the open round."""

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

    def note(self, number: int, difference: ReplayDivergence, did: Sequence[tuple[Any, ...]]) -> None:
        """Take note of a difference. The other ticks go on: theirs may come first in canonical order.

        Args:
            number: Of the tick.
            did: What it has done so far.
        """
        known = self.parted.get((difference.agent, number))
        if known is None or order(difference.crossing) < order(known.difference.crossing):
            self.parted[difference.agent, number] = Parted(difference, list(did))

    def first(self, endings: Sequence[Contribution | None]) -> ReplayDivergence | None:
        """Return the first difference of the open round in order of activation; None where no tick noted any.

        Args:
            endings: What the ticks came to so far; None where one came to nothing.
        """
        if not self.parted:
            return None
        barrier = self.rounds[self.compared + 1].barrier
        for was, now in zip(barrier.ticks, endings, strict=False):
            parted = self.parted.get((was.agent, was.tick))
            if parted is not None:
                return parted.first(was)
            if now is not None and was != now:
                return tick_divergence(barrier.round, was, now)
        return next(iter(self.parted.values())).difference

    def compare(self, barrier: Barrier) -> None:
        """Compare a barrier with the recorded one.

        Raises:
            ReplayDivergence: The first difference, in order of activation.
        """
        self.compared = barrier.round
        self.ends.clear()
        recorded = self.rounds[barrier.round].barrier
        if recorded == barrier:
            return
        if recorded.events != barrier.events:
            raise ReplayDivergence(barrier.round, "the world", "events", short(recorded.events), short(barrier.events))
        for was, now in zip(recorded.ticks, barrier.ticks, strict=False):
            if was != now:
                raise tick_divergence(barrier.round, was, now)
        for field in ("ticks", "merged", "conflict", "settled", "in_doubt", "measures"):
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


def scripted(records: Sequence[Any], round: int) -> dict[tuple[str, int], dict[str, list[Any]]]:
    """Return the crossing records of an open round, by tick, then by ordinal."""
    script: dict[tuple[str, int], dict[str, list[Any]]] = {}
    for record in records:
        if getattr(record, "at", None) is not None and record.round == round:
            script.setdefault((record.agent, record.tick), {}).setdefault(record.at, []).append(record)
    return script


def tick_divergence(round: int, was: Contribution, now: Contribution) -> ReplayDivergence:
    """Return the first difference between two contributions of one tick."""
    if (was.agent, was.tick) != (now.agent, now.tick):
        return ReplayDivergence(round, was.agent, "activation", was.agent, now.agent)
    for one, other in zip_longest(map(tuple, was.did), map(tuple, now.did)):
        if one != other:
            return _done_otherwise(round, was.agent, one, other)
    for field in ("ending", "error", "where", "state", "gone", "public", "public_gone", "waiting_for"):
        one, other = getattr(was, field), getattr(now, field)
        if one != other:
            return ReplayDivergence(round, was.agent, field, short(one), short(other))
    raise AssertionError("two contributions that differ in nothing")


def _done_otherwise(round: int, agent: str, one: Any, other: Any) -> ReplayDivergence:
    return ReplayDivergence(round, agent, f"after {(one or other)[1]}", short(one), short(other))


def short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "…"
