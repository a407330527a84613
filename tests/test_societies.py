"""Societies: outcomes, events, births and deaths, receipts, limits, what is seen from outside."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest
import trio
from schedules import run
from societies import doing, idle, keeping, kinds, refolded, town

from society import (
    ActionDenied,
    ActionInDoubt,
    Agent,
    AsyncHost,
    AsyncRuntime,
    AsyncSociety,
    Limits,
    Policy,
    ScenarioError,
    Shared,
    Society,
    SocietyError,
    ToolFailed,
    UnknownRecipient,
    never,
)


def notes(society: AsyncSociety, agent: str | None = None) -> list[str]:
    return [event.text for event in society.trace.where(kind="note", agent=agent)]


# ── what is declared ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"hosts": {"bob": AsyncHost()}}, "no agent is called 'bob'"),
        ({"on_error": "stopp"}, "Did you mean 'stop'?"),
        ({"seed": 1.5}, "seed"),
        ({"store": "runs"}, "store: 'runs' is not a store"),
        ({"hosts": "web"}, "hosts: 'web' is not a host"),
        ({"shared": 3}, "shared: 3 is not a dict"),
        ({"measures": {"curve": 3}}, "is not a dict of functions"),
        ({"approver": 3}, "approver: 3 is not a function"),
        ({"events": 3}, "events: 3 is not a list"),
        ({"events": [3]}, "events[0]: 3 is no event"),
        ({"until": 3}, "until: 3 is not a function"),
        ({"quiet": "no"}, "quiet: 'no' is not True or False"),
        ({"keep_trace": 0}, "keep_trace: 0 is not True or False"),
        ({"name": 3}, "name: 3 is not a text"),
        ({"activation": "sequential"}, "an activation of Society"),
        ({"activation": "partial"}, "rate"),
        ({"shared": {"k": Shared(0, writers=["bob"])}}, "no agent is called 'bob'"),
        ({"shared": {"k": {1}}}, "set"),
        ({"parameters": {"k": float("nan")}}, "parameters.k"),
        ({"events": [{"round": 0, "share": {}}]}, "events[0].round"),
        ({"events": [{"round": 1, "share": {"kk": 1}}], "shared": {"k": 0}}, "events[0].share.kk"),
        ({"events": [{"round": 1, "send": {"to": "bob", "kind": "x"}}]}, "events[0].send.to"),
        ({"events": [{"round": 1, "share": {"k": "x"}}], "shared": {"k": Shared(0, merge="sum")}}, "no addend"),
    ],
)
def test_what_is_declared_wrongly_is_refused_before_anything_runs(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        town(Agent("ada", idle), **how)
    assert told in str(refused.value)


@pytest.mark.parametrize("name", ["", "world", " ada", "a\nb"])
def test_names_that_cannot_be_shown_or_are_taken_are_refused(name: str) -> None:
    with pytest.raises(ScenarioError):
        Agent(name, idle)


def test_a_reconciler_is_for_a_tool_that_some_host_has() -> None:
    local, other = AsyncHost(), AsyncHost()
    local.reconciler("restrat")(lambda action: None)
    other.tool("restart")(lambda: None)
    with pytest.raises(
        ScenarioError, match=r"tool 'restrat', which no host of the society has. Did you mean 'restart'"
    ):
        AsyncSociety([Agent("ada", idle)], hosts=[local, other])
    local.reconcilers = {"restart": local.reconcilers["restrat"]}
    AsyncSociety([Agent("ada", idle), Agent("bob", idle)], hosts={"ada": [local, other], "bob": local})


def test_one_agent_alone_is_an_agent() -> None:
    with pytest.raises(ScenarioError, match=r"^agent: 'ada' is no Agent"):
        AsyncRuntime("ada")  # type: ignore[arg-type]


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"agents\[1\]"):
        town(Agent("ada", idle), Agent("ada", idle))


@pytest.mark.parametrize("how", [{"limits": {}}, {"policy": "deny"}, {"budget": 3}], ids=repr)
def test_what_is_of_another_kind_is_refused_where_it_is_given(how: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=f"^{next(iter(how))}: "):
        AsyncSociety([Agent("ada", idle)], **how)


def test_a_name_in_the_place_of_an_agent_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"^agents\[0\]: 'ada' is no Agent"):
        AsyncSociety(["ada"])  # type: ignore[list-item]


def test_one_agent_in_the_place_of_all_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"^agents: Agent\("):
        AsyncSociety(Agent("ada", idle))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["x", [1], {"ada": "x"}])
def test_a_measure_that_gives_no_number_is_told_with_its_name_and_round(value: Any) -> None:
    with pytest.raises(ScenarioError, match=r"^measures\.mood, after round 0: .* is no number"):
        run(town(Agent("ada", idle), measures={"mood": lambda view: value}).run, 1)


@pytest.mark.parametrize("what", ["until", "measures.m"])
def test_an_async_function_between_rounds_is_refused_and_closed(what: str) -> None:
    async def awaited(view: Any) -> int:
        return 1

    how: dict[str, Any] = {"until": awaited} if what == "until" else {"measures": {"m": awaited}}
    with pytest.raises(ScenarioError, match=f"^{what}, after round .*make it a plain function"):
        run(town(Agent("ada", idle), **how).run, 1)


def test_a_behavior_with_a_yield_is_refused_since_calling_it_would_run_nothing() -> None:
    def plain(tick: Any) -> Any:
        yield

    async def awaiting(tick: Any) -> Any:
        yield

    for behavior in (plain, awaiting):
        with pytest.raises(ScenarioError, match=r"'Ada'.*yield"):
            Agent("Ada", behavior)


def test_a_sensor_that_nobody_has_is_told_before_the_run_starts() -> None:
    host = AsyncHost()
    host.sensor("weather")(lambda: 1)
    with pytest.raises(ScenarioError, match="Did you mean 'weather'"):
        town(Agent("ada", idle, observe=["wether"]), hosts=host)


# ── outcomes (R14) ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_finished_when_its_rounds_are_over_and_goes_on_with_more() -> None:
    society = town(ada := Agent("ada", lambda tick: tick.note(str(tick.round))))
    first, second = run(society.run, 2), run(society.run, 3)
    assert (first.outcome, first.rounds, second.outcome, second.rounds) == ("finished", 2, "finished", 3)
    assert notes(society) == ["1", "2", "3"]
    assert kinds(society).count("end") == 0 and society.trace.events[-1].kind == "end"
    whole = town(ada)
    run(whole.run, 3)
    assert whole.trace.data == society.trace.data


def test_a_run_of_no_rounds_is_finished() -> None:
    assert run(town(idle).run, 0).outcome == "finished"


def test_a_run_is_finished_when_everybody_has_left() -> None:
    result = run(town(Agent("ada", lambda tick: tick.retire())).run, 5)
    assert (result.outcome, result.rounds, result.reason) == ("finished", 1, "everybody has left")


@pytest.mark.parametrize("turns", [False, True])
def test_a_run_is_satisfied_at_the_first_barrier_where_until_holds_and_stays_so(turns: bool) -> None:
    society = town(
        Agent("ada", lambda tick: tick.share("n", 1)),
        turns=turns,
        shared={"n": Shared(0, merge="sum")},
        until=lambda view: view.shared["n"] >= 2,
    )
    assert (run(society.run, 9).outcome, society.round) == ("satisfied", 2)
    assert (run(society.run, 20).outcome, society.round) == ("satisfied", 2)


def test_a_run_is_quiet_when_nothing_is_in_flight_and_nothing_is_written() -> None:
    society = town(
        Agent("ada", doing(lambda tick: tick.send("bob", "x"), None, None)),
        Agent("bob", doing(None, lambda tick: tick.state.update(seen=1))),
        quiet=True,
    )
    assert (run(society.run, 9).outcome, society.round) == ("quiet", 3)


@pytest.mark.parametrize(("activation", "rate"), [("random", None), ("partial", 0.3)])
@pytest.mark.parametrize("seed", range(6))
def test_where_not_everybody_is_drawn_a_run_is_quiet_once_all_have_had_a_tick_since_the_last_change(
    activation: Any, rate: float | None, seed: int
) -> None:
    """R14: a round that wrote nothing may only not have drawn those who would have."""
    ticked: list[tuple[int, str]] = []

    def once(tick: Any) -> None:
        ticked.append((tick.round, tick.agent))
        if not tick.state.get("done"):
            tick.state["done"] = True

    names = [f"a-{number}" for number in range(6)]
    kind: Any = Society if activation == "random" else AsyncSociety
    more = {} if rate is None else {"rate": rate}
    society = kind([Agent(name, once) for name in names], activation=activation, seed=seed, quiet=True, **more)

    result = run(society.run, 200)

    first = {name: min(round for round, who in ticked if who == name) for name in names}
    since = max(first.values())
    assert result.outcome == "quiet"
    assert {who for round, who in ticked if round > since} == set(names)
    assert {who for round, who in ticked if since < round < result.rounds} < set(names)


def test_whoever_is_never_drawn_keeps_a_run_from_being_quiet() -> None:
    society = AsyncSociety([Agent("ada", lambda tick: None)], activation="partial", rate=0, quiet=True)
    assert run(society.run, 9).outcome == "finished"


def test_traces_of_two_rates_differ_in_their_headers() -> None:
    def header(rate: float) -> dict[str, Any]:
        society = AsyncSociety([Agent("ada", lambda tick: None)], activation="partial", rate=rate)
        run(society.run, 1)
        return dict(society.trace.header)

    assert (header(0.25)["rate"], header(0.75)["rate"]) == (0.25, 0.75)
    assert header(0.25) | {"rate": 0.75} == header(0.75)
    assert "rate" not in town(idle).trace.header


def test_an_event_to_come_keeps_a_run_from_being_quiet() -> None:
    society = town(idle, quiet=True, shared={"k": 0}, events=[{"round": 4, "share": {"k": 1}}])
    assert (run(society.run, 9).outcome, society.round) == ("quiet", 5)


def test_a_conflict_stops_the_run_with_nothing_of_the_round_applied_and_for_good() -> None:
    society = town(
        Agent("ada", doing(None, lambda tick: tick.share("k", 1))),
        Agent("bob", doing(None, lambda tick: [tick.share("k", 1), tick.share("log", 1)])),
        shared={"k": Shared(0, merge="error"), "log": Shared([], merge="append")},
        until=lambda view: view.round == 2,
    )
    result = run(society.run, 9)
    assert (result.outcome, dict(result.shared), society.versions["k"]) == ("conflict", {"k": 0, "log": []}, 0)
    assert run(society.run, 20).outcome == "conflict"


@pytest.mark.parametrize("turns", [False, True])
def test_merge_functions_that_raise_end_the_run_as_a_conflict_and_records_tell_the_same(turns: bool) -> None:
    def picky(value: Any, contribution: Any) -> Any:
        raise ValueError(f"not {contribution} \ud800")

    society = town(
        Agent("ada", doing(lambda tick: [tick.share("p", 1), tick.share("q", 1)])),
        Agent("bob", idle),
        turns=turns,
        shared={"p": Shared(0, merge=picky), "q": Shared(0, merge=picky)},
    )
    kept = keeping(society)
    result = run(society.run, 1)
    assert result.outcome == "conflict" and "picky raised ValueError: not 1" in result.reason
    assert refolded(kept.records()) == (society.state, society.trace.data)


def test_a_merge_function_that_returns_no_value_is_a_conflict_too() -> None:
    society = town(Agent("ada", lambda tick: tick.share("k", 1)), shared={"k": Shared(0, merge=lambda a, b: {a, b})})
    assert run(society.run, 1).outcome == "conflict"


@pytest.mark.parametrize("turns", [False, True])
def test_one_agent_that_fails_ends_nobody_elses_round(turns: bool) -> None:
    """P34."""

    def b(tick: Any) -> None:
        tick.send("a", "never")
        tick.share("log", "never")
        if tick.round == 1:
            raise RuntimeError("rate limit")

    def society(**how: Any) -> AsyncSociety:
        a = Agent("a", doing(lambda tick: [tick.send("c", "x"), tick.share("log", "a")]))
        c = Agent("c", doing(lambda tick: [tick.send("a", "x"), tick.share("log", "c")]))
        return town(a, Agent("b", b), c, turns=turns, shared={"log": Shared([], merge="append")}, **how)

    going_on = society(on_error="continue")
    result = run(going_on.run, 2)
    assert (result.outcome, result.metrics.failed_ticks) == ("finished", 1)
    assert result.shared["log"] == ["a", "c", "never"]
    failed = going_on.trace.where(kind="failed")
    assert [(event.agent, event.round, event.error) for event in failed] == [("b", 1, "RuntimeError: rate limit")]
    assert failed[0].where.startswith("test_societies.py:")

    stopping = society()
    result = run(stopping.run, 2)
    assert (result.outcome, result.rounds, result.shared["log"]) == ("failed", 1, ["a", "c"])
    assert "b in round 1: RuntimeError: rate limit (test_societies.py:" in result.reason
    result = run(stopping.run, 2)
    assert (result.outcome, result.rounds) == ("finished", 2)


def test_with_retire_an_agent_that_failed_leaves() -> None:
    def ada(tick: Any) -> None:
        raise ValueError

    society = town(ada, idle, on_error="retire")
    assert run(society.run, 3).metrics.failed_ticks == 1
    assert [agent.retired for agent in society.agents] == [True, False]


# ── events (R17) ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turns", [False, True])
def test_events_count_before_anyone_looks_and_the_world_is_a_writer(turns: bool) -> None:
    def ada(tick: Any) -> None:
        tick.note(f"{tick.shared['window']} {[(message.sender, message.kind) for message in tick.inbox]}")

    society = town(
        ada,
        turns=turns,
        shared={"window": Shared("closed", writers=["world"])},
        events=[
            {"round": 2, "share": {"window": "open"}},
            {"round": 2, "send": {"to": "ada", "kind": "hint", "body": {"n": 1}}},
        ],
    )
    run(society.run, 3)
    assert notes(society) == ["closed []", "open [('world', 'hint')]", "open []"]
    assert society.versions["window"] == 1
    assert [event.get("share") for event in society.trace.where(kind="event")] == [{"window": "open"}, None]


def test_only_writers_write_and_only_readers_read() -> None:
    def ada(tick: Any) -> None:
        for attempt in (lambda: tick.share("k", 1), lambda: tick.shared["secret"]):
            try:
                attempt()
            except SocietyError as error:
                tick.note(type(error).__name__)
        tick.note(",".join(tick.shared))

    shared = {"k": Shared(0, writers=["bob"]), "secret": Shared(0, readers=["bob"])}
    society = town(ada, Agent("bob", lambda tick: tick.share("k", tick.shared["secret"])), shared=shared)
    assert run(society.run, 1).outcome == "finished"
    assert notes(society) == ["SharedRefused", "SharedRefused", "k"]


# ── births and deaths (R13) ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turns", [False, True])
def test_the_newborn_stand_behind_all_others_and_can_be_written_to_from_the_next_round_on(turns: bool) -> None:
    def parent(tick: Any) -> None:
        if tick.round == 1:
            tick.spawn(Agent("kid", kid, state={"n": 1}, group="kids"))
            with pytest.raises(UnknownRecipient):
                tick.send("kid", "too early")
        elif tick.round == 2:
            tick.send("kid", "hello")

    def kid(tick: Any) -> None:
        tick.note(f"{tick.group} {tick.state['n']} {len(tick.inbox)}")

    society = town(parent, Agent("bob", idle), turns=turns)
    run(society.run, 3)
    assert [agent.name for agent in society.agents] == ["parent", "bob", "kid"]
    assert notes(society) == (["kids 1 1", "kids 1 0"] if turns else ["kids 1 0", "kids 1 1"])
    assert society.metrics.births == 1


def test_of_two_births_with_one_name_the_first_in_order_counts_and_the_other_is_told() -> None:
    def parent(tick: Any) -> None:
        if tick.round == 1:
            tick.spawn(Agent("kid", idle, state={"of": tick.agent}))
        for receipt in tick.receipts:
            tick.note(f"{receipt.recipient} {receipt.reason} {receipt.message}")

    society = town(Agent("ada", parent), Agent("bob", parent))
    run(society.run, 2)
    assert society.agents["kid"].state == {"of": "ada"}
    assert notes(society, "bob") == ["kid name taken None"] and not notes(society, "ada")
    assert [event.sender for event in society.trace.where(kind="refused")] == ["bob"]


def test_a_name_is_never_used_again() -> None:
    def ada(tick: Any) -> None:
        if tick.round == 2:
            tick.spawn(Agent("bob", idle))

    result = run(town(ada, Agent("bob", doing(lambda tick: tick.retire()))).run, 3)
    assert result.outcome == "failed" and "names are never used again" in result.reason


def test_a_birth_that_observes_what_nobody_has_fails_its_parent_and_no_one_else() -> None:
    def ada(tick: Any) -> None:
        tick.spawn(Agent("kid", idle, observe=["nothing"]))

    society = town(ada, Agent("bob", lambda tick: tick.note("well")), on_error="continue")
    result = run(society.run, 1)
    assert (result.outcome, result.metrics.failed_ticks, notes(society)) == ("finished", 1, ["well"])


def test_a_child_reaches_what_its_parent_reaches_where_hosts_are_given_by_name() -> None:
    host = AsyncHost()

    @host.sensor("door", thread=False)
    def door() -> str:
        return "shut"

    def ada(tick: Any) -> None:
        if tick.round == 1:
            tick.spawn(Agent("kid", lambda tick: tick.note(tick.observed["door"]), observe=["door"]))

    society = town(ada, Agent("bob", idle), hosts={"ada": host})
    result = run(society.run, 2)
    assert (result.outcome, notes(society)) == ("finished", ["shut"])


def test_a_birth_inside_a_sub_agent_that_failed_is_forgotten() -> None:
    host = AsyncHost()

    @host.subagent("midwife")
    async def midwife(tick: Any, payload: Any) -> None:
        tick.spawn(Agent("kid", lambda tick: tick.note("changeling")))
        raise ValueError

    async def ada(tick: Any) -> None:
        if tick.round == 1:
            with pytest.raises(ToolFailed):
                await tick.delegate("midwife")
            tick.spawn(Agent("kid", lambda tick: tick.note("kid")))

    society = town(ada, hosts=host)
    run(society.run, 2)
    assert notes(society) == ["kid"]


@pytest.mark.parametrize("turns", [False, True])
def test_a_message_to_one_who_left_comes_back_to_its_sender(turns: bool) -> None:
    def ada(tick: Any) -> None:
        tick.note(str([(receipt.recipient, receipt.reason) for receipt in tick.receipts]))
        if tick.round < 3:
            tick.send("bob", "x")

    society = town(ada, Agent("bob", doing(lambda tick: tick.retire())), turns=turns)
    metrics = run(society.run, 4).metrics
    one = [("bob", "retired")]
    # In turn bob reads the first message before it leaves.
    assert notes(society) == list(map(str, [[], [], one, []] if turns else [[], one, one, []]))
    assert metrics.messages_undelivered == (1 if turns else 2)


# ── what did not end well (R4) ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["raises", "late"])
@pytest.mark.parametrize("turns", [False, True])
def test_effects_of_a_tick_that_did_not_end_well_are_told_until_one_ends_well(how: str, turns: bool) -> None:
    host = AsyncHost()

    @host.tool("pay")
    async def pay(eur: int) -> str:
        return f"paid {eur}"

    async def ada(tick: Any) -> None:
        tick.note(str([(action.tool, action.ending, action.result, action.round) for action in tick.stranded]))
        if tick.round <= 2:
            await tick.call("pay", eur=tick.round)
            tick.share("k", 1)
            if how == "raises":
                raise ValueError
            await trio.sleep(100)

    society = town(ada, turns=turns, hosts=host, shared={"k": 0}, on_error="continue", limits=Limits(round_timeout=5))
    run(society.run, 4)
    both = [("pay", "done", "paid 1", 1), ("pay", "done", "paid 2", 2)]
    assert notes(society) == [str(both), "[]"]
    assert kinds(society, "ada", 1) == ["action", "failed" if how == "raises" else "late"]
    assert society.versions["k"] == 0


def test_a_tick_that_swallows_its_cancellation_is_late_all_the_same() -> None:
    """R12."""

    async def ada(tick: Any) -> None:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(100)
        tick.share("k", 1)

    society = town(ada, Agent("bob", lambda tick: tick.share("k", 2)), shared={"k": 0}, limits=Limits(round_timeout=5))
    result = run(society.run, 1)
    assert (result.outcome, result.shared["k"], result.metrics.late_ticks) == ("finished", 2, 1)


def test_in_turn_those_behind_a_late_one_are_late_without_having_begun() -> None:
    async def ada(tick: Any) -> None:
        await trio.sleep(100)

    society = town(ada, Agent("bob", lambda tick: tick.note("never")), turns=True, limits=Limits(round_timeout=5))
    run(society.run, 1)
    assert [(event.agent, event.waiting_for) for event in society.trace.where(kind="late")] == [
        ("ada", None),
        ("bob", "its turn"),
    ]


# ── cancellation (J10) ──────────────────────────────────────────────────────────────────────────────────────────────────


def sleeping_town() -> AsyncSociety:
    host = AsyncHost()

    @host.tool("sleep")
    async def sleep() -> None:
        await trio.sleep(100)

    async def ada(tick: Any) -> None:
        if tick.round == 2:
            await tick.call("sleep")

    return town(ada, Agent("bob", lambda tick: tick.note("here")), hosts=host)


def test_cancel_ends_the_run_as_cancelled_and_it_can_go_on() -> None:
    society = sleeping_town()

    async def main() -> Any:
        async with trio.open_nursery() as nursery:

            async def cancel_soon() -> None:
                await trio.sleep(5)
                society.cancel()

            nursery.start_soon(cancel_soon)
            return await society.run(3)

    result = run(main)
    assert (result.outcome, result.rounds, society.trace.end.outcome) == ("cancelled", 1, "cancelled")
    # The call was in flight: going on, its effect is in doubt and is not repeated.
    result = run(society.run, 3)
    assert (result.outcome, result.rounds) == ("failed", 2) and "ActionInDoubt" in result.reason
    assert [action.tool for action in result.in_doubt] == ["sleep"]


def test_a_cancellation_from_around_travels_on() -> None:
    society = sleeping_town()

    async def main() -> bool:
        with trio.move_on_after(5) as scope:
            await society.run(3)
        return scope.cancelled_caught

    assert run(main)
    assert society.round == 1


def test_a_society_runs_once_at_a_time() -> None:
    society = sleeping_town()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(society.run, 3)
            await trio.sleep(1)
            with pytest.raises(SocietyError, match="running already"):
                await society.run(3)
            nursery.cancel_scope.cancel()

    run(main)


# ── seen from outside ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_measures_are_taken_after_each_barrier_round_zero_included() -> None:
    society = town(
        Agent("ada", lambda tick: tick.share("n", 2)),
        Agent("bob", idle),
        shared={"n": Shared(0, merge="sum")},
        measures={
            "n": lambda view: view.shared["n"],
            "each": lambda view: {agent.name: view.round for agent in view.agents},
        },
    )
    result = run(society.run, 2)
    assert result.measures == {"n": [0, 2, 4], "each": [{"ada": n, "bob": n} for n in range(3)]}
    assert [(event.round, event.agent, event.value) for event in society.trace.where(kind="measure")][:4] == [
        (0, None, 0),
        (0, "ada", 0),
        (0, "bob", 0),
        (1, None, 2),
    ]


def test_metrics_count_and_are_the_same_in_every_run() -> None:
    host = AsyncHost()
    host.tool("t", thread=False)(lambda: 1)
    host.sensor("s", thread=False)(lambda: 1)

    async def ada(tick: Any) -> None:
        await tick.read("s")
        await tick.call("t")
        await tick.ask_human("why?")
        tick.broadcast("x")
        tick.share("k", 1)

    def metrics() -> dict[str, int]:
        society = town(ada, Agent("bob", ada), Agent("cyd", idle), hosts=host, shared={"k": 0})
        return {name: n for name, n in run(society.run, 2).metrics.items() if n}

    assert (
        metrics()
        == metrics()
        == {
            "rounds": 2,
            "ticks": 6,
            "reads": 4,
            "tool_calls": 4,
            "questions": 4,
            "messages_sent": 8,
            "messages_delivered": 8,
            "messages_read": 4,
            "shared_writes": 4,
            "shared_conflicts": 2,
        }
    )


def test_views_show_agents_between_rounds_and_nothing_of_them_can_be_changed() -> None:
    def ada(tick: Any) -> None:
        tick.state["n"] = [1]
        tick.public["mood"] = "calm"
        tick.send("bob", "x", n=1)

    society = town(Agent("ada", ada, group="g", index=3), Agent("bob", idle))
    run(society.tick)
    ada_view = society.agents["ada"]
    assert (ada_view.group, ada_view.index, ada_view.state, ada_view.public) == ("g", 3, {"n": [1]}, {"mood": "calm"})
    assert [message.body for message in society.agents[1].inbox] == [{"n": 1}]
    with pytest.raises(TypeError):
        ada_view.state["n"].append(2)


def test_one_agent_alone_runs_in_a_runtime() -> None:
    runtime = AsyncRuntime(Agent("ada", lambda tick: tick.note("here")))
    assert run(runtime.run, 2).rounds == 2
    assert len(runtime.trace.where(kind="note")) == 2


@pytest.mark.parametrize("turns", [False, True])
def test_the_two_meanings_of_a_round(turns: bool) -> None:
    """P44: a := b and b := a."""
    society = town(
        Agent("A", lambda tick: [tick.share("a", tick.shared["b"]), tick.send("B", "hi")]),
        Agent("B", lambda tick: [tick.share("b", tick.shared["a"]), tick.note(str(len(tick.inbox)))]),
        turns=turns,
        shared={"a": 1, "b": 2},
    )
    result = run(society.run, 1)
    assert dict(result.shared) == ({"a": 2, "b": 2} if turns else {"a": 2, "b": 1})
    assert notes(society) == ["1" if turns else "0"]


def test_a_newcomer_moves_nobody_else_in_a_shuffled_society() -> None:
    def order(*names: str) -> list[list[str]]:
        society = Society(
            [Agent(name, lambda tick: tick.note("here")) for name in names], activation="shuffled", seed=3
        )
        run(society.run, 4)
        return [[event.agent for event in society.trace.where(kind="note", round=n)] for n in range(1, 5)]

    few, many = order("a", "b", "c"), order("new", "a", "b", "c")
    assert few == [[name for name in names if name != "new"] for names in many]
    assert len(set(map(tuple, few))) > 1


def test_a_round_that_cannot_be_merged_still_tells_what_its_tools_did() -> None:
    """C1, J4: nothing of the round is applied, but an effect in doubt is in doubt."""
    host = AsyncHost()

    @host.tool("pay")
    async def pay() -> None:
        await trio.sleep(100)

    async def ada(tick: Any) -> None:
        tick.share("once", 1)
        with contextlib.suppress(ActionInDoubt):
            await tick.call("pay")

    def bob(tick: Any) -> None:
        tick.share("once", 2)

    society = town(ada, bob, hosts=host, shared={"once": Shared(0, merge="error")}, limits=Limits(tool_timeout=1))
    result = run(society.run, 3)
    assert (result.outcome, result.rounds, result.shared["once"]) == ("conflict", 0, 0)
    assert [action.tool for action in result.in_doubt] == ["pay"]
    assert (result.metrics.tool_calls, result.metrics.timeouts, result.metrics.in_doubt) == (1, 1, 1)


def test_a_late_tick_does_not_retire_its_agent() -> None:
    """R11, R12: late is not failed."""

    async def ada(tick: Any) -> None:
        await trio.sleep(100 if tick.round == 1 else 0)

    society = town(ada, on_error="retire", limits=Limits(round_timeout=1))
    result = run(society.run, 2)
    assert (result.rounds, result.metrics.late_ticks, result.metrics.retired) == (2, 1, 0)


def test_until_counts_whatever_python_takes_for_true() -> None:
    society = town(idle, until=lambda view: view.round)
    assert run(society.run, 5).outcome == "satisfied"


def test_a_measure_that_raises_is_told_with_its_line_and_counts_for_nothing() -> None:
    def broken(view: Any) -> float:
        return 1 / (1 - view.round)

    society = town(idle, measures={"round": lambda view: view.round, "broken": broken})
    with pytest.raises(
        ScenarioError, match=r"measures\.broken, after round 1: ZeroDivisionError: .*test_societies\.py"
    ):
        run(society.run, 3)
    assert society.measures["round"] == [0]


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_a_function_of_the_scenario_that_exits_has_failed_and_the_process_lives(kind: type[BaseException]) -> None:
    def exits(*given: Any) -> Any:
        raise kind(0)

    async def calls(tick: Any) -> None:
        with pytest.raises(ActionDenied, match=f"the condition raised {kind.__name__}"):
            await tick.call("t")

    for options in ({"until": exits}, {"measures": {"m": exits}}):
        with pytest.raises(ScenarioError, match=f"{kind.__name__}: 0 .*test_societies"):
            run(town(idle, **options).run, 1)  # type: ignore[arg-type]
    folds = town(lambda tick: tick.share("key", 1), shared={"key": Shared(0, merge=exits)})
    result = run(folds.run, 1)
    assert result.outcome == "conflict" and f"exits raised {kind.__name__}: 0" in result.reason
    host = AsyncHost()
    host.tool("t", thread=False)(lambda: None)
    result = run(town(calls, hosts=host, policy=Policy(never("t", exits))).run, 1)
    assert result.outcome == "finished"


def test_a_thread_that_was_given_up_keeps_its_place_in_the_next_call_of_run() -> None:
    """B4, across calls: what comes back between two of them is proof in the second."""
    host, gate = AsyncHost(), threading.Event()

    @host.tool("block", timeout=0.05)
    def block() -> str:
        gate.wait(10)
        return "done after all"

    async def ada(tick: Any) -> None:
        with contextlib.suppress(ActionInDoubt, ToolFailed):
            await tick.call("block")

    async def quiet(tick: Any) -> None:
        await (ada(tick) if tick.round < 3 else trio.lowlevel.checkpoint())

    society = town(quiet, hosts=host, limits=Limits(max_concurrent_tools=1))
    trio.run(society.tick)
    trio.run(society.tick)
    assert [event.ending for event in society.trace.where(kind="action")] == ["in_doubt", "not_executed"]
    gate.set()
    while not society.boundaries.tools._unheard:
        time.sleep(0.01)  # a real thread: there is nothing else to wait on
    trio.run(society.tick)
    assert [event.result for event in society.trace.where(kind="settled")] == ["done after all"]
    assert not society.state.doubts
