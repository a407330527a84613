"""One action on its way through the gate: from its turn to its result on disk.

    turn ─▶ policy ─▶ approval ─▶ slot ─▶ intent on disk ─▶ permit and call ─▶ result on disk      (K2)

Knows: one action, what was recorded of it, and how a doubt about it is settled (J4).
Does not know: other crossings; order among effects is the gate's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Any

import attrs
import outcome
import trio

from society import permit as permits
from society.draw import action_id, idempotency_key
from society.entry import Entry
from society.errors import (
    ActionDenied,
    ActionInDoubt,
    ReplayDivergence,
    ToolFailed,
    ValueRefused,
    described,
    is_closing,
    leaves,
)
from society.host import SubAgent, Tool, called, explained
from society.permit import CurrentAction
from society.records import Act, Answer, Approval, Delegation, Denial, Intent, Model, Read, Reason, Result, order
from society.replaying import NOTHING
from society.slots import AllGivenUp, Place
from society.tick import Tick
from society.values import NO_ANSWER, NOT_EXECUTED, WAIT, FrozenDict, Value, freeze, plain

if TYPE_CHECKING:
    from society.gate import Gate

ATTEMPTS = 2
"""Calls in all of an idempotent tool whose action is in doubt (J4)."""


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
    judged: bytes = attrs.field(init=False)
    """The arguments as they were written when they were asked for: nothing else is sent."""
    verdict: str = "allow"
    rule: str | None = None

    def __attrs_post_init__(self) -> None:
        tick = self.tick
        self.id = action_id(
            tick._member.agent.name, tick._snapshot.round, tick.number, self.entry.at, self.tool.name, self.arguments
        )
        self.judged = permits.written(self.arguments)

    async def through(self) -> Value:
        """See the action to its end; return the tool's value, or raise what `tick.call` raises.

        One long function and no helpers on the way: each would be a frame more for every call that is in flight.
        """
        gate, entry, root = self.gate, self.entry, self.tick.root
        entry.begin()
        try:
            known = root.script.get(entry.at) if root.script else None
            # What has happened starts no more: it has no turn to wait for, and is served to who is cancelled, too.
            if not (known and isinstance(known[-1], (Result, Denial))):
                await trio.lowlevel.checkpoint_if_cancelled()  # once cancelled, no further crossing starts (J10)
                if entry.order is not None:
                    if len(root.entries) > 1:
                        await gate.turn(entry)
                    entry.holds = True
            found = gate.served(self.tick, entry)
            if not found and gate.replaying is not None:
                await gate.unrecorded(self.tick, entry, NOTHING, self._asked())
            ended: Result | Denial | None = await self._recorded(found) if found else None
            if ended is None and self.tick._member.judge is not None:
                ended = await self._judged(found)
                if ended is not None:
                    gate.keep(self.tick, ended)
            if ended is None:
                ended = await self._attempt(1)
                if ended.ending == "in_doubt" and not self.tick.is_over():
                    ended = await self._settled(1, ended.why or "", ended.timed_out)
                else:
                    await self._kept(ended)
        except trio.Cancelled:
            gate.served(self.tick, entry)  # where it was given up before its turn
            here = [record for record in (*root.cuts, *root.records) if record.at == entry.at]
            if not any(isinstance(record, (Result, Denial)) for record in here):
                begun = any(isinstance(record, Intent) for record in here)
                why = "given up by its tick while it waited"
                root.cuts.append(self._result("in_doubt" if begun else "not_executed", why=why, cut=True))
            raise
        finally:
            entry.end()
        return self.given(ended)

    async def _recorded(self, found: list[Any]) -> Result | Denial | None:
        """Serve what was recorded of the action; None where only its approval was."""
        await self._check_same(found)
        last = found[-1]
        if isinstance(last, (Result, Denial)):
            if last.cut:
                await self.gate.until_given_up(self.tick, self.entry, last)
            return last
        intents = [record for record in found if isinstance(record, Intent)]
        if self.gate.replaying is not None:
            await self.gate.unrecorded(self.tick, self.entry, f"{told(last)} without a result", self._asked())
        if not intents:
            return None
        self.verdict, self.rule = intents[0].verdict, intents[0].rule
        return await self._settled(intents[-1].attempt, "the run was interrupted while it was in flight", False)

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
        assert judge is not None
        args = FrozenDict({"payload": self.arguments}) if self.opaque else self.arguments
        verdict = judge.verdict(self.tool.name, Facts(self.tick, args))
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
                    gate.keep(self.tick, self._approval(None))
                await gate.wait_for_person(self.entry)
            request = Request(self.id, self.tick._member.agent.name, self.tool.name, self.arguments, self.rule or "")
            try:
                answer, timed_out, silent = await gate.person(approver, request)
            except trio.Cancelled:
                self.tick.root.cuts.append(self._denial("no_answer", "given up by its tick", cut=True))
                raise
            if answer is NO_ANSWER:
                return self._denial("no_answer", silent or why, timed_out=timed_out)
            answered = self._approval(answer is True)
            gate.keep(self.tick, answered)
        if answered.no_answer:
            return self._denial("no_answer", why)
        return None if answered.answer is True else self._denial("refused", why)

    def _approval(self, answer: bool | None) -> Approval:
        return Approval(
            **head(self.tick, self.entry),
            id=self.id,
            tool=self.tool.name,
            arguments=self.arguments,
            rule=self.rule or "",
            answer=answer,
        )

    def _denial(self, verdict: Any, why: str | None, *, timed_out: bool = False, cut: bool = False) -> Denial:
        return Denial(
            **head(self.tick, self.entry),
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
            with trio.move_on_after(self._timeout() or float("inf")) as scope:
                found = await called(reconciler, place, True, doubt)
        except trio.Cancelled:
            self._cut(place, "given up by its tick while it was being settled")
            raise
        except BaseException as error:
            await let_through(error)
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
        try:
            place = await (gate.subagents if self.opaque else gate.tools).acquire()
        except AllGivenUp as gone:
            if attempt == 1:
                gate.keep(tick, self._intent(attempt))  # so that the trace has it, like every action
            return self._result("not_executed" if attempt == 1 else "in_doubt", why=str(gone))
        scope: trio.CancelScope | None = None
        token: Token[Any] | None = None
        permit: permits.Permit | None = None
        try:
            gate.keep(tick, self._intent(attempt))
            if gate.journal is not None:
                await gate.durable()
            await trio.lowlevel.checkpoint_if_cancelled()
            name, timeout = self.tool.name, self._timeout()
            place_in_round = (tick.root.place, *order(self.entry.at))
            action = CurrentAction(
                self.id, tick._member.agent.name, tick._snapshot.round, attempt, place_in_round, gate.run_id
            )
            place.on_late = self._came_late
            permit = permits.give(action, name, self.arguments, place, self.judged)
            token = permits.current.set(action)
            if timeout is None:
                value = await self.host.invoke(name, self.arguments, permit)
            else:
                with trio.CancelScope(deadline=trio.current_time() + timeout) as scope:
                    self.entry.scope = scope
                    value = await self.host.invoke(name, self.arguments, permit)
        except trio.Cancelled:
            self._cut(place, "given up by its tick" if place.began else "given up by its tick before it was sent")
            raise
        except NotAnswered as silent:
            return self._result("in_doubt", why=str(silent))
        except NeverSent as unsent:
            return self._result("not_executed", why=str(unsent), settled=settled)
        except BaseException as error:
            await let_through(error)
            if gate.broken or token is None:  # it is our own, or the journal's: the tool was not called
                raise
            if scope is not None and scope.cancel_called:
                return self._result("in_doubt", why="no answer in time", timed_out=True)
            return self._result("failed", value=failure(explained(error, self.tool.name)), settled=settled)
        finally:
            if token is not None and permit is not None:
                permits.current.reset(token)
                permits.void(permit)
            place.release()
        # A function that turned its cancellation into a return value is no proof of anything.
        if scope is not None and (scope.cancelled_caught or (scope.cancel_called and place.interruptible)):
            if not place.began:
                return self._result("not_executed", why="no answer in time: it was never sent", timed_out=True)
            return self._result("in_doubt", why="no answer in time", timed_out=True)
        return self._result("done", value=returned(value), settled=settled)

    def _came_late(self, result: outcome.Outcome[Any]) -> None:
        self.gate.came_late(self.id, result)

    def _timeout(self) -> float | None:
        if self.opaque:
            return None
        return self.tool.timeout if self.tool.timeout is not None else self.gate.limits.tool_timeout

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
            self.gate.keep(self.tick, result)
            await self.gate.durable()
        return result

    def _intent(self, attempt: int) -> Intent:
        return Intent(
            **head(self.tick, self.entry),
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
        return Result(
            **head(self.tick, self.entry),
            id=self.id,
            ending=ending,
            value=value,
            why=None if why is None else str(freeze(why)),
            timed_out=timed_out,
            settled=settled,
            cut=cut,
        )

    async def _check_same(self, found: list[Any]) -> None:
        for record in found:
            if getattr(record, "id", None) == self.id:
                continue
            if isinstance(record, Approval) and all(isinstance(other, Approval) for other in found):
                continue  # a yes for other arguments is void
            await self.gate.diverge(self.tick, self.entry, told(record), self._asked())

    def _asked(self) -> str:
        return f"{self.tool.name}({plain(self.arguments)!r})"


class NotAnswered(Exception):
    """Raised by a host whose far end died during a call: the effect may have happened."""


class NeverSent(Exception):
    """Raised by a host that could not send a call at all: the effect has not happened."""


@attrs.define
class Opaque:
    """A sub-agent without a tick, called like a tool."""

    subagent: SubAgent

    async def invoke(self, tool: str, arguments: Value, permit: Any) -> Any:
        granted = permits.check(permit, tool, arguments)
        return await called(self.subagent.function, granted.place, True, plain(granted.arguments))


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
        case Model():
            return f"model request {record.request}"
        case Reason():
            return f"reason({record.question!r}) → {plain(record.answer)!r}"
        case Act():
            return f"act → {record.outcome} after {record.turns} turns"
        case Intent() | Denial() | Approval():
            return f"{record.tool}({plain(record.arguments)!r})"
    return type(record).__name__.lower()


async def let_through(error: BaseException) -> None:
    """Raise what no boundary may swallow: a cancellation of ours, the interrupt from the keyboard, being closed."""
    if is_closing(error):
        raise error
    found = leaves(error)
    for leaf in found:
        if isinstance(leaf, (KeyboardInterrupt, ReplayDivergence)):
            raise leaf
    if any(isinstance(leaf, trio.Cancelled) for leaf in found):
        await trio.lowlevel.checkpoint_if_cancelled()


def head(tick: Tick, entry: Entry) -> dict[str, Any]:
    return {
        "round": tick._snapshot.round,
        "agent": tick._member.agent.name,
        "tick": tick.number,
        "at": entry.at,
    }
