"""Traces made by hand, for tests of what reads and shows them."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from society.trace import FORMAT, Trace


def event(round: int, agent: str | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"round": round, "agent": agent, "kind": kind, **fields}


def lines(*objects: dict[str, Any]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in objects)


def trace(
    *events: dict[str, Any],
    agents: tuple[str, ...] = ("ada", "bob"),
    outcome: str | None = "finished",
    reason: str = "",
    **header: Any,
) -> Trace:
    """Return a whole trace of these events; with `outcome=None`, that of a run that goes on."""
    head = {"format": FORMAT, "scenario": "tale", "activation": "synchronized", "seed": 0, "agents": list(agents)}
    body = lines({**head, **header}, *events)
    if outcome is None:
        return Trace(body)
    last = max((each["round"] for each in events), default=0)
    digest = hashlib.sha256(body).hexdigest()
    return Trace(
        body + lines(event(last, None, "end", outcome=outcome, reason=reason, events=len(events), sha256=digest))
    )


def send(round: int, agent: str, to: str | None, kind: str = "note", message: int = 1, **body: Any) -> dict[str, Any]:
    return event(round, agent, "send", to=to, message=message, message_kind=kind, body=body)


def action(
    round: int, agent: str, tool: str, ending: str = "done", result: Any = None, **arguments: Any
) -> dict[str, Any]:
    verdict = "deny" if ending == "denied" else "allow"
    id = hashlib.sha256(f"{round} {agent} {tool}".encode()).hexdigest()
    return event(
        round,
        agent,
        "action",
        id=id,
        tool=tool,
        arguments=arguments,
        verdict=verdict,
        rule=None,
        ending=ending,
        result=result,
    )


def incident() -> Trace:
    """One event of each kind that there is, over two rounds."""
    return trace(
        event(0, None, "measure", name="open", value=1),
        event(1, None, "round", versions={}),
        event(1, None, "event", share={"maintenance": "open"}),
        event(1, None, "event", send={"to": "analyst", "kind": "hint", "body": {"at": "disk"}}),
        event(1, "monitor", "read", sensor="service.status", value={"up": False, "since": 12.5}),
        event(1, "monitor", "read", sensor="service.load", unknown="no answer within 2 s"),
        send(1, "monitor", "analyst", "down", service="web"),
        send(1, "monitor", None, "alarm", message=2, level=3),
        event(1, "monitor", "share", key="status", value="down"),
        event(1, "analyst", "receive", messages=[["world", 1]]),
        event(1, "analyst", "note", text="nothing to see yet"),
        event(1, "analyst", "share", key="status", value="checking"),
        action(1, "responder", "page", "denied", {"by": "rule"}, whom="the whole company"),
        action(1, "responder", "restart", "in_doubt", {"why": "no answer within 10 s"}, service="web"),
        event(1, "responder", "spawn", name="helper"),
        event(
            1,
            None,
            "conflict",
            key="status",
            kept="checking",
            lost=[["monitor", "down"]],
            writers=["monitor", "analyst"],
        ),
        event(1, None, "merge", key="status", value="checking", version=2, writers=["monitor", "analyst"]),
        event(1, None, "refused", sender="monitor", recipient="responder", message=2, reason="inbox full"),
        event(1, None, "measure", name="open", value=2),
        event(2, None, "round", versions={"status": 2, "maintenance": 1}),
        event(2, "monitor", "receipt", recipient="responder", message=2, reason="inbox full"),
        event(2, "monitor", "late", waiting_for="service.load"),
        event(2, "analyst", "receive", messages=[["monitor", 1], ["monitor", 2]]),
        event(2, "analyst", "ask", question="Restart now?", answer=True),
        event(
            2, "analyst", "delegate", subagent="search", payload={"text": "disk full"}, ending="done", result=["a", "b"]
        ),
        event(
            2,
            "analyst",
            "model",
            request="00ff",
            stop_reason="tool_use",
            text="Let me look.",
            calls=["look"],
            usage={"in": 1},
        ),
        event(2, "analyst", "reason", question="How risky?", answer={"risk": 1.0}, degraded=True, missing=["cause"]),
        action(2, "responder", "restart", "failed", {"error": "OSError", "message": "no such service"}, service="wbe"),
        action(2, "responder", "restart", "done", {"ok": True}, service="web"),
        event(2, "responder", "failed", error="ValueError: it was all too much", where="incident.py:31"),
        event(2, "helper", "retire", name="helper"),
        event(2, "responder", "settled", id="9f" * 16, how="reconciled", result={"ok": True}),
        event(2, None, "undelivered", sender="analyst", recipient="helper", message=1, reason="retired"),
        event(2, None, "measure", name="open", value=0),
        event(2, "monitor", "measure", name="calls", value=4),
        agents=("monitor", "analyst", "responder"),
        scenario="incident",
        seed=7,
        outcome="failed",
        reason="the tick of 'responder' failed",
    )
