"""Where a journal lives, as the engine sees it: a store to open and read, and the journal that its owner appends to.

`put` is plain and immediate, so that a record can be written while being cancelled; `durable` waits until everything
that was put before it is on disk. Whoever waits first writes for all: one batch, one blocking call, one sync. There is
no background task for it that would have to be owned, cancelled and restarted; only a single batch may be written behind
the back of those who need not wait for it (`write_soon`), and closing waits for that one, too.

Knows: batches, and who hears of a write that failed.
Does not know: files and databases; a store's `write` does. It does not know what records mean.
"""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import trio

from society.codec import Scan, encode, sum_of
from society.errors import JournalUnwritable, ResumeRefused, ScenarioError
from society.records import Record

Write = Callable[[list[bytes]], None]
"""Appends lines and returns once they are durable. Blocks. Raises OSError if the disk says no."""


class Store(Protocol):
    """A place for one journal. Making one touches nothing; a store may be opened again after it was closed."""

    @property
    def path(self) -> str:
        """What to call the journal in messages."""

    def opened(self) -> AbstractAsyncContextManager[tuple[Journal, Scan]]:
        """Own the journal: `async with store.opened() as (journal, found)`.

        `found` is what stood there. A torn last record has been cut off and set aside; `found.torn` tells of it.
        Leaving writes what was put and not yet written, also while being cancelled.

        Raises:
            RunLocked: Somebody else owns it. Nothing was touched.
            JournalDamaged: Nothing on disk was changed.
            JournalUnwritable: The disk says no, now or on leaving.
        """

    def read(self) -> Scan:
        """Return what stands in the journal, which somebody else may be writing just now. Blocks; changes nothing.

        A record that is just being written appears as torn. A journal that does not exist is empty.

        Raises:
            JournalDamaged: The chain does not hold.
            OSError: It cannot be read.
        """


