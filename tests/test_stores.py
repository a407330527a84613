"""The three stores and the journal that an owner holds, with real files, threads and processes."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from journals import intent, lines_of, result, started, ten_records

from society import file_store
from society.codec import scan
from society.errors import JournalDamaged, JournalUnwritable, ResumeRefused, RunLocked, ScenarioError
from society.file_store import FileStore
from society.memory_store import MemoryStore
from society.records import AnyRecord, Intent
from society.sqlite_store import SqliteStore
from society.store import Store, convert
from society.testing.failing_store import Crash, FailingStore

pytestmark = pytest.mark.trio

TEN = b"".join(lines_of(ten_records()))

KINDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "file": lambda folder: FileStore(folder / "run"),
    "sqlite": lambda folder: SqliteStore(folder / "run" / "journal.db"),
}
each_store = pytest.mark.parametrize("kind", KINDS)
each_disk = pytest.mark.parametrize("kind", ["file", "sqlite"])


def contents(store: Store) -> bytes:
    return b"".join(store.read().lines())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def folder_with(tmp_path: Path, data: bytes) -> FileStore:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_bytes(data)
    return FileStore(tmp_path / "run")


async def write(store: Store, *records: AnyRecord) -> None:
    async with store.opened() as (journal, _):
        for record in records:
            journal.put(record)
            await journal.durable()


# What all stores have in common


@each_store
async def test_a_new_store_is_empty_and_making_one_touches_nothing(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)

    assert len(store.read()) == 0
    assert list(tmp_path.iterdir()) == []


@each_store
async def test_what_was_written_is_found_by_the_next_owner_and_by_readers(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    await write(store, *ten_records()[:6])

    async with store.opened() as (journal, found):
        assert list(found.records()) == ten_records()[:6]
        for record in ten_records()[6:]:
            journal.put(record)

    assert list(store.read().records()) == ten_records()


async def test_all_stores_hold_the_same_bytes(tmp_path: Path):
    held = []
    for kind in KINDS:
        store = KINDS[kind](tmp_path / kind)
        await write(store, *ten_records()[:4])
        async with store.opened() as (journal, _):
            for record in ten_records()[4:8]:
                journal.put(record)
            await journal.durable()
            journal.put(ten_records()[8])
        held.append(contents(store))

    assert held[0] == held[1] == held[2]
    assert [line[38:39] for line in held[0].splitlines()] == [b"1"] * 4 + [b"1", b"0", b"0", b"0", b"1"]


@pytest.mark.parametrize("store", [FileStore, SqliteStore])
@pytest.mark.parametrize("path", [3, None, "", b"", b"runs"])
async def test_what_is_no_path_is_refused_with_what_to_write(store: type, path: object):
    with pytest.raises(ScenarioError, match=f"{store.__name__}.* is no path; write {store.__name__}"):
        store(path)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
async def test_a_journal_is_converted_byte_for_byte(source: str, target: str, tmp_path: Path):
    old, new = KINDS[source](tmp_path / "old"), KINDS[target](tmp_path / "new")
    await write(old, *ten_records())

    assert await convert(old, new) == 10

    assert contents(new) == contents(old)
    async with new.opened() as (journal, _):
        journal.put(intent(5))
    assert len(new.read()) == 11
    with pytest.raises(ResumeRefused, match="holds a journal already"):
        await convert(old, new)


@each_store
async def test_a_second_owner_is_refused_and_a_reader_is_not(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    async with store.opened() as (journal, _):
        journal.put(started())
        await journal.durable()

        with pytest.raises(RunLocked, match="in use by"):
            await write(store if kind == "memory" else KINDS[kind](tmp_path), intent())

        assert list(store.read().records()) == [started()]
    await write(store, intent())
    assert len(store.read()) == 2


@each_store
async def test_leaving_writes_what_was_put_even_while_being_cancelled(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    with trio.CancelScope() as scope:
        async with store.opened() as (journal, _):
            journal.put(started())
            scope.cancel()
            journal.put(intent())
            await journal.durable()
            raise AssertionError("not reached")

    assert scope.cancelled_caught
    assert list(store.read().records()) == [started(), intent()]


@each_store
async def test_giving_up_the_waiting_does_not_give_up_the_record(kind: str, tmp_path: Path):
    """J1: those who wait for the same batch, the one who writes it too, are cancelled in all orders."""
    store = KINDS[kind](tmp_path)
    async with store.opened() as (journal, _):
        for round in range(5):

            async def put(number: int, scope: trio.CancelScope) -> None:
                with scope:
                    journal.put(intent(number))
                    await journal.durable()

            async with trio.open_nursery() as nursery:
                scopes = [trio.CancelScope() for _ in range(8)]
                for number, scope in enumerate(scopes):
                    nursery.start_soon(put, round * 8 + number, scope)
                await trio.lowlevel.checkpoint()
                for scope in scopes[::2]:
                    scope.cancel()
        journal.put(result())
        await journal.durable()
        seen = list(store.read().records())

    assert {record.at for record in seen if isinstance(record, Intent)} == {str(number) for number in range(40)}
    assert seen[-1] == result()


@each_store
async def test_a_closed_journal_takes_nothing(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    async with store.opened() as (journal, _):
        pass

    with pytest.raises(RuntimeError, match="closed"):
        journal.put(started())


@each_store
async def test_records_of_two_hundred_thousand_bytes(kind: str, tmp_path: Path):
    """P51."""
    store = KINDS[kind](tmp_path)
    big = [result(number, value="é" * 100_000) for number in range(5)]
    await write(store, *big)

    assert list(store.read().records()) == big


# Torn and damaged


@pytest.mark.parametrize("newline", [b"", b"\n"])
async def test_a_torn_end_is_set_aside_before_anything_is_appended(newline: bytes, tmp_path: Path):
    """P49."""
    store = folder_with(tmp_path, TEN[:-7] + newline)
    offset = len(b"".join(lines_of(ten_records())[:9]))

    async with store.opened() as (journal, found):
        assert list(found.records()) == ten_records()[:9]
        assert found.torn is not None and f"at byte {offset}" in str(found.torn)
        journal.put(ten_records()[9])

    assert list(store.read().records()) == ten_records()
    assert files(store.folder).keys() == {"journal.jsonl", f"journal.torn-{offset}"}
    assert (store.folder / f"journal.torn-{offset}").read_bytes() == TEN[offset:-7] + newline


async def test_a_second_fragment_at_the_same_place_does_not_overwrite_the_first(tmp_path: Path):
    store = folder_with(tmp_path, TEN[:20])
    await write(store)
    (store.folder / "journal.jsonl").write_bytes(TEN[:30])
    await write(store)

    assert {name: len(data) for name, data in files(store.folder).items()} == {
        "journal.jsonl": 0,
        "journal.torn-0": 20,
        "journal.torn-0.1": 30,
    }


async def test_a_last_record_without_its_newline_is_whole(tmp_path: Path):
    """P49."""
    store = folder_with(tmp_path, TEN[:-1])
    await write(store, intent(5))

    assert list(store.read().records()) == [*ten_records(), intent(5)]
    assert files(store.folder).keys() == {"journal.jsonl"}


async def test_every_cut_of_a_file_reopens_and_goes_on(tmp_path: Path):
    data = b"".join(lines_of(ten_records()[:3]))
    store = folder_with(tmp_path, data)
    for cut in range(0, len(data) + 1, 7):
        (store.folder / "journal.jsonl").write_bytes(data[:cut])
        await write(store, intent(5))
        found = store.read()
        assert found.torn is None and found.record(len(found) - 1) == intent(5)


@pytest.mark.parametrize("stale_lock", [False, True])
async def test_damage_is_refused_and_nothing_on_disk_is_changed(stale_lock: bool, tmp_path: Path):
    """J6."""
    for at in range(0, len(TEN), 101):
        flipped = TEN[:at] + bytes([TEN[at] ^ 1]) + TEN[at + 1 :]
        store = folder_with(tmp_path / str(at), flipped) if (tmp_path / str(at)).mkdir() is None else None
        assert store is not None
        if stale_lock:
            (store.folder / "journal.lock").write_bytes(b"99999999\n")
        before = files(store.folder)

        with pytest.raises(JournalDamaged, match=r"record \d+ at byte \d+"):
            await write(store, intent())

        assert files(store.folder) == before


async def test_the_damaged_last_batch_is_set_aside_on_request(tmp_path: Path):
    """J6: records 7-9 were the last batch; its second one is damaged."""
    lines = lines_of(ten_records()[:9])
    begins, at = (len(b"".join(lines[:count])) for count in (6, 7))
    data = b"".join(lines)
    store = folder_with(tmp_path, data[: at + 90] + b"\0" * 20 + data[at + 110 :])
    with pytest.raises(JournalDamaged) as damage:
        store.read()

    aside = store.set_aside(damage.value.offset)

    assert (aside.offset, aside.records) == (begins, [ten_records()[6], ten_records()[8]])
    assert Path(aside.path).read_bytes() == data[begins : at + 90] + b"\0" * 20 + data[at + 110 :]
    assert list(store.read().records()) == ten_records()[:6]
    await write(store, intent(5))
    assert len(store.read()) == 7


async def test_nothing_is_set_aside_but_the_damage_that_was_seen_at_the_end(tmp_path: Path):
    flipped = TEN[:300] + b"\0" + TEN[301:]
    store = folder_with(tmp_path, flipped)

    with pytest.raises(ResumeRefused, match="not in the last batch"):
        store.set_aside(230)
    with pytest.raises(ResumeRefused, match="it is at byte 230"):
        store.set_aside(5)

    assert files(store.folder) == {"journal.jsonl": flipped}


async def test_a_changed_row_is_damage(tmp_path: Path):
    store = SqliteStore(tmp_path / "j.db")
    await write(store, *ten_records())
    with sqlite3.connect(tmp_path / "j.db") as database:
        database.execute("DELETE FROM journal WHERE number = 5")
    database.close()

    with pytest.raises(JournalDamaged, match="record 5"):
        await write(store)
    assert files(tmp_path).keys() == {"j.db"}


async def test_a_database_that_is_none_is_damage(tmp_path: Path):
    (tmp_path / "j.db").write_bytes(b"hello" * 500)

    with pytest.raises(JournalDamaged, match="not a database"):
        SqliteStore(tmp_path / "j.db").read()


@each_disk
async def test_reading_changes_nothing_on_disk(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    await write(store, *ten_records())
    before = files(tmp_path / "run")

    assert len(store.read()) == 10

    assert files(tmp_path / "run") == before
    assert len(before) == 1  # and neither does an owner leave anything behind


# Group commit


@pytest.mark.parametrize("kind, name", [("file", "_sync_data"), ("sqlite", None), ("memory", None)])
async def test_five_hundred_tasks_share_their_syncs(
    kind: str, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    syncs = 0

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        os.fdatasync(descriptor)

    monkeypatch.setattr(file_store, "_sync_data", counted)
    store = KINDS[kind](tmp_path)
    async with store.opened() as (journal, _):

        async def agent(number: int) -> None:
            for ordinal in range(20):
                journal.put(intent(ordinal, agent=f"a{number}"))
                await journal.durable()

        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(agent, number)

    assert len(store.read()) == 10_000
    assert journal.batches < 1000
    if kind == "file":
        assert syncs == journal.batches


async def test_durable_means_that_it_stands_in_the_file(tmp_path: Path):
    store = FileStore(tmp_path)
    async with store.opened() as (journal, _):
        for number in range(20):
            journal.put(intent(number))
            assert len(store.read()) == number
            await journal.durable()
            assert len(store.read()) == number + 1


async def test_new_folders_and_files_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[Path] = []
    monkeypatch.setattr(file_store, "_sync_folder", synced.append)

    await write(FileStore(tmp_path / "runs" / "first"))

    assert synced == [tmp_path, tmp_path / "runs", tmp_path / "runs" / "first"]


# A disk that says no


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 kB. Without leave to mount one, the tests that need it are skipped."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_stops_the_run_and_space_lets_it_go_on(small_disk: Path):
    """P59."""
    (small_disk / "ballast").write_bytes(b"x" * 4096)
    store = FileStore(small_disk / "run")
    durable = 0

    with pytest.raises(JournalUnwritable, match=r"journal.jsonl: cannot be written: No space left on device"):
        async with store.opened() as (journal, _):
            for number in range(1000):
                journal.put(intent(number, text="x" * 300))
                await journal.durable()
                durable += 1
    assert durable > 5
    assert len(store.read()) >= durable and store.read().torn is not None

    (small_disk / "ballast").unlink()
    async with store.opened() as (journal, found):
        assert len(found) >= durable
        journal.put(result())
    assert store.read().torn is None


@each_store
async def test_a_failed_write_is_told_to_everyone_who_waits_and_to_whoever_writes_later(kind: str, tmp_path: Path):
    full = OSError(errno.ENOSPC, "No space left on device")
    store = FailingStore(2, store=KINDS[kind](tmp_path), point="inside", error=full)
    told = 0
    async with store.opened() as (journal, _):
        journal.put(started())
        await journal.durable()

        async def put(number: int) -> None:
            nonlocal told
            journal.put(intent(number))
            with pytest.raises(JournalUnwritable, match="No space left on device") as caught:
                await journal.durable()
            assert caught.value.__cause__ is full
            told += 1

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(put, number)
        assert told == 10
        with pytest.raises(JournalUnwritable):
            journal.put(intent())
        with pytest.raises(JournalUnwritable):
            await journal.durable()

    survivor = store.survivor()
    await write(survivor, result())
    kinds = survivor.read().kinds
    assert kinds[0] == "start" and kinds[-1] == "result" and len(kinds) < 12


async def test_what_cannot_be_written_on_leaving_is_told(tmp_path: Path):
    store = FailingStore(1, error=OSError(errno.EIO, "Input/output error"))

    with pytest.raises(JournalUnwritable, match="Input/output error"):
        async with store.opened() as (journal, _):
            journal.put(started())


@each_disk
async def test_a_folder_that_cannot_be_made_is_told_with_its_path(kind: str, tmp_path: Path):
    (tmp_path / "run").write_text("a file")

    with pytest.raises(JournalUnwritable, match="run"):
        await write(KINDS[kind](tmp_path))


# Crashes


@each_store
@pytest.mark.parametrize("point", ["before", "inside", "after"])
async def test_a_crash_leaves_what_a_disk_would_hold(kind: str, point: str, tmp_path: Path):
    for n in range(1, 11):
        store = FailingStore(n, store=KINDS[kind](tmp_path / str(n)), point=point)  # type: ignore[arg-type]

        with pytest.raises(Crash):
            await write(store, *ten_records())

        assert store.failed and store.writes == n
        found = store.survivor().read()
        assert len(found) == (n if point == "after" else n - 1)
        assert (found.torn is not None) == (point == "inside" and kind != "sqlite")
        await write(store.survivor(), intent(5))
        assert len(store.survivor().read()) == len(found) + 1


async def test_after_a_crash_every_write_is_refused_and_closing_writes_nothing():
    store = FailingStore(2)
    with pytest.raises(Crash):
        async with store.opened() as (journal, _):
            await write_one(journal)
            with pytest.raises(Crash):
                await write_one(journal)
            with pytest.raises(Crash):
                journal.put(intent())
            await journal.durable()

    assert len(store.survivor().read()) == 1
    with pytest.raises(Crash):
        await write(store, intent())


async def write_one(journal: object) -> None:
    journal.put(started())  # type: ignore[attr-defined]
    await journal.durable()  # type: ignore[attr-defined]


async def test_a_store_that_does_not_get_to_its_n_th_write_never_fails():
    store = FailingStore(11)
    await write(store, *ten_records())

    assert not store.failed and store.writes == 10


# Other processes

OWNER = """
import sys, trio
from society.file_store import FileStore
from society.sqlite_store import SqliteStore
sys.path.insert(0, {tests!r})
from journals import result, started

