"""The gate: the one way from a tick to the world. Every crossing of every agent passes here, whoever asks for it.

An action goes, in this order always (K2): its turn among the effects of its agent, policy, approval, permit, slot, intent
on disk, call, result on disk. On resume and in replay the same code is handed what was recorded instead (J3).

Knows: limits and slots, the order of steps, what a timeout means at each boundary, how a doubt is settled.
Does not know: rounds and barriers, how rules are judged, or where the journal is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

import attrs
import outcome
import trio

from society import permit as permits
from society.draw import action_id, idempotency_key
from society.errors import (
    ActionDenied,
    ActionInDoubt,
    BehaviorError,
    ReplayDivergence,
    ScenarioError,
    ToolFailed,
    ValueRefused,
    described,
    leaves,
    suggestion,
)
from society.host import SubAgent, Tool, called
from society.limits import Limits
from society.permit import CurrentAction
from society.records import Answer, Approval, Crossing, Delegation, Denial, Intent, Late, Read, Result
from society.slots import AllGivenUp, Place, Slots
from society.tick import Entry, Tick, where_never_awaited
from society.values import NO_ANSWER, NOT_EXECUTED, UNKNOWN, WAIT, Value, freeze, plain

ATTEMPTS = 2
"""Calls in all of an idempotent tool whose action is in doubt (J4)."""


class Journal(Protocol):
    """Where records are written down; `put` is plain and immediate, so a record can be made while being cancelled."""

    def put(self, record: Any) -> None: ...

    async def durable(self) -> None: ...


@attrs.frozen
class Request:
    """What an approver is asked about: exactly what will be sent (K5)."""

    id: str
    agent: str
    tool: str
    arguments: Value
    rule: str


@attrs.frozen
class Doubt:
    """What a reconciler is asked about."""

    id: str
    idempotency_key: str
    agent: str
    round: int
    tool: str
    arguments: Value


@attrs.define
class Facts:
    """What conditions may look at: the state that the action before left (B8)."""

    _tick: Tick
    args: Mapping[str, Value]

    @property
    def shared(self) -> Mapping[str, Value]:
        return self._tick.shared

    @property
    def state(self) -> Mapping[str, Value]:
        return self._tick.state

    @property
    def observed(self) -> Mapping[str, Value]:
        return self._tick.root.observations or {}

    @property
    def round(self) -> int:
        return self._tick.round

    @property
    def agent(self) -> str:
        return self._tick.agent

    @property
    def in_doubt(self) -> list[str]:
        return [action.tool for action in self._tick.in_doubt]


class Gate:
    """The gate of one run."""

    def __init__(
        self,
        *,
        limits: Limits,
        run_id: str,
        journal: Journal | None,
        approver: Any,
        asker: Any,
        crash: Callable[[BaseException], None],
        parked: Callable[[], None],
        replaying: bool = False,
    ) -> None:
        self.limits = limits
        self.run_id = run_id
        self.journal = journal
        self.approver = approver
        self.asker = asker
        self.replaying = replaying
        """Nothing goes out: what was not recorded is a divergence."""
        self.tools = Slots(limits.max_concurrent_tools)
        self.llm = Slots(limits.max_concurrent_llm)
        self.reads = Slots(limits.max_concurrent_reads)
        self.human = Slots(None)
        self.subagents = Slots(None)
        self.open: list[Any] = []
        """Records of the open round, in order of arrival."""
        self.late: list[Late] = []
        """Proof that came back since the last barrier."""
        self.closed = False
        self._crash = crash
        self._parked = parked

    def stats(self) -> dict[str, dict[str, int]]:
        return {
            "tools": self.tools.stats(),
            "llm": self.llm.stats(),
            "reads": self.reads.stats(),
            "human": self.human.stats(),
        }

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

    def _keep(self, tick: Tick, record: Crossing) -> None:
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
            self._keep(root, record)

    def _served(self, tick: Tick, entry: Entry) -> list[Any]:
        """Return what is recorded for this crossing, and count it among the tick's records."""
        script = tick.root.script
        found = script.pop(entry.at, []) if script else []
        if found:
            tick.root.records += found
        elif self.replaying:
            self._diverge(tick, entry, "nothing: the journal ends here", entry.what)
        return found

    def _diverge(self, tick: Tick, entry: Entry, recorded: str, asked: str) -> NoReturn:
        divergence = ReplayDivergence(tick._snapshot.round, tick._member.agent.name, entry.at, recorded, asked)
        self._crash(divergence)
        raise divergence

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
            found = self._served(tick, entry)
            if found:
                record = found[-1]
                if not isinstance(record, Read) or record.sensor != name:
                    self._diverge(tick, entry, told(record), entry.what)
                if record.cut:
                    await trio.sleep_forever()
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
            self._keep(tick, record)
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
            await _let_through(error)
            kind, message = described(error)
            unknown = f"{kind}: {message}" if message else kind
        finally:
            place.release()
        timed_out = scope.cancelled_caught
        if timed_out:
            unknown = "no reading in time"
        record = self._reading(tick, entry, name, None if unknown is not None else value, unknown, timed_out)
        self._keep(tick, record)
        return record

    def _reading(
        self, tick: Tick, entry: Entry, name: str, value: Value, unknown: str | None, timed_out: bool, cut: bool = False
    ) -> Read:
        why = None if unknown is None else str(freeze(unknown))
        return Read(**_head(tick, entry), sensor=name, value=value, unknown=why, timed_out=timed_out, cut=cut)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def has_effect(self, tick: Tick, tool: str) -> bool:
        found = tick._member.desk.tools.get(tool)
        return found is not None and not found[1].reads_only

    async def call(self, tick: Tick, entry: Entry, name: str, arguments: Value) -> Value:
        """Carry out an action and return what the tool returned, frozen."""
        entry.begin()
        try:
            desk = tick._member.desk
            if name not in desk.tools:
                raise ScenarioError(
                    f"{tick._member.agent.name!r} has no tool {name!r}.{suggestion(str(name), desk.tools)}"
                )
            host, tool = desk.tools[name]
            return await Work(self, tick, entry, host, tool, arguments).carried_out()
        finally:
            entry.end()

    async def _turn(self, entry: Entry) -> None:
        """Wait until no earlier effect of this agent is under way (B8).

        Effects that were handed to a nursery and have not had their first step are given time to have it: two
        checkpoints, since the scheduler runs everything that is ready between them.
        """
        effects, patience = entry.tick.root.effects, 2
        while True:
            blocker, unbegun = None, False
            for other in effects:
                assert other.order is not None and entry.order is not None
                if other is entry or entry.order[: len(other.order)] == other.order:
                    continue  # the delegation inside which this one was asked for
                if other.holds or (other.begun and other.order < entry.order):
                    blocker = other
                    break
                unbegun = unbegun or (other.order < entry.order and not other.begun)
            if blocker is not None:
                if blocker.task is entry.task:
                    raise BehaviorError(
                        f"{entry.what} was called from inside {blocker.what} of the same tick, which waits for it for ever. "
                        "Tools cannot call tools; use a sub-agent."
                    )
                if blocker.done is None:
                    blocker.done = trio.Event()
                await blocker.done.wait()
            elif unbegun and patience:
                patience -= 1
                await trio.lowlevel.checkpoint()
            else:
                return

    async def person(self, function: Any, question: Any) -> tuple[Any, bool]:
        """Return (what a person said or NO_ANSWER, whether the time was up)."""
        if function is None:
            return NO_ANSWER, False
        place = await self.human.acquire()
        try:
            with trio.CancelScope() as scope:
                if self.limits.human_timeout is not None:
                    scope.deadline = trio.current_time() + self.limits.human_timeout
                return await called(function, place, True, question), False
        except trio.Cancelled:
            raise
        except BaseException as error:
            await _let_through(error)
            return NO_ANSWER, False  # an approver that breaks has not consented
        finally:
            place.release()
        return NO_ANSWER, True

    async def wait_for_person(self, entry: Entry) -> NoReturn:
        """Wait for an answer that comes in another process; the run ends as `waiting` once nobody does anything else."""
        entry.person = True
        self._parked()
        await trio.sleep_forever()
        raise AssertionError

    def came_late(self, action: str, result: outcome.Outcome[Any]) -> None:
        """Take what came back from an action that its tick had given up: proof, and nothing else (B4)."""
        if self.closed:
            return
        try:
            value, ending = returned(result.unwrap()), "done"
        except BaseException as error:
            value, ending = failure(error), "failed"
        late = Late(id=action, ending=ending, value=value)  # type: ignore[arg-type]
        self.put(late)
        self.late.append(late)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, tick: Tick, entry: Entry, question: Value) -> Value:
        """Return a person's answer, or NO_ANSWER."""
        entry.begin()
        try:
            found = self._served(tick, entry)
            last = found[-1] if found else None
            if last is not None and (not isinstance(last, Answer) or last.question != question):
                self._diverge(tick, entry, told(last), f"ask_human({question!r})")
            if last is None or last.standing:
                last = await self._asked(tick, entry, question, last)
            if last.cut:
                await trio.sleep_forever()
            return NO_ANSWER if last.no_answer else last.answer
        finally:
            entry.end()

    async def _asked(self, tick: Tick, entry: Entry, question: Value, standing: Answer | None) -> Answer:
        asker = self.asker if self.asker is not None else tick._member.desk.person("asker")
        head = _head(tick, entry)
        if asker is WAIT:
            if standing is None:
                self._keep(tick, Answer(**head, question=question, no_answer=True, standing=True))
            await self.wait_for_person(entry)
        try:
            said, timed_out = await self.person(asker, plain(question))
        except trio.Cancelled:
            tick.root.cuts.append(Answer(**head, question=question, no_answer=True, cut=True))
            raise
        answer, no_answer = None, said is NO_ANSWER
        if not no_answer:
            try:
                answer = freeze(said, "answer")
            except ValueRefused:
                no_answer = True  # what is no value cannot be told to anyone
        record = Answer(**head, question=question, answer=answer, no_answer=no_answer, timed_out=timed_out)
        self._keep(tick, record)
        return record

    # ── sub-agents ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def delegate(self, tick: Tick, entry: Entry, name: str, payload: Value) -> Value:
        """Return what a sub-agent made of a payload. It holds no slot while it waits for calls of its own (B3)."""
        entry.begin()
        lane: Tick | None = None
        ended_well = False
        try:
            desk = tick._member.desk
            if name not in desk.subagents:
                raise ScenarioError(
                    f"{tick._member.agent.name!r} has no sub-agent {name!r}.{suggestion(str(name), desk.subagents)}"
                )
            _, subagent = desk.subagents[name]
            if not subagent.with_tick:
                tool = Tool(name=name, function=subagent.function)
                work = Work(self, tick, entry, _Opaque(subagent), tool, payload, opaque=True)
                return await work.carried_out()
            await trio.lowlevel.checkpoint_if_cancelled()
            lane = tick.lane(entry)
            record = await self._in_lane(lane, entry, subagent, payload)
            self._compare(tick, entry, record)
            if record.ending != "done":
                raise ToolFailed(name, record.result["error"], record.result["message"])
            ended_well = True
            return record.result
        finally:
            entry.end()
            if lane is not None:
                lane.ends_lane()
                if ended_well:
                    tick.join(lane)

    async def _in_lane(self, lane: Tick, entry: Entry, subagent: SubAgent, payload: Value) -> Delegation:
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
            await _let_through(error)
            ending, value = "failed", failure(error)
        finally:
            lane._plain = False
        head = _head(lane._parent or lane, entry)
        return Delegation(**head, subagent=subagent.name, payload=payload, ending=ending, result=value)  # type: ignore[arg-type]

    def _compare(self, tick: Tick, entry: Entry, record: Delegation) -> None:
        """A sub-agent is code: it ran again, and must have come to what was recorded."""
        script = tick.root.script
        found = script.pop(entry.at, []) if script else []
        if not found:
            if self.replaying:
                self._diverge(tick, entry, "nothing: the journal ends here", told(record))
            self._keep(tick, record)
            return
        tick.root.records += found
        if found[-1] != record:
            self._diverge(tick, entry, told(found[-1]), told(record))


