"""Journals for tests: a few records of every kind, and lines made of them."""

from __future__ import annotations

from society.codec import ORIGIN, encode, sum_of
from society.records import (
    AnyRecord,
    Approval,
    Barrier,
    Contribution,
    End,
    Intent,
    Opening,
    Read,
    Record,
    Result,
    Settlement,
    Start,
)
from society.values import freeze


def started(**fields: object) -> Start:
    given = {"run_id": "r1", "scenario": "incident", "activation": "synchronized", "seed": 7, "agents": ["ada", "bob"]}
    return Start(**(given | fields))  # type: ignore[arg-type]


def intent(number: int = 1, agent: str = "ada", **arguments: object) -> Intent:
    return Intent(round=1, agent=agent, at=str(number), id=f"{agent}{number}", tool="page", arguments=freeze(arguments))


def result(number: int = 1, agent: str = "ada", value: object = None) -> Result:
    return Result(round=1, agent=agent, at=str(number), id=f"{agent}{number}", ending="done", value=freeze(value))


def barrier() -> Barrier:
    return Barrier(
        round=1,
        events=[{"share": {"maintenance": "open"}}],
        ticks=[
            Contribution(
                agent="ada",
                did=[
                    ("send", "0", "bob", "news", freeze({"n": 1, "tags": ["a", "b"]})),
                    ("share", "1", "log", freeze([1.0, True])),
                    ("note", "1", "line\u2028and \U0001f3b2"),
                    ("retire", "2"),
                ],
                state={"seen": freeze({"z": 1, "a": [None, 1e16]})},
                public={"mood": "calm"},
            ),
            Contribution(agent="bob", ending="failed", error="ValueError: no", where="bob.py:3"),
        ],
        merged={"risk": freeze({"max": 0.5})},
        settled=[Settlement(id="ada0", agent="ada", how="reconciled", ending="done", result=freeze([1]))],
        in_doubt=["ada1"],
        measures=[("blocked", None, 2), ("mood", "ada", freeze(["calm"]))],
    )


def ten_records() -> list[AnyRecord]:
    """A short run with most kinds of records in it, and characters of every width."""
    return [
        started(meaning={"order": ["ada", "bob"]}),
        Opening(measures=[("blocked", None, 0)]),
        Read(
            round=1,
            agent="ada",
            at="1",
            sensor="status",
            value=freeze({"ok": True, "load": 1.0, "name": "Zoë 東京 🎲"}),
        ),
        Read(round=1, agent="bob", at="1", sensor="status", unknown="timed out", timed_out=True),
        intent(2, urgent=True, to=["x", {"deep": [1, -0.0, 2**64 - 1]}]),
        result(2, value={"ok": True}),
        Approval(round=1, agent="bob", at="2", id="bob2", tool="wipe", arguments=freeze({}), rule="approve wipe"),
        intent(3, agent="bob"),
        barrier(),
        End(outcome="finished", reason="1 round"),
    ]


def lines_of(records: list[Record] | list[AnyRecord], batch: int = 3) -> list[bytes]:
    """The lines of a journal, `batch` records to a batch."""
    lines: list[bytes] = []
    for index, record in enumerate(records):
        lines.append(encode(record, sum_of(lines[-1]) if lines else ORIGIN, begins_batch=index % batch == 0))
    return lines
