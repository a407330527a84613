"""Slots: bounds over the whole society, first come first served; a thread that was given up keeps its place (B1–B4)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest
import trio
import trio.testing
from schedules import run
from societies import idle, town

from society import ActionInDoubt, Agent, AsyncHost, Limits, ScenarioError, ToolFailed
from society.slots import AllGivenUp, Slots


class Peak:
    """Counts what is inside at once."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_bound_is_a_whole_number_of_at_least_one(wrong: Any) -> None:
    for name in ("max_concurrent_tools", "max_concurrent_llm", "max_concurrent_reads", "inbox_capacity"):
        with pytest.raises(ScenarioError, match=name):
            Limits(**{name: wrong})


@pytest.mark.parametrize("wrong", [0, -1.0, True, float("inf"), float("nan"), "2"])
def test_a_timeout_is_a_number_of_seconds_above_zero(wrong: Any) -> None:
    for name in ("tool_timeout", "llm_timeout", "read_timeout", "human_timeout", "round_timeout"):
        with pytest.raises(ScenarioError, match=name):
            Limits(**{name: wrong})


def test_places_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def main() -> None:
        slots, order = Slots(1), []
        first = await slots.acquire()

        async def ask(name: int) -> None:
            place = await slots.acquire()
            order.append(name)
            place.release()

        async with trio.open_nursery() as nursery:
            for name in range(4):
                nursery.start_soon(ask, name)
                await trio.testing.wait_all_tasks_blocked()
            first.release()
        assert order == [0, 1, 2, 3]
        assert slots.stats() == {
            "calls": 5,
            "queued": 4,
            "waiting": 0,
            "in_flight": 0,
            "max_in_flight": 1,
            "given_up": 0,
        }

    run(main)


def test_who_stops_waiting_leaves_the_queue() -> None:
    async def main() -> None:
        slots = Slots(1)
        held = await slots.acquire()
        with trio.move_on_after(1):
            await slots.acquire()
        assert slots.waiting == 0
        held.release()
        (await slots.acquire()).release()
        assert slots.in_flight == 0

    run(main)


@pytest.mark.parametrize("schedule", range(3))
def test_peaks_are_exact_over_the_whole_society_sub_agents_included(schedule: int) -> None:
    """P46; uneven lengths, so that a bound by batches would show."""
    host, tools, reads = AsyncHost(), Peak(), Peak()

    @host.tool("work", reads_only=True)
    async def work(n: int) -> None:
        with tools:
            await trio.sleep(1 + n % 3)

    @host.sensor("look")
    async def look() -> int:
        with reads:
            await trio.sleep(1.5)
            return 1

    @host.subagent("helper")
    async def helper(tick: Any, n: int) -> None:
        await tick.gather(*(tick.call("work", n=n + k) for k in range(3)), tick.read("look"))

    async def behavior(tick: Any) -> None:
        await tick.gather(*(tick.call("work", n=n) for n in range(3)), tick.read("look"))
        if tick.index < 2:
            await tick.delegate("helper", 1)

    society = town(
        *(Agent(f"a{n}", behavior, index=n) for n in range(6)),
        hosts=host,
        limits=Limits(max_concurrent_tools=3, max_concurrent_reads=2),
    )
    result = run(society.run, 1, schedule=schedule)
    assert result.outcome == "finished"
    assert (tools.most, tools.all, reads.most, reads.all) == (3, 24, 2, 8)
    stats = society.stats.tools
    assert (stats.max_in_flight, stats.calls, stats.in_flight, stats.waiting) == (3, 24, 0, 0)
    assert stats.queued > 0 and "queued" not in society.trace.data.decode()


def test_a_bound_of_one_with_nested_sub_agents_completes() -> None:
    """B3: who delegates holds no slot."""
    host, peak = AsyncHost(), Peak()

    @host.tool("work")
    async def work() -> None:
        with peak:
            await trio.sleep(1)

    @host.subagent("nested")
    async def nested(tick: Any, depth: int) -> int:
        await tick.call("work")
        return depth if depth == 0 else await tick.delegate("nested", depth - 1)

    @host.subagent("opaque")
    async def opaque(payload: Any) -> int:
        with trio.fail_after(10):
            await trio.sleep(1)
        return 1

    async def behavior(tick: Any) -> None:
        await tick.gather(tick.delegate("nested", 3), tick.delegate("opaque"), tick.call("work"))

    society = town(*(Agent(f"a{n}", behavior) for n in range(3)), hosts=host, limits=Limits(max_concurrent_tools=1))
    assert run(society.run, 1).outcome == "finished"
    assert (peak.most, peak.all) == (1, 15)


def test_waiting_for_a_slot_does_not_eat_a_calls_own_timeout() -> None:
    """B2."""
    host = AsyncHost()

    @host.tool("work")
    async def work() -> None:
        await trio.sleep(4)

    async def behavior(tick: Any) -> None:
        await tick.call("work")

    limits = Limits(max_concurrent_tools=1, tool_timeout=5)
    society = town(*(Agent(f"a{n}", behavior) for n in range(5)), hosts=host, limits=limits)
    assert run(society.run, 1).outcome == "finished"


