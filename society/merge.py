"""Merge rules: how the contributions to one SHARED key become its next value (R9).

Knows: each rule, what fits it, and how contributions are folded in the order they are given.
Does not know: who contributed, rounds, or versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from society.errors import RAISED, SocietyError, ValueRefused, described
from society.shared import MergeFunction
from society.values import FrozenList, Value, freeze


@attrs.define
class MergeFailed(SocietyError):
    """Contributions that fit one by one cannot be folded together."""

    why: str

    def __str__(self) -> str:
        return self.why


def fold_contributions(rule: str | MergeFunction, value: Value, contributions: Sequence[Value]) -> Value:
    """Return `value` with `contributions` folded in, in their order.

    Args:
        rule: The name of a rule, or a function of (value, contribution).
        value: Frozen. What the round, or the tick, started from.
        contributions: Frozen, at least one. `first` keeps the first of them, `last` and `error` the last one.

    Raises:
        MergeFailed: A sum left the range of values, kinds that cannot be compared met, or the function raised.
    """
    match rule:
        case "last" | "error":
            return contributions[-1]
        case "first":
            return contributions[0]
        case "append":
            return FrozenList([*value, *contributions])
        case "sum":
            return _sum(value, contributions)
        case "min" | "max":
            return _extreme(rule, value, contributions)
        case "union":
            return _union(value, contributions)
        case _ if not isinstance(rule, str):
            return _by_function(rule, value, contributions)
    raise AssertionError(rule)


def check_fit(rule: str | MergeFunction, key: str, value: Value, contribution: Value) -> None:
    """Refuse a contribution that could not be folded into a key holding `value`; it fails in its tick.

    Raises:
        ValueRefused: It does not fit; the error names the key.
    """
    if rule == "sum" and not _is_number(contribution):
        raise ValueRefused(f"shared.{key}", f"{type(contribution).__name__} is no addend for merge = 'sum'")
    if rule in ("append", "union") and isinstance(contribution, (list, dict)):
        freeze([contribution], f"shared.{key}")  # what comes back in every round would nest without bound
    if rule in ("min", "max"):
        if not _is_number(contribution) and not isinstance(contribution, str):
            raise ValueRefused(f"shared.{key}", f"{type(contribution).__name__} has no order for merge = {rule!r}")
        if value is not None and isinstance(value, str) != isinstance(contribution, str):
            raise ValueRefused(
                f"shared.{key}",
                f"{type(contribution).__name__} cannot be compared with the {type(value).__name__} it holds",
            )


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _sum(value: Value, contributions: Sequence[Value]) -> Value:
    total = value
    for addend in contributions:
        total += addend
    if isinstance(total, float) and not math.isfinite(total):
        raise MergeFailed("the sum is no longer finite")
    try:
        return freeze(total, "sum")
    except ValueRefused as refused:
        raise MergeFailed(f"the sum is {refused.found}") from refused


def _extreme(rule: str, value: Value, contributions: Sequence[Value]) -> Value:
    candidates = [*contributions] if value is None else [value, *contributions]
    try:
        return min(candidates) if rule == "min" else max(candidates)
    except TypeError as error:
        raise MergeFailed(f"merge = {rule!r} met numbers and texts: {error}") from error


def _union(value: Value, contributions: Sequence[Value]) -> Value:
    merged: list[Any] = list(value)
    # A set finds repeated texts at once; other values are compared one by one, which keeps 1, 1.0 and true apart.
    texts = {item for item in merged if isinstance(item, str)}
    for contribution in contributions:
        for item in contribution if isinstance(contribution, list) else [contribution]:
            if isinstance(item, str):
                if item not in texts:
                    texts.add(item)
                    merged.append(item)
            elif not any(type(item) is type(other) and item == other for other in merged):
                merged.append(item)
    return FrozenList(merged)


def _by_function(function: MergeFunction, value: Value, contributions: Sequence[Value]) -> Value:
    for contribution in contributions:
        try:
            value = freeze(function(value, contribution), "the merged value")
        except RAISED as error:  # the function is the scenario author's; whatever it raises ends the run (R9)
            kind, message = described(error)
            name = getattr(function, "__name__", "the merge function")
            raise MergeFailed(str(freeze(f"{name} raised {kind}: {message}"))) from error
    return value
