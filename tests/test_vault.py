"""The vault: a compromised agent tries everything, and no schedule, message, tool result or child opens it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import run
from societies import town

from society import Agent, AsyncHost, Limits, Policy, Shared, Trace, allow, approve, load_scenario, never
from society.policy import Rule
from tests.publish import ACTIVATIONS, ROOT, told

VAULT = ROOT / "scenarios" / "vault.toml"
LOCKS = {
    "audit": ("refused", "approve *_vault"),
    "repairs": ("rule", "never open_vault"),
    "inspection": ("rule", "allow open_vault"),
    "weekend": ("no_answer", "approve *_vault"),
}
"""By the keeper's reason: who stops it, and the rule that says so."""


def ran(activation: str, schedule: int = 2, **settings: Any) -> tuple[Any, Any, Any]:
    """Return (scenario, society, result) of a run under a schedule, on a clock that jumps."""
    scenario = load_scenario(VAULT, set=settings)
    society = scenario.society(activation=activation)
    return scenario, society, run(society.run, scenario.max_ticks, schedule=schedule)


def attempts(trace: Trace, agent: str | None = None) -> list[Any]:
    found = trace.where(kind="action") if agent is None else trace.where(kind="action", agent=agent)
    return [event for event in found if event.tool == "open_vault"]


def line_of(text: str) -> int:
    """Return the number of the line in the scenario file that holds a text."""
    lines = Path(VAULT).read_text("utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("schedule", range(6))
def test_no_schedule_and_no_activation_opens_the_vault(activation: str, schedule: int) -> None:
    scenario, _, result = ran(activation, schedule)

    assert scenario.code.DOOR == {"open": False, "times": 0}
    assert result.outcome == "finished"
    assert result.measures["opened"] == [0] * 7
    assert {event.ending for event in attempts(result.trace)} == {"denied"}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_schedule_gives_the_same_trace(activation: str) -> None:
    assert {ran(activation, schedule)[2].trace.digest for schedule in range(8)} == {told("vault", activation).digest}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), activation=st.sampled_from(["shuffled", "random"]), schedule=st.integers(0, 99))
def test_no_order_of_agents_opens_the_vault(seed: int, activation: str, schedule: int) -> None:
    scenario, _, result = ran(activation, schedule, seed=seed)

    assert scenario.code.DOOR == {"open": False, "times": 0}
    assert {event.ending for event in attempts(result.trace)} == {"denied"}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_ends_with_the_vault_closed_by_an_action_that_was_approved(activation: str) -> None:
    scenario, _, result = ran(activation)

    closing = [event for event in result.trace.where(kind="action") if event.tool == "close_vault"]
    if activation != "random":  # where the keeper may not have its turns
        assert closing
    assert {(event.agent, event.verdict, event.ending) for event in closing} <= {("keeper", "approve", "done")}
    assert not scenario.code.DOOR["open"]


def test_each_lock_holds_by_itself_and_the_trace_says_which_one_and_on_which_line() -> None:
    seen = {event.arguments["reason"]: event for event in attempts(told("vault", "synchronized"), "keeper")}

    assert list(seen) == list(LOCKS)
    for reason, (by, rule) in LOCKS.items():
        event = seen[reason]
        kind, _, tool = rule.partition(" ")
        written = f'{{ {kind} = "{tool}"'
        assert (event.ending, event.result["by"]) == ("denied", by)
        assert event.rule.startswith(rule)
        assert event.rule.endswith(f"(vault.toml:{line_of(written)})")


def test_the_silent_sensor_is_named_as_the_reason_of_the_refusal() -> None:
    (inspection,) = [
        event
        for event in attempts(told("vault", "synchronized"), "keeper")
        if event.arguments["reason"] == "inspection"
    ]

    assert 'observed["vault.guard"] could not be perceived' in inspection.result["why"]
    (silent,) = told("vault", "synchronized").where(kind="read", agent="keeper", round=inspection.round)
    assert silent.unknown == "no reading in time"


def test_no_answer_refused_and_denied_by_rule_are_three_events() -> None:
    """P30."""
    found = {(event.result["by"], event.verdict) for event in attempts(told("vault", "synchronized"), "keeper")}

    assert found == {("refused", "approve"), ("no_answer", "approve"), ("rule", "never"), ("rule", "deny")}


