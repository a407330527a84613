"""The catalog of a tool server: what it offers, under which names, with one digest; and what a result of it is worth.

A tool `lend` of the server `library` is `library__lend` to agents and models. Characters that some model refuses become
`_`; a name over 64 characters is cut, with a digest for its end. Two tools that would be one name are refused.

**The one rule for results.** Structured content stands for all text beside it. What then remains, in order, is the value:
the thing alone if it is one, a list if there are several, `None` if there is none. A text is a text. An image or a sound
is `{"type", "media_type", "data"}` with its bytes in base64, whole. Any other part is a dict as the server wrote it.

Knows: names, schemas, hints, digests, and results as they stand on the wire.
Does not know: connections, or whether anyone trusts a hint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from society.errors import ScenarioError
from society.values import EMPTY, FrozenDict, freeze, plain

LONGEST: Final = 64
"""Characters of a tool's name that every model takes."""

SHOWN: Final = 120
"""Characters of a value in a line of a difference."""

SAID_NOTHING: Final = "the server says that it failed, and nothing else"

_SERVER: Final = re.compile(r"[a-zA-Z0-9_-]{1,32}")
_HINTS: Final = {
    "readOnlyHint": "reads_only",
    "idempotentHint": "idempotent",
    "destructiveHint": "destructive",
    "openWorldHint": "open_world",
}
_canonical = msgspec.json.Encoder(order="sorted").encode


@attrs.frozen(kw_only=True)
class Offer:
    """One tool as a server offers it."""

    name: str
    """What agents call it by: `library__lend`."""
    own: str
    """What the server calls it."""
    description: str = ""
    input_schema: FrozenDict
    output_schema: FrozenDict | None = None
    hints: FrozenDict = EMPTY
    """What the server says of it: `reads_only`, `idempotent`, `destructive`, `open_world`. Shown, not believed."""

    def told(self) -> dict[str, Any]:
        """Return all that is meaning in it, as a value."""
        return {
            "description": self.description,
            "input_schema": plain(self.input_schema),
            "output_schema": plain(self.output_schema) if self.output_schema is not None else None,
            "hints": plain(self.hints),
        }


@attrs.frozen
class Catalog:
    """All tools of one server, by the server's own names, sorted: the order in which they are listed has no meaning."""

    server: str
    offers: tuple[Offer, ...]

    @property
    def digest(self) -> str:
        """The sha256, in hex, of all names, descriptions, schemas and hints."""
        return hashlib.sha256(_canonical(self.told())).hexdigest()

    def told(self) -> dict[str, Any]:
        """Return it as a value, by the server's own names."""
        return {offer.own: offer.told() for offer in self.offers}

    def difference(self, now: Catalog) -> list[str]:
        """Return what another catalog has changed, one line for each tool that came or went, and for each thing in one."""
        before, after = self.told(), now.told()
        lines = [f"{name} is gone" for name in before if name not in after]
        lines += [f"{name} is new" for name in after if name not in before]
        for name in before:
            if name in after:
                lines += [f"{name}: {change}" for change in _changes("", before[name], after[name])]
        return lines


def catalog(server: str, listed: Iterable[Mapping[str, Any]]) -> Catalog:
    """Return the catalog made of the tools that a server lists, each as it stands on the wire.

    Raises:
        ScenarioError: The server's name is illegal, or two of its tools would have one name.
    """
    check_server_name(server)
    offers: dict[str, Offer] = {}
    for tool in listed:
        own = tool["name"]
        name = full_name(server, own)
        if name in offers:
            other = offers[name].own
            both = f"{own!r} twice" if other == own else f"{other!r} and {own!r}, which would both be {name!r}"
            raise ScenarioError(f"server {server!r} offers {both}; it is never the first that wins. Rename one there.")
        offers[name] = _offer(name, tool)
    return Catalog(server, tuple(sorted(offers.values(), key=lambda offer: offer.own)))


