"""What is drawn: keyed, so that nothing depends on what others draw."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from schedules import run
from societies import idle, town

from society import Agent, AsyncHost, load_scenario
from society.draw import action_id, drawn, idempotency_key, joining, shuffled, stream


def draws(*agents: Agent, rounds: int = 2, seed: int = 7, **how: Any) -> dict[tuple[str, int], str]:
    society = town(*agents, seed=seed, **how)
    run(society.run, rounds)
    return {(event.agent, event.round): event.text for event in society.trace.where(kind="note")}


def drawing(times: int) -> Any:
    def behavior(tick: Any) -> None:
        first, *_ = [tick.rng.random() for _ in range(times)]
        tick.note(str(first))

    return behavior


def test_a_newcomer_one_draw_more_or_another_activation_change_nobody_elses_numbers() -> None:
    """R15."""
    alone = draws(Agent("ada", drawing(1)))
    crowd = draws(Agent("new", drawing(3)), Agent("ada", drawing(5)))
    assert {key: number for key, number in crowd.items() if key[0] == "ada"} == alone
    assert draws(Agent("new", idle), Agent("ada", drawing(1)), turns=True, activation="shuffled") == alone
    assert len({*crowd.values(), *draws(Agent("ada", drawing(1)), seed=8).values()}) == 6


@pytest.mark.parametrize("activation", ["synchronized", "sequential", "shuffled", "partial"])
def test_more_people_in_a_scenario_rename_nobody_and_move_nobodys_numbers(tmp_path: Path, activation: str) -> None:
    """R15, Q1: nor do they change who joins a round, or in which order those who were there act."""
    (tmp_path / "crowd.py").write_text("def person(tick):\n    tick.note(str(tick.rng.random()))\n")
    (tmp_path / "crowd.toml").write_text(
        'code = "crowd.py"\nmax_ticks = 9\nseed = 7\nrate = 0.5\nparameters.n = 3\n'
        '[[agents]]\nname = "person"\nbehavior = "person"\ncount = "parameters.n"\n'
        '[[agents]]\nname = "last"\nbehavior = "person"\n'
    )

    def notes(people: int) -> list[tuple[int | None, str | None, Any]]:
        society = load_scenario(tmp_path / "crowd.toml", set={"n": people}).society(activation=activation)
        trace = run(society.run, 9).trace
        return [(event.round, event.agent, event.text) for event in trace.where(kind="note")]

    few = notes(3)
    there = {"person-0", "person-1", "person-2", "last"}
    assert {agent for _, agent, _ in few} == there
    assert [note for note in notes(40) if note[1] in there] == few


def test_each_tick_of_a_round_has_numbers_of_its_own() -> None:
    society = town(Agent("ada", drawing(1)), Agent("bob", drawing(1)), turns=True, activation="random")
    run(society.run, 10)
    numbers = [event.text for event in society.trace.where(kind="note")]
    assert len(numbers) == len(set(numbers)) == 20


def test_a_sub_agent_has_numbers_of_its_own() -> None:
    host = AsyncHost()

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> float:
        return tick.rng.random()

    async def ada(tick: Any) -> None:
        numbers = [tick.rng.random(), await tick.delegate("helper"), await tick.delegate("helper")]
        assert len(set(numbers)) == 3

    assert run(town(ada, hosts=host).run, 1).outcome == "finished"


def test_the_global_random_state_is_neither_read_nor_written() -> None:
    random.seed(1)
    before = random.getstate()
    first = draws(Agent("ada", drawing(1)))
    assert random.getstate() == before
    random.seed(2)
    assert draws(Agent("ada", drawing(1))) == first


def test_keys_that_look_alike_when_joined_are_different_streams() -> None:
    assert stream("a", "bc").random() != stream("ab", "c").random()
    assert stream(1, "1").random() != stream("1", 1).random()


def test_an_action_has_one_id_in_every_run_and_another_key_in_each() -> None:
    """K1."""
    ids = {
        action_id(*key)
        for key in [
            ("ada", 1, 1, "1", "pay", {"eur": 5}),
            ("bob", 1, 1, "1", "pay", {"eur": 5}),
            ("ada", 2, 1, "1", "pay", {"eur": 5}),
            ("ada", 1, 2, "1", "pay", {"eur": 5}),
            ("ada", 1, 1, "1.1", "pay", {"eur": 5}),
            ("ada", 1, 1, "1", "refund", {"eur": 5}),
            ("ada", 1, 1, "1", "pay", {"eur": 5.0}),
        ]
    }
    assert len(ids) == 7
    assert len({idempotency_key(run_id, action) for run_id in ("r1", "r2") for action in ids}) == 14
    assert idempotency_key("r1", min(ids)) == idempotency_key("r1", min(ids))


def test_orders_are_keyed_by_name_and_round() -> None:
    few, many = shuffled("abc", 1, 2), shuffled("abcdefgh", 1, 2)
    assert [name for name in many if name in "abc"] == few
    assert {tuple(shuffled("abc", 1, round)) for round in range(20)} != {tuple(few)}
    assert drawn("abcd", 1, 2) == drawn("abcd", 1, 2) and len(drawn("abcd", 1, 2)) == 4


def test_who_joins_a_round_depends_on_nobody_else() -> None:
    assert joining("abc", 1, 2, 0.0) == [] and joining("abc", 1, 2, 1.0) == ["a", "b", "c"]
    names = [str(n) for n in range(2000)]
    half = joining(names, 1, 2, 0.5)
    assert 900 < len(half) < 1100
    assert joining(names[:100], 1, 2, 0.5) == [name for name in half if int(name) < 100]
