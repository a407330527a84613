"""Checkpoints: a state that was written down is the state that is read."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from schedules import run
from societies import Plan, drawn_plan, keeping, planned, plans

from society import Agent, AsyncSociety, Limits, Shared
from society.checkpoint import checkpoint, state_at
from society.codec import ORIGIN, encode, scan
from society.state import State


def written_and_read(state: State, past: Any = None) -> State:
    """Return the state after a way through the journal's bytes."""
    line = encode(checkpoint(state, past or {}), ORIGIN, begins_batch=True)
    return state_at(next(scan(line).records()))


def told(state: State) -> dict[str, Any]:
    """Return all of a state, with the order of what has one."""
    fields = attrs.asdict(state, recurse=False)
    for name in ("shared", "versions", "memories", "publics"):
        fields[name] = dict(sorted(fields[name].items()))
    fields["retired"] = sorted(state.retired)
    fields["inboxes"] = {name: list(box) for name, box in state.inboxes.items()}
    fields["receipts"] = {name: list(heard) for name, heard in state.receipts.items()}
    return {name: repr(value) for name, value in fields.items()}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(plan=plans)
def test_the_state_after_any_round_is_read_as_it_was_written(plan: Plan) -> None:
    town = planned(plan, 1)
    keeping(town)
    run(town.run, plan.rounds)

    assert told(written_and_read(town.state)) == told(town.state)


@pytest.mark.parametrize("number", range(5))
def test_a_run_goes_on_from_a_state_that_was_read_as_from_the_one_that_was_lived(number: int) -> None:
    plan = drawn_plan(number)
    lived = planned(plan, 1)
    run(lived.run, 2)
    town = planned(plan, 2)
    run(town.run, 2)
    town.state = written_and_read(town.state)

    assert run(town.run, 3).trace == run(lived.run, 3).trace


def test_types_of_values_are_kept() -> None:
    """P56: 1.0 stays 1.0, True stays True, whatever stands beside it."""
    values = {"float": 1.0, "int": 1, "true": True, "none": None, "minus": -0.0, "list": [1, 1.0, True, {"a": []}]}
    town = AsyncSociety([Agent("ada", lambda tick: None, state=values, public=values)], shared=values)

    read = written_and_read(town.state)

    for found in (read.shared, read.memories["ada"], read.publics["ada"]):
        assert repr(dict(found)) == repr({key: found[key] for key in found})
        assert {key: repr(value) for key, value in found.items()} == {key: repr(value) for key, value in values.items()}
    with pytest.raises(TypeError):
        read.shared["list"].append(2)
    with pytest.raises(TypeError):
        read.memories["ada"]["list"][3]["a"] = 1


def test_a_message_that_waits_in_many_inboxes_is_written_once_and_is_one_message_again() -> None:
    agents = [Agent("ada", lambda tick: tick.broadcast("news", text="x" * 1_000))]
    agents += [Agent(f"listener-{n}", lambda tick: None) for n in range(50)]
    town = AsyncSociety(agents)
    run(town.run, 1)

    record = checkpoint(town.state, {})
    read = state_at(record)

    assert len(record.messages) == 1
    assert len({id(message) for box in read.inboxes.values() for message in box}) == 1


def test_the_bytes_of_a_checkpoint_do_not_follow_the_order_in_which_maps_were_made() -> None:
    """Persistent maps have no order of their own."""

    def bytes_of(names: list[str]) -> bytes:
        agents = [Agent(f"a{n}", lambda tick: None, state={"n": n}) for n in range(40)]
        town = AsyncSociety(agents, shared={f"k{n}": n for n in range(40)})
        state = town.state
        for name in names:
            state = attrs.evolve(state, memories=state.memories.set(name, state.memories[name]))
        return encode(checkpoint(state, {}), ORIGIN, begins_batch=True)

    names = [f"a{n}" for n in range(40)]
    assert bytes_of(names) == bytes_of(names[::-1]) == bytes_of([])


def test_receipts_retirements_and_what_is_stranded_are_in_it() -> None:
    def ada(tick: Any) -> None:
        for _ in range(3):
            tick.send("bob", "x")
        if tick.round == 2:
            tick.retire()

    def bob(tick: Any) -> None:
        raise ValueError("no")

    town = AsyncSociety(
        [Agent("ada", ada), Agent("bob", bob)],
        shared={"k": Shared(0, "sum")},
        limits=Limits(inbox_capacity=1),
        on_error="continue",
    )
    run(town.run, 1)
    assert [receipt.reason for receipt in written_and_read(town.state).receipts["ada"]] == ["inbox full"] * 2
    run(town.run, 2)
    read = written_and_read(town.state)
    assert (read.live, read.retired, read.counts["failed_ticks"]) == (("bob",), {"ada"}, 2)