@attrs.define
class Work:
    """One action on its way through the gate."""

    gate: Gate
    tick: Tick
    entry: Entry
    host: Any
    tool: Tool
    arguments: Value
    opaque: bool = False
    id: str = attrs.field(init=False)
    verdict: str = "allow"
    rule: str | None = None

    def __attrs_post_init__(self) -> None:
        tick = self.tick
        self.id = action_id(
            tick._member.agent.name, tick._snapshot.round, tick.number, self.entry.at, self.tool.name, self.arguments
        )

    async def carried_out(self) -> Value:
        """Wait for the action's turn, see it to its end, and return the tool's value or raise what `tick.call` raises."""
        entry, root = self.entry, self.tick.root
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # once cancelled, no further crossing starts (J10)
            if entry.order is not None:
                if len(root.effects) > 1:
                    await self.gate._turn(entry)
                entry.holds = True
            return self.given(await self.ended())
        except trio.Cancelled:
            here = [record for record in (*root.cuts, *root.records) if record.at == entry.at]
            if not any(isinstance(record, (Result, Denial)) for record in here):
                begun = any(isinstance(record, Intent) for record in here)
                why = "given up by its tick while it waited"
                root.cuts.append(self._result("in_doubt" if begun else "not_executed", why=why, cut=True))
            raise

    async def ended(self) -> Result | Denial:
        """Carry the action out, or serve what was recorded of it; return how it ended."""
        found = self.gate._served(self.tick, self.entry)
        self._check_same(found)
        last = found[-1] if found else None
        if isinstance(last, (Result, Denial)):
            if last.cut:
                await trio.sleep_forever()
            return last
        intents = [record for record in found if isinstance(record, Intent)]
        if intents:
            self.verdict, self.rule = intents[0].verdict, intents[0].rule
            if self.gate.replaying:
                self.gate._diverge(
                    self.tick, self.entry, "an intent without result: the journal ends here", self.entry.what
                )
            return await self._settled(intents[-1].attempt, "the run was interrupted while it was in flight", False)
        denial = await self._judged(found)
        if denial is not None:
            self.gate._keep(self.tick, denial)
            return denial
        return await self._performed()

    def given(self, ended: Result | Denial) -> Value:
        """Return the tool's value, or raise what `tick.call` raises."""
        name = self.tool.name
        if isinstance(ended, Denial):
            by: Any = ended.verdict if ended.verdict in ("refused", "no_answer") else "rule"
            raise ActionDenied(name, by, ended.rule, ended.why)
        match ended.ending:
            case "done":
                return ended.value
            case "failed":
                raise ToolFailed(name, ended.value["error"], ended.value["message"])
            case "in_doubt":
                raise ActionInDoubt(name, ended.id, ended.why or "it did not answer")
            case _:
                raise ToolFailed(name, "NotExecuted", ended.why or "it was never sent")

    # ── leave ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _judged(self, found: list[Any]) -> Denial | None:
        """Return the denial, or None where the action may go on."""
        judge = self.tick._member.judge
        if judge is None or self.opaque:
            return None
        verdict = judge.verdict(self.tool.name, Facts(self.tick, self.arguments))
        self.rule = verdict.rule
        if verdict.verdict == "allow":
            return None
        if verdict.verdict != "approve":
            return self._denial(verdict.verdict, verdict.why)
        self.verdict = "approve"
        return await self._approved(found, verdict.why)

    async def _approved(self, found: list[Any], why: str | None) -> Denial | None:
        gate = self.gate
        said = [record for record in found if isinstance(record, Approval) and record.id == self.id]
        answered = next((record for record in reversed(said) if record.answer is not None or record.no_answer), None)
        if answered is None:
            approver = gate.approver if gate.approver is not None else self.tick._member.desk.person("approver")
            if approver is WAIT:
                if not said:
                    gate._keep(self.tick, self._approval(None))
                await gate.wait_for_person(self.entry)
            request = Request(self.id, self.tick._member.agent.name, self.tool.name, self.arguments, self.rule or "")
            try:
                answer, timed_out = await gate.person(approver, request)
            except trio.Cancelled:
                self.tick.root.cuts.append(self._denial("no_answer", "given up by its tick", cut=True))
                raise
            if answer is NO_ANSWER:
                return self._denial("no_answer", "no answer in time" if timed_out else why, timed_out=timed_out)
            answered = self._approval(answer is True)
            gate._keep(self.tick, answered)
        if answered.no_answer:
            return self._denial("no_answer", why)
        return None if answered.answer is True else self._denial("refused", why)

    def _approval(self, answer: bool | None) -> Approval:
        return Approval(
            **_head(self.tick, self.entry),
            id=self.id,
            tool=self.tool.name,
            arguments=self.arguments,
            rule=self.rule or "",
            answer=answer,
        )

    def _denial(self, verdict: Any, why: str | None, *, timed_out: bool = False, cut: bool = False) -> Denial:
        return Denial(
            **_head(self.tick, self.entry),
            id=self.id,
            tool=self.tool.name,
            arguments=self.arguments,
            verdict=verdict,
            rule=self.rule,
            why=why,
            timed_out=timed_out,
            cut=cut,
        )

    # ── the effect ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _performed(self) -> Result:
        result = await self._attempt(1)
        if result.ending == "in_doubt" and not self.tick.is_over():
            return await self._settled(1, result.why or "", result.timed_out)
        return await self._kept(result)

    async def _settled(self, attempts: int, why: str, timed_out: bool) -> Result:
        """Settle a doubt (J4): call an idempotent tool again, else ask the reconciler, else let it stand."""
        if self.tool.idempotent and not self.opaque:
            while attempts < ATTEMPTS:
                attempts += 1
                result = await self._attempt(attempts, settled="repeated")
                if result.ending in ("done", "failed"):
                    return await self._kept(result)
        told_by = self.tick._member.desk.reconcilers.get(self.tool.name)
        if told_by is not None and not self.opaque:
            settled = await self._reconciled(told_by, attempts)
            if settled is not None:
                return await self._kept(settled)
        return await self._kept(self._result("in_doubt", why=why, timed_out=timed_out))

    async def _reconciled(self, told_by: tuple[Any, Callable[..., Any]], attempts: int) -> Result | None:
        _, reconciler = told_by
        doubt = Doubt(
            self.id,
            idempotency_key(self.gate.run_id, self.id),
            self.tick._member.agent.name,
            self.tick._snapshot.round,
            self.tool.name,
            self.arguments,
        )
        try:
            place = await self.gate.tools.acquire()
        except AllGivenUp:
            return None
        try:
            with trio.move_on_after(self._timeout()) as scope:
                found = await called(reconciler, place, True, doubt)
        except trio.Cancelled:
            self._cut(place, "given up by its tick while it was being settled")
            raise
        except BaseException as error:
            await _let_through(error)
            return None  # it cannot tell: the doubt stands
        finally:
            place.release()
        if scope.cancelled_caught:
            return None
        if found is not NOT_EXECUTED:
            return self._result("done", value=returned(found), settled="reconciled")
        again = await self._attempt(attempts + 1, settled="executed")
        return again if again.ending in ("done", "failed") else None

    async def _attempt(self, attempt: int, settled: str | None = None) -> Result:
        """Call the tool once: slot, intent on disk, call. The result is not written yet."""
        gate, tick = self.gate, self.tick
        slots = gate.subagents if self.opaque else gate.tools
        try:
            place = await slots.acquire()
        except AllGivenUp as gone:
            return self._result("not_executed" if attempt == 1 else "in_doubt", why=str(gone))
        try:
            action = CurrentAction(
                self.id,
                idempotency_key(gate.run_id, self.id),
                tick._member.agent.name,
                tick._snapshot.round,
                attempt,
            )
            gate._keep(tick, self._intent(attempt))
            try:
                await gate.durable()
                await trio.lowlevel.checkpoint_if_cancelled()
            except trio.Cancelled:
                self._cut(place, "given up by its tick before it was sent")
                raise
            return await self._called(place, action, settled)
        finally:
            place.release()

    async def _called(self, place: Place, action: CurrentAction, settled: str | None) -> Result:
        place.on_late = lambda result: self.gate.came_late(self.id, result)
        permit = permits.give(action, self.tool.name, self.arguments, place)
        token = permits._current.set(action)
        try:
            with trio.CancelScope() as scope:
                self.entry.scope = scope
                timeout = self._timeout()
                if timeout != float("inf"):
                    scope.deadline = trio.current_time() + timeout
                value = await self.host.invoke(self.tool.name, self.arguments, permit)
        except trio.Cancelled:
            self._cut(place, "given up by its tick before it was sent" if not place.began else "given up by its tick")
            raise
        except NotAnswered as silent:
            return self._result("in_doubt", why=str(silent))
        except NeverSent as unsent:
            return self._result("not_executed", why=str(unsent), settled=settled)
        except BaseException as error:
            await _let_through(error)
            if scope.cancel_called:
                return self._result("in_doubt", why="no answer in time", timed_out=True)
            return self._result("failed", value=failure(error), settled=settled)
        finally:
            permits._current.reset(token)
        # A function that turned its cancellation into a return value is no proof of anything.
        if scope.cancelled_caught or (scope.cancel_called and place.interruptible):
            if not place.began:
                return self._result("not_executed", why="no answer in time: it was never sent", timed_out=True)
            return self._result("in_doubt", why="no answer in time", timed_out=True)
        return self._result("done", value=returned(value), settled=settled)

    def _timeout(self) -> float:
        if self.opaque:
            return float("inf")
        timeout = self.tool.timeout if self.tool.timeout is not None else self.gate.limits.tool_timeout
        return float("inf") if timeout is None else timeout

    def _cut(self, place: Place, why: str) -> None:
        """Remember that the tick gave the action up; it is recorded if the tick goes on (J3)."""
        ending = "in_doubt" if place.began else "not_executed"
        self.tick.root.cuts.append(self._result(ending, why=why, cut=True))

    async def _kept(self, result: Result) -> Result:
        """Write the result down, on disk before anyone uses it."""
        if self.tick.is_over():
            if result.ending in ("done", "failed"):
                self.gate.came_late(self.id, outcome.Value(result.value))
        else:
            self.gate._keep(self.tick, result)
            await self.gate.durable()
        return result

    def _intent(self, attempt: int) -> Intent:
        return Intent(
            **_head(self.tick, self.entry),
            id=self.id,
            tool=self.tool.name,
            arguments=self.arguments,
            verdict=self.verdict,
            rule=self.rule,
            attempt=attempt,
            opaque=self.opaque,
        )

    def _result(
        self,
        ending: Any,
        *,
        value: Value = None,
        why: str | None = None,
        timed_out: bool = False,
        settled: str | None = None,
        cut: bool = False,
    ) -> Result:
        head = _head(self.tick, self.entry)
        why = None if why is None else str(freeze(why))
        return Result(
            **head, id=self.id, ending=ending, value=value, why=why, timed_out=timed_out, settled=settled, cut=cut
        )

    def _check_same(self, found: list[Any]) -> None:
        for record in found:
            if getattr(record, "id", None) == self.id:
                continue
            if isinstance(record, Approval) and all(isinstance(other, Approval) for other in found):
                continue  # a yes for other arguments is void
            self.gate._diverge(self.tick, self.entry, told(record), f"{self.tool.name}({plain(self.arguments)!r})")


