"""Comparing activations (P44)."""

from __future__ import annotations

import importlib
from typing import Any

import attrs
import pytest
import trio

from society import Agent, AsyncSociety, Society, load_scenario
from society.comparing import Comparison, compare
from society.errors import ScenarioError
from society.trace import Trace
from tests.published import SCENARIOS
from tests.stories import action, event, send, trace


@attrs.frozen
class Result:
    trace: Trace
    shared: dict[str, Any]
    outcome: str = "finished"
    reason: str = ""
    rounds: int = 1
    metrics: dict[str, int] = attrs.field(factory=dict)
    measures: dict[str, list[Any]] = attrs.field(factory=dict)


@attrs.define
class Town:
    """A society whose run was told beforehand."""

    result: Result
    follower: Any = None

    async def run(self, max_ticks: int) -> Result:
        return self.result


async def compared(told: dict[str, Result], **options: Any) -> Comparison:
    return await compare(lambda activation, seed: Town(told[activation]), tuple(told), **options)


def swap() -> dict[str, Result]:
    """A writes a := b, B writes b := a; and A says hi to B."""
    a = event(1, "A", "share", key="a", value=2)
    hi = send(1, "A", "B", "hi")
    heard = event(1, "B", "receive", messages=[["A", 1]])

    def b(value: int) -> dict[str, Any]:
        return event(1, "B", "share", key="b", value=value)

    agents = ("A", "B")
    return {
        "synchronized": Result(trace(a, hi, b(1), agents=agents), {"a": 2, "b": 1}),
        "sequential": Result(trace(a, hi, b(2), agents=agents, activation="sequential"), {"a": 2, "b": 2}),
        "heard": Result(trace(a, hi, heard, b(2), agents=agents, activation="sequential"), {"a": 2, "b": 2}),
    }


@pytest.mark.trio
async def test_the_first_difference_names_round_agent_and_key_and_both_sides() -> None:
    found = await compared({name: run for name, run in swap().items() if name != "heard"})

    first = found.first_difference
    assert first is not None
    assert (first.round, first.agent, first.what, first.sides) == (1, "B", "share b", (1, 2))
    assert not found.same_shared
    assert found.same_outcome
    assert found.same_effects


@pytest.mark.trio
async def test_a_message_that_only_one_activation_has_read_by_then_is_a_difference() -> None:
    told = swap()
    found = await compared({"synchronized": told["synchronized"], "sequential": told["heard"]})

    first = found.first_difference
    assert first is not None
    assert (first.agent, first.what) == ("B", "receive")
    assert first.sides[0] is None


@pytest.mark.trio
async def test_results_stand_side_by_side() -> None:
    found = await compared({name: run for name, run in swap().items() if name != "heard"})

    rendered = found.render()

    assert ["synchronized", "sequential"] in [line.split() for line in rendered.splitlines()]
    assert ["shared.b", "1", "2"] in [line.split() for line in rendered.splitlines()]
    assert "first difference: synchronized | sequential, seed 0: round 1, B, share b, value: 1 | 2" in rendered


@pytest.mark.trio
async def test_that_ticks_stand_in_another_order_is_no_difference() -> None:
    one, other = send(1, "A", None), send(1, "B", None)
    found = await compared(
        {
            "synchronized": Result(trace(one, other), {}),
            "shuffled": Result(trace(other, one, activation="shuffled"), {}),
        }
    )

    assert found.first_difference is None
    assert "first difference: none" in found.render()


@pytest.mark.trio
async def test_effects_are_the_same_when_they_happened_in_other_rounds() -> None:
    def told(*actions: dict[str, Any]) -> Result:
        return Result(trace(*actions), {})

    early, late = action(1, "A", "page", whom="x"), action(2, "A", "page", whom="x")
    other = action(1, "A", "page", whom="y")

    assert (await compared({"synchronized": told(early), "sequential": told(late)})).same_effects
    assert not (await compared({"synchronized": told(early), "sequential": told(other)})).same_effects
    assert not (await compared({"synchronized": told(early), "sequential": told(early, late)})).same_effects


@pytest.mark.trio
async def test_over_many_seeds_it_counts_and_shows_the_first_that_differs() -> None:
    told = swap()

    def make(activation: str, seed: int) -> Town:
        return Town(told[activation if seed == 3 else "synchronized"])

    found = await compare(make, ("synchronized", "sequential"), range(5))

    assert len(found.runs) == 10
    assert [parting.seed for parting in found.partings] == [3]
    assert found.table().title == "seed 3"
    assert "the same SHARED: with 4 of 5 seeds" in found.render()


@pytest.mark.trio
async def test_a_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(ScenarioError, match="at least one"):
        await compare(lambda activation, seed: None, (), (0,))
    with pytest.raises(ScenarioError, match="at least one"):
        await compare(lambda activation, seed: None, seeds=())


@pytest.mark.trio
async def test_two_agents_that_copy_from_each_other_part_in_the_first_round() -> None:
    def to_a(tick: Any) -> None:
        tick.share("a", tick.shared["b"])

    def to_b(tick: Any) -> None:
        tick.share("b", tick.shared["a"])

    def make(activation: str, seed: int) -> AsyncSociety:
        agents, shared = [Agent("A", to_a), Agent("B", to_b)], {"a": 1, "b": 2}
        if activation == "synchronized":
            return AsyncSociety(agents, shared=shared, seed=seed)
        return Society(agents, shared=shared, seed=seed, activation=activation)

    found = await compare(make, max_ticks=1)

    assert [run.shared for run in found.runs] == [{"a": 2, "b": 1}, {"a": 2, "b": 2}]
    first = found.first_difference
    assert first is not None
    assert (first.round, first.agent, first.what, first.sides) == (1, "B", "share b", (1, 2))


