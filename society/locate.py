"""Where each key path of a TOML text stands, and which keys are there twice.

`tomllib` decides what a text means and whether it is TOML at all, but it keeps no lines and stops at the first repeated
key. This scanner walks the same grammar for the places alone, and goes on.

Knows: the shape of TOML: headers, dotted keys, strings, arrays, inline tables.
Does not know: files, or which keys a scenario has.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import attrs

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the document: `("agents", 2, "count")`."""

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACES: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"{3,5}' + r"|'''[\s\S]*?'{3,5}" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'"
)
_PLAIN: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")


@attrs.frozen
class Place:
    line: int
    """From 1."""
    raw: str | None = None
    """The value as written; `None` for a table or a list."""
    opens: type[dict[str, Any]] | type[list[Any]] | None = None
    """What stands here if it is no plain value."""


@attrs.frozen
class Twice:
    path: Path
    first: int
    again: int
    """Lines, from 1."""


@attrs.frozen
class Places:
    places: dict[Path, Place]
    """In the order of the text. A repeated key keeps the place of its first line."""
    twice: tuple[Twice, ...]
    stopped: int | None
    """The line at which the scanner could not go on; `None` when it came to the end."""

    def line(self, path: Path) -> int | None:
        """Return the line of a path, or of the nearest written table around it; `None` for the document."""
        while path:
            if path in self.places:
                return self.places[path].line
            path = path[:-1]
        return None

    def raw(self, path: Path) -> str | None:
        """Return a value as it is written: `1e3`, not `1000.0`."""
        place = self.places.get(path)
        return place.raw if place else None


def locate(text: str) -> Places:
    """Return the places of all key paths in a text that is TOML, or would be without its repeated keys."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.document()
    except _Lost:
        return Places(scanner.places, tuple(scanner.twice), scanner.line)
    return Places(scanner.places, tuple(scanner.twice), None)


def assembled(places: Places) -> dict[str, Any]:
    """Return the data of a text with repeated keys, the first of each, so that its other faults can be told too.

    Raises:
        tomllib.TOMLDecodeError: One of its values is no TOML.
    """
    data: dict[str, Any] = {}
    for path, place in places.places.items():
        value = place.opens() if place.opens else tomllib.loads(f"value = {place.raw}")["value"]
        _put(data, path, value)
    return data


def path_text(path: Iterable[str | int]) -> str:
    """Return a path as people write it: `agents[2].count`; a key that is not bare stands in quotes."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False))
    return text


def path_of(text: str) -> tuple[str, ...]:
    """Return the keys of a dotted path, quoted ones included: `agents."a.b".count`.

    Raises:
        ValueError: It is not a dotted path.
    """
    scanner = _Scanner(text)
    try:
        keys = scanner.keys()
    except _Lost:
        raise ValueError(f"{text!r} is not a dotted path of keys") from None
    if scanner.at != len(text):
        raise ValueError(f"{text!r} is not a dotted path of keys")
    return keys


def _put(data: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value where it belongs; tables around it are already there. The first of two values stays."""
    here: Any = data
    for key in path[:-1]:
        here = here[key]
    if isinstance(path[-1], str):
        here.setdefault(path[-1], value)
    else:
        here.append(value)


class _Lost(Exception):
    """The text is not what the grammar allows here; `tomllib` says why."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places: dict[Path, Place] = {}
        self.twice: list[Twice] = []
        self._headed: set[Path] = set()  # tables that have a header of their own
        self._rows: dict[Path, int] = {}  # how many tables each [[list]] has so far
        self._newlines = [found.start() for found in re.finditer("\n", text)]

    @property
    def line(self) -> int:
        return bisect_left(self._newlines, self.at) + 1

    def document(self) -> None:
        table: Path = ()
        self._take(_BLANK)
        while self.at < len(self.text):
            if self._next("[["):
                table = self._row_header()
            elif self._next("["):
                table = self._table_header()
            else:
                self._pair(table)
            self._take(_BLANK)

    def keys(self) -> tuple[str, ...]:
        """Read a dotted key, with the blanks around it."""
        found = [self._key()]
        while self._next("."):
            found.append(self._key())
        return tuple(found)

    def _row_header(self) -> Path:
        line = self.line
        *outer, name = self.keys()
        self._want("]]")
        path = (*self._open(self._current(tuple(outer)), line), name)
        if self.places.get(path, Place(0, opens=list)).opens is not list:
            raise _Lost
        self.places.setdefault(path, Place(line, opens=list))
        row = self._rows.get(path, 0)
        self._rows[path] = row + 1
        self.places[(*path, row)] = Place(line, opens=dict)
        return (*path, row)

    def _table_header(self) -> Path:
        line = self.line
        path = self._current(self.keys())
        self._want("]")
        known = self.places.get(path)
        if known is None:
            return self._head(path, line)
        if known.opens is not dict:
            raise _Lost
        if path in self._headed:
            self.twice.append(Twice(path, known.line, line))
        return self._head(path, line)

    def _head(self, path: Path, line: int) -> Path:
        self._headed.add(path)
        return self._open(path, line)

    def _pair(self, table: Path) -> None:
        line = self.line
        *outer, name = self.keys()
        self._want("=")
        path = (*self._open((*table, *outer), line), name)
        if path in self.places:
            self.twice.append(Twice(path, self.places[path].line, line))
            kept = dict(self.places), list(self.twice)
            self._value(("", *path))  # walked over, and forgotten
            self.places, self.twice = kept
        else:
            self._value(path)

    def _value(self, path: Path) -> None:
        self._take(_BLANK)
        line = self.line
        if self._next("["):
            self.places[path] = Place(line, opens=list)
            self._items(path)
        elif self._next("{"):
            self.places[path] = Place(line, opens=dict)
            self._inline(path)
        else:
            self.places[path] = Place(line, raw=self._take(_STRING) or self._take(_PLAIN, needed=True))

    def _items(self, path: Path) -> None:
        index = 0
        self._take(_BLANK)
        while not self._next("]"):
            self._value((*path, index))
            index += 1
            self._take(_BLANK)
            if not self._next(","):
                self._want("]")
                return
            self._take(_BLANK)

    def _inline(self, path: Path) -> None:
        self._take(_BLANK)
        while not self._next("}"):
            self._pair(path)
            self._take(_BLANK)
            if not self._next(","):
                self._want("}")
                return
            self._take(_BLANK)

    def _current(self, path: Path) -> Path:
        """Return the path of a header with the last row of each list of tables that it goes through."""
        found: Path = ()
        for key in path:
            found = (*found, key)
            if found in self._rows:
                found = (*found, self._rows[found] - 1)
        return found

    def _open(self, path: Path, line: int) -> Path:
        """Note the tables on the way to a path that no line has named yet."""
        for length in range(1, len(path) + 1):
            place = self.places.setdefault(path[:length], Place(line, opens=dict))
            if place.opens is None:
                raise _Lost
        return path

    def _key(self) -> str:
        self._take(_SPACES)
        bare = self._take(_BARE)
        if bare:
            key = bare
        else:
            try:
                key = next(iter(tomllib.loads(self._take(_STRING, needed=True) + " = 0")))
            except tomllib.TOMLDecodeError:
                raise _Lost from None
        self._take(_SPACES)
        return key

    def _take(self, pattern: re.Pattern[str], *, needed: bool = False) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            if needed:
                raise _Lost
            return ""
        self.at = found.end()
        return found.group()

    def _next(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def _want(self, mark: str) -> None:
        if not self._next(mark):
            raise _Lost
