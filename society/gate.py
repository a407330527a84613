"""The gate: the one way from a tick to the world. Every crossing of every agent passes here, whoever asks for it.

An action goes, in this order always (K2): its turn among the effects of its agent, policy, approval, permit, slot, intent
on disk, call, result on disk. On resume and in replay the same code is handed what was recorded instead (J3).

Knows: limits and slots, the order of steps, what a timeout means at each boundary, how a doubt is settled.
Does not know: rounds and barriers, how rules are judged, or where the journal is.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import outcome
import trio

from society.entry import Entry, in_order, where_never_awaited
from society.errors import (
    BehaviorError,
    ReplayDivergence,
    ScenarioError,
    ToolFailed,
    ValueRefused,
    described,
    suggestion,
)
from society.host import SubAgent, Tool, called, explained
from society.limits import Limits
from society.models import check_newborn
from society.records import Answer, Contribution, Crossing, Delegation, Late, Read, order
from society.replaying import AGES, NOTHING, NOTHING_MORE, Replaying
from society.slots import AllGivenUp, Boundaries
from society.tick import Tick
from society.values import NO_ANSWER, UNKNOWN, WAIT, Value, freeze, plain
from society.work import Opaque, Work, failure, head, let_through, returned, told

if TYPE_CHECKING:
    from society.agent import Agent
    from society.asking import Asking

DEEPEST = 64
"""Delegations inside one another. Where Python's own stack ends depends on who calls, and would make traces differ."""


class Journal(Protocol):
    """Where records are written down; `put` is plain and immediate, so a record can be made while being cancelled."""

    def put(self, record: Any) -> None: ...

    async def durable(self) -> None: ...


