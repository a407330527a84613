"""One round: every agent's tick, all at once or one after another, and how each tick ended.

    snapshot ─▶ ticks ─▶ contributions in order of activation

Knows: tasks, the round's deadline, and which errors belong to a tick.
Does not know: how contributions are merged, or what a journal is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import trio

from society.collector import paused
from society.errors import described, leaves
from society.messages import Message, Receipt
from society.records import Contribution, Crossing, order
from society.snapshot import Member, Snapshot
from society.tick import Entry, Tick, short, where_never_awaited
from society.values import freeze

PATIENCE: Final = 256
"""Plain ticks between two looks at the clock and at cancellation."""

Look: TypeAlias = tuple[Sequence[Message], Sequence[Receipt]]
"""What a tick finds when it begins: its inbox and its receipts."""

Begun: TypeAlias = tuple[Tick, Any]
"""A tick whose plain behavior returned something to await, and that."""

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
    """Called when a tick that made crossings has ended."""
    ticks: int = 0
    """Ticks of the round, in all."""
    done: int = 0
    crossings: dict[tuple[str, int], list[Crossing]] = attrs.field(factory=dict)
    active: dict[Tick, None] = attrs.field(factory=dict)
    """Ticks with a task of their own that have not ended."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    # ── both ways ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def at_once(self, members: Sequence[Member]) -> list[Contribution]:
        """Let all agents tick at the same time, on one snapshot; the nursery's end is the barrier (R2)."""
        self.ticks = len(members)
        ended: list[Contribution | None] = [None] * len(members)
        with paused():
            looks = [self.snapshot.going.take(member.agent.name) for member in members]
        plain = [place for place, member in enumerate(members) if member.plain]
        with self._deadline():
            if len(plain) == len(members):
                await self._plain_ones(members, looks, plain, ended, None)
            else:
                async with trio.open_nursery() as nursery:
                    for place, member in enumerate(members):
                        if not member.plain:
                            nursery.start_soon(
                                self._live, member, 1, looks[place], ended, place, name=member.agent.name
                            )
                    await self._plain_ones(members, looks, plain, ended, nursery)
        return [found or not_begun(member, 1) for member, found in zip(members, ended, strict=True)]

    async def in_turn(self, members: Sequence[Member]) -> list[Contribution]:
        """Let agents tick one after another; what each contributes counts before the next one looks (Q2)."""
        self.ticks = len(members)
        going, turns = self.snapshot.going, dict[str, int]()
        counted: list[Contribution] = []
        with self._deadline():
            for place, member in enumerate(members):
                if place % PATIENCE == 0 or not member.plain or self.timeout is not None:
                    await trio.lowlevel.checkpoint()
                name = member.agent.name
                number = turns[name] = turns.get(name, 0) + 1
                look = going.take(name)
                ended: list[Contribution | None] = [None]
                try:
                    begun = self._plain(member, number, look, ended, 0) if member.plain else None
                    if begun is not None or not member.plain:
                        await self._live(member, number, look, ended, 0, begun)
                finally:  # the deadline cancels this tick, which counts as late; those behind it do not begin
                    if ended[0] is not None:
                        counted.append(ended[0])
                        going.add(ended[0])
                if going.broken is not None or self.broken():
                    return counted
        for member in members[len(counted) :]:
            name = member.agent.name
            number = turns[name] = turns.get(name, 0) + 1
            going.take(name)
            counted.append(not_begun(member, number))
            going.add(counted[-1])
        return counted

    def _deadline(self) -> trio.CancelScope:
        if self.timeout is not None:
            self.scope.deadline = trio.current_time() + self.timeout
        return self.scope

    def _begun(self, member: Member, number: int, look: Look) -> Tick:
        tick = Tick(self.snapshot, member, number, *look)
        if self.script:
            tick.script = self.script.pop((member.agent.name, number), None)
        return tick

    # ── one tick ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _plain_ones(
        self,
        members: Sequence[Member],
        looks: Sequence[Look],
        places: Sequence[int],
        ended: list[Contribution | None],
        nursery: trio.Nursery | None,
    ) -> None:
        """Call plain behaviors where they stand: a task would cost more than most of them do."""
        timed = self.timeout is not None
        await trio.lowlevel.checkpoint()
        with paused():
            for done, place in enumerate(places):
                if done % PATIENCE == PATIENCE - 1 or timed:
                    await trio.lowlevel.checkpoint()
                member, look = members[place], looks[place]
                begun = self._plain(member, 1, look, ended, place)
                if begun is None:
                    continue
                if nursery is None:
                    break
                nursery.start_soon(self._live, member, 1, look, ended, place, begun, name=member.agent.name)
            else:
                return
        async with trio.open_nursery() as rest:  # a plain function returned an awaitable
            rest.start_soon(self._live, member, 1, look, ended, place, begun, name=member.agent.name)
            await self._plain_ones(members, looks, places[done + 1 :], ended, rest)

    def _plain(
        self, member: Member, number: int, look: Look, ended: list[Contribution | None], place: int
    ) -> Begun | None:
        """Run a plain behavior; return what there is to await, if it gave something."""
        tick = self._begun(member, number, look)
        tick.begins(plain=True)
        try:
            result = member.agent.behavior(tick)
            if result is not None and hasattr(result, "__await__"):
                return tick, result
            ended[place] = self._well(tick)
        except BaseException as error:
            ended[place] = self._failed(tick, error)
        tick.ends()
        self.done += 1
        return None

    async def _live(
        self,
        member: Member,
        number: int,
        look: Look,
        ended: list[Contribution | None],
        place: int,
        begun: Begun | None = None,
    ) -> None:
        """Run a behavior to its end in a task, and conclude its tick with however it ended."""
        tick, awaitable = begun if begun is not None else (self._begun(member, number, look), None)
        self.active[tick] = None
        tick.begins(plain=False)
        contribution: Contribution | None = None
        try:
            if begun is None:
                agent = member.agent
                if agent.observe:
                    await self._observe(tick, agent.observe)
                tick._plain = member.calls_plain
                awaitable = agent.behavior(tick)
                tick._plain = False
            if awaitable is not None and hasattr(awaitable, "__await__"):
                await awaitable
            contribution = self._well(tick)
        except trio.Cancelled:
            contribution = self._cancelled(tick)
            raise
        except BaseException as error:
            if any(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
                contribution = self._cancelled(tick)
                await trio.lowlevel.checkpoint_if_cancelled()
            contribution = self._failed(tick, error)
        finally:
            self._conclude(tick, contribution)
            ended[place] = contribution

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

    def _cancelled(self, tick: Tick) -> Contribution | None:
        """Return the ending of a tick that the round's deadline cancelled; the run's own end leaves none (J10)."""
        tick.never_awaited()
        if self.timeout is not None and self.scope.cancel_called and not self.broken():
            return late(tick)
        return None

    def _conclude(self, tick: Tick, contribution: Contribution | None) -> None:
        tick.ends()
        del self.active[tick]
        if contribution is None:
            return
        self.done += 1
        if tick.records:
            if len(tick.records) > 1:
                # Arrival order means nothing: within a tick, what counts is the ordinal.
                tick.records.sort(key=lambda record: order(record.at))
            self.crossings[contribution.agent, contribution.tick] = tick.records
        if tick._asked is not None:
            self.ended()


def not_begun(member: Member, number: int) -> Contribution:
    """Return the ending of a tick that the round's deadline left no time to begin."""
    return Contribution(member.agent.name, number, "late", waiting_for="its turn")


def late(tick: Tick) -> Contribution:
    """Return the ending of a tick that was not done in time; of what it waited for, the first by ordinal."""
    flying: list[Entry] = sorted(tick.flying, key=lambda entry: order(entry.at))
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