async def main():
    async with {store} .opened() as (journal, found):
        print("open", flush=True)
        number = len(found)
        while True:
            journal.put(result(number, value="x" * 200_000))
            await journal.durable()
            number += 1
            print(number, flush=True)

trio.run(main)
"""


class Owner:
    """Another process that owns a store and writes records of 200 kB until it is killed."""

    def __init__(self, kind: str, folder: Path) -> None:
        made = {
            "file": f"FileStore({str(folder / 'run')!r})",
            "sqlite": f"SqliteStore({str(folder / 'run/journal.db')!r})",
        }
        program = OWNER.format(tests=str(Path(__file__).parent), store=made[kind])
        root = str(Path(__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}
        )
        self.wait_for(1)

    def wait_for(self, lines: int) -> None:
        assert self.process.stdout is not None
        for _ in range(lines):
            assert self.process.stdout.readline()

    def kill(self) -> int:
        """Kill it; return the number of records that it knew to be durable."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.stdout is not None
        said = self.process.stdout.read().split(b"\n")
        self.process.stdout.close()
        self.process.wait()
        return int(said[-2]) if len(said) > 1 else 0


@each_disk
async def test_one_process_owns_a_run_and_a_kill_gives_it_back(kind: str, tmp_path: Path):
    """P51: no stale lock, no clean-up by hand, and every record that was durable is there."""
    store = KINDS[kind](tmp_path)
    for _ in range(3):
        owner = Owner(kind, tmp_path)
        owner.wait_for(3)
        with pytest.raises(RunLocked, match=f"in use by process {owner.process.pid}"):
            await write(store, intent())
        while_alive = len(store.read())
        durable = owner.kill()

        async with store.opened() as (_, found):
            assert len(found) >= max(durable, while_alive) >= 3


