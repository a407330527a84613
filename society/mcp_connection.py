"""One connection to a tool server, and the task that owns it.

The owner opens the connection, does all that is asked of it, and ends it; whoever opens, calls or closes only asks. So
connections may be opened and closed from any task, in any order, and a call that is given up waits for nothing.

The one module that imports `mcp`, where it is used.

Knows: the SDK, its transports, and how a connection lives and ends.
Does not know: hosts, catalogs, or permits.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import msgspec
import outcome
import trio

from society.errors import ScenarioError, ServerUnavailable, described, leaves
from society.server_process import ServerProcess, started
from society.slots import Place
from society.work import NeverSent, NotAnswered

CLOSE_SECONDS: Final = 1.8
"""How long the end of a connection may take, whatever the server does."""
MOST_PAGES: Final = 1_000
TIMED_OUT: Final = 408
"""The status by which a gateway says that it waited for long enough; what is behind it may go on."""
AHEAD: Final = 16
"""Messages that a server may be ahead of who reads them."""

LISTEN_AGAIN: Final = 1.0
"""Seconds until a stream of changes that broke off is opened again; twice as long each further time."""
MOST_PAUSE: Final = 60.0

_NOT_SERVED: Final = (-32_600, -32_601, -32_602)
"""Codes by which a server says that it has no such stream: an invalid request, an unknown method, bad parameters."""
_NEVER_SENT: Final = -32_901
_NOT_ANSWERED: Final = -32_902
_REFUSED: Final = -32_903
"""Codes that stand, inside this process, for what became of an HTTP request."""


class ServerToolError(Exception):
    """The server carried the call out, or tried to, and says that the tool failed."""


class ServerRefused(Exception):
    """The server answered the request with an error of the protocol: an unknown tool, bad arguments."""


@attrs.frozen
class Far:
    """Where a server is: exactly one of a command, a url, and a server in this process."""

    name: str
    command: Sequence[str] | None
    env: Mapping[str, str]
    cwd: str | os.PathLike[str] | None
    url: str | None
    headers: Mapping[str, str]
    server: Any


class Told(Protocol):
    """Who is told what the server does of itself."""

    def takes_stray_line(self, line: bytes) -> None: ...

    def has_changed(self, listed: Sequence[Mapping[str, Any]]) -> Exception | None: ...


@attrs.define(eq=False)
class Answer:
    """Where a caller waits for what became of its request."""

    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    done: trio.Event = attrs.Factory(trio.Event)
    came: outcome.Outcome[Any] | None = None


class Connection:
    """One connection and the task that owns it."""

    def __init__(self, far: Far, told: Told, *, pinned: bool) -> None:
        self.far = far
        self._told = told
        self._pinned = pinned
        self.token = trio.lowlevel.current_trio_token()
        self.begun = trio.current_time()
        self.settled = trio.Event()
        """The tools are listed, or it has failed."""
        self.ended = trio.Event()
        self.listed: list[dict[str, Any]] | None = None
        self.why: str | None = None
        """Why it is of no use any more."""
        self.changed: Exception | None = None
        self._refused: ScenarioError | None = None
        self._status = ""
        """The last status over HTTP that stands for a failure: the SDK does not tell."""
        self._closing = trio.Event()
        self._stale = False
        """The catalog may have changed: the next call looks first."""
        self._deaf = False
        """Nobody would tell, for now: every call looks first."""
        self._process: ServerProcess | None = None
        self._nursery: trio.Nursery | None = None
        self._session: Any = None
        self._scope = trio.CancelScope()

    def close(self) -> None:
        """Ask the owner to end it. What is in flight is not answered any more."""
        self.why = self.why or "it was closed"
        self._closing.set()
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + CLOSE_SECONDS)
        if self._nursery is None:
            self._scope.cancel()  # it is still being opened

    def goes(self, why: str) -> None:
        """Note that the far end has gone. The owner then ends the rest."""
        if self.why is None:
            self.why = why
        self._closing.set()

    def failure(self) -> Exception:
        """Return why it could not be opened."""
        if self._refused is not None:
            return self._refused
        return ServerUnavailable(self.far.name, self.why or "it ended", self._errors())

    def _errors(self) -> str:
        return self._process.stderr if self._process is not None else ""

    # ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def own(self) -> None:
        """Open the connection, do what is asked of it, end it. A system task: nothing but a cancellation may leave it."""
        try:
            with self._scope:
                await self._live()
        except trio.Cancelled:
            raise
        except BaseException as error:  # it would end the whole program; whoever opened or calls is told instead
            self._note(error)
        finally:
            self.why = self.why or "the connection ended"
            self._nursery = None
            self.settled.set()
            self.ended.set()

    def _note(self, error: BaseException) -> None:
        found = [leaf for leaf in leaves(error) if not isinstance(leaf, trio.Cancelled)]
        refused = [leaf for leaf in found if isinstance(leaf, ScenarioError)]
        self._refused = refused[0] if refused else None
        if self.why is None and found:
            kind, message = described(found[0])
            status = f" ({self._status})" if self._status and self._status not in message else ""
            self.why = f"{kind}: {message}{status}" if message else f"{kind}{status}"

    def _take_status(self, status: str) -> None:
        self._status = status

    async def _live(self) -> None:
        from mcp.client.client import Client

        async with Client(self._far_end(), message_handler=self._hear, cache=None) as client:
            self._session = client.session
            self.listed = await self._all_tools()
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                if self._pinned:
                    nursery.start_soon(self._listen, client)
                self.settled.set()
                await self._closing.wait()
                self._nursery = None
                nursery.cancel_scope.cancel()

    def _far_end(self) -> Any:
        far = self.far
        if far.command is not None:
            return self._over_pipes(far.command, far.env, far.cwd)
        if far.url is not None:
            return over_http(far.url, far.headers, self._take_status)
        return far.server

    @asynccontextmanager
    async def _over_pipes(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None
    ) -> AsyncGenerator[Any, None]:
        """The transport of a server that is a process of ours: JSON, a message a line."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        arrive, arrived = anyio.create_memory_object_stream[Any](AHEAD)

        async def take(line: bytes) -> None:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                self._told.takes_stray_line(line)
                return
            try:
                arrive.send_nowait(SessionMessage(message))
            except anyio.WouldBlock:
                await arrive.send(SessionMessage(message))

        async def read() -> None:
            async with arrive:
                try:
                    await process.read(take)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the session has ended
                with trio.move_on_after(0.2):  # it has gone: what became of it is told with its last words
                    while process.returncode is None:
                        await trio.sleep(0.01)
                code = process.returncode
                self.goes("it closed its output" if code is None else f"its process ended with code {code}")

        # `python` is the interpreter that has what the society has, whatever PATH says.
        program = [sys.executable if command[0] == "python" else command[0], *command[1:]]
        where = Path(cwd) if cwd else None
        async with arrive, arrived, started(program, env=env, cwd=where) as process:
            self._process = process
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                yield arrived, _Leaving(process)
                nursery.cancel_scope.cancel()

    # ── what is listed ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _all_tools(self) -> list[dict[str, Any]]:
        """Return all tools of all pages, each as it stands on the wire.

        Raises:
            ScenarioError: The pages never end.
        """
        from mcp_types import PaginatedRequestParams

        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            listed += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return listed
            if cursor in seen:
                raise ScenarioError(f"server {self.far.name!r}: its list of tools never ends: it repeats {cursor!r}.")
            seen.add(cursor)
        raise ScenarioError(f"server {self.far.name!r}: its list of tools has more than {MOST_PAGES} pages.")

    async def _hear(self, message: Any) -> None:
        """Note that a server of an older protocol says its catalog has changed."""
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._stale = True

    async def _listen(self, client: Any) -> None:
        """Note that a server of the newer protocol says so. A stream that breaks off is opened again."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        told = getattr(client.server_capabilities.tools, "list_changed", None)
        if not told:
            return
        pause = LISTEN_AGAIN
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._deaf = False
                    self._stale = True  # of what changed between the listing and here, nobody told
                    async for _ in changes:
                        self._stale = True
            except ListenNotSupportedError:
                return  # it speaks the older protocol
            except MCPError as error:
                if error.code in _NOT_SERVED:
                    return  # the catalog is compared at the next opening all the same
            except SubscriptionLost:
                pass
            self._deaf = self._stale = True
            await trio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def call(self, tool: str, arguments: Any, meta: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """Send one call; return the result as it stands on the wire. See the head of this file for all else."""
        answer = Answer()
        if self._nursery is None or self.why is not None:
            raise NeverSent(self._gone())
        if self.changed is not None:
            raise NeverSent(str(self.changed))
        self._nursery.start_soon(self._asked, answer, tool, arguments, meta, place)
        try:
            await answer.done.wait()
        finally:
            answer.scope.cancel()  # the server is told by the owner; nobody waits for it
        if answer.came is None:
            raise NotAnswered(self._gone()) if place.began else NeverSent(self._gone())
        return answer.came.unwrap()  # type: ignore[no-any-return]

    async def _asked(self, answer: Answer, tool: str, arguments: Any, meta: Mapping[str, Any], place: Place) -> None:
        try:
            with answer.scope:
                try:
                    answer.came = outcome.Value(await self._sent(tool, arguments, meta, place))
                except (NotAnswered, NeverSent, ServerRefused) as told:
                    answer.came = outcome.Error(told)
                except Exception as error:  # whatever the SDK raises is the caller's to hear, not the connection's end
                    # No answer of the server's: once it was on its way, nobody knows what became of it.
                    why = f"the call to {self.far.name!r} broke off: {type(error).__name__}: {error}"
                    answer.came = outcome.Error(NotAnswered(why) if place.began else NeverSent(why))
        finally:
            answer.done.set()

    async def _sent(self, tool: str, arguments: Any, meta: Mapping[str, Any], place: Place) -> dict[str, Any]:
        from mcp import MCPError
        from mcp_types import CallToolRequest, CallToolRequestParams
        from pydantic import ValidationError

        if self._stale:
            self._stale = self._deaf
            self.changed = self._told.has_changed(await self._all_tools())
            if self.changed is not None:
                raise NeverSent(str(self.changed))
        params = CallToolRequestParams(name=tool, arguments=arguments, _meta=dict(meta))  # type: ignore[arg-type]
        try:
            place.began = True
            # Not the SDK's `call_tool`, which raises where a result does not fit its schema: that call was carried out.
            raw = await self._session.send_request(CallToolRequest(params=params), _any_object())
        except MCPError as error:
            raise self._what_became(error, place) from error
        except ValidationError as error:
            raise NotAnswered(f"the server {self.far.name!r} answered what the protocol does not know") from error
        return raw  # type: ignore[no-any-return]

    def _what_became(self, error: Any, place: Place) -> Exception:
        from mcp_types import CONNECTION_CLOSED

        if error.code == _NEVER_SENT:
            place.began = False
            return NeverSent(f"the server {self.far.name!r} cannot be reached: {error.message}")
        if error.code in (_NOT_ANSWERED, CONNECTION_CLOSED):
            return NotAnswered(f"the server {self.far.name!r} did not answer: {self.why or error.message}")
        if error.code == _REFUSED:
            return ServerRefused(f"it answers with {error.message}")
        return ServerRefused(f"{error.message} (code {error.code})")

    def _gone(self) -> str:
        errors = self._errors()
        last = f"; its last words: {errors.splitlines()[-1][:200]}" if errors else ""
        return f"the server {self.far.name!r} is gone: {self.why or 'the connection ended'}{last}"


@attrs.frozen
class _Leaving:
    """Where the SDK leaves what it has to say to a process: a stream that never makes it wait."""

    process: ServerProcess

    async def send(self, message: Any, /) -> None:
        line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        # If it does not read any more it has gone, which is seen at its output.
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            self.process.send_nowait(line.encode())

    async def aclose(self) -> None:
        """Nothing is open but the process, which its owner ends."""

    async def __aenter__(self) -> _Leaving:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


@cache
def _any_object() -> Any:
    """Return what reads the result of a call: as it stands on the wire."""
    from pydantic import TypeAdapter

    return TypeAdapter(dict[str, Any])


@asynccontextmanager
async def over_http(url: str, headers: Mapping[str, str], noted: Callable[[str], None]) -> AsyncGenerator[Any, None]:
    """The transport of a server that listens at a URL. A request that fails costs that request, not the connection.

    The SDK tells no status and takes what is no answer for a refusal; so here it is looked at first. `noted` is told of
    each status that stands for a failure.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

    def failed(request: Any, code: int, why: str) -> Any:
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}}
        return httpx2.Response(
            503, request=request, headers={"content-type": "application/json"}, content=msgspec.json.encode(body)
        )

    class Client(httpx2.AsyncClient):
        async def send(self, request: Any, **how: Any) -> Any:
            try:
                response = await super().send(request, **how)
                status = f"HTTP status {response.status_code} {response.reason_phrase}".rstrip()
                if response.status_code >= 400:
                    noted(status)
                if response.has_redirect_location or await _is_answer(response, request):
                    return response
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                return failed(request, _NEVER_SENT, f"{type(error).__name__}: {error}")
            except httpx2.TransportError as error:
                return failed(request, _NOT_ANSWERED, f"{type(error).__name__}: {error}")
            await response.aclose()
            is_refused = 400 <= response.status_code < 500 and response.status_code != TIMED_OUT
            why = status if response.status_code >= 400 else f"{status}, with nothing that the protocol knows"
            return failed(request, _REFUSED if is_refused else _NOT_ANSWERED, why)

    timeout = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT)
    async with (
        Client(headers=dict(headers), timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


class _Message(msgspec.Struct):
    """As much of a message of the protocol as tells that it is one."""

    jsonrpc: str
    method: str = ""


async def _is_answer(response: Any, request: Any) -> bool:
    """Tell whether a response is for the SDK to read: that to a call is if it holds a message, or a stream of them."""
    if request.method != "POST" or _message(request.content).method != "tools/call":
        return response.status_code < 500 or _kind(response) == "application/json"
    if _kind(response) == "text/event-stream" and response.status_code < 400:
        return True
    return bool(_message(await response.aread()).jsonrpc)


def _kind(response: Any) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _message(content: bytes) -> _Message:
    try:
        return msgspec.json.decode(content, type=_Message)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # some page of a gateway
        return _Message("")
