"""A store that crashes at its n-th write, for tests of what a run makes of it.

Knows: writes, and how much of one reaches the disk.
Does not know: what is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from society.codec import Scan
from society.memory_store import MemoryStore
from society.sqlite_store import SqliteStore
from society.store import Journal, Store, Write


class Crash(BaseException):
    """The process died, as far as its store is concerned. No `except Exception` swallows it."""


class FailingStore:
    """A store whose n-th write fails; later ones fail too. A write is a batch: what became durable together.

    Args:
        n: Number of the write that fails, from 1, counted over all openings. With more than there are, none fails.
        store: Where it writes; a `MemoryStore` of its own if left out.
        point: `before`: nothing of the write reaches the store. `inside`: the given part of its bytes does, and none
            with a `SqliteStore`, whose writes are there whole or not at all. `after`: all of it does, and nobody is
            told.
        part: How much `inside` lets through, from 0 to 1.
        error: What is raised instead of `Crash`. An OSError becomes `JournalUnwritable`, as from a full disk.
    """

    def __init__(
        self,
        n: int,
        *,
        store: Store | None = None,
        point: Literal["before", "inside", "after"] = "before",
        part: float = 0.5,
        error: BaseException | None = None,
    ) -> None:
        self.n = n
        self.writes = 0
        """Writes so far, the failed one included."""
        self.failed = False
        self._store = MemoryStore() if store is None else store
        self._point = point
        self._part = part
        self._error = Crash(f"{point} write {n}") if error is None else error

    @property
    def path(self) -> str:
        return self._store.path

    def survivor(self) -> Store:
        """Return the store with what is on disk after the crash, to resume from."""
        return self._store

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Journal, Scan]]:
        """Own the journal; see `Store.opened`."""
        async with self._store.opened() as (journal, found):
            journal.write = self._failing(journal.write)
            yield journal, found

    def read(self) -> Scan:
        """Return what stands in the journal; see `Store.read`."""
        return self._store.read()

    def _failing(self, write: Write) -> Write:
        def fails_at_n(batch: list[bytes]) -> None:
            if self.failed:
                raise self._error
            self.writes += 1
            if self.writes < self.n:
                write(batch)
                return
            self.failed = True
            if reaching := self._reaching(batch):
                write(reaching)
            raise self._error

        return fails_at_n

    def _reaching(self, batch: list[bytes]) -> list[bytes]:
        """Return what of the failing write reaches the store."""
        if self._point == "after":
            return batch
        if self._point == "before" or isinstance(self._store, SqliteStore):
            return []
        data = b"".join(batch)
        return [data[: int(len(data) * self._part)]]