@each_disk
async def test_a_lock_file_left_behind_stops_nobody_though_its_number_is_in_use_again(kind: str, tmp_path: Path):
    store = KINDS[kind](tmp_path)
    await write(store, started())
    lock = tmp_path / "run" / {"file": "journal.lock", "sqlite": "journal.db.lock"}[kind]
    lock.write_text(f"{os.getppid()}\n")

    await write(store, intent())

    assert len(store.read()) == 2
    assert not lock.exists()


FORKING_OWNER = """
import os, signal, trio
from society.file_store import FileStore

async def main():
    async with FileStore({folder!r}).opened():
        child = os.fork()
        if child == 0:
            signal.pause()
        print(child, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_forked_child_does_not_keep_the_lock_of_a_killed_parent(tmp_path: Path):
    program = FORKING_OWNER.format(folder=str(tmp_path / "run"))
    root = str(Path(__file__).parent.parent)
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        await write(FileStore(tmp_path / "run"), started())
        assert len(FileStore(tmp_path / "run").read()) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


async def test_readers_follow_a_run_that_is_being_written(tmp_path: Path):
    owner = Owner("file", tmp_path)
    store, seen = FileStore(tmp_path / "run"), 0
    for _ in range(20):
        found = scan((store.folder / "journal.jsonl").read_bytes())
        assert len(found) >= seen
        seen = len(found)
        owner.wait_for(1)
    owner.kill()
