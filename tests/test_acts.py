"""The agent loop by itself: `act`, `acting`, and `society.sync.act`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
import threading
from typing import Any

import pytest
import trio
from histories import open_calls

import society.sync
from society.acts import ActResult, Ended, Started, act, acting, as_tool
from society.budget import Budget, Price, Purse
from society.errors import AsyncToolRefused, ScenarioError
from society.limits import Limits
from society.models import Request, ScriptedModel
from society.testing.replies import say, use


def results(result: ActResult, turn: int = 1) -> list[tuple[str, bool]]:
    """Return (text, flagged as error) of each answer in the n-th user message after the prompt."""
    answers = [message for message in result.messages if message["role"] == "user"][turn]["content"]
    return [(answer["content"], answer.get("is_error", False)) for answer in answers]


def script(*calls: str | tuple[str, dict[str, Any]]) -> ScriptedModel:
    """Return a model that makes these calls in one turn and is done in the next."""
    return ScriptedModel([use([call if isinstance(call, tuple) else (call, {}) for call in calls]), say("done")])


@pytest.mark.trio
async def test_a_model_works_with_functions_until_it_is_done() -> None:
    def rain(city: str) -> dict[str, Any]:
        """Tell the rain."""
        return {"city": city, "mm": 4}

    model = ScriptedModel(
        [
            use("rain", city="東京", usage={"input_tokens": 10, "output_tokens": 5}),
            say("4 mm", usage={"input_tokens": 20, "output_tokens": 2}),
        ],
        price=Price(input=1, output=5),
    )
    result = await act(model, "How much rain?", tools=[rain], system="Be brief.")

    assert (result.outcome, result.text, result.turns) == ("done", "4 mm", 2)
    assert results(result) == [('{"city": "東京", "mm": 4}', False)]  # P24
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.calls) == (30, 7, 2)
    assert result.cost_usd == pytest.approx(65e-6)
    first = model.requests[0]
    assert first["system"] == "Be brief."
    assert [tool["name"] for tool in first["tools"]] == ["rain"]


@pytest.mark.trio
async def test_one_failing_tool_costs_its_siblings_nothing(autojump_clock: Any) -> None:  # P02
    ran: list[str] = []

    async def a() -> str:
        ran.append("a")
        await trio.sleep(0.05)
        return "A"

    async def b() -> None:
        ran.append("b")
        raise ValueError("boom")

    async def c() -> str:
        ran.append("c")
        await trio.sleep(0.1)
        return "C"

    model = script("a", "b", "c")
    result = await act(model, "go", tools=[a, b, c])

    assert results(result) == [("A", False), ("b failed: ValueError: boom", True), ("C", False)]
    assert ran == ["a", "b", "c"]
    assert len(model.requests) == 2


@pytest.mark.trio
async def test_ten_overlapping_calls_take_as_long_as_the_slowest(autojump_clock: Any) -> None:  # L5
    async def look(n: int) -> int:
        await trio.sleep(0.01 * n)
        return n

    start = trio.current_time()
    result = await act(
        script(*[("look", {"n": n}) for n in range(10, 0, -1)]),
        "go",
        tools=[look],
    )
    assert trio.current_time() - start == pytest.approx(0.1)
    assert [text for text, _ in results(result)] == [str(n) for n in range(10, 0, -1)]


@pytest.mark.trio
async def test_ten_effects_take_the_sum_and_go_in_request_order(autojump_clock: Any) -> None:  # L5
    order: list[int] = []

    async def write(n: int) -> None:
        order.append(n)
        await trio.sleep(0.1)

    start = trio.current_time()
    await act(script(*[("write", {"n": n}) for n in range(10)]), "go", tools=[write], overlap="reads")
    assert trio.current_time() - start == pytest.approx(1.0)
    assert order == list(range(10))


@pytest.mark.trio
async def test_with_overlap_reads_neighboring_reads_overlap_and_see_the_effects_before_them(
    autojump_clock: Any,
) -> None:
    written: list[int] = []

    async def look() -> int:
        await trio.sleep(1)
        return len(written)

    async def write() -> None:
        await trio.sleep(1)
        written.append(1)

    start = trio.current_time()
    result = await act(
        script("look", "look", "write", "look"), "go", tools=[as_tool(look, reads_only=True), write], overlap="reads"
    )
    assert trio.current_time() - start == pytest.approx(3)
    assert [text for text, _ in results(result)] == ["0", "0", "null", "1"]


@pytest.mark.trio
async def test_a_bound_on_tools_holds_with_calls_of_uneven_length(autojump_clock: Any) -> None:
    running = peak = 0

    async def look(n: int) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.sleep(n % 4 + 0.1)
        running -= 1

    calls = [("look", {"n": n}) for n in range(10)]
    await act(script(*calls), "go", tools=[look], limits=Limits(max_concurrent_tools=2))
    assert peak == 2


@pytest.mark.trio
async def test_an_act_inside_a_tool_finishes_with_bounds_of_one() -> None:  # B3
    narrow = Limits(max_concurrent_tools=1, max_concurrent_llm=1)

    async def expert(question: str) -> str:
        return (await act(script("look"), question, tools=[look], limits=narrow)).text

    async def look() -> str:
        return "seen"

    result = await act(script(("expert", {"question": "?"}), "look"), "go", tools=[expert, look], limits=narrow)
    assert results(result) == [("done", False), ("seen", False)]


@pytest.mark.trio
async def test_a_tool_that_does_not_exist_is_answered_with_those_that_do() -> None:  # P12
    def get_rain() -> str:
        return "4 mm"

    def get_wind() -> str:
        return "none"

    result = await act(script("get_weather", "get_rain"), "go", tools=[get_rain, get_wind])
    assert results(result) == [
        ("There is no tool 'get_weather'. The tools are: get_rain, get_wind. This call was not run.", True),
        ("4 mm", False),
    ]


@pytest.mark.trio
async def test_arguments_that_do_not_fit_or_cannot_be_read_run_nothing() -> None:  # P13, P15, P61
    bought: list[float] = []

    def buy(price: float = 0.0) -> None:
        bought.append(price)

    too_long = int("9" * 4000) * 10**1000
    limit = sys.get_int_max_str_digits()
    model = script(
        ("buy", {"price": too_long}), ("buy", {"price": float("nan")}), ("buy", {"price": "1"}), ("buy", {"p": 1})
    )
    told = [text for text, flagged in results(await act(model, "go", tools=[buy])) if flagged]

    assert bought == []
    assert [bool(text) for text in told] == [True] * 4
    assert "number too long" in told[0]
    assert "nan" in told[1]
    assert "price: expected `float`, got `str`" in told[2]
    assert "'p' is not a parameter" in told[3]
    assert sys.get_int_max_str_digits() == limit


@pytest.mark.trio
async def test_a_value_that_cannot_be_written_is_done_and_not_failed() -> None:  # P15, P19
    def mint() -> int:
        return 10**5000

    ((text, flagged),) = results(await act(script("mint"), "go", tools=[mint]))
    assert flagged
    assert "was done and took effect" in text


@pytest.mark.trio
async def test_a_tool_that_exits_has_failed_and_the_program_lives() -> None:  # P21
    def leave() -> None:
        sys.exit(0)

    async def leave_too() -> None:
        sys.exit(0)

    result = await act(script("leave", "leave_too"), "go", tools=[leave, leave_too])
    assert results(result) == [("leave failed: SystemExit: 0", True), ("leave_too failed: SystemExit: 0", True)]
    assert result.outcome == "done"


@pytest.mark.trio
async def test_the_causes_inside_exception_groups_are_named() -> None:  # P23
    async def fetch() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [TimeoutError("read timed out")])])

    async def dial() -> None:
        raise BaseExceptionGroup("g", [asyncio.CancelledError(), ConnectionError("refused")])

    told = [text for text, _ in results(await act(script("fetch", "dial"), "go", tools=[fetch, dial]))]
    assert told[0] == "fetch failed: TimeoutError: read timed out"
    assert told[1] == "dial failed: CancelledError: ; ConnectionError: refused"


@pytest.mark.trio
async def test_a_call_that_takes_too_long_is_in_doubt_and_not_repeated(autojump_clock: Any) -> None:  # P25, B5
    paid = 0

    async def pay() -> str:
        nonlocal paid
        paid += 1
        await trio.sleep(1)
        return "paid"

    async def swallow() -> str:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            return "stopped early"
        return "never"

    async def explode() -> None:
        try:
            await trio.sleep(1)
        finally:
            raise OSError("while cleaning up")

    tools = [as_tool(pay, timeout=0.1), as_tool(swallow, timeout=0.1), explode]
    result = await act(script("pay", "swallow", "explode"), "go", tools=tools, limits=Limits(tool_timeout=0.2))

    told = results(result)
    assert paid == 1
    assert all(flagged and "in doubt (no answer within 0." in text for text, flagged in told)
    assert "may have happened" in told[0][0]


@pytest.mark.trio
async def test_a_thread_that_was_given_up_keeps_its_slot_and_changes_nothing() -> None:  # B4
    release = threading.Event()

    def hang() -> str:
        release.wait(10)
        return "late"

    def quick() -> str:
        return "quick"

    model = ScriptedModel([use("hang"), use("quick"), say("done")])
    result = await act(model, "go", tools=[as_tool(hang, timeout=0.05), quick], limits=Limits(max_concurrent_tools=1))
    release.set()

    assert "in doubt" in results(result, 1)[0][0]
    assert "never sent" in results(result, 2)[0][0]
    assert "late" not in repr(result.messages)


@pytest.mark.trio
async def test_plain_tools_run_in_threads_and_see_the_context() -> None:  # P48
    who = contextvars.ContextVar("who", default="nobody")
    who.set("caller")
    here = threading.get_ident()

    def plain_tool() -> list[Any]:
        return [who.get(), threading.get_ident() != here]

    def where_it_stands() -> bool:
        return threading.get_ident() == here

    def wrapper() -> Any:
        async def inner() -> str:
            await trio.lowlevel.checkpoint()
            return "awaited"

        return inner()

    tools = [plain_tool, as_tool(where_it_stands, thread=False), wrapper]
    result = await act(script("plain_tool", "where_it_stands", "wrapper"), "go", tools=tools)
    assert results(result) == [('["caller", true]', False), ("true", False), ("awaited", False)]


@pytest.mark.trio
async def test_the_same_id_twice_in_a_reply_loses_neither_call() -> None:  # P05
    asked_for: list[str] = []

    def search(q: str) -> str:
        asked_for.append(q)
        return q.upper()

    reply = use([("search", {"q": "a"}), ("search", {"q": "b"})])
    for block in reply["content"]:
        block["id"] = "search"
    model = ScriptedModel([reply, use("search", id="search", q="c"), say("done")])
    result = await act(model, "go", tools=[as_tool(search, thread=False)])

    assert asked_for == ["a", "b", "c"]
    assert [text for text, _ in results(result, 1)] == ["A", "B"]
    ids = [block["id"] for message in result.messages for block in message["content"] if "id" in block]
    assert len(set(ids)) == 3


@pytest.mark.trio
async def test_a_call_that_was_cut_off_is_asked_for_again_with_more_room() -> None:  # P06
    written: list[str] = []

    def write_file(path: str, content: str = "") -> str:
        written.append(content)
        return "ok"

    cut = use("write_file", saying="Writing it", path="a.txt", stop_reason="max_tokens")
    model = ScriptedModel([cut, use("write_file", path="a.txt", content="all"), say("done")])
    result = await act(model, "go", tools=[write_file], max_tokens=256)

    assert written == ["all"]
    assert [request["max_tokens"] for request in model.requests] == [256, 1024, 256]
    assert model.requests[1]["messages"] == model.requests[0]["messages"]
    assert result.outcome == "done"

    refused = await act(ScriptedModel([cut]), "go", tools=[write_file], max_tokens=256, enlarge=None)
    assert (refused.outcome, written) == ("truncated", ["all"])


@pytest.mark.trio
async def test_pauses_are_sent_back_and_bounded() -> None:  # P07
    model = ScriptedModel(
        [say("part 1", stop_reason="pause_turn"), say("part 2", stop_reason="pause_turn"), say("part 3")]
    )
    result = await act(model, "go")

    assert (result.outcome, len(model.requests)) == ("done", 3)
    assert "part 3" in result.text
    assert model.requests[2]["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "part 2"}]}

    forever = ScriptedModel([say(".", stop_reason="pause_turn")] * 9)
    assert (await act(forever, "go", max_turns=4)).outcome == "max_turns"
    assert len(forever.requests) == 4


@pytest.mark.trio
@pytest.mark.parametrize(
    ("reply", "outcome", "reason"),
    [
        ({"content": [], "stop_reason": "refusal"}, "refused", "no category"),
        (use("pay", eur=5, stop_reason="brand_new_reason"), "unknown_stop", "stop_reason 'brand_new_reason'"),
        (say("hello", stop_reason=None), "unknown_stop", "no stop_reason: the reply just ended"),
    ],
)
async def test_refusals_and_unknown_reasons_are_told_and_not_retried(
    reply: Any, outcome: str, reason: str
) -> None:  # P09
    paid: list[int] = []

    def pay(eur: int) -> None:
        paid.append(eur)

    model = ScriptedModel([reply])
    result = await act(model, "go", tools=[pay])

    assert (result.outcome, result.reason) == (outcome, reason)
    assert (len(model.requests), paid) == (1, [])


@pytest.mark.trio
async def test_at_the_turn_guard_nothing_is_lost_and_it_goes_on_from_there() -> None:  # P10
    steps: list[int] = []

    def step() -> int:
        steps.append(1)
        return len(steps)

    model = ScriptedModel([use("step"), use("step"), say("done")])
    first = await act(model, "go", tools=[step], max_turns=2)

    assert (first.outcome, first.turns) == ("max_turns", 2)
    assert results(first, 2) == [("2", False)]
    assert open_calls(first.messages) == set()

    second = await act(model, tools=[step], messages=first.messages, max_turns=3)
    assert (second.outcome, len(model.requests), len(steps)) == ("done", 3, 2)


@pytest.mark.trio
async def test_a_further_prompt_goes_on_after_an_end() -> None:
    model = ScriptedModel([say("one"), lambda request: say(f"{len(request['messages'])} messages")])
    first = await act(model, "go")
    assert (await act(model, "and?", messages=first.messages)).text == "3 messages"


@pytest.mark.trio
async def test_a_model_that_is_late_or_fails_is_silent(autojump_clock: Any) -> None:  # B5
    async def never(request: Request) -> Any:
        await trio.sleep_forever()

    class Mute:
        reply = staticmethod(never)

    late = await act(Mute(), "go", limits=Limits(llm_timeout=30))
    failing = await act(ScriptedModel([OSError("no route")]), "go")

    assert trio.current_time() > 29
    assert (late.outcome, late.reason) == ("model_silent", "no answer within 30 seconds")
    assert (failing.outcome, failing.reason) == ("model_silent", "OSError: no route")


@pytest.mark.trio
async def test_a_malformed_reply_is_asked_for_once_more() -> None:
    model = ScriptedModel([{"hello": "world"}, say("ok")])
    assert (await act(model, "go")).outcome == "done"
    hopeless = await act(ScriptedModel([{"hello": "world"}] * 3), "go")
    assert hopeless.outcome == "malformed"
    assert "content: missing" in hopeless.reason


@pytest.mark.trio
async def test_a_budget_ends_it_before_the_next_call() -> None:
    cost = {"input_tokens": 30, "output_tokens": 30}
    model = ScriptedModel([use("step", usage=cost), use("step", usage=cost), say("done")])
    result = await act(model, "go", tools=[as_tool(lambda: None, name="step")], budget=Budget(tokens=100))

    assert (result.outcome, result.usage.tokens, len(model.requests)) == ("budget", 120, 2)
    assert result.reason == "120 of 100 tokens are used or reserved"
    assert open_calls(result.messages) == set()


@pytest.mark.trio
async def test_a_purse_is_shared_and_a_budget_in_dollars_needs_a_price() -> None:
    purse = Purse(Budget(usd=1e-5))
    dear = Price(input=1, output=5)
    model = ScriptedModel([say("x", usage={"output_tokens": 2})] * 2, price=dear)
    assert [(await act(model, "go", budget=purse)).outcome for _ in range(2)] == ["done", "budget"]

    class Unpriced:
        async def reply(self, request: Request) -> Any:
            return say("x")

    with pytest.raises(ScenarioError, match="is not known"):
        await act(Unpriced(), "go", budget=Budget(usd=1))


@pytest.mark.trio
async def test_injected_values_reach_tools_that_have_them_and_no_model() -> None:
    def charge(db, eur: int) -> str:  # type: ignore[no-untyped-def]
        return f"{db}:{eur}"

    model = script(("charge", {"eur": 3}), ("charge", {"eur": 3, "db": "mine"}))
    result = await act(model, "go", tools=[charge, as_tool(lambda: 1, name="one")], injected={"db": "ledger"})

    assert list(model.requests[0]["tools"][0]["input_schema"]["properties"]) == ["eur"]
    assert results(result)[0] == ("ledger:3", False)
    assert results(result)[1][1]


@pytest.mark.trio
async def test_wrong_tools_are_refused_before_the_model_is_asked() -> None:
    def search() -> None: ...

    model = ScriptedModel([say("hi")])
    for tools in ([search, search], [lambda: None]):
        with pytest.raises(ScenarioError):
            await act(model, "go", tools=tools)
    assert model.requests == []


@pytest.mark.trio
async def test_when_the_surrounding_scope_is_cancelled_nothing_further_starts(autojump_clock: Any) -> None:  # P27
    ran: list[str] = []

    async def stubborn() -> str:
        ran.append("stubborn")
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(60)
        return "stopped early"

    async def other() -> None:
        ran.append("other")

    for overlap in ("reads", "all"):
        ran.clear()
        model = script("stubborn", "other", "other")
        with trio.move_on_after(1) as scope:
            await act(model, "go", tools=[stubborn, other], overlap=overlap, limits=Limits(max_concurrent_tools=1))
        assert scope.cancelled_caught
        assert ran == ["stubborn"]
        assert len(model.requests) == 1


@pytest.mark.trio
async def test_events_come_as_a_stream_whose_last_is_the_result() -> None:
    async def look() -> str:
        return "seen"

    async with acting(script("look"), "go", tools=[look]) as events:
        seen = [event async for event in events]

    assert [event.kind for event in seen if hasattr(event, "kind")] == [
        "asked",
        "replied",
        "started",
        "ended",
        "asked",
        "replied",
        "result",
    ]
    assert isinstance(seen[-1], ActResult)
    assert seen[-1].outcome == "done"


@pytest.mark.trio
async def test_a_stream_can_be_cancelled_and_every_call_has_an_answer(autojump_clock: Any) -> None:  # L4, P27
    async def quick() -> str:
        return "quick"

    async def slow() -> None:
        await trio.sleep(60)

    async with acting(
        script("quick", "slow", "slow"),
        "go",
        tools=[quick, slow],
        limits=Limits(max_concurrent_tools=1),
        overlap="reads",
    ) as events:
        async for event in events:
            if isinstance(event, Started) and event.call.name == "slow":
                events.cancel()
        assert isinstance(event, ActResult)

    assert event.outcome == "cancelled"
    assert [text[:12] for text, _ in results(event)] == ["quick", "slow is in d", "This call wa"]
    assert open_calls(event.messages) == set()


@pytest.mark.trio
async def test_leaving_a_stream_early_ends_it_and_errors_come_alone(autojump_clock: Any) -> None:
    async def slow() -> None:
        await trio.sleep(60)

    async with acting(script("slow"), "go", tools=[slow]) as events:
        async for event in events:
            if isinstance(event, Started):
                break
    assert trio.current_time() < 60

    with pytest.raises(KeyError, match="mine"):
        async with acting(script("slow"), "go", tools=[slow]) as events:
            raise KeyError("mine")

    with pytest.raises(ScenarioError, match="both 'a' and 'b' ask"):
        model = ScriptedModel([say("x")] * 2)
        await act(model, "go", agent="a")
        async with acting(model, "go", agent="b") as events:
            assert [event.kind async for event in events] == ["asked"]


@pytest.mark.trio
async def test_a_listener_hears_each_call_begin_and_end() -> None:
    heard: list[Any] = []
    await act(script("look"), "go", tools=[as_tool(lambda: 1, name="look")], on_event=heard.append)
    assert [event.call.name for event in heard if isinstance(event, (Started, Ended))] == ["look", "look"]

    def fail(event: Any) -> None:
        if isinstance(event, Started):
            raise LookupError("in the listener")

    with pytest.raises(LookupError):
        await act(script("look", "look"), "go", tools=[as_tool(lambda: 1, name="look")], on_event=fail)


def test_programs_without_a_loop_have_act_too() -> None:
    def look() -> str:
        return "seen"

    result = society.sync.act(script("look"), "go", tools=[look])
    assert (result.outcome, results(result)) == ("done", [("seen", False)])


def test_without_a_loop_async_tools_are_refused_by_name_when_they_are_given() -> None:  # P48
    async def look() -> str:
        return "seen"

    model = script("look")
    for tool in (look, as_tool(look), functools.partial(look)):
        with pytest.raises(AsyncToolRefused):
            society.sync.act(model, "go", tools=[tool])
    with pytest.raises(AsyncToolRefused, match="'look' is an `async def`"):
        society.sync.act(model, "go", tools=[look])
    assert model.requests == []
