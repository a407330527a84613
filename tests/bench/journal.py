"""What a journal costs: 500 agents in flight, each 20 durable actions, an intent and a result for each.

Knows: the bars of the issue.
Does not know: societies; the records are put as the gate would put them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from society.codec import scan
from society.file_store import FileStore
from society.records import Intent, Result
from society.sqlite_store import SqliteStore
from society.store import Store
from society.values import freeze

AGENTS, ACTIONS = 500, 20
RECORDS = AGENTS * ACTIONS * 2


def journal_costs() -> list[tuple[str, float, str]]:
    """Return (name, value, bar)."""
    with tempfile.TemporaryDirectory() as folder:
        file_rate, file_batch = _measured(FileStore(Path(folder) / "run"))
        sqlite_rate, sqlite_batch = _measured(SqliteStore(Path(folder) / "journal.db"))
        data = (Path(folder) / "run" / "journal.jsonl").read_bytes()
    began = time.perf_counter()
    found = scan(data)
    scanned = time.perf_counter()
    decoded = sum(1 for _ in found.records())
    ended = time.perf_counter()
    return [
        ("file: intents and results per second", file_rate, ">= 5000"),
        ("file: records per fsync", file_batch, ">= 10"),
        ("sqlite: intents and results per second", sqlite_rate, ">= 5000"),
        ("sqlite: records per fsync", sqlite_batch, ">= 10"),
        ("chain checked, records per second", len(found) / (scanned - began), ""),
        ("records decoded per second", decoded / (ended - scanned), ""),
    ]


def _measured(store: Store) -> tuple[float, float]:
    """Return (records per second, records per sync)."""
    began = time.perf_counter()
    batches = trio.run(_written, store)
    return RECORDS / (time.perf_counter() - began), RECORDS / batches


async def _written(store: Store) -> int:
    async with store.opened() as (journal, _):

        async def act(agent: str) -> None:
            for ordinal in range(1, ACTIONS + 1):
                place: dict[str, Any] = {"round": 1, "agent": agent, "at": str(ordinal), "id": f"{agent}{ordinal}"}
                journal.put(Intent(**place, tool="page", arguments=freeze({"to": "bob", "text": "help " * 10})))
                await journal.durable()
                journal.put(Result(**place, ending="done", value=freeze({"ok": True})))
                await journal.durable()

        async with trio.open_nursery() as nursery:
            for number in range(AGENTS):
                nursery.start_soon(act, f"agent-{number}")
    return journal.batches
