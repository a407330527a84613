"""The story: records as events, in canonical order, alike from a live run and from the file."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import trio
from schedules import run
from societies import drawn_plan, keeping, kinds, planned, refolded, town

from society import Agent, AsyncHost, Limits, Shared, Trace


def full() -> Any:
    """Return a society whose two rounds hold most kinds of events."""
    host = AsyncHost(asker=lambda question: "yes")
    host.sensor("eye", thread=False)(lambda: 1)
    host.tool("work", thread=False)(lambda: "done")

    @host.subagent("helper")
    async def helper(tick: Any, n: int) -> int:
        tick.note("inside")
        await tick.read("eye")
        return n

    async def ada(tick: Any) -> None:
        tick.note("first")
        await tick.read("eye")
        tick.share("k", 1)
        await tick.call("work")
        tick.send("bob", "x", n=1)
        tick.send("bob", "x", n=2)
        await tick.delegate("helper", 1)
        tick.note("last")

    def bob(tick: Any) -> None:
        tick.share("k", 2)

    return town(
        ada,
        bob,
        hosts=host,
        shared={"z": 0, "k": 0},
        limits=Limits(inbox_capacity=1),
        events=[{"round": 1, "share": {"z": 1}}],
        measures={"m": lambda view: view.shared["k"]},
    )


def test_a_round_is_told_in_canonical_order() -> None:
    society = full()
    run(society.run, 2)
    ada = ["note", "read", "share", "action", "send", "send", "delegate", "note", "read", "note"]
    assert [event.kind for event in society.trace.events if event.round == 1] == [
        "round",
        "event",
        *ada,
        "share",
        "conflict",
        "merge",
        "refused",
        "measure",
    ]
    assert kinds(society, "ada", 2)[:2] == ["receipt", "note"]
    assert kinds(society, "bob", 2) == ["receive", "share"]
    assert society.trace.events[0].kind == "measure" and society.trace.events[0].round == 0


def test_a_round_begins_with_the_versions_that_changed() -> None:
    society = full()
    run(society.run, 2)
    assert [event.versions for event in society.trace.where(kind="round")] == [{"z": 1}, {"k": 2}]
    (merge, _) = society.trace.where(kind="merge")
    assert (merge.key, merge.value, merge.version, merge.writers) == ("k", 2, 2, ["ada", "bob"])
    (conflict, _) = society.trace.where(kind="conflict")
    assert (conflict.kept, conflict.lost, conflict.writers) == (2, [["ada", 1]], ["ada", "bob"])


def test_a_message_is_referred_to_by_sender_and_number_and_its_body_stands_once() -> None:
    society = full()
    run(society.run, 2)
    (receive,) = society.trace.where(kind="receive")
    assert receive.messages == [["ada", 1]]
    (receipt,) = society.trace.where(kind="receipt")
    assert (receipt.recipient, receipt.message, receipt.reason) == ("bob", 2, "inbox full")
    assert [event.message for event in society.trace.where(kind="send", round=1)] == [1, 2]


def test_an_action_has_all_its_fields_from_the_start() -> None:
    society = full()
    run(society.run, 1)
    (action,) = society.trace.where(kind="action")
    assert set(action.fields) >= {
        "round", "agent", "kind", "id", "tool", "arguments", "verdict", "rule", "ending", "result",
    }  # fmt: skip
    assert (action.verdict, action.rule, action.ending, action.result) == ("allow", None, "done", "done")


def test_lines_are_strict_json_in_utf8_and_the_last_carries_the_digest_of_all_before_it() -> None:
    def ada(tick: Any) -> None:
        tick.note("東京 \u2028 \u0085 \ud800 \x00 \x1b[31m")
        tick.share("k", [1e-7, 1e16, -0.0, 2**63])

    society = town(ada, shared={"k": 0})
    run(society.run, 1)
    data = society.trace.data
    lines = data.decode("utf-8").split("\n")
    assert lines.pop() == "" and "東京" in data.decode()

    def refuse(word: str) -> None:
        raise ValueError(word)

    events = [json.loads(line, parse_constant=refuse) for line in lines]
    end = events[-1]
    assert end["events"] == len(events) - 2
    assert end["sha256"] == hashlib.sha256(data[: data.rindex(b"\n", 0, -1) + 1]).hexdigest()


@pytest.mark.parametrize("turns", [None, "sequential", "shuffled"])
@pytest.mark.parametrize("number", range(4))
def test_records_from_the_file_tell_what_the_live_run_told(number: int, turns: str | None) -> None:
    society = planned(drawn_plan(40 + number), number, turns=turns)
    kept = keeping(society)
    run(society.run, 3)
    assert refolded(kept.records()) == (society.state, society.trace.data)


def test_the_trace_of_a_run_that_goes_on_has_no_end() -> None:
    society = full()
    assert society.trace.end is None and society.trace.events == ()
    run(society.run, 1)
    first = society.trace
    run(society.run, 2)
    second = society.trace
    assert second.data.startswith(first.data[: first.data.rindex(b"\n", 0, -1) + 1])
    assert len(second.where(kind="end")) == 1 and isinstance(second, Trace)


def test_nothing_in_a_trace_depends_on_time() -> None:
    async def ada(tick: Any) -> None:
        await trio.sleep(tick.rng.random())
        tick.share("k", 1)

    def trace() -> bytes:
        society = town(ada, Agent("bob", ada), shared={"k": Shared(0, "sum")})
        run(society.run, 2)
        return society.trace.data

    assert trace() == trace()
