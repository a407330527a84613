"""References to the environment: `{ env = "NAME" }` where a text stands.

What is read from the environment may be a secret. It is never stored: the meaning of a scenario holds the reference.
So it cannot stand where values are written into journals and traces.

Knows: where a reference may stand.
Does not know: what the text is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from society.locate import Path
from society.report import TEXT, Report


@attrs.define
class Environment:
    variables: Mapping[str, str]
    report: Report
    used: list[str] = attrs.field(factory=list)
    """Names of the variables that the file refers to."""

    def resolved(self, data: Any) -> Any:
        """Return the data with each reference replaced by its text; what is missing is reported."""
        return self._walked(data, (), self._text)

    def named(self, data: Any) -> Any:
        """Return the data with each reference replaced by how it is written."""
        return self._walked(data, (), lambda name, _: f'{{ env = "{name}" }}')

    def _walked(self, data: Any, path: Path, replace: Any) -> Any:
        if isinstance(data, list):
            return [self._walked(item, (*path, index), replace) for index, item in enumerate(data)]
        if not isinstance(data, dict):
            return data
        if list(data) != ["env"] or _is_section(path):
            return {key: self._walked(item, (*path, key), replace) for key, item in data.items()}
        return replace(data["env"], path)

    def _text(self, name: Any, path: Path) -> str:
        if not isinstance(name, str):
            self.report.add((*path, "env"), expected=f"{TEXT}, the name of a variable", found=name)
        elif _is_stored(path):
            self.report.add(
                path, "what is read from the environment cannot stand here: it would be written into the journal"
            )
        elif name not in self.variables and _is_key(path):
            self.used.append(name)  # a key is missed by the model that needs it, and only if it is asked
        elif name not in self.variables:
            self.report.add(path, f"the environment variable {name} is not set")
        else:
            self.used.append(name)
            return self.variables[name]
        return ""


def _is_section(path: Path) -> bool:
    """Tell whether a table is one whose keys are the author's, so that one of them may be called `env`."""
    match path:
        case () | ("parameters" | "shared" | "limits" | "policy" | "models" | "servers" | "topology",):
            return True
        case ("models" | "servers", _) | ("agents", _, "state" | "public") | ("events", _, "share"):
            return True
        case ("events", _, "send", "body"):
            return True
    return False


def _is_key(path: Path) -> bool:
    return len(path) == 3 and path[0] == "models" and path[2] == "api_key"


def _is_stored(path: Path) -> bool:
    match path:
        case ("shared" | "events", *_) | ("agents", _, "state" | "public", *_):
            return True
    return False
