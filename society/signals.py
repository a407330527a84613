"""Ctrl+C and the like: the first signal asks a run to end, a second one ends the process at once.

The handlers are Python's own and not trio's, because the first thing that a run may be stuck in is a plain behavior that
never returns to the loop: a second Ctrl+C gets out of that too.

Knows: SIGINT and SIGTERM.
Does not know: what is cancelled, or what is said about it; only that no tool server may be left behind.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
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


def cancelled_by_signal(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Run a trio function, cancelled at the first signal; a second one ends the process at once, and its tool servers.

    Raises:
        Interrupted: A signal came. All that the function had open is closed.
    """
    import trio

    from society.server_process import kill_all

    scope = trio.CancelScope()
    token: list[Any] = []

    async def main() -> Any:
        token.append(trio.lowlevel.current_trio_token())
        with scope:
            if seen.number is not None:  # it came before there was anybody to tell
                scope.cancel()
            return await function(*args)

    def end() -> None:
        for there in token:
            there.run_sync_soon(scope.cancel)

    with asking(end, lambda number: kill_all()) as seen:
        result = trio.run(main)
    if seen.number is not None:
        raise Interrupted(seen.number)
    return result


@contextmanager
def _handling(handle: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
