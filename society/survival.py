"""Runs that survive: a society goes on from its journal as if nothing had happened (J3, J7).

Knows: what a resume restores and writes, and what becomes of a changed meaning.
Does not know: bytes and locks (the store's), or what a crossing does with what was recorded (the gate's).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs

from society.checkpoint import checkpoint, state_at
from society.codec import Scan
from society.declare import declared
from society.errors import ResumeRefused
from society.meaning import differences
from society.records import Checkpoint, Crossing, End, Late, Opening, Override, Start
from society.retelling import Round, failure_was_passed, forked_events, rounds
from society.store import Journal

if TYPE_CHECKING:
    from society.societies import AsyncSociety

LEAST_BYTES = 65_536
"""Less than this is decoded faster than a checkpoint is worth."""
AHEAD = 1_000_000
"""Bytes of rounds without a crossing that a run may be ahead of its disk: a crash costs their time, and nothing else."""


@asynccontextmanager
async def journaled(town: AsyncSociety) -> AsyncIterator[Keeping]:
    """Own the society's journal for one call of `run`; begin it, or bring the society to where it stands.

    Raises:
        RunLocked, JournalDamaged, JournalUnwritable: As the store tells.
        ResumeRefused: The scenario's meaning has changed.
    """
    async with town.store.opened() as (journal, found):
        keeping = Keeping(journal)
        if len(found) == 0:
            journal.put(town.start_record())
            keeping.begins(journal.bytes)
        else:
            restore(town, found, journal)
            keeping.resumes(found)
        del found  # the bytes of the whole file
        yield keeping


@attrs.define
class Keeping:
    """A journal as the engine writes it, with a checkpoint now and then."""

    journal: Journal
    _since: int = 0
    """Bytes when the last checkpoint was written."""
    _worth: int = LEAST_BYTES
    _crossed: bool = False
    """Something came from outside since the last barrier: it cannot be computed again."""

    def put(self, record: Any) -> None:
        self._crossed = self._crossed or isinstance(record, Crossing | Late)
        self.journal.put(record)

    async def durable(self) -> None:
        await self.journal.durable()

    def begins(self, size: int) -> None:
        self._worth = max(LEAST_BYTES, size)

    def resumes(self, found: Scan) -> None:
        """Count from the last checkpoint in the file on."""
        last = found.last("checkpoint")
        first = found.starts[last] if last is not None else 0
        after = found.starts[last + 1] if last is not None and last + 1 < len(found) else found.end
        self._worth = max(LEAST_BYTES, after - first)
        self._since = -(found.end - after)

    def after_round(self, town: AsyncSociety) -> bool:
        """Return whether the next round has to wait until this one is durable; where it need not, the writing begins.

        What came from outside in a round has to be on disk by its barrier (J1). A round without a crossing is only
        computed again after a crash; whatever starts an effect later waits for everything that was put before it.
        """
        self._check_size(town)
        crossed, self._crossed = self._crossed, False
        if crossed or self.journal.behind > AHEAD:
            return True
        self.journal.write_soon()
        return False

    def _check_size(self, town: AsyncSociety) -> None:
        """Write a checkpoint where the changes since the last one outweigh it."""
        if self.journal.bytes - self._since < self._worth:
            return
        before = self.journal.bytes
        self.journal.put(checkpoint(town.state, town.remembered()))
        self._worth = max(LEAST_BYTES, self.journal.bytes - before)
        self._since = self.journal.bytes


def restore(town: AsyncSociety, found: Scan, journal: Journal) -> None:
    """Bring a society to where its journal ends, decoding only what follows the last checkpoint."""
    start = found.record(0)
    if not isinstance(start, Start):
        raise ResumeRefused(f"{found.path} does not begin with a start record")
    _check_meaning(town, start, journal)
    town.run_id = start.run_id
    last = found.last("checkpoint")
    terms, state = declared(start)
    past: Mapping[str, Any] | None = None
    first = 1
    if last is not None:
        held = found.record(last)
        assert isinstance(held, Checkpoint)
        state, past, first = state_at(held), held.past, last + 1
    tail = list(found.records(first))
    left: Sequence[Any] = ()
    for step in rounds(tail, terms, state):
        if isinstance(step, Round):
            state = step.closed.after
            past = town.remembered_of(step.barrier, step.closed, past)
        else:
            left = step
    end = tail[-1] if tail and isinstance(tail[-1], End) else None
    if past is not None and failure_was_passed(tail):
        past = {**past, "failed": None}
    begun = last is not None or any(isinstance(record, Opening) for record in tail)
    forks = [found.record(index) for index, kind in enumerate(found.kinds) if kind == "forked"]
    town.continue_from(state, past, left, end, begun=begun, changes=forked_events(forks))


def _check_meaning(town: AsyncSociety, start: Start, journal: Journal) -> None:
    """Refuse a changed meaning, unless it is forced; record forced and harmless changes alike (J7)."""
    now = town.start_record()
    changed = differences(start, now)
    if changed and not town.forced:
        told = "; ".join(changed[:8]) + (f" (+{len(changed) - 8} more)" if len(changed) > 8 else "")
        raise ResumeRefused(
            f"the scenario's meaning has changed: {told}. Restore it, fork the run, or force the resume, which is recorded."
        )
    code = [f"code {name} has changed" for name, digest in now.code.items() if start.code.get(name, digest) != digest]
    if changed or (code and code != town.known_changes):
        journal.put(Override(differences=[*changed, *code], forced=bool(changed)))
    town.known_changes = code
