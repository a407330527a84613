"""Connections of a society: hosts that are there only while it runs, such as tool servers. They are opened with the run.

Knows: that all are opened at once and closed again, whatever happens, and what of them has a meaning for a resumed run.
Does not know: protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import trio

from society.catalog import recalled
from society.errors import ScenarioError

MEANING: Final = "servers"
"""Where a catalog stands in the meaning of a run: `servers.tickets.tools.lend`."""


def is_connection(host: Any) -> bool:
    """Tell whether a host is one that is opened with the run: it has a catalog, or will have one."""
    return hasattr(host, "catalog") and hasattr(host, "__aenter__")


@asynccontextmanager
async def opened(connections: Sequence[Any]) -> AsyncIterator[None]:
    """Open all connections, at the same time; close them when the block is left.

    Raises:
        SocietyError: One of them could not be opened; the others were closed again.
        ScenarioError: Two of one name do not offer the same.
    """
    async with AsyncExitStack() as stack:
        failures: list[BaseException] = []

        async def open_one(connection: Any) -> None:
            try:
                await connection.__aenter__()
            except trio.Cancelled:
                raise
            except Exception as error:  # told alone, as it was raised, once the others have settled
                failures.append(error)
            else:
                stack.push_async_exit(connection)

        async with trio.open_nursery() as nursery:
            for connection in connections:
                nursery.start_soon(open_one, connection)
        if failures:
            raise failures[0]
        _check_names(connections)
        yield


def _check_names(connections: Sequence[Any]) -> None:
    """Agents may have servers of one name, each its own: what they offer is told once, by that name."""
    known: dict[str, Any] = {}
    for connection in connections:
        first = known.setdefault(connection.name, connection)
        if lines := first.catalog.difference(connection.catalog):
            raise ScenarioError(
                f"two servers are called {first.name!r}, and do not offer the same: {'; '.join(lines)}. "
                "Give one of them another name."
            )


def meaning_of(connections: Sequence[Any]) -> dict[str, Any]:
    """Return the catalogs, tool by tool: a run is not resumed with tools that have changed their meaning (J7)."""
    return {
        f"{MEANING}.{connection.name}.tools.{own}": told
        for connection in connections
        if connection.catalog is not None
        for own, told in connection.catalog.told().items()
    }


def recall(connections: Sequence[Any], meaning: Mapping[str, Any]) -> None:
    """Let hosts offer what a recorded run's servers offered: a replay connects to nothing (J8)."""
    for connection in connections:
        start = f"{MEANING}.{connection.name}.tools."
        told = {path[len(start) :]: offer for path, offer in meaning.items() if path.startswith(start)}
        connection.offer(recalled(connection.name, told))


def stats_of(connections: Sequence[Any]) -> dict[str, dict[str, int]]:
    """Return what was counted at each connection, by `server NAME`."""
    counted: dict[str, dict[str, int]] = {}
    for connection in connections:
        there = counted.setdefault(f"server {connection.name}", {})
        for what, number in connection.stats.items():
            there[what] = there.get(what, 0) + number
    return counted


def remarks(connections: Sequence[Any]) -> list[str]:
    """Return what there is to say once of each connection: lines that its server printed where only messages belong."""
    told = []
    for connection in connections:
        if connection.stray_lines:
            first = ", ".join(map(repr, connection.first_stray_lines))
            more = "" if connection.stray_lines <= len(connection.first_stray_lines) else ", …"
            told.append(
                f"server {connection.name}: {connection.stray_lines} stray lines on its standard output, which is for "
                f"messages alone: {first}{more}"
            )
    return told
