"""Published results of the scenarios that ship, and what the regime makes of them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from society import Agent, AsyncSociety, ScriptedModel, Society, compare, load_scenario
from society.testing import say
from tests.published import SCENARIOS, Claim, claims, cycle, main, run

CLAIMS = [claim for claim in claims() if not claim.full_only]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
def test_a_scenario_gives_what_was_published(claim: Claim) -> None:
    measured = claim.measure(False)

    assert claim.holds(measured), f"published {claim.published}, measured {measured}"


def test_one_defector_in_the_middle_leaves_the_board_symmetrical() -> None:
    async def boards() -> list[list[list[int]]]:
        loaded = load_scenario(SCENARIOS / "dilemma.toml", set={"width": 33, "height": 33})
        town = loaded.society(keep_trace=False)
        found = []
        for round in range(1, 25):
            await town.run(round)
            cells = [agent.public["cooperates"] for agent in town.agents]
            found.append([cells[row * 33 : row * 33 + 33] for row in range(33)])
        return found

    for board in trio.run(boards):
        assert board == board[::-1]
        assert board == [row[::-1] for row in board]
        assert board == [list(column) for column in zip(*board, strict=True)]


def test_the_kaleidoscope_depends_on_no_seed_and_the_shuffled_board_on_it_alone() -> None:
    board = {"width": 21, "height": 21}
    all_at_once = [list(run("dilemma", "synchronized", 8, seed=seed, **board).measures["defectors"]) for seed in (1, 2)]
    shuffled = [list(run("dilemma", "shuffled", 8, seed=seed, **board).measures["defectors"]) for seed in (1, 2, 1)]

    assert all_at_once[0] == all_at_once[1]
    assert shuffled[0] == shuffled[2] != shuffled[1]


def test_majority_rule_may_swing_for_ever_all_at_once_where_it_rests_in_turn() -> None:
    swinging = [seed for seed in range(12) if cycle("synchronized", seed, 9, 0.3) == 2]

    assert swinging
    assert all(cycle("sequential", seed, 9, 0.3) == 1 for seed in swinging)


@st.composite
def networks(draw: st.DrawFn) -> tuple[dict[str, list[str]], list[int]]:
    """(the neighbors of each person, everybody's opinion)"""
    size = draw(st.integers(2, 9))
    pairs = draw(st.sets(st.sampled_from(list(combinations(range(size), 2)))))
    ties = {
        f"person-{one}": [f"person-{other}" for other in range(size) if (min(one, other), max(one, other)) in pairs]
        for one in range(size)
    }
    return ties, draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))


def majority(kind: Any, network: tuple[dict[str, list[str]], list[int]], **how: Any) -> Any:
    ties, opinions = network
    person = load_scenario(SCENARIOS / "majority.toml").code.person
    agents = [Agent(name, person, public={"aye": aye}) for name, aye in zip(ties, opinions, strict=True)]
    return kind(agents, topology=ties, quiet=True, keep_trace=False, **how)


@given(networks())
def test_majority_rule_all_at_once_ends_in_a_cycle_of_one_or_two_rounds(
    network: tuple[dict[str, list[str]], list[int]],
) -> None:
    """Goles & Olivos 1981, for any network and any beginning."""

    async def seen() -> list[tuple[int, ...]]:
        town = majority(AsyncSociety, network)
        boards = [tuple(agent.public["aye"] for agent in town.agents)]
        while boards.count(boards[-1]) == 1:
            await town.run(town.round + 1)
            boards.append(tuple(agent.public["aye"] for agent in town.agents))
        return boards

    boards = trio.run(seen)
    assert len(boards) - 1 - boards.index(boards[-1]) in (1, 2)


@given(networks(), st.sampled_from(["sequential", "shuffled"]), st.integers(0, 5))
def test_majority_rule_one_at_a_time_always_comes_to_rest(
    network: tuple[dict[str, list[str]], list[int]], activation: str, seed: int
) -> None:
    """Each change leaves fewer ties whose ends disagree, so there are at most as many rounds with a change as ties."""
    ties = sum(map(len, network[0].values())) // 2
    result = trio.run(majority(Society, network, activation=activation, seed=seed).run, ties + 1)
    assert result.outcome == "quiet"


def test_the_riot_has_the_same_outcome_and_another_duration() -> None:
    scenario = load_scenario(SCENARIOS / "threshold.toml")

    async def compared() -> tuple[bool, list[int]]:
        found = await compare(
            lambda activation, seed: scenario.society(activation=activation, seed=seed),
            ("synchronized", "sequential", "shuffled"),
            max_ticks=scenario.max_ticks,
        )
        return found.same_shared, [one.rounds for one in found.runs]

    same, rounds = trio.run(compared)

    assert same
    assert rounds[:2] == [100, 1]
    assert 1 < rounds[2] < 100


def catches(reply: Any) -> list[int]:
    """Return what has been caught after each month by fishers that a model drives."""
    model = ScriptedModel({f"fisher-{number}": [reply] * 12 for number in range(5)})
    town = load_scenario(SCENARIOS / "commons.toml").society(model=model)
    return list(trio.run(town.run, 12).measures["caught"])


def test_fishers_ask_a_model_where_there_is_one_and_take_nothing_where_it_cannot_be_read() -> None:
    assert catches(say('{"fish": 10}'))[-1] == 600
    assert catches(say('{"fish": 20}'))[1:] == [100] * 12
    assert catches(say("As many as I can carry."))[-1] == 0


@pytest.mark.parametrize("each", [7, 12, 33])
def test_no_fish_is_caught_twice_in_any_regime(each: int) -> None:
    for activation in ("synchronized", "sequential", "shuffled", "random"):
        measures = run("commons", activation, each=each).measures
        for month in range(1, 13):
            there = min(100, 2 * measures["left"][month - 1]) if month > 1 else 100
            assert measures["left"][month] == there - (measures["caught"][month] - measures["caught"][month - 1])


def test_reproducing_writes_the_measured_beside_the_published_and_says_what_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["degroot", "swap"], tmp_path / "table.md") == 2
    assert "nothing was published about swap; there is dilemma, cournot" in capsys.readouterr().err
    assert main(["degroot"], tmp_path / "new" / "table.md") == 0
    told = capsys.readouterr()
    assert told.err.startswith("1 of 3: degroot, synchronized: both\n2 of 3: degroot, sequential: A first\n")
    assert (tmp_path / "new" / "table.md").read_text() == told.out
    row = told.out.splitlines()[3]
    assert row.startswith("| degroot | sequential | A first | (1, 1) | (0.0000, 1.0000), (1.0000, 1.0000), ")
    assert told.out.endswith("\nall within their bounds\n")
