"""A journal in a SQLite database: the same lines as rows, one transaction per batch.

Table `journal(number, line)` holds a line per row, without its newline; `set_aside(byte, line)` what was cut off. The
database is in WAL mode with `synchronous=FULL`: a committed batch survives a power loss, and readers never wait. Beside
the database `PATH` stands `PATH.lock` while somebody owns the run.

Knows: sqlite3.
Does not know: records; `codec.py` finds them in the bytes.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import attrs

from society.codec import Scan, scan
from society.errors import JournalDamaged, JournalError, JournalUnwritable
from society.run_lock import RunLock
from society.store import Journal, checked_path, owned

_TABLES = (
    "CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, line TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS set_aside (byte INTEGER NOT NULL, line TEXT NOT NULL)",
)


class SqliteStore:
    """A journal in the database at `path`, which is made when the store is opened; its folder too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = checked_path("SqliteStore", path)

    @property
    def path(self) -> str:
        return str(self._file)

    def opened(self) -> AbstractAsyncContextManager[tuple[Journal, Scan]]:
        """Own the journal; see `Store.opened`."""
        return owned(self.path, self._own)

    def read(self) -> Scan:
        """Return what stands in the journal; see `Store.read`."""
        if not self._file.exists():
            return scan(b"", self.path)
        # Without a write-ahead log nobody is writing, and SQLite would leave files behind for looking into it.
        alone = "" if Path(f"{self._file}-wal").exists() else "&immutable=1"
        uri = f"{self._file.absolute().as_uri()}?mode=ro{alone}"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                return _scanned(database, self.path)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise JournalDamaged(self.path, 1, 0, f"SQLite cannot read it: {error}") from error

    def _own(self) -> tuple[_OwnedDatabase, Scan]:
        """Lock, check, cut a torn end off, and open for appending."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            lock = RunLock(Path(f"{self._file}.lock"), self._file)
            try:
                found = self.read()  # refuses damage before anything is changed
                lock.announce()
                return _OwnedDatabase(self._appending(found), lock), found
            except JournalError:
                lock.withdraw()
                raise
            except BaseException:  # Ctrl+C too: whoever does not own the run must not look as if
                lock.release()
                raise
        except (OSError, sqlite3.Error) as error:
            raise JournalUnwritable(self.path, str(error)) from error

    def _appending(self, found: Scan) -> sqlite3.Connection:
        # One thread at a time uses it, though not always the same one.
        database = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            for table in _TABLES:
                database.execute(table)
            if found.torn is not None:
                _cut(database, found)
        except BaseException:  # it goes on; the connection would outlive it
            database.close()
            raise
        return database


def _scanned(database: sqlite3.Connection, path: str) -> Scan:
    """Return the rows as if they stood in a file."""
    database.text_factory = bytes
    try:
        rows = database.execute("SELECT line FROM journal ORDER BY number").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        rows = []
    return scan(b"".join(line + b"\n" for (line,) in rows), path)


def _cut(database: sqlite3.Connection, found: Scan) -> None:
    # A transaction is there whole or not at all, so this is no crash of ours; the rule is the same all the same.
    database.execute("BEGIN IMMEDIATE")
    last = "number = (SELECT max(number) FROM journal)"
    database.execute(f"INSERT INTO set_aside SELECT ?, line FROM journal WHERE {last}", (found.end,))
    database.execute(f"DELETE FROM journal WHERE {last}")
    database.execute("COMMIT")


@attrs.frozen
class _OwnedDatabase:
    """The database, open and locked."""

    database: sqlite3.Connection
    lock: RunLock

    def write(self, batch: list[bytes]) -> None:
        lines = [(line.removesuffix(b"\n"),) for line in batch]
        try:
            self.database.execute("BEGIN IMMEDIATE")
            # The cast keeps the bytes and shows them as text to whoever looks into the table.
            self.database.executemany("INSERT INTO journal (line) VALUES (CAST(? AS TEXT))", lines)
            self.database.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(f"SQLite: {error}") from error

    def close(self) -> None:
        self.database.close()
        self.lock.release()
