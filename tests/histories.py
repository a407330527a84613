"""Questions to a history of messages, for tests."""

from __future__ import annotations

from typing import Any


def open_calls(messages: Any) -> set[str]:
    """Return the ids of calls that the message after them does not answer."""
    left: set[str] = set()
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        if message["role"] == "assistant":
            asked_for = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
            answers = following["content"] if following is not None and asked_for else []
            left |= asked_for - {block["tool_use_id"] for block in answers}
    return left
