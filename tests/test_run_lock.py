from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from society.errors import RunLocked
from society.run_lock import RunLock, alive


def locked(folder: Path) -> RunLock:
    return RunLock(folder / "journal.lock", folder)


def test_a_lock_is_held_until_it_is_released_and_leaves_no_file(tmp_path: Path):
    lock = locked(tmp_path)
    with pytest.raises(RunLocked, match="in use by another process"):
        locked(tmp_path)
    lock.announce()
    with pytest.raises(RunLocked, match=f"process {os.getpid()}, which is this one"):
        locked(tmp_path)
    lock.release()

    assert list(tmp_path.iterdir()) == []
    locked(tmp_path).release()


def test_a_lock_that_is_withdrawn_leaves_the_file_as_it_was_found(tmp_path: Path):
    left_behind = tmp_path / "journal.lock"
    left_behind.write_text("12345\n")

    locked(tmp_path).withdraw()

    assert left_behind.read_text() == "12345\n"


def test_a_dead_holder_is_not_named(tmp_path: Path):
    (tmp_path / "journal.lock").write_text(f"{2**22 + 1}\n")  # beyond the largest number of a process
    lock = locked(tmp_path)

    with pytest.raises(RunLocked, match="in use by another process"):
        locked(tmp_path)
    lock.release()


def test_a_file_taken_away_between_opening_and_locking_it_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else two would own the run: one with the file that is gone, one with the file that stands there."""
    first, flock, calls = locked(tmp_path), fcntl.flock, []

    def flock_after_release(descriptor: int, operation: int) -> None:
        if not calls:
            first.release()
        calls.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_release)
    second = locked(tmp_path)

    with pytest.raises(RunLocked):
        locked(tmp_path)
    second.release()


HOLDER_THAT_DIES = """
import fcntl, os, subprocess, sys

descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
os.write(descriptor, f"{os.getpid()}\\n".encode())
child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], pass_fds=[descriptor])
os.kill(os.getpid(), 9)
"""


def test_a_child_that_a_dead_holder_left_behind_is_given_time_to_let_go(tmp_path: Path):
    """As every fork does, between its beginning and its first own step."""
    path = tmp_path / "journal.lock"
    command = [sys.executable, "-c", HOLDER_THAT_DIES, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdout.readline()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert not alive(holder.pid)  # dead, and not collected yet

    threading.Timer(0.1, holder.stdin.close).start()
    locked(tmp_path).release()
    holder.stdout.close()
    holder.wait()
