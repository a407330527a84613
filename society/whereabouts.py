"""Where a run stands, told from its journal alone: what it was doing, what waits for a person, and how to go on.

Reading never needs the lock, so it is told of a live run, too: then of the moment at which the file was read.

Knows: the records of the open round.
Does not know: the rounds before it, or how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from society.codec import Scan, scan
from society.lines import Line, Part, bounded, counted, shown
from society.onward import onward
from society.records import Answer, Approval, Barrier, Crossing, End, Intent, Result
from society.reruns import Standing, standing
from society.run_lock import alive
from society.trace import Trace


@attrs.frozen(kw_only=True)
class Whereabouts:
    rounds: int
    """Rounds that are whole."""
    crossings: int
    """Those of the open round that are recorded."""
    in_flight: tuple[Intent, ...]
    """Effects that began and have no result: on resume they are settled, or in doubt."""
    waiting: tuple[Standing, ...]
    """What waits for a person."""
    end: End | None
    """How the run ended, if that is the last that is written."""
    torn: str | None
    """What is left of a last record that a crash cut short."""
    owner: int | None
    """The process that has the run in its hands."""

    @property
    def is_over(self) -> bool:
        return self.end is not None and onward(self.end.outcome, Path(), 0) is None


def is_journal(path: Path) -> bool:
    """Tell whether a file is a journal and no trace, by how it begins; also when little of it was written."""
    with path.open("rb") as file:
        beginning = file.read(8)
    return path.name == "journal.jsonl" or beginning == b'{"size":'


def scanned(path: Path) -> Scan:
    """Return the journal in a file.

    Raises:
        JournalDamaged: The chain does not hold.
        OSError: It cannot be read.
    """
    return scan(path.read_bytes(), str(path))


def trace_of(found: Scan) -> Trace:
    """Return the trace of the run whose journal was read, as far as it goes.

    Raises:
        ResumeRefused: There is not even a first record.
    """
    from society.errors import ResumeRefused
    from society.retelling import retold

    if not len(found):
        raise ResumeRefused(f"{found.path} holds no whole record yet: there is nothing to tell")
    return Trace(retold(list(found.records())).data)


def whereabouts(found: Scan) -> Whereabouts:
    """Return where the run stands whose journal was read."""
    last = found.last("barrier")
    barrier = found.record(last) if last is not None else None
    assert barrier is None or isinstance(barrier, Barrier)
    records = list(found.records(last + 1 if last is not None else 0))
    end = records[-1] if records and isinstance(records[-1], End) else None
    return Whereabouts(
        # A round that could not be merged is told, and never was.
        rounds=0 if barrier is None else barrier.round - (barrier.conflict is not None),
        crossings=len({(one.agent, one.tick, one.at) for one in records if isinstance(one, Crossing)}),
        in_flight=tuple(_in_flight(records)),
        waiting=tuple(standing(_Read(found))) if any(isinstance(one, Approval | Answer) for one in records) else (),
        end=end,
        torn=str(found.torn) if found.torn is not None else None,
        owner=_owner(Path(found.path).parent),
    )


def told(where: Whereabouts, folder: Path, bound: int | None) -> Iterator[Line]:
    """Yield where a run stands as lines, the way on last."""
    end, rounds = where.end, counted(where.rounds, "round")
    if where.torn:
        yield (Part(f"{where.torn}; it counts for nothing", "quiet"),)
    if end is not None:
        reason = f": {shown(end.reason)}" if end.reason else ""
        yield (Part(f"{end.outcome} after {rounds}{reason}", "title"),)
    elif where.owner is not None:
        yield (Part(f"under way in process {where.owner}, after {rounds}", "title"),)
    else:
        yield (Part(f"after {rounds} the journal just ends: the run was killed", "title"),)
    if not where.is_over:
        yield from _open_round(where, bound)
    way = None if where.owner is not None else onward(end.outcome if end else None, folder, where.rounds)
    if way:
        yield (Part("go on with: ", "quiet"), Part(way, "good"))


def _open_round(where: Whereabouts, bound: int | None) -> Iterator[Line]:
    if where.crossings:
        yield (Part(f"round {where.rounds + 1} is open, with {_crossings(where.crossings)} recorded"),)
    for intent in where.in_flight:
        yield (
            Part("  in flight: "),
            Part(shown(intent.agent), "agent"),
            Part(" "),
            Part(shown(intent.tool), "name"),
            Part(f" {bounded(intent.arguments, bound)}", "value"),
            Part(f"  attempt {intent.attempt}" if intent.attempt > 1 else "", "quiet"),
            Part(f"  {intent.id[:12]}", "kind"),
        )
    for one in where.waiting:
        wants = " waits for approval of " if one.tool is not None else " waits for an answer to "
        yield (
            Part("  "),
            Part(shown(one.agent), "agent"),
            Part(wants),
            Part(f"{shown(one.tool)} " if one.tool is not None else "", "name"),
            Part(bounded(one.arguments, bound), "value"),
            Part(f"  {shown(one.id[:12] if one.tool is not None else one.id)}", "kind"),
        )


def _crossings(number: int) -> str:
    return counted(number, "crossing")


def _in_flight(records: Sequence[Any]) -> Iterator[Intent]:
    """Yield the last attempt of each effect that has no result."""
    begun: dict[tuple[str, int, str], Intent] = {}
    for record in records:
        if isinstance(record, Intent):
            begun[record.agent, record.tick, record.at] = record
        elif isinstance(record, Result):
            begun.pop((record.agent, record.tick, record.at), None)
    yield from begun.values()


def _owner(folder: Path) -> int | None:
    """Return the process that says it owns the run. To take the lock in order to know would keep others from it."""
    try:
        number = int((folder / "journal.lock").read_bytes())
    except (OSError, ValueError):
        return None
    return number if alive(number) else None


@attrs.frozen
class _Read:
    """A journal that was read, where a store is expected."""

    found: Scan

    def read(self) -> Scan:
        return self.found
