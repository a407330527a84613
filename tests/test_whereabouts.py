"""Where a run stands, told from its journal alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from society.codec import ORIGIN, Scan, encode, scan, sum_of
from society.errors import ResumeRefused
from society.lines import text
from society.onward import onward
from society.records import Approval, Barrier, End, Intent, Opening, Result, Start
from society.values import freeze
from society.whereabouts import is_journal, told, trace_of, whereabouts

START = Start(
    run_id="r",
    scenario="s",
    activation="synchronized",
    seed=0,
    agents=[],
    declared={"shared": {}, "agents": [], "rules": {}},
)
PLACE: dict[str, Any] = {"round": 2, "agent": "ada", "at": "1"}
ARGUMENTS = freeze({"eur": 5})


def journal(*records: Any, path: str = "somewhere/journal.jsonl", tail: bytes = b"") -> Scan:
    """Return a journal that has one whole round, and then these records."""
    lines, before = [], ORIGIN
    for record in (START, Opening(), Barrier(round=1, ticks=[]), *records):
        lines.append(encode(record, before, begins_batch=True))
        before = sum_of(lines[-1])
    return scan(b"".join(lines) + tail, path)


def said(found: Scan) -> list[str]:
    return [text(line) for line in told(whereabouts(found), Path("runs/x"), None)]


def intent(**more: Any) -> Intent:
    return Intent(**{**PLACE, **more}, id="abc", tool="pay", arguments=ARGUMENTS)


def test_a_journal_that_just_ends_is_that_of_a_killed_run() -> None:
    assert said(journal()) == [
        "after 1 round the journal just ends: the run was killed",
        "go on with: society resume runs/x",
    ]


def test_effects_without_a_result_are_in_flight() -> None:
    found = journal(intent(), intent(agent="bob"), Result(**{**PLACE, "agent": "bob"}, id="abc", ending="done"))

    assert said(found)[1:3] == [
        "round 2 is open, with 2 crossings recorded",
        '  in flight: ada pay {"eur": 5}  abc',
    ]


def test_a_repeated_effect_is_in_flight_once() -> None:
    found = journal(intent(), intent(attempt=2))

    assert [one.attempt for one in whereabouts(found).in_flight] == [2]


def test_questions_that_stand_wait_for_a_person() -> None:
    asked = Approval(**PLACE, id="abc", tool="pay", arguments=ARGUMENTS, rule="approve pay")
    answered = Approval(**PLACE, id="abc", tool="pay", arguments=ARGUMENTS, rule="approve pay", answer=True)
    end = End(outcome="waiting", reason="for ada")

    assert said(journal(asked, end)) == [
        "waiting after 1 round: for ada",
        "round 2 is open, with 1 crossing recorded",
        '  ada waits for approval of pay {"eur": 5}  abc',
        "go on with: society approve runs/x, then society resume runs/x",
    ]
    assert not whereabouts(journal(asked, end, answered)).waiting


def test_a_torn_record_counts_for_nothing() -> None:
    found = journal(intent(), tail=b'{"size":"00')

    assert said(found)[0].startswith("the last record was torn: 11 bytes at byte ")
    assert whereabouts(found).crossings == 1


def test_a_run_that_is_over_has_no_way_on() -> None:
    found = whereabouts(journal(End(outcome="finished")))

    assert found.is_over
    assert [text(line) for line in told(found, Path("x"), None)] == ["finished after 1 round"]


def test_a_journal_without_a_whole_record_tells_nothing() -> None:
    with pytest.raises(ResumeRefused, match="nothing to tell"):
        trace_of(scan(b"", "x"))


def test_journals_are_told_from_traces_by_how_they_begin(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(journal().data)
    (tmp_path / "b").write_bytes(b'{"format":"society-trace-1"}\n')
    (tmp_path / "journal.jsonl").write_bytes(b"")

    assert [is_journal(tmp_path / name) for name in ("a", "b", "journal.jsonl")] == [True, False, True]


@pytest.mark.parametrize(
    ("outcome", "way"),
    [
        (None, "society resume 'a b' --ticks 9"),
        ("interrupted", "society resume 'a b' --ticks 9"),
        ("waiting", "society approve 'a b', then society resume 'a b' --ticks 9"),
        ("conflict", "society fork 'a b' --at 3"),
        ("finished", None),
    ],
)
def test_the_way_on_can_be_typed_as_it_stands(outcome: str | None, way: str | None) -> None:
    assert onward(outcome, Path("a b"), 3, 9) == way
