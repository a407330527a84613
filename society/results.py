"""What the model is told of its calls: a tool's value as text, and everything else as an error that says what to do.

A tool's value becomes text by one rule: a `str` is itself; `None`, numbers, lists and dicts are JSON, in their order,
with their own characters and no escape codes. Images are the exception: one, alone or among the elements of a list, as
`catalog.py` tells of them, is shown as an image, in its place between the texts. Anything else a tool returns (a set,
bytes, a date, a `Decimal`, an object) is not representable: its effect is done and says so, and the model gets an
error-flagged result that names the type (V4).

Knows: the words for each way in which a call can end.
Does not know: who runs calls, or how a service is spoken to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import attrs

from society.errors import ActionDenied, ActionError, ActionInDoubt, ToolFailed, ValueRefused, suggestion
from society.values import FrozenDict, Value, freeze

IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""What models can look at. An image of another kind is data."""


@attrs.frozen
class CallResult:
    """The answer to one call."""

    content: Value
    """A text, or a list of content blocks where there are images."""
    is_error: bool = False

    def block(self, call_id: str) -> FrozenDict:
        """Return it as the block that goes on the wire."""
        # The service refuses an error without content.
        content = self.content or ("(no text)" if self.is_error else "")
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return FrozenDict(block, is_error=True) if self.is_error else FrozenDict(block)


def result_of(value: Any) -> CallResult:
    """Return the result of a call whose tool returned `value`."""
    try:
        frozen = freeze(value, "result")
    except ValueRefused as refused:
        return not_representable(f"{refused.path}: {refused.found}")
    return CallResult(_content(frozen))


def _content(value: Value) -> Value:
    parts = value if isinstance(value, list) else [value]
    if not any(map(_is_image, parts)):
        return text_of_value(value)
    return freeze([block for part in parts for block in _blocks(part)])


def _blocks(part: Value) -> list[Any]:
    """Return the blocks of one part: none for an empty text, which the service refuses."""
    if _is_image(part):
        source = {"type": "base64", "media_type": part["media_type"], "data": part["data"]}
        return [{"type": "image", "source": source}]
    text = text_of_value(part)
    return [{"type": "text", "text": text}] if text.strip() else []


def _is_image(value: Value) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"type", "media_type", "data"}
        and value["type"] == "image"
        and value["media_type"] in IMAGES
        and isinstance(value["data"], str)
    )


def text_of_value(value: Value) -> str:
    """Return the text that stands for a value: a `str` itself, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def result_of_error(error: ActionError) -> CallResult:
    """Return the result of a call that `tick.call` raised for; it says which of the three it was (K6)."""
    match error:
        case ActionDenied():
            return _error(f"Denied: {error} Do not ask for it again in this form; go on without it.")
        case ActionInDoubt():
            return in_doubt(error.tool, error.why)
        case ToolFailed():
            return failed(error.tool, error.error, error.message)
    return _error(str(error))


def failed(tool: str, error: str, message: str) -> CallResult:
    """`error` and `message` as `errors.described` gives them; the message of a group names the types of its leaves."""
    said = message if "; " in error else ": ".join(part for part in (error, message) if part)
    return _error(f"{tool} failed: {said}")


def in_doubt(tool: str, why: str) -> CallResult:
    return _error(
        f"{tool} is in doubt ({why}): neither done nor failed, its effect may have happened. "
        "Do not call it again blindly; look at the world first, or report the doubt."
    )


def not_representable(found: str) -> CallResult:
    return _error(
        f"The call was done and took effect, but what it returned is not representable ({found}). "
        "Do not repeat the call to see its value."
    )


def not_run(why: str) -> CallResult:
    return _error(f"This call was not run: {why}. It had no effect.")


def unknown_tool(name: str, known: Iterable[str]) -> CallResult:
    """`known` is in declared order, so that the text is the same on every run."""
    known = list(known)
    there = f"The tools are: {', '.join(known)}." if known else "There are no tools."
    near = suggestion(name, known) if len(known) > 8 else ""
    return _error(f"There is no tool {name!r}. {there}{near} This call was not run.")


def unreadable(name: str, fault: Value) -> CallResult:
    """For arguments that could not be read (`replies.py`)."""
    return _error(
        f"The arguments of {name} could not be read: {fault['why']}. "
        "This call was not run. Call it again with arguments that are one complete JSON object."
    )


def unfit(name: str, faults: Iterable[str]) -> CallResult:
    """For arguments that do not fit the tool's schema."""
    return _error(
        f"The arguments of {name} do not fit: {'; '.join(faults)}. "
        "This call was not run. Call it again with arguments that do."
    )


def no_slot(name: str) -> CallResult:
    return not_run(
        f"{name} was never sent: every place for tools is held by a call that was given up and is still running"
    )


def _error(text: str) -> CallResult:
    return CallResult(freeze(text), is_error=True)
