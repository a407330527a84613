"""Replays: everything comes from the journal, nothing goes out, and the first difference is named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pytest
import trio
from schedules import run, scheduled
from societies import Plan, drawn_plan, planned

from society import (
    Agent,
    AsyncHost,
    AsyncSociety,
    Limits,
    MemoryStore,
    ReplayDivergence,
    Shared,
    Society,
    load_scenario,
)
from society.reruns import replay
from society.testing.failing_store import Crash, FailingStore
from tests.publish import PUBLISHED, ROOT, TRACES


def untouched(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a replay reached the world")


def in_memory(make: Callable[..., AsyncSociety], max_ticks: int, **how: Any) -> MemoryStore:
    store = MemoryStore()
    run(make(store=store, **how).run, max_ticks)
    return store


# ── nothing is touched ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "activation"), PUBLISHED)
def test_the_runs_of_all_published_traces_are_replayed_without_the_world(
    name: str, activation: str, monkeypatch: Any
) -> None:
    """J8: hosts fail when they are touched; the trace is that which is published."""
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml")
    store = MemoryStore()
    run(scenario.society(activation=activation, store=store).run, scenario.max_ticks)
    before = store.read().data
    hosts = {id(host): host for host in scenario.every_host}.values()
    fakes = {
        "tools": {tool: untouched for host in hosts for tool in host.tools},
        "sensors": {sensor: untouched for host in hosts for sensor in host.sensors},
        "approver": untouched,
        "asker": untouched,
    }
    monkeypatch.setattr("socket.socket", untouched)
    monkeypatch.setattr("time.sleep", untouched)

    def make(*, store: Any, forced: bool) -> AsyncSociety:
        monkeypatch.undo()  # trio's own loop has a socket pair; made before it starts
        return scenario.society(activation=activation, store=store, **fakes)

    replayed = replay(store, make)

    assert replayed.trace.data == (TRACES / f"{name}.{activation}.jsonl").read_bytes()
    assert not replayed.ends_open
    assert store.read().data == before


@pytest.mark.parametrize("turns", [None, "shuffled"])
def test_random_societies_are_replayed_with_a_world_that_fails_when_touched(turns: str | None) -> None:
    plan = drawn_plan(31)
    store = MemoryStore()
    town = planned(plan, 5, turns=turns)
    town.store = store
    told = run(town.run, plan.rounds).trace

    def make(*, store: Any, forced: bool) -> AsyncSociety:
        again = planned(plan, 6, turns=turns)
        for desk in again.members.desks.values():
            for host, _ in desk.tools.values():
                host.invoke = host.perceive = untouched
                host.asker = host.approver = untouched
        return again

    assert replay(store, make).trace == told


def test_a_replay_takes_no_time(monkeypatch: Any) -> None:
    host = AsyncHost()
    host.sensor("slow", thread=False)(lambda: 1)

    async def ada(tick: Any) -> None:
        await trio.sleep(3_600)
        with trio.move_on_after(60):
            await trio.sleep_forever()
        tick.note(f"{await tick.read('slow')}")

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        return AsyncSociety([Agent("ada", ada)], hosts=host, store=store)

    assert replay(in_memory(make, 3), make).rounds == 3


# ── the first difference ────────────────────────────────────────────────────────────────────────────────────────────────


def made(change: Callable[[Any], Any] | None = None) -> Callable[..., AsyncSociety]:
    """Return what builds a society in which bob does something else in round 2."""
    host = AsyncHost(asker=lambda question: "yes")
    for sensor in ("weather", "noise"):
        host.sensor(sensor, thread=False)(lambda: 1)
    for tool in ("pay", "send"):
        host.tool(tool, thread=False)(lambda **arguments: None)
    host.subagent("clerk")(_clerk)

    async def usual(tick: Any) -> None:
        await tick.read("weather")
        await tick.call("pay", n=tick.round)
        await tick.delegate("clerk", tick.round)
        tick.share("n", 1)
        tick.note("fine")

    async def bob(tick: Any) -> None:
        await (change if change is not None and tick.round == 2 else usual)(tick)

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        agents = [Agent("ada", usual), Agent("bob", bob)]
        return AsyncSociety(agents, hosts=host, shared={"n": Shared(0, "sum")}, store=store)

    return make


async def _clerk(tick: Any, payload: Any) -> Any:
    await tick.call("send", n=payload)
    return payload


async def _another_argument(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("pay", n=20)


async def _another_order(tick: Any) -> None:
    await tick.call("pay", n=tick.round)
    await tick.read("weather")


async def _another_sensor(tick: Any) -> None:
    await tick.read("noise")


async def _another_tool(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("send", n=tick.round)


async def _another_payload(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("pay", n=tick.round)
    await tick.delegate("clerk", 50)


async def _one_more(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("pay", n=tick.round)
    await tick.delegate("clerk", tick.round)
    await tick.read("noise")


async def _a_person(tick: Any) -> None:
    await tick.ask_human("why?")


@pytest.mark.parametrize(
    ("change", "crossing", "recorded", "asked"),
    [
        (_another_argument, "2", "pay({'n': 2})", "pay({'n': 20})"),
        (_another_order, "1", "read weather", "pay({'n': 2})"),
        (_another_sensor, "1", "read weather", "read noise"),
        (_another_tool, "2", "pay({'n': 2})", "send({'n': 2})"),
        (_another_payload, "3.1", "send({'n': 2})", "send({'n': 50})"),
        (_one_more, "4", "nothing", "read noise"),
        (_a_person, "1", "read weather", "ask_human('why?')"),
    ],
)
def test_another_crossing_is_found_at_once_and_both_are_shown(
    change: Any, crossing: str, recorded: str, asked: str
) -> None:
    """P58: round, agent, crossing, what was recorded and what was asked."""
    with pytest.raises(ReplayDivergence) as found:
        replay(in_memory(made(), 3), made(change))

    divergence = found.value
    assert (divergence.round, divergence.agent, divergence.crossing) == (2, "bob", crossing)
    assert (divergence.recorded, divergence.asked) == (recorded, asked)


async def _another_share(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("pay", n=tick.round)
    await tick.delegate("clerk", tick.round)
    tick.share("n", 2)
    tick.note("fine")


async def _fails(tick: Any) -> None:
    await tick.read("weather")
    await tick.call("pay", n=tick.round)
    await tick.delegate("clerk", tick.round)
    raise ValueError("no")


async def _remembers(tick: Any) -> None:
    tick.state["x"] = 1
    await _another_share(tick)


@pytest.mark.parametrize(
    ("change", "at", "recorded", "asked"),
    [
        (_another_share, "after 3", "('share', '3', 'n', 1)", "('share', '3', 'n', 2)"),
        (_fails, "after 3", "('share', '3', 'n', 1)", "nothing"),
    ],
)
def test_another_contribution_is_found_at_the_barrier(change: Any, at: str, recorded: str, asked: str) -> None:
    with pytest.raises(ReplayDivergence) as found:
        replay(in_memory(made(), 3), made(change))

    divergence = found.value
    assert (divergence.round, divergence.agent, divergence.crossing) == (2, "bob", at)
    assert (divergence.recorded, divergence.asked) == (recorded, asked)


def test_a_crossing_that_is_not_asked_for_any_more_is_found() -> None:
    async def fewer(tick: Any) -> None:
        await tick.read("weather")
        tick.share("n", 1)
        tick.note("fine")

    with pytest.raises(ReplayDivergence) as found:
        replay(in_memory(made(), 3), made(fewer))
    divergence = found.value
    assert (divergence.round, divergence.agent, divergence.crossing) == (2, "bob", "2")
    assert (divergence.recorded, divergence.asked) == ("pay({'n': 2})", "nothing more")


def test_a_measure_that_changed_is_found() -> None:
    def measured(factor: int) -> Callable[..., AsyncSociety]:
        def make(*, store: Any, forced: bool = True) -> AsyncSociety:
            return AsyncSociety(
                [Agent("ada", lambda tick: None)], measures={"m": lambda view: factor * view.round}, store=store
            )

        return make

    with pytest.raises(ReplayDivergence) as found:
        replay(in_memory(measured(1), 2), measured(2))
    assert (found.value.round, found.value.crossing) == (1, "measures")


# ── several differences in one round ────────────────────────────────────────────────────────────────────────────────────


async def _slow(tick: Any) -> None:
    await trio.sleep(5 if tick.agent == "ada" else 0)
    await tick.read("weather")


async def _other(tick: Any) -> None:
    await trio.sleep(5 if tick.agent == "ada" else 0)
    await tick.read("noise")


async def _other_word(tick: Any) -> None:
    await _slow(tick)
    tick.note("another word")


async def _less(tick: Any) -> None:
    pass


async def _swallows(tick: Any) -> None:
    try:
        await _other(tick)
    except ReplayDivergence:
        await trio.sleep(1)


async def _both(tick: Any) -> None:
    await tick.gather(tick.read("weather"), tick.read("weather"))


async def _both_otherwise(tick: Any) -> None:
    await tick.gather(tick.read("noise"), tick.read("noise"))


async def _writes_before(tick: Any) -> None:
    tick.note("before")
    await _other(tick)


async def _gives_up(tick: Any) -> None:
    with trio.move_on_after(1):
        await _other(tick)


@pytest.mark.parametrize("society", [AsyncSociety, Society])
@pytest.mark.parametrize(
    ("was", "ada", "bob", "found"),
    [
        (_slow, _slow, _other, ("bob", "1", "read weather", "read noise")),
        (_slow, _other, _other, ("ada", "1", "read weather", "read noise")),
        (_slow, _other, _less, ("ada", "1", "read weather", "read noise")),
        (_slow, _other_word, _other, ("ada", "after 1", "nothing", "('note', '1', 'another word')")),
        (_slow, _less, _other, ("ada", "1", "read weather", "nothing more")),
        (_slow, _swallows, _other, ("ada", "1", "read weather", "read noise")),
        (_slow, _gives_up, _less, ("ada", "1", "read weather", "nothing more")),
        (_slow, _writes_before, _other, ("ada", "after 0", "nothing", "('note', '0', 'before')")),
        (_both, _both_otherwise, _both_otherwise, ("ada", "1", "read weather", "read noise")),
        (_both, _both, _both_otherwise, ("bob", "1", "read weather", "read noise")),
        (_less, _slow, _slow, ("ada", "1", "nothing", "read weather")),
    ],
)
def test_of_several_differences_in_one_round_the_first_in_canonical_order_is_named(
    was: Any, ada: Any, bob: Any, found: tuple[str, ...], society: Any
) -> None:
    """J8, J9: not the first to arrive, under any schedule."""
    host = AsyncHost()
    for sensor in ("weather", "noise"):
        host.sensor(sensor, thread=False)(lambda: 1)

    def making(one: Any, other: Any) -> Callable[..., Any]:
        def make(*, store: Any, forced: bool = True) -> Any:
            return society([Agent("ada", one), Agent("bob", other)], hosts=host, store=store)

        return make

    store = in_memory(making(was, was), 2)
    for schedule in range(20):
        with scheduled(schedule), pytest.raises(ReplayDivergence) as stopped:
            replay(store, making(ada, bob))
        first = stopped.value
        assert (first.round, first.agent, first.crossing, first.recorded, first.asked) == (1, *found)


def _changed(plan: Plan, number: int) -> Plan:
    """Return a plan in which several agents do something else in one round."""
    rng, other, agents = random.Random(number), drawn_plan(number + 100_000), list(plan.agents)
    round = rng.randrange(3)
    for place in rng.sample(range(5), rng.choice([1, 2, 3, 5])):
        rounds = list(agents[place])
        steps = rounds[round]
        rounds[round] = rng.choice([other.agents[place][round], steps[1:], (*steps[:1], ("draw",), *steps[1:])])
        agents[place] = tuple(rounds)
    return attrs.evolve(plan, agents=tuple(agents))


@pytest.mark.parametrize("number", range(24))
def test_which_difference_a_replay_names_depends_on_no_schedule(number: int) -> None:
    plan = drawn_plan(number)
    turns = (None, "sequential", "shuffled", "random")[number % 4]
    store = MemoryStore()
    town = planned(plan, 5, turns=turns)
    town.store = store
    run(town.run, plan.rounds)
    said = set()
    for schedule in range(4):
        with scheduled(schedule):
            try:
                replay(store, lambda *, store, forced, at=schedule: planned(_changed(plan, number), at, turns=turns))
                said.add("nothing differs")
            except ReplayDivergence as difference:
                said.add(str(difference))
    assert len(said) == 1


def test_a_replay_ends_where_others_wait_for_an_agent_that_parted() -> None:
    """Agents should not wait for one another behind the society's back; where they do, the difference is told all the same."""
    arrived: list[trio.Event] = []
    host = AsyncHost()
    for sensor in ("weather", "noise"):
        host.sensor(sensor, thread=False)(lambda: 1)

    def making(sensor: str) -> Callable[..., AsyncSociety]:
        async def ada(tick: Any) -> None:
            await arrived[-1].wait()

        async def bob(tick: Any) -> None:
            await tick.read(sensor)
            arrived[-1].set()

        def make(*, store: Any, forced: bool = True) -> AsyncSociety:
            arrived.append(trio.Event())
            return AsyncSociety([Agent("ada", ada), Agent("bob", bob)], hosts=host, store=store)

        return make

    with pytest.raises(ReplayDivergence) as stopped:
        replay(in_memory(making("weather"), 1), making("noise"))
    assert (stopped.value.agent, stopped.value.crossing) == ("bob", "1")


