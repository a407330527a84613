"""The width: how many calls to a model may be in flight while its service is crowded.

When the service turns a call away (429, overload), the places of `max_concurrent_llm` are halved for everyone who
shares them; then one is added for each full width of calls that went well, up to the declared bound. Places change
for calls that have not started; those in flight finish. It is seen in `stats`.

Knows: the rule by which the width falls and rises.
Does not know: who calls, or how long anybody waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from society.slots import Slots

SAME_WAVE: Final = 1.0
"""Seconds. Calls in flight together are turned away together: that is one sign of a crowd, not several."""


class SharedWidth:
    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._full = slots.bound
        self._enough = slots.bound
        """Where it is open again; for a bound of none, the number in flight that turned out to be too many."""
        self._narrowed_at = -math.inf
        self._went_well = 0
        self.narrowed = 0
        """Times it was made narrower."""
        self.narrowest = slots.bound

    def begin(self) -> None:
        """Begin a run, in an event loop with a clock of its own. The width goes on where it was."""
        self._narrowed_at = -math.inf

    def crowded(self) -> None:
        """A call was turned away."""
        now = trio.current_time()
        self._went_well = 0
        if now - self._narrowed_at < SAME_WAVE:
            return
        self._narrowed_at = now
        self.narrowed += 1
        if self._slots.bound == math.inf:
            self._enough = max(self._slots.in_flight, 1)
        self._set(max(1, min(self._slots.bound, self._slots.in_flight) // 2))

    def eased(self) -> None:
        """A call went well."""
        if self._slots.bound >= self._full:
            return
        self._went_well += 1
        if self._went_well >= self._slots.bound:
            self._went_well = 0
            self._set(self._slots.bound + 1)

    def _set(self, bound: float) -> None:
        if bound >= self._enough:
            self._slots.resize(None if self._full == math.inf else int(self._full))
            return
        self._slots.resize(int(bound))
        self.narrowest = min(self.narrowest, bound)

    def stats(self) -> dict[str, float]:
        return {"width": self._slots.bound, "narrowest": self.narrowest, "narrowed": self.narrowed}
