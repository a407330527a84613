"""The gate: order of effects, bounds, timeouts, and what each boundary makes of a call that did not end well."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from schedules import run
from societies import town
from society import AsyncHost


@pytest.mark.parametrize("schedule", range(4))
def test_effects_that_overlap_in_the_code_run_one_at_a_time_in_the_order_of_their_ordinals(schedule: int) -> None:
    """B8: any number of effects may wait for the one before them."""
    host, seen = AsyncHost(), []

    @host.tool("work")
    async def work(n: int) -> None:
        seen.append(("begin", n))
        await trio.sleep(1 / (n + 1))
        seen.append(("end", n))

    async def ada(tick: Any) -> None:
        await tick.gather(*(tick.call("work", n=n) for n in range(4)))

    run(town(ada, hosts=host).run, 1, schedule=schedule)
    assert seen == [(what, n) for n in range(4) for what in ("begin", "end")]
