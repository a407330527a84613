"""An asyncio loop in a thread, for tools that need one: aiohttp, asyncpg and the like.

A host has one, which starts with the first call and ends with the host; so a session or a pool that a tool keeps stays good
from call to call. Context variables travel with a call, cancellations and timeouts reach it. A function that does not end
though it was cancelled is given up after a moment, and keeps its slot until it really ends, like a thread (B4).

Knows: how a call gets into the loop, and its end back into trio.
Does not know: tools, permits, or limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import outcome
import trio

from society.slots import Place

PATIENCE: Final = 1.0
"""Seconds that a cancelled function has to end before it is given up."""


class AsyncioLoop:
    """One asyncio loop, in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    async def call(self, function: Callable[..., Any], place: Place, /, **arguments: Any) -> Any:
        """Call a function inside the loop, await what it returns there, and give what came of it."""
        call = Call(functools.partial(function, **arguments), place)
        # The copy of our context is what the asyncio task gets a copy of in turn.
        self._running().call_soon_threadsafe(call.begin, context=contextvars.copy_context())
        try:
            await call.ended.wait()
        except trio.Cancelled:
            call.cancel()
            with trio.move_on_after(PATIENCE, shield=True):
                await call.ended.wait()
            if not call.ended.is_set():
                call.give_up()
            raise
        assert call.came is not None
        return call.came.unwrap()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(self._loop,), name="society asyncio loop", daemon=True)
                thread.start()
                # When the host is dropped, or the program ends, whichever is first.
                weakref.finalize(self, _end, self._loop, thread)
            return self._loop


class Call:
    """One call, in both loops at once."""

    def __init__(self, function: Callable[[], Any], place: Place) -> None:
        self.ended = trio.Event()
        self.came: outcome.Outcome[Any] | None = None
        self._function = function
        self._place = place
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._is_given_up = False
        self._job: asyncio.Task[None] | None = None

    # ── in the asyncio loop ─────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        with self._lock:
            if self._is_cancelled:
                self._tell()
                return  # cancelled before it began: the function is never called
            self._place.began = True
            self._job = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        # Everything is caught here: a SystemExit would end the loop for all others.
        self.came = await outcome.acapture(self._awaited)
        self._tell()

    async def _awaited(self) -> Any:
        result = self._function()
        return await result if inspect.isawaitable(result) else result

    def _tell(self) -> None:
        with contextlib.suppress(trio.RunFinishedError):  # nobody is there any more who could hear it
            self._token.run_sync_soon(self._told)

    # ── in trio ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            if self._job is not None:
                with contextlib.suppress(RuntimeError):  # the loop was closed: nothing runs in it
                    self._job.get_loop().call_soon_threadsafe(self._job.cancel)

    def give_up(self) -> None:
        if self._place.began:
            self._is_given_up = True
            self._place.give_up()

    def _told(self) -> None:
        self.ended.set()
        if self._is_given_up:
            # What a cancelled function returns, or raises, is no proof of what it did before.
            self._place.came_back(None)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with contextlib.suppress(RuntimeError):  # closed already
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(2 * PATIENCE)
