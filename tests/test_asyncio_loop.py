"""Tools that need an asyncio loop: they run in one, and are tools like all others."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import socket
import threading
import time
from typing import Any

import pytest
import trio
from societies import doing_async, town

from society import ActionError, ActionInDoubt, Agent, AsyncHost, Limits, ScenarioError, ToolFailed, current_action


def called(host: AsyncHost, *tools: str, **limits: Any) -> list[Any]:
    """Return what calls without arguments came to, made one after another by one agent."""
    told: list[Any] = []

    async def ada(tick: Any) -> None:
        for tool in tools:
            try:
                told.append(await tick.call(tool))
            except ActionError as error:
                told.append(error)

    result = trio.run(town(ada, hosts=host, limits=Limits(**limits)).run, 1)
    assert result.outcome == "finished", result.reason
    return told


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "society asyncio loop"]


def test_a_tool_awaits_asyncio_in_a_loop_that_lives_from_call_to_call() -> None:
    host = AsyncHost()
    loops: list[Any] = []

    @host.tool("ask", loop="asyncio")
    async def ask() -> str:
        loops.append(asyncio.get_running_loop())
        async with asyncio.timeout(5):
            await asyncio.sleep(0.01)
        return current_action().agent

    assert called(host, "ask", "ask") == ["ada", "ada"]
    assert called(host, "ask") == ["ada"]
    assert len(set(loops)) == 1


def test_context_variables_travel_into_the_loop_and_not_back() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    host, seen = AsyncHost(), []

    @host.tool("look", loop="asyncio")
    async def look() -> None:
        seen.append(variable.get())
        variable.set("by the tool")

    async def ada(tick: Any) -> None:
        variable.set("by ada")
        await tick.call("look")
        seen.append(variable.get())

    trio.run(town(ada, hosts=host).run, 1)
    assert seen == ["by ada", "by ada"]


def test_what_a_tool_raises_in_the_loop_is_its_failure_and_ends_nothing_else() -> None:
    """B7"""
    host = AsyncHost()

    @host.tool("exit", loop="asyncio")
    async def exit() -> None:
        raise SystemExit(3)

    @host.tool("fail", loop="asyncio")
    async def fail() -> None:
        raise ValueError("no")

    @host.tool("own", loop="asyncio")
    async def own() -> None:
        raise asyncio.CancelledError

    @host.tool("work", loop="asyncio")
    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    *failed, after = called(host, "exit", "fail", "own", "work")
    assert [(type(error), error.error) for error in failed] == [
        (ToolFailed, "SystemExit"),
        (ToolFailed, "ValueError"),
        (ToolFailed, "CancelledError"),
    ]
    assert after == 1


def test_a_timeout_reaches_the_loop_and_the_call_is_in_doubt() -> None:
    host, ended = AsyncHost(), []

    @host.tool("slow", loop="asyncio", timeout=0.1)
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    (late,) = called(host, "slow")
    assert isinstance(late, ActionInDoubt) and late.why == "no answer in time"
    assert ended == ["cancelled"]


def test_a_tool_that_clings_to_its_loop_is_given_up_and_keeps_its_slot_until_it_ends() -> None:
    """B4"""
    host, freed = AsyncHost(), threading.Event()

    @host.tool("cling", loop="asyncio", timeout=0.05)
    async def cling() -> str:
        while not freed.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.02)
        return "done after all"

    @host.tool("other", loop="asyncio")
    async def other() -> int:
        return 1

    stuck, after = called(host, "cling", "other", max_concurrent_tools=1)
    assert isinstance(stuck, ActionInDoubt)
    assert isinstance(after, ToolFailed) and after.error == "NotExecuted"
    freed.set()
    assert called(host, "other", max_concurrent_tools=1) == [1]


def test_the_bounds_of_a_society_hold_for_calls_in_the_loop() -> None:
    """B3"""
    host, most, now = AsyncHost(), 0, 0

    @host.tool("count", loop="asyncio")
    async def count() -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    agents = [Agent(f"a{number}", doing_async(lambda tick: tick.call("count"))) for number in range(12)]
    trio.run(town(*agents, hosts=host, limits=Limits(max_concurrent_tools=3)).run, 1)
    assert most == 3


def test_the_thread_of_a_loop_ends_with_its_host() -> None:
    gc.collect()
    before = len(threads())
    host = AsyncHost()

    @host.tool("work", loop="asyncio")
    async def work() -> None:
        await asyncio.sleep(0)

    called(host, "work")
    assert len(threads()) == before + 1
    del host, work
    gc.collect()
    assert len(threads()) == before


def test_another_loop_than_asyncio_is_refused() -> None:
    with pytest.raises(ScenarioError, match='a loop is "asyncio"'):
        AsyncHost().tool("t", loop="curio")


def test_a_function_that_turns_out_to_await_asyncio_is_told_how_to_be_registered() -> None:
    host = AsyncHost()

    @host.tool("sleeps")
    async def sleeps() -> None:
        await asyncio.sleep(1)

    @host.tool("waits")
    async def waits() -> None:
        loop = asyncio.new_event_loop()
        try:
            await loop.create_future()
        finally:
            loop.close()

    @host.sensor("clock")
    async def clock() -> None:
        await asyncio.sleep(1)

    for failed in called(host, "sleeps", "waits"):
        assert failed.error == "AsyncioNeeded"
        assert '@host.tool(…, loop="asyncio")' in failed.message

    society = town(doing_async(lambda tick: tick.read("clock")), hosts=host)
    trio.run(society.run, 1)
    assert "clock awaits asyncio" in society.render_traces()


def test_an_aiohttp_tool_that_is_cancelled_in_mid_request_closes_its_connection() -> None:
    import aiohttp

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/slow"
    asked, closed = threading.Event(), threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(10)
        with connection:
            connection.recv(65_536)
            asked.set()
            if connection.recv(65_536) == b"":
                closed.set()

    server = threading.Thread(target=serve)
    server.start()
    host = AsyncHost()

    @host.tool("fetch", loop="asyncio")
    async def fetch() -> str:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.text()

    async def ada(tick: Any) -> None:
        await tick.call("fetch")

    society = town(ada, hosts=host)

    async def main() -> Any:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio.to_thread.run_sync(asked.wait, 10)
                society.cancel()

            nursery.start_soon(cancel)
            return await society.run(1)

    begun = time.monotonic()
    assert trio.run(main).outcome == "cancelled"
    assert closed.wait(2) and time.monotonic() - begun < 5
    server.join()
    listener.close()
