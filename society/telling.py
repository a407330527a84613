"""The telling: the trace of a run as it grows, encoded at each barrier and kept as bytes (J9).

Knows: lines, how many they are, and their digest so far.
Does not know: what the lines say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import Final

from society import story
from society.records import End, Start

AT_ONCE: Final = 512
"""Events that are encoded together. The processor's own memory holds so many; those of a round of 10,000 agents it does not."""


class Telling:
    def __init__(self, *, keep: bool = True) -> None:
        self.keep = keep
        """Without keeping nothing is encoded at all."""
        self.begun = False
        self._chunks: list[bytes] = []
        self._events = 0
        self._sha256 = hashlib.sha256()

    def begin(self, start: Start) -> None:
        self.begun = True
        if self.keep:
            self._append(story.header(start))

    def add(self, events: Iterable[story.Event]) -> None:
        """Encode the events of one barrier; they are not kept as objects, which the collector would walk for ever."""
        if not self.keep:
            return
        events = iter(events)
        while lines := list(islice(events, AT_ONCE)):
            self._events += len(lines)
            self._append(story.encoded(lines))

    def told(self, end: End | None, round: int) -> bytes:
        """Return all lines so far, with the last one where the run has ended."""
        data = b"".join(self._chunks)
        if len(self._chunks) > 1:
            self._chunks = [data]
        if end is not None:
            data += story.end(end, round, None, self._events, self._sha256.hexdigest())
        return data

    def _append(self, lines: bytes) -> None:
        self._chunks.append(lines)
        self._sha256.update(lines)
