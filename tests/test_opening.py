"""Hosts of tool servers that several open, or open again: who shares a connection, and what becomes of the others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import trio
import trio.testing
from societies import doing_async, town
from test_mcp_host import gone, pid_of, serving

from society import Agent, AsyncMCPHost, ScenarioError, ServerUnavailable, aio


def asking(host: AsyncMCPHost, number: int, told: list[Any]) -> Any:
    """Return a society whose agent calls the server once."""

    async def ada(tick: Any) -> None:
        told.append(await tick.call("srv__echo", n=number))

    return town(Agent("ada", ada), hosts=host)


def test_societies_that_begin_at_once_share_one_connection_and_the_last_closes_it() -> None:
    host, told, seen = serving(tools=["echo", "slow"]), [], []

    async def ada(tick: Any) -> None:
        await tick.call("srv__slow", seconds=0.3)
        seen.append(pid_of(host))
        told.append(await tick.call("srv__echo", n=2))

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(aio.run(asking(host, 1, told), 1))
            tasks.create_task(aio.run(town(Agent("ada", ada), hosts=host), 1))

    asyncio.run(main())
    assert told == [{"n": 1}, {"n": 2}]
    assert gone(seen[0]) and gone(pid_of(host))


def test_whoever_opens_a_server_and_is_cancelled_leaves_it_to_those_who_wait_for_it_too() -> None:
    host, told = serving(), []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            first = trio.CancelScope()

            async def opens() -> None:
                with first:
                    await host.__aenter__()
                    told.append("opened")

            nursery.start_soon(opens)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(asking(host, 1, told).run, 1)
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()
        assert host._connection is not None and host._connection.ended.is_set()

    trio.run(main)
    assert told == [{"n": 1}]


def test_all_who_wait_for_a_server_that_does_not_answer_are_told() -> None:
    host, told = serving(mute=True, connect={"connect_timeout": 0.3}), []

    async def opens() -> None:
        with pytest.raises(ServerUnavailable, match="did not answer within"):
            await host.__aenter__()
        told.append(gone(pid_of(host)))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(opens)

    trio.run(main)
    assert told == [True] * 3
    trio.run(main)  # and nothing of it is left that would keep the host from being opened again
    assert told == [True] * 6


def test_a_host_that_a_program_left_open_is_opened_anew_by_the_next() -> None:
    host, told = serving(), []

    async def leaves() -> None:
        await host.__aenter__()

    trio.run(leaves)
    left = pid_of(host)
    trio.run(asking(host, 1, told).run, 1)
    assert told == [{"n": 1}]
    assert left != pid_of(host)


def test_a_host_is_not_shared_by_two_event_loops() -> None:
    async def main() -> None:
        async with serving() as host:

            def elsewhere() -> None:
                with pytest.raises(ScenarioError, match="open in another event loop"):
                    trio.run(asking(host, 1, []).run, 1)

            await trio.to_thread.run_sync(elsewhere)
            assert (await asking(host, 1, []).run(1)).outcome == "finished"

    trio.run(main)


def test_servers_of_one_name_are_one_kind_of_server() -> None:
    """Each agent may have a server of its own, by the same name; what they offer is told once, so it has to be the same."""
    told: list[Any] = []

    def make(second: AsyncMCPHost) -> Any:
        behavior = doing_async(lambda tick: tick.call("srv__echo", n=1))
        return town(Agent("ada", behavior), Agent("bob", behavior), hosts={"ada": serving(), "bob": second})

    society = make(serving())
    told.append(trio.run(society.run, 1).outcome)
    assert told == ["finished"]
    assert society.stats["server srv"] == {"calls": 2, "stray_lines": 0}
    with pytest.raises(ScenarioError, match=r"two servers are called 'srv'.*further is new") as refused:
        trio.run(make(serving(tools=["echo", "further"])).run, 1)
    assert "Traceback" not in str(refused.value)


def test_a_server_that_is_mute_over_http_costs_its_time_to_connect_and_no_more() -> None:
    async def main() -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, lambda stream: trio.sleep_forever(), [listener])
            from society import connect_async

            host = connect_async("srv", url=f"http://127.0.0.1:{port}/mcp", connect_timeout=0.3)
            begun = time.monotonic()
            with pytest.raises(ServerUnavailable, match="did not answer within"):
                await host.__aenter__()
            assert time.monotonic() - begun < 3
            nursery.cancel_scope.cancel()

    trio.run(main)