# ── journals that end early ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_journal_that_ends_inside_a_round_ends_open_and_is_no_divergence() -> None:
    """P58: distinct from a divergence."""
    store = MemoryStore()
    with pytest.raises(Crash):
        run(made()(store=FailingStore(14, store=store)).run, 3)

    replayed = replay(store, made())

    assert replayed.ends_open
    assert 0 < replayed.rounds < 3
    assert replayed.outcome == ""
    assert replayed.trace.end is None


def test_every_prefix_of_a_journal_replays_without_the_world() -> None:
    scan = in_memory(made(), 2).read()
    for count in range(1, len(scan) + 1):
        end = scan.starts[count] if count < len(scan) else scan.end
        replayed = replay(MemoryStore(scan.data[:end]), made())
        barriers = sum(kind == "barrier" for kind in scan.kinds[:count])
        assert replayed.rounds == barriers
        last = scan.kinds[count - 1]
        assert replayed.ends_open == (last not in ("start", "opening", "barrier", "end"))


# ── ticks that did not end well, and what they gave up ──────────────────────────────────────────────────────────────────


def stuck_world() -> AsyncHost:
    async def stuck(*_: Any) -> None:
        await trio.sleep(100)

    host = AsyncHost(asker=stuck)
    host.sensor("stuck")(stuck)
    host.tool("stuck")(stuck)

    @host.subagent("clerk")
    async def clerk(tick: Any, payload: Any) -> None:
        await tick.call("stuck")

    @host.subagent("oracle")
    async def oracle(payload: Any) -> None:
        await stuck()

    return host


