"""One round: every agent's tick, all at once or one after another, and how each tick ended.

    snapshot ─▶ ticks ─▶ contributions in order of activation

Knows: tasks, the round's deadline, and which errors belong to a tick.
Does not know: how contributions are merged, or what a journal is.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import trio

from society.collector import paused
from society.entry import Entry, short, where_never_awaited
from society.errors import described, is_closing, leaves
from society.messages import Message, Receipt
from society.records import Contribution, Crossing, order
from society.replaying import AGES, Replaying
from society.snapshot import Member, Snapshot
from society.tick import Tick
from society.values import freeze

PATIENCE: Final = 256
"""Plain ticks between two looks at the clock and at cancellation."""

Look: TypeAlias = tuple[Sequence[Message], Sequence[Receipt]]
"""What a tick finds when it begins: its inbox and its receipts."""

Begun: TypeAlias = tuple[Tick, Any]
"""A tick whose plain behavior returned something to await, and that."""

_current_task: Final = trio.lowlevel.current_task
_HERE: Final = str(Path(__file__).parent)


@attrs.define(eq=False)
class RoundUnderWay:
    """The ticks of one round while they run."""

    snapshot: Snapshot
    timeout: float | None
    script: dict[tuple[str, int], dict[str, list[Any]]]
    """What an earlier process, or an earlier call, recorded of this round: by tick, then by ordinal."""
    broken: Callable[[], bool]
    """Whether the run itself is coming to an end, so that no tick may be concluded."""
    ended: Callable[[], None]
    """Called when a tick has ended."""
    members: list[Member] = attrs.field(factory=list)
    """Who ticks, in order of activation; the lists below go by the same places."""
    numbers: list[int] = attrs.field(factory=list)
    """Which tick of its agent in this round it is, from 1."""
    looks: list[Look] = attrs.field(factory=list)
    endings: list[Contribution | None] = attrs.field(factory=list)
    """How each tick ended; None while it has not."""
    given: Mapping[tuple[str, int], Contribution] = attrs.field(factory=dict)
    """Ticks that are not run again: in replay, those that were late."""
    done: int = 0
    crossings: dict[tuple[str, int], list[Crossing]] = attrs.field(factory=dict)
    active: dict[Tick, None] = attrs.field(factory=dict)
    """Ticks with a task of their own that have not ended."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    parked: bool = False
    """Somebody waits for a person's answer that comes in another process."""

    # ── both ways ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def at_once(self, members: Sequence[Member]) -> list[Contribution]:
        """Let all agents tick at the same time, on one snapshot; the nursery's end is the barrier (R2)."""
        self.members = list(members)
        self.numbers = [1] * len(members)
        self.endings = [None] * len(members)
        with paused():
            self.looks = self.snapshot.going.take_all([member.agent.name for member in members])
        if self.given:
            self._take_given(range(len(members)))
        plain = [place for place, member in enumerate(members) if member.plain and self.endings[place] is None]
        live = self.live
        with self._deadline():
            if len(plain) == len(members):
                await self._plain_ones(plain, None)
            else:
                async with trio.open_nursery() as nursery:
                    with paused():
                        for place, member in enumerate(members):
                            if not member.plain and self.endings[place] is None:
                                nursery.start_soon(live, place, name=member.agent.name)
                        # Two batches of the scheduler: every task has had its first step, which for many is the last.
                        await trio.lowlevel.checkpoint()
                        await trio.lowlevel.checkpoint()
                    await self._plain_ones(plain, nursery)
                    if self.parked:
                        self.ended()
        self.snapshot.gate.parted(self.endings)
        return [ending or self._not_begun(place) for place, ending in enumerate(self.endings)]

    async def in_turn(self, members: Sequence[Member]) -> list[Contribution]:
        """Let agents tick one after another; what each contributes counts before the next one looks (Q2)."""
        self.members = list(members)
        going, turns = self.snapshot.going, dict[str, int]()
        with self._deadline():
            for place, member in enumerate(members):
                if place % PATIENCE == 0 or not member.plain or self.timeout is not None:
                    await trio.lowlevel.checkpoint()
                self._next(place, turns)
                if self.given:
                    self._take_given([place])
                try:
                    if self.endings[place] is not None:
                        continue
                    begun = self._plain(place) if member.plain else None
                    if begun is not None or not member.plain:
                        await self.live(place, begun)
                finally:  # the deadline cancels this tick, which counts as late; those behind it do not begin
                    ending = self.endings[place]
                    if ending is not None:
                        going.add(ending)
                self.snapshot.gate.parted(self.endings)
                if going.broken is not None or self.broken():
                    return [ending for ending in self.endings if ending is not None]
        for place in range(len(self.endings), len(members)):
            self._next(place, turns)
            going.add(self._not_begun(place))
        return [ending or self._not_begun(place) for place, ending in enumerate(self.endings)]

    @property
    def replaying(self) -> Replaying | None:
        return self.snapshot.gate.replaying

    @property
    def live(self) -> Callable[..., Awaitable[None]]:
        return self._live if self.replaying is None else self._live_again

    def _next(self, place: int, turns: dict[str, int]) -> None:
        name = self.members[place].agent.name
        turns[name] = turns.get(name, 0) + 1
        self.numbers.append(turns[name])
        self.looks.append(self.snapshot.going.take(name))
        self.endings.append(None)

    def _take_given(self, places: Iterable[int]) -> None:
        for place in places:
            key = self.members[place].agent.name, self.numbers[place]
            if key in self.given:
                self.endings[place] = self.given[key]
                records = [record for found in self.script.pop(key, {}).values() for record in found]
                if records:
                    self.crossings[key] = sorted(records, key=lambda record: order(record.at))

    def _not_begun(self, place: int) -> Contribution:
        """Return the ending of a tick that the round's deadline left no time to begin."""
        return Contribution(self.members[place].agent.name, self.numbers[place], "late", waiting_for="its turn")

    def _deadline(self) -> trio.CancelScope:
        if self.timeout is not None:
            self.scope.deadline = trio.current_time() + self.timeout
        elif self.replaying is not None:
            self.scope.deadline = (
                trio.current_time() + 2 * AGES
            )  # whoever then still waits waits for what will not come
        return self.scope

    def waits_for_people(self) -> bool:
        """Tell whether all who are not done with their tick wait for a person's answer that comes in another process."""
        if not self.parked or not self.active or self.done + len(self.active) < len(self.endings):
            return False
        if self.timeout is not None and self.scope.cancel_called:
            return False  # the round's time is up: they are late, whoever of them was cancelled first (R12)
        return all(map(_waits_for_person, self.active))

    # ── one tick ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _plain_ones(self, places: Sequence[int], nursery: trio.Nursery | None) -> None:
        """Call plain behaviors where they stand: a task would cost more than most of them do."""
        timed = self.timeout is not None
        await trio.lowlevel.checkpoint()
        with paused():
            for done, place in enumerate(places):
                if done % PATIENCE == PATIENCE - 1 or timed:
                    await trio.lowlevel.checkpoint()
                begun = self._plain(place)
                if begun is None:
                    continue
                if nursery is None:
                    break
                nursery.start_soon(self.live, place, begun, name=self.members[place].agent.name)
            else:
                return
        async with trio.open_nursery() as rest:  # a plain function returned an awaitable
            rest.start_soon(self.live, place, begun, name=self.members[place].agent.name)
            await self._plain_ones(places[done + 1 :], rest)

    async def _live_again(self, place: int, begun: Begun | None = None) -> None:
        """Run a behavior in a replay, where a tick that parts from what was recorded is ended by itself."""
        assert self.replaying is not None
        with trio.CancelScope() as scope:
            self.replaying.ends[self.members[place].agent.name, self.numbers[place]] = scope.cancel
            await self._live(place, begun)

    def _begun(self, place: int) -> Tick:
        member, number = self.members[place], self.numbers[place]
        inbox, receipts = self.looks[place]
        tick = Tick(self.snapshot, member, number, inbox, receipts)
        if self.script:
            tick.script = self.script.pop((member.agent.name, number), None)
        tick._task = _current_task()
        tick.place = place
        return tick

    def _plain(self, place: int) -> Begun | None:
        """Run a plain behavior; return what there is to await, if it gave something."""
        tick = self._begun(place)
        tick._plain = True
        try:
            result = tick._member.agent.behavior(tick)
            if result is not None and hasattr(result, "__await__"):
                tick._plain = False
                return tick, result
            self.endings[place] = self._well(tick)
        except BaseException as error:
            self.endings[place] = self._failed(tick, error)
        tick.ends()
        self.done += 1
        if tick.script and (ending := self.endings[place]) is not None:
            self._keep_unasked(tick)
            self._conclude(tick, ending)
        return None

    async def _live(self, place: int, begun: Begun | None = None) -> None:
        """Run a behavior to its end in a task, and conclude its tick with however it ended."""
        tick = self._begun(place) if begun is None else begun[0]
        self.active[tick] = None
        ending: Contribution | None = None
        try:
            if begun is not None:
                tick._task = _current_task()
                await begun[1]
            else:
                member = tick._member
                if member.agent.observe and (not member.sleeps or tick._inbox or tick._receipts):
                    await self._observe(tick, member.agent.observe)
                tick._plain = member.calls_plain
                awaitable = member.agent.behavior(tick)
                tick._plain = False
                if not member.calls_plain or hasattr(awaitable, "__await__"):
                    await awaitable
            ending = self._well(tick)
        except trio.Cancelled:
            ending = self._cancelled(tick)
            raise
        except BaseException as error:
            if any(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
                ending = self._cancelled(tick)
                await trio.lowlevel.checkpoint_if_cancelled()
            ending = self._failed(tick, error)
        finally:
            del self.active[tick]
            tick.ends()
            if ending is not None:
                self.endings[place] = ending
                self.done += 1
                if tick.script:
                    self._keep_unasked(tick)
                if tick._ordinal or tick.records:
                    self._conclude(tick, ending)
            if self.parked:
                self.ended()

    async def _observe(self, tick: Tick, sensors: Sequence[str]) -> None:
        """Read what the agent observes, all at once, before its behavior runs."""
        crossings = [tick.read(sensor) for sensor in sensors]
        if len(crossings) == 1:
            values = [await crossings[0]]
        else:
            values = await tick.gather(*crossings)
        tick.observations = dict(zip(sensors, values, strict=True))

    def _keep_unasked(self, tick: Tick) -> None:
        """Keep what an earlier process recorded and this one did not come to: it has happened."""
        assert tick.script is not None
        tick.records = [*tick.records, *(record for found in tick.script.values() for record in found)]

    def _well(self, tick: Tick) -> Contribution:
        if not tick._ordinal and not tick.script and self.timeout is None:
            return tick.contribution()
        if tick.script:
            tick._snapshot.gate.unasked(tick)
        if tick._ordinal:
            if tick.cuts:
                tick._snapshot.gate.flush_cuts(tick)
            if left := tick.never_awaited():
                return self._failed(tick, where_never_awaited(left), f"{short(left[0].line[0])}:{left[0].line[1]}")
        if self.timeout is not None and self.scope.cancel_called:
            return late(
                tick, self.scope.deadline
            )  # it was cancelled before it returned, whatever it made of that (R12)
        return tick.contribution()

    def _failed(self, tick: Tick, error: BaseException, where: str | None = None) -> Contribution:
        for leaf in leaves(error):
            if isinstance(leaf, KeyboardInterrupt):
                raise leaf
        if self.broken() or is_closing(error):
            raise error
        tick.never_awaited()
        if self.timeout is not None and self.scope.cancel_called:
            return late(tick, self.scope.deadline)
        kind, message = described(error)
        name = tick._member.agent.name
        text = f"{kind}: {message}" if message else kind
        return Contribution(name, tick.number, "failed", error=str(freeze(text)), where=where or where_raised(error))

    def _cancelled(self, tick: Tick) -> Contribution | None:
        """Return the ending of a tick that the round's deadline cancelled; the run's own end leaves none (J10)."""
        tick.never_awaited()
        if self.timeout is not None and self.scope.cancel_called and not self.broken():
            return late(tick, self.scope.deadline)
        return None

    def _conclude(self, tick: Tick, ending: Contribution) -> None:
        """Keep the crossings of a tick; arrival order means nothing, within a tick the ordinal counts."""
        if tick.records:
            if len(tick.records) > 1:
                tick.records.sort(key=lambda record: order(record.at))
            self.crossings[ending.agent, ending.tick] = tick.records


def _waits_for_person(tick: Tick) -> bool:
    """Tell whether everything that a tick has in flight waits for a person."""
    inner = [entry for entry in tick.flying if not any(other.at.startswith(f"{entry.at}.") for other in tick.flying)]
    return bool(inner) and all(entry.person for entry in inner)


def late(tick: Tick, deadline: float) -> Contribution:
    """Return the ending of a tick that was not done in time; of what it waited for, the first by ordinal.

    By now the cancellation has gone through its crossings; those it gave up before the deadline are another matter.
    """
    left = [*tick.flying, *(entry for when, entry in tick.left if when >= deadline)]
    flying: list[Entry] = sorted(left, key=lambda entry: order(entry.at))
    inner = [entry for entry in flying if not any(other.at.startswith(f"{entry.at}.") for other in flying)]
    return Contribution(tick._member.agent.name, tick.number, "late", waiting_for=inner[0].what if inner else None)


def where_raised(error: BaseException) -> str | None:
    """Return `file:line` of the innermost line outside this package; files by name, since folders differ by machine."""
    first = leaves(error)[0]
    frames = traceback.extract_tb(first.__traceback__) or traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if not frame.filename.startswith(_HERE) and "/trio/" not in frame.filename:
            return f"{short(frame.filename)}:{frame.lineno}"
    return None
