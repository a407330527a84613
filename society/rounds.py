"""One round: every agent's tick, all at once or one after another, and how each tick ended.

    snapshot ─▶ ticks ─▶ contributions in order of activation

Knows: tasks, the round's deadline, and which errors belong to a tick.
Does not know: how contributions are merged, or what a journal is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from society.errors import described, leaves
from society.host import is_async
from society.records import Contribution, Crossing, order
from society.snapshot import Member, Snapshot
from society.tick import Entry, Tick, short, where_never_awaited
from society.values import freeze

PATIENCE: Final = 256
"""Plain ticks between two looks at the clock and at cancellation."""

_HERE: Final = str(Path(__file__).parent)


@attrs.define
class RoundUnderWay:
    """The ticks of one round while they run."""

    snapshot: Snapshot
    timeout: float | None
    script: dict[tuple[str, int], dict[str, list[Any]]]
    """What an earlier process, or an earlier call, recorded of this round: by tick, then by ordinal."""
    broken: Callable[[], bool]
    """Whether the run itself is coming to an end, so that no tick may be concluded."""
    contributions: dict[tuple[str, int], Contribution] = attrs.field(factory=dict)
    crossings: dict[tuple[str, int], list[Crossing]] = attrs.field(factory=dict)
    active: dict[Tick, None] = attrs.field(factory=dict)
    """Ticks that have not ended, in order of activation."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: Callable[[], None] = lambda: None

    @property
    def done(self) -> int:
        return len(self.contributions)

    # ── both ways ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def at_once(self, members: Sequence[Member]) -> list[Contribution]:
        """Let all agents tick at the same time, on one snapshot; the nursery's end is the barrier (R2)."""
        ticks = [self._begun(member, 1) for member in members]
        with self._deadline():
            plain = [(tick, member) for tick, member in zip(ticks, members, strict=True) if is_plain(member)]
            if len(plain) == len(ticks):
                await self._plain_ones(plain, None)
            else:
                async with trio.open_nursery() as nursery:
                    for tick, member in zip(ticks, members, strict=True):
                        if not is_plain(member):
                            nursery.start_soon(self._live, tick, member, name=member.agent.name)
                    await self._plain_ones(plain, nursery)
        for tick in tuple(self.active):
            self._conclude(tick, late(tick, "its turn"))
        return [self.contributions[tick._member.agent.name, 1] for tick in ticks]

    async def in_turn(self, members: Sequence[Member]) -> list[Contribution]:
        """Let agents tick one after another; what each contributes counts before the next one looks (Q2)."""
        ended: list[Contribution] = []
        turns: dict[str, int] = {}
        with self._deadline():
            for member in members:
                await trio.lowlevel.checkpoint()
                name = member.agent.name
                turns[name] = turns.get(name, 0) + 1
                tick = self._begun(member, turns[name])
                with trio.CancelScope() as turn:  # the deadline cancels this tick; those behind it are late without one
                    turn.deadline = self.scope.deadline
                    await self._live(tick, member)
                ended.append(self._taken(tick))
                if self.snapshot.going.broken is not None or self.broken():
                    break
        for member in members[len(ended) :] if self.snapshot.going.broken is None else ():
            name = member.agent.name
            turns[name] = turns.get(name, 0) + 1
            tick = self._begun(member, turns[name])
            self._conclude(tick, late(tick, "its turn"))
            ended.append(self._taken(tick))
        return ended

    def _taken(self, tick: Tick) -> Contribution:
        if tick in self.active:
            self._conclude(tick, late(tick, "its turn"))
        contribution = self.contributions[tick._member.agent.name, tick.number]
        self.snapshot.going.add(contribution)
        return contribution

    def _deadline(self) -> trio.CancelScope:
        if self.timeout is not None:
            self.scope.deadline = trio.current_time() + self.timeout
        return self.scope

    def _begun(self, member: Member, number: int) -> Tick:
        name = member.agent.name
        inbox, receipts = self.snapshot.going.take(name)
        tick = Tick(self.snapshot, member, number, inbox, receipts)
        if self.script:
            tick.script = self.script.pop((name, number), None)
        self.active[tick] = None
        return tick

    # ── one tick ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _plain_ones(self, plain: Sequence[tuple[Tick, Member]], nursery: trio.Nursery | None) -> None:
        """Call plain behaviors where they stand: a task would cost more than most of them do."""
        timed = self.timeout is not None
        await trio.lowlevel.checkpoint()
        for place, (tick, member) in enumerate(plain):
            if place % PATIENCE == PATIENCE - 1 or timed:
                await trio.lowlevel.checkpoint()
            result = self._plain(tick, member)
            if result is None:
                continue
            if nursery is not None:
                nursery.start_soon(self._live_on, tick, result, name=member.agent.name)
                continue
            async with trio.open_nursery() as rest:  # a plain function that returned an awaitable
                rest.start_soon(self._live_on, tick, result, name=member.agent.name)
                await self._plain_ones(plain[place + 1 :], rest)
            return

    def _plain(self, tick: Tick, member: Member) -> Any:
        """Run a plain behavior; return what there is to await, if it gave something."""
        tick.begins(plain=True)
        try:
            result = member.agent.behavior(tick)
            if result is not None and hasattr(result, "__await__"):
                return result
            self._conclude(tick, self._well(tick))
        except BaseException as error:
            self._conclude(tick, self._failed(tick, error))
        return None

    async def _live(self, tick: Tick, member: Member) -> None:
        await self._live_on(tick, None, member)

    async def _live_on(self, tick: Tick, awaitable: Any, member: Member | None = None) -> None:
        """Run a behavior to its end, and conclude its tick with however it ended."""
        tick.begins(plain=False)
        try:
            if member is not None:
                if member.agent.observe:
                    await self._observe(tick, member.agent.observe)
                tick._plain = not is_async(member.agent.behavior)
                awaitable = member.agent.behavior(tick)
                tick._plain = False
            if hasattr(awaitable, "__await__"):
                await awaitable
            contribution = self._well(tick)
        except trio.Cancelled:
            self._cancelled(tick)
            raise
        except BaseException as error:
            if any(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
                self._cancelled(tick)
                await trio.lowlevel.checkpoint_if_cancelled()
            contribution = self._failed(tick, error)
        self._conclude(tick, contribution)

    async def _observe(self, tick: Tick, sensors: Sequence[str]) -> None:
        """Read what the agent observes, all at once, before its behavior runs."""
        crossings = [tick.read(sensor) for sensor in sensors]
        if len(crossings) == 1:
            values = [await crossings[0]]
        else:
            values = await tick.gather(*crossings)
        tick.observations = dict(zip(sensors, values, strict=True))

    def _well(self, tick: Tick) -> Contribution:
        if tick._asked is not None:
            if tick.cuts:
                tick._snapshot.gate.flush_cuts(tick)
            if left := tick.never_awaited():
                return self._failed(tick, where_never_awaited(left), f"{short(left[0].line[0])}:{left[0].line[1]}")
        if self.timeout is not None and self.scope.cancel_called:
            return late(tick)  # it was cancelled before it returned, whatever it made of that (R12)
        return tick.contribution()

    def _failed(self, tick: Tick, error: BaseException, where: str | None = None) -> Contribution:
        for leaf in leaves(error):
            if isinstance(leaf, (KeyboardInterrupt, GeneratorExit)):
                raise leaf
        if self.broken():
            raise error
        tick.never_awaited()
        if self.timeout is not None and self.scope.cancel_called:
            return late(tick)
        kind, message = described(error)
        name = tick._member.agent.name
        text = f"{kind}: {message}" if message else kind
        return Contribution(name, tick.number, "failed", error=str(freeze(text)), where=where or where_raised(error))

    def _cancelled(self, tick: Tick) -> None:
        """Conclude a tick that the round's deadline cancelled; one that the run's end cancelled leaves nothing (J10)."""
        tick.never_awaited()
        if self.timeout is not None and self.scope.cancel_called and not self.broken():
            self._conclude(tick, late(tick))
        else:
            tick.ends()

    def _conclude(self, tick: Tick, contribution: Contribution) -> None:
        tick.ends()
        del self.active[tick]
        key = contribution.agent, contribution.tick
        self.contributions[key] = contribution
        if tick.records:
            if len(tick.records) > 1:
                # Arrival order means nothing: within a tick, what counts is the ordinal.
                tick.records.sort(key=lambda record: order(record.at))
            self.crossings[key] = tick.records
        if tick._asked is not None:
            self.ended()


def is_plain(member: Member) -> bool:
    """Tell whether a behavior is called where it stands, without a task."""
    return not member.agent.observe and not is_async(member.agent.behavior)


def late(tick: Tick, waiting_for: str | None = None) -> Contribution:
    """Return the ending of a tick that was not done in time; of what it waited for, the first by ordinal."""
    flying: list[Entry] = sorted(tick.flying, key=lambda entry: order(entry.at))
    leaf = waiting_for or (flying[-1].what if flying else None)
    return Contribution(tick._member.agent.name, tick.number, "late", waiting_for=leaf)


def where_raised(error: BaseException) -> str | None:
    """Return `file:line` of the innermost line outside this package; files by name, since folders differ by machine."""
    first = leaves(error)[0]
    frames = traceback.extract_tb(first.__traceback__) or traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if not frame.filename.startswith(_HERE) and "/trio/" not in frame.filename:
            return f"{short(frame.filename)}:{frame.lineno}"
    return None