def test_five_hundred_agents_with_threaded_tools_complete_under_a_bound_of_two() -> None:
    host, peak = AsyncHost(), Peak()

    @host.tool("work")
    def work(n: int) -> int:
        with peak:
            return n

    async def behavior(tick: Any) -> None:
        assert await tick.call("work", n=tick.index) == tick.index

    agents = [Agent(f"a{n}", behavior, index=n) for n in range(500)]
    society = town(*agents, hosts=host, limits=Limits(max_concurrent_tools=2))
    assert trio.run(society.run, 1).outcome == "finished"
    assert peak.most <= 2 and peak.all == 500
    assert society.stats.tools.max_in_flight == 2


def test_a_thread_that_was_given_up_keeps_its_slot_and_what_it_brings_is_settled_at_the_next_barrier() -> None:
    """B4. Two slots: one is given up, calls go on in the other."""
    host, let_go, peak = AsyncHost(), threading.Event(), Peak()
    in_use: list[int] = []

    @host.tool("stuck", timeout=0.05)
    def stuck() -> str:
        let_go.wait(10)
        return "late"

    @host.tool("quick")
    async def quick() -> None:
        with peak:
            await trio.sleep(0.01)

    async def ada(tick: Any) -> None:
        if tick.round == 1:
            with pytest.raises(ActionInDoubt):
                await tick.call("stuck")
        elif tick.round == 3:
            let_go.set()
            while society.stats.tools.given_up:
                await trio.sleep(0.01)
        in_use.append(society.stats.tools.given_up)
        tick.note(f"in doubt {len(tick.in_doubt)}")

    async def bob(tick: Any) -> None:
        await tick.gather(*(tick.call("quick") for _ in range(3)))

    society = town(ada, bob, hosts=host, limits=Limits(max_concurrent_tools=2))
    result = trio.run(society.run, 4)
    assert result.outcome == "finished" and peak.most == 1
    assert in_use == [1, 1, 0, 0]
    assert [event.text for event in society.trace.where(kind="note")] == [f"in doubt {n}" for n in (1, 1, 1, 0)]
    (settled,) = society.trace.where(kind="settled")
    (action,) = society.trace.where(kind="action", agent="ada")
    assert (settled.round, settled.agent, settled.id, settled.result) == (3, "ada", action.id, "late")
    assert action.ending == "in_doubt" and result.in_doubt == ()


def test_when_all_slots_are_given_up_calls_fail_at_once_as_never_sent() -> None:
    host, let_go = AsyncHost(), threading.Event()

    @host.tool("stuck", timeout=0.05)
    def stuck() -> None:
        let_go.wait(10)

    async def ada(tick: Any) -> None:
        with pytest.raises(ActionInDoubt):
            await tick.call("stuck")
        began = time.monotonic()
        with pytest.raises(ToolFailed, match="never sent"):
            await tick.call("stuck")
        assert time.monotonic() - began < 1

    async def bob(tick: Any) -> None:
        await trio.sleep(0.01)
        with pytest.raises(ToolFailed, match="never sent"):
            await tick.call("stuck")  # it waits for a slot when the last one is given up

    society = town(ada, bob, hosts=host, limits=Limits(max_concurrent_tools=1))
    try:
        result = trio.run(society.run, 1)
    finally:
        let_go.set()
    assert result.outcome == "finished", result.reason
    assert len(result.in_doubt) == 1
    endings = [event.ending for event in society.trace.where(kind="action")]
    assert endings == ["in_doubt", "not_executed", "not_executed"]


def test_a_process_with_an_abandoned_thread_exits_promptly() -> None:
    program = """
        import time, trio
        from society import *
        host = AsyncHost()
        @host.tool("stuck", timeout=0.1)
        def stuck():
            time.sleep(60)
        async def ada(tick):
            try:
                await tick.call("stuck")
            except ActionInDoubt:
                tick.note("in doubt")
        print(trio.run(AsyncSociety([Agent("ada", ada)], hosts=host).run, 1).outcome)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=20, check=True
    )
    assert (ended.stdout, ended.stderr) == ("finished\n", "")


def test_a_call_that_could_never_be_waited_for_says_so() -> None:
    async def main() -> None:
        slots = Slots(1)
        place = await slots.acquire()
        with trio.move_on_after(0.05):
            await place.run_in_thread(time.sleep, 0.3)
        place.release()
        assert (slots.in_flight, slots.given_up) == (1, 1)
        with pytest.raises(AllGivenUp):
            await slots.acquire()
        await trio.sleep(0.5)
        assert (slots.in_flight, slots.given_up) == (0, 0)

    trio.run(main)


def test_idle_agents_use_no_slot() -> None:
    society = town(idle)
    run(society.run, 1)
    assert society.stats.tools.calls == 0
