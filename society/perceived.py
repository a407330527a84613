"""What an agent had to go by in a round, as a trace tells it, and where each piece came from.

Knows: events, in the order in which they count.
Does not know: why two runs are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from society.trace import Trace

_IN_TURN = ("sequential", "shuffled", "random")


def perceived(trace: Trace, round: int, agent: str) -> dict[str, str]:
    """Return what an agent perceived when it first ticked in a round: what it is about → what it was, and from where.

    Messages, readings, and SHARED keys that somebody has written. What was not written is what was declared.
    """
    found: dict[str, str] = {}
    in_turn = trace.header["activation"] in _IN_TURN
    sent: dict[tuple[str, int, int], Any] = {}
    for event in trace.events:
        if event.round > round or (event.round == round and event.kind in ("merge", "conflict")):
            break
        mine = event.round == round and event.agent == agent
        match event.kind:
            case "send":
                sent[event.agent, event.round, event.message] = event
            case "merge":
                writers = ", ".join(event.writers)
                found[f"shared.{event.key}"] = f"{event.value!r}, by {writers} in round {event.round}"
            case "event" if event.get("share"):
                for key, value in event.share.items():
                    found[f"shared.{key}"] = f"{value!r}, by the world in round {event.round}"
            case "share" if in_turn and event.round == round and not mine:
                found[f"shared.{event.key}"] = f"{event.value!r}, by {event.agent} earlier in this round"
            case "read" if mine:
                found[f"reading of {event.sensor}"] = repr(event.get("value", "UNKNOWN"))
            case "receive" if mine:
                for sender, number in event.messages:
                    told, where = _message(sent, sender, number, round)
                    found[f"message {number} of {sender}, {where}"] = told
        if mine and event.kind not in ("receive", "receipt", "read"):
            break  # it has begun to act; what others did after that it has not seen
    return found


def _message(sent: dict[tuple[str, int, int], Any], sender: str, number: int, round: int) -> tuple[str, str]:
    for back in (round, *range(round - 1, -1, -1)):
        event = sent.get((sender, back, number))
        if event is not None:
            return repr(dict(event.body)), "sent in this round" if back == round else f"sent in round {back}"
    return "from outside", "sent in this round"


def differing(left: dict[str, str], right: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return (what, on the left, on the right) for all that is not the same on both sides."""
    return [
        (what, left.get(what, "not yet"), right.get(what, "not yet"))
        for what in dict.fromkeys([*left, *right])
        if left.get(what) != right.get(what)
    ]
