"""Hosts: what is registered, how it is called, and what becomes of whatever comes back."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
import trio
from schedules import run
from societies import town

from society import (
    NO_ANSWER,
    NOT_EXECUTED,
    UNKNOWN,
    ActionDenied,
    ActionInDoubt,
    AsyncHost,
    Limits,
    Policy,
    ScenarioError,
    ToolFailed,
    deny,
)
from society.slots import Place, Slots


def outcomes(host: AsyncHost, *tools: str, clock: bool = True, **how: Any) -> tuple[list[Any], Any]:
    """Let one agent call each tool once; return what it got, values or errors, and the society."""
    got: list[Any] = []

    async def ada(tick: Any) -> None:
        for tool in tools:
            try:
                got.append(await tick.call(tool))
            except Exception as error:
                got.append(error)

    society = town(ada, hosts=host, **how)
    result = run(society.run, 1) if clock else trio.run(society.run, 1)
    assert result.outcome == "finished", result.reason
    return got, society


# ── what tools return and raise ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, None),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ("東京 naïve ☂", "東京 naïve ☂"),
        ({3, 1, 2}, "not representable (result: set)"),
        (b"\x00\xff", "not representable (result: bytes)"),
        (date(2026, 1, 1), "not representable (result: date)"),
        (Decimal("1.10"), "not representable (result: Decimal)"),
        ([1, object()], "not representable (result[1]: object)"),
        ((n for n in ()), "not representable (result: generator)"),
        (float("nan"), "not representable (result: float nan)"),
        pytest.param(10**5000, "not representable (result: an int of 16610 bits)", id="long"),
        (
            UNKNOWN,
            "not representable (result: UNKNOWN, which is no value; decide with `is UNKNOWN` before passing it on)",
        ),
        ("\udcb2", "\ufffd"),
    ],
)
def test_whatever_a_tool_returns_its_action_is_done(returned: Any, result: Any) -> None:
    """P19, P15, P60, V4."""
    host = AsyncHost()
    host.tool("t", thread=False)(lambda: returned)
    got, society = outcomes(host, "t")
    (action,) = society.trace.where(kind="action")
    assert action.ending == "done" and action.result == result
    assert got == [result]


def test_a_tool_that_exits_has_failed_and_the_process_lives() -> None:
    """P21."""
    host = AsyncHost()
    host.tool("exits")(lambda: sys.exit(0))
    host.tool("exits here", thread=False)(lambda: sys.exit(3))
    got, society = outcomes(host, "exits", "exits here", clock=False)
    assert [(error.error, error.message) for error in got] == [("SystemExit", "0"), ("SystemExit", "3")]
    assert [event.ending for event in society.trace.where(kind="action")] == ["failed", "failed"]


def test_the_leaves_of_an_exception_group_are_told_in_order() -> None:
    """P23."""
    host = AsyncHost()

    @host.tool("nested", thread=False)
    def nested() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [TimeoutError("read timed out")])])

    @host.tool("mixed", thread=False)
    def mixed() -> None:
        raise BaseExceptionGroup("g", [asyncio.CancelledError(), ConnectionError("refused")])

    @host.tool("many", thread=False)
    def many() -> None:
        raise ExceptionGroup("g", [ValueError(n) for n in range(100)])

    got, society = outcomes(host, "nested", "mixed", "many")
    assert (got[0].error, got[0].message) == ("TimeoutError", "read timed out")
    assert got[1].error == "CancelledError; ConnectionError" and "refused" in got[1].message
    assert got[2].message.startswith("ValueError: 0; ValueError: 1;") and "(+92 more)" in got[2].message
    assert society.trace.where(kind="action")[0].result == {"error": "TimeoutError", "message": "read timed out"}


@pytest.mark.parametrize(
    "error", [KeyError("x"), asyncio.CancelledError(), GeneratorExit(), StopAsyncIteration(), RecursionError()]
)
def test_any_error_of_a_tool_is_a_failure_but_the_interrupt_from_the_keyboard(error: BaseException) -> None:
    host = AsyncHost()

    @host.tool("t", thread=False)
    def raising() -> None:
        raise error

    (got,), _ = outcomes(host, "t")
    assert isinstance(got, ToolFailed)


def test_the_interrupt_from_the_keyboard_stops_the_run() -> None:
    host = AsyncHost()

    @host.tool("t", thread=False)
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcomes(host, "t")


def test_the_three_ways_an_action_does_not_end_well() -> None:
    """K6."""
    host = AsyncHost()
    host.tool("denied", thread=False)(lambda: 1)
    host.tool("failed", thread=False)(lambda: 1 / 0)

    @host.tool("silent", timeout=1)
    async def silent() -> None:
        await trio.sleep(5)

    got, society = outcomes(host, "denied", "failed", "silent", policy=Policy(deny("denied")))
    assert [type(error) for error in got] == [ActionDenied, ToolFailed, ActionInDoubt]
    assert (got[0].by, got[1].error) == ("rule", "ZeroDivisionError")
    assert [event.ending for event in society.trace.where(kind="action")] == ["denied", "failed", "in_doubt"]
    assert got[2].id == society.trace.where(kind="action")[2].id


# ── timeouts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_action_that_timed_out_is_in_doubt_and_is_not_repeated() -> None:
    """P25: the behavior asks again in the same round only if it is told that the action failed."""
    host, paid = AsyncHost(), []

    @host.tool("pay")
    async def pay() -> None:
        paid.append(1)
        await trio.sleep(1)

    async def ada(tick: Any) -> None:
        for _ in range(2):
            try:
                await tick.call("pay")
            except ToolFailed:
                continue
            except ActionInDoubt as doubt:
                tick.note(str(doubt))
            return

    society = town(ada, hosts=host, limits=Limits(tool_timeout=0.1))
    result = run(society.run, 2)
    assert len(paid) == 2 and result.metrics.in_doubt == 2 and result.metrics.timeouts == 2
    assert [event.ending for event in society.trace.where(kind="action")] == ["in_doubt", "in_doubt"]
    assert "may have happened" in society.trace.where(kind="note")[0].text
    assert [action.tool for action in result.in_doubt] == ["pay", "pay"]


def test_a_tool_that_turns_its_cancellation_into_a_value_is_in_doubt() -> None:
    host = AsyncHost()

    @host.tool("t", timeout=1)
    async def swallowing() -> str:
        try:
            await trio.sleep(5)
        except trio.Cancelled:
            return "stopped early"
        return "never"

    (got,), _ = outcomes(host, "t")
    assert isinstance(got, ActionInDoubt)


def test_an_idempotent_tool_is_called_again_once_with_the_same_key() -> None:
    """J4."""
    host, keys = AsyncHost(), []

    @host.tool("t", idempotent=True, timeout=1)
    async def flaky() -> str:
        from society import current_action

        keys.append((current_action().idempotency_key, current_action().attempt))
        if len(keys) != 2:
            await trio.sleep(5)
        return "well"

    got, society = outcomes(host, "t", "t")
    assert got[0] == "well" and isinstance(got[1], ActionInDoubt)
    assert [attempt for _, attempt in keys] == [1, 2, 1, 2]
    assert keys[0][0] == keys[1][0] != keys[2][0] == keys[3][0]
    assert society.metrics.tool_calls == 2


@pytest.mark.parametrize(
    ("word", "calls", "ending"), [("it did", 1, "done"), (NOT_EXECUTED, 2, "done"), (None, 1, "in_doubt")]
)
def test_a_reconciler_is_asked_what_became_of_a_doubt(word: Any, calls: int, ending: str) -> None:
    host, called = AsyncHost(), []

    @host.tool("t", timeout=1)
    async def tool() -> str:
        called.append(1)
        if len(called) == 1:
            await trio.sleep(5)
        return "now"

    @host.reconciler("t")
    async def look(doubt: Any) -> Any:
        if word is None:
            raise OSError("cannot tell")
        return word

    (got,), society = outcomes(host, "t")
    assert len(called) == calls and society.trace.where(kind="action")[0].ending == ending
    assert got == {"it did": "it did", NOT_EXECUTED: "now"}.get(word, got)


def test_a_sensor_that_raises_or_is_late_is_unknown_with_its_reason() -> None:
    """B5, B6."""
    host = AsyncHost()

    @host.sensor("late")
    async def late() -> None:
        await trio.sleep(5)

    @host.sensor("broken", thread=False)
    def broken() -> None:
        raise ExceptionGroup("g", [OSError("no such device"), ValueError("also")])

    async def ada(tick: Any) -> None:
        assert tick.observed["late"] is UNKNOWN
        assert await tick.read("broken") is UNKNOWN

    from society import Agent

    society = town(Agent("ada", ada, observe=["late"]), hosts=host, limits=Limits(read_timeout=1))
    assert run(society.run, 1).outcome == "finished"
    late_read, broken_read = society.trace.where(kind="read")
    assert late_read.unknown == "no reading in time"
    assert "OSError: no such device; ValueError: also" in broken_read.unknown
    assert society.metrics.timeouts == 1


@pytest.mark.parametrize("how", ["late", "nobody", "raises", "no value"])
def test_a_person_who_does_not_answer_has_not_refused(how: str) -> None:
    async def asker(question: Any) -> Any:
        if how == "late":
            await trio.sleep(5)
        if how == "raises":
            raise EOFError
        return object()

    async def ada(tick: Any) -> None:
        assert await tick.ask_human("well?") is NO_ANSWER

    society = town(ada, asker=None if how == "nobody" else asker, limits=Limits(human_timeout=1))
    assert run(society.run, 1).outcome == "finished"
    (ask,) = society.trace.where(kind="ask")
    assert (ask.question, ask.answer, ask.no_answer) == ("well?", None, True)


def test_the_wall_clock_may_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """P33: nothing is measured with it."""
    host, jumps = AsyncHost(), iter([-3600.0, 7200.0, 0.0] * 100)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))

    @host.tool("t")
    async def quick() -> int:
        await trio.sleep(0.05)
        return 1

    got, _ = outcomes(host, "t", "t", clock=False, limits=Limits(tool_timeout=5))
    assert got == [1, 1]


# ── how functions are called ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_blocking_tool_blocks_nobody_else() -> None:
    """P48."""
    host, ended = AsyncHost(), []
    host.tool("blocks")(lambda: time.sleep(0.6))

    async def a(tick: Any) -> None:
        await tick.call("blocks")
        ended.append("a")

    async def b(tick: Any) -> None:
        for _ in range(10):
            await trio.sleep(0.01)
        ended.append("b")

    assert trio.run(town(a, b, hosts=host).run, 1).outcome == "finished"
    assert ended == ["b", "a"]


def test_plain_tools_run_in_threads_and_see_the_callers_context() -> None:
    host, colour = AsyncHost(), contextvars.ContextVar("colour", default="none")
    here = threading.get_ident()

    @host.tool("in thread")
    def in_thread() -> list[Any]:
        return [colour.get(), threading.get_ident() == here]

    @host.tool("here", thread=False)
    def where_it_stands() -> list[Any]:
        return [colour.get(), threading.get_ident() == here]

    got: list[Any] = []

    async def ada(tick: Any) -> None:
        colour.set("red")
        got.extend([await tick.call("in thread"), await tick.call("here")])

    trio.run(town(ada, hosts=host).run, 1)
    assert got == [["red", False], ["red", True]]


async def _later(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return value


class _Callable:
    async def __call__(self) -> str:
        return await _later("object")


def _wrapper() -> Any:
    return _later("wrapper")


@pytest.mark.parametrize(
    ("function", "result"),
    [(_wrapper, "wrapper"), (functools.partial(_later, "partial"), "partial"), (_Callable(), "object")],
)
def test_whatever_gives_something_to_await_is_awaited(function: Callable[..., Any], result: str) -> None:
    host = AsyncHost()
    host.tool("t")(function)
    host.sensor("s")(function)
    got, _ = outcomes(host, "t", clock=False)
    assert got == [result]


# ── what is registered ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_name_twice_is_refused_on_one_host_and_across_hosts() -> None:
    """P17: never the first that wins in silence."""
    one, other = AsyncHost(), AsyncHost()
    one.tool("search")(lambda: 1)
    other.tool("search")(lambda: 2)
    with pytest.raises(ScenarioError, match="registered twice"):
        one.tool("search")(lambda: 3)
    with pytest.raises(ScenarioError, match="'search' is offered by two"):
        town(ada_of(), hosts=[one, other])


def ada_of() -> Any:
    def ada(tick: Any) -> None:
        return None

    return ada


@pytest.mark.parametrize("crossing", ["call", "read", "delegate"])
def test_what_no_host_has_fails_the_tick_with_the_nearest_name(crossing: str) -> None:
    host = AsyncHost()
    host.tool("restart")(lambda: 1)
    host.sensor("restart")(lambda: 1)
    host.subagent("restart")(lambda payload: 1)

    async def ada(tick: Any) -> None:
        await getattr(tick, crossing)("restrat")

    result = run(town(ada, hosts=host).run, 1)
    assert result.outcome == "failed" and "Did you mean 'restart'" in result.reason


def test_a_sub_agent_takes_a_payload_or_a_tick_and_a_payload() -> None:
    host = AsyncHost()
    with pytest.raises(ScenarioError):
        host.subagent("none")(lambda: 1)
    with pytest.raises(ScenarioError):
        host.tool("t", timeout=0)


def test_perceiving_needs_a_place_and_nothing_else() -> None:
    host = AsyncHost()
    host.sensor("s", thread=False)(lambda: 5)

    async def main() -> Any:
        return await host.perceive("s", Place(Slots(None)))

    assert run(main) == 5


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import sys, trio
from society import *
host = AsyncHost()
tags = {"rot", "grün", "blau", "x", "y", "z"}
@host.sensor("tags", thread=False)
def sense():
    return tags
@host.tool("tags", thread=False)
def tool():
    return tags
@host.tool("sorted", thread=False)
def in_order():
    return sorted(tags)
async def behavior(tick):
    tick.note(repr(await tick.read("tags")))
    await tick.call("tags")
    tick.share("found", await tick.call("sorted"))
    tick.send("Zoë – 東京 🎲", "ж", text="Zoë – 東京 🎲", lone="\\ud800", number=1e-7)
    tick.state["\\U0001f3b2"] = tick.rng.random()
agents = [Agent(name, behavior) for name in ("ada", "bob", "cyd", "dan", "Zoë – 東京 🎲")]
shared = {"found": Shared([], merge="union"), "ключ": 1, "z": 1, "a": 2}
town = AsyncSociety(agents, hosts=host, shared=shared, seed=3, run_id="r")
trio.run(town.run, 3)
town.trace.save(sys.argv[1])
"""


