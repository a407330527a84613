"""How a run ended, as its caller sees it.

Knows: what a result holds, and that a trace or a series is told only to who asks for it.
Does not know: societies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs

from society.trace import Trace
from society.values import Value
from society.views import Counts


@attrs.frozen(kw_only=True)
class RunResult:
    """How a run ended."""

    outcome: str
    """`conflict`, `failed`, `budget`, `satisfied`, `quiet`, `finished`, `waiting`, `cancelled` or `interrupted`."""
    reason: str
    rounds: int
    shared: Mapping[str, Value]
    metrics: Counts
    _measured: Callable[[], Mapping[str, Any]] = attrs.field(repr=False, eq=False)
    _tell: Callable[[], Trace | None] = attrs.field(repr=False, eq=False)
    usage: Mapping[str, int]
    """Tokens, by kind."""
    cost_usd: float | None
    in_doubt: tuple[Any, ...]
    """Actions that may or may not have happened."""

    # A resumed run tells its trace from the journal, which costs a pass over all of it: only who asks pays.

    @cached_property
    def trace(self) -> Trace | None:
        """None where `keep_trace` is off."""
        return self._tell()

    @cached_property
    def measures(self) -> Mapping[str, Any]:
        """By name, a list with a value per round, round 0 included."""
        return self._measured()
