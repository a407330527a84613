"""An entry: one crossing of a tick, from being asked for to its end.

Knows: the ordinal, the line it was asked for on, and whether it has begun.
Does not know: what is crossed to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from society.errors import BehaviorError, is_closing

if TYPE_CHECKING:
    from society.tick import Tick

_current_task: Final = trio.lowlevel.current_task


class Entry:
    """One crossing of a tick, from being asked for to its end."""

    __slots__ = (
        "asks",
        "at",
        "begun",
        "coroutine",
        "done",
        "has_lane",
        "holds",
        "line",
        "order",
        "outer",
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
        self.asks = False
        """It may ask the model, nobody knows how often; later calls of its agent have their numbers after it."""
        self.has_lane = False
        """It runs code that makes crossings of its own, in a lane."""
        self.outer: Entry | None = None
        """The crossing in whose task it was begun."""
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
        task = _current_task()
        if _under_way:
            check_not_inside(root, self.what)
            self.outer = _under_way.get(task)
        self.begun, self.task, _under_way[task] = True, task, self

    def end(self) -> None:
        root = self.tick.root
        if self in root.entries:
            root.entries.remove(self)
        if self.outer is not None:
            _under_way[self.task] = self.outer
        else:
            _under_way.pop(self.task, None)
        if self.tick._joined:
            self.tick.takes_over()
        self.holds = False
        if self.done is not None:
            self.done.set()
        if trio.current_effective_deadline() == float("-inf"):
            root.left = (*root.left, (trio.current_time(), self))


_under_way: Final[dict[Any, Entry]] = {}
"""By task, the crossing that was begun in it last."""


def check_not_inside(root: Tick, what: str) -> None:
    """Refuse a crossing that a tool, sensor or person makes of the tick that waits for it.

    It might wait for the slot that its caller holds, and on resume, when its caller is served, nobody would ask for it.

    Raises:
        BehaviorError: This task is inside a crossing of the same tick.
    """
    other = _under_way.get(_current_task())
    while other is not None:
        if other.tick.root is root and not other.has_lane:
            raise BehaviorError(
                f"{what} was called from inside {other.what} of the same tick, which waits for it. "
                "Tools cannot call tools; use a sub-agent."
            )
        other = other.outer


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


async def gathered(crossings: Sequence[Awaitable[Any]]) -> list[Any]:
    """Make several crossings at once; all run to their end. If some raise, the first of them in order is raised then."""
    results: list[Any] = [None] * len(crossings)
    errors: dict[int, BaseException] = {}

    async def one(place: int, crossing: Awaitable[Any]) -> None:
        try:
            results[place] = await crossing
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever one of them raises is its result; the others go on (P02)
            if is_closing(error):
                raise
            errors[place] = error

    async with trio.open_nursery() as nursery:
        for place, crossing in enumerate(crossings):
            nursery.start_soon(one, place, crossing)
    if errors:
        raise errors[min(errors)]
    return results
