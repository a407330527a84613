"""Boards, neighbors and sweeps. Rates are agent-ticks per second of CPU time, but for the sweep, which is about the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from society import Agent, AsyncSociety, grid, load_scenario, sweep

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
SIDE = 100
ROUNDS = 10


def activation_costs() -> list[tuple[str, float, str]]:
    rows: list[tuple[str, float, str]] = []
    small, large = best(lambda: dilemma(99)), best(lambda: dilemma(198), 2)
    rows.append(("dilemma 99 x 99, no trace, ticks/s", small, ">= 30000"))
    rows.append(("dilemma 198 x 198: cost of a tick against 99 x 99", small / large, "<= 1.2"))
    ours, theirs = best(neighbors), best(mesa_two_pass)
    rows.append(("8 neighbors of 10,000, ticks/s", ours, ""))
    rows.append(("8 neighbors of 10,000, time against Mesa's two passes", theirs / ours, "<= 6"))
    one, two = swept(1), swept(2)
    rows.append(("sweep of 40 runs, 2 processes against 1", one / two, ">= 1.8"))
    return rows


def best(rate: Callable[[], float], repeat: int = 3) -> float:
    """Return the best of several rates: the machine is shared, and noise only ever slows down."""
    return max(rate() for _ in range(repeat))


def dilemma(side: int) -> float:
    """A board with as many defectors as a run settles on, so that all kinds of neighborhoods are there."""
    settings = {"width": side, "height": side, "torus": True, "defectors": 0.5}
    town = load_scenario(SCENARIOS / "dilemma.toml", set=settings).society(keep_trace=False)
    return rate_of(town, side * side)


def neighbors() -> float:
    def looking(tick: Any) -> None:
        tick.public["n"] = sum([public["n"] for public in tick.neighbors.values()]) % 7

    agents = [Agent(f"a-{place}", looking, public={"n": place % 7}) for place in range(SIDE * SIDE)]
    return rate_of(AsyncSociety(agents, topology=grid(SIDE, SIDE, torus=True), keep_trace=False), SIDE * SIDE)


def rate_of(town: Any, agents: int) -> float:
    began = time.process_time()
    trio.run(town.run, ROUNDS)
    return agents * ROUNDS / (time.process_time() - began)


def mesa_two_pass() -> float:
    """The same in Mesa, as its own examples do it: all look, then all change."""
    import random

    import mesa
    from mesa.discrete_space import FixedAgent, OrthogonalMooreGrid

    class Looking(FixedAgent):  # type: ignore[misc]
        def __init__(self, model: Any, cell: Any, n: int) -> None:
            super().__init__(model)
            self.cell, self.n, self.following = cell, n, n

        def look(self) -> None:
            self.following = sum([other.n for other in self.cell.neighborhood.agents]) % 7

        def change(self) -> None:
            self.n = self.following

    model = mesa.Model(seed=1)
    board = OrthogonalMooreGrid((SIDE, SIDE), torus=True, capacity=1, random=random.Random(1))
    for place, cell in enumerate(board.all_cells):
        Looking(model, cell, place % 7)
    began = time.process_time()
    for _ in range(ROUNDS):
        model.agents.do("look")
        model.agents.do("change")
    return SIDE * SIDE * ROUNDS / (time.process_time() - began)


def swept(workers: int) -> float:
    """Return how many seconds a sweep of 40 runs takes, about half a second each."""
    began = time.perf_counter()
    settings = {"voters": 300, "shared.ayes": 150}
    trio.run(lambda: sweep(SCENARIOS / "voter.toml", None, range(40), max_ticks=60, set=settings, workers=workers))
    return time.perf_counter() - began
