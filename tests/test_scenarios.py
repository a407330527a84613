"""The scenarios that ship: what each of them shows under each activation, and the traces that are published of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from society import Trace, load_scenario
from society.shelf import shipped
from tests.publish import (
    ACTIVATIONS,
    DIGESTED,
    DIGESTS,
    LARGE,
    PUBLISHED,
    ROOT,
    SCENARIOS,
    SERVED,
    TRACES,
    files,
    line,
    told,
)

IN_TURN = tuple(name for name in ACTIVATIONS if name != "synchronized")


def outcome(name: str, activation: str, **settings: Any) -> Any:
    """Return (society, result) of a run on a clock that jumps."""
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml", set=settings)
    town = scenario.society(activation=activation)
    return town, trio.run(town.run, scenario.max_ticks, clock=trio.testing.MockClock(autojump_threshold=0))


def ticked(trace: Trace, round: int) -> list[str]:
    """Return who did something in a round, in order of activation."""
    acting = (event.agent for event in trace.where(round=round) if event.kind not in ("measure", "settled"))
    return list(dict.fromkeys(agent for agent in acting if agent is not None))


# All of them.


@pytest.mark.parametrize("scenario", shipped(), ids=lambda scenario: scenario.name)
def test_every_scenario_on_the_shelf_is_sound_and_says_what_it_shows(scenario: Any) -> None:
    loaded = load_scenario(scenario.path)

    loaded.society()
    assert loaded.name == scenario.name
    assert len(loaded.about.split()) > 30


def test_the_command_finds_nothing_wrong_in_any_file_of_the_folder() -> None:
    files = sorted(path for path in (ROOT / "scenarios").glob("**/*.toml") if "." not in path.stem)

    checked = subprocess.run(
        [sys.executable, "-m", "society", "check", *map(str, files)], capture_output=True, text=True, timeout=60
    )

    assert (checked.returncode, checked.stderr) == (0, "")
    assert {path.stem for path in files} >= set(SCENARIOS)


@pytest.mark.parametrize(("name", "activation"), PUBLISHED + SERVED)
def test_runs_give_the_published_traces_byte_for_byte(name: str, activation: str) -> None:
    for path, content in files(name, activation):
        assert path.read_bytes() == content, f"{path.name} differs; if that is meant, run `make traces`"


@pytest.mark.parametrize(("name", "activation"), PUBLISHED + SERVED)
def test_published_traces_are_whole_and_readable_at_80_columns(name: str, activation: str) -> None:
    trace = Trace.load(TRACES / f"{name}.{activation}.jsonl")
    text = (TRACES / f"{name}.{activation}.txt").read_text("utf-8")

    assert (trace.header["scenario"], trace.header["activation"]) == (name, activation)
    assert max(len(line) for line in text.split("\n")) <= 80
    assert "\x1b" not in text


@pytest.mark.parametrize(("name", "activation"), DIGESTED)
def test_runs_of_large_scenarios_give_the_published_digests(name: str, activation: str) -> None:
    assert line(name, activation) in DIGESTS.read_text("utf-8").splitlines()


def test_of_every_scenario_that_ships_either_traces_are_published_or_digests() -> None:
    served = {name for name, _ in SERVED}

    assert {scenario.name for scenario in shipped()} == {*SCENARIOS, *LARGE} | served
    assert len(DIGESTS.read_text("utf-8").splitlines()) == len(DIGESTED)
    assert {path.stem.partition(".")[0] for path in TRACES.glob("*.jsonl")} == {*SCENARIOS} | served


def test_the_clock_that_runs_at_its_own_pace_gives_the_same_trace() -> None:
    scenario = load_scenario(ROOT / "scenarios" / "incident.toml")
    town = scenario.society()

    assert trio.run(town.run, scenario.max_ticks).trace == told("incident", "synchronized")


# swap: the smallest difference.


def test_swap_changes_places_when_both_look_at_one_snapshot() -> None:
    _, result = outcome("swap", "synchronized")

    assert (result.outcome, result.rounds, dict(result.shared)) == ("finished", 1, {"a": 2, "b": 1})


@pytest.mark.parametrize("activation", IN_TURN)
def test_swap_in_turn_loses_the_value_of_whoever_is_first(activation: str) -> None:
    _, result = outcome("swap", activation)

    kept = {"A": 2, "B": 1}[ticked(result.trace, 1)[0]]
    assert dict(result.shared) == {"a": kept, "b": kept}


def test_swap_published_has_both_orders_among_its_traces() -> None:
    assert ticked(told("swap", "sequential"), 1) == ["A", "B"]
    assert ticked(told("swap", "shuffled"), 1) == ["B", "A"]


# question: what a round costs.


@pytest.mark.parametrize(
    ("activation", "rounds"), [("synchronized", {3}), ("sequential", {2}), ("shuffled", {2, 3}), ("random", {2, 3, 4})]
)
def test_question_takes_three_rounds_synchronized_and_two_in_declared_order(activation: str, rounds: set[int]) -> None:
    _, result = outcome("question", activation)

    assert (result.outcome, result.shared["answer"]) == ("satisfied", "eight")
    assert result.rounds in rounds
    assert result.metrics.messages_sent == 2


def test_question_shuffled_depends_on_the_seed_and_never_takes_more_than_three_rounds() -> None:
    rounds = [outcome("question", "shuffled", seed=seed)[1].rounds for seed in range(12)]

    assert set(rounds) == {2, 3}


# incident: a world that is not as one would like.


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_incident_calls_wait_under_the_bound_of_two(activation: str) -> None:
    town, _ = outcome("incident", activation)

    assert town.stats.tools.max_in_flight == 2
    assert town.stats.tools.queued == 2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_incident_the_page_is_in_doubt_and_not_repeated(activation: str) -> None:
    _, result = outcome("incident", activation)

    (page,) = [event for event in result.trace.where(kind="action") if event.tool == "page"]
    assert page.ending == "in_doubt"
    assert (result.outcome, result.metrics.in_doubt) == ("satisfied", 1)
    assert [action.tool for action in result.in_doubt] == ["page"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_incident_the_silent_sensor_is_unknown_with_its_reason(activation: str) -> None:
    _, result = outcome("incident", activation)

    silent = [event for event in result.trace.where(kind="read") if event.sensor == "service.latency"]
    assert silent
    assert {event.unknown for event in silent} == {"no reading in time"}
    heard = [event for event in result.trace.where(kind="read") if event.sensor == "service.status"]
    assert all("value" in event.fields for event in heard)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_incident_the_full_inbox_refuses_the_third_alert_and_its_sender_sends_it_again(activation: str) -> None:
    _, result = outcome("incident", activation)

    (refused,) = result.trace.where(kind="refused")
    (receipt,) = result.trace.where(kind="receipt")
    assert (refused.sender, refused.recipient, refused.message, refused.reason) == (
        "monitor",
        "responder",
        3,
        "inbox full",
    )
    assert (receipt.agent, receipt.recipient, receipt.message) == ("monitor", "responder", 3)
    assert result.shared["restarted"] == ["web-1", "web-2", "web-3"]


def test_incident_two_writers_in_one_synchronized_round_are_a_conflict_that_names_both() -> None:
    _, result = outcome("incident", "synchronized")

    (conflict,) = result.trace.where(kind="conflict")
    assert (conflict.key, conflict.kept, conflict.lost) == ("severity", "major", [["monitor", "minor"]])
    assert conflict.writers == ["monitor", "analyst"]
    assert result.metrics.shared_conflicts == 1


@pytest.mark.parametrize("activation", IN_TURN)
def test_incident_in_turn_the_later_writer_overwrites_and_nobody_notices(activation: str) -> None:
    town, result = outcome("incident", activation)

    writers = [event.agent for event in result.trace.where(kind="share") if event.key == "severity"]
    assert not result.trace.where(kind="conflict")
    assert sorted(writers) == ["analyst", "monitor"]
    assert town.shared["severity"] == {"analyst": "major", "monitor": "minor"}[writers[-1]]
    assert town.versions["severity"] == 2


# rumor: a curve that belongs to the activation.


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_rumor_reaches_everyone_and_then_it_is_quiet(activation: str) -> None:
    _, result = outcome("rumor", activation)
    curve = result.measures["knowing"]

    assert result.outcome == "quiet"
    assert (curve[0], curve[-1]) == (0, 200)
    assert curve == sorted(curve)
    assert result.trace.measures["knowing"] == curve


def test_rumor_goes_one_tie_further_in_each_synchronized_round() -> None:
    import networkx

    scenario = load_scenario(ROOT / "scenarios" / "rumor.toml")
    ties = {agent.name: agent.state["acquainted"] for agent in scenario.agents}
    distance = networkx.single_source_shortest_path_length(networkx.Graph(ties), "citizen-0")
    curve = told("rumor", "synchronized").measures["knowing"]

    # Who is d ties away reads it in round d + 1.
    assert curve == [sum(far < round for far in distance.values()) for round in range(len(curve))]


def test_rumor_runs_around_the_ring_in_one_round_in_declared_order_and_takes_longer_otherwise() -> None:
    rounds = {activation: told("rumor", activation).measures["knowing"].index(200) for activation in ACTIVATIONS}

    assert rounds["sequential"] == 1
    assert rounds["sequential"] < rounds["shuffled"] < rounds["synchronized"]


def test_rumor_is_on_another_network_with_another_seed_and_on_the_same_one_with_the_same() -> None:
    def ties(seed: int) -> list[Any]:
        scenario = load_scenario(ROOT / "scenarios" / "rumor.toml", set={"seed": seed})
        return [agent.state["acquainted"] for agent in scenario.agents]

    assert ties(3) == ties(3)
    assert ties(3) != ties(4)


# chain: births and deaths at the barrier.


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_chain_each_link_holds_the_baton_once_and_in_the_end_nobody_is_left(activation: str) -> None:
    town, result = outcome("chain", activation)
    links = [f"link-{number}" for number in range(1, 6)]

    assert (result.outcome, result.reason) == ("finished", "everybody has left")
    assert result.shared["held"] == links
    assert [agent.name for agent in town.agents] == links
    assert all(agent.retired for agent in town.agents)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_chain_a_child_does_nothing_in_the_round_of_its_birth(activation: str) -> None:
    trace = told("chain", activation)

    for birth in trace.where(kind="spawn"):
        assert not trace.where(agent=birth.name, round=birth.round)
        assert trace.where(agent=birth.name)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_chain_thanks_to_one_who_has_left_are_undelivered_and_the_sender_is_told(activation: str) -> None:
    trace = told("chain", activation)

    thanks = [(event.agent, event.to) for event in trace.where(kind="send") if event.message_kind == "thanks"]
    turned_back = [(event.sender, event.recipient) for event in trace.where(kind="undelivered")]
    assert thanks == [(f"link-{number + 1}", f"link-{number}") for number in range(1, 5)]
    assert turned_back == thanks
    assert {event.reason for event in trace.where(kind="undelivered")} == {"retired"}
    # The last link leaves before it could be told.
    assert [(event.agent, event.recipient) for event in trace.where(kind="receipt")] == thanks[:-1]


def test_chain_is_through_in_fewer_rounds_in_turn() -> None:
    rounds = {activation: told("chain", activation).end.round for activation in ACTIVATIONS}  # type: ignore[union-attr]

    assert rounds["synchronized"] == 9
    assert rounds["sequential"] == 5
    assert all(rounds[activation] < 9 for activation in IN_TURN)


def test_no_folder_of_this_machine_and_no_time_is_in_a_published_trace() -> None:
    for path in sorted(Path(TRACES).iterdir()):
        assert str(ROOT).encode() not in path.read_bytes()
