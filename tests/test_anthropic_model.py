"""The real SDK, under trio, against a server on loopback (L6, P45)."""

from __future__ import annotations

import itertools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import trio
from messages_server import Breaks, Bytes, Cut, Ends, Mute, Received, Status, events, serving

import society.anthropic_model
from society.acts import act, acting
from society.anthropic_model import AnthropicModel, wait_before
from society.budget import Budget, Price
from society.errors import MalformedReply, ModelSilent
from society.limits import Limits
from society.loop import ROWS
from society.models import Heard, Request, Spoke, Waits, request_body
from society.replies import reply_of, text_of
from society.slots import Slots
from society.testing.replies import say, use
from society.width import SharedWidth

PLANTED = "sk-planted-0123456789"

pytestmark = pytest.mark.trio


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr(society.anthropic_model, "FIRST_WAIT", 0.001)


def request(listener: Callable[[Heard], None] | None = None, agent: str = "ada", **body: Any) -> Request:
    given = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, **body}
    return Request(request_body(**given), agent=agent, listener=listener)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_is_the_same_streamed_and_not(stream: bool) -> None:
    thinking = {"type": "thinking", "thinking": "let me see", "signature": "c2ln"}
    whole = use("buy", saying="one moment ☂", item={"name": "Zoë", "count": 2}, usage={"output_tokens": 9})
    whole["content"].insert(0, thinking)
    async with serving([whole]) as server:
        reply = reply_of(await AnthropicModel("m", base_url=server.url, stream=stream).reply(request()))

    assert reply["content"] == whole["content"]
    assert (reply["stop_reason"], reply["usage"]["output_tokens"]) == ("tool_use", 9)
    assert server.received[0].body["model"] == "m"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reason", [*ROWS, "brand_new_reason"])
async def test_every_stop_reason_comes_through(reason: str, stream: bool) -> None:
    async with serving([say("x", stop_reason=reason)]) as server:
        reply = reply_of(await AnthropicModel("m", base_url=server.url, stream=stream).reply(request()))
    assert reply["stop_reason"] == reason


async def test_a_refusal_comes_with_its_category() -> None:  # P09
    details = {"type": "refusal", "category": "bio", "explanation": None}
    async with serving([{"content": [], "stop_reason": "refusal", "stop_details": details}] * 2) as server:
        for stream in (True, False):
            result = await act(AnthropicModel("m", base_url=server.url, stream=stream), "go")
            assert (result.outcome, result.reason) == ("refused", "category bio")


async def test_a_whole_loop_goes_over_the_wire() -> None:
    def rain(city: str) -> dict[str, Any]:
        return {"city": city, "mm": 4}

    spoken: list[str] = []
    async with serving([use("rain", city="東京"), say("It rains.")]) as server:
        model = AnthropicModel("m", base_url=server.url, price=Price(input=1, output=1))
        async with acting(model, "Rain?", tools=[rain], system="Be brief.", budget=Budget(usd=1)) as happening:
            async for event in happening:
                if isinstance(event, Spoke):
                    spoken.append(event.text)

    assert (event.outcome, event.text, event.usage.calls) == ("done", "It rains.", 2)
    assert "".join(spoken) == "It rains."
    sent = server.received[1].body
    assert sent["system"] == "Be brief."
    assert sent["messages"][2]["content"][0]["content"] == '{"city": "東京", "mm": 4}'


async def test_arguments_that_break_off_are_not_run() -> None:  # P13
    counted: list[str] = []

    def delete_notes(ids: str = "all") -> None:
        counted.append(ids)

    def count_notes() -> int:
        return 7

    reply = use([("delete_notes", {}), ("count_notes", {})])
    reply["content"][0]["raw"] = '{"ids": [1, 2'
    async with serving([reply, say("done")]) as server:
        result = await act(AnthropicModel("m", base_url=server.url), "go", tools=[delete_notes, count_notes])

    first, second = server.received[1].body["messages"][2]["content"]
    assert counted == []
    assert first["is_error"]
    assert "not valid JSON: Expecting ',' delimiter at character 14 of 13" in first["content"]
    assert second["content"] == "7"
    assert result.outcome == "done"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_number_too_long_costs_its_call_only(stream: bool) -> None:  # P15
    paid: list[int] = []

    def pay(price: int) -> str:
        paid.append(price)
        return "ok"

    limit = sys.get_int_max_str_digits()
    if stream:
        reply = use([("pay", {}), ("pay", {"price": 5})])
        reply["content"][0]["raw"] = '{"price": ' + "9" * 5000 + "}"
        answer: Any = reply
    else:
        body = '{"content": [{"type": "tool_use", "id": "t1", "name": "pay", "input": {"price": ' + "9" * 5000
        body += (
            '}}, {"type": "tool_use", "id": "t2", "name": "pay", "input": {"price": 5}}], "stop_reason": "tool_use"}'
        )
        answer = Bytes(body.encode())
    async with serving([answer, say("done")]) as server:
        await act(AnthropicModel("m", base_url=server.url, stream=stream), "go", tools=[pay])

    first, second = server.received[1].body["messages"][2]["content"]
    assert paid == [5]
    assert "number too long" in first["content"]
    assert second["content"] == "ok"
    assert sys.get_int_max_str_digits() == limit


