"""Measures: what a scenario's own functions make of a society between two rounds.

Knows: how such a function is called, what it may return, and all that was measured so far.
Does not know: when it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from society.errors import RAISED, ScenarioError, described
from society.rounds import where_raised
from society.values import Value, freeze
from society.views import View

Measure: TypeAlias = Callable[[View], Any]


@attrs.define
class Measures:
    """The measures of a society."""

    functions: Mapping[str, Measure]
    found: dict[str, list[Any]] = attrs.field(factory=dict)
    """By name, what was measured so far, from round 0."""
    curves: dict[str, list[float | None]] = attrs.field(factory=dict)
    """The same as one number a round: of numbers by agent, their mean."""

    def take(self, view: View) -> list[tuple[str, str | None, Value]]:
        """Measure once; return (name, agent or None, value), as a record has them."""
        told = {name: _measured(f"measures.{name}", measure, view) for name, measure in self.functions.items()}
        for name, value in told.items():  # once all of them have been taken: a round is measured once
            self.found.setdefault(name, []).append(value)
            self.curves.setdefault(name, []).append(_one(value))
        rows: list[tuple[str, str | None, Value]] = []
        for name, value in told.items():
            if isinstance(value, dict):
                rows += [(name, agent, number) for agent, number in value.items()]
            else:
                rows.append((name, None, value))
        return rows


def _measured(what: str, measure: Measure, view: View) -> Value:
    """Return a number, or numbers by agent; None where there is nothing to measure."""
    value = looked_at(what, measure, view)
    for number in value.values() if isinstance(value, dict) else [value]:
        if number is not None and not isinstance(number, (int, float)):
            raise ScenarioError(
                f"{what}, after round {view.round}: {value!r} is no number, and no dict of numbers by agent."
            )
    return value


def looked_at(what: str, function: Callable[[View], Any], view: View) -> Value:
    """Return what the scenario's own function makes of a view, frozen.

    Raises:
        ScenarioError: It raised, or returned what is no value; the round before it stands, and the run can be resumed.
    """
    try:
        found = function(view)
        if inspect.iscoroutine(found):
            found.close()
            raise TypeError("an `async def`, and nothing is awaited between rounds; make it a plain function")
        return freeze(found, what)
    except RAISED as error:  # whatever its author's code raises is told as theirs, with the line
        kind, message = described(error)
        where = where_raised(error)
        raise ScenarioError(
            f"{what}, after round {view.round}: {kind}: {message}" + (f" ({where})" if where else "")
        ) from error


def _one(value: Value) -> float | None:
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]
    numbers = [number for number in value.values() if number is not None]
    return sum(numbers) / len(numbers) if numbers else None
