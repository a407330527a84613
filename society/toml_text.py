"""Data as TOML: `tomllib.loads(toml_text(data)) == data`, and the keys in each table of it are in the same order.

The library that reads TOML does not write it. Only the tables of the document itself stand under headings: what is
deeper is written in one line, since a heading would move it behind the keys without one, and order may have a meaning.
The keys of the document itself are the exception; those without a heading come first.

Knows: how each kind of value is written.
Does not know: scenarios.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\x7f]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def toml_text(data: Mapping[str, Any]) -> str:
    """Return a document; `data` is what `tomllib` could have returned."""
    lines = [f"{_key(key)} = {_inline(value)}" for key, value in data.items() if not _has_heading(value)]
    for key, value in data.items():
        if _has_heading(value):
            heading = f"[[{_key(key)}]]" if isinstance(value, list) else f"[{_key(key)}]"
            for table in value if isinstance(value, list) else (value,):
                lines += ["", heading, *(f"{_key(name)} = {_inline(item)}" for name, item in table.items())]
    return "\n".join(lines) + "\n"


def _has_heading(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def _inline(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_ESCAPED.sub(_escape, value)}"'
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return (
                f"{{ {', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())} }}" if value else "{}"
            )
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
    return repr(value)  # integers and floats; TOML writes infinities and NaN as Python does


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _inline(key)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"