async def test_a_lone_surrogate_is_replaced() -> None:  # P60
    async with serving([say("ok \ud835 end")] * 2) as server:
        for stream in (True, False):
            reply = reply_of(await AnthropicModel("m", base_url=server.url, stream=stream).reply(request()))
            assert text_of(reply["content"]) == "ok � end"


@pytest.mark.parametrize("after", range(len(events(use("buy", saying="one", item="x")))))
async def test_a_stream_that_loses_its_connection_after_any_event_is_asked_for_again(after: int, quick: None) -> None:
    whole = use("buy", saying="one", item="x")
    heard: list[Heard] = []
    async with serving([Cut(whole, after), whole]) as server:
        reply = reply_of(await AnthropicModel("m", base_url=server.url).reply(request(heard.append)))

    assert reply["content"] == whole["content"]
    assert len(server.received) == 2
    assert "connection lost" in next(event.why for event in heard if isinstance(event, Waits))


@pytest.mark.parametrize("after", range(1, len(events(use("buy", saying="one", item="x"))) - 2))
async def test_a_stream_that_just_ends_runs_nothing(after: int) -> None:  # L2
    bought: list[str] = []

    def buy(item: str = "everything") -> None:
        bought.append(item)

    async with serving([Ends(use("buy", saying="one", item="x"), after)]) as server:
        result = await act(AnthropicModel("m", base_url=server.url), "go", tools=[buy])
    assert (result.outcome, bought) == ("unknown_stop", [])


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(code: int, quick: None) -> None:
    async with serving([Status(code), Status(code), say("hi")]) as server:
        reply = reply_of(await AnthropicModel("m", base_url=server.url).reply(request()))
    assert text_of(reply["content"]) == "hi"
    assert len(server.received) == 3
    assert {received.headers["x-stainless-retry-count"] for received in server.received} == {"0"}


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
async def test_what_will_not_pass_is_not_tried_again(code: int) -> None:
    async with serving([Status(code, kind="its_kind", message="its message")]) as server:
        with pytest.raises(ModelSilent, match=f"{code} its_kind: its message"):
            await AnthropicModel("m", base_url=server.url).reply(request())
    assert len(server.received) == 1


async def test_the_service_may_say_whether_to_try_again(quick: None) -> None:
    no, yes = Status(500, headers={"x-should-retry": "false"}), Status(400, headers={"x-should-retry": "true"})
    async with serving([yes, no]) as server:
        with pytest.raises(ModelSilent, match="500"):
            await AnthropicModel("m", base_url=server.url).reply(request())
    assert len(server.received) == 2


async def test_attempts_are_counted_in_one_place(quick: None) -> None:
    async with serving([Status(529)] * 9) as server:
        model = AnthropicModel("m", base_url=server.url, max_attempts=3)
        with pytest.raises(ModelSilent, match=r"529.*3 attempts were made"):
            await model.reply(request())
    assert (len(server.received), model.attempts) == (3, 3)


@pytest.mark.parametrize(("kind", "asked"), [("overloaded_error", 2), ("api_error", 2), ("invalid_request_error", 1)])
async def test_an_error_in_mid_stream_passes_or_not_by_its_kind(kind: str, asked: int, quick: None) -> None:
    async with serving([Breaks(say("a long story"), 4, kind), say("hi")]) as server:
        model = AnthropicModel("m", base_url=server.url)
        if asked == 2:
            assert text_of(reply_of(await model.reply(request()))["content"]) == "hi"
        else:
            with pytest.raises(ModelSilent, match="in mid-stream: invalid_request_error: Overloaded"):
                await model.reply(request())
    assert len(server.received) == asked


async def test_nothing_is_sent_before_the_service_asks_for_it() -> None:  # P45
    async with serving([Status(429, retry_after=0.3), say("hi")]) as server:
        await AnthropicModel("m", base_url=server.url).reply(request())
    first, second = server.received
    assert second.at - first.at >= 0.3


async def test_a_service_that_asks_for_an_hour_is_silent() -> None:  # P45
    async with serving([Status(429, retry_after=3600)]) as server:
        result = await act(AnthropicModel("m", base_url=server.url), "go", limits=Limits(llm_timeout=30))
    assert result.outcome == "model_silent"
    assert "asks to wait 3600 seconds" in result.reason


