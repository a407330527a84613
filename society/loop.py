"""The agent loop as a state machine: a reply goes in, the next step comes out.

    state = begin([{"role": "user", "content": "…"}], max_turns=20, max_tokens=4096)
    while not isinstance(step := state.step, End):
        match step:
            case Ask():  state = state.replied(ask_the_model(step))      # or .malformed(…), .stop("model_silent", …)
            case Run():  state = state.answered([run(call) for call in step.calls])

It is driven by `stop_reason` alone (L1): `ROWS` has a row for each one that the SDK knows, and `UNKNOWN_STOP` is for
the rest. Text is never read for intent, and only an exact `tool_use` runs calls.

A state is frozen and computed from what went in, so a driver rebuilds it from recorded replies and results. History
grows by whole exchanges: a call and its answer enter it together, so a request with an unanswered call cannot be
expressed.

A turn is one exchange: a reply that was accepted, pauses included, with the answers to its calls. Requests that are
sent again (a malformed reply, a call cut off by the token limit) add to `asked` and not to `turns`.

Knows: stop reasons, turns, and how a history is built.
Does not know: models, tools, time, or money. Guards other than `max_turns` are told to it by `stop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from society.errors import ScenarioError
from society.history import History, Ids, free_id, history_of
from society.replies import calls_of, text_of
from society.results import CallResult, not_run
from society.values import EMPTY, FrozenDict, FrozenList, Value

Outcome: TypeAlias = Literal[
    "done", "truncated", "refused", "context_full", "malformed", "unknown_stop",
    "max_turns", "budget", "model_silent", "cancelled",
]  # fmt: skip
"""How a loop ends. Only `done` is success; the last four are guards."""

Then: TypeAlias = Literal["end", "run", "resend"]


@attrs.frozen
class Row:
    """What follows from one stop reason."""

    then: Then
    outcome: Outcome | None = None
    """Of an end."""
    keep: bool = True
    """Whether the reply becomes part of the history. One that cannot be gone on from does not, nor does its cut-off
    call."""
    enlarge: bool = False
    """Whether a call in it was cut off, so that the same request is worth one more try with more room."""


ROWS: Final[Mapping[str, Row]] = {
    "end_turn": Row("end", "done"),
    "stop_sequence": Row("end", "done"),
    "tool_use": Row("run"),
    "pause_turn": Row("resend"),
    "compaction": Row("resend"),
    "max_tokens": Row("end", "truncated", enlarge=True),
    "refusal": Row("end", "refused", keep=False),
    "model_context_window_exceeded": Row("end", "context_full"),
}
UNKNOWN_STOP: Final = Row("end", "unknown_stop", keep=False)
"""For a reason that is in no row, and for none: a stream that just ended."""


@attrs.frozen
class Call:
    """One tool call of a reply, in the order of the request."""

    index: int
    """Its place among the calls of its turn, from 0."""
    id: str
    """Unique in its history; the service pairs it with the answer."""
    name: str
    arguments: FrozenDict
    fault: FrozenDict | None = None
    """Why its arguments could not be read (`replies.py`). Such a call is answered and not run."""


@attrs.frozen
class Ask:
    """Send this to the model, and give its reply to `replied`."""

    messages: FrozenList
    max_tokens: int
    number: int
    """Of the request in this loop, from 1, repeated ones included."""


@attrs.frozen
class Run:
    """Run these, and give their results, in this order, to `answered`."""

    calls: tuple[Call, ...]


@attrs.frozen
class End:
    outcome: Outcome
    text: str
    """Of the last turn, with what its pauses had said before; or what a guard cut off had said so far."""
    reason: str = ""
    """More about it: the raw stop reason, the category of a refusal, which guard."""


Step: TypeAlias = Ask | Run | End


@attrs.frozen(kw_only=True)
class Loop:
    """A state. `begin` makes the first one; each method returns the next."""

    messages: FrozenList
    """The history: whole exchanges, in the shape that goes on the wire."""
    ids: Ids = attrs.field(repr=False)
    """Ids of all calls in the history."""
    max_turns: int
    max_tokens: int
    enlarged_tokens: int | None
    turns: int = 0
    asked: int = 0
    enlarged: bool = False
    """This turn's request was sent again with more room for the answer."""
    again: bool = False
    """This turn's request was sent again after a malformed reply."""
    text: str = ""
    """Of the last turn, with what its pauses had said before."""
    paused: bool = False
    """The last turn was a pause: the next one goes on from its text."""
    pending: tuple[FrozenList, tuple[Call, ...]] | None = None
    """An assistant turn that waits for the results of its calls. It is no part of the history yet."""
    end: End | None = None

    @property
    def step(self) -> Step:
        if self.end is not None:
            return self.end
        if self.pending is not None:
            return Run(self.pending[1])
        room = self.enlarged_tokens if self.enlarged and self.enlarged_tokens else self.max_tokens
        return Ask(self.messages, room, self.asked + 1)

    def replied(self, reply: Value) -> Loop:
        """Return the state after a reply, as `replies.reply_of` makes it."""
        assert self.end is None and self.pending is None, "the loop waits for results, or is over"
        state = attrs.evolve(self, asked=self.asked + 1)
        reason = reply["stop_reason"]
        row = ROWS.get(reason, UNKNOWN_STOP)
        called = any(True for _ in calls_of(reply["content"]))
        if row.enlarge and called:
            return state._cut_off()
        if row.then == "run" and not called:
            return state._malformed(f"{reason} without a call")
        if row.then == "resend" and (called or not reply["content"]):
            return state._malformed(
                f"{reason} with a call that nobody answers" if called else f"{reason} with nothing in it"
            )
        return state._accepted(row, reply)

    def malformed(self, why: str) -> Loop:
        """Return the state after an answer that was no reply."""
        assert self.end is None and self.pending is None, "the loop waits for results, or is over"
        return attrs.evolve(self, asked=self.asked + 1)._malformed(why)

    def answered(self, results: Sequence[CallResult]) -> Loop:
        """Return the state after the results of all pending calls, in request order."""
        assert self.pending is not None, "no call waits for a result"
        turn, calls = self.pending
        return attrs.evolve(self._grown(turn, _answers(calls, results), self.ids), pending=None)._guarded()

    def stop(self, outcome: Outcome, reason: str = "", results: Sequence[CallResult | None] = ()) -> Loop:
        """Return the end that a guard makes: `budget`, `model_silent`, `cancelled`.

        Args:
            outcome: Its name.
            reason: One sentence about it.
            results: Of the pending calls, as far as there are any; the others are answered as not run.
        """
        state = self
        if self.pending is not None:
            turn, calls = self.pending
            known = [*results, *[None] * (len(calls) - len(results))]
            answers = [result or not_run(f"the run ended ({outcome}) before it started") for result in known]
            state = attrs.evolve(self._grown(turn, _answers(calls, answers), self.ids), pending=None)
        return attrs.evolve(state, end=End(outcome, state.text, reason))

    def _accepted(self, row: Row, reply: Value) -> Loop:
        turn, ids, calls = _turn(reply, self.ids)
        text = text_of(turn)
        if self.paused:
            text = self.text + text
        state = attrs.evolve(
            self, turns=self.turns + 1, enlarged=False, again=False, text=text, paused=row.then == "resend"
        )
        if row.then == "run":
            return attrs.evolve(state, ids=ids, pending=(turn, calls))
        if row.then == "resend":
            return state._grown(turn, None, ids)._guarded()
        assert row.outcome is not None
        if row.keep and turn:
            left = [not_run(f"the reply ended with {reply['stop_reason']}, not with tool_use")] * len(calls)
            state = state._grown(turn, _answers(calls, left) if calls else None, ids)
        return attrs.evolve(state, end=End(row.outcome, text, _reason(reply, len(calls))))

    def _cut_off(self) -> Loop:
        if self.enlarged_tokens is not None and not self.enlarged:
            return attrs.evolve(self, enlarged=True)
        room = self.enlarged_tokens if self.enlarged else self.max_tokens
        return attrs.evolve(
            self, end=End("truncated", self.text, f"max_tokens ({room}) was reached inside a call; it was not run")
        )

    def _malformed(self, why: str) -> Loop:
        if not self.again:
            return attrs.evolve(self, again=True)
        return attrs.evolve(self, end=End("malformed", self.text, why))

    def _guarded(self) -> Loop:
        if self.turns < self.max_turns:
            return self
        return attrs.evolve(self, end=End("max_turns", self.text, f"the guard of {self.max_turns} turns was reached"))

    def _grown(self, turn: FrozenList, answers: FrozenList | None, ids: Ids) -> Loop:
        added = [FrozenDict(role="assistant", content=turn)]
        if answers is not None:
            added.append(FrozenDict(role="user", content=answers))
        return attrs.evolve(self, messages=FrozenList([*self.messages, *added]), ids=ids)


