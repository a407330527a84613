"""Other schedules: the same program, its tasks in another order and its boundaries slower or faster.

trio shuffles each batch of ready tasks with a generator of its own. Seeding it gives the same order again, and other seeds
give other orders; without that, hypothesis with pytest-trio explores one schedule only. Both names are private to trio:
where a new version has renamed them, this module says so instead of testing nothing.

Delays come from generators that have nothing to do with the society's seed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio
import trio._core._run as scheduler
import trio.testing

assert hasattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING"), "this trio has another name for deterministic scheduling"
assert isinstance(scheduler._r, random.Random), "this trio keeps the generator of its schedule elsewhere"


class Backward(random.Random):
    """A schedule that runs the newest ready task first."""

    def shuffle(self, tasks: Any) -> None:
        return None  # sorted by age, and taken from the end


class Forward(random.Random):
    """A schedule that runs the oldest ready task first: the tame one, for comparison."""

    def shuffle(self, tasks: Any) -> None:
        tasks.reverse()


def order_of(schedule: int) -> random.Random:
    """Return what shuffles the tasks of a schedule: 0 is forward, 1 backward, all others are random."""
    return {0: Forward, 1: Backward}.get(schedule, random.Random)(schedule)


@contextmanager
def scheduled(schedule: int) -> Iterator[None]:
    """Let trio run ready tasks in the order of this schedule."""
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, order_of(schedule)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = before


def run(function: Callable[..., Awaitable[Any]], *args: Any, schedule: int = 2) -> Any:
    """Run an async function under a schedule, with a clock that jumps."""
    with scheduled(schedule):
        return trio.run(function, *args, clock=trio.testing.MockClock(autojump_threshold=0))


class Delays:
    """Random delays, up to a second of a clock that jumps; some are none at all, some a mere checkpoint."""

    def __init__(self, schedule: int) -> None:
        self._random = random.Random(f"delays {schedule}")

    async def __call__(self) -> None:
        match self._random.randrange(4):
            case 0:
                return
            case 1:
                await trio.lowlevel.checkpoint()
            case _:
                await trio.sleep(self._random.random())