async def test_a_mute_server_is_left_at_the_deadline() -> None:
    async with serving([Mute(), Mute(), say("hi")]) as server:
        model = AnthropicModel("m", base_url=server.url)
        with trio.fail_after(5):
            silent = await act(model, "go", limits=Limits(llm_timeout=0.2))
            with pytest.raises(ModelSilent, match=r"no answer within 0\.2 seconds"):
                await AnthropicModel("m", base_url=server.url, timeout=0.2).reply(request())
            assert (await act(model, "go")).outcome == "done"
            while server.hung_up < 2:
                await trio.sleep(0.01)
    assert silent.outcome == "model_silent"


@pytest.mark.parametrize(
    "garbage",
    [
        Bytes(b'{"hello": "world"}'),
        Bytes(b"<html>login</html>", "text/html"),
        Bytes(b"\xff\xfe\x00", "text/event-stream"),
        Bytes(b"data: [1, 2\n\n", "text/event-stream"),
        Bytes(b'data: {"type": "content_block_delta", "index": 3}\n\n', "text/event-stream"),
        Bytes(b"", "text/event-stream"),
        Bytes(b"[" * 100_000),
        Bytes(b"3"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_garbage_is_found_at_the_door(garbage: Bytes, stream: bool) -> None:
    async with serving([garbage, garbage]) as server:
        result = await act(AnthropicModel("m", base_url=server.url, stream=stream), "go")
    assert result.outcome == "malformed"
    assert len(server.received) == 2


async def test_a_server_that_does_not_stream_is_understood() -> None:
    body = b'{"content": [{"type": "text", "text": "plain"}], "stop_reason": "end_turn"}'
    async with serving([Bytes(body)]) as server:
        assert (await act(AnthropicModel("m", base_url=server.url), "go")).text == "plain"


async def test_nobody_listening_leaves_the_model_silent(quick: None) -> None:
    async with serving([]) as server:
        pass
    with pytest.raises(ModelSilent, match=r"connection lost: .*2 attempts were made"):
        await AnthropicModel("m", base_url=server.url, max_attempts=2).reply(request())


async def test_calls_that_are_cancelled_hang_up_and_the_model_goes_on() -> None:
    async with serving(lambda received: Mute() if len(server.received) <= 5 else say("hi")) as server:
        model = AnthropicModel("m", base_url=server.url)
        with trio.move_on_after(0.3):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(model.reply, request())
        assert text_of(reply_of(await model.reply(request()))["content"]) == "hi"
        with trio.fail_after(5):
            while server.hung_up < 5:
                await trio.sleep(0.01)


async def test_the_stable_beginning_of_a_request_is_marked_for_the_cache() -> None:
    mark = {"type": "ephemeral"}
    tools = [{"name": "a", "input_schema": {"type": "object"}}, {"name": "b", "input_schema": {"type": "object"}}]
    async with serving([say("x")] * 3) as server:
        model = AnthropicModel("m", base_url=server.url, cache=True)
        asking = request(system="You are Ada.", tools=tools)
        await model.reply(asking)
        await model.reply(request(tools=tools))
        await AnthropicModel("m", base_url=server.url).reply(asking)

    first, second, unmarked = (received.body for received in server.received)
    assert first["system"] == [{"type": "text", "text": "You are Ada.", "cache_control": mark}]
    assert first["messages"][-1]["content"] == [{"type": "text", "text": "hi", "cache_control": mark}]
    assert second["tools"][-1]["cache_control"] == mark
    assert unmarked["system"] == "You are Ada."
    assert asking["messages"] == [{"role": "user", "content": "hi"}]


async def test_further_fields_go_into_the_body() -> None:
    async with serving([say("x")] * 2) as server:
        for stream in (True, False):
            extra = {"temperature": 0, "seed": 7}
            await AnthropicModel("m", base_url=server.url, stream=stream, extra_body=extra).reply(request())
    assert [received.body["temperature"] for received in server.received] == [0, 0]
    assert [received.body["seed"] for received in server.received] == [7, 7]


async def test_the_key_goes_to_the_service_and_shows_up_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-from-the-environment")
    echo = Status(401, message=f"bad key {PLANTED}")
    stream = Bytes(f"data: {{{PLANTED}\n\n".encode(), "text/event-stream")
    whole = Bytes(f"not JSON {PLANTED}".encode())
    said: list[str] = []
    async with serving([echo, stream, whole, say("x")]) as server:
        model = AnthropicModel("m", base_url=server.url, api_key=PLANTED)
        for _ in range(3):
            with pytest.raises((ModelSilent, MalformedReply)) as caught:
                await model.reply(request())
            said += [str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))]
        await AnthropicModel("m", base_url=server.url).reply(request())

    sent = [str(received.headers) for received in server.received]
    assert all(PLANTED in headers for headers in sent[:3])
    assert "sk-from-the-environment" not in sent[3]
    assert "[key]" in said[0]
    assert not any(PLANTED in text for text in [*said, repr(model), str(model)])


async def test_a_crowded_service_makes_the_width_narrower_for_everyone_and_it_recovers(autojump_clock: Any) -> None:
    slots = Slots(4)
    width = SharedWidth(slots)
    for _ in range(4):
        await slots.acquire()

    width.crowded()
    width.crowded()  # of the same wave
    assert (slots.bound, width.narrowed) == (2, 1)
    for _ in range(3):
        await trio.sleep(2)
        width.crowded()
        assert slots.bound == 1

    seen = []
    for _ in range(6):
        width.eased()
        seen.append(slots.bound)
    assert seen == [2, 2, 3, 3, 3, 4]
    assert width.stats() == {"width": 4, "narrowest": 1, "narrowed": 4}


async def test_a_width_without_a_bound_is_open_again_in_the_end(autojump_clock: Any) -> None:
    slots = Slots(None)
    width = SharedWidth(slots)
    for _ in range(4):
        await slots.acquire()
    width.crowded()
    assert slots.bound == 2
    for _ in range(2 + 3):
        width.eased()
    assert slots.bound == float("inf")


def limited(per_second: float) -> tuple[Callable[[], Status | None], list[tuple[float, bool]]]:
    """Return a service's gate that lets so many requests a second through, and its log of (time, let through)."""
    log: list[tuple[float, bool]] = []

    def gate() -> Status | None:
        now = trio.current_time()
        through = sum(1 for at, passed in log if passed and now - at < 1) < per_second
        log.append((now, through))
        return None if through else Status(429, retry_after=1, kind="rate_limit_error")

    return gate, log


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bound", [4, None])
async def test_eight_agents_get_through_a_narrow_service(seed: int, bound: int | None, mock_clock: Any) -> None:  # P45
    import httpx2

    sent: dict[str, list[float]] = {}
    gate: Callable[[], Status | None] = lambda: None  # noqa: E731

    def answer(asking: Any) -> Any:
        agent = json.loads(asking.content)["messages"][0]["content"]
        sent.setdefault(agent, []).append(trio.current_time())
        if gate() is not None:
            error = {"type": "error", "error": {"type": "rate_limit_error", "message": "too many"}}
            return httpx2.Response(429, headers={"retry-after": "1"}, json=error)
        return httpx2.Response(200, json={"content": [], "stop_reason": "end_turn"})

    slots = Slots(bound)
    width = SharedWidth(slots)
    answered: list[str] = []

    async def ask(agent: str) -> None:
        place = await slots.acquire()
        body = request_body(messages=[{"role": "user", "content": agent}], max_tokens=16)
        await model.reply(Request(body, agent=agent, seed=seed, width=width))
        place.release()
        answered.append(agent)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        model = AnthropicModel("m", api_key="none", http_client=client, cache=False)
        # The SDK's first call asks a thread about the platform, which a clock that jumps would not wait for.
        await ask("first")
        mock_clock.autojump_threshold = 0
        gate, _ = limited(2)
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(ask, f"agent-{number}")

    assert len(answered) == 9
    assert max(map(len, sent.values())) <= 8
    for times in sent.values():
        assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))
    retries = [time for times in sent.values() for time in times[1:]]
    assert len(set(retries)) == len(retries)
    assert width.narrowed >= 1


async def test_eight_agents_finish_against_a_server_that_allows_two_requests_a_second() -> None:  # P45
    gate, log = limited(2)

    def answer(received: Received) -> Any:
        return gate() or say("hi")

    outcomes: list[str] = []
    async with serving(answer) as server:
        model = AnthropicModel("m", base_url=server.url)

        async def ask(agent: str) -> None:
            outcomes.append((await act(model, "go", agent=agent)).outcome)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(ask, f"agent-{number}")
    assert outcomes == ["done"] * 8
    assert sum(through for _, through in log) == 8


async def test_waits_are_drawn_from_the_seed_and_never_shorter_than_asked() -> None:
    def asking(**named: Any) -> Request:
        return Request(request().body, **named)

    waits = [wait_before(asking(agent=f"a{n}", seed=7), 1, 1.0) for n in range(8)]
    assert waits == [wait_before(asking(agent=f"a{n}", seed=7), 1, 1.0) for n in range(8)]
    assert waits != [wait_before(asking(agent=f"a{n}", seed=8), 1, 1.0) for n in range(8)]
    assert len(set(waits)) == 8
    assert min(waits) >= 1.0
    assert all(wait_before(asking(agent="a"), attempt, None) <= 24 for attempt in range(1, 60))
