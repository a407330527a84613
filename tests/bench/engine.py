"""What waiting, large SHARED and many agents in flight cost, and how long a command takes to say what it can do."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from society import Agent, AsyncHost, AsyncSociety, Limits

PARKED = 100_000


def bounded_waiting(repeat: int = 3) -> float:
    """Return seconds for 200 agents that await one 50 ms tool each under a bound of 20; the ideal is 0.5."""
    host = AsyncHost()

    @host.tool("wait")
    async def wait() -> None:
        await trio.sleep(0.05)

    async def waiting(tick: Any) -> None:
        await tick.call("wait")

    def once() -> float:
        agents = [Agent(f"agent-{place}", waiting) for place in range(200)]
        town = AsyncSociety(agents, hosts=host, limits=Limits(max_concurrent_tools=20))
        began = time.perf_counter()
        trio.run(town.run, 1)
        return time.perf_counter() - began

    return min(once() for _ in range(repeat))


def round_with(keys: int, rounds: int = 2_000, repeat: int = 3) -> float:
    """Return CPU seconds for one round that writes one of so many SHARED keys."""

    def writing(tick: Any) -> None:
        tick.share("key-1", tick.round)

    async def measured() -> float:
        town = AsyncSociety([Agent("ada", writing)], shared={f"key-{place}": 0 for place in range(keys)})
        await town.run(100)
        gc.collect()  # what was made to set the society up is not part of a round
        began = time.process_time()
        await town.run(100 + rounds)
        return (time.process_time() - began) / rounds

    return min(trio.run(measured) for _ in range(repeat))


def parked_bytes() -> float:
    """Return bytes of memory for each of 100,000 agents that wait in a tool."""
    program = "import trio\nfrom tests.bench.engine import parked\nprint(trio.run(parked))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(ran.stdout)


async def parked() -> float:
    host = AsyncHost()

    @host.tool("park")
    async def park() -> None:
        await trio.sleep_forever()

    async def parking(tick: Any) -> None:
        await tick.call("park")

    agents = [Agent(f"agent-{place}", parking) for place in range(PARKED)]
    town = AsyncSociety(agents, hosts=host, limits=Limits(max_concurrent_tools=None))
    base = resident()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(town.run, 1)
        while town.stats["tools"]["in_flight"] < PARKED:
            await trio.sleep(0.2)
        each = (resident() - base) / PARKED
        nursery.cancel_scope.cancel()
    return each


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def help_seconds(repeat: int = 5) -> float:
    """Return wall seconds of `society --help`, the best of several."""

    def once() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "society", "--help"], capture_output=True, check=True)
        return time.perf_counter() - began

    return min(once() for _ in range(repeat))


def engine_costs() -> list[tuple[str, float, str]]:
    small, large = round_with(100), round_with(100_000)
    rows: list[tuple[str, Callable[[], float], str]] = [
        ("200 agents, one 50 ms tool each, bound 20, against 0.5 s", lambda: bounded_waiting() / 0.5, "<= 1.05"),
        ("a round with 100,000 SHARED keys, against 100", lambda: large / small, "<= 1.2"),
        ("memory of an agent parked in a tool, of 100,000; bytes", parked_bytes, "<= 6000"),
        ("society --help, seconds", help_seconds, "<= 0.3"),
    ]
    return [(name, measure(), bar) for name, measure, bar in rows]
