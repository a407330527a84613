"""Crashes for real: a child process is killed with SIGKILL at random moments, a hundred times in all, on both file stores.

The ledger is a file that the tools append to and sync: what stands in it happened, whatever the journal says.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

import society.survival
from society import ActionInDoubt, Agent, AsyncHost, AsyncSociety, FileStore, Shared, SqliteStore
from society.records import Intent, Result
from society.reruns import replay
from society.retelling import retold

HERE = Path(__file__).parent
ROUNDS = 12
KILLS = 100
"""For each kind of store."""


def made(store: Any, ledger: Path) -> AsyncSociety:
    """Return the society that is killed: payments, each of them once, and stamps, which may be repeated."""
    host = AsyncHost()

    def entered(line: str) -> None:
        descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)

    @host.tool("pay")
    def pay(to: str) -> str:
        entered(f"pay {to}")
        time.sleep(0.002)
        return to

    @host.tool("stamp", idempotent=True)
    def stamp(n: int) -> int:
        entered(f"stamp {n}")
        return n

    async def ada(tick: Any) -> None:
        try:
            tick.share("paid", await tick.call("pay", to=f"{tick.agent}-{tick.round}"))
        except ActionInDoubt:
            tick.share("lost", 0)
        try:
            tick.share("sum", await tick.call("stamp", n=tick.round))
        except ActionInDoubt:  # killed during the second attempt, too
            tick.share("lost", tick.round)
        tick.broadcast("done", round=tick.round)

    return AsyncSociety(
        [Agent(name, ada) for name in ("ada", "bob", "cyd")],
        hosts=host,
        shared={"paid": Shared([], "append"), "lost": Shared([], "append"), "sum": Shared(0, "sum")},
        run_id="killed",
        store=store,
    )


def store_at(kind: str, folder: Path) -> Any:
    return FileStore(folder / "run") if kind == "file" else SqliteStore(folder / "run.sqlite")


def child(kind: str, folder: Path) -> None:
    """What the killed process does."""
    result = trio.run(made(store_at(kind, folder), folder / "ledger").run, ROUNDS)
    (folder / "outcome").write_text(result.outcome)


def drive(kind: str, folder: Path) -> None:
    """Fork and kill until it is enough; each run is resumed by the next child until one comes to the end.

    It is run in a fresh interpreter: a fork of one that has threads could hang, and starting one for each kill takes long.
    """
    society.survival.LEAST_BYTES = 4_000  # with checkpoints
    rng = random.Random(kind)
    kills = runs = 0
    while kills < KILLS:
        runs += 1
        here = folder / f"{runs}"
        here.mkdir()
        while True:
            process = os.fork()
            if process == 0:
                child(kind, here)
                os._exit(0)
            # Some are killed while they resume, and some a while later.
            killed = waited(process, rng.choice([rng.uniform(0, 0.03), rng.uniform(0, 0.3)]))
            if not killed:
                break
            kills += 1


def waited(process: int, seconds: float) -> bool:
    """Wait for a process, and kill it if it takes longer; return whether it was killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_hundred_kills_repeat_no_payment_and_lose_no_result(kind: str, tmp_path: Path) -> None:
    """J5, P53: at most once for what has no result, exactly once for what has one."""
    code = f"import pathlib, test_kills; test_kills.drive({kind!r}, pathlib.Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=HERE, check=True, timeout=120)

    runs = list(tmp_path.iterdir())
    for folder in runs:
        assert (folder / "outcome").read_text() == "finished"
        check(store_at(kind, folder), folder / "ledger")
    assert len(runs) > 1


def check(store: Any, ledger: Path) -> None:
    records = list(store.read().records())
    happened = Counter(ledger.read_text().split("\n"))
    for record in records:
        if isinstance(record, Intent) and record.tool == "pay":
            assert happened[f"pay {record.arguments['to']}"] <= 1
        if isinstance(record, Result) and record.ending == "done":
            line = f"pay {record.value}" if isinstance(record.value, str) else f"stamp {record.value}"
            assert happened[line] >= 1
    told = retold(records)
    assert told.end is not None
    paid, lost = told.state.shared["paid"], told.state.shared["lost"]
    assert told.state.shared["sum"] + sum(lost) == 3 * sum(range(1, ROUNDS + 1))
    assert len(paid) + lost.count(0) == 3 * ROUNDS
    assert len(lost) == len(told.state.doubts)

    def again(*, store: Any, forced: bool) -> AsyncSociety:
        return made(store, ledger.with_name("never"))

    replay(store, again)
    assert not ledger.with_name("never").exists()
