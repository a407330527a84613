"""The story of a run: the journal's records as the lines of its trace, in canonical order (J9).

    round · event … · for each tick in order of activation: receive, receipt …, crossings and contributions by ordinal,
    failed or late · settled … · conflict, merge … · refused … · undelivered … · measure …

Knows: every record, and the fields of every kind of event.
Does not know: clocks, files, or whether the run is live. A live round and a round from the file are told by the same lines.

`send` carries `message`, its number among the sender's messages of the round, by which `receive`, `receipt`, `refused` and
`undelivered` refer to it, and `message_kind`. `denied` actions say `by` whom: a rule, a person who refused, or nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from society.barrier import Closed, Crossings
from society.records import (
    Act,
    Answer,
    Approval,
    Barrier,
    Contribution,
    Crossing,
    Delegation,
    Denial,
    End,
    Intent,
    Model,
    Opening,
    Read,
    Reason,
    Result,
    Start,
    order,
)
from society.spending import told_model, told_reason
from society.state import State

FORMAT: Final = "society-trace-1"

Event = dict[str, Any]
_encoder = msgspec.json.Encoder()
_AFTER: Final = (2**31,)  # what a tick contributes stands behind everything inside the crossing before it


def encoded(events: Iterable[Event]) -> bytes:
    """Return events as lines of strict JSON, UTF-8, each ended by LF."""
    return _encoder.encode_lines(events)


def header(start: Start) -> bytes:
    rate = {"rate": start.declared["rate"]} if "rate" in start.declared else {}
    return encoded(
        [
            {
                "format": FORMAT,
                "scenario": start.scenario,
                "activation": start.activation,
                **rate,
                "seed": start.seed,
                "agents": start.agents,
            }
        ]
    )


def opening(record: Opening) -> list[Event]:
    """Return the events of round 0: what was measured before anyone did anything."""
    return [_measured(0, *measured) for measured in record.measures]


def tell(before: State, barrier: Barrier, crossings: Crossings, closed: Closed) -> Iterator[Event]:
    """Yield the events of one round in canonical order."""
    round = barrier.round
    yield {"round": round, "agent": None, "kind": "round", "versions": {**before.changed, **closed.event_versions}}
    for event in barrier.events:
        yield {"round": round, "agent": None, "kind": "event", **event}
    numbers: dict[str, int] = {}
    for contribution, look in zip(barrier.ticks, closed.looks, strict=True):
        records = crossings.get((contribution.agent, contribution.tick), ())
        yield from _tick(round, contribution, look, records, numbers)
    yield from _barrier(round, barrier, closed)
    for measured in barrier.measures:
        yield _measured(round, *measured)


def end(record: End, round: int, before: bytes | None, events: int, sha256: str | None = None) -> bytes:
    """Return the last line. `before` are all bytes before it; or give their digest."""
    found = sha256 if sha256 is not None else hashlib.sha256(before or b"").hexdigest()
    return encoded(
        [
            {
                "round": round,
                "agent": None,
                "kind": "end",
                "outcome": record.outcome,
                "reason": record.reason,
                "events": events,
                "sha256": found,
            }
        ]
    )


def _measured(round: int, name: str, agent: str | None, value: Any) -> Event:
    return {"round": round, "agent": agent, "kind": "measure", "name": name, "value": value}


# ── one tick ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tick(
    round: int, contribution: Contribution, look: Any, records: Sequence[Crossing], numbers: dict[str, int]
) -> Iterator[Event]:
    agent = contribution.agent
    inbox, receipts = look
    if inbox:
        messages = [(message.sender, message.number) for message in inbox]
        yield {"round": round, "agent": agent, "kind": "receive", "messages": messages}
    for receipt in receipts:
        number = receipt.message.number if receipt.message is not None else None
        yield {
            "round": round,
            "agent": agent,
            "kind": "receipt",
            "recipient": receipt.recipient,
            "message": number,
            "reason": receipt.reason,
        }
    well = contribution.ending == "well"
    did = _contributions(round, contribution, numbers) if well else []
    if records:
        placed = [((*order(at), *_AFTER), event) for at, event in did]
        placed += [(order(at), event) for at, event in _crossings(records)]
        placed.sort(key=lambda item: item[0])
        yield from (event for _, event in placed)
    else:
        yield from (event for _, event in did)
    if contribution.ending == "failed":
        yield {
            "round": round,
            "agent": agent,
            "kind": "failed",
            "error": contribution.error,
            "where": contribution.where,
        }
    elif contribution.ending == "late":
        yield {"round": round, "agent": agent, "kind": "late", "waiting_for": contribution.waiting_for}


def _contributions(round: int, contribution: Contribution, numbers: dict[str, int]) -> list[tuple[str, Event]]:
    agent = contribution.agent
    told: list[tuple[str, Event]] = []
    for did in contribution.did:
        at = did[1]
        match did[0]:
            case "send":
                number = numbers[agent] = numbers.get(agent, 0) + 1
                told.append(
                    (
                        at,
                        {
                            "round": round,
                            "agent": agent,
                            "kind": "send",
                            "to": did[2],
                            "message": number,
                            "message_kind": did[3],
                            "body": did[4],
                        },
                    )
                )
            case "share":
                told.append((at, {"round": round, "agent": agent, "kind": "share", "key": did[2], "value": did[3]}))
            case "note":
                told.append((at, {"round": round, "agent": agent, "kind": "note", "text": did[2]}))
            case "spawn":
                told.append((at, {"round": round, "agent": agent, "kind": "spawn", "name": did[2]["name"]}))
            case "retire":
                told.append((at, {"round": round, "agent": agent, "kind": "retire", "name": agent}))
    return told


def _crossings(records: Sequence[Crossing]) -> Iterator[tuple[str, Event]]:
    """Yield one event for each crossing, whatever number of records it left."""
    by_place: dict[str, list[Crossing]] = {}
    for record in records:
        by_place.setdefault(record.at, []).append(record)
    for at, found in by_place.items():
        head: Event = {"round": found[0].round, "agent": found[0].agent}
        event = _crossing(head, found)
        if event is not None:
            yield at, event


def _crossing(head: Event, found: list[Crossing]) -> Event | None:
    last = found[-1]
    match last:
        case Read():
            perceived = {"value": last.value} if last.unknown is None else {"unknown": last.unknown}
            return {**head, "kind": "read", "sensor": last.sensor, **perceived}
        case Answer():
            answer = {"answer": last.answer} if not last.no_answer else {"answer": None, "no_answer": True}
            return {**head, "kind": "ask", "question": last.question, **answer}
        case Delegation():
            return {
                **head,
                "kind": "delegate",
                "subagent": last.subagent,
                "payload": last.payload,
                "ending": last.ending,
                "result": last.result,
            }
        case Denial():
            by = last.verdict if last.verdict in ("refused", "no_answer") else "rule"
            verdict = "approve" if by != "rule" else last.verdict
            result = {"by": by, "why": last.why} if last.why is not None else {"by": by}
            return _action(head, last.id, last.tool, last.arguments, verdict, last.rule, "denied", result)
        case Intent() | Result():
            return _effect(head, found)
        case Model():
            return {**head, "kind": "model", **told_model(last)}
        case Reason():
            return {**head, "kind": "reason", **told_reason(last)}
        case Act():
            return {**head, "kind": "act", "outcome": last.outcome, "reason": last.reason, "turns": last.turns}
        case Approval():
            return None  # the question stands; what came of it is told when it has an answer
    raise AssertionError(last)


def _effect(head: Event, found: list[Crossing]) -> Event | None:
    intents = [record for record in found if isinstance(record, Intent)]
    results = [record for record in found if isinstance(record, Result)]
    ending, result, settled = "in_doubt", None, None
    if results:
        last = results[-1]
        ending, settled = last.ending, last.settled
        result = last.value if last.why is None else {"why": last.why}
    if not intents:
        return None
    intent = intents[0]
    if intent.opaque:
        return {
            **head,
            "kind": "delegate",
            "subagent": intent.tool,
            "payload": intent.arguments,
            "ending": ending,
            "result": result,
        }
    event = _action(head, intent.id, intent.tool, intent.arguments, intent.verdict, intent.rule, ending, result)
    if len(intents) > 1:
        event["attempts"] = len(intents)
    if settled is not None:
        event["settled"] = settled
    return event


def _action(
    head: Event, id: str, tool: str, arguments: Any, verdict: str, rule: str | None, ending: str, result: Any
) -> Event:
    return {
        **head,
        "kind": "action",
        "id": id,
        "tool": tool,
        "arguments": arguments,
        "verdict": verdict,
        "rule": rule,
        "ending": ending,
        "result": result,
    }


# ── the barrier ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _barrier(round: int, barrier: Barrier, closed: Closed) -> Iterator[Event]:
    head: Event = {"round": round, "agent": None}
    for settlement in barrier.settled:
        yield {
            "round": round,
            "agent": settlement.agent,
            "kind": "settled",
            "id": settlement.id,
            "how": settlement.how,
            "result": settlement.result,
        }
    conflicts = {key: (kept, lost, writers) for key, kept, lost, writers in closed.conflicts}
    for key, value, version, writers in closed.merges:
        if key in conflicts:
            yield _conflict(head, key, *conflicts.pop(key))
        yield {**head, "kind": "merge", "key": key, "value": value, "version": version, "writers": writers}
    for key, conflict in conflicts.items():
        yield _conflict(head, key, *conflict)
    for kind, returned in (("refused", closed.refused), ("undelivered", closed.undelivered)):
        for message, sender, recipient, reason in returned:
            yield {
                **head,
                "kind": kind,
                "sender": sender,
                "recipient": recipient,
                "message": message.number if message is not None else None,
                "reason": reason,
            }


def _conflict(head: Event, key: str, kept: Any, lost: Any, writers: list[str]) -> Event:
    return {**head, "kind": "conflict", "key": key, "kept": kept, "lost": lost, "writers": writers}
