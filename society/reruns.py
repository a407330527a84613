"""What is done with a run that has a journal: go on with it, run it again and compare, send it another way.

Knows: the order of steps of `resume`, `replay` and `fork`, and how standing questions are listed and answered.
Does not know: command lines, or how records are told apart (retelling.py, replaying.py).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
from trio.testing import MockClock

from society.codec import ORIGIN, encode, sum_of
from society.errors import JournalDamaged, JournalError, ReplayDivergence, ResumeRefused, ScenarioError, suggestion
from society.file_store import FileStore
from society.memory_store import MemoryStore
from society.records import Answer, Approval, Barrier, Cut, End, Forked, Intent, Opening, Start, order
from society.replaying import Replaying, recorded_rounds, short
from society.retelling import failure_was_passed, retold
from society.run_result import RunResult
from society.societies import AsyncSociety
from society.trace import Trace
from society.values import Value, freeze

Make = Callable[..., AsyncSociety]
"""Builds the society that a journal belongs to, given `store=` and `forced=`."""

COMPARED = ("conflict", "failed", "satisfied", "quiet", "finished")
"""Endings that are computed from the rounds; the others came from outside."""


async def resume(
    store: Any, make: Make | None = None, *, max_ticks: int | None = None, force: bool = False, cut: bool = False
) -> RunResult:
    """Go on with a run after a crash, a signal, or an answer.

    Args:
        store: The run's store, or the path of its folder.
        make: Builds its society; where None, the scenario in the run's folder does.
        max_ticks: Rounds in all; where None, the scenario's.
        force: Go on although the scenario's meaning has changed. The journal says so.
        cut: Set a damaged last batch aside first, and take its actions as in doubt.

    Raises:
        ResumeRefused, RunLocked, JournalDamaged: Nothing on disk was changed.
    """
    store = opened_at(store)
    if cut:
        await _cut(store)
    make, rounds = _maker(store, make)
    return await make(store=store, forced=force).run(rounds if max_ticks is None else max_ticks)


@attrs.frozen
class Replayed:
    """A replay that agreed with its journal."""

    rounds: int
    trace: Trace
    outcome: str
    ends_open: bool
    """The journal ends inside a round, which was not replayed: a crash, not a difference."""


def replay(store: Any, make: Make | None = None) -> Replayed:
    """Run the behaviors again with all answers from the journal: no network, a clock that jumps, no effects (J8).

    Called without an event loop around it; it runs one of its own.

    Raises:
        ReplayDivergence: The first difference: round, agent, crossing, what was recorded and what was asked.
    """
    store = opened_at(store)
    records = list(store.read().records())
    if not records:
        raise ResumeRefused(f"{store.path} is empty: there is nothing to replay")
    make, _ = _maker(store, make)
    town = make(store=None, forced=True)
    found, left = recorded_rounds(records)
    start = records[0]
    assert isinstance(start, Start)
    town.replay(start.run_id, Replaying(found, failure_was_passed(records[:-1])), records)
    result = trio.run(town.run, len(found), clock=MockClock(autojump_threshold=0))
    recorded = retold(records)
    end = recorded.end
    if end is not None and end.outcome in COMPARED and (result.outcome, result.reason) != (end.outcome, end.reason):
        raise ReplayDivergence(
            result.rounds, "the run", "end", f"{end.outcome}: {end.reason}", f"{result.outcome}: {result.reason}"
        )
    trace = Trace(recorded.data)
    mine = town.trace
    if mine.digest != trace.digest:
        first = next(iter(trace.diff(mine)), None)
        raise ReplayDivergence(result.rounds, "the trace", "digest", trace.digest, f"{mine.digest} ({short(first)})")
    return Replayed(result.rounds, trace, end.outcome if end is not None else "", bool(left))


def fork(store: Any, at: int, *, set: Mapping[str, Any] | None = None, into: Any = None) -> Any:
    """Return the store of a new run that has everything up to round `at` from an old one, and goes on from there.

    Args:
        at: The last round that both runs have; 0 starts over.
        set: SHARED values to change there, by key (`status` or `shared.status`). The trace shows them as an event.
        into: An empty store, or the path of a folder; in memory where None.

    Raises:
        ScenarioError: There is no such round, or a key is not declared.
    """
    source = opened_at(store)
    records = list(source.read().records())
    if not records:
        raise ResumeRefused(f"{source.path} is empty: there is nothing to fork")
    start = records[0]
    assert isinstance(start, Start)
    closed = [record.round for record in records if isinstance(record, Barrier) and record.conflict is None]
    last = closed[-1] if closed else 0
    if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= last:
        raise ScenarioError(f"fork: at = {at!r} is not a round of that run; it has 0 to {last}.")
    changes = _changes(start, set or {})
    copied: list[Any] = [attrs_of(start, run_id=uuid.uuid4().hex)]
    for record in records[1:]:
        if isinstance(record, Barrier) and record.round > at:
            break
        if not isinstance(record, End) and not (
            getattr(record, "at", None) is not None and getattr(record, "round", 0) > at
        ):
            copied.append(record)
        if isinstance(record, Barrier) and record.round == at:
            break
        if at == 0 and isinstance(record, Opening):
            break
    copied.append(Forked(of=start.run_id, at=at, set=changes))
    return _written(b"".join(_lines(copied)), into)


@attrs.frozen
class Standing:
    """A question that waits for a person."""

    id: str
    agent: str
    round: int
    tool: str | None
    """The tool to approve; None where a question in words was asked."""
    arguments: Value
    """The exact arguments, or the question."""
    rule: str
    record: Approval | Answer


def standing(store: Any) -> list[Standing]:
    """Return what waits for a person's answer in a run, by declared agent, then in the order of asking. Changes nothing."""
    every = list(opened_at(store).read().records())
    records = recorded_rounds(every)[1]
    places = {name: place for place, name in enumerate(every[0].agents)} if every else {}
    found: dict[tuple[str, int, str], Standing] = {}
    for record in records:
        key = (getattr(record, "agent", ""), getattr(record, "tick", 0), getattr(record, "at", ""))
        if isinstance(record, Approval):
            if record.answer is None and not record.no_answer:
                found[key] = Standing(
                    record.id, record.agent, record.round, record.tool, record.arguments, record.rule, record
                )
            else:
                found.pop(key, None)
        elif isinstance(record, Answer):
            if record.standing:
                name = f"{record.agent}-{record.round}-{record.at}"
                found[key] = Standing(name, record.agent, record.round, None, record.question, "", record)
            else:
                found.pop(key, None)
    # Arrival order means nothing. Those who were born stand behind those who were declared.
    return sorted(found.values(), key=lambda one: (places.get(one.agent, len(places)), one.agent, order(one.record.at)))


