"""Records told again: a journal's records become the bytes of the run's trace, without code, clock or network (J9).

Knows: the order of steps in a journal, and how a round is folded and told.
Does not know: files. A live run tells its rounds by the same `story`, from the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from society import story
from society.barrier import Closed, fold
from society.declare import declared
from society.records import Barrier, Crossing, End, Forked, Late, Opening, Start
from society.state import State, Terms


@attrs.define
class Round:
    """One recorded round, folded."""

    before: State
    barrier: Barrier
    crossings: dict[tuple[str, int], list[Crossing]]
    late: list[Late]
    closed: Closed


def rounds(records: Iterable[Any], terms: Terms, state: State) -> Iterator[Round | list[Any]]:
    """Yield each recorded round, folded onto `state`; last, the records of the round that is still open.

    Args:
        records: What follows the record that `state` belongs to.
    """
    open_records: list[Any] = []
    for record in records:
        if isinstance(record, Crossing | Late):
            open_records.append(record)
        elif isinstance(record, Barrier):
            crossings = by_tick(open_records)
            late = [found for found in open_records if isinstance(found, Late)]
            closed = fold(state, terms, record, crossings)
            yield Round(state, record, crossings, late, closed)
            state, open_records = closed.after, []
    yield open_records


def failure_was_passed(records: Iterable[Any]) -> bool:
    """Tell whether the run ended as failed after the last recorded round: whoever resumes it then goes on behind it."""
    passed = False
    for record in records:
        if isinstance(record, Barrier):
            passed = False
        elif isinstance(record, End):
            passed = passed or record.outcome == "failed"
    return passed


def by_tick(records: Iterable[Any]) -> dict[tuple[str, int], list[Crossing]]:
    """Return the crossing records among `records`, by tick."""
    crossings: dict[tuple[str, int], list[Crossing]] = {}
    for record in records:
        if isinstance(record, Crossing):
            crossings.setdefault((record.agent, record.tick), []).append(record)
    return crossings


@attrs.frozen
class Retold:
    """A run told again from its records."""

    data: bytes
    """The trace; with its last line if the last record is an end."""
    open: tuple[Any, ...]
    """Records of the round that is still open."""
    state: State
    end: End | None


def retold(records: Sequence[Any]) -> Retold:
    """Return the trace of the run whose journal holds `records`, from its first on."""
    start = records[0]
    assert isinstance(start, Start)
    terms, state = declared(start)
    chunks, events = [story.header(start)], 0
    for record in records:
        if isinstance(record, Opening):
            told = story.opening(record)
            events += len(told)
            chunks.append(story.encoded(told))
            break
    left: list[Any] = []
    for step in rounds(records, terms, state):
        if isinstance(step, Round):
            lines = list(story.tell(step.before, step.barrier, step.crossings, step.closed))
            events += len(lines)
            chunks.append(story.encoded(lines))
            state = step.closed.after
        else:
            left = step
    data = b"".join(chunks)
    end = records[-1] if isinstance(records[-1], End) else None
    if end is not None:
        data += story.end(end, state.round, None, events, hashlib.sha256(data).hexdigest())
    return Retold(data, tuple(left), state, end)


def forked_events(records: Iterable[Any]) -> dict[int, list[Any]]:
    """Return what forks changed, as events of the rounds that follow them."""
    events: dict[int, list[Any]] = {}
    for record in records:
        if isinstance(record, Forked) and record.set:
            events.setdefault(record.at + 1, []).append({"set": record.set})
    return events
