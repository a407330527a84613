"""The Messages API as bytes: a body, or the events of a stream, become a raw reply.

The SDK's own accumulation is not used. It guesses at arguments that break off (`{"amount": 1` becomes 1), raises on
others, and makes several objects for each event. Here the argument text is kept until its block ends and then read
strictly.

Knows: the events of a stream, and strict JSON: no NaN, no infinity, no number too long to be a value.
Does not know: connections, or whether a reply makes sense (`replies.py`).
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import attrs

from society.errors import MalformedReply
from society.replies import fault

LONGEST_NUMBER: Final = 20
"""Digits of the largest 64 bit integer. Longer ones are refused before Python tries to read them: it raises at
4,300."""


@attrs.frozen
class UnreadableJson(Exception):
    why: str

    def __str__(self) -> str:
        return self.why


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        UnreadableJson: It is none, or holds a number that is no value; the error says where or which.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise UnreadableJson(f"not valid JSON: {error.msg} at character {error.pos + 1} of {len(text)}") from None
    except UnicodeDecodeError as error:
        raise UnreadableJson(f"not UTF-8 at byte {error.start + 1} of {len(text)}") from None
    except RecursionError:
        raise UnreadableJson("nested too deep to be read") from None


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise UnreadableJson(f"number too long: {len(digits.lstrip('-'))} digits, and 64 bits are the most")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise UnreadableJson(f"number too large: {digits[:40]}")
    return number


def _constant(name: str) -> NoReturn:
    raise UnreadableJson(f"not valid JSON: {name} is no number")


class StreamError(Exception):
    """The service sent an `error` event in mid-stream. `kind` is its type, `message` its text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Assembly:
    """A reply while its stream is coming in: `take` each event's data, then `reply()`.

    A stream that just ended gives what had come, with `stop_reason = None` and calls that broke off marked unreadable.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}
        self._arguments: dict[int, list[str]] = {}

    def take(self, data: str | bytes) -> str:
        """Take the data of one event; return the piece of text that it added, mostly none.

        Raises:
            StreamError: The event says that the service failed.
            MalformedReply: The data is no event.
        """
        if not data:
            return ""
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise MalformedReply("stream", f"an event that is not JSON ({error})") from None
        try:
            return self._taken(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise MalformedReply("stream", f"an event that lacks its parts ({error!r})") from None

    def _taken(self, event: dict[str, Any]) -> str:
        match event["type"]:
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                self._blocks[int(event["index"])] = dict(event["content_block"])
            case "content_block_delta":
                return self._grown(int(event["index"]), event["delta"])
            case "message_delta":
                self._ended(event)
            case "error":
                error = event["error"]
                raise StreamError(str(error.get("type")), str(error.get("message")))
        # Pings, block ends, and what newer services send besides carry nothing that is needed.
        return ""

    def _grown(self, index: int, delta: dict[str, Any]) -> str:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                self._texts.setdefault(index, []).append(delta["text"])
                return str(delta["text"])
            case "input_json_delta":
                self._arguments.setdefault(index, []).append(delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case kind if kind.endswith("_delta"):
                # thinking, signature, compaction: a piece of the field that is named like the delta.
                for field, piece in delta.items():
                    if isinstance(piece, str) and field != "type":
                        block[field] = (block.get(field) or "") + piece
        return ""

    def _ended(self, event: dict[str, Any]) -> None:
        message = self._message
        if message is None:
            raise MalformedReply("stream", "an end before its message began")
        message.update({key: value for key, value in event["delta"].items() if value is not None})
        counts = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
        message["usage"] = {**(message.get("usage") or {}), **counts}

    def reply(self) -> dict[str, Any]:
        """Return the raw reply.

        Raises:
            MalformedReply: The stream ended before a message began.
        """
        if self._message is None:
            raise MalformedReply("stream", "no message in it")
        unreadable: dict[str, Any] = {}
        content = [self._whole(at, index, unreadable) for at, index in enumerate(sorted(self._blocks))]
        return {**self._message, "content": content or self._message.get("content"), "unreadable": unreadable}

    def _whole(self, at: int, index: int, unreadable: dict[str, Any]) -> dict[str, Any]:
        block = self._blocks[index]
        if index in self._texts:
            block = {**block, "text": (block.get("text") or "") + "".join(self._texts[index])}
        text = "".join(self._arguments.get(index, ()))
        if not text:
            return block
        try:
            return {**block, "input": read_json(text)}
        except UnreadableJson as error:
            unreadable[str(at)] = fault(error.why, text)
            return {**block, "input": {}}


def body_of(data: bytes) -> Any:
    """Return the raw reply in an answer that was not streamed.

    A number too long to be read spoils the call that holds it, and not the reply: it is read as another integer that
    is too long, and refused with its path where the call is made a value.

    Raises:
        MalformedReply: The answer is no JSON.
    """
    try:
        return json.loads(data, parse_int=_integer_or_mark, parse_constant=float)
    except (ValueError, RecursionError) as error:
        raise MalformedReply("reply", f"not JSON ({type(error).__name__}); it starts with {data[:80]!r}") from None


def _integer_or_mark(digits: str) -> int:
    return int(digits) if len(digits) <= LONGEST_NUMBER else 1 << 64


class DataLines:
    """The `data` of server-sent events, cut out of the bytes of a stream.

    Names of events are not needed, the data says its type. Only line feeds and carriage returns end a line here.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of each event that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        whole: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                whole.append(b"\n".join(self._data))
                self._data = []
        return whole
