"""Asking a model inside a tick: one call as a crossing, an answer with a contract, and the agent loop.

    tick.reason   "3"    its one model call is "3.1"
    tick.act      "3"    a lane: model calls and tool calls are "3.1", "3.2", … in the order in which they are made

A model call goes: what is recorded of it, else a slot, the call within its timeout, the record (J1, J3). What follows
from a reply is computed again on resume and compared with what was recorded. A silent model is no error: the loop ends
as `model_silent`, the answer is its defaults, and `tick.degraded` says so (B5).

Calls of one agent have numbers, by which scripted models pick their replies. They follow the ordinals, whatever
overlaps: a question that is asked while an earlier loop or sub-agent of its tick is not done waits for it. For a model
that answers by number, and under a budget of the agent's own, all calls are made one after another; so neither a
script nor a budget is dealt out in order of arrival (L6).

Knows: the gate, the order of steps, which number a call has and what its agent may still use.
Does not know: how a model is reached, what a stop reason means, or what an agent is told (`briefing.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import trio

from society.acts import ActResult
from society.budget import Usage, used
from society.entry import Entry
from society.errors import MalformedReply, ModelSilent, ScenarioError, SocietyError, described
from society.history import History, history_of
from society.loop import Ask, Call, End, Loop, batches, begin
from society.models import Model as AnyModel
from society.models import Request, asked, chosen, request_body
from society.reason import Contract, contract_of, question_text, read, recorded
from society.records import Act, Model, Reason, order
from society.replaying import NOTHING
from society.results import CallResult
from society.slots import AllGivenUp
from society.spending import Spent
from society.thread import Thread
from society.tick import Tick
from society.toolbox import Toolbox, all_answered, toolbox
from society.values import FrozenDict, freeze
from society.work import head, let_through, told

if TYPE_CHECKING:
    from society.gate import Gate

ENLARGE = 4
"""A call that `max_tokens` cut off is asked for once more with this many times the room."""


@attrs.frozen(kw_only=True)
class Question:
    """What `tick.reason` asks."""

    contract: Contract
    text: str
    system: str | None
    max_tokens: int
    model: str | None


@attrs.frozen(kw_only=True)
class Job:
    """What `tick.act` asks for."""

    history: History
    tools: tuple[str, ...]
    system: str | None
    max_tokens: int
    max_turns: int
    model: str | None


@attrs.define
class Account:
    """What one agent used of models up to now: the state before the round, and the round's calls so far."""

    spent: Spent
    taken: int
    """Numbers given to calls."""

    def number(self) -> int:
        self.taken += 1
        return self.taken