CROSSINGS: dict[str, Callable[[Any], Any]] = {
    "read": lambda tick: tick.read("stuck"),
    "call": lambda tick: tick.call("stuck"),
    "ask": lambda tick: tick.ask_human("well?"),
    "delegate": lambda tick: tick.delegate("clerk"),
    "oracle": lambda tick: tick.delegate("oracle"),
}


def with_in_flight(crossing: str, *, fails: bool) -> Callable[..., AsyncSociety]:
    async def started(coroutine: Any) -> None:
        await coroutine

    async def ada(tick: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(started, CROSSINGS[crossing](tick))
            await trio.sleep(1)
            if fails:
                raise ValueError("enough")
            nursery.cancel_scope.cancel()
        tick.note("given up")

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        return AsyncSociety([Agent("ada", ada)], hosts=stuck_world(), store=store, on_error="continue")

    return make


@pytest.mark.parametrize("fails", [True, False], ids=["failed", "given up"])
@pytest.mark.parametrize("crossing", CROSSINGS)
def test_what_a_tick_left_in_flight_or_gave_up_is_left_again(crossing: str, fails: bool) -> None:
    """J3: ended together with its tick it left no record; given up by a tick that went on, it is recorded as cut."""
    make = with_in_flight(crossing, fails=fails)

    replayed = replay(in_memory(make, 2), make)

    assert replayed.rounds == 2
    assert replayed.trace.where(kind="failed" if fails else "note", round=2)


@attrs.frozen
class Wish:
    """What `reason` asks for."""

    much: int = 0


BACKGROUND = {**CROSSINGS, "loop": lambda tick: tick.act("go"), "reason": lambda tick: tick.reason(Wish, "how much?")}


class StuckModel:
    async def reply(self, request: Any) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("crossing", BACKGROUND)
def test_what_was_given_up_when_something_else_came_is_given_up_again(crossing: str, schedule: int) -> None:
    """J3, J8: in a replay answers come at once, so a tick may give a crossing up before it has had its first step."""

    async def started(coroutine: Any) -> None:
        await coroutine

    async def ada(tick: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(started, BACKGROUND[crossing](tick))
            await tick.read("slow")
            nursery.cancel_scope.cancel()
        await tick.read("slow")

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        host = stuck_world()

        @host.sensor("slow")
        async def slow() -> int:
            await trio.sleep(1)
            return 1

        return AsyncSociety([Agent("ada", ada)], hosts=host, model=StuckModel(), store=store)

    store = in_memory(make, 2)
    with scheduled(schedule):
        assert replay(store, make).rounds == 2


@pytest.mark.parametrize("schedule", range(4))
def test_calls_that_were_given_up_while_they_waited_their_turn_are_given_up_again(schedule: int) -> None:
    """B8, J3, J8."""

    async def ada(tick: Any) -> None:
        with trio.move_on_after(1):
            await tick.gather(tick.call("stuck"), tick.call("stuck"), tick.delegate("clerk"))
        await tick.read("stuck")

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        return AsyncSociety([Agent("ada", ada)], hosts=stuck_world(), limits=Limits(read_timeout=1), store=store)

    store = in_memory(make, 2)
    with scheduled(schedule):
        assert replay(store, make).rounds == 2


@pytest.mark.parametrize("slowest", ["1", "2", "3"])
def test_what_sub_agents_leave_is_in_order_whichever_crossing_ends_last(slowest: str) -> None:
    """J2: and before what the tick itself does next."""
    host = AsyncHost()

    @host.subagent("clerk")
    async def clerk(tick: Any, place: str) -> None:
        await tick.read(place)
        tick.share("log", place)

    async def ada(tick: Any) -> None:
        await tick.gather(tick.delegate("clerk", "1"), tick.read("2"), tick.delegate("clerk", "3"))
        tick.share("log", "then")

    for place in "123":

        @host.sensor(place)
        async def answers(place: str = place) -> None:
            await trio.sleep(2 if place == slowest else 1)

    town = AsyncSociety([Agent("ada", ada)], hosts=host, shared={"log": Shared([], merge="append")})
    assert run(town.run, 1).shared["log"] == ["1", "3", "then"]


@pytest.mark.parametrize("crossing", ["read", "call", "ask", "oracle"])
def test_code_that_does_not_give_up_any_more_is_found_and_nothing_hangs(crossing: str) -> None:
    async def patient(tick: Any) -> None:
        await CROSSINGS[crossing](tick)

    def changed(*, store: Any, forced: bool) -> AsyncSociety:
        return AsyncSociety([Agent("ada", patient)], hosts=stuck_world(), store=store, on_error="continue")

    for fails in (True, False):
        with pytest.raises(ReplayDivergence) as found:
            replay(in_memory(with_in_flight(crossing, fails=fails), 1), changed)
        assert (found.value.round, found.value.agent, found.value.crossing) == (1, "ada", "1")


# ── late ticks, ends ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_late_tick_is_not_run_again_but_its_crossings_stand() -> None:
    ran: list[int] = []
    host = AsyncHost()
    host.tool("pay", thread=False)(lambda: 1)

    async def ada(tick: Any) -> None:
        ran.append(tick.round)
        await tick.call("pay")
        await trio.sleep(1_000)

    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        return AsyncSociety([Agent("ada", ada)], hosts=host, limits=Limits(round_timeout=5), store=store)

    store = in_memory(make, 2)
    assert ran == [1, 2]
    replayed = replay(store, make)
    assert ran == [1, 2]
    assert [event.kind for event in replayed.trace.where(agent="ada", round=2)] == ["action", "late"]


def test_a_run_that_ended_in_a_conflict_is_replayed_to_that_conflict() -> None:
    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        agents = [Agent(name, lambda tick: tick.share("k", 1) if tick.round == 2 else None) for name in ("ada", "bob")]
        return AsyncSociety(agents, shared={"k": Shared(0, "error")}, store=store)

    replayed = replay(in_memory(make, 3), make)
    assert (replayed.outcome, replayed.rounds) == ("conflict", 1)


def test_a_run_that_went_on_behind_failures_is_replayed_to_its_end() -> None:
    def make(*, store: Any, forced: bool = True) -> AsyncSociety:
        def ada(tick: Any) -> None:
            if tick.round in (1, 3):
                raise ValueError(tick.round)

        return AsyncSociety([Agent("ada", ada)], store=store)

    store = MemoryStore()
    ends = [run(make(store=store).run, 3).outcome for _ in range(3)]
    assert ends == ["failed", "failed", "finished"]
    assert replay(store, make).outcome == "finished"


def test_what_stands_in_a_folder_is_replayed_by_its_path(tmp_path: Path) -> None:
    from society import FileStore

    make = made()
    trio.run(make(store=FileStore(tmp_path)).run, 2)
    there = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert replay(tmp_path, make).rounds == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == there
