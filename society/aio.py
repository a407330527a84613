"""Societies inside an asyncio program: a web server, a notebook. Trio runs as a guest of the loop that is there.

    result = await society.aio.run(town, 6)

A thread can be host to one trio run at a time. So all societies of one asyncio loop share one, which begins with the first
and ends with the last; each of them is a task of it, and they run at once.

Knows: trio's guest mode, and how a cancellation travels from asyncio.
Does not know: what a society does.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import outcome
import trio

from society.errors import SocietyError, leaves


async def run(town: Any, max_ticks: int) -> Any:
    """Bring a society on to round `max_ticks`, as `await town.run(max_ticks)` does in a trio program.

    Cancelling the asyncio task cancels the run as the surrounding scope would: no further crossing starts, calls in flight are
    cancelled, its journal is closed, it can be resumed (J10).
    """
    return await call(town.run, max_ticks)


async def call(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Await a trio function inside an asyncio program; gives what it returned.

    Raises:
        asyncio.CancelledError: This asyncio task was cancelled, and the function has ended.
        SocietyError: No asyncio loop runs here.
        KeyboardInterrupt: Ctrl+C reached trio, since asyncio does not handle it here; the function was cancelled, and has ended.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise SocietyError(
            "society.aio is for asyncio programs, and no asyncio loop runs here; in a trio program, await the function itself."
        ) from None
    guest = _guests.get(loop)
    while guest is not None and guest.is_leaving:
        await asyncio.wait([guest.left])
        guest = _guests.get(loop)
    if guest is None:
        guest = _guests[loop] = Guest(loop)
        guest.enter()
    job = Job(function, args, loop.create_future(), contextvars.copy_context())
    guest.take(job)
    cancelled: asyncio.CancelledError | None = None
    # The last one waits for trio to leave, too: once nobody is here, the loop may be closed at any time.
    while not job.ended.done() or (guest.is_leaving and not guest.left.done()):
        try:
            await asyncio.wait([guest.left if job.ended.done() else job.ended])
        except asyncio.CancelledError as error:
            cancelled = error
            guest.soon(job.scope.cancel)
    if not job.ended.cancelled():
        job.ended.exception()  # it was looked at: asyncio need not complain
    if guest.is_interrupted:
        raise KeyboardInterrupt
    if cancelled is not None:
        raise cancelled
    return job.ended.result()


@attrs.define(eq=False)
class Job:
    """One function on its way through trio, and the future that tells its end to asyncio."""

    function: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    ended: asyncio.Future[Any]
    context: contextvars.Context
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    async def work(self) -> None:
        came: outcome.Outcome[Any] = outcome.Error(asyncio.CancelledError())
        try:
            with self.scope:
                try:
                    came = outcome.Value(await self.function(*self.args))
                except trio.Cancelled:
                    raise
                except BaseException as error:  # it is told to whoever awaits it, and to nobody else
                    if all(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
                        raise
                    came = outcome.Error(error)
        finally:
            if not self.ended.done():
                self._tell(came)

    def _tell(self, came: outcome.Outcome[Any]) -> None:
        match came:
            case outcome.Value():
                self.ended.set_result(came.value)
            case outcome.Error(error) if isinstance(error, asyncio.CancelledError):
                self.ended.cancel()
            case outcome.Error(error):
                self.ended.set_exception(error)


class Guest:
    """The trio run of one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.left: asyncio.Future[None] = loop.create_future()
        self.is_leaving = False
        self.is_interrupted = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._waiting: list[Callable[[], object]] = []
        self._jobs = 0

    def enter(self) -> None:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._in_loop,
            done_callback=self._leave,
            host_uses_signal_set_wakeup_fd=True,
            strict_exception_groups=True,
        )

    def take(self, job: Job) -> None:
        self._jobs += 1
        self.soon(lambda: job.context.run(self._start, job))

    def soon(self, act: Callable[[], object]) -> None:
        """Do something inside the trio run, as soon as it is there."""
        if self._token is None:
            self._waiting.append(act)
        else:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(act)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(trio.sleep_forever)  # until the last job ends
            for act in self._waiting:
                act()

    def _start(self, job: Job) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._work, job, name=job.function)

    async def _work(self, job: Job) -> None:
        try:
            await job.work()
        finally:
            self._jobs -= 1
            if self._nursery is not None and (not self._jobs or self._nursery.cancel_scope.cancel_called):
                self.is_leaving = True
                self._nursery.cancel_scope.cancel()

    def _in_loop(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _leave(self, came: outcome.Outcome[Any]) -> None:
        del _guests[self._loop]
        self.is_interrupted = isinstance(came, outcome.Error) and any(
            isinstance(leaf, KeyboardInterrupt) for leaf in leaves(came.error)
        )
        if isinstance(came, outcome.Error) and not self.is_interrupted:
            self._loop.call_exception_handler({"message": "the trio run of society.aio broke", "exception": came.error})
        self.left.set_result(None)


_guests: WeakKeyDictionary[asyncio.AbstractEventLoop, Guest] = WeakKeyDictionary()
"""By asyncio loop, the trio run that is its guest."""
