"""Rounds: all ticks at once or one after another, and how each tick ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import trio
from schedules import run
from societies import kinds, town

from society import UNKNOWN, Agent, AsyncHost, AsyncSociety, Limits, MemoryStore, Shared, Society


def sleeper(seconds: float) -> Any:
    async def behavior(tick: Any) -> None:
        await trio.sleep(seconds)
        tick.share("log", tick.agent)

    return behavior


@pytest.mark.parametrize("schedule", range(4))
def test_contributions_are_taken_in_declared_order_not_in_order_of_finishing(schedule: int) -> None:
    """R5."""
    agents = [Agent(name, sleeper(seconds)) for name, seconds in (("a", 3), ("b", 0), ("c", 2), ("d", 1))]
    society = town(*agents, shared={"log": Shared([], "append")})
    run(society.run, 1, schedule=schedule)
    assert society.shared["log"] == ["a", "b", "c", "d"]


def test_all_tick_at_once_or_one_after_another() -> None:
    async def timed(turns: bool) -> float:
        society = town(*(Agent(name, sleeper(2)) for name in "abc"), turns=turns, shared={"log": Shared([], "append")})
        began = trio.current_time()
        await society.run(1)
        return trio.current_time() - began

    assert run(timed, False) == pytest.approx(2) and run(timed, True) == pytest.approx(6)


def test_plain_and_async_behaviors_share_a_round() -> None:
    def plain(tick: Any) -> None:
        tick.share("log", tick.agent)

    agents = [Agent("a", sleeper(2)), Agent("b", plain), Agent("c", lambda tick: sleeper(1)(tick)), Agent("d", plain)]
    for turns in (False, True):
        society = town(*agents, turns=turns, shared={"log": Shared([], "append")})
        run(society.run, 1)
        assert society.shared["log"] == ["a", "b", "c", "d"]


def test_the_barrier_follows_the_rounds_deadline() -> None:
    """R12."""

    async def ends() -> float:
        agents = [Agent("a", sleeper(1)), Agent("b", sleeper(50)), Agent("c", sleeper(4))]
        society = town(*agents, shared={"log": Shared([], "append")}, limits=Limits(round_timeout=5))
        result = await society.run(2)
        assert result.shared["log"] == ["a", "c"] * 2
        assert (result.metrics.late_ticks, result.metrics.timeouts, result.outcome) == (2, 2, "finished")
        return trio.current_time()

    assert run(ends) == pytest.approx(10)


@pytest.mark.parametrize("how", ["swallows", "raises", "group", "own group"])
def test_whatever_a_tick_makes_of_its_cancellation_it_is_late(how: str) -> None:
    async def ada(tick: Any) -> None:
        try:
            if how == "group":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep, 100)
                    nursery.start_soon(trio.sleep, 100)
            else:
                await trio.sleep(100)
        except trio.Cancelled as cancelled:
            if how == "raises":
                raise ValueError("cleaning up failed") from None
            if how == "own group":
                raise BaseExceptionGroup("g", [cancelled, ValueError("and this")]) from None
            if how == "group":
                raise

    society = town(ada, limits=Limits(round_timeout=5), on_error="continue")
    result = run(society.run, 1)
    assert (result.outcome, kinds(society)) == ("finished", ["late"])


def test_an_error_is_told_with_the_line_of_the_behavior() -> None:
    async def ada(tick: Any) -> None:
        await tick.gather(tick.call("work", n=1))
        raise ExceptionGroup("g", [KeyError("x"), ValueError("y")])

    host = AsyncHost()
    host.tool("work", thread=False)(lambda n: n)
    society = town(ada, hosts=host)
    run(society.run, 1)
    (failed,) = society.trace.where(kind="failed")
    line = ada.__code__.co_firstlineno + 2
    assert (failed.error, failed.where) == (
        "KeyError; ValueError: KeyError: 'x'; ValueError: y",
        f"test_rounds.py:{line}",
    )


@pytest.mark.parametrize("plain", [False, True])
def test_a_behavior_that_exits_has_failed_and_the_process_lives(plain: bool) -> None:
    def exits(tick: Any) -> None:
        raise SystemExit(0)

    async def exits_later(tick: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise SystemExit(0)

    society = town(Agent("ada", exits if plain else exits_later), Agent("bob", sleeper(1)), shared={"log": 0})
    result = run(society.run, 1)
    assert result.outcome == "failed" and "SystemExit: 0" in result.reason and result.shared["log"] == "bob"


class Rare(BaseException):
    """Not an `Exception`, as libraries have some."""


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, SystemExit, Rare, StopIteration])
@pytest.mark.parametrize("made", [AsyncSociety, Society])
@pytest.mark.parametrize("where", ["plain", "async", "tool", "thread", "sensor", "subagent", "lane", "several"])
def test_what_is_no_exception_fails_what_raised_it_and_nothing_else(where: str, made: Any, kind: Any) -> None:
    """P23: only Ctrl+C and our own cancellation are not somebody's failure."""
    host = AsyncHost()

    def raising(*given: Any) -> None:
        raise kind("odd")

    async def later(*given: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise kind("odd")

    host.tool("tool")(later)
    host.tool("thread")(raising)
    host.sensor("sensor")(later)
    host.subagent("subagent")(lambda payload: raising())

    @host.subagent("lane")
    async def lane(tick: Any, payload: Any) -> None:
        await later()

    async def ada(tick: Any) -> None:
        match where:
            case "async":
                await later()
            case "tool" | "thread":
                await tick.call(where)
            case "sensor":
                assert (await tick.read(where)) is UNKNOWN
            case "several":
                await tick.gather(later(), tick.call("tool"))
            case _:
                await tick.delegate(where, None)

    async def bob(tick: Any) -> None:
        await trio.sleep(0)
        tick.share("log", "bob")

    agents = [Agent("ada", raising if where == "plain" else ada), Agent("bob", bob)]
    society = made(agents, hosts=host, shared={"log": 0}, on_error="continue", store=MemoryStore())
    result = trio.run(society.run, 2)
    assert (result.outcome, result.rounds, result.shared["log"]) == ("finished", 2, "bob")
    assert result.metrics["failed_ticks"] == (0 if where == "sensor" else 2)


@pytest.mark.parametrize("plain", [False, True])
def test_the_interrupt_from_the_keyboard_stops_the_run(plain: bool) -> None:
    def interrupted(tick: Any) -> None:
        raise KeyboardInterrupt

    async def interrupted_later(tick: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    society = town(Agent("ada", interrupted if plain else interrupted_later), Agent("bob", sleeper(1)))
    with pytest.raises(KeyboardInterrupt):
        run(society.run, 1)
    assert society.round == 0


def test_a_failed_tick_leaves_the_crossings_it_made() -> None:
    host = AsyncHost()
    host.sensor("eye", thread=False)(lambda: 1)

    async def ada(tick: Any) -> None:
        await tick.read("eye")
        tick.note("never told")
        raise ValueError

    society = town(ada, hosts=host)
    run(society.run, 1)
    assert kinds(society) == ["read", "failed"]


def test_a_crossing_that_was_given_up_is_told_and_the_tick_goes_on() -> None:
    host = AsyncHost()

    @host.tool("slow")
    async def slow() -> None:
        await trio.sleep(100)

    async def ada(tick: Any) -> None:
        with trio.move_on_after(1):
            await tick.call("slow")
        tick.note(f"{len(tick.in_doubt)} in doubt")

    society = town(ada, hosts=host)
    result = run(society.run, 1)
    assert kinds(society) == ["action", "note"] and society.trace.where(kind="note")[0].text == "1 in doubt"
    assert [action.tool for action in result.in_doubt] == ["slow"]


def test_ticks_in_turn_see_what_those_before_them_left_and_read_what_they_sent() -> None:
    """Q2."""

    def behavior(tick: Any) -> None:
        tick.note(f"{tick.shared['log']} {[message.sender for message in tick.inbox]}")
        tick.share("log", tick.agent)
        with contextlib.suppress(ValueError):
            tick.broadcast("x")

    society = town(*(Agent(name, behavior) for name in "ab"), turns=True, shared={"log": Shared([], "append")})
    run(society.run, 2)
    assert [event.text for event in society.trace.where(kind="note")] == [
        "[] []",
        "['a'] ['a']",
        "['a', 'b'] ['b']",
        "['a', 'b', 'a'] ['a']",
    ]
