"""Catalogs that are kept in files, so that a server that has changed is told of line by line.

    {
     "digest": "…",       that of the tools below
     "tools": {"lend": {"description": …, "input_schema": …, "output_schema": …, "hints": {"idempotent": true}}}
    }

`society tools SCENARIO --pin` writes them; `[servers.NAME] digest = { file = "…" }` names them.

Knows: the format, and which scenario names which file.
Does not know: servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from society.catalog import Catalog, recalled
from society.errors import ScenarioError, ValueRefused
from society.files import Files
from society.locate import path_text
from society.report import Report
from society.tables import ServerTable

SUFFIX: Final = ".catalog.json"
WRITE: Final = "let `society tools SCENARIO --pin` write it"


class _Tool(msgspec.Struct, forbid_unknown_fields=True):
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    hints: dict[Literal["reads_only", "idempotent", "destructive", "open_world"], bool]


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    digest: str
    tools: dict[str, _Tool]


def kept(catalog: Catalog) -> bytes:
    """Return what a catalog file holds: JSON, for people to read and to compare."""
    told = {"digest": catalog.digest, "tools": catalog.told()}
    return json.dumps(told, indent=1, ensure_ascii=False).encode() + b"\n"


def read_catalog(server: str, content: bytes) -> Catalog:
    """Return the catalog that a file holds.

    Raises:
        ScenarioError: It holds none, or one that was changed by hand.
    """
    try:
        there = msgspec.json.decode(content, type=_Kept)
        found = recalled(server, {own: msgspec.to_builtins(tool) for own, tool in there.tools.items()})
    except (msgspec.MsgspecError, ValueError, ValueRefused, RecursionError) as error:
        raise ScenarioError(f"no catalog: {error}; {WRITE} again") from error
    if found.digest != there.digest:
        raise ScenarioError(f"its tools have the digest {found.digest}, and it says {there.digest}; {WRITE} again")
    return found


def pins_of(tables: Mapping[str, ServerTable], files: Files, report: Report) -> dict[str, str | Catalog]:
    """Return what servers are pinned to: a digest, or the catalog in a file."""
    found: dict[str, str | Catalog] = {}
    for server, table in tables.items():
        if table.digest is None:
            continue
        if table.digest.file is None:
            found[server] = table.digest.sha256 or ""
            continue
        path = ("servers", server, "digest", "file")
        if not files.named(table.digest.file).exists():
            report.add(path, f"there is no file {files.named(table.digest.file)}; {WRITE}")
            continue
        content = files.read(table.digest.file, path, report)
        if content is None:
            continue
        try:
            found[server] = read_catalog(server, content)
        except ScenarioError as error:
            report.add(path, f"{table.digest.file}: {str(error).rstrip('.')}")
    return found


def meaning_of_pins(pins: Mapping[str, str | Catalog]) -> dict[str, Any]:
    """Return what may not change on resume: a catalog, by its digest, as if that stood in the scenario itself."""
    catalogs = {server: pin for server, pin in pins.items() if isinstance(pin, Catalog)}
    return {f"{path_text(('servers', server))}.digest": catalog.digest for server, catalog in catalogs.items()}
