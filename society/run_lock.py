"""The lock of a run: one process owns it at a time, and the operating system drops it with the process (P51).

The lock is a `flock` on a file that stands beside the journal while somebody owns the run. What counts is the lock, not
the file: one that a killed process left behind stops nobody. The number in it is for the message alone.

Knows: who holds a lock, and how to give it back without a trace.
Does not know: journals.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from pathlib import Path
from typing import Final, Self

from society.errors import RunLocked

PATIENCE: Final = 1.0
"""Seconds for which a lock is asked for again whose holder is dead: its children may be about to let go of it."""

_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLock:
    """A lock that is held from the moment it is made until `release`.

    Raises:
        RunLocked: Another process has it, or another owner in this one.
        OSError: The file cannot be made, or its file system knows no locks.
    """

    def __init__(self, path: Path, run: Path) -> None:
        """`path` is the lock's file, `run` what the error calls in use."""
        self._path = path
        self._found = path.exists()
        self._descriptor = _locked(path, run)
        _held.add(self)

    def announce(self) -> None:
        """Write down who holds the lock. Until then nothing on disk has changed, and `withdraw` keeps it so."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def withdraw(self) -> None:
        """Give the lock back, leaving the file as it was found: the run was refused."""
        if not self._found:
            self._path.unlink(missing_ok=True)
        self._forget()

    def release(self) -> None:
        """Give the lock back, and take its file away."""
        # Before the lock goes: whoever opened this file just now sees, once it has the lock, that the file is gone.
        self._path.unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        os.close(self._descriptor)
        _held.discard(self)

    def _leave_to_parent(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.release()
        else:
            self.withdraw()


def _locked(path: Path, run: Path) -> int:
    """Return a descriptor that holds the lock of the file that stands at `path`."""
    until = time.monotonic() + PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _stands_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            holder = _holder(descriptor)
            if holder is None and time.monotonic() < until:
                time.sleep(0.01)
            else:
                os.close(descriptor)
                raise RunLocked(str(run), holder or "another process") from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner took the file away between our opening and our locking it, or is about to go


def _stands_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str | None:
    """Return whom to name; nobody when the process in the file is dead, or a new owner is not announced yet."""
    number = os.pread(descriptor, 20, 0).strip()
    if not number.isdigit() or not alive(int(number)):
        return None
    return f"process {int(number)}" + (", which is this one" if int(number) == os.getpid() else "")


def alive(process: int) -> bool:
    """Whether a process of this number runs. One that is dead and only waits to be collected does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return True  # an operating system that does not tell
    return state not in (b"Z", b"X")


def _leave_locks_to_parent() -> None:
    for lock in list(_held):
        lock._leave_to_parent()
    _held.clear()


# A forked child shares its parent's locks; without this it would keep them when the parent is killed.
os.register_at_fork(after_in_child=_leave_locks_to_parent)