async def answer(store: Any, id: str, said: Any) -> Standing:
    """Answer a standing question: True or False for an action, a value for a question in words. `resume` then goes on.

    Raises:
        ScenarioError: Nothing of that id waits; an id may be shortened as long as it is the only one.
        RunLocked: The run is under way.
    """
    store = opened_at(store)
    waiting = standing(store)
    matching = [question for question in waiting if question.id.startswith(id)] if id else []
    if len(matching) != 1:
        known = ", ".join(question.id[:12] for question in waiting) or "nothing"
        raise ScenarioError(
            f"{id!r} is {'more than one' if matching else 'none'} of what waits for an answer: {known}."
        )
    question = matching[0]
    record: Any
    if isinstance(question.record, Approval):
        record = attrs_of(question.record, answer=said is True)
    else:
        record = attrs_of(question.record, standing=False, no_answer=False, answer=freeze(said, "answer"))
    async with store.opened() as (journal, _):
        journal.put(record)
        await journal.durable()
    return question


def opened_at(store: Any) -> Any:
    """Return a store; a path is that of a run's folder."""
    if isinstance(store, str | os.PathLike):
        folder = Path(store)
        if not (folder / "journal.jsonl").exists():
            raise ResumeRefused(f"{folder} holds no run: there is no journal.jsonl in it")
        return FileStore(folder)
    return store


async def _cut(store: Any) -> None:
    if not isinstance(store, FileStore):
        raise ResumeRefused("only a run in a folder has a damaged end that can be set aside")
    try:
        await trio.to_thread.run_sync(store.read)
    except JournalDamaged as damage:
        aside = await trio.to_thread.run_sync(store.set_aside, damage.offset)
        async with store.opened() as (journal, _):
            journal.put(Cut(offset=aside.offset, why=aside.why))
            for record in aside.records:
                if isinstance(record, Intent):  # whatever became of it is not known any more
                    journal.put(record)
            await journal.durable()


def _maker(store: Any, make: Make | None) -> tuple[Make, int]:
    if make is not None:
        return make, 0
    if not isinstance(store, FileStore):
        raise ResumeRefused("this store holds no scenario; give `make`, a function that builds the society")
    from society.load import load_scenario

    scenario = load_scenario(store.folder / "scenario.toml")
    return _of_scenario(scenario), scenario.max_ticks


def _of_scenario(scenario: Any) -> Make:
    def make(*, store: Any, forced: bool) -> AsyncSociety:
        town: AsyncSociety = scenario.society(store=store)
        town.forced = forced
        return town

    return make


def _changes(start: Start, wanted: Mapping[str, Any]) -> dict[str, Value]:
    declared = start.declared["shared"]
    changes: dict[str, Value] = {}
    for key, value in wanted.items():
        name = key.removeprefix("shared.")
        if name not in declared:
            raise ScenarioError(f"fork: shared.{name} is not declared.{suggestion(name, declared)}")
        changes[name] = freeze(value, f"shared.{name}")
    return changes


def attrs_of(record: Any, **changes: Any) -> Any:
    """Return the record with some fields changed."""
    return msgspec.structs.replace(record, **changes)


def _lines(records: list[Any]) -> list[bytes]:
    lines, before = [], ORIGIN
    for place, record in enumerate(records):
        line = encode(record, before, begins_batch=place == 0)
        before = sum_of(line)
        lines.append(line)
    return lines


def _written(data: bytes, into: Any) -> Any:
    if into is None:
        return MemoryStore(data)
    store = FileStore(into) if isinstance(into, str | os.PathLike) else into

    async def copy() -> None:
        async with store.opened() as (journal, found):
            if len(found):
                raise ResumeRefused(f"{store.path} holds a run already; fork into an empty store")
            for line in MemoryStore(data).read().lines():
                journal.put_line(line)
            await journal.durable()

    trio.run(copy)
    return store


__all__ = ["JournalError", "answer", "fork", "replay", "resume", "standing"]
