"""A journal in memory: the same lines as on disk, for tests and for runs that need not outlive the process.

Knows: bytes.
Does not know: files. What it holds is gone with the process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from society.codec import Scan, scan
from society.errors import RunLocked
from society.store import Journal, Write


class MemoryStore:
    """A journal in memory. A second society of the same process can go on from it."""

    path = "memory"
    forgets = True
    """It ends with the process, so what it holds need not be found again by another one."""

    def __init__(self, data: bytes = b"") -> None:
        """`data` is a journal as it stands in a file."""
        self._data = bytearray(data)
        self._owned = False
        self.set_aside: list[tuple[int, bytes]] = []
        """(offset, fragment) of each torn record that was cut off."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Journal, Scan]]:
        """Own the journal; see `Store.opened`."""
        if self._owned:
            raise RunLocked(self.path, "another society of this process")
        found = self.read()
        self._owned = True
        try:
            if found.torn is not None:
                self.set_aside.append((found.torn.offset, bytes(self._data[found.end :])))
                del self._data[found.end :]
            if found.lacks_newline:
                self._data += b"\n"
            journal = Journal(self.path, found.sum, self._write, _at_once)
            try:
                yield journal, found
            finally:
                await journal.close()
        finally:
            self._owned = False

    def read(self) -> Scan:
        """Return what stands in the journal; see `Store.read`."""
        return scan(bytes(self._data), self.path)

    def _write(self, batch: list[bytes]) -> None:
        self._data += b"".join(batch)


async def _at_once(write: Write, batch: list[bytes]) -> None:
    write(batch)