@pytest.mark.trio
async def test_a_society_without_a_trace_cannot_be_compared() -> None:
    with pytest.raises(ScenarioError, match="keep_trace"):
        await compare(lambda activation, seed: AsyncSociety([Agent("A", lambda tick: None)], keep_trace=False))


def test_the_function_is_found_by_its_name_whatever_was_imported_before() -> None:
    assert importlib.import_module("society").compare is compare


# Over seeds: outcomes, durations, and what an agent had to go by.


def test_the_same_outcome_in_another_time_is_told_apart_from_another_outcome() -> None:
    def told(total: Any, rounds: int) -> Result:
        return Result(trace(), {"total": total}, rounds=rounds, measures={"m": [0, total]})

    async def verdict(*results: Result) -> str:
        found = await compared({str(number): result for number, result in enumerate(results)})
        return found.verdict(0)

    assert trio.run(verdict, told(3, 5), told(3, 5)) == "the same"
    assert trio.run(verdict, told(3, 5), told(3, 1)) == "same outcome, different duration"
    assert trio.run(verdict, told(3, 5), told(4, 5)) == "different outcome"
    assert trio.run(verdict, told(0.1 + 0.2, 5), told(0.3, 5)) == "the same"


@pytest.mark.trio
async def test_over_seeds_numbers_have_a_mean_and_a_spread() -> None:
    def make(activation: str, seed: int) -> Town:
        rounds = 5 if activation == "synchronized" else seed
        return Town(Result(trace(), {"total": seed}, rounds=rounds, measures={"size": [0, 7]}))

    found = await compare(make, ("synchronized", "sequential"), (1, 2, 3))
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in found.spread().rows}

    assert rows["outcome"] == ["finished", "finished"]
    assert rows["rounds"] == ["5", "2 ± 1"]
    assert rows["shared.total"] == ["2 ± 1", "2 ± 1"]
    assert rows["measure size"] == ["7", "7"]
    assert "same outcome, different duration: with 3 of 3 seeds" in found.render()


@pytest.mark.trio
async def test_at_the_parting_it_says_what_the_agent_had_to_go_by_and_where_that_came_from() -> None:
    def asks(tick: Any) -> None:
        tick.send("B", "ask", number=tick.round)
        tick.share("a", 10 + tick.round)

    def answers(tick: Any) -> None:
        tick.share("b", tick.shared["a"])

    def make(activation: str, seed: int) -> AsyncSociety:
        agents, shared = [Agent("A", asks), Agent("B", answers)], {"a": 1, "b": 2}
        kind = AsyncSociety if activation == "synchronized" else Society
        return kind(agents, shared=shared, seed=seed)

    found = await compare(make, max_ticks=2)
    first = found.first_difference

    assert first is not None
    assert (first.round, first.agent) == (1, "B")
    assert first.perceived == (
        ("shared.a", "not yet", "11, by A earlier in this round"),
        ("message 1 of A, sent in this round", "not yet", "{'number': 1}"),
    )
    assert "B had shared.a: not yet | 11, by A earlier in this round" in found.render()


def copying(activation: str, seed: int) -> AsyncSociety:
    """Two who copy each other, under any activation. What they show stands in no trace."""

    def copy(tick: Any) -> None:
        (other,) = tick.neighbors.values()
        tick.public["opinion"] = other["opinion"]

    agents = [Agent("A", copy, public={"opinion": 0}), Agent("B", copy, public={"opinion": 1})]
    how: dict[str, Any] = {"topology": {"A": ["B"], "B": ["A"]}, "seed": seed}
    if activation in ("synchronized", "partial"):
        return AsyncSociety(agents, activation=activation, **how, **({"rate": 0.5} if activation == "partial" else {}))
    return Society(agents, activation=activation, **how)


@pytest.mark.trio
async def test_runs_may_part_in_what_agents_show_and_it_says_what_the_agent_saw_of_others() -> None:
    found = await compare(copying, ("synchronized", "sequential"), max_ticks=3)
    first = found.first_difference

    assert first is not None
    assert (first.round, first.agent, first.what, first.sides) == (1, "B", "public opinion", (0, 1))
    assert first.perceived == (("opinion of A", "0, from the start", "1, set earlier in this round"),)
    assert "round 1, B, public opinion: 0 | 1" in found.render()


@pytest.mark.trio
async def test_it_says_that_an_agent_was_not_drawn_on_one_side() -> None:
    parts = [(await compare(copying, ("synchronized", "partial"), (seed,), max_ticks=2)) for seed in range(8)]
    told = [found.first_difference.perceived for found in parts if found.first_difference is not None]

    assert (("a tick in this round", "yes", "no"),) in told


@pytest.mark.trio
async def test_what_is_measured_after_the_ticks_is_no_earlier_difference_than_what_agents_show_in_them() -> None:
    def make(activation: str, seed: int) -> AsyncSociety:
        town = load_scenario(SCENARIOS / "dilemma.toml", set={"width": 7, "height": 7})
        return town.society(activation=activation, seed=seed)

    first = (await compare(make, ("synchronized", "shuffled"), max_ticks=2)).first_difference

    assert first is not None and first.difference.kind == "public"
    assert first.agent is not None and first.perceived
    assert all("set earlier in this round" in right for _, _, right in first.perceived)
