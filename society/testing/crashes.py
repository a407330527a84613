"""Crashes everywhere: a society is killed at each write of its journal, resumed, and compared with the run nobody killed.

    def test_the_market_survives(crash_everywhere):
        crash_everywhere(lambda store: AsyncSociety(traders(), hosts=market(), store=store), max_ticks=5)

It holds J5. The resumed run tells the same trace, except for what doubt itself changed: an idempotent tool that was called
again says so, and behind an action that is really in doubt the run may go another way. No effect happens twice unless its
tool is declared idempotent, and each whose result stands in the journal happened exactly once.

Knows: where to crash, and what a crash may change.
Does not know: how a run goes on from its journal.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, get_args

import attrs
import trio
from trio.testing import MockClock

from society.host import Tool, is_async
from society.memory_store import MemoryStore
from society.permit import current_action
from society.records import Result
from society.reruns import Standing, answer, replay, standing
from society.retelling import retold
from society.run_result import RunResult
from society.societies import AsyncSociety
from society.store import Store
from society.testing.failing_store import Crash, FailingStore
from society.trace import Trace

Point = Literal["before", "inside", "after"]
POINTS: Final[tuple[Point, ...]] = get_args(Point)

Make = Callable[[Any], AsyncSociety]
"""Builds the society, the same each time, with the store it is given."""
Answers = Callable[[Standing], Any]
"""What the person says to a question that waits."""
Run = Callable[[Callable[[], Awaitable[Any]], int], Any]
"""`run(function, number)` runs an async function; `number` is another one each time, to choose a schedule by."""


@attrs.frozen
class Crashes:
    """What was tried. If something had been wrong, it would have been raised."""

    writes: int
    """Writes of the run that nobody killed."""
    crashes: int
    """Crashes in all, those of resumed runs included."""
    changed: int
    """Runs that went another way, behind an action in doubt."""


class CrashChangedRun(AssertionError):
    """A run that was killed and resumed is not what it would have been."""


def on_a_jumping_clock(function: Callable[[], Awaitable[Any]], number: int) -> Any:
    return trio.run(function, clock=MockClock(autojump_threshold=0))


def always_yes(question: Standing) -> bool:
    return True


def crash_everywhere(
    make: Make,
    max_ticks: int,
    *,
    most: int = 60,
    seed: int = 0,
    answers: Answers = always_yes,
    run: Run = on_a_jumping_clock,
) -> Crashes:
    """Crash a society before, inside and after each write, resume it, crash some of the resumed ones again, and compare.

    Args:
        make: Called with a store, once per process that is imagined. What it builds must not depend on earlier calls.
        max_ticks: Rounds of a run.
        most: Crash points to try; where there are more, that many are drawn.
        seed: Of what is drawn.
        answers: Says what a person answers where the run waits for one.
        run: Runs an async function, by default on a clock that jumps. That clock does not wait for worker threads: plain
            tools and sensors want `thread=False`, reconcilers and people `async def`.

    Raises:
        CrashChangedRun: With the crash point, and the first difference.
    """
    whole = _Life(make, max_ticks, answers, run, random.Random(f"{seed} whole"))
    counting = FailingStore(2**31, store=MemoryStore())
    told = whole.lived(counting)
    records = list(counting.read().records())
    crashes = changed = 0
    for point, n in _points(counting.writes, most, seed):
        life = _Life(make, max_ticks, answers, run, random.Random(f"{seed} {point} {n}"))
        store = MemoryStore()
        try:
            result = life.lived(FailingStore(n, store=store, point=point, part=life.random.random()), again=told.writes)
            changed += _checked(told, records, result, store, life, make)
        except CrashChangedRun as difference:
            raise CrashChangedRun(f"crashed {point} write {n} of {counting.writes}: {difference}") from difference
        crashes += life.crashes
    return Crashes(counting.writes, crashes, changed)


def _points(writes: int, most: int, seed: int) -> Sequence[tuple[Point, int]]:
    all_points = [(point, n) for n in range(1, writes + 1) for point in POINTS]
    if len(all_points) <= most:
        return all_points
    return random.Random(f"{seed} points").sample(all_points, most)


@attrs.frozen
class _Told:
    """A run at its end, whatever number of processes it took."""

    trace: Trace
    outcome: str
    shared: dict[str, Any]
    writes: int


@attrs.define
class _Life:
    """One run from its first process to its last."""

    make: Make
    max_ticks: int
    answers: Answers
    run: Run
    random: random.Random
    crashes: int = 0
    effects: Counter[str] = attrs.field(factory=Counter)
    """By id, how often an action was called: the ledger outside the run."""
    tools: dict[str, Tool] = attrs.field(factory=dict)
    """By id of the action."""

    def lived(self, store: FailingStore, *, again: int = 0) -> _Told:
        """Run, resume after each crash, and return what it came to. With `again`, resumed runs may crash, too."""
        disk = store.survivor()
        while True:
            try:
                result = self.run(partial(self._process, store), self.random.randrange(2**16))
            except Crash:
                self.crashes += 1
                if (over := _failure(disk)) is not None:
                    return over
                # A resumed run writes less, so that most of these numbers are never reached in the end.
                n = self.random.randint(1, again) if again and self.crashes < 4 else 2**31
                store = FailingStore(n, store=disk, point=self.random.choice(POINTS), part=self.random.random())
            else:
                assert result.trace is not None, "a society without a trace cannot be compared; leave keep_trace on"
                return _Told(result.trace, result.outcome, dict(result.shared), store.writes)

    async def _process(self, store: FailingStore) -> RunResult:
        while True:
            town = self.make(store)
            self._watch(town)
            result = await town.run(self.max_ticks)
            if result.outcome != "waiting":
                return result
            for question in standing(store):
                await answer(store, question.id, self.answers(question))

    def _watch(self, town: AsyncSociety) -> None:
        """Count the effects that a society has, from outside of its journal."""
        for desk in town.members.desks.values():
            for name, (host, tool) in desk.tools.items():
                desk.tools[name] = _Watched(host, self._happens), tool
            for name, (host, subagent) in desk.subagents.items():
                if not subagent.with_tick:
                    desk.subagents[name] = host, attrs.evolve(subagent, function=self._watched(subagent.function))

    def _happens(self, action: str, tool: Tool) -> None:
        self.effects[action] += 1
        self.tools[action] = tool

    def _watched(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        tool = Tool(name="", function=function)

        def plain(payload: Any) -> Any:
            self._happens(current_action().id, tool)
            return function(payload)

        async def awaited(payload: Any) -> Any:
            return await plain(payload)

        return awaited if is_async(function) else plain


def _failure(disk: Store) -> _Told | None:
    """Return the run whose last record says that it failed: it is over, and whoever resumes it wants to go on behind it."""
    records = list(disk.read().records())
    if not records:
        return None
    told = retold(records)
    if told.end is None or told.end.outcome != "failed":
        return None
    return _Told(Trace(told.data), told.end.outcome, {key: told.state.shared[key] for key in told.state.keys}, 0)


@attrs.frozen
class _Watched:
    """A host, and a ledger of what it was asked to do."""

    host: Any
    happens: Callable[[str, Tool], None]

    async def invoke(self, tool: str, arguments: Any, permit: Any = None) -> Any:
        self.happens(permit.action.id, self.host.tools[tool])
        return await self.host.invoke(tool, arguments, permit)


# ── what a crash may change ─────────────────────────────────────────────────────────────────────────────────────────────


def _checked(told: _Told, whole: list[Any], again: _Told, store: MemoryStore, life: _Life, make: Make) -> bool:
    """Compare a run that crashed with the one that did not; return whether doubt changed it."""
    records = list(store.read().records())
    _check_effects(records, life)
    changed = changed_by_doubt(told.trace, whole, again.trace, records)
    if not changed and (again.outcome, again.shared) != (told.outcome, told.shared):
        raise CrashChangedRun(f"the trace is the same, the result is not: {again.shared}, not {told.shared}")

    def remade(*, store: Any, forced: bool) -> AsyncSociety:
        town = make(store)
        town.forced = forced
        return town

    if replay(store, remade).trace.data != again.trace.data:
        raise CrashChangedRun("its replay tells another trace")
    return changed


def _check_effects(records: list[Any], life: _Life) -> None:
    for action, times in life.effects.items():
        if times > 1 and not life.tools[action].idempotent:
            raise CrashChangedRun(f"the action {action} of {life.tools[action].name!r} happened {times} times")
    for record in records:
        if isinstance(record, Result) and record.ending in ("done", "failed") and record.settled is None:
            times = life.effects[record.id]
            if times != 1 and not life.tools[record.id].idempotent:
                raise CrashChangedRun(f"the action {record.id} has a result and happened {times} times")


def _doubted(whole: list[Any], records: list[Any]) -> set[tuple[int, str]]:
    """Return (round, agent) of the actions that the crashes left in doubt: in the whole run they ended otherwise."""
    before = {(record.id, record.ending): record for record in whole if isinstance(record, Result)}
    return {
        (record.round, record.agent)
        for record in records
        if isinstance(record, Result)
        and record.ending == "in_doubt"
        and before.get((record.id, record.ending)) != record
    }


def changed_by_doubt(whole: Trace, whole_records: list[Any], again: Trace, records: list[Any]) -> bool:
    """Hold two traces of a run to each other up to the first tick with a doubt; return whether they part there.

    Not up to the doubt itself: a tick that fails of it takes back what it said before.

    Args:
        whole, whole_records: The run that nobody killed, and its journal.
        again, records: The run that was killed and resumed.

    Raises:
        CrashChangedRun: They part elsewhere.
    """
    doubted = _doubted(whole_records, records)
    one, other = list(_normal(whole)), list(_normal(again))
    if one == other:
        return False
    parts = next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    for place in range(min(parts + 1, len(other))):
        if (other[place]["round"], other[place]["agent"]) in doubted:
            return True
    was = one[parts] if parts < len(one) else "nothing"
    now = other[parts] if parts < len(other) else "nothing"
    raise CrashChangedRun(f"event {parts + 1} was {was}, and is {now}; nothing before it is in doubt")


def _normal(trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield a trace's events without what settling a doubt leaves in one: how often an idempotent tool was called."""
    for event in trace.events:
        fields = event.fields
        if event.kind == "action" and fields.get("settled") is not None and fields["ending"] in ("done", "failed"):
            fields = {key: value for key, value in fields.items() if key not in ("attempts", "settled")}
        elif event.kind == "end":
            fields = {key: value for key, value in fields.items() if key != "sha256"}
        yield fields