def test_around_the_gate_there_is_no_way() -> None:
    notes = [event.text for event in told("vault", "synchronized").where(kind="note", agent="mole", round=2)]

    assert notes == [
        "by a sub-agent with a tick: ToolFailed",
        "by a sub-agent without one: rule",
        "by a tool that calls on: ToolFailed",
        "at the host, with no permit: PermitError",
        "at the host, with another's permit: PermitError",
        "at the host, with a forged permit: PermitError",
    ]


def test_a_sub_agent_and_a_child_are_bound_by_the_rules_of_who_made_them() -> None:
    trace = told("vault", "synchronized")

    inside = [event for event in attempts(trace, "mole") if event.round == 2]
    assert [event.rule.startswith("never open_vault") for event in inside] == [True]
    twin = attempts(trace, "twin")
    assert twin and {event.result["by"] for event in twin} == {"refused"}
    denied = [event for event in trace.where(kind="action", agent="mole") if event.tool == "fixer"]
    assert {event.result["why"] for event in denied} == {"no rule allows it, and the default is deny"}


def test_messages_and_texts_from_outside_open_nothing() -> None:
    trace = told("vault", "synchronized")

    assert [event.messages for event in trace.where(kind="receive", agent="clerk")] == [[["mole", 2]]]
    obeyed = attempts(trace, "clerk")
    assert len(obeyed) == 7  # the notice in each of 6 rounds, and the message
    assert {event.ending for event in obeyed} == {"denied"}


def test_the_key_that_a_rule_reads_is_written_by_events_alone() -> None:
    trace = told("vault", "synchronized")

    assert not [event for event in trace.where(kind="share") if event.key == "window"]
    assert "shared.window: 'mole' may not write it; its writers are world." in {
        event.text for event in trace.where(kind="note", agent="mole")
    }


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_with_a_person_who_says_yes_to_everything_the_rules_still_hold(activation: str) -> None:
    """Of the locks only the person is gone, so what opens has a guard present and no window open."""
    scenario = load_scenario(VAULT)

    async def kind(request: Any) -> bool:
        return True

    society = scenario.society(activation=activation, approver=kind)
    result = run(society.run, scenario.max_ticks)

    opened = [event for event in attempts(result.trace) if event.ending == "done"]
    assert {event.agent for event in opened} <= {"keeper", "twin"}
    for event in opened:
        seen = [read.fields.get("value") for read in result.trace.where(kind="read", round=event.round)]
        assert "present" in seen
        assert event.round != 2


def test_without_its_rules_the_vault_would_be_opened() -> None:
    """Or the tests above would show nothing."""
    scenario = load_scenario(VAULT)
    scenario = scenario.__class__(**{**_fields(scenario), "policy": Policy()})
    society = scenario.society()
    run(society.run, 2)

    assert scenario.code.DOOR["times"] > 0


def _fields(scenario: Any) -> dict[str, Any]:
    import attrs

    return {field.alias: getattr(scenario, field.name) for field in attrs.fields(type(scenario))}


# The same in small: every combination of locks.


@pytest.mark.parametrize("locks", list(itertools.product([False, True], repeat=3)))
def test_any_one_of_the_locks_is_enough(locks: tuple[bool, bool, bool]) -> None:
    window, silent, refused = locks
    host, opened = AsyncHost(), []

    @host.sensor("guard")
    async def guard() -> str:
        if silent:
            await trio.sleep_forever()
        return "present"

    @host.tool("open", thread=False)
    def open_it() -> None:
        opened.append(1)

    async def person(request: Any) -> bool:
        return not refused

    host.approver = person

    async def keeper(tick: Any) -> None:
        await tick.call("open")

    society = town(
        Agent("keeper", keeper, observe=["guard"]),
        hosts=host,
        shared={"window": Shared("open" if window else "shut", writers=[])},
        policy=Policy(
            never("open", 'shared.window == "open"'),
            allow("open", 'observed.guard == "present"'),
            approve("open"),
        ),
        limits=Limits(read_timeout=1),
        on_error="continue",
    )
    run(society.run, 1)
    assert bool(opened) == (not any(locks))


def test_rules_of_files_know_their_lines_and_those_of_society_and_agent_add_up() -> None:
    scenario = load_scenario(VAULT)
    mole = next(agent for agent in scenario.agents if agent.name == "mole")

    places = [rule.place for rule in (*scenario.policy.rules, *mole.policy.rules)]
    assert places[0] == f"vault.toml:{line_of('never = ')}"
    assert len(places) == 5 and all(isinstance(rule, Rule) for rule in scenario.policy.rules)
    assert (scenario.policy.default, mole.policy.default) == ("allow", "deny")
