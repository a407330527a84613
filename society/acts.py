"""The agent loop by itself: a model, a prompt, and functions as tools; no society needed.

    result = await act(model, "What is the weather in Oslo?", tools=[weather])

    async with acting(model, prompt, tools=[weather]) as events:
        async for event in events:
            ...                               # the last one is the ActResult

Tools are plain or `async` functions. Plain ones run in worker threads and block nobody. No policy judges state here,
so all calls of a turn overlap unless `overlap="reads"`; their results go back in request order all the same.

Knows: how the steps of `loop.py` are carried out, and that a tool's late answer changes nothing.
Does not know: societies, journals, permits. There `tick.act` carries out the same steps through the gate.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final, Literal, NoReturn, TypeAlias

import attrs
import msgspec
import trio

from society.budget import Budget, Price, Purse, Usage, used
from society.errors import MalformedReply, ModelSilent, ScenarioError, SocietyError, described, is_closing, leaves
from society.event_loop import check_trio
from society.host import is_async
from society.limits import Limits
from society.loop import Ask, Call, End, Loop, Outcome, Run, batches, begin
from society.models import Heard, Model, Request, asked, request_body
from society.results import CallResult, failed, in_doubt, no_slot, not_run, result_of, unfit, unknown_tool, unreadable
from society.slots import AllGivenUp, Place, Slots
from society.toolschema import ToolSchema, distinct, schema_of
from society.values import FrozenDict, FrozenList
from society.width import SharedWidth

Overlap: TypeAlias = Literal["all", "reads"]

OPEN: Final = Limits(max_concurrent_tools=None)
"""The limits of an `act` that was given none."""


@attrs.frozen(kw_only=True)
class ActTool:
    """A function as a tool, where its name alone does not say enough. `as_tool` makes one."""

    schema: ToolSchema
    function: Callable[..., Any]
    reads_only: bool = False
    timeout: float | None = None
    thread: bool = True


def as_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    reads_only: bool = False,
    timeout: float | None = None,
    thread: bool = True,
    injected: Iterable[str] = (),
) -> ActTool:
    """Return a function as a tool.

    Args:
        function: Plain or `async`. Its type hints and docstring are what the model is told.
        name: Instead of its own.
        description: Instead of its docstring's.
        reads_only: It has no effect, so that its calls overlap with `overlap="reads"` too.
        timeout: Seconds, instead of `Limits.tool_timeout`. A call that takes longer is in doubt.
        thread: False calls a plain function where it stands: for quick, pure ones.
        injected: Parameters that no model sees; `act(injected={…})` fills them.
    """
    if timeout is not None and not 0 < timeout < math.inf:
        raise ScenarioError(f"tool {name or function!r}: a timeout is a number of seconds above 0, not {timeout!r}.")
    source = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    schema = schema_of(function, name=name, description=description, injected=tuple(injected), source=source)
    return ActTool(schema=schema, function=function, reads_only=reads_only, timeout=timeout, thread=thread)


@attrs.frozen(kw_only=True)
class Asked:
    """The model is asked."""

    kind: ClassVar[str] = "asked"
    turn: int
    request: Request


@attrs.frozen(kw_only=True)
class Replied:
    """A reply came in."""

    kind: ClassVar[str] = "replied"
    turn: int
    reply: FrozenDict


@attrs.frozen(kw_only=True)
class Started:
    """A tool begins; it has its slot."""

    kind: ClassVar[str] = "started"
    turn: int
    call: Call


@attrs.frozen(kw_only=True)
class Ended:
    """A call has its result, whether a tool ran for it or not."""

    kind: ClassVar[str] = "ended"
    turn: int
    call: Call
    result: CallResult


@attrs.frozen(kw_only=True)
class ActResult:
    kind: ClassVar[str] = "result"
    outcome: Outcome
    """Only `done` is success."""
    text: str
    """Of the last turn."""
    messages: FrozenList = attrs.field(repr=False)
    """The history: whole exchanges. `act(…, messages=these)` goes on where it stopped."""
    turns: int
    usage: Usage
    cost_usd: float | None
    """`None` where the model has no price."""
    reason: str = ""
    """More about the outcome: the raw stop reason, which guard, what the service said."""


Event: TypeAlias = Asked | Replied | Started | Ended | Heard | ActResult


async def act(
    model: Model,
    prompt: str | Sequence[Mapping[str, Any]] | None = None,
    *,
    tools: Iterable[Callable[..., Any] | ActTool] = (),
    system: str | None = None,
    max_tokens: int = 4096,
    max_turns: int = 20,
    budget: Budget | Purse | None = None,
    limits: Limits | None = None,
    overlap: Overlap = "all",
    on_event: Callable[[Event], None] | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    enlarge: int | None = 4,
    injected: Mapping[str, Any] | None = None,
    agent: str | None = None,
    seed: int = 0,
) -> ActResult:
    """Let a model work with tools until it is done or a guard ends it.

    Args:
        model: Anything with `async def reply(request)`.
        prompt: What the user says: a text, or content blocks. `None` to go on with `messages` as they are.
        tools: Functions, plain or `async`, or what `as_tool` made of them.
        system: The system prompt.
        max_tokens: Room for each reply.
        max_turns: Turns of this `act` before the guard ends it.
        budget: Tokens and money for this `act`; a `Purse` to share one among several.
        limits: `max_concurrent_tools`, `max_concurrent_llm`, `tool_timeout`, `llm_timeout`, of this `act`. Without
            them all calls of a turn overlap, however many.
        overlap: `"all"` calls of a turn, or only neighboring ones that are `reads_only`.
        on_event: A plain function that hears what happens.
        messages: A history of whole exchanges, such as an earlier result's.
        enlarge: A call cut off by `max_tokens` is asked for once more with this many times the room; `None` for not.
        injected: Values of parameters that no model sees, by name, for every tool that has them.
        agent: A name, by which scripted models choose their replies.
        seed: Waits between attempts at a service are drawn from it.

    Raises:
        ScenarioError: Something is given wrongly: names of tools, numbers, a history with an unanswered call.
    """
    given = locals()
    check_trio("`act`")
    return await _driver(**given).run()


class Events:
    """What `acting` gives: an async iterator of events, the last of which is the `ActResult`."""

    def __init__(self, incoming: trio.MemoryReceiveChannel[Event], scope: trio.CancelScope) -> None:
        self._incoming = incoming
        self._scope = scope

    def cancel(self) -> None:
        """End it: nothing further starts, calls in flight are cancelled, and the result says `cancelled`."""
        self._scope.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._incoming.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None


@asynccontextmanager
async def acting(model: Model, prompt: Any = None, **options: Any) -> AsyncIterator[Events]:
    """`act` as a stream of events. Takes what `act` takes, but for `on_event`. Leaving the block early cancels it."""
    outgoing, incoming = trio.open_memory_channel[Event](math.inf)
    scope = trio.CancelScope()
    given = inspect.signature(act).bind(model, prompt, on_event=outgoing.send_nowait, **options)
    given.apply_defaults()
    driver = _driver(**given.arguments)
    failures: list[BaseException] = []

    async def work() -> None:
        with outgoing:
            try:
                outgoing.send_nowait(await driver.run_until_cancelled(scope))
            except (
                Exception
            ) as error:  # whatever it is, it is the caller's: it is raised from the block, not in a group
                failures.append(error)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            yield Events(incoming, scope)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        _raise_alone(group)
    if failures:
        raise failures[0]


def _driver(
    *,
    model: Model,
    prompt: Any,
    tools: Iterable[Callable[..., Any] | ActTool],
    system: str | None,
    max_tokens: int,
    max_turns: int,
    budget: Budget | Purse | None,
    limits: Limits | None,
    overlap: Overlap,
    on_event: Callable[[Event], None] | None,
    messages: Sequence[Mapping[str, Any]] | None,
    enlarge: int | None,
    injected: Mapping[str, Any] | None,
    agent: str | None,
    seed: int,
) -> _Driver:
    """Check what `act` was given, and return the driver of it."""
    if overlap not in ("all", "reads"):
        raise ScenarioError(f"overlap: {overlap!r} is neither 'all' nor 'reads'.")
    if on_event is not None and is_async(on_event):
        raise ScenarioError(
            "on_event is a plain function; to await between events, use `async with acting(…) as events`."
        )
    if enlarge is not None and (isinstance(enlarge, bool) or not isinstance(enlarge, int) or enlarge < 2):
        raise ScenarioError(f"enlarge: {enlarge!r} is not a whole number of at least 2, or None.")
    purse = budget if isinstance(budget, Purse) else Purse(budget if budget is not None else Budget())
    price = getattr(model, "price", None)
    if purse.budget.usd is not None and price is None:
        raise ScenarioError(
            f"the budget is in dollars, and the price of {getattr(model, 'name', model)!r} is not known: add it to the "
            "price table, or bound tokens."
        )
    history = [*(messages or ())]
    if prompt is not None:
        history.append({"role": "user", "content": prompt if isinstance(prompt, str) else list(prompt)})
    elif not history:
        raise ScenarioError("act needs a prompt, or messages to go on from.")
    return _Driver(
        model=model,
        state=begin(
            history,
            max_turns=max_turns,
            max_tokens=max_tokens,
            enlarged_tokens=None if enlarge is None else max_tokens * enlarge,
        ),
        tools=_toolbox(tools, injected or {}),
        system=system,
        limits=limits if limits is not None else OPEN,
        overlap=overlap,
        hear=on_event if on_event is not None else lambda event: None,
        purse=purse,
        price=price,
        injected=injected or {},
        agent=agent,
        seed=seed,
    )


def _toolbox(tools: Iterable[Callable[..., Any] | ActTool], injected: Mapping[str, Any]) -> dict[str, ActTool]:
    made = [tool if isinstance(tool, ActTool) else as_tool(tool, injected=injected) for tool in tools]
    distinct(tool.schema for tool in made)
    return {tool.schema.name: tool for tool in made}


class _Driver:
    """Carries out the steps of one loop."""

    def __init__(
        self,
        *,
        model: Model,
        state: Loop,
        tools: dict[str, ActTool],
        system: str | None,
        limits: Limits,
        overlap: Overlap,
        hear: Callable[[Any], None],
        purse: Purse,
        price: Price | None,
        injected: Mapping[str, Any],
        agent: str | None,
        seed: int,
    ) -> None:
        self.model = model
        self.state = state
        self.tools = tools
        self.wire_tools = [tool.schema.wire() for tool in tools.values()]
        self.system = system
        self.limits = limits
        self.overlap = overlap
        self.hear = hear
        self.purse = purse
        self.price = price
        self.injected = injected
        self.agent = agent
        self.seed = seed
        self.usage = Usage()
        self.nano_usd = 0
        self.llm_slots = Slots(limits.max_concurrent_llm)
        self.tool_slots = Slots(limits.max_concurrent_tools)
        self.width = SharedWidth(self.llm_slots)
        self.results: list[CallResult | None] = []
        """Of the pending calls."""
        self.begun: set[int] = set()
        """Pending calls whose tool has started."""

    async def run(self) -> ActResult:
        while not isinstance(step := self.state.step, End):
            # A tool may have swallowed a cancellation. Nothing further starts all the same (P27).
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(step, Ask):
                await self._ask(step)
            else:
                await self._run(step)
        return self._result(step)

    async def run_until_cancelled(self, scope: trio.CancelScope) -> ActResult:
        """As `run`; when `scope` is cancelled the result says so, and every call has an answer."""
        with scope:
            return await self.run()
        self.state = self.state.stop("cancelled", "cancelled from outside", self._known_results())
        assert isinstance(self.state.step, End)
        return self._result(self.state.step)

    def _result(self, end: End) -> ActResult:
        return ActResult(
            outcome=end.outcome,
            text=end.text,
            messages=self.state.messages,
            turns=self.state.turns,
            usage=self.usage,
            cost_usd=None if self.price is None else self.nano_usd / 1e9,
            reason=end.reason,
        )

    async def _ask(self, ask: Ask) -> None:
        body = request_body(messages=ask.messages, max_tokens=ask.max_tokens, system=self.system, tools=self.wire_tools)
        reserved = self.purse.reserve(self.price, prompt_characters=self._characters(body), max_tokens=ask.max_tokens)
        if isinstance(reserved, str):
            self.state = self.state.stop("budget", reserved)
            return
        usage = None
        try:
            place = await self.llm_slots.acquire()
            try:
                reply = await self._answer(body, ask)
            finally:
                place.release()
            usage = used(reply)
            self.usage += usage
            self.nano_usd += self.price.nano_usd(usage) if self.price is not None else 0
            self.state = self.state.replied(reply)
            self.hear(Replied(turn=self.state.turns, reply=reply))
        except MalformedReply as error:
            self.state = self.state.malformed(str(error))
        except ModelSilent as error:
            self.state = self.state.stop("model_silent", error.why)
        finally:
            self.purse.settle(reserved, usage, self.price)

    def _characters(self, body: FrozenDict) -> int:
        budget = self.purse.budget
        return 0 if budget.usd is None and budget.tokens is None else len(msgspec.json.encode(body))

    async def _answer(self, body: FrozenDict, ask: Ask) -> FrozenDict:
        request = Request(
            body,
            agent=self.agent,
            ordinal=str(ask.number),
            call=ask.number,
            seed=self.seed,
            width=self.width,
            listener=self.hear,
        )
        self.hear(Asked(turn=self.state.turns + 1, request=request))
        seconds = self.limits.llm_timeout
        with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
            try:
                reply = await asked(self.model, request)
            except SocietyError:
                raise
            except Exception as error:
                # A model is anybody's code and stands for a service: whatever it raises, the service has failed.
                raise ModelSilent(": ".join(part for part in described(error) if part)) from error
            if not scope.cancel_called:
                return reply
        raise ModelSilent(f"no answer within {seconds:g} seconds")

    async def _run(self, step: Run) -> None:
        self.results = [None] * len(step.calls)
        self.begun.clear()
        for batch in batches(step.calls, self._overlaps):
            if len(batch) == 1:
                await self._begin(batch[0], None)
                continue
            try:
                async with trio.open_nursery() as nursery:
                    for call in batch:
                        await self._begin(call, nursery)
            except BaseExceptionGroup as group:
                _raise_alone(group)
        self.state = self.state.answered([result for result in self.results if result is not None])
        self.results = []

    def _overlaps(self, call: Call) -> bool:
        tool = self.tools.get(call.name)
        return self.overlap == "all" or tool is None or tool.reads_only

    async def _begin(self, call: Call, nursery: trio.Nursery | None) -> None:
        """Begin a call: in `nursery`, or at once and to its end. Slots are taken, and tools begin, in request order."""
        await trio.lowlevel.checkpoint_if_cancelled()
        result = self._not_for_a_tool(call)
        try:
            place = await self.tool_slots.acquire() if result is None else None
        except AllGivenUp:
            place, result = None, no_slot(call.name)
        if place is None:
            assert result is not None
            self._settle(call, result)
        elif nursery is None:
            await self._perform(call, place)
        else:
            await nursery.start(self._perform, call, place)

    def _not_for_a_tool(self, call: Call) -> CallResult | None:
        """Return the answer to a call for which no tool can run."""
        tool = self.tools.get(call.name)
        if tool is None:
            return unknown_tool(call.name, self.tools)
        if call.fault is not None:
            return unreadable(call.name, call.fault)
        faults = tool.schema.faults(call.arguments)
        return unfit(call.name, faults) if faults else None

    async def _perform(
        self, call: Call, place: Place, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        tool = self.tools[call.name]
        try:
            self.begun.add(call.index)
            self.hear(Started(turn=self.state.turns, call=call))
            task_status.started()
            arguments = {**tool.schema.bound(call.arguments), **self._injected(tool)}
            result = await self._called(tool, place, arguments)
        finally:
            place.release()
        self._settle(call, result)

    def _settle(self, call: Call, result: CallResult) -> None:
        self.results[call.index] = result
        self.hear(Ended(turn=self.state.turns, call=call, result=result))

    def _injected(self, tool: ActTool) -> dict[str, Any]:
        takes = inspect.signature(tool.function).parameters
        shown = {parameter.name for parameter in tool.schema.parameters or ()}
        return {name: value for name, value in self.injected.items() if name in takes and name not in shown}

    async def _called(self, tool: ActTool, place: Place, arguments: dict[str, Any]) -> CallResult:
        seconds = tool.timeout if tool.timeout is not None else self.limits.tool_timeout
        scope = trio.CancelScope(deadline=math.inf if seconds is None else trio.current_time() + seconds)
        value: Any = None
        try:
            with scope:
                value = await self._value(tool, place, arguments)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:
            # A tool may raise anything, `SystemExit` and groups that hold an asyncio cancellation too; it has failed.
            if is_closing(error) or any(
                isinstance(leaf, (trio.Cancelled, KeyboardInterrupt)) for leaf in leaves(error)
            ):
                raise
            if not scope.cancel_called:
                return failed(tool.schema.name, *described(error))
        if not scope.cancel_called:
            return result_of(value)
        if not place.began:
            return not_run(f"{tool.schema.name} did not get to start within {seconds:g} seconds")
        return in_doubt(tool.schema.name, f"no answer within {seconds:g} seconds")

    async def _value(self, tool: ActTool, place: Place, arguments: dict[str, Any]) -> Any:
        if tool.thread and not is_async(tool.function):
            # In a box: trio takes a thread that returns an awaitable for a mistake; a wrapper may (P48).
            (value,) = await place.run_in_thread(lambda: (tool.function(**arguments),))
        else:
            place.began = True
            value = tool.function(**arguments)
        return await value if inspect.isawaitable(value) else value

    def _known_results(self) -> list[CallResult | None]:
        """Return the results of pending calls at a cancellation: what began and did not come back is in doubt."""
        if self.state.pending is None:
            return []
        calls = self.state.pending[1]
        known = self.results or [None] * len(calls)
        return [
            in_doubt(call.name, "cancelled while it ran") if result is None and call.index in self.begun else result
            for call, result in zip(calls, known, strict=True)
        ]


def _raise_alone(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Raise what matters of a group that a nursery made: its first leaf that is no cancellation, or the group."""
    for leaf in leaves(group):
        if not isinstance(leaf, trio.Cancelled):
            raise leaf
    raise group
