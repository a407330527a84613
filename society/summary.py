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
    usage: Mapping[str, int],
    cost_usd: float | None,
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
        usage: Tokens by kind, told where a model was asked.
        cost_usd: Of these tokens; `None` where a price is not known.
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
    spent = tuple(_spent(usage, cost_usd)) if metrics.get("llm_calls") else ()
    yield Grid("Run", ("", ""), (*ended, *counted, *spent))
    if shared:
        yield shared_table(shared, versions, bound)


def _spent(usage: Mapping[str, int], cost_usd: float | None) -> Iterator[tuple[Part, Part]]:
    for kind, count in usage.items():
        if count or kind in ("input_tokens", "output_tokens"):
            yield Part(kind.replace("_", " ")), Part(f"{count:,}")
    yield Part("cost"), Part("not known: a model has no price" if cost_usd is None else dollars(cost_usd))


def dollars(usd: float) -> str:
    """Return an amount of money in words."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.6f}"


def shared_table(shared: Mapping[str, Any], versions: Mapping[str, int], bound: int | None) -> Grid:
    """Return SHARED as a table, in declared order."""
    rows = tuple(
        (Part(shown(key), "name"), Part(str(versions.get(key, 0))), Part(bounded(value, bound, "--json"), "value"))
        for key, value in shared.items()
    )
    return Grid("SHARED", ("key", "version", "value"), rows)