class Asking:
    """The models of one run."""

    def __init__(self, gate: Gate, models: Mapping[str, AnyModel]) -> None:
        self.gate = gate
        self.models = models
        self.width = gate.width
        self.threads: dict[str, Thread] = {}
        """What model-driven agents remembered when they were asked last: never needed, and quicker than to read it again."""
        self._round = 0
        self._accounts: dict[str, Account] = {}
        self._boxes: dict[tuple[int, tuple[str, ...]], Toolbox] = {}

    def stats(self) -> dict[str, Any]:
        """Return the numbers of the slots and of the width, which a crowded service makes narrower."""
        return {**self.gate.llm.stats(), **self.width.stats()}

    # ── an answer with a contract ───────────────────────────────────────────────────────────────────────────────────

    def question(
        self,
        answer: type[Any],
        question: str,
        using: Mapping[str, Any] | None,
        system: str | None,
        model: str | None,
        max_tokens: int,
    ) -> Question:
        """Return what is asked.

        Raises:
            ScenarioError: `answer` cannot be asked for.
            ValueRefused: `using` holds something that is no value.
        """
        text = str(freeze(question_text(question, using)))
        return Question(contract=contract_of(answer), text=text, system=system, max_tokens=max_tokens, model=model)

    def reason(self, tick: Tick, entry: Entry, question: Question) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that gives an instance of the answer class."""
        model = self.model(tick, question.model)
        number: int | None = None
        if self._in_order(tick, model) or _comes_after(entry):
            entry.order, entry.asks = order(entry.at), True
        else:
            number = self._account(tick).number()
        return self._reasoned(tick, entry, model, question, number)

    async def _reasoned(
        self, tick: Tick, entry: Entry, model: AnyModel | None, question: Question, number: int | None
    ) -> Any:
        entry.begin()
        try:
            if entry.order is not None:
                await self.gate.turn(entry)
                entry.holds = True
            why = self._used_up(tick)
            record = None if why else await self._asked_once(tick, entry, model, question, number)
            reply = None if record is None else record.reply
            found = read(question.contract, reply, why or _why(record))
            degraded = found.degraded or found.why != ""
            place = head(tick, entry)
            answer = recorded(found.answer)
            await self.gate.compare(
                tick,
                entry,
                Reason(
                    **place,
                    question=question.text,
                    answer=answer,
                    degraded=degraded,
                    missing=list(found.missing),
                    why=str(freeze(found.why)) or None,
                ),
            )
            if degraded:
                tick.root.degraded_by = found.why or f"missing: {', '.join(found.missing)}"
            return found.answer
        finally:
            entry.end()

    async def _asked_once(
        self, tick: Tick, entry: Entry, model: AnyModel | None, question: Question, number: int | None
    ) -> Model:
        contract = question.contract
        said: dict[str, Any] = {
            "messages": [{"role": "user", "content": question.text}],
            "max_tokens": question.max_tokens,
        }
        # One digest however the contract is conveyed: a run is replayed, or its answers kept, for another model.
        digest = _digest({**said, "system": question.system, "schema": contract.schema})
        conveyed: dict[str, Any] = contract.structured() if getattr(model, "structured", False) else contract.forced()
        body = request_body(system=question.system, **said, **conveyed)
        inner = Entry(tick, f"{entry.at}.1", "the model", entry.line)
        return await self._answer(tick, inner, entry, model, body, digest, number)

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────────

    def job(
        self,
        prompt: str | None,
        messages: Sequence[Any] | History,
        tools: Sequence[str],
        system: str | None,
        max_tokens: int,
        max_turns: int,
        model: str | None,
    ) -> Job:
        """Return what is to be done.

        Raises:
            ScenarioError: There is nothing to go on from, `messages` are no whole exchanges, or `tools` is one text.
        """
        if isinstance(tools, str):
            raise ScenarioError(f"tools is a list of names, not the text {tools!r}.")
        history = messages if isinstance(messages, History) else history_of(messages)
        if prompt is not None:
            history = history.asked(str(freeze(prompt)))
        if not history.messages:
            raise ScenarioError("act needs a prompt, or messages to go on from.")
        return Job(
            history=history,
            tools=tuple(tools),
            system=system,
            max_tokens=max_tokens,
            max_turns=max_turns,
            model=model,
        )

    def act(self, tick: Tick, entry: Entry, job: Job) -> Coroutine[Any, Any, ActResult]:
        """Return the coroutine that gives an `ActResult`. Like a delegation it has its turn among the effects (B8)."""
        model = self.model(tick, job.model)
        state = begin(
            job.history, max_turns=job.max_turns, max_tokens=job.max_tokens, enlarged_tokens=job.max_tokens * ENLARGE
        )
        entry.order, entry.asks = order(entry.at), True
        return self._acted(tick, entry, model, job, state)

    async def _acted(self, tick: Tick, entry: Entry, model: AnyModel | None, job: Job, state: Loop) -> ActResult:
        """Drive a loop. It holds no slot while it waits for calls of its own (B3)."""
        entry.begin()
        lane: Tick | None = None
        ended = False
        try:
            await self.gate.turn(entry)
            entry.holds = True
            await self.gate.goes_on(tick, entry)
            lane = tick.lane(entry)
            lane.begins(plain=False)
            spending = _Spending()
            box = self._box(tick, job.tools)
            while not isinstance(step := state.step, End):
                # A tool may have swallowed a cancellation. Nothing further starts all the same (P27).
                await self.gate.goes_on(tick, entry)
                if isinstance(step, Ask):
                    state = await self._asked_in_loop(lane, model, job, box, state, step, spending)
                else:
                    state = state.answered(await self._run(lane, entry, box, step.calls))
            record = Act(**head(tick, entry), outcome=step.outcome, reason=str(freeze(step.reason)), turns=state.turns)
            await self.gate.compare(tick, entry, record)
            ended = True
            return ActResult(
                outcome=step.outcome,
                text=step.text,
                messages=state.messages,
                turns=state.turns,
                usage=spending.usage,
                cost_usd=spending.cost_usd,
                reason=step.reason,
            )
        finally:
            if lane is not None:
                lane.ends_lane()
                if ended:
                    tick.join(lane)
            entry.end()

    async def _asked_in_loop(
        self,
        lane: Tick,
        model: AnyModel | None,
        job: Job,
        box: Toolbox,
        state: Loop,
        step: Ask,
        spending: _Spending,
    ) -> Loop:
        if why := self._used_up(lane):
            lane.root.degraded_by = why
            return state.stop("budget", why)
        body = request_body(messages=step.messages, max_tokens=step.max_tokens, system=job.system, tools=box.wire)
        entry = lane._ask("model", "the model")
        record = await lane._crossing(entry, self._in_lane(lane, entry, model, body))
        assert isinstance(record, Model)
        spending.add(record)
        if record.reply is not None:
            return state.replied(record.reply)
        if record.malformed is not None:
            return state.malformed(record.malformed)
        lane.root.degraded_by = record.silent
        return state.stop("model_silent", record.silent or "")

    async def _in_lane(self, lane: Tick, entry: Entry, model: AnyModel | None, body: FrozenDict) -> Model:
        entry.begin()
        try:
            return await self._answer(lane, entry, entry, model, body, _digest(body), None)
        finally:
            entry.end()

    async def _run(self, lane: Tick, within: Entry, box: Toolbox, calls: tuple[Call, ...]) -> list[CallResult]:
        """Carry out the calls of a turn: neighbors that only read at once, effects in request order (L5)."""
        results: dict[int, CallResult] = {}
        for batch in batches(calls, box.overlaps):
            await self.gate.goes_on(lane, within)
            await all_answered(lane, box, batch, results)
        return [results[call.index] for call in calls]

    def _box(self, tick: Tick, tools: tuple[str, ...]) -> Toolbox:
        desk = tick._member.desk
        key = id(desk), tools
        if key not in self._boxes:
            self._boxes[key] = toolbox(desk, tools, tick._member.agent.name)
        return self._boxes[key]

    # ── one call ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _answer(
        self,
        tick: Tick,
        entry: Entry,
        within: Entry,
        model: AnyModel | None,
        body: FrozenDict,
        digest: str,
        number: int | None,
    ) -> Model:
        """Return the record of a model call, made now or long ago.

        Args:
            within: The crossing whose scope ends the call when its tick ends.
            number: Of the agent's call; `None` to take the next one.
        """
        account = self._account(tick)
        number = account.number() if number is None else number
        found = self.gate.served(tick, entry)
        if found:
            record = found[-1]
            if not isinstance(record, Model) or record.request != digest:
                await self.gate.diverge(tick, entry, told(record), f"model request {digest}: {_last_words(body)}")
            if record.cut:
                await self.gate.until_given_up(tick, entry, record)
        elif self.gate.replaying is not None:
            await self.gate.unrecorded(tick, entry, NOTHING, f"model request {digest}: {_last_words(body)}")
        else:
            record = await self._called(tick, entry, within, model, body, digest, number)
            self.gate.keep(tick, record)
        account.spent = account.spent.with_call(record)
        return record

    async def _called(
        self,
        tick: Tick,
        entry: Entry,
        within: Entry,
        model: AnyModel | None,
        body: FrozenDict,
        digest: str,
        number: int,
    ) -> Model:
        assert model is not None, "without a model only what was recorded is asked for"
        place = head(tick, entry)
        cut = Model(**place, request=digest, cut=True)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # once cancelled, no further crossing starts (J10)
            slot = await self.gate.llm.acquire()
        except trio.Cancelled:
            tick.root.cuts.append(cut)
            raise
        except AllGivenUp as gone:
            return Model(**place, request=digest, silent=str(gone))
        request = Request(
            body,
            agent=tick._member.agent.name,
            round=tick._snapshot.round,
            ordinal=entry.at,
            call=number,
            seed=tick._snapshot.seed,
            width=self.width,
        )
        seconds = self.gate.limits.llm_timeout
        came: dict[str, Any] = {}
        try:
            with trio.CancelScope() as scope:
                within.scope = scope
                if seconds is not None:
                    scope.deadline = trio.current_time() + seconds
                came = await self._came(model, request)
        except trio.Cancelled:
            tick.root.cuts.append(cut)
            raise
        finally:
            slot.release()
        if scope.cancel_called:
            said = f"no answer within {seconds:g} seconds" if seconds is not None else "given up"
            return Model(**place, request=digest, silent=said, timed_out=True)
        return Model(**place, request=digest, **came)

    async def _came(self, model: AnyModel, request: Request) -> dict[str, Any]:
        """Return what came of a call, as fields of its record."""
        try:
            reply = await asked(model, request)
        except MalformedReply as error:
            return {"malformed": str(freeze(str(error)))}
        except ModelSilent as error:
            return {"silent": str(freeze(error.why))}
        except SocietyError:
            raise  # the scenario's or the behavior's own mistake
        except BaseException as error:
            # A model is anybody's code and stands for a service: whatever it raises, the service has failed.
            await let_through(error)
            return {"silent": str(freeze(": ".join(part for part in described(error) if part)))}
        price = getattr(model, "price", None)
        return {"reply": reply, "nano_usd": None if price is None else price.nano_usd(used(reply))}

    # ── who is asked, and how much is left ──────────────────────────────────────────────────────────────────────────

    def model(self, tick: Tick, name: str | None) -> AnyModel | None:
        """Return the model of that name; without one the agent's, or the only one. `None` in a replay without models.

        Raises:
            ScenarioError: There is none of that name, or several and nothing says which.
        """
        agent = tick._member.agent
        if self.gate.replaying and not self.models:
            return None
        return chosen(self.models, name if name is not None else agent.model, agent.name)

    def _in_order(self, tick: Tick, model: AnyModel | None) -> bool:
        return getattr(model, "answers_by_number", False) or tick._member.agent.budget is not None

    def _account(self, tick: Tick) -> Account:
        if self._round != tick._snapshot.round:
            self._round, self._accounts = tick._snapshot.round, {}
        name = tick._member.agent.name
        account = self._accounts.get(name)
        if account is None:
            spent = tick._snapshot.before.spent.get(name, Spent())
            account = self._accounts[name] = Account(spent, spent.asked)
        return account

    def _used_up(self, tick: Tick) -> str:
        """Return which bound of the agent's own budget is reached, or an empty text."""
        budget = tick._member.agent.budget
        if budget is None:
            return ""
        spent = self._account(tick).spent
        return budget.spent_by(spent, spent.nano_usd) or ""


def _comes_after(entry: Entry) -> bool:
    """Tell whether an earlier loop or sub-agent of this tick is not done: how many calls it will make is not known."""
    at = order(entry.at)
    return any(
        other.asks and (earlier := order(other.at)) < at and at[: len(earlier)] != earlier
        for other in entry.tick.root.entries
    )


@attrs.define
class _Spending:
    usage: Usage = attrs.field(factory=Usage)
    nano_usd: int | None = 0

    def add(self, record: Model) -> None:
        if record.reply is None:
            return
        self.usage += used(record.reply)
        known = self.nano_usd is not None and record.nano_usd is not None
        self.nano_usd = (self.nano_usd or 0) + (record.nano_usd or 0) if known else None

    @property
    def cost_usd(self) -> float | None:
        return None if self.nano_usd is None else self.nano_usd / 1e9


def _why(record: Model | None) -> str:
    if record is None:
        return "the model was not asked"
    return record.silent or record.malformed or "the model was silent"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def _last_words(body: FrozenDict) -> str:
    """Return the end of what was asked, so that a difference can be found by eye."""
    content = body["messages"][-1]["content"] if body["messages"] else ""
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return repr(text if len(text) <= 200 else "…" + text[-200:])
