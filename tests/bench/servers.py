"""What a call to a tool server costs, by that of the bare SDK's client to the same server, in the same run.

The server is a process of its own that speaks over pipes, so that its time is not ours; both sides take turns of a few calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import trio

from society import Agent, AsyncMCPHost, AsyncSociety, MemoryStore, connect_async

SERVER: Final = Path(__file__).parents[1] / "tool_server.py"
CALLS: Final = 50
TURNS: Final = 20
OPENINGS: Final = 5


def server_costs() -> list[tuple[str, float, str]]:
    """Return the quickest of some turns: a society's calls and a host's opening, by those of the SDK."""
    bare, ours, kept = trio.run(_side_by_side)
    plain, host = trio.run(_opened)
    return [
        ("server: a tool call over pipes, us", ours[1] / CALLS * 1e6, ""),
        ("server: a call by the bare SDK's, time", ours[1] / bare[1], "<= 2"),
        ("server: a call by the bare SDK's, processor time", ours[0] / bare[0], "<= 1.6"),
        ("server: with a journal by the bare SDK's, processor time", kept[0] / bare[0], "<= 1.9"),
        ("server: opened, listed and closed, ms", host * 1e3, ""),
        ("server: the same by the bare SDK's", host / plain, "<= 1.5"),
    ]


async def _side_by_side() -> list[tuple[float, float]]:
    """Return (processor seconds, seconds) of the quickest turn of each: the SDK, a society, a society with a journal."""
    from mcp import Client, StdioServerParameters

    command = [sys.executable, "-S", str(SERVER)]
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(parameters) as client, connect_async("srv", command=command) as host:

        async def bare() -> None:
            for number in range(CALLS):
                result = await client.call_tool("echo", {"n": number})
                assert result.structured_content == {"n": number}

        turns: list[Callable[[], Awaitable[Any]]] = [
            bare,
            lambda: _society(host, None).run(1),
            lambda: _society(host, MemoryStore()).run(1),
        ]
        quickest = [(float("inf"), float("inf"))] * len(turns)
        for _ in range(TURNS):
            for place, turn in enumerate(turns):
                cpu, wall = time.process_time(), time.perf_counter()
                await turn()
                took = time.process_time() - cpu, time.perf_counter() - wall
                quickest[place] = min(quickest[place][0], took[0]), min(quickest[place][1], took[1])
    return quickest


async def _opened() -> tuple[float, float]:
    """Return the seconds in which a server is started, asked for its tools and ended: by the SDK, and as a host."""
    from mcp import Client, StdioServerParameters

    command = [sys.executable, "-S", str(SERVER)]

    async def bare() -> None:
        async with Client(StdioServerParameters(command=command[0], args=command[1:])) as client:
            await client.list_tools()

    async def ours() -> None:
        async with connect_async("srv", command=command):
            pass

    quickest = [float("inf")] * 2
    for _ in range(OPENINGS):
        for place, turn in enumerate((bare, ours)):
            begun = time.perf_counter()
            await turn()
            quickest[place] = min(quickest[place], time.perf_counter() - begun)
    return quickest[0], quickest[1]


def _society(host: AsyncMCPHost, store: Any) -> AsyncSociety:
    async def ada(tick: Any) -> None:
        for number in range(CALLS):
            assert await tick.call("srv__echo", n=number) == {"n": number}

    return AsyncSociety([Agent("ada", ada)], hosts=host, store=store)