class NotAnswered(Exception):
    """Raised by a host whose far end died during a call: the effect may have happened."""


class NeverSent(Exception):
    """Raised by a host that could not send a call at all: the effect has not happened."""


@attrs.define
class _Opaque:
    """A sub-agent without a tick, called like a tool."""

    subagent: SubAgent

    async def invoke(self, tool: str, arguments: Value, permit: Any) -> Any:
        granted = permits.check(permit, tool, arguments)
        return await called(self.subagent.function, granted.place, True, plain(arguments))


def returned(value: Any) -> Value:
    """Return what a tool returned, frozen; where it is no value the action is done all the same (V4)."""
    try:
        return freeze(value, "result")
    except ValueRefused as refused:
        return f"not representable ({refused.path}: {refused.found})"


def failure(error: BaseException) -> Value:
    """Return the type and message of an error as a value."""
    kind, message = described(error)
    return freeze({"error": kind, "message": message})


def told(record: Any) -> str:
    """Return a recorded crossing in a few words, for a divergence."""
    match record:
        case Read():
            return f"read {record.sensor}"
        case Answer():
            return f"ask_human({record.question!r})"
        case Delegation():
            return (
                f"delegate({record.subagent!r}, {plain(record.payload)!r}) → {record.ending} {plain(record.result)!r}"
            )
        case Intent() | Denial() | Approval():
            return f"{record.tool}({plain(record.arguments)!r})"
    return type(record).__name__.lower()


async def _let_through(error: BaseException) -> None:
    """Raise what no boundary may swallow: a cancellation of ours, and the interrupt from the keyboard."""
    found = leaves(error)
    for leaf in found:
        if isinstance(leaf, (KeyboardInterrupt, GeneratorExit, ReplayDivergence)):
            raise leaf
    if any(isinstance(leaf, trio.Cancelled) for leaf in found):
        await trio.lowlevel.checkpoint_if_cancelled()


def _head(tick: Tick, entry: Entry) -> dict[str, Any]:
    return {
        "round": tick._snapshot.round,
        "agent": tick._member.agent.name,
        "tick": tick.number,
        "at": entry.at,
    }
