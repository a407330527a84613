"""Merge rules: how contributions become a key's next value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from society import ScenarioError, Shared
from society.errors import ValueRefused
from society.merge import MergeFailed, check_fit, fold_contributions
from society.values import freeze


@pytest.mark.parametrize(
    ("rule", "value", "contributions", "merged"),
    [
        ("last", 0, [1, 2], 2),
        ("first", 0, [1, 2], 1),
        ("error", 0, [1, 2], 2),
        ("append", [0], [1, [2]], [0, 1, [2]]),
        ("sum", 1, [2, 0.5], 3.5),
        ("min", None, [3, 2], 2),
        ("min", 1, [3, 2], 1),
        ("max", "a", ["c", "b"], "c"),
        ("union", ["a"], ["b", "a", ["c", "b"]], ["a", "b", "c"]),
        ("union", [1], [1.0, True, 1], [1, 1.0, True]),
        (lambda value, contribution: value - contribution, 10, [1, 2], 7),
    ],
)
def test_each_rule(rule: Any, value: Any, contributions: list[Any], merged: Any) -> None:
    found = fold_contributions(rule, freeze(value), [freeze(item) for item in contributions])
    assert found == merged and repr(found) == repr(merged)


@given(st.lists(st.integers(0, 9), min_size=1), st.data())
def test_folding_in_two_parts_is_folding_at_once(contributions: list[int], data: Any) -> None:
    """What an agent sees over its snapshot agrees with what the barrier makes of it."""
    cut = data.draw(st.integers(1, len(contributions)))
    for rule, value in (
        ("last", 0),
        ("append", freeze([])),
        ("sum", 0),
        ("min", None),
        ("max", 5),
        ("union", freeze([])),
    ):
        whole = fold_contributions(rule, value, contributions)
        part = fold_contributions(rule, value, contributions[:cut])
        rest = contributions[cut:]
        assert whole == (fold_contributions(rule, part, rest) if rest else part)


@pytest.mark.parametrize(
    ("rule", "value", "contribution"),
    [
        ("sum", 0, "x"),
        ("sum", 0, True),
        ("sum", 0, None),
        ("min", 1, "x"),
        ("max", "a", 1),
        ("max", None, [1]),
        ("min", None, True),
    ],
)
def test_a_contribution_that_does_not_fit_is_refused_in_its_tick(rule: str, value: Any, contribution: Any) -> None:
    with pytest.raises(ValueRefused, match=r"shared\.k"):
        check_fit(rule, "k", value, freeze(contribution))


@pytest.mark.parametrize("rule", ["append", "union"])
def test_what_is_appended_nests_no_deeper_than_a_value_may(rule: str) -> None:
    deep: Any = {}
    for _ in range(199):
        deep = {"in": deep}
    with pytest.raises(ValueRefused, match="nested"):
        check_fit(rule, "k", freeze([]), freeze(deep))


@pytest.mark.parametrize(
    ("rule", "value", "contributions"),
    [
        ("sum", 2**64 - 1, [1]),
        ("sum", 1e308, [1e308]),
        ("sum", -1e308, [-1e308, 5]),
        ("min", None, [1, "x"]),
        (lambda value, contribution: 1 / 0, 0, [1]),
        (lambda value, contribution: {contribution}, 0, [1]),
        (lambda value, contribution: float("nan"), 0, [1]),
    ],
)
def test_what_cannot_be_folded_together_is_told(rule: Any, value: Any, contributions: list[Any]) -> None:
    with pytest.raises(MergeFailed):
        fold_contributions(rule, value, contributions)


def test_a_merge_function_cannot_change_what_it_is_given() -> None:
    def greedy(value: Any, contribution: Any) -> Any:
        value.append(contribution)
        return value

    start = freeze([])
    with pytest.raises(MergeFailed, match="greedy raised TypeError"):
        fold_contributions(greedy, start, [1])
    assert start == []


@pytest.mark.parametrize(
    ("initial", "merge"),
    [(0, "append"), ("x", "sum"), (True, "sum"), ([], "max"), (0, "union"), (0, "summ"), (0, 3)],
)
def test_a_first_value_that_its_rule_cannot_take_is_refused_when_it_is_declared(initial: Any, merge: Any) -> None:
    with pytest.raises(ScenarioError):
        Shared(initial, merge)