def test_hash_seed_locale_and_terminal_change_no_byte_of_a_trace(tmp_path: Any) -> None:
    """P41, P63: a set is refused where it enters, files are UTF-8."""
    plain_c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    surroundings = [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8"},
        {"PYTHONHASHSEED": "2", **plain_c},
        {"PYTHONHASHSEED": "3", "COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1", "TZ": "Asia/Tokyo"},
    ]
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    traces = []
    for number, around in enumerate(surroundings):
        path = tmp_path / f"{number}.jsonl"
        subprocess.run([sys.executable, str(program), str(path)], env={**inherited, **around}, check=True, timeout=60)
        traces.append(path.read_bytes())
    assert traces[0] == traces[1] == traces[2]
    assert "Zoë – 東京 🎲" in traces[0].decode("utf-8") and b"\r" not in traces[0]


@pytest.mark.parametrize("function", [3, (number for number in ())])
def test_what_cannot_be_called_is_no_tool(function: Any) -> None:
    with pytest.raises(ScenarioError, match="is no function"):
        AsyncHost().tool("count")(function)


def test_a_function_with_a_yield_is_no_tool() -> None:
    def counting() -> Any:
        yield 1

    with pytest.raises(ScenarioError, match="has a `yield`"):
        AsyncHost().tool("count")(counting)
