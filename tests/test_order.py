"""The large laws: whatever the schedule, one trace; nothing is lost, nothing is counted twice, nobody looks ahead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schedules import Delays, run
from societies import Plan, drawn_plan, keeping, planned, plans, refolded

from society import AsyncSociety

LAW = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
schedules = st.integers(0, 10_000)


def ran(plan: Plan, schedule: int, turns: str | None = None) -> tuple[AsyncSociety, Any]:
    """Run the society of a plan under a schedule; return it with its records."""
    town = planned(plan, schedule, turns=turns)
    journal = keeping(town, Delays(schedule + 1))
    run(town.run, plan.rounds, schedule=schedule)
    return town, journal


@pytest.mark.parametrize("turns", [None, "shuffled"])
def test_two_hundred_schedules_of_a_random_society_give_one_trace(turns: str | None) -> None:
    plan = drawn_plan(4)
    digests = {ran(plan, schedule, turns)[0].trace.digest for schedule in range(200 if turns is None else 20)}
    assert len(digests) == 1


@pytest.mark.parametrize("number", range(12))
def test_many_random_societies_have_one_trace_each(number: int) -> None:
    plan = drawn_plan(100 + number)
    assert len({ran(plan, schedule)[0].trace.digest for schedule in range(10)}) == 1


@settings(LAW, max_examples=250)
@given(plan=plans, schedule=schedules, other=schedules)
def test_a_synchronized_society_has_one_trace_and_loses_nothing(plan: Plan, schedule: int, other: int) -> None:
    holds(plan, schedule, other, None)


@settings(LAW, max_examples=150)
@given(plan=plans, schedule=schedules, other=schedules, turns=st.sampled_from(["sequential", "shuffled"]))
def test_a_society_in_turn_has_one_trace_and_loses_nothing(plan: Plan, schedule: int, other: int, turns: str) -> None:
    holds(plan, schedule, other, turns)


def holds(plan: Plan, schedule: int, other: int, turns: str | None) -> None:
    town, journal = ran(plan, schedule, turns)
    again, _ = ran(plan, other, turns)
    assert again.trace.data == town.trace.data
    assert_nobody_looked_ahead(town)
    assert_messages_add_up(town)
    assert_versions_count_contributions(town)
    assert_records_tell_the_same(town, journal)


def assert_nobody_looked_ahead(town: AsyncSociety) -> None:
    assert not [event.error for event in town.trace.where(kind="failed") if "Violation" in event.error]


def assert_messages_add_up(town: AsyncSociety) -> None:
    """Sent = read + refused + undelivered + in flight."""
    metrics = town.metrics
    in_flight = sum(len(agent.inbox) for agent in town.agents)
    assert metrics.messages_sent == (
        metrics.messages_read + metrics.messages_refused + metrics.messages_undelivered + in_flight
    )
    if town.trace.end.outcome != "conflict":
        assert metrics.messages_refused == sum(event.message is not None for event in town.trace.where(kind="refused"))
        assert metrics.messages_undelivered == len(town.trace.where(kind="undelivered"))


def assert_versions_count_contributions(town: AsyncSociety) -> None:
    """A key's version is the number of contributions to it, kept or lost."""
    applied = [event for event in town.trace.events if event.round <= town.round]
    for key, version in town.versions.items():
        shares = sum(event.kind == "share" and event.key == key for event in applied)
        outside = sum(event.kind == "event" and key in event.get("share", {}) for event in applied)
        assert version == shares + outside, key


def assert_records_tell_the_same(town: AsyncSociety, journal: Any) -> None:
    """The records, read from their bytes and folded without the code, give the same state and the same trace."""
    state, told = refolded(journal.records())
    assert state == town.state
    assert told == town.trace.data
