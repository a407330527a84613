"""A model's reply as a value: checked at the door, frozen, in the shape of the Messages API.

    {"content": [block, …], "stop_reason": text or None, "usage": {…}}      and, where they came: "stop_details",
    "model"

A call whose arguments cannot be taken as values (broken JSON, a number too long to read, NaN, not an object) does not
spoil the reply. Its block keeps `input = {}`, so that it can go back to the service, and `"unreadable"` says by the
block's index what was wrong: `{"1": {"why": …, "raw": the first 800 characters, "length": of all of them}}`. Such a
call is never run.

Knows: the shape of a reply, and what in it may be wrong without ending the conversation.
Does not know: what a stop reason means (`loop.py`), or how a reply came in (`wire.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from society.errors import MalformedReply, ValueRefused
from society.values import EMPTY, FrozenDict, Value, freeze

SHOWN_OF_RAW: Final = 800
"""Characters kept of arguments that could not be read."""

COUNTED: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The token counts of a reply's usage that are kept. Output tokens include those spent on thinking."""


def reply_of(raw: Any) -> FrozenDict:
    """Return what a model gave back as a frozen reply.

    Raises:
        MalformedReply: It is not a reply; the error names the path and what was found there.
    """
    if not isinstance(raw, Mapping):
        raise MalformedReply("reply", f"{type(raw).__name__}, not an object")
    content = raw.get("content")
    if not isinstance(content, (list, tuple)):
        raise MalformedReply(
            "content", "missing" if content is None else f"{type(content).__name__}, not a list of blocks"
        )
    unreadable = dict(raw.get("unreadable") or {})
    blocks = [_block(block, index, unreadable) for index, block in enumerate(content)]
    reply: dict[str, Any] = {"content": blocks, "stop_reason": _stop_reason(raw), "usage": usage_of(raw.get("usage"))}
    for key in ("stop_details", "model"):
        if raw.get(key) is not None:
            reply[key] = raw[key]
    if unreadable:
        reply["unreadable"] = unreadable
    return _frozen(reply, "reply")


def usage_of(raw: Any) -> dict[str, int]:
    """Return the token counts of a usage object; absent and null ones are 0."""
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise MalformedReply("usage", f"{type(raw).__name__}, not an object")
    counts = {}
    for key in COUNTED:
        count = raw.get(key) or 0
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise MalformedReply(f"usage.{key}", f"{type(count).__name__}, not a count of tokens")
        counts[key] = count
    return counts


def calls_of(content: Value) -> Iterator[tuple[int, FrozenDict]]:
    """Yield (index, block) of each call that waits for an answer from this side."""
    for index, block in enumerate(content):
        if block["type"] == "tool_use":
            yield index, block


def text_of(content: Value) -> str:
    """Return the text of a reply: its text blocks, joined as they are."""
    return "".join(block["text"] for block in content if block["type"] == "text")


def fault(why: str, raw: str = "") -> dict[str, Any]:
    """Return what `"unreadable"` says of one call."""
    return {"why": why, "raw": raw[:SHOWN_OF_RAW], "length": len(raw)} if raw else {"why": why}


def _stop_reason(raw: Mapping[str, Any]) -> str | None:
    reason = raw.get("stop_reason")
    if reason is not None and not isinstance(reason, str):
        raise MalformedReply("stop_reason", f"{type(reason).__name__}, not a text")
    return reason


def _block(block: Any, index: int, unreadable: dict[str, Any]) -> FrozenDict:
    path = f"content[{index}]"
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        raise MalformedReply(path, "not an object with a type")
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        raise MalformedReply(f"{path}.text", "no text")
    if block["type"] == "tool_use":
        return _call(block, path, str(index), unreadable)
    return _frozen(dict(block), path)


def _call(block: Mapping[str, Any], path: str, index: str, unreadable: dict[str, Any]) -> FrozenDict:
    if not isinstance(block.get("name"), str) or not block["name"]:
        raise MalformedReply(f"{path}.name", "no name of a tool")
    arguments = block.get("input")
    if not isinstance(arguments, Mapping):
        kind = "nothing" if arguments is None else type(arguments).__name__
        unreadable.setdefault(
            index, fault(f"not an object but {kind}", arguments if isinstance(arguments, str) else "")
        )
        arguments = {}
    try:
        kept = freeze(dict(arguments), "arguments")
    except ValueRefused as refused:
        unreadable.setdefault(index, fault(_why(refused)))
        kept = EMPTY
    # A missing id is a repeated id: the loop gives both one of their own.
    call_id = block["id"] if isinstance(block.get("id"), str) else ""
    return _frozen({**block, "id": call_id, "input": kept}, path)


def _why(refused: ValueRefused) -> str:
    if refused.found.startswith("an int of"):
        return f"number too long: {refused.path} is {refused.found}, and 64 are the most"
    return f"{refused.path}: {refused.found} is no value that can be written down"


def _frozen(value: dict[str, Any], path: str) -> FrozenDict:
    try:
        frozen = freeze(value, path)
    except ValueRefused as refused:
        raise MalformedReply(refused.path, refused.found) from refused
    assert isinstance(frozen, FrozenDict)
    return frozen
