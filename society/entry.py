"""An entry: one crossing of a tick, from being asked for to its end.

Knows: the ordinal, the line it was asked for on, and whether it has begun.
Does not know: what is crossed to.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from society.errors import BehaviorError

if TYPE_CHECKING:
    from society.tick import Tick

_current_task: Final = trio.lowlevel.current_task


class Entry:
    """One crossing of a tick, from being asked for to its end."""

    __slots__ = (
        "at",
        "begun",
        "coroutine",
        "done",
        "holds",
        "line",
        "order",
        "person",
        "scope",
        "task",
        "tick",
        "what",
    )

    def __init__(self, tick: Tick, at: str, what: str, line: tuple[str, int]) -> None:
        self.tick = tick
        self.at = at
        self.what = what
        """As it is told when it is waited for: `restart`, `read service.status`."""
        self.line = line
        self.begun = False
        self.holds = False
        """It is the one effect of its agent that is under way (B8)."""
        self.person = False
        """It waits for a person whose answer may come in another process."""
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.order: tuple[int, ...] | None = None
        self.done: trio.Event | None = None
        self.task: Any = None
        self.scope: trio.CancelScope | None = None

    def begin(self) -> None:
        self.coroutine = None
        root = self.tick.root
        if root._task is None:
            root._over("has ended")
        self.begun = True
        self.task = _current_task()

    def end(self) -> None:
        root = self.tick.root
        if self in root.entries:
            root.entries.remove(self)
        self.holds = False
        if self.done is not None:
            self.done.set()
        if trio.current_effective_deadline() == float("-inf"):
            root.left = (*root.left, (trio.current_time(), self))


def where_never_awaited(entries: Sequence[Entry]) -> BehaviorError:
    """Return the error of a tick that asked for crossings and never awaited them."""
    asked = "; ".join(f"{entry.what} ({short(entry.line[0])}:{entry.line[1]})" for entry in entries)
    return NeverAwaited(f"never awaited: {asked}. Write `await` before it, or hand it to `tick.gather`.")


class NeverAwaited(BehaviorError):
    """A crossing was started and never awaited."""


def short(path: str) -> str:
    """Return a file's name without its folders, which differ from machine to machine."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def in_order(entry: Entry) -> tuple[int, ...]:
    """Return what effects are sorted by: their ordinals."""
    assert entry.order is not None
    return entry.order
