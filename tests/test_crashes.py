"""Crashes in process: killed at any write, resumed, killed again, on other schedules, and the run is what it would have been."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
import trio
from schedules import run
from societies import drawn_plan, planned

import society.survival
from society import (
    NOT_EXECUTED,
    WAIT,
    Agent,
    AsyncHost,
    AsyncSociety,
    Limits,
    Policy,
    Shared,
    Society,
    approve,
    load_scenario,
)
from society.testing import CrashChangedRun, crash_everywhere
from tests.publish import PUBLISHED, ROOT

ACTIVATIONS = (None, "sequential", "shuffled", "random")


def scheduled(function: Any, number: int) -> Any:
    """Run each process of a life on a schedule of its own."""
    return run(function, schedule=number)


# ── random societies ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("number", range(3))
def test_random_societies_end_as_if_nothing_had_happened(activation: str | None, number: int, monkeypatch: Any) -> None:
    """J5, each process with other delays and another order of tasks."""
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 5_000)
    plan = drawn_plan(500 + number)
    schedules = itertools.count()

    def make(store: Any) -> AsyncSociety:
        town = planned(plan, next(schedules), turns=activation)
        town.store = store
        return town

    tried = crash_everywhere(make, plan.rounds, most=20, seed=number, run=scheduled)
    assert tried.crashes > 20


# ── the scenarios that ship ─────────────────────────────────────────────────────────────────────────────────────────────


STEADY = {"vault": {"vault.guard": lambda: "present"}}
"""Sensors that show something else at each look: what was not yet on disk is looked at again, and is something else then."""


@pytest.mark.parametrize(("name", "activation"), PUBLISHED)
def test_scenarios_end_as_if_nothing_had_happened(name: str, activation: str) -> None:
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml")
    world = scenario

    def make(store: Any) -> AsyncSociety:
        nonlocal world
        if store is None or not len(store.read()):
            world = load_scenario(scenario.path)
        world.is_used = False  # the process is another one, the world is the same: what its tools did there is done
        return world.society(activation=activation, store=store, sensors=STEADY.get(name))

    crash_everywhere(make, scenario.max_ticks, most=4 if name in ("rumor", "threshold") else 10, run=scheduled)


# ── one society with everything in it ───────────────────────────────────────────────────────────────────────────────────


def pupil(tick: Any) -> None:
    tick.share("log", f"{tick.agent} of {tick.state['master']} in {tick.round}")
    if tick.round == 4:
        tick.retire()


def workshop(store: Any, ledger: Counter[str] | None = None, **how: Any) -> AsyncSociety:
    """Return a society with sensors, all kinds of tools, people, sub-agents, births, deaths, late ticks and events."""
    ledger = Counter() if ledger is None else ledger
    host = AsyncHost(approver=WAIT, asker=WAIT)

    @host.sensor("weather", thread=False)
    def weather() -> dict[str, Any]:
        return {"sky": "grey", "mm": 1.0, "wet": True}

    @host.tool("pay", thread=False)
    def pay(to: str) -> dict[str, Any]:
        ledger[f"pay {to}"] += 1
        return {"paid": to}

    @host.tool("post", thread=False)
    def post(to: str) -> str:
        ledger[f"post {to}"] += 1
        return to

    @host.reconciler("post")
    async def posted(doubt: Any) -> Any:  # in a thread, the clock would jump before it answers
        to = doubt.arguments["to"]
        return to if ledger[f"post {to}"] else NOT_EXECUTED

    @host.tool("stamp", thread=False, idempotent=True)
    def stamp(n: int) -> int:
        ledger[f"stamp {n}"] += 1
        return n

    @host.subagent("clerk")
    async def clerk(tick: Any, payload: Any) -> Any:
        stamped = await tick.call("stamp", n=payload)
        tick.share("sum", stamped)
        return [stamped, tick.rng.random(), await tick.call("post", to=f"clerk-{payload}")]

    @host.subagent("oracle")
    async def oracle(payload: Any) -> str:
        ledger[f"oracle {payload}"] += 1
        return f"{payload}?"

    async def master(tick: Any) -> None:
        weather = await tick.read("weather")
        tick.state["rounds"] = [*tick.state.get("rounds", []), tick.round]
        tick.share("sky", weather)
        if tick.round in (1, 2):
            tick.note(str(await tick.call("pay", to=f"{tick.agent}-{tick.round}")))
        tick.note(str(await tick.gather(tick.call("post", to=f"m-{tick.round}"), tick.call("stamp", n=tick.round))))
        if tick.round == 2:
            tick.spawn(Agent("pupil", pupil, state={"master": tick.agent}))
            tick.note(str(await tick.ask_human("go on?")))
        tick.broadcast("news", round=tick.round)

    async def worker(tick: Any) -> None:
        for message in tick.inbox:
            tick.share("log", message.body["round"])
        tick.public["n"] = tick.rng.random()
        tick.note(str(await tick.delegate("clerk", tick.round)))
        tick.note(await tick.delegate("oracle", f"{tick.round}"))

    async def sleepy(tick: Any) -> None:
        await tick.call("stamp", n=100 + tick.round)
        if tick.round % 2:
            await trio.sleep(10_000)
        tick.share("log", [action.tool for action in tick.stranded])

    activation = how.pop("activation", None)
    return (AsyncSociety if activation is None else Society)(
        [Agent("master", master), Agent("worker", worker), Agent("sleepy", sleepy)],
        hosts=host,
        shared={"sky": None, "sum": Shared(0, "sum"), "log": Shared([], "append")},
        limits=Limits(round_timeout=1_000, inbox_capacity=3),
        policy=Policy(approve("pay")),
        measures={
            "sum": lambda view: view.shared["sum"],
            "all": lambda view: {a.name: view.round for a in view.agents},
        },
        events=[
            {"round": 2, "share": {"sum": 100}},
            {"round": 3, "send": {"to": "worker", "kind": "x", "body": {"round": 0}}},
        ],
        behaviors=[pupil],
        run_id="workshop",
        store=store,
        activation=activation,
        **how,
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("least", [65_536, 1_000])
def test_people_sub_agents_births_late_ticks_and_events_survive(
    activation: str | None, least: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(society.survival, "LEAST_BYTES", least)
    ledger: Counter[str] = Counter()

    def make(store: Any) -> AsyncSociety:
        if not len(store.read() if store is not None else ()):  # another life has another world
            ledger.clear()
        return workshop(store, ledger, activation=activation)

    tried = crash_everywhere(make, 5, most=20, seed=least, run=scheduled)
    assert tried.crashes > 20


# ── what it finds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_behavior_that_remembers_outside_of_the_society_is_found() -> None:
    remembered: list[int] = []

    async def ada(tick: Any) -> None:
        remembered.append(tick.round)
        await tick.read("weather")
        tick.note(f"{len(remembered)} so far")

    host = AsyncHost()
    host.sensor("weather", thread=False)(lambda: "rain")

    def make(store: Any) -> AsyncSociety:
        return AsyncSociety([Agent("ada", ada)], hosts=host, store=store)

    with pytest.raises(CrashChangedRun, match="nothing before it is in doubt"):
        crash_everywhere(make, 3)


def test_what_was_tried_is_told(crash_everywhere: Any) -> None:
    host = AsyncHost()
    host.tool("pay", thread=False)(lambda: "paid")

    async def ada(tick: Any) -> None:
        tick.note(await tick.call("pay"))

    tried = crash_everywhere(lambda store: AsyncSociety([Agent("ada", ada)], hosts=host, store=store), 2)

    # Per round: the intent, the result, the barrier; in the end the end.
    assert tried.writes == 7
    assert tried.crashes >= 3 * tried.writes
    assert tried.changed > 0


def test_a_run_that_failed_and_was_told_so_by_its_journal_is_over(crash_everywhere: Any) -> None:
    def ada(tick: Any) -> None:
        if tick.round == 2:
            raise ValueError("no")

    assert crash_everywhere(lambda store: AsyncSociety([Agent("ada", ada)], store=store), 4).changed == 0


# ── waiting for a person ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schedule", range(8))
def test_a_run_waits_once_everybody_else_is_done_whatever_the_schedule(schedule: int) -> None:
    """R14: not before others have begun, and not only when the last of them made a crossing."""
    host = AsyncHost(asker=WAIT)

    async def ada(tick: Any) -> None:
        await tick.ask_human("well?")

    async def bob(tick: Any) -> None:
        if schedule % 2:
            await trio.sleep(5)
        tick.share("told", "bob was here")

    def cyd(tick: Any) -> None:
        tick.share("told", "and cyd")

    town = AsyncSociety(
        [Agent("ada", ada), Agent("bob", bob), Agent("cyd", cyd)], hosts=host, shared={"told": Shared([], "append")}
    )
    assert run(town.run, 1, schedule=schedule).outcome == "waiting"
    assert town.stats.human.in_flight == 0


@pytest.mark.parametrize("schedule", range(8))
def test_when_the_time_of_a_round_is_up_who_waits_for_a_person_is_late(schedule: int) -> None:
    """R12: however long the others slept, and whoever of them is cancelled first."""
    host = AsyncHost(asker=WAIT)

    async def ada(tick: Any) -> None:
        await tick.ask_human("well?")

    async def bob(tick: Any) -> None:
        await trio.sleep(1_000)

    town = AsyncSociety([Agent("ada", ada), Agent("bob", bob)], hosts=host, limits=Limits(round_timeout=10))
    result = run(town.run, 1, schedule=schedule)

    assert (result.outcome, result.metrics.late_ticks) == ("finished", 2)
