"""The gate: order of effects, bounds, timeouts, and what each boundary makes of a call that did not end well."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
from schedules import run
from societies import keeping, town

from society import Agent, AsyncHost, Limits, Shared, ToolFailed
from society.errors import TickOver


def test_delegations_that_never_end_fail_at_one_depth_whoever_calls() -> None:
    """J5, J8: where Python's own stack ends depends on the program around the run."""
    host = AsyncHost()

    @host.subagent("again")
    async def again(tick: Any, payload: Any) -> Any:
        return await tick.delegate("again", payload + 1)

    async def ada(tick: Any) -> None:
        await tick.delegate("again", 1)

    def deeper(frames: int) -> Any:
        if frames:
            return deeper(frames - 1)
        society = town(Agent("ada", ada), hosts=host)
        assert trio.run(society.run, 1).outcome == "failed"
        return society.trace

    trace = deeper(0)
    assert trace.digest == deeper(200).digest
    assert len(trace.where(kind="delegate")) == 64
    (failed,) = trace.where(kind="failed")
    assert failed.error.endswith("delegations nest over 64 deep, the last to 'again': does it end anywhere?")


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


def slow_world() -> AsyncHost:
    host = AsyncHost()

    @host.tool("slow")
    async def slow() -> None:
        await trio.sleep(100)

    @host.tool("quick")
    async def quick() -> str:
        return "done"

    @host.sensor("stuck")
    async def stuck() -> None:
        await trio.sleep(100)

    return host


def test_a_late_tick_tells_what_it_waited_for() -> None:
    async def ada(tick: Any) -> None:
        await tick.gather(tick.read("stuck"), tick.call("slow"))

    async def bob(tick: Any) -> None:
        with trio.move_on_after(1):
            await tick.read("stuck")
        await trio.sleep(100)

    society = town(ada, bob, hosts=slow_world(), limits=Limits(round_timeout=5))
    run(society.run, 1)
    assert [(event.agent, event.waiting_for) for event in society.trace.where(kind="late")] == [
        ("ada", "read stuck"),
        ("bob", None),
    ]


@pytest.mark.parametrize("stray", ["read", "call"])
def test_what_a_stray_task_asked_for_ends_with_its_tick_and_leaves_no_record(stray: str) -> None:
    """R16; the call waits for a slot when its tick ends, and must not be carried out afterwards."""
    host, called = slow_world(), []

    @host.tool("hold")
    async def hold() -> None:
        await trio.sleep(10)

    @host.tool("effect")
    async def effect() -> None:
        called.append(1)

    raised: list[str] = []

    async def main() -> Any:
        async with trio.open_nursery() as outside:

            async def swallowing(crossing: Any) -> None:
                try:
                    await crossing
                except Exception as error:
                    raised.append(type(error).__name__)

            async def ada(tick: Any) -> None:
                if tick.round == 1:
                    crossing = tick.read("stuck") if stray == "read" else tick.call("effect")
                    await trio.sleep(1)
                    outside.start_soon(swallowing, crossing)
                    await trio.sleep(1)
                else:
                    await trio.sleep(50)

            async def bob(tick: Any) -> None:
                await tick.call("hold")

            society = town(ada, bob, hosts=host, limits=Limits(max_concurrent_tools=1))
            kept.append(keeping(society))
            await society.run(2)
            return society

    kept: list[Any] = []
    run(main)
    assert raised == ["TickOver"] and not called
    assert [record.agent for record in kept[0].records() if hasattr(record, "at")] == ["bob"] * 4


def test_once_a_run_is_cancelled_no_further_crossing_starts_even_if_a_tool_swallows_the_cancellation() -> None:
    """P27, J10."""
    host, started = AsyncHost(), []

    @host.tool("stubborn")
    async def stubborn() -> str:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(100)
        return "stopped early"

    @host.sensor("eye")
    async def eye() -> int:
        started.append("eye")
        return 1

    @host.tool("hand")
    async def hand() -> None:
        started.append("hand")

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> None:
        started.append("helper")

    @host.subagent("oracle")
    async def oracle(payload: Any) -> None:
        started.append("oracle")

    async def ada(tick: Any) -> None:
        await tick.call("stubborn")
        for crossing in (tick.read("eye"), tick.call("hand"), tick.delegate("helper", 1), tick.delegate("oracle", 1)):
            with contextlib.suppress(trio.Cancelled):
                await crossing
        await tick.read("eye")

    society = town(ada, hosts=host)
    kept = keeping(society)

    async def main() -> Any:
        async with trio.open_nursery() as nursery:

            async def cancel_soon() -> None:
                await trio.sleep(1)
                society.cancel()

            nursery.start_soon(cancel_soon)
            return await society.run(3)

    result = run(main)
    assert (result.outcome, result.rounds, started) == ("cancelled", 0, [])
    assert [type(record).__name__ for record in kept.records()][2:] == ["Intent", "Result", "End"]


@pytest.mark.parametrize("crossing", ["call", "read", "turn"])
def test_a_crossing_given_up_while_it_waits_for_a_slot_or_its_turn_is_recorded_as_cut(crossing: str) -> None:
    """J3: served again it must wait until it is given up again, not be carried out."""
    host = slow_world()

    async def ada(tick: Any) -> None:
        async with trio.open_nursery() as nursery:
            if crossing == "turn":
                nursery.start_soon(tick.call, "slow")
            with trio.move_on_after(1):
                await (tick.read("stuck") if crossing == "read" else tick.call("quick"))

    async def bob(tick: Any) -> None:
        if crossing != "turn":
            await (tick.read("stuck") if crossing == "read" else tick.call("slow"))

    limits = Limits(max_concurrent_tools=1 if crossing == "call" else 2, max_concurrent_reads=1)
    society = town(bob, ada, hosts=host, limits=limits)
    kept = keeping(society)
    run(society.run, 1, schedule=0)
    cuts = [record for record in kept.records() if getattr(record, "cut", False)]
    assert [(record.agent, record.at) for record in cuts] == [("ada", "2" if crossing == "turn" else "1")]
    assert not society.trace.where(kind="action", agent="ada") or crossing == "turn"


def test_a_sub_agent_that_was_given_up_leaves_none_of_its_writes() -> None:
    host = AsyncHost()

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> None:
        tick.share("k", payload)
        await trio.sleep(100 if payload == 1 else 0)

    async def ada(tick: Any) -> None:
        with trio.move_on_after(1):
            await tick.delegate("helper", 1)
        await tick.delegate("helper", 2)

    society = town(ada, hosts=host, shared={"k": Shared([], merge="append")})
    assert run(society.run, 1).shared["k"] == [2]


def test_the_tick_of_a_sub_agent_is_dead_once_it_has_ended_well_or_not() -> None:
    host, lanes = AsyncHost(), []

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> None:
        lanes.append(tick)
        if payload:
            raise ValueError(payload)

    async def ada(tick: Any) -> None:
        await tick.delegate("helper", 0)
        with pytest.raises(ToolFailed):
            await tick.delegate("helper", 1)
        for lane in lanes:
            with pytest.raises(TickOver):
                lane.share("k", 1)
            with pytest.raises(TickOver):
                lane.call("anything")

    assert run(town(ada, hosts=host, shared={"k": 0}).run, 1).outcome == "finished"
