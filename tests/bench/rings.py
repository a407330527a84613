"""The ring: N agents, each reads one message and sends one, 20 rounds. Rates are agent-ticks per second of CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from society import Agent, AsyncSociety

ROUNDS = 20
LARGEST = 10_000


def ring(size: int, *, awaited: bool, keep_trace: bool) -> AsyncSociety:
    names = [f"agent-{place}" for place in range(size)]

    def passing(to: str) -> Callable[[Any], Any]:
        def plain(tick: Any) -> None:
            number = 0
            for message in tick.inbox:
                number = message.body["number"]
            tick.send(to, "token", number=number + 1)

        async def in_task(tick: Any) -> None:
            plain(tick)

        return in_task if awaited else plain

    agents = [Agent(name, passing(names[(place + 1) % size])) for place, name in enumerate(names)]
    return AsyncSociety(agents, keep_trace=keep_trace)


def rate(size: int, *, awaited: bool, keep_trace: bool) -> float:
    """Return the rate of as many rings as make as many ticks as the largest does."""
    towns = [ring(size, awaited=awaited, keep_trace=keep_trace) for _ in range(LARGEST // size)]
    began = time.process_time()
    for town in towns:
        trio.run(town.run, ROUNDS)
    return LARGEST * ROUNDS / (time.process_time() - began)


def bare_rate(size: int) -> float:
    """Return the rate of a bare nursery that starts one task per agent and round."""

    async def nothing() -> None:
        return None

    async def rounds() -> None:
        for _ in range(ROUNDS):
            async with trio.open_nursery() as nursery:
                for _ in range(size):
                    nursery.start_soon(nothing)

    began = time.process_time()
    for _ in range(LARGEST // size):
        trio.run(rounds)
    return LARGEST * ROUNDS / (time.process_time() - began)


def side_by_side(*measured: Callable[[], float], repeat: int = 5) -> list[float]:
    """Return the best of several figures of each, taken in turn: the machine is shared, and noise only ever slows down."""
    figures = [[measure() for measure in measured] for _ in range(repeat)]
    return [max(column) for column in zip(*figures, strict=True)]


def ring_costs() -> list[tuple[str, float, str]]:
    rows: list[tuple[str, float, str]] = []
    for keep, bar in ((True, 60_000), (False, 200_000)):
        what = "trace kept" if keep else "no trace"
        tiny, small, large = side_by_side(
            *(partial(rate, size, awaited=False, keep_trace=keep) for size in (100, 1_000, LARGEST))
        )
        rows.append((f"ring, plain, {what}, N=100, ticks/s", tiny, ""))
        rows.append((f"ring, plain, {what}, N=1,000, ticks/s", small, f">= {bar}"))
        rows.append((f"ring, plain, {what}, N=10,000 against N=1,000", large / small, ">= 0.8"))
    for size in (100, 1_000, LARGEST):
        ours, bare = side_by_side(
            partial(rate, size, awaited=True, keep_trace=False), partial(bare_rate, size), repeat=3
        )
        rows.append((f"ring, async, N={size:,}, against a bare nursery", ours / bare, ">= 0.5"))
    return rows
