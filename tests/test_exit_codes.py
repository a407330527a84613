"""The exit codes of C1, and which wins when several hold (P82)."""

from __future__ import annotations

import itertools

import pytest

from society import exit_codes
from society.exit_codes import MEANINGS, OUTCOMES, PRECEDENCE, Verdict, of_run, worst


@pytest.mark.parametrize("outcome", ["finished", "satisfied", "quiet"])
def test_an_end_that_was_hoped_for_is_zero(outcome: str) -> None:
    assert of_run(outcome, rounds=3) == Verdict(0, f"{outcome} after 3 rounds")


@pytest.mark.parametrize("outcome", ["failed", "conflict", "budget", "waiting"])
def test_a_run_that_failed_or_met_a_guard_or_waits_is_one(outcome: str) -> None:
    assert of_run(outcome, "why", rounds=1) == Verdict(1, f"{outcome} after 1 round: why")


def test_ticks_that_failed_under_continue_are_one_although_the_run_finished() -> None:
    assert of_run("finished", rounds=6, failed_ticks=2) == Verdict(1, "finished after 6 rounds, but 2 ticks failed")


def test_actions_in_doubt_are_three_where_nothing_else_is_wrong() -> None:
    assert of_run("finished", rounds=6, in_doubt=1) == Verdict(3, "finished after 6 rounds, with 1 action in doubt")


def test_a_failed_run_with_doubt_says_that_it_failed() -> None:
    assert of_run("failed", "x", rounds=1, in_doubt=4).code == 1
    assert of_run("finished", rounds=1, in_doubt=4, failed_ticks=1).code == 1


@pytest.mark.parametrize(("signal", "code"), [(2, 130), (15, 143), (None, 130)])
def test_a_signal_gives_its_own_code(signal: int | None, code: int) -> None:
    assert of_run("cancelled", rounds=2, in_doubt=1, failed_ticks=1, signal=signal).code == code


def test_a_signal_that_came_after_the_end_changes_nothing() -> None:
    assert of_run("finished", rounds=2, signal=2).code == 0


def test_an_outcome_that_nobody_knows_is_never_a_success() -> None:
    assert of_run("splendid", rounds=1).code == 1


def test_of_several_the_contract_says_which_wins() -> None:
    assert PRECEDENCE == (2, 130, 143, 4, 1, 3, 0)
    for some in itertools.permutations(PRECEDENCE, 3):
        assert worst(Verdict(code, "") for code in some).code == min(some, key=PRECEDENCE.index)


def test_nothing_to_say_is_done() -> None:
    assert worst([]).code == 0


def test_every_code_has_a_meaning_and_a_place() -> None:
    assert set(MEANINGS) == set(PRECEDENCE) >= set(OUTCOMES.values()) | set(exit_codes.SIGNALS.values())


def test_the_last_line_says_the_code_and_why() -> None:
    assert str(of_run("finished", rounds=1)) == "exit 0: finished after 1 round"
