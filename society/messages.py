"""What agents say to each other, and what they hear of a message that did not arrive.

Knows: the fields. A message is frozen at every depth; a broadcast is one message, however many read it.
Does not know: inboxes, capacities, or when a message is read.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

# msgspec structs and not attrs classes: a ring of 1,000 agents makes one message per tick, and these cost a sixth.

WORLD: Final = "world"
"""The sender of what comes from outside, through the scenario's events. No agent may take this name."""


class Message(msgspec.Struct, frozen=True, gc=False):
    sender: str
    kind: str
    body: dict[str, Any]
    """Frozen; equal to a plain dict."""
    round: int
    """The round in which it was sent."""
    number: int = 1
    """Its place among the messages of its sender in that round, from 1. Traces refer to a message by (sender, number)."""
    to: str | None = None
    """The recipient; `None` for a broadcast."""


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What a sender hears, one round later, of a message that was not delivered, or of a birth that was refused."""

    message: Message | None
    """`None` where a birth was refused."""
    recipient: str
    reason: str
    """`inbox full`, `retired`, or `name taken`."""
