"""Tool servers as hosts: what an MCP server offers becomes tools of a society, in the society's own trio loop.

What becomes of a call:

    the server answers                      done, with what the answer is worth (catalog.py)
    the server says that the tool failed    failed
    the server refuses the request          failed, as `ServerRefused`
    the connection ends, or the answer is none that the protocol knows
                                            in doubt: it was sent, and nobody knows what became of it
    the connection had ended before, or the catalog is not the pinned one any more
                                            never sent

Knows: what a server offers, what is believed of it, and what its answers are worth.
Does not know: the protocol (mcp_connection.py), policies or limits; the gate asks with a permit, as of any host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import trio

from society import permit as permits
from society.catalog import Catalog, Offer, catalog, check_server_name, failure_text, result_value
from society.errors import CatalogChanged, ScenarioError, ServerUnavailable, suggestion
from society.event_loop import check_trio
from society.host import Sensor, SubAgent, Tool
from society.mcp_connection import Connection, Far, ServerRefused, ServerToolError
from society.slots import Place
from society.values import plain
from society.work import NeverSent

CONNECT_SECONDS: Final = 30.0
SHOWN_LINES: Final = 5
KEY: Final = "society/idempotency-key"
"""Where a server finds the idempotency key of a call: in the request's `_meta`."""
TRUST: Final = ("reads_only", "idempotent")


def connect_async(
    name: str,
    *,
    command: Sequence[str] | None = None,
    url: str | None = None,
    server: Any = None,
    digest: str | Catalog | None = None,
    trust: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    connect_timeout: float = CONNECT_SECONDS,
) -> AsyncMCPHost:
    """Return a tool server as a host, to be opened with `async with`.

    Args:
        name: What its tools begin with: `NAME__tool`.
        command: Starts a server that speaks over its standard input and output; `python` is this interpreter.
        url: Where a server listens that speaks streamable HTTP.
        server: One in this process: an `MCPServer` of the SDK, or anything that its `Client` connects to.
        digest: The digest its catalog must have, or a catalog that it must equal. Whatever differs is refused.
        trust: Which of its hints are believed: `reads_only`, `idempotent`.
        env: For a command: what it sees besides a few variables such as PATH.
        cwd: For a command: where it is started.
        headers: For a url: sent with every request.
        connect_timeout: Seconds until it must have listed its tools.

    Raises (when entered):
        ServerUnavailable: It did not start, did not answer in time, or broke the protocol. Its standard error is told.
        CatalogChanged: Its catalog is not the pinned one.
        ScenarioError: Two of its tools would have one name.
    """
    return AsyncMCPHost(
        name,
        command=command,
        url=url,
        server=server,
        digest=digest,
        trust=trust,
        env=env,
        cwd=cwd,
        headers=headers,
        connect_timeout=connect_timeout,
    )


