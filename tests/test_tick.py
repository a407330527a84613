"""A tick: what a behavior sees, what it leaves, and that it is dead once it has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from schedules import Delays, run
from societies import doing, kinds, town

from society import Agent, AsyncHost, Limits, Shared, SharedRefused, SocietyError, UnknownRecipient
from society.errors import PlainBehavior, TickOver, ValueRefused


def notes(society: Any, agent: str | None = None) -> list[str]:
    return [event.text for event in society.trace.where(kind="note", agent=agent)]


def delayed(schedule: int = 1) -> AsyncHost:
    host, delays = AsyncHost(), Delays(schedule)

    @host.tool("echo")
    async def echo(n: Any) -> Any:
        await delays()
        return n

    @host.tool("look", reads_only=True)
    async def look(n: Any) -> Any:
        await delays()
        return n

    @host.sensor("eye")
    async def eye() -> int:
        await delays()
        return 1

    return host


# ── what it looks at ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_agent_sees_its_snapshot_with_its_own_writes_folded_in() -> None:
    """R3."""
    shared = {
        "last": Shared(0),
        "first": Shared(0, "first"),
        "sum": Shared(1, "sum"),
        "log": Shared([], "append"),
        "max": Shared(5, "max"),
    }

    def ada(tick: Any) -> None:
        for n in (3, 7):
            for key in shared:
                tick.share(key, n)
        tick.note(str(dict(tick.shared)))

    def bob(tick: Any) -> None:
        tick.note(str(dict(tick.shared)))

    society = town(ada, bob, shared=shared)
    run(society.run, 1)
    assert notes(society) == [
        "{'last': 7, 'first': 3, 'sum': 11, 'log': [3, 7], 'max': 7}",
        "{'last': 0, 'first': 0, 'sum': 1, 'log': [], 'max': 5}",
    ]


def test_a_snapshot_is_not_the_live_object() -> None:
    """P35."""
    kept: list[Any] = []

    def a(tick: Any) -> None:
        with pytest.raises(TypeError):
            tick.shared["log"]["items"].append(1)
        with pytest.raises(TypeError):
            tick.shared["pair"][0].append(2)

    def b(tick: Any) -> None:
        tick.note(f"{tick.shared['log']['items']} {tick.shared['pair'][0]}")

    def c(tick: Any) -> None:
        kept.append(tick.shared["log"])
        tick.share("log", {"items": [tick.round]})

    society = town(a, b, c, shared={"log": {"items": []}, "pair": ([1],)})
    run(society.run, 2)
    assert notes(society, "b") == ["[] [1]", "[1] [1]"]
    assert kept == [{"items": []}, {"items": [1]}]


def test_shared_is_walked_in_declared_order_and_an_undeclared_key_is_refused_with_the_nearest() -> None:
    def ada(tick: Any) -> None:
        tick.note(",".join(tick.shared))
        for attempt in (lambda: tick.share("statu", 1), lambda: tick.shared["statu"]):
            with pytest.raises(SharedRefused, match="Did you mean 'status'"):
                attempt()

    society = town(ada, shared={"zeta": 1, "status": 2, "alpha": 3})
    assert run(society.run, 1).outcome == "finished"
    assert notes(society) == ["zeta,status,alpha"]


def test_a_key_with_a_lone_surrogate_is_the_same_key_wherever_it_is_named() -> None:
    """P60."""

    def ada(tick: Any) -> None:
        tick.share("k\ud800", "ok \ud835 end")
        tick.note(tick.shared["k\ud800"])

    society = town(ada, shared={"k\ud800": 0})
    assert run(society.run, 1).outcome == "finished"
    assert notes(society) == ["ok \ufffd end"] and dict(society.shared) == {"k\ufffd": "ok \ufffd end"}


def test_memory_is_kept_from_tick_to_tick_and_its_values_are_frozen() -> None:
    def ada(tick: Any) -> None:
        seen = tick.state.get("seen", [])
        with pytest.raises((TypeError, AttributeError)):
            tick.state["start"].append(1)
        tick.state["seen"] = [*seen, tick.round]
        if tick.round == 2:
            del tick.state["start"]
            tick.state["start"] = [9]
        with pytest.raises(ValueRefused, match=r"state\.bad"):
            tick.state["bad"] = {1}
        with pytest.raises(KeyError):
            del tick.state["nothing"]
        tick.note(str(dict(tick.state)))

    society = town(Agent("ada", ada, state={"start": [0]}))
    assert run(society.run, 2).outcome == "finished"
    assert notes(society) == ["{'start': [0], 'seen': [1]}", "{'start': [9], 'seen': [1, 2]}"]
    assert society.agents["ada"].state == {"start": [9], "seen": [1, 2]}


def test_others_see_public_state_from_the_next_snapshot_on() -> None:
    def ada(tick: Any) -> None:
        tick.public["mood"] = tick.round
        tick.state["secret"] = 1

    def bob(tick: Any) -> None:
        tick.note(str(dict(tick.peer("ada"))))
        with pytest.raises(UnknownRecipient):
            tick.peer("adda")

    society = town(ada, bob)
    run(society.run, 2)
    assert notes(society) == ["{}", "{'mood': 1}"]
    in_turn = town(ada, bob, turns=True)
    run(in_turn.run, 2)
    assert notes(in_turn) == ["{'mood': 1}", "{'mood': 2}"]


# ── crossings ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schedule", range(12))
def test_ordinals_are_taken_when_crossings_are_asked_for_not_when_they_start(schedule: int) -> None:
    """J2: an `async def call` would take its number at its first step, which the scheduler shuffles."""

    async def ada(tick: Any) -> None:
        async with trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(lambda n=n: tick.call("look", n=n))
        await tick.gather(*(tick.call("look", n=10 + n) for n in range(4)))

    society = town(ada, hosts=delayed(schedule))
    run(society.run, 1, schedule=schedule)
    actions = [event.arguments["n"] for event in society.trace.where(kind="action")]
    assert actions == [0, 1, 2, 3, 10, 11, 12, 13]


def test_three_agents_with_three_parallel_tools_have_one_trace_whatever_finishes_first() -> None:
    """P43."""

    async def behavior(tick: Any) -> None:
        values = await tick.gather(*(tick.call("look", n=n) for n in range(3)), tick.read("eye"))
        tick.share("log", [tick.agent, *values])

    traces = set()
    for schedule in range(20):
        agents = [Agent(name, behavior) for name in ("ada", "bob", "cyd")]
        society = town(*agents, hosts=delayed(schedule), shared={"log": Shared([], "append")}, run_id="r")
        run(society.run, 2, schedule=schedule)
        traces.add(society.trace.data)
    assert len(traces) == 1


def test_gather_gives_results_in_order_and_lets_all_run_to_their_end() -> None:
    ended: list[str] = []
    host = AsyncHost()

    @host.tool("t", reads_only=True)
    async def tool(name: str, seconds: float, fails: bool = False) -> str:
        await trio.sleep(seconds)
        ended.append(name)
        if fails:
            raise ValueError(name)
        return name

    async def ada(tick: Any) -> None:
        calls = [tick.call("t", name="A", seconds=3), tick.call("t", name="B", seconds=1)]
        tick.note(str(await tick.gather(*calls)))
        calls = [tick.call("t", name=name, seconds=4 - n, fails=name != "D") for n, name in enumerate("CDE")]
        try:
            await tick.gather(*calls)
        except SocietyError as error:
            tick.note(error.message)

    society = town(ada, hosts=host)
    run(society.run, 1)
    assert notes(society) == ["['A', 'B']", "C"] and ended == ["B", "A", "E", "D", "C"]


def test_a_crossing_that_is_never_awaited_fails_its_tick_and_names_the_line() -> None:
    """B9."""
    host, done = delayed(), []
    host.tool("effect", thread=False)(lambda: done.append(1))

    async def ada(tick: Any) -> None:
        tick.share("k", 1)
        tick.call("effect")

    society = town(ada, hosts=host, shared={"k": 0})
    result = run(society.run, 1)
    assert result.outcome == "failed" and "never awaited: effect (test_tick.py:" in result.reason
    assert result.shared["k"] == 0 and not done
    assert kinds(society) == ["failed"]


@pytest.mark.parametrize("crossing", ["read", "call", "delegate", "ask_human"])
def test_in_a_plain_behavior_crossings_raise_at_once_and_say_what_to_write(crossing: str) -> None:
    def ada(tick: Any) -> None:
        with pytest.raises(PlainBehavior, match="async def"):
            getattr(tick, crossing)("eye")

    assert run(town(ada, Agent("bob", ada, observe=["eye"]), hosts=delayed()).run, 1).outcome == "finished"


def test_a_plain_function_that_returns_something_to_await_is_an_async_behavior() -> None:
    async def inner(tick: Any) -> None:
        tick.note(str(await tick.read("eye")))

    agents = [Agent(name, lambda tick: inner(tick)) for name in "abc"]
    for turns in (False, True):
        society = town(*agents, hosts=delayed(), turns=turns)
        run(society.run, 1)
        assert notes(society) == ["1", "1", "1"]


def test_a_tool_that_calls_a_tool_of_its_own_tick_is_told_that_it_would_wait_for_ever() -> None:
    host, ticks = delayed(), []

    @host.tool("outer")
    async def outer() -> None:
        await ticks[-1].call("echo", n=1)

    async def ada(tick: Any) -> None:
        ticks.append(tick)
        with pytest.raises(SocietyError, match="Tools cannot call tools"):
            await tick.call("outer")

    assert run(town(ada, hosts=host).run, 1).outcome == "finished"


def test_what_a_sub_agent_writes_is_its_callers_and_in_the_place_of_the_delegation() -> None:
    host = delayed()

    @host.subagent("helper")
    async def helper(tick: Any, n: int) -> int:
        tick.share("log", f"helper {n}")
        tick.send("ada", "from helper", n=n)
        return await tick.call("echo", n=n)

    async def ada(tick: Any) -> None:
        tick.share("log", "before")
        await tick.gather(*(tick.delegate("helper", n) for n in range(2)))
        tick.share("log", "after")
        tick.note(str(tick.shared["log"]))

    for schedule in range(6):
        society = town(ada, hosts=host, shared={"log": Shared([], "append")})
        run(society.run, 1, schedule=schedule)
        assert notes(society) == ["['before', 'helper 0', 'helper 1', 'after']"]
        assert society.shared["log"] == ["before", "helper 0", "helper 1", "after"]
        delegation = ["delegate", "share", "send", "action"]
        assert kinds(society) == ["share", *delegation, *delegation, "share", "note", "merge"]


# ── it is dead once it has ended (R16) ──────────────────────────────────────────────────────────────────────────────────


def everything(tick: Any) -> dict[str, Any]:
    return {
        "send": lambda: tick.send("ada", "x"),
        "broadcast": lambda: tick.broadcast("x"),
        "share": lambda: tick.share("k", 1),
        "note": lambda: tick.note("x"),
        "retire": lambda: tick.retire(),
        "spawn": lambda: tick.spawn(Agent("kid", lambda tick: None)),
        "read": lambda: tick.read("eye"),
        "call": lambda: tick.call("echo", n=1),
        "ask_human": lambda: tick.ask_human("x"),
        "delegate": lambda: tick.delegate("x", 1),
        "gather": lambda: tick.gather(),
        "state": lambda: tick.state.update(n=1),
        "public": lambda: tick.public.update(n=1),
    }


LOOKS = ("agent", "round", "inbox", "receipts", "shared", "state", "public", "rng", "observed", "in_doubt", "stranded")


@pytest.mark.parametrize("ending", ["well", "failed", "late"])
@pytest.mark.parametrize("plain", [False, True])
def test_a_tick_that_has_ended_refuses_everything_and_nothing_changes(ending: str, plain: bool) -> None:
    ticks: list[Any] = []

    def keep(tick: Any) -> None:
        ticks.append((tick, tick.shared, tick.state))
        if ending == "failed":
            raise ValueError

    async def ada(tick: Any) -> None:
        keep(tick)
        if ending == "late":
            await trio.sleep(100)

    def bob(tick: Any) -> None:
        if tick.round == 2:
            (old, shared, state) = ticks[0]
            for name, act in everything(old).items():
                with pytest.raises(TickOver):
                    pytest.fail(f"{name} gave {act()!r}")
            for name in LOOKS:
                with pytest.raises(TickOver):
                    pytest.fail(f"{name} gave {getattr(old, name)!r}")
            with pytest.raises(TickOver):
                shared["k"]
            with pytest.raises(TickOver):
                state["n"] = 1

    agent = Agent("ada", keep if plain and ending != "late" else ada)
    society = town(agent, bob, hosts=delayed(), shared={"k": 0}, on_error="continue", limits=Limits(round_timeout=5))
    result = run(society.run, 2)
    assert not [event for event in society.trace.where(kind="failed") if event.agent == "bob"]
    assert result.shared["k"] == 0 and len(society.agents) == 2


@pytest.mark.parametrize("where", ["task", "thread"])
def test_a_tick_belongs_to_its_task(where: str) -> None:
    raised: list[str] = []

    def attempt(tick: Any) -> None:
        for name, act in everything(tick).items():
            try:
                act()
            except TickOver:
                continue
            raised.append(name)

    async def ada(tick: Any) -> None:
        async def elsewhere() -> None:
            attempt(tick)

        if where == "task":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(elsewhere)
        else:
            thread = threading.Thread(target=attempt, args=(tick,))
            thread.start()
            thread.join()

    society = town(ada, hosts=delayed(), shared={"k": 0})
    assert run(society.run, 1).outcome == "finished"
    assert raised == [] and kinds(society) == []


def test_agents_of_groups_know_their_number() -> None:
    agents = [
        Agent(f"c-{n}", lambda tick: tick.note(f"{tick.group} {tick.index}"), group="c", index=n) for n in range(2)
    ]
    society = town(*agents, parameters={"p": [1]})
    run(society.run, 1)
    assert notes(society) == ["c 0", "c 1"]


def test_parameters_are_frozen() -> None:
    def ada(tick: Any) -> None:
        with pytest.raises(TypeError):
            tick.parameters["p"].append(2)
        tick.note(str(tick.parameters["p"]))

    society = town(ada, parameters={"p": [1]})
    assert run(society.run, 1).outcome == "finished"


def test_bodies_are_frozen_and_follow_nothing() -> None:
    kept = [1]

    def ada(tick: Any) -> None:
        if tick.round == 1:
            tick.send("bob", "x", items=kept)
            kept.append(2)

    def bob(tick: Any) -> None:
        for message in tick.inbox:
            with pytest.raises(TypeError):
                message.body["items"].append(3)
            with pytest.raises(AttributeError):
                message.kind = "y"
            tick.note(str(message.body["items"]))

    society = town(ada, bob)
    assert run(society.run, 2).outcome == "finished"
    assert notes(society) == ["[1]"]


def test_a_behavior_that_does_nothing_leaves_nothing() -> None:
    society = town(Agent("ada", doing(None)))
    run(society.run, 1)
    assert kinds(society) == []
