"""A server on loopback that speaks the Messages API, well and badly, for the real SDK to talk to.

    async with serving([say("hi"), Status(429, retry_after=1), Cut(say("hi"), after=3)]) as server:
        model = AnthropicModel("m", base_url=server.url)

It answers its requests from a list in order of arrival, or by a function of the request; streamed if the request asks for it.
It runs in the test's own trio loop, and writes HTTP by hand, so that it can break off anywhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import trio


@attrs.frozen
class Status:
    """An error with a status."""

    code: int
    retry_after: float | str | None = None
    kind: str = "api_error"
    message: str = "no"
    headers: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Cut:
    """A reply whose stream loses its connection after so many events."""

    reply: Any
    after: int


@attrs.frozen
class Ends:
    """A reply whose stream ends in order after so many events, as if it were whole."""

    reply: Any
    after: int


@attrs.frozen
class Breaks:
    """A reply whose stream holds an `error` event after so many events, and then stays open."""

    reply: Any
    after: int
    kind: str = "overloaded_error"


@attrs.frozen
class Bytes:
    """Any body with status 200."""

    body: bytes
    content_type: str = "application/json"


class Mute:
    """No answer at all."""


Answer: TypeAlias = Any
"""A reply in the shape of the Messages API, or one of the classes above."""


@attrs.frozen
class Received:
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    """By the loop's clock."""


@attrs.define
class MessagesServer:
    answers: Sequence[Answer] | Callable[[Received], Answer]
    url: str = ""
    received: list[Received] = attrs.field(factory=list)
    hung_up: int = 0
    """Connections that the other side closed while it waited for an answer."""

    async def serve(self, stream: trio.SocketStream) -> None:
        incoming = b""
        try:
            while True:
                while b"\r\n\r\n" not in incoming:
                    incoming += await _some(stream)
                head, incoming = incoming.split(b"\r\n\r\n", 1)
                headers = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
                }
                while len(incoming) < int(headers["content-length"]):
                    incoming += await _some(stream)
                body, incoming = incoming[: int(headers["content-length"])], incoming[int(headers["content-length"]) :]
                received = Received(json.loads(body), headers, trio.current_time())
                self.received.append(received)
                if not await self._answer(stream, received):
                    return
        except (EOFError, trio.BrokenResourceError):
            return

    async def _answer(self, stream: trio.SocketStream, received: Received) -> bool:
        """Answer one request; return whether the connection goes on."""
        answer = self.answers(received) if callable(self.answers) else self.answers[len(self.received) - 1]
        match answer:
            case Status():
                await stream.send_all(_status(answer))
            case Bytes():
                await stream.send_all(_whole(200, answer.body, answer.content_type))
            case Mute():
                try:
                    await _some(stream)
                except EOFError:
                    self.hung_up += 1
                return False
            case Cut() | Ends() | Breaks():
                await stream.send_all(_STREAMING + b"".join(map(_chunk, events(answer.reply)[: answer.after])))
                if isinstance(answer, Ends):
                    await stream.send_all(b"0\r\n\r\n")
                if isinstance(answer, Breaks):
                    error = {"type": "error", "error": {"type": answer.kind, "message": "Overloaded"}}
                    await stream.send_all(_chunk(_event("error", error)))
                    await _some(stream)
                return isinstance(answer, Ends)
            case _ if received.body.get("stream"):
                await stream.send_all(_STREAMING + b"".join(map(_chunk, events(answer))) + b"0\r\n\r\n")
            case _:
                await stream.send_all(_whole(200, json.dumps(_message(answer)).encode()))
        return True


@asynccontextmanager
async def serving(answers: Sequence[Answer] | Callable[[Received], Answer]) -> AsyncIterator[MessagesServer]:
    """Run a server on a free port of loopback for the length of the block."""
    server = MessagesServer(answers)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            lambda task_status: trio.serve_tcp(server.serve, 0, host="127.0.0.1", task_status=task_status)
        )
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield server
        nursery.cancel_scope.cancel()


def events(reply: Any) -> list[bytes]:
    """Return the events of a reply. The input of a call goes in pieces; `"raw"` beside it is sent as it is."""
    message = _message(reply)
    usage = message["usage"]
    opening = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    told = [_event("message_start", {"message": opening}), _event("ping", {})]
    for index, block in enumerate(message["content"]):
        told += _block(index, dict(block))
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details") if key in message}
    told.append(_event("message_delta", {"delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}))
    return [*told, _event("message_stop", {})]


def _block(index: int, block: dict[str, Any]) -> list[bytes]:
    pieces: list[dict[str, Any]] = []
    if block["type"] == "text":
        text, block["text"] = block["text"], ""
        pieces = [{"type": "text_delta", "text": text[at : at + 5]} for at in range(0, len(text), 5)]
    elif block["type"] == "thinking":
        pieces = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
        block["thinking"] = block["signature"] = ""
    elif block["type"] == "tool_use":
        text = block.pop("raw", None) or json.dumps(block["input"])
        block["input"] = {}
        pieces = [{"type": "input_json_delta", "partial_json": ""}]
        pieces += [{"type": "input_json_delta", "partial_json": text[at : at + 7]} for at in range(0, len(text), 7)]
    return [
        _event("content_block_start", {"index": index, "content_block": block}),
        *(_event("content_block_delta", {"index": index, "delta": piece}) for piece in pieces),
        _event("content_block_stop", {"index": index}),
    ]


def _message(reply: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_sequence": None,
        **reply,
        "usage": {"input_tokens": 1, "output_tokens": 1, **reply.get("usage", {})},
    }


_STREAMING = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _whole(code: int, body: bytes, content_type: str = "application/json", headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {code} Answer", f"content-type: {content_type}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _status(status: Status) -> bytes:
    body = json.dumps({"type": "error", "error": {"type": status.kind, "message": status.message}}).encode()
    headers = [f"{name}: {value}" for name, value in status.headers.items()]
    if status.retry_after is not None:
        headers.append(f"retry-after: {status.retry_after}")
    return _whole(status.code, body, headers=headers)


async def _some(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some(65536)
    if not data:
        raise EOFError
    return bytes(data)