class Journal:
    """An open journal: what its one owner appends to."""

    def __init__(self, path: str, last_sum: bytes, write: Write, call: Callable[..., Awaitable[None]]) -> None:
        """`call(write, batch)` runs the blocking `write`: in a thread, or at once where it does not really block."""
        self.path = path
        self.write = write
        self.bytes = 0
        """Put so far by this owner."""
        self.batches = 0
        """Writes so far, one sync each."""
        self._call = call
        self._sum = last_sum
        self._waiting: list[bytes] = []
        self._put = 0
        self._durable = 0
        self._durable_bytes = 0
        self._writing: trio.Event | None = None
        self._failure: BaseException | None = None
        self._closed = False

    def put(self, record: Record) -> None:
        """Append a record. Never blocks: it is durable once a later `durable()` has returned, or the journal is closed.

        Raises:
            JournalUnwritable: An earlier write failed.
        """
        self._refuse_after_failure()
        self._append(encode(record, self._sum, begins_batch=not self._waiting))

    def put_line(self, line: bytes) -> None:
        """Append a line as it stands in another journal that has been the same up to here."""
        self._refuse_after_failure()
        self._append(line)

    @property
    def behind(self) -> int:
        """Bytes that were put and are not known to be durable."""
        return self.bytes - self._durable_bytes

    def write_soon(self) -> None:
        """Begin to write what was put, and do not wait for it. If that fails, the next `put` or `durable` says so."""
        if self._writing is None and self._waiting and self._failure is None:
            # Not a task of the caller's: its nursery would wait for the disk. It ends before `close` does.
            self._writing = trio.Event()
            trio.lowlevel.spawn_system_task(self._write_batch, self._writing, name=f"write {self.path}")

    async def durable(self) -> None:
        """Wait until every record that was put before this call is durable. Those who wait together share a batch.

        Cancelling it gives up the waiting, not the records.

        Raises:
            JournalUnwritable: A write failed, now or earlier. What it left on disk is read like the rest after a crash.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._refuse_after_failure()
        mine = self._put
        while self._durable < mine:
            if self._writing is None:
                self._writing = trio.Event()
                await self._write_batch(self._writing)
            else:
                await self._writing.wait()
            self._refuse_after_failure()

    async def close(self) -> None:
        """Write what is left, and take no more. Bounded by that one write; it goes on while being cancelled.

        A write that the operating system never ends is waited for: giving it up would leave unknown what is on disk.
        """
        self._closed = True
        with trio.CancelScope(shield=True):
            if self._failure is None and (self._waiting or self._writing is not None):
                await self.durable()
            elif self._writing is not None:
                await self._writing.wait()

    @trio.lowlevel.enable_ki_protection
    async def _write_batch(self, done: trio.Event) -> None:
        try:
            # Cancelled half-way, nobody would know what is on disk; so whoever writes for all stays until it is done.
            with trio.CancelScope(shield=True):
                # Two turns for those who were woken together with us: what they put next belongs to this batch.
                await trio.lowlevel.cancel_shielded_checkpoint()
                await trio.lowlevel.cancel_shielded_checkpoint()
                batch, self._waiting = self._waiting, []
                reached, reached_bytes = self._put, self.bytes
                await self._call(self.write, batch)
            self._durable, self._durable_bytes = reached, reached_bytes
            self.batches += 1
        except OSError as error:
            self._failure = JournalUnwritable(self.path, error.strerror or str(error))
            self._failure.__cause__ = error
        except BaseException as error:  # whatever it was, the batch is not known to be on disk: all who wait are told
            self._failure = error
        finally:
            self._writing = None
            done.set()

    @trio.lowlevel.enable_ki_protection  # between these lines Ctrl+C would break the chain
    def _append(self, line: bytes) -> None:
        if self._closed:
            raise RuntimeError(f"{self.path} was closed by its owner")
        self._waiting.append(line)
        self.bytes += len(line)
        self._sum = sum_of(line)
        self._put += 1

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            self._raise_failure(self._failure)

    def _raise_failure(self, failure: BaseException) -> NoReturn:
        # A copy for everyone: several tasks hear of it, and each traceback is its own.
        raise copy.copy(failure) from failure.__cause__


class Owned(Protocol):
    """A journal's storage, in the hands of its one owner."""

    def write(self, batch: list[bytes]) -> None: ...

    def close(self) -> None: ...


@asynccontextmanager
async def owned(path: str, own: Callable[[], tuple[Owned, Scan]]) -> AsyncIterator[tuple[Journal, Scan]]:
    """Own a journal until the end of the block, whatever ends it; see `Store.opened`. `own` runs in a thread."""
    alone = trio.CapacityLimiter(1)  # tools may hold all of trio's shared threads
    storage, found = await trio.to_thread.run_sync(own, limiter=alone)
    journal = Journal(path, found.sum, storage.write, in_thread)
    try:
        yield journal, found
    finally:
        try:
            await journal.close()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(storage.close, limiter=alone)


async def in_thread(write: Write, batch: list[bytes]) -> None:
    """Run a write in a worker thread of its own: tools may hold all of trio's shared ones."""
    await trio.to_thread.run_sync(write, batch, limiter=trio.CapacityLimiter(1))


async def convert(source: Store, target: Store) -> int:
    """Copy a journal into another store, byte for byte; return the number of records. The source is only read.

    Raises:
        ResumeRefused: The target is not empty.
        JournalDamaged: The source is damaged; nothing was copied.
    """
    scan = await trio.to_thread.run_sync(source.read)
    async with target.opened() as (journal, found):
        if len(found):
            raise ResumeRefused(f"{target.path} holds a journal already; convert into an empty store")
        for line in scan.lines():
            journal.put_line(line)
        await journal.durable()
    return len(scan)


def checked_path(what: str, path: Any) -> Path:
    """Return the path that a store was given.

    Raises:
        ScenarioError: It is none; an empty text would be the folder where the program happens to run.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ScenarioError(f'{what}: {path!r} is no path; write {what}("runs/monday"), a text or a pathlib.Path.')
    return Path(path)
