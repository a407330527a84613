"""Records told again: without code, clock or network they give the bytes that the live run told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schedules import run
from societies import Plan, drawn_plan, planned, plans

import society.survival
from society import Agent, AsyncHost, AsyncSociety, MemoryStore, Shared
from society.declare import declared
from society.records import Barrier, Crossing, End, Start
from society.reruns import fork
from society.retelling import failure_was_passed, forked_events, retold, rounds
from society.testing.failing_store import Crash, FailingStore


def lived(plan: Plan, turns: str | None, schedule: int = 3) -> tuple[AsyncSociety, list[Any], bytes]:
    """Return a society that ran with a store, its records, and the trace that it told while it ran."""
    town = planned(plan, schedule, turns=turns)
    town.store = MemoryStore()
    result = run(town.run, plan.rounds, schedule=schedule)
    return town, list(town.store.read().records()), result.trace.data


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(plan=plans, turns=st.sampled_from([None, "sequential", "shuffled", "random"]))
def test_records_tell_what_the_live_run_told(plan: Plan, turns: str | None) -> None:
    """J9."""
    town, records, trace = lived(plan, turns)

    told = retold(records)

    assert told.data == trace
    assert dict(told.state.shared) == dict(town.state.shared)
    assert told.state.counts == town.state.counts
    assert told.state.round == town.state.round
    assert told.open == ()


def test_between_agents_the_order_of_crossings_in_the_file_means_nothing() -> None:
    """J2: within a tick, records of one crossing stand in their order."""
    _, records, trace = lived(drawn_plan(12), None)
    turned: list[Any] = []
    open_round: list[Any] = []
    for record in records:
        if isinstance(record, Crossing):
            open_round.append(record)
        else:
            turned += sorted(open_round, key=lambda one: (one.agent, one.tick), reverse=True)
            turned.append(record)
            open_round = []

    assert [id(record) for record in turned] != [id(record) for record in records]
    assert retold(turned).data == trace


def test_a_journal_that_ends_anywhere_tells_a_beginning_of_the_whole_trace() -> None:
    _, records, trace = lived(drawn_plan(12), "sequential")
    whole = trace.split(b"\n")
    for count in range(1, len(records)):
        told = retold(records[:count])
        assert told.end is None
        assert whole[: told.data.count(b"\n")] == told.data.split(b"\n")[:-1]
        barriers = sum(isinstance(record, Barrier) for record in records[:count])
        assert told.state.round == barriers
        assert all(isinstance(record, Crossing) for record in told.open)


def test_checkpoints_and_ends_in_between_are_not_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 0)
    plan = drawn_plan(12)
    store = MemoryStore()
    for ticks in (1, 2, 3):
        town = planned(plan, ticks)
        town.store = store
        run(town.run, ticks)
    records = list(store.read().records())

    assert sum(isinstance(record, End) for record in records) == 3
    assert retold(records).data == lived(plan, None)[2]


def test_what_functions_merged_is_told_without_them() -> None:
    def doubled(value: Any, contribution: Any) -> Any:
        return value * 2 + contribution

    store = MemoryStore()
    town = AsyncSociety(
        [Agent(name, lambda tick: tick.share("k", tick.round)) for name in ("ada", "bob")],
        shared={"k": Shared(1, doubled)},
        store=store,
    )
    told = run(town.run, 4)

    again = retold(list(store.read().records()))
    assert (again.data, again.state.shared["k"]) == (told.trace.data, told.shared["k"])


def test_each_round_is_yielded_with_the_state_before_it_and_the_open_one_as_its_records() -> None:
    host = AsyncHost()
    host.tool("pay", thread=False)(lambda: 1)

    async def ada(tick: Any) -> None:
        tick.share("n", await tick.call("pay"))

    store = MemoryStore()
    town = AsyncSociety(
        [Agent("ada", ada)], hosts=host, shared={"n": Shared(0, "sum")}, store=FailingStore(8, store=store)
    )
    with pytest.raises(Crash):
        run(town.run, 5)
    records = list(store.read().records())
    assert isinstance(records[0], Start)
    terms, state = declared(records[0])

    *closed, left = rounds(records, terms, state)

    assert [step.before.shared["n"] for step in closed] == [0, 1]
    assert [step.closed.after.shared["n"] for step in closed] == [1, 2]
    assert [type(record).__name__ for record in left] == ["Intent"]


def test_a_failure_is_passed_once_the_run_ended_with_it() -> None:
    failed, cancelled = End(outcome="failed"), End(outcome="cancelled")
    barrier = Barrier(round=1, ticks=[])

    assert not failure_was_passed([barrier])
    assert failure_was_passed([barrier, failed])
    assert failure_was_passed([barrier, failed, cancelled])
    assert not failure_was_passed([barrier, cancelled])
    assert not failure_was_passed([barrier, failed, barrier])


def test_what_forks_changed_are_events_of_the_rounds_behind_them() -> None:
    store = MemoryStore()
    town = AsyncSociety([Agent("ada", lambda tick: None)], shared={"n": 0}, store=store)
    run(town.run, 3)
    twice = fork(fork(store, 3, set={"n": 1}), 2, set={"n": 2})

    assert forked_events(twice.read().records()) == {3: [{"set": {"n": 2}}]}