def recalled(server: str, told: Mapping[str, Any]) -> Catalog:
    """Return the catalog that `Catalog.told` told of."""
    wire = {short: long for long, short in _HINTS.items()}
    return catalog(
        server,
        [
            {
                "name": own,
                "description": offer["description"],
                "inputSchema": offer["input_schema"],
                "outputSchema": offer["output_schema"],
                "annotations": {wire[hint]: value for hint, value in offer["hints"].items()},
            }
            for own, offer in told.items()
        ],
    )


def check_server_name(server: str) -> str:
    """Return the name if a server may have it: 1 to 32 of a-z, A-Z, 0-9, _ and -; `society` is reserved.

    Raises:
        ScenarioError: It may not.
    """
    if not isinstance(server, str) or not _SERVER.fullmatch(server) or server == "society":
        raise ScenarioError(
            f"{server!r} cannot be the name of a tool server: its tools are NAME__tool to a model, so it has 1 to 32 of "
            "the characters a-z, A-Z, 0-9, _ and -, and is not `society`."
        )
    return server


def full_name(server: str, own: str) -> str:
    """Return what agents and models call a tool of a server."""
    name = f"{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', own)}"
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 9]}_{hashlib.sha256(own.encode('utf-8', 'replace')).hexdigest()[:8]}"


def result_value(result: Mapping[str, Any]) -> Any:
    """Return what the result of a call, as it stands on the wire, is worth to the caller: the one rule for results."""
    structured = result.get("structuredContent")
    parts = [_part(part) for part in result.get("content") or ()]
    things = parts
    if structured is not None:
        things = [structured, *(part for part in parts if not isinstance(part, str))]
    if not things:
        return None
    return things[0] if len(things) == 1 else things


def failure_text(result: Mapping[str, Any]) -> str:
    """Return what a result that is marked as an error says; never nothing."""
    texts = [part for part in map(_part, result.get("content") or ()) if isinstance(part, str)]
    said = "\n".join(text for text in texts if text.strip())
    if not said and result.get("structuredContent"):
        said = _canonical(result["structuredContent"]).decode()
    return said or SAID_NOTHING


def _part(part: Mapping[str, Any]) -> Any:
    match part.get("type"):
        case "text":
            return part.get("text", "")
        case "image" | "audio" as kind:
            return {"type": kind, "media_type": part.get("mimeType", ""), "data": part.get("data", "")}
    return {key: value for key, value in part.items() if value is not None and key != "_meta"}


def _offer(name: str, tool: Mapping[str, Any]) -> Offer:
    own = tool["name"]
    said = tool.get("annotations") or {}
    output = tool.get("outputSchema")
    return Offer(
        name=name,
        own=own,
        description=freeze(tool.get("description") or ""),
        input_schema=freeze(tool.get("inputSchema") or {"type": "object"}, f"{name}: input schema"),
        output_schema=None if output is None else freeze(output, f"{name}: output schema"),
        hints=FrozenDict({short: said[long] for long, short in _HINTS.items() if isinstance(said.get(long), bool)}),
    )


def _changes(path: str, before: Any, after: Any) -> Iterator[str]:
    """Yield what differs of two values, as deep inside as it can be told."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            below = f"{path}.{key}" if path else key
            if key not in after:
                yield f"{below} was {_short(before[key])}, is gone"
            elif key not in before:
                yield f"{below} is new: {_short(after[key])}"
            else:
                yield from _changes(below, before[key], after[key])
    # By their texts: 1 is not true, nor 1.0, to whoever reads a schema.
    elif (was := _canonical(before).decode()) != (now := _canonical(after).decode()):
        alike = next((at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), 0)
        yield f"{path} was {_cut(was, alike)}, is {_cut(now, alike)}"


def _short(value: Any) -> str:
    return _cut(_canonical(value).decode(), 0)


def _cut(text: str, at: int) -> str:
    """Return a text in at most some 120 characters; of a longer one, those from a bit before `at` on."""
    start = 0 if len(text) <= SHOWN or at < SHOWN - 40 else at - 40
    return f"{'…' if start else ''}{text[start : start + SHOWN]}{'…' if start + SHOWN < len(text) else ''}"
