"""A journal in a file: `journal.jsonl` in the run's folder, one write and one sync per batch (J1, J6).

In the folder stand, beside it, `journal.lock` while somebody owns the run, and `journal.torn-OFFSET` or
`journal.damaged-OFFSET` for what was cut off at that byte.

Knows: files, folders, syncs.
Does not know: records; `codec.py` finds them in the bytes.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path

import attrs

from society.codec import Scan, beginning_of_last_batch, salvaged, scan
from society.errors import JournalDamaged, JournalError, JournalUnwritable, ResumeRefused
from society.records import AnyRecord
from society.run_lock import RunLock
from society.store import Journal, checked_path, owned

# Not on every system; where it is missing a full sync does the same and a little more.
_sync_data = getattr(os, "fdatasync", os.fsync)


@attrs.frozen
class SetAside:
    """The damaged end of a journal, which is now a file of its own."""

    path: str
    """Where it was put."""
    offset: int
    """Bytes before it in the journal, which are sound."""
    why: str
    """What the damage was."""
    records: list[AnyRecord]
    """What can still be read of it. The actions among them are in doubt."""


class FileStore:
    """A journal in a run's folder, which is made when the store is opened."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = checked_path("FileStore", folder)
        self._file = self.folder / "journal.jsonl"

    @property
    def path(self) -> str:
        return str(self._file)

    def opened(self) -> AbstractAsyncContextManager[tuple[Journal, Scan]]:
        """Own the journal; see `Store.opened`."""
        return owned(self.path, self._own)

    def read(self) -> Scan:
        """Return what stands in the journal; see `Store.read`."""
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            data = b""
        return scan(data, self.path)

    def set_aside(self, offset: int) -> SetAside:
        """Move the damaged last batch into a file of its own, so that the run can be resumed from what is before it.

        Blocks. `offset` is that of the `JournalDamaged` that was seen.

        Raises:
            ResumeRefused: There is no damage at `offset`, or it is not in the last batch.
            RunLocked: Somebody owns the run.
        """
        try:
            return self._set_aside(offset)
        except OSError as error:
            raise JournalUnwritable(self.path, error.strerror or str(error)) from error

    def _set_aside(self, offset: int) -> SetAside:
        with self._lock():
            data = self._file.read_bytes()
            damage = _damage(data, self.path)
            if damage is None or damage.offset != offset:
                where = f"it is at byte {damage.offset}" if damage else "there is none"
                raise ResumeRefused(f"{self.path}: no damage was found at byte {offset}: {where}")
            begins = beginning_of_last_batch(data, damage)
            path = self._cut(begins, data[begins:], "damaged")
        return SetAside(str(path), begins, damage.why, salvaged(data[begins:]))

    def _lock(self) -> RunLock:
        return RunLock(self.folder / "journal.lock", self.folder)

    def _own(self) -> tuple[_OwnedFile, Scan]:
        """Lock, check, cut a torn end off, and open for appending."""
        try:
            _made_durably(self.folder)
            lock = self._lock()
            try:
                found = self.read()
                lock.announce()
                if found.torn is not None:
                    self._cut(found.end, found.data[found.end :], "torn")
                return _OwnedFile(self._appending(found), lock), found
            except JournalError:
                lock.withdraw()
                raise
            except BaseException:  # Ctrl+C too: whoever does not own the run must not look as if
                lock.release()
                raise
        except OSError as error:
            raise JournalUnwritable(self.path, error.strerror or str(error)) from error

    def _cut(self, offset: int, fragment: bytes, what: str) -> Path:
        """Put what stands from `offset` on into a file of its own, then cut it off; return that file's path."""
        # In this order: killed in between, the fragment stands twice, which the next opening mends.
        names = (f"journal.{what}-{offset}{f'.{number}' if number else ''}" for number in count())
        path = next(path for name in names if not (path := self.folder / name).exists())
        with path.open("xb") as side:
            side.write(fragment)
            side.flush()
            os.fsync(side.fileno())
        _sync_folder(self.folder)
        with self._file.open("r+b") as journal:
            journal.truncate(offset)
            os.fsync(journal.fileno())
        return path

    def _appending(self, found: Scan) -> int:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if found.lacks_newline:
                os.write(descriptor, b"\n")
            # What an owner who was killed had written need not be on disk yet, and will now be built upon.
            os.fsync(descriptor)
            _sync_folder(self.folder)
        except BaseException:  # it goes on; the descriptor would outlive it
            os.close(descriptor)
            raise
        return descriptor


@attrs.frozen
class _OwnedFile:
    """The journal's file, open and locked."""

    descriptor: int
    lock: RunLock

    def write(self, batch: list[bytes]) -> None:
        rest = memoryview(b"".join(batch))
        while rest:
            # A full disk takes a part first and says so at the next attempt. What it took reads as torn.
            rest = rest[os.write(self.descriptor, rest) :]
        _sync_data(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)
        self.lock.release()


def _damage(data: bytes, path: str) -> JournalDamaged | None:
    try:
        scan(data, path)
    except JournalDamaged as damage:
        return damage
    return None


def _made_durably(folder: Path) -> None:
    """Make a folder and those above it, so that they are still there after a power loss."""
    if not folder.is_dir():
        _made_durably(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
