"""Outcomes: which one holds after a barrier, and what has to be remembered of a round to tell (R14).

Knows: the order in which outcomes are looked at.
Does not know: what comes from outside a barrier: cancellation, signals, people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from society.barrier import Closed
from society.records import Barrier, End
from society.state import State

LASTING: Final = ("satisfied", "quiet", "conflict")
"""Outcomes that do not go on with a larger `max_ticks`."""
NOBODY: Final = "everybody has left"


def lasts(end: End, round: int, max_ticks: int) -> bool:
    """Tell whether a run that has come to an end after this round has nothing more to do."""
    return end.outcome in LASTING or (end.outcome == "finished" and (max_ticks <= round or end.reason == NOBODY))


def outcome_after(
    past: Past,
    state: State,
    *,
    on_error: str,
    max_ticks: int,
    until: Callable[[], bool],
    quiet: bool,
    budget: str | None,
    events_to_come: bool,
) -> End | None:
    """Return the first outcome that holds, or None where the run goes on."""
    if past.conflict is not None:
        return End(outcome="conflict", reason=past.conflict)
    if past.failed is not None and on_error == "stop":
        return End(outcome="failed", reason=past.failed)
    if budget is not None:
        return End(outcome="budget", reason=budget)
    if until():
        return End(outcome="satisfied", reason=f"until holds after round {state.round}")
    if quiet and past.was_quiet and not events_to_come:
        return End(outcome="quiet", reason=f"round {state.round} wrote nothing, and nothing is in flight")
    return finished(state, max_ticks)


def finished(state: State, max_ticks: int) -> End | None:
    """Return the end of a run that has nothing left to do."""
    if not state.live:
        return End(outcome="finished", reason=NOBODY)
    if state.round >= max_ticks:
        return End(outcome="finished", reason="max_ticks reached")
    return None


@attrs.frozen
class Past:
    """What is remembered of the last round, to tell which outcome holds after it."""

    conflict: str | None
    failed: str | None
    was_quiet: bool
    silent: Sequence[str] = ()
    """Who has had a tick since anything was written, while there are others who have not: they were not drawn."""


def past(barrier: Barrier, closed: Closed, after: State, asked_for_quiet: bool, before: Past | None) -> Past:
    """Return what decides on the outcome. Not the round itself: it would live on through the whole next one.

    Args:
        before: What the round before left to be remembered.
    """
    conflict = None if closed.conflict is None else f"shared.{closed.conflict_key}: {closed.conflict}"
    failed = [contribution for contribution in barrier.ticks if contribution.ending == "failed"]
    told = None
    if failed:
        first = failed[0]
        where = f" ({first.where})" if first.where else ""
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        told = f"{first.agent} in round {barrier.round}: {first.error}{where}{more}"
    if not asked_for_quiet or after.inboxes or not wrote_nothing(barrier):
        return Past(conflict, told, was_quiet=False)
    # Under `random` and `partial` a round that wrote nothing may only not have drawn those who would have.
    asked = {*(before.silent if before is not None else ()), *(contribution.agent for contribution in barrier.ticks)}
    silent = tuple([name for name in after.live if name in asked])
    if len(silent) == len(after.live):
        return Past(conflict, told, was_quiet=True)
    return Past(conflict, told, was_quiet=False, silent=silent)


def wrote_nothing(barrier: Barrier) -> bool:
    """Tell whether a round wrote nothing at all: no message, no SHARED, no memory, no public state, no birth (R14)."""
    for contribution in barrier.ticks:
        if contribution.state or contribution.gone or contribution.public or contribution.public_gone:
            return False
        if any(did[0] != "note" for did in contribution.did):
            return False
    return not barrier.events
