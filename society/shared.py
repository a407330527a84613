"""SHARED as it is declared: a first value, a merge rule, and who may write and read it.

Knows: the names of the merge rules.
Does not know: how contributions are folded; that is `merge.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from society.errors import ScenarioError, ValueRefused, suggestion
from society.values import Value, freeze

MERGE_RULES: Final = ("last", "first", "append", "sum", "min", "max", "union", "error")

MergeFunction = Callable[[Value, Value], Any]
"""`f(value, contribution)`: returns the next value. Both arguments are frozen."""


def _names(value: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(value, str):
        raise ScenarioError(f"writers and readers are lists of agents' names, not the text {value!r}.")
    return None if value is None else tuple(value)


@attrs.frozen
class Shared:
    """A declared key of SHARED.

    Rules for `merge`: `last` (default), `first`, `append` (one element), `sum` (one addend), `min`, `max`, `union` (a list
    contributes those of its elements that are not yet in; anything else is one element), `error`, or a function.
    """

    initial: Any = None
    merge: str | MergeFunction = attrs.field(default="last")
    writers: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, converter=_names)
    """Names, or names of groups, that may contribute; `None` for everyone. Scenario events always may."""
    readers: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, converter=_names)
    """Names, or names of groups, that may look; `None` for everyone."""

    @merge.validator
    def _known_rule(self, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, str) and value not in MERGE_RULES:
            raise ScenarioError(f"merge rule {value!r} is not known.{suggestion(value, MERGE_RULES)}")
        if not isinstance(value, str) and not callable(value):
            raise ScenarioError(
                f"merge: {value!r} is neither the name of a rule nor a function of (value, contribution)."
            )

    def __attrs_post_init__(self) -> None:
        try:
            object.__setattr__(self, "initial", freeze(self.initial, "initial"))
        except ValueRefused as refused:
            raise ScenarioError(f"shared: {refused}") from refused
        if isinstance(self.merge, str) and (fault := _unfit(self.merge, self.initial)):
            raise ScenarioError(f"shared: an initial value of {self.initial!r} {fault}.")


def _unfit(rule: str, initial: Value) -> str | None:
    match rule:
        case "append" | "union" if not isinstance(initial, list):
            return f"cannot take merge = {rule!r}: start from a list"
        case "sum" if isinstance(initial, bool) or not isinstance(initial, (int, float)):
            return "cannot take merge = 'sum': start from a number"
        case "min" | "max" if isinstance(initial, (bool, list, dict)):
            return f"cannot take merge = {rule!r}: start from a number, a text, or None for none yet"
    return None
