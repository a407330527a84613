"""Published results of the scenarios that ship, and what the regime makes of them."""

from __future__ import annotations

import pytest
import trio

from society import compare, load_scenario
from tests.published import SCENARIOS, Claim, claims, cycle, run

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


@pytest.mark.parametrize("each", [7, 12, 33])
def test_no_fish_is_caught_twice_in_any_regime(each: int) -> None:
    for activation in ("synchronized", "sequential", "shuffled", "random"):
        measures = run("commons", activation, each=each).measures
        for month in range(1, 13):
            there = min(100, 2 * measures["left"][month - 1]) if month > 1 else 100
            assert measures["left"][month] == there - (measures["caught"][month] - measures["caught"][month - 1])