class Gate:
    """The gate of one run."""

    def __init__(
        self,
        *,
        limits: Limits,
        boundaries: Boundaries,
        run_id: str,
        journal: Journal | None,
        approver: Any,
        asker: Any,
        crash: Callable[[BaseException], None],
        parked: Callable[[], None],
        replaying: Replaying | None = None,
    ) -> None:
        self.limits = limits
        self.run_id = run_id
        self.journal = journal
        self.approver = approver
        self.asker = asker
        self.replaying = replaying
        """Nothing goes out: what was not recorded is a divergence."""
        self._boundaries = boundaries
        self.tools, self.llm, self.reads = boundaries.tools, boundaries.llm, boundaries.reads
        self.human, self.subagents = boundaries.human, boundaries.subagents
        self.width = boundaries.width
        self.open: list[Any] = []
        """Records of the open round, in order of arrival."""
        self.late: list[Late] = []
        """Proof that came back since the last barrier."""
        self.closed = False
        self.broken = False
        """The journal cannot be kept, or the code asks for something else than was recorded: nothing goes on."""
        self.asking: Asking | None = None
        """The way to the models, where there are any."""
        self._end_run = crash
        self._parked = parked

    def stats(self) -> dict[str, dict[str, int]]:
        stats = self._boundaries.stats()
        return stats if self.asking is None else {**stats, "llm": self.asking.stats()}

    def _crash(self, error: BaseException) -> None:
        self.broken = True
        self._end_run(error)

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, record: Any) -> None:
        """Write a record down. A journal that cannot be written stops the run, whatever the behavior does about it."""
        if self.journal is not None:
            try:
                self.journal.put(record)
            except BaseException as error:
                self._crash(error)
                raise
        self.open.append(record)

    async def durable(self) -> None:
        """Return when all that was put before is on disk."""
        if self.journal is not None:
            try:
                await self.journal.durable()
            except trio.Cancelled:
                raise
            except BaseException as error:
                self._crash(error)
                raise

    def keep(self, tick: Tick, record: Crossing) -> None:
        if tick.is_over():
            tick.root._over("has ended")  # a stray task got this far: it leaves no record, and starts no effect (R16)
        tick.root.records.append(record)
        self.put(record)

    def flush_cuts(self, root: Tick) -> None:
        """Record the crossings that a tick gave up, now that it goes on (J3)."""
        if trio.current_effective_deadline() == float("-inf"):
            return  # it does not go on: it is itself being cancelled
        cuts, root.cuts = root.cuts, []
        for record in cuts:
            self.keep(root, record)

    def served(self, tick: Tick, entry: Entry) -> list[Any]:
        """Return what is recorded for this crossing, and count it among the tick's records."""
        script = tick.root.script
        found = script.pop(entry.at, []) if script else []
        if found:
            tick.root.records += found
        return found

    async def goes_on(self, tick: Tick, entry: Entry) -> None:
        """Raise to who is cancelled, unless crossings below this one were recorded: they have happened, and are served."""
        script = tick.root.script
        if not (script and any(at.startswith(f"{entry.at}.") for at in script)):
            await trio.lowlevel.checkpoint_if_cancelled()

    async def diverge(self, tick: Tick, entry: Entry, recorded: str, asked: str) -> NoReturn:
        """Tell that the code asks for something else than was recorded. On resume it ends the run, in a replay this tick."""
        divergence = ReplayDivergence(tick._snapshot.round, tick._member.agent.name, entry.at, recorded, asked)
        if self.replaying is None:
            self._crash(divergence)
        else:
            from trio.testing import wait_all_tasks_blocked  # it brings pytest along, where that is installed

            self.replaying.note(tick.root.number, divergence, tick.root._did)
            await wait_all_tasks_blocked()  # crossings of the same tick that are under way come to their own
            self.replaying.ends[divergence.agent, tick.root.number]()
        raise divergence

    async def unrecorded(self, tick: Tick, entry: Entry, recorded: str, asked: str) -> NoReturn:
        """Find out in a replay why a crossing did not end: its tick failed while it was in flight, or the code has changed."""
        assert self.replaying is not None
        root = tick.root
        if self.replaying.failed(tick._snapshot.round, root._member.agent.name, root.number):
            await trio.sleep(AGES)
        await self.diverge(tick, entry, recorded, asked)

    async def until_given_up(self, tick: Tick, entry: Entry, record: Any) -> NoReturn:
        """Wait until the tick gives a crossing up again, as it did when that was recorded."""
        if self.replaying is not None:
            await trio.sleep(AGES)
            await self.diverge(tick, entry, f"{told(record)}, given up by its tick", f"{entry.what}, and waits for it")
        await trio.sleep_forever()
        raise AssertionError

    def unasked(self, root: Tick) -> None:
        """Find in a replay that a tick ended well and did not ask for all that was recorded."""
        if self.replaying is not None and root.script:
            at = min(root.script, key=order)
            recorded = told(root.script[at][0])
            self.replaying.note(
                root.number,
                ReplayDivergence(root._snapshot.round, root._member.agent.name, at, recorded, NOTHING_MORE),
                root._did,
            )

    def parted(self, endings: Sequence[Contribution | None]) -> None:
        """End a replay in which a tick parted from what was recorded, with the first difference in canonical order.

        Args:
            endings: Of the round's ticks so far, in order of activation; None where a tick came to none.
        """
        if self.replaying is not None and (first := self.replaying.first(endings)) is not None:
            self._crash(first)
            raise first

    def models(self, tick: Tick) -> Asking:
        """Return the way to the models.

        Raises:
            ScenarioError: The society has none.
        """
        if self.asking is None:
            raise ScenarioError(
                f"agent {tick._member.agent.name!r} asks a model, and the society has none: give it `model=`."
            )
        return self.asking

    def check_model(self, agent: Agent) -> None:
        """Refuse a birth of one who would ask a model that there is not."""
        if self.replaying is None or (self.asking is not None and self.asking.models):
            check_newborn(self.asking.models if self.asking is not None else {}, agent)

    # ── sensors ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def read(self, tick: Tick, entry: Entry, name: str) -> Value:
        """Return what a sensor shows; `UNKNOWN` where it raised, was late, or returned no value (B5, B6)."""
        entry.begin()
        try:
            member = tick._member
            host = member.desk.sensors.get(name)
            if host is None:
                raise ScenarioError(
                    f"{member.agent.name!r} has no sensor {name!r}.{suggestion(str(name), member.desk.sensors)}"
                )
            found = self.served(tick, entry)
            if found:
                record = found[-1]
                if not isinstance(record, Read) or record.sensor != name:
                    await self.diverge(tick, entry, told(record), entry.what)
                if record.cut:
                    await self.until_given_up(tick, entry, record)
            elif self.replaying is not None:
                await self.unrecorded(tick, entry, NOTHING, entry.what)
            else:
                record = await self._read(tick, entry, name, host)
            if record.unknown is None:
                return record.value
            tick.becomes_silent(name, record.unknown)
            return UNKNOWN
        finally:
            entry.end()

    async def _read(self, tick: Tick, entry: Entry, name: str, host: Any) -> Read:
        value, unknown = None, None
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # once cancelled, no further crossing starts (J10)
            place = await self.reads.acquire()
        except trio.Cancelled:
            tick.root.cuts.append(self._reading(tick, entry, name, None, "given up by its tick", False, cut=True))
            raise
        except AllGivenUp as gone:
            record = self._reading(tick, entry, name, None, str(gone), False)
            self.keep(tick, record)
            return record
        try:
            with trio.CancelScope() as scope:
                entry.scope = scope
                if self.limits.read_timeout is not None:
                    scope.deadline = trio.current_time() + self.limits.read_timeout
                value = freeze(await host.perceive(name, place), name)
        except trio.Cancelled:
            tick.root.cuts.append(self._reading(tick, entry, name, None, "given up by its tick", False, cut=True))
            raise
        except ValueRefused as refused:
            unknown = f"it returned no value: {refused.path}: {refused.found}"
        except BaseException as error:
            await let_through(error)
            kind, message = described(explained(error, name))
            unknown = f"{kind}: {message}" if message else kind
        finally:
            place.release()
        timed_out = scope.cancelled_caught
        if timed_out:
            unknown = "no reading in time"
        record = self._reading(tick, entry, name, None if unknown is not None else value, unknown, timed_out)
        self.keep(tick, record)
        return record

    def _reading(
        self, tick: Tick, entry: Entry, name: str, value: Value, unknown: str | None, timed_out: bool, cut: bool = False
    ) -> Read:
        why = None if unknown is None else str(freeze(unknown))
        return Read(**head(tick, entry), sensor=name, value=value, unknown=why, timed_out=timed_out, cut=cut)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def has_effect(self, tick: Tick, tool: str) -> bool:
        found = tick._member.desk.tools.get(tool)
        return found is not None and not found[1].reads_only

    def call(self, tick: Tick, entry: Entry, name: str, arguments: Value) -> Coroutine[Any, Any, Value]:
        """Return the coroutine that carries an action out and gives what the tool returned, frozen."""
        desk = tick._member.desk
        if name not in desk.tools:
            raise ScenarioError(f"{tick._member.agent.name!r} has no tool {name!r}.{suggestion(str(name), desk.tools)}")
        host, tool = desk.tools[name]
        return Work(self, tick, entry, host, tool, arguments).through()

    async def turn(self, entry: Entry) -> None:
        """Wait until no earlier effect of this agent is under way (B8).

        Effects that were handed to a nursery and have not had their first step are given time to have it: two
        checkpoints, since the scheduler runs everything that is ready between them.
        """
        entries, patience = entry.tick.root.entries, 2
        assert entry.order is not None
        while True:
            blocker, unbegun = None, False
            for other in sorted((other for other in entries if other.order is not None), key=in_order):
                assert other.order is not None
                if other is entry or entry.order[: len(other.order)] == other.order:
                    continue  # the delegation inside which this one was asked for
                if other.holds or (other.begun and other.order < entry.order):
                    blocker = other
                    break
                unbegun = unbegun or (other.order < entry.order and not other.begun)
            if blocker is not None:
                if blocker.done is None:
                    blocker.done = trio.Event()
                await blocker.done.wait()
            elif unbegun and patience:
                patience -= 1
                await trio.lowlevel.checkpoint()
            else:
                return

    async def person(self, function: Any, question: Any) -> tuple[Any, bool, str | None]:
        """Return (what a person said or NO_ANSWER, whether the time was up, why else nobody answered)."""
        if function is None:
            return NO_ANSWER, False, "there is nobody to ask"
        place = await self.human.acquire()
        try:
            with trio.CancelScope() as scope:
                if self.limits.human_timeout is not None:
                    scope.deadline = trio.current_time() + self.limits.human_timeout
                return await called(function, place, True, question), False, None
        except trio.Cancelled:
            raise
        except BaseException as error:
            await let_through(error)
            kind, message = described(error)
            return NO_ANSWER, False, f"asking raised {kind}: {message}"  # which is not consent
        finally:
            place.release()
        return NO_ANSWER, True, "no answer in time"

    async def wait_for_person(self, entry: Entry) -> NoReturn:
        """Wait for an answer that comes in another process; the run ends as `waiting` once nobody does anything else."""
        entry.person = True
        self._parked()
        await trio.sleep_forever()
        raise AssertionError

    def came_late(self, action: str, result: outcome.Outcome[Any]) -> None:
        """Take what came back from an action that its tick had given up: proof, and nothing else (B4)."""
        try:
            value, ending = returned(result.unwrap()), "done"
        except BaseException as error:
            value, ending = failure(error), "failed"
        late = Late(id=action, ending=ending, value=value)  # type: ignore[arg-type]
        if self.closed:
            self._boundaries.unheard.append(late)
        else:
            self.put(late)
            self.late.append(late)

    def hear(self) -> None:
        """Take what came back while no run was open."""
        unheard, self._boundaries.unheard = self._boundaries.unheard, []
        for late in unheard:
            self.put(late)
            self.late.append(late)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, tick: Tick, entry: Entry, question: Value) -> Value:
        """Return a person's answer, or NO_ANSWER."""
        entry.begin()
        try:
            found = self.served(tick, entry)
            last = found[-1] if found else None
            if last is not None and (not isinstance(last, Answer) or last.question != question):
                await self.diverge(tick, entry, told(last), f"ask_human({question!r})")
            if (last is None or last.standing) and self.replaying is not None:
                await self.unrecorded(tick, entry, NOTHING if last is None else "no answer", entry.what)
            if last is None or last.standing:
                last = await self._asked(tick, entry, question, last)
            if last.cut:
                await self.until_given_up(tick, entry, last)
            return NO_ANSWER if last.no_answer else last.answer
        finally:
            entry.end()

    async def _asked(self, tick: Tick, entry: Entry, question: Value, standing: Answer | None) -> Answer:
        asker = self.asker if self.asker is not None else tick._member.desk.person("asker")
        place = head(tick, entry)
        if asker is WAIT:
            if standing is None:
                self.keep(tick, Answer(**place, question=question, no_answer=True, standing=True))
            await self.wait_for_person(entry)
        try:
            said, timed_out, _ = await self.person(asker, plain(question))
        except trio.Cancelled:
            tick.root.cuts.append(Answer(**place, question=question, no_answer=True, cut=True))
            raise
        answer, no_answer = None, said is NO_ANSWER
        if not no_answer:
            try:
                answer = freeze(said, "answer")
            except ValueRefused:
                no_answer = True  # what is no value cannot be told to anyone
        record = Answer(**place, question=question, answer=answer, no_answer=no_answer, timed_out=timed_out)
        self.keep(tick, record)
        return record

    # ── sub-agents ──────────────────────────────────────────────────────────────────────────────────────────────────

    def delegate(self, tick: Tick, entry: Entry, name: str, payload: Value) -> Coroutine[Any, Any, Value]:
        """Return the coroutine that gives what a sub-agent made of a payload."""
        desk = tick._member.desk
        if name not in desk.subagents:
            raise ScenarioError(
                f"{tick._member.agent.name!r} has no sub-agent {name!r}.{suggestion(str(name), desk.subagents)}"
            )
        _, subagent = desk.subagents[name]
        if subagent.with_tick:
            if entry.at.count(".") >= DEEPEST:
                raise BehaviorError(
                    f"delegations nest over {DEEPEST} deep, the last to {name!r}: does it end anywhere?"
                )
            entry.asks = True
            return self._in_lane(tick, entry, subagent, payload)
        tool = Tool(name=name, function=subagent.function)
        return Work(self, tick, entry, Opaque(subagent), tool, payload, opaque=True).through()

    async def _in_lane(self, tick: Tick, entry: Entry, subagent: SubAgent, payload: Value) -> Value:
        """Run a sub-agent like a behavior. It holds no slot while it waits for calls of its own (B3)."""
        entry.begin()
        lane: Tick | None = None
        ended_well = False
        try:
            await self.goes_on(tick, entry)
            lane = tick.lane(entry)
            record = await self._delegated(lane, entry, subagent, payload)
            await self.compare(tick, entry, record)
            if record.ending != "done":
                raise ToolFailed(subagent.name, record.result["error"], record.result["message"])
            ended_well = True
            return record.result
        finally:
            if lane is not None:
                lane.ends_lane()
                if ended_well:
                    tick.join(lane)
            entry.end()

    async def _delegated(self, lane: Tick, entry: Entry, subagent: SubAgent, payload: Value) -> Delegation:
        try:
            lane.begins(plain=False)
            lane._plain = True
            result = subagent.function(lane, payload)
            lane._plain = False
            if hasattr(result, "__await__"):
                result = await result
            if left := lane.never_awaited():
                raise where_never_awaited(left)
            ending, value = "done", returned(result)
        except trio.Cancelled:
            raise
        except BaseException as error:
            await let_through(error)
            ending, value = "failed", failure(error)
        finally:
            lane._plain = False
        place = head(lane._parent or lane, entry)
        return Delegation(**place, subagent=subagent.name, payload=payload, ending=ending, result=value)  # type: ignore[arg-type]

    async def compare(self, tick: Tick, entry: Entry, record: Crossing) -> None:
        """Keep what code came to. On resume it ran again, and must have come to what was recorded."""
        script = tick.root.script
        found = script.pop(entry.at, []) if script else []
        if not found:
            if self.replaying is not None:
                await self.unrecorded(tick, entry, NOTHING, told(record))
            self.keep(tick, record)
            return
        tick.root.records += found
        if found[-1] != record:
            await self.diverge(tick, entry, told(found[-1]), told(record))
