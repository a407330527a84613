"""What surviving costs: a ring with a journal against one without, resuming late, a large SHARED, many actions at once.

Times are of both clocks where a disk takes part: CPU time says what the code costs, wall time what somebody waits.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from society import Agent, AsyncHost, AsyncSociety, FileStore, Limits, MemoryStore, Shared
from society.codec import Scan
from society.store import Journal, Write
from tests.bench.rings import ring

ROUNDS = 20


def survival_costs() -> list[tuple[str, float, str]]:
    return [*ring_with_a_journal(), *late_resume(), *growth_per_round(), *actions_in_flight()]


# ── the ring ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ring_with_a_journal(size: int = 1_000, repeat: int = 7) -> list[tuple[str, float, str]]:
    """Run them in turn, since the machine is shared, and compare the best of each."""
    cpu: dict[bool, list[float]] = {False: [], True: []}
    wall: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(repeat):
        for stored in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                town = ring(size, awaited=False, keep_trace=True)
                town.store = FileStore(folder) if stored else None
                began, began_wall = time.process_time(), time.perf_counter()
                trio.run(town.run, ROUNDS)
                cpu[stored].append(time.process_time() - began)
                wall[stored].append(time.perf_counter() - began_wall)
    return [
        (f"ring, N={size:,}, FileStore against no store, CPU", min(cpu[True]) / min(cpu[False]), "<= 1.5"),
        (f"ring, N={size:,}, FileStore against no store, wall", min(wall[True]) / min(wall[False]), "<= 1.5"),
    ]


# ── resuming ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def late_resume(repeat: int = 9) -> list[tuple[str, float, str]]:
    """Resume after 2,000 rounds and after 20, without the pass over the bytes, which both have to make."""
    few, many = resuming(20), resuming(2_000)
    costs: dict[int, list[float]] = {20: [], 2_000: []}
    for _ in range(repeat):
        for rounds, resume in ((20, few), (2_000, many)):
            costs[rounds].append(resume())
    apart = min(costs[2_000]) / min(costs[20])
    return [
        ("resume after 20 rounds, apart from the byte pass, ms", min(costs[20]) * 1_000, ""),
        ("resume after 2,000 rounds, apart from the byte pass, against 20", apart, "<= 1.5"),
    ]


def resuming(rounds: int) -> Callable[[], float]:
    """Return what resumes a run after so many rounds, and gives the seconds it took but for checking the chain."""
    store = MemoryStore()
    trio.run(town_of(50, store).run, rounds)
    found = store.read()

    def resume() -> float:
        again = town_of(50, Scanned(found))
        began = time.process_time()
        trio.run(again.run, rounds + 1)
        return time.process_time() - began

    return resume


@attrs.define
class Scanned:
    """A store whose bytes were checked before, and that forgets what is written to it."""

    found: Scan
    path: str = "scanned"
    forgets: bool = True

    def read(self) -> Scan:
        return self.found

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Journal, Scan]]:
        async def at_once(write: Write, batch: list[bytes]) -> None:
            write(batch)

        yield Journal(self.path, self.found.sum, lambda batch: None, at_once), self.found


def town_of(size: int, store: Any) -> AsyncSociety:
    """Return a society whose state stays as large as it is: a resume costs what state and open round cost."""

    def working(tick: Any) -> None:
        tick.share(tick.agent, tick.round)
        tick.state["seen"] = [message.body["round"] for message in tick.inbox]
        tick.send(f"agent-{(tick.index + 1) % size}", "news", round=tick.round)

    agents = [Agent(f"agent-{place}", working, index=place) for place in range(size)]
    shared = {agent.name: 0 for agent in agents}
    return AsyncSociety(agents, shared=shared, store=store, keep_trace=False)


# ── a large SHARED ──────────────────────────────────────────────────────────────────────────────────────────────────────


def growth_per_round() -> list[tuple[str, float, str]]:
    small, large = bytes_per_round(100), bytes_per_round(100_000)
    return [
        ("journal of one changed key per round, 100 keys, bytes a round", small, ""),
        ("journal of one changed key per round, 100,000 keys against 100", large / small, "<= 1.05"),
    ]


def bytes_per_round(keys: int) -> float:
    def working(tick: Any) -> None:
        tick.share("key-7", tick.round)

    store = MemoryStore()
    town = AsyncSociety([Agent("ada", working)], shared={f"key-{n}": Shared(n) for n in range(keys)}, store=store)
    trio.run(town.run, 200)
    lines = [line for line, kind in zip(store.read().lines(), store.read().kinds, strict=True) if kind == "barrier"]
    return statistics.mean(map(len, lines[100:]))


# ── actions in flight ───────────────────────────────────────────────────────────────────────────────────────────────────


def actions_in_flight(agents: int = 500, actions: int = 20) -> list[tuple[str, float, str]]:
    """Let agents act through the real gate, each action durable before it starts and before its result is used."""
    host = AsyncHost()

    @host.tool("pay")
    async def pay(n: int) -> int:
        return n

    async def paying(tick: Any) -> None:
        for n in range(actions):
            await tick.call("pay", n=n)

    best, per_sync = 0.0, 0.0
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            store = Counting(Path(folder))
            town = AsyncSociety(
                [Agent(f"agent-{place}", paying) for place in range(agents)],
                hosts=host,
                limits=Limits(max_concurrent_tools=None),
                store=store,
            )
            began = time.perf_counter()
            trio.run(town.run, 1)
            rate = 2 * agents * actions / (time.perf_counter() - began)
            if rate > best:
                best, per_sync = rate, 2 * agents * actions / store.syncs
    return [
        (f"{agents} agents × {actions} durable actions, intents and results/s", best, ">= 5000"),
        (f"{agents} agents × {actions} durable actions, records per sync", per_sync, ">= 10"),
    ]


class Counting(FileStore):
    """A file store that counts its syncs."""

    syncs = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Journal, Scan]]:
        async with super().opened() as (journal, found):
            yield journal, found
            self.syncs = journal.batches
