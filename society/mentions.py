"""Which parameters of a scenario are read by nobody: to change one of them would seem to say that it does not matter.

Told by the texts of the scenario and of its code, so any mention of a name is taken for a reading: what is refused is
read by nobody for certain.

Knows: files, and how a text mentions a parameter.
Does not know: what code does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from society.errors import ScenarioError, suggestion

if TYPE_CHECKING:
    from society.scenario import Scenario


def unread(scenario: Scenario) -> list[str]:
    """Return the names of the parameters that nobody reads, in declared order."""
    return [name for name in scenario.parameters if not _is_read(name, scenario)]


def check_read(keys: Iterable[str], scenario: Scenario, how: str) -> None:
    """Refuse to set parameters that nobody reads.

    Args:
        keys: Paths that are set, `parameters.patience` or `patience`; others than parameters are passed over.
        how: They are set: `--set`.

    Raises:
        ScenarioError: Nobody reads one of them.
    """
    for key in keys:
        name = key.removeprefix("parameters.")
        if name not in scenario.parameters or (name == key and "." in key) or _is_read(name, scenario):
            continue
        read = [other for other in scenario.parameters if _is_read(other, scenario)]
        raise ScenarioError(f"{how}: nobody reads the parameter {name!r}.{suggestion(name, read)}")


def _is_read(name: str, scenario: Scenario) -> bool:
    in_code = re.compile(rf"\b{re.escape(name)}\b")
    in_toml = re.compile(rf"\bparameters\.{re.escape(name)}\b|\{{{re.escape(name)}\}}")
    for one in scenario.inputs:
        text = one.path.read_text("utf-8", errors="replace")
        if (in_toml if one.path == scenario.path else in_code).search(text):
            return True
    return False
