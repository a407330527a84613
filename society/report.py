"""What is wrong with a scenario, found by key path, told by line.

Every check adds to one report and goes on, so that all faults of a file are told at once.

Knows: where key paths stand, and which of them were set from outside.
Does not know: what can be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from society.errors import Fault, ScenarioFaults, nearest
from society.locate import Path, Places, path_text

TEXT: Final = "a text"
ABSENT: Final = object()
"""Nothing stands there; `None` would be a value."""


@attrs.define
class Report:
    file: str
    """As the caller named it."""
    places: Places
    settings: Mapping[Path, str] = attrs.field(factory=dict)
    """How a value was given from outside, by the path that it was set at: `--set seed`."""
    faults: list[Fault] = attrs.field(factory=list)

    def add(
        self,
        path: Path,
        message: str = "",
        *,
        expected: str | None = None,
        found: Any = ABSENT,
        near: str | None = None,
    ) -> None:
        """Note a fault at a key path. `found` is the value that stands there, not its description."""
        said = None if found is ABSENT else self._said(path, found, expected)
        file, line = self.where(path)
        text = path_text(path)
        self.faults.append(
            Fault(file=file, line=line, path=text, message=message, expected=expected, found=said, near=near)
        )

    def unknown(self, path: Path, what: str, name: str, known: Iterable[str]) -> None:
        """Note a name that nothing has, with the nearest of those that there are, or with all when they are few."""
        known = list(dict.fromkeys(known))
        near = nearest(name, known)
        few = f"; known: {', '.join(known)}" if known and not near and len(known) <= 8 else ""
        self.add(path, f"{what} {name!r}{few}", near=near[0] if near else None)

    def where(self, path: Path) -> tuple[str, int | None]:
        """Return the file and line of a key path."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.settings:
                return self.settings[path[:length]], None
        return self.file, self.places.line(path)

    def conclude(self) -> None:
        """Raise all faults that were noted, in the order of their lines.

        Raises:
            ScenarioFaults: There are any.
        """
        if self.faults:
            # A fault without a line is about the whole file, or about a setting: it comes first.
            ordered = sorted(
                dict.fromkeys(self.faults), key=lambda fault: (fault.file != self.file, fault.file, fault.line or 0)
            )
            raise ScenarioFaults(tuple(ordered))

    def _said(self, path: Path, found: Any, expected: str | None) -> str:
        raw = self.places.raw(path) if path not in self.settings else None
        if raw is None or isinstance(found, str):
            return described(found)
        said = f"{_kind(found)} {raw}"
        return f'{said}; in quotes it is a text: "{raw}"' if expected == TEXT else said


def described(value: Any) -> str:
    """Return a few words for a value from a scenario file."""
    match value:
        case str():
            return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:57]!r}…"
        case list():
            return "a list"
        case dict():
            return "a table"
        case bool():
            return f"{_kind(value)} {str(value).lower()}"
    return f"{_kind(value)} {value}"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "the truth value"
    if isinstance(value, (int, float)):
        return "the number"
    return "the time" if hasattr(value, "hour") else "the date"
