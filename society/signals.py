"""Ctrl+C and the like: the first signal asks a run to end, a second one ends the process at once.

The handlers are Python's own and not trio's, because the first thing that a run may be stuck in is a plain behavior that
never returns to the loop: a second Ctrl+C gets out of that too.

Knows: SIGINT and SIGTERM.
Does not know: what is cancelled, or what is said about it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import attrs

HANDLED: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal came while nothing was running that could be asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@attrs.define
class Seen:
    number: int | None = None
    """The first signal that came."""


@contextmanager
def asking(end: Callable[[], None], give_up: Callable[[int], None]) -> Iterator[Seen]:
    """Call `end` at the first signal and `give_up(number)` at a second one, as long as the block lasts.

    Args:
        end: Asks the run to end. Called in the middle of anything: it only makes a note, as
            `trio.lowlevel.TrioToken.run_sync_soon` does.
        give_up: Says a last word. After it the process exits without unwinding anything.
    """
    seen = Seen()

    def handle(number: int, frame: FrameType | None) -> None:
        if seen.number is None:
            seen.number = number
            end()
            return
        give_up(number)
        os._exit(128 + number)

    with _handling(handle):
        yield seen


@contextmanager
def raising() -> Iterator[None]:
    """Raise `Interrupted` at a signal, as long as the block lasts and no `asking` is inside it."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handling(handle):
        yield


@contextmanager
def _handling(handle: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
