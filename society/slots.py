"""Slots: places among the calls in flight at one boundary, for the whole society (B1–B4).

Over the bound a call waits its turn, first come first served. A place is given back when its call has really ended: a
worker thread that was given up after a timeout keeps its place until it returns.

Knows: how many places there are, who waits, and which places are held by threads that were given up.
Does not know: what is called.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

import outcome
import trio

from society.errors import SocietyError
from society.limits import Limits
from society.width import SharedWidth

THREADS: Final = 1_000
"""Worker threads at once at a boundary without a bound; one more waits within its own timeout."""


class AllGivenUp(SocietyError):
    """Every place is held by a thread that was given up; the call was never sent."""


class Slots:
    """The places of one boundary, and what `stats` tells of them."""

    def __init__(self, bound: int | None) -> None:
        self.bound = math.inf if bound is None else bound
        self.in_flight = 0
        self.given_up = 0
        """Places held by threads that nobody waits for any more."""
        self.calls = 0
        self.queued = 0
        """Calls that had to wait for a place."""
        self.max_in_flight = 0
        self.threads = trio.CapacityLimiter(THREADS if bound is None else bound)
        self._waiting: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()
        self._unheard: deque[tuple[Place, outcome.Outcome[Any]]] = deque()

    def begin(self) -> None:
        """Begin a run: threads that ended when no event loop was there to hear of it give their places back now."""
        self.threads = trio.CapacityLimiter(THREADS if math.isinf(self.bound) else self.bound)
        while self._unheard:
            place, result = self._unheard.popleft()
            place.came_back(result)

    def ended_unheard(self, place: Place, result: outcome.Outcome[Any]) -> None:
        """Keep what came back when its event loop had ended. Called from worker threads."""
        self._unheard.append((place, result))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self) -> Place:
        """Return a place, after waiting for one if need be.

        Raises:
            AllGivenUp: No place will come free: all are held by threads that were given up.
        """
        self.calls += 1
        if self.in_flight < self.bound and not self._waiting:
            return self._take()
        if self.given_up >= self.bound:
            raise AllGivenUp(
                "all places are held by calls that were given up and have not ended; this call was never sent"
            )
        self.queued += 1
        task = trio.lowlevel.current_task()
        self._waiting[task] = None

        def abort(_: Any) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        # The place is taken for us by whoever wakes us, so nobody can step in between.
        return await trio.lowlevel.wait_task_rescheduled(abort)  # type: ignore[no-any-return]

    def _take(self) -> Place:
        self.in_flight += 1
        if self.in_flight > self.max_in_flight:
            self.max_in_flight = self.in_flight
        return Place(self)

    def _put_back(self) -> None:
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.bound:
            task, _ = self._waiting.popitem(last=False)
            trio.lowlevel.reschedule(task, outcome.Value(self._take()))

    def _give_up(self) -> None:
        self.given_up += 1
        if self.given_up >= self.bound:
            gone = AllGivenUp(
                "all places are held by calls that were given up and have not ended; this call was never sent"
            )
            while self._waiting:
                task, _ = self._waiting.popitem(last=False)
                trio.lowlevel.reschedule(task, outcome.Error(gone))

    def resize(self, bound: int | None) -> None:
        """Change the bound; those who wait get places that came free. Calls in flight are not touched."""
        self.bound = math.inf if bound is None else bound
        self.threads.total_tokens = THREADS if bound is None else bound
        self.in_flight += 1
        self._put_back()

    def stats(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "queued": self.queued,
            "waiting": self.waiting,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "given_up": self.given_up,
        }


class Place:
    """One place that is held. `release` gives it back, unless a thread that was given up still works in it."""

    __slots__ = ("_in_thread", "_slots", "began", "interruptible", "on_late")

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots
        self._in_thread = False
        self.began = False
        """The function that was called has begun to run: from now on it may have had its effect."""
        self.interruptible = True
        """Whether a cancellation reaches the function. It does not reach plain ones, so what these return is proof."""
        self.on_late: Callable[[outcome.Outcome[Any]], None] | None = None
        """Called in the event loop with what comes back from a thread that was given up."""

    def release(self) -> None:
        if self._slots is not None and not self._in_thread:
            slots, self._slots = self._slots, None
            slots._put_back()

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Run a plain function in a worker thread. When cancelled, the thread is given up and keeps this place."""
        assert self._slots is not None
        slots = self._slots
        self.interruptible = False
        token = trio.lowlevel.current_trio_token()
        lock = threading.Lock()
        given_up = False
        came: outcome.Outcome[Any] | None = None

        def work() -> outcome.Outcome[Any] | None:
            nonlocal came
            with lock:
                if given_up:
                    return None  # given up before it began: the function is never called
                self.began = True
            result: outcome.Outcome[Any] = outcome.capture(functools.partial(function, *args, **named))
            with lock:
                came = result
                late = given_up
            if not late:
                return result  # unwrapped outside: what a plain function returns may be something to await
            try:
                token.run_sync_soon(self.came_back, result)
            except trio.RunFinishedError:
                slots.ended_unheard(self, result)
            return None

        try:
            ended = await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._slots.threads)
        except trio.Cancelled:
            with lock:
                given_up = True
                began, result = self.began, came
            if began and self._slots is not None:
                self.give_up()
                if result is not None:
                    self.came_back(result)
            raise
        assert ended is not None
        return ended.unwrap()

    def give_up(self) -> None:
        """Note that nobody waits any more for what runs here; it keeps this place until it has come back."""
        assert self._slots is not None
        self._in_thread = True
        self._slots._give_up()

    def came_back(self, result: outcome.Outcome[Any] | None) -> None:
        """Take what was given up and has ended, in the event loop; with its result, where that is proof of anything."""
        assert self._slots is not None
        slots, self._slots = self._slots, None
        slots.given_up -= 1
        slots._put_back()
        if self.on_late is not None and result is not None:
            self.on_late(result)


class Boundaries:
    """The places of all boundaries of one society, for its whole life: a thread that was given up in one call of `run`
    keeps its place in the next."""

    def __init__(self, limits: Limits) -> None:
        self.tools = Slots(limits.max_concurrent_tools)
        self.llm = Slots(limits.max_concurrent_llm)
        self.width = SharedWidth(self.llm)
        self.reads = Slots(limits.max_concurrent_reads)
        self.human = Slots(None)
        self.subagents = Slots(None)
        self.unheard: list[Any] = []
        """Proof that came back while no run was open, as records."""

    def begin(self) -> None:
        for slots in (self.tools, self.llm, self.reads, self.human, self.subagents):
            slots.begin()
        self.width.begin()

    def stats(self) -> dict[str, dict[str, int]]:
        return {
            "tools": self.tools.stats(),
            "llm": self.llm.stats(),
            "reads": self.reads.stats(),
            "human": self.human.stats(),
        }