class AsyncMCPHost:
    """A tool server as a host. While it is open, `tools` are those of the server; its catalog stays known after."""

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        url: str | None = None,
        server: Any = None,
        digest: str | Catalog | None = None,
        trust: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = CONNECT_SECONDS,
    ) -> None:
        self.name = check_server_name(name)
        if sum(given is not None for given in (command, url, server)) != 1:
            raise ScenarioError(f"server {name!r}: give exactly one of command, url and server.")
        if isinstance(command, str) or (command is not None and not command):
            raise ScenarioError(f'server {name!r}: a command is a list of texts, ["python", "server.py"].')
        for hint in trust:
            if hint not in TRUST:
                raise ScenarioError(
                    f"server {name!r}: trust: {hint!r} is no hint that can be believed.{suggestion(str(hint), TRUST)}"
                )
        self.tools: dict[str, Tool] = {}
        self.sensors: dict[str, Sensor] = {}
        self.subagents: dict[str, SubAgent] = {}
        self.reconcilers: dict[str, Callable[..., Any]] = {}
        self.approver: Any = None
        self.asker: Any = None
        self.catalog: Catalog | None = None
        self._far = Far(name, command, dict(env or {}), cwd, url, dict(headers or {}), server)
        self.pinned = digest
        """The digest its catalog must have, or the catalog that it must equal."""
        self._trust = frozenset(trust)
        self._connect_timeout = connect_timeout
        self._connection: Connection | None = None
        self._adopted: Connection | None = None
        """The connection whose catalog it is."""
        self._opened = 0
        """How many have it open."""
        self.calls = 0
        self.stray_lines = 0
        """Lines on the server's standard output that were none of the protocol."""
        self.first_stray_lines: list[str] = []

    @property
    def source(self) -> str:
        """Where it is, in a few words."""
        where = " ".join(self._far.command) if self._far.command is not None else self._far.url or "in this process"
        return f"server {self.name}: {where}"

    @property
    def digest(self) -> str:
        """The digest of its catalog.

        Raises:
            ServerUnavailable: It was never open.
        """
        if self.catalog is None:
            raise ServerUnavailable(self.name, "it was not connected yet, so its catalog is not known")
        return self.catalog.digest

    @property
    def stats(self) -> dict[str, int]:
        return {"calls": self.calls, "stray_lines": self.stray_lines}

    # ── opening and closing ─────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> AsyncMCPHost:
        """Open it. Who opens a host that is open, or that somebody else is opening, shares its connection (`__aexit__`).

        Raises:
            ServerUnavailable, CatalogChanged, ScenarioError: See `connect_async`.
        """
        check_trio(f"the tool server {self.name!r}")
        connection = self._shared_connection()
        try:
            with trio.move_on_at(connection.begun + self._connect_timeout) as scope:
                await connection.settled.wait()
            if scope.cancelled_caught:
                connection.why = f"it did not answer within {self._connect_timeout:g} seconds"
                connection.close()
                await self._ended(connection)
            if connection.listed is None:
                raise connection.failure()
            if self._adopted is not connection:
                self.offer(self._checked(connection.listed))
                self._adopted = connection
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close it, if nobody else has it open."""
        self._opened -= 1
        if self._opened <= 0:
            self._opened = 0
            if self._connection is not None:
                self._connection.close()
                await self._ended(self._connection)

    def _shared_connection(self) -> Connection:
        """Return the connection that is there, or a new one that begins now."""
        here = trio.lowlevel.current_trio_token()
        there = self._connection
        if there is not None and there.token is not here:
            if not there.ended.is_set():
                raise ScenarioError(
                    f"server {self.name!r} is open in another event loop; connect to it once more there."
                )
            self._opened = 0  # that program's end closed it
        self._opened += 1
        if self._opened > 1 and there is not None:
            return there
        connection = self._connection = Connection(self._far, self, pinned=self.pinned is not None)
        # A system task: it is nobody's child, so nobody's cancel scope is left from the wrong task; trio ends it,
        # and waits for its end, when the program's main task has returned without closing it.
        trio.lowlevel.spawn_system_task(connection.own, name=f"tool server {self.name}")
        return connection

    async def _ended(self, connection: Connection) -> None:
        with trio.CancelScope(shield=True):  # bounded by the connection itself
            await connection.ended.wait()

    def _checked(self, listed: Sequence[Mapping[str, Any]]) -> Catalog:
        """Return the catalog, if it is the pinned one.

        Raises:
            CatalogChanged: It is another.
        """
        found = catalog(self.name, listed)
        pinned = self.pinned.digest if isinstance(self.pinned, Catalog) else self.pinned
        pinned = pinned and pinned.removeprefix("sha256:")
        if pinned is not None and pinned != found.digest:
            known = self.pinned if isinstance(self.pinned, Catalog) else self.catalog
            if known is not None and known.digest == pinned:
                lines = known.difference(found)
            else:
                lines = [
                    f"it offers now: {', '.join(offer.own for offer in found.offers) or 'nothing'}",
                    "what it offered is not known: a digest does not tell; a kept catalog does (`society tools --pin`)",
                ]
            raise CatalogChanged(self.name, pinned, found.digest, tuple(lines))
        return found

    def offer(self, found: Catalog) -> None:
        """Offer the tools of a catalog: that of the open connection, or, in a replay, the recorded one."""
        self.catalog = found
        self.tools = {offer.name: self._tool(offer) for offer in found.offers}

    def _tool(self, offer: Offer) -> Tool:
        def function(**arguments: Any) -> Any:
            raise AssertionError("a tool of a server is called through its host")

        function.__name__ = offer.name
        function.__doc__ = offer.description
        believed = {hint for hint in self._trust if offer.hints.get(hint) is True}
        return Tool(
            name=offer.name,
            function=function,
            # What only reads may be asked again: to the protocol, `idempotent` means nothing beside it.
            idempotent=bool(believed),
            reads_only="reads_only" in believed,
        )

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def invoke(self, tool: str, arguments: Mapping[str, Any], permit: Any = None) -> Any:
        """Call a tool of the server; gives what its answer is worth. Only the gate can: it alone has permits.

        Raises:
            PermitError: There is no permit, or it is spent, forged, or for another action.
            ServerToolError, ServerRefused: It failed.
            NotAnswered: It is in doubt.
            NeverSent: It was not sent.
        """
        granted = permits.check(permit, tool, arguments)
        offers = {} if self.catalog is None else {offer.name: offer for offer in self.catalog.offers}
        if tool not in offers:
            raise ScenarioError(f"tool {tool!r} is not on the server {self.name!r}.{suggestion(tool, offers)}")
        self.calls += 1
        if self._connection is None:
            raise NeverSent(f"the server {self.name!r} is not connected")
        raw = await self._connection.call(
            offers[tool].own, plain(granted.arguments), {KEY: granted.action.idempotency_key}, granted.place
        )
        if raw.get("resultType") == "input_required":
            raise ServerRefused("it asks for further input before it does anything, which no tool call can give")
        if raw.get("isError"):
            raise ServerToolError(failure_text(raw))
        return result_value(raw)

    async def perceive(self, sensor: str, place: Place) -> Any:
        raise ScenarioError(f"the server {self.name!r} has no sensors.")

    # ── what the connection tells ───────────────────────────────────────────────────────────────────────────────────

    def takes_stray_line(self, line: bytes) -> None:
        self.stray_lines += 1
        if len(self.first_stray_lines) < SHOWN_LINES:
            self.first_stray_lines.append(line[:200].decode("utf-8", "replace").rstrip("\r"))

    def has_changed(self, listed: Sequence[Mapping[str, Any]]) -> CatalogChanged | None:
        """Return what is refused from now on, if the catalog of an open, pinned connection is another now."""
        try:
            self._checked(listed)
        except CatalogChanged as changed:
            return changed
        except ScenarioError as error:
            return CatalogChanged(self.name, self.digest, "none", (str(error),))
        return None
