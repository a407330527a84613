"""What a turn of calls, a model call and a long thread cost.

The model call is compared with the bare SDK's against the same server, in the same run, in turns of a few calls each; the
server is a process of its own, so that its time is not ours.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import trio

from society import AnthropicModel, AsyncHost, AsyncSociety, Limits, ModelAgent, ScriptedModel, act, asking
from society.acts import as_tool
from society.models import Request
from society.testing import say
from tests.messages_server import serving

SECONDS: Final = 0.1
"""Of each call of a turn."""
CALLS: Final = 10

REPLY: Final = say("The service answers again. I restarted it once, and nobody had to be paged. " * 3)


def turn_costs() -> list[tuple[str, float, str]]:
    """Return how long a turn of ten calls takes, by one of them."""
    rows = []
    for where, seconds in (("act", _act_seconds), ("society", _society_seconds)):
        rows += [
            (f"{where}: ten reads of a turn, by one of them", _quickest(seconds, True) / SECONDS, "<= 1.1"),
            (f"{where}: ten effects of a turn, by one of them", _quickest(seconds, False) / SECONDS, "<= 10.5"),
        ]
    return rows


def _quickest(seconds: Callable[[bool], Awaitable[float]], reads: bool, repeat: int = 3) -> float:
    return min(trio.run(seconds, reads) for _ in range(repeat))


async def _act_seconds(reads: bool) -> float:
    async def look(place: int) -> int:
        await trio.sleep(SECONDS)
        return place

    began = time.perf_counter()
    result = await act(ScriptedModel(_script()), "go", tools=[as_tool(look, reads_only=reads)], overlap="reads")
    took = time.perf_counter() - began
    assert result.outcome == "done" and result.turns == 2
    return took


async def _society_seconds(reads: bool) -> float:
    host = AsyncHost()

    @host.tool("look", reads_only=reads)
    async def look(place: int) -> int:
        await trio.sleep(SECONDS)
        return place

    town = AsyncSociety(
        [ModelAgent("ada", "Look around.", tools=["look"])],
        hosts=host,
        model=ScriptedModel({"ada": _script()}),
        limits=Limits(max_concurrent_tools=None),
    )
    began = time.perf_counter()
    await town.run(1)
    took = time.perf_counter() - began
    assert town.metrics["tool_calls"] == CALLS
    return took


def _script() -> list[dict[str, Any]]:
    calls = [{"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"place": n}} for n in range(CALLS)]
    return [{"stop_reason": "tool_use", "content": calls}, say("done")]


# ── one call ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def call_costs() -> list[tuple[str, float, str]]:
    """Return our CPU time for one model call by the bare SDK's: whole ticks of a model-driven agent, and the model alone."""
    with _server() as url:
        return trio.run(_call_costs, url)


async def _call_costs(url: str, turns: int = 12, calls: int = 25) -> list[tuple[str, float, str]]:
    rows = []
    for stream in (True, False):
        model = AnthropicModel("m", base_url=url, stream=stream)
        town = AsyncSociety([ModelAgent("ada", SYSTEM, memory="fresh")], model=model)
        await town.run(1)
        request = Request(await _last_body(url))
        bare = _bare(url, dict(request.body), stream)

        async def ticks(town: Any = town) -> None:
            await town.run(town.round + calls)

        async def replies(model: Any = model, request: Any = request) -> None:
            for _ in range(calls):
                await model.reply(request)

        async def sdk(bare: Any = bare) -> None:
            for _ in range(calls):
                await bare()

        seconds = await _side_by_side({"sdk": sdk, "model": replies, "tick": ticks}, turns)
        kind = "streamed" if stream else "in one piece"
        rows += [
            (f"model call {kind}: CPU by the bare SDK's", seconds["model"] / seconds["sdk"], "<= 1.2"),
            (f"tick of a model-driven agent {kind}: by the same", seconds["tick"] / seconds["sdk"], "<= 1.2"),
            (f"bare SDK {kind}, us", seconds["sdk"] / calls * 1e6, ""),
        ]
    return rows


SYSTEM: Final = "You keep the service alive. " * 20


async def _last_body(url: str) -> Any:
    """Return the body that such an agent sends."""
    heard: list[Any] = []

    class Listening:
        name, price = "listening", None

        async def reply(self, request: Request) -> Any:
            heard.append(request.body)
            return REPLY

    await AsyncSociety([ModelAgent("ada", SYSTEM, memory="fresh")], model=Listening()).run(1)
    return heard[0]


def _bare(url: str, body: dict[str, Any], stream: bool) -> Callable[[], Awaitable[Any]]:
    """Return one call as anybody makes it with the SDK: to the message that it gives."""
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="none", base_url=url, max_retries=0)

    async def streamed() -> Any:
        async with client.messages.stream(model="m", **body) as events:
            return await events.get_final_message()

    async def whole() -> Any:
        return await client.messages.create(model="m", **body)

    return streamed if stream else whole


async def _side_by_side(works: dict[str, Callable[[], Awaitable[None]]], turns: int) -> dict[str, float]:
    """Return the least CPU seconds of each, measured in turns."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(turns):
        for name, work in works.items():
            began = time.process_time()
            await work()
            least[name] = min(least[name], time.process_time() - began)
    return least


@contextlib.contextmanager
def _server() -> Iterator[str]:
    program = "import trio\nfrom tests.bench.models import serve\ntrio.run(serve)"
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


async def serve() -> None:
    """Answer everything with one reply, and say where."""
    async with serving(lambda received: REPLY) as server:
        print(server.url, flush=True)
        await trio.sleep_forever()


# ── a long thread ───────────────────────────────────────────────────────────────────────────────────────────────────────


def thread_costs() -> list[tuple[str, float, str]]:
    """Return the CPU time of the next tick of a long thread by that of a short one, without what its bytes cost."""
    short, long = trio.run(_tick_seconds, 10), trio.run(_tick_seconds, 1_000)
    return [
        ("thread of 1,000 exchanges: next request, by one of 10", long / short, "<= 2"),
        ("thread of 10 exchanges: a tick, us", short * 1e6, ""),
    ]


async def _tick_seconds(exchanges: int, ticks: int = 40, repeat: int = 5) -> float:
    """Return CPU seconds of a tick, less what it takes to write its request as bytes."""

    class Curt:
        name, price = "curt", None

        async def reply(self, request: Request) -> Any:
            return say("It answers.")

    town = AsyncSociety([ModelAgent("ada", SYSTEM, context=10**9)], model=Curt())
    await town.run(exchanges)
    least = float("inf")
    for _ in range(repeat):
        with _timed_digests() as spent:
            began = time.process_time()
            await town.run(town.round + ticks)
            least = min(least, (time.process_time() - began - sum(spent)) / ticks)
    return least


@contextlib.contextmanager
def _timed_digests() -> Iterator[list[float]]:
    """Give the CPU seconds that requests take to be written and digested, as they are."""
    spent: list[float] = []
    digest = asking._digest

    def timed(body: Any) -> str:
        began = time.process_time()
        found = digest(body)
        spent.append(time.process_time() - began)
        return found

    asking._digest = timed
    try:
        yield spent
    finally:
        asking._digest = digest
