"""The end of a run, told in tables: how it ended, what is in SHARED, what was counted.

Knows: which facts of a run a person wants first.
Does not know: terminals, or how a table is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from society.grids import Grid
from society.lines import Part, bounded, cut, shown

ALWAYS: Final = ("messages_sent", "shared_conflicts", "timeouts", "in_doubt")
"""Counts that are shown even when they are zero."""

_BAD: Final = frozenset(
    {"timeouts", "in_doubt", "failed_ticks", "messages_refused", "messages_undelivered", "shared_conflicts"}
)


def tables(
    outcome: str,
    reason: str,
    rounds: int,
    shared: Mapping[str, Any],
    versions: Mapping[str, int],
    metrics: Mapping[str, int],
    bound: int | None,
) -> Iterator[Grid]:
    """Yield the tables of a summary.

    Args:
        outcome: How the run ended, in one word.
        reason: Why, where there is more to say.
        rounds: How many there were.
        shared: Final values by key.
        versions: Final versions by key.
        metrics: Counts by name.
        bound: Characters of a value that are shown; `None` for all.
    """
    good = outcome in ("finished", "satisfied", "quiet")
    ended = [(Part("outcome"), Part(shown(outcome), "good" if good else "bad"))]
    if reason:
        ended.append((Part("reason"), Part(cut(shown(reason), bound, "--json"))))
    ended.append((Part("rounds"), Part(f"{rounds:,}")))
    counted = [
        (Part(name.replace("_", " ")), Part(f"{count:,}", "bad" if count and name in _BAD else ""))
        for name, count in metrics.items()
        if (count or name in ALWAYS) and name != "rounds"
    ]
    yield Grid("Run", ("", ""), (*ended, *counted))
    if shared:
        yield shared_table(shared, versions, bound)


def shared_table(shared: Mapping[str, Any], versions: Mapping[str, int], bound: int | None) -> Grid:
    """Return SHARED as a table, in declared order."""
    rows = tuple(
        (Part(shown(key), "name"), Part(str(versions.get(key, 0))), Part(bounded(value, bound, "--json"), "value"))
        for key, value in shared.items()
    )
    return Grid("SHARED", ("key", "version", "value"), rows)