def begin(
    messages: Iterable[Any] | History,
    *,
    max_turns: int,
    max_tokens: int,
    enlarged_tokens: int | None = None,
) -> Loop:
    """Return the first state of a loop.

    Args:
        messages: A history of whole exchanges, in the shape that goes on the wire; the messages of an earlier end
        will do. max_turns: Turns before the guard ends it, at least 1. max_tokens: Room for each reply, in tokens.
        enlarged_tokens: Room for the one further try when a call was cut off by `max_tokens`; `None` for no such try.

    Raises:
        ScenarioError: A number is impossible, or the history holds a call without its answer.
    """
    for name, number in (("max_turns", max_turns), ("max_tokens", max_tokens)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ScenarioError(f"{name}: {number!r} is not a whole number of at least 1.")
    if enlarged_tokens is not None and enlarged_tokens <= max_tokens:
        raise ScenarioError(f"enlarged_tokens: {enlarged_tokens!r} is not more than max_tokens ({max_tokens}).")
    history = messages if isinstance(messages, History) else history_of(messages)
    return Loop(
        messages=history.messages,
        ids=history.ids,
        max_turns=max_turns,
        max_tokens=max_tokens,
        enlarged_tokens=enlarged_tokens,
    )


def batches(calls: Iterable[Call], overlaps: Callable[[Call], bool]) -> list[list[Call]]:
    """Return calls in the order in which they run: neighbors that may overlap together, each other one alone (L5)."""
    grouped: list[list[Call]] = []
    open_batch = False
    for call in calls:
        if overlaps(call) and open_batch:
            grouped[-1].append(call)
        else:
            grouped.append([call])
        open_batch = overlaps(call)
    return grouped


def _turn(reply: Value, taken: Ids) -> tuple[FrozenList, Ids, tuple[Call, ...]]:
    """Return the assistant turn of a reply, the ids taken after it, and its calls.

    The turn goes back as it came (L3), but for empty text blocks, which the service refuses, and for ids of calls that
    are taken already: the service refuses those too, and answers could not be told apart.
    """
    blocks: list[Value] = []
    calls: list[Call] = []
    unreadable = reply.get("unreadable") or EMPTY
    for index, block in enumerate(reply["content"]):
        if block["type"] == "text" and not block["text"]:
            continue
        if block["type"] == "tool_use":
            call_id, taken = free_id(block["id"] or "call", taken)
            if call_id != block["id"]:
                block = FrozenDict({**block, "id": call_id})
            calls.append(Call(len(calls), call_id, block["name"], block["input"], unreadable.get(str(index))))
        blocks.append(block)
    return FrozenList(blocks), taken, tuple(calls)


def _answers(calls: Sequence[Call], results: Sequence[CallResult]) -> FrozenList:
    assert len(calls) == len(results), "each call has one result"
    return FrozenList([result.block(call.id) for call, result in zip(calls, results, strict=True)])


def _reason(reply: Value, calls: int) -> str:
    """Return what there is to say of an ending reply besides its outcome."""
    reason = reply["stop_reason"]
    details = reply.get("stop_details") or EMPTY
    if reason == "refusal":
        # The explanation's wording is not stable; the category is what can be traced.
        return f"category {details['category']}" if details.get("category") else "no category"
    if reason not in ROWS:
        return f"stop_reason {reason!r}" if reason is not None else "no stop_reason: the reply just ended"
    return f"{calls} calls were not run: the reply ended with {reason}" if calls else ""
