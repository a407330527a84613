"""Upper bounds for a whole society. `None` means no bound.

Knows: which bounds there are, their units, and which are possible.
Does not know: how a call waits for its turn.
"""

from __future__ import annotations

from typing import Any

import attrs

from society.errors import ScenarioError


def _whole(instance: Limits, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ScenarioError(
            f"limits.{attribute.name}: {value!r} is not a whole number of at least 1, or None for no bound."
        )


def _seconds(instance: Limits, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ScenarioError(
            f"limits.{attribute.name}: {value!r} is not a number of seconds above 0, or None for no bound."
        )


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds that hold for the whole society, sub-agents and retries included (B1–B3).

    Over a bound a call waits its turn, first come first served; it is never refused. Waiting for a slot is not part of
    the call's own timeout, which starts with the slot.
    """

    max_concurrent_tools: int | None = attrs.field(default=8, validator=_whole)
    max_concurrent_llm: int | None = attrs.field(default=4, validator=_whole)
    max_concurrent_reads: int | None = attrs.field(default=None, validator=_whole)
    tool_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds; a tool call that takes longer is in doubt."""
    llm_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds for one answer of the model, retries included; after them the model is silent."""
    read_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds; a sensor that takes longer is `UNKNOWN`."""
    human_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds; a person who takes longer did not answer."""
    round_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds; whose tick takes longer is late, and nothing of it counts."""
    inbox_capacity: int | None = attrs.field(default=None, validator=_whole)
    """Messages that one inbox holds; further ones are refused at the barrier, and their senders told."""
