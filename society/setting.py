"""Settings from outside: `--set parameters.patience=5`, put into the data of a scenario file before it is read.

    parameters.patience      a key of the file, by its path; what it names must be there, or be a key that the table has
    patience                 a parameter, by its bare name
    shared.status            the first value of a SHARED key; its merge rule and writers stay
    agents.citizen.count     an agent by its name, or by its `from`; `measures` by name; `events` by number, from 0

A value is a TOML value, so a text stands in quotes: `shared.status="closed"`.

Knows: paths into the file.
Does not know: whether a value fits; the tables judge it like one that stands in the file.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from society.errors import Fault, ScenarioFaults, nearest
from society.limits import Limits
from society.locate import Path, path_of, path_text
from society.tables import (
    AgentTable,
    BudgetTable,
    EventTable,
    MeasureTable,
    ModelTable,
    PolicyTable,
    ScenarioTable,
    SendTable,
    ServerTable,
    SharedTable,
)

GIVEN: Final = "given"
"""A table of models that need not be in the file: what was given from outside goes there."""

_BY_NAME: Final = {"agents": ("name", "from"), "measures": ("name",)}


class SettingRefused(Exception):
    """A setting that names nothing; `near` is the nearest name."""

    def __init__(self, message: str, near: str | None = None) -> None:
        super().__init__(message)
        self.near = near


def read_setting(text: str) -> tuple[str, Any]:
    """Return (path, value) of a setting as it is typed: `KEY=VALUE`.

    Raises:
        ScenarioFaults: There is no `=`, or what follows is no TOML value.
    """
    path, mark, value = text.partition("=")
    if not mark or not path.strip():
        raise _refused(text, "a setting is KEY=VALUE")
    try:
        read = tomllib.loads(f"value = {value.strip()}")
    except tomllib.TOMLDecodeError:
        read = {}
    if list(read) != ["value"]:
        raise _refused(
            text, f"{value.strip()} is no TOML value; a text stands in quotes: {path.strip()}='\"{value.strip()}\"'"
        )
    return path.strip(), read["value"]


def with_settings(
    data: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[Path, str], list[Fault]]:
    """Return (data with the settings in it, how each path was set, faults). What is refused changes nothing."""
    changed = copy.deepcopy(dict(data))
    said: dict[Path, str] = {}
    faults = []
    for text, value in settings.items():
        try:
            path = found(changed, text)
            _put(changed, path, value)
        except SettingRefused as refused:
            faults.append(Fault(file="--set", path=text, message=str(refused), near=refused.near))
        else:
            said[path] = "--set"
    return changed, said, faults


def found(data: Mapping[str, Any], text: str) -> Path:
    """Return the path into the data that a setting means.

    Raises:
        SettingRefused: It names nothing, or two things.
    """
    try:
        keys = path_of(text)
    except ValueError as error:
        raise SettingRefused(str(error)) from None
    declared = data.get("parameters")
    parameters = list(declared) if isinstance(declared, dict) else []
    is_parameter = keys[0] in parameters
    is_key = keys[0] in _known(ScenarioTable)
    if is_parameter and is_key and len(keys) == 1:
        raise SettingRefused(f"both a key of the file and a parameter; write parameters.{text} for the parameter")
    if is_parameter and not is_key:
        keys = ("parameters", *keys)
    elif not is_key:
        raise _unknown(keys[0], [*parameters, *_known(ScenarioTable)])
    return _path(data, keys)


def _path(data: Any, keys: tuple[str, ...]) -> Path:
    here: Any = data
    step: Any
    path: Path = ()
    for key in keys:
        step = _step(here, path, key)
        path = (*path, step)
        here = here[step] if isinstance(here, list) or step in here else {}
        if _is_shared_key(path) and not isinstance(here, dict):
            here = {"initial": here}
    return (*path, "initial") if _is_shared_key(path) else path


def _step(here: Any, path: Path, key: str) -> str | int:
    if isinstance(here, list):
        return _number(here, path, key)
    if not isinstance(here, dict):
        raise SettingRefused(f"{path_text(path)} is no table, it has no {key!r}")
    known = _keys(here, path)
    if key not in known:
        raise _unknown(key, known)
    return key


def _keys(here: Mapping[str, Any], path: Path) -> list[str]:
    """Return the keys that a setting may name in a table: those that are there, and those that the table could have."""
    match path:
        case ():
            return _known(ScenarioTable)
        case ("limits",):
            return _known(Limits)
        case ("policy",) | ("agents", _, "policy"):
            return _known(PolicyTable)
        case ("shared", _):
            return _known(SharedTable)
        case ("servers", _):
            return _known(ServerTable)
        case ("models",):
            return [*here, GIVEN]
        case ("models", _):
            return _known(ModelTable)
        case ("budget",) | ("agents", _, "budget"):
            return _known(BudgetTable)
        case ("topology",):
            return [*here, "graph", "group"]
        case ("agents", _):
            return _known(AgentTable)
        case ("events", _):
            return _known(EventTable)
        case ("events", _, "send"):
            return _known(SendTable)
        case ("measures", _):
            return _known(MeasureTable)
    # What is left are values, whose keys are the author's: a setting changes what is there and adds nothing.
    return list(here)


def _is_shared_key(path: Path) -> bool:
    return len(path) == 2 and path[0] == "shared"


def _known(table: Any) -> list[str]:
    return [field.name.rstrip("_") for field in attrs.fields(table) if "omit" not in field.metadata]


def _number(rows: list[Any], path: Path, key: str) -> int:
    """Return which of several tables is meant: by name, or by number."""
    names = [
        (number, row[name])
        for number, row in enumerate(rows)
        for name in _BY_NAME.get(str(path[-1]), ())
        if isinstance(row, dict) and isinstance(row.get(name), str)
    ]
    for number, name in names:
        if name == key:
            return number
    if key.isdecimal() and int(key) < len(rows):
        return int(key)
    raise _unknown(key, [name for _, name in names] or [str(number) for number in range(len(rows))])


def _put(data: dict[str, Any], path: Path, value: Any) -> None:
    here: Any = data
    for depth, key in enumerate(path[:-1], 1):
        if isinstance(here, dict):
            here.setdefault(key, {})
        if _is_shared_key(path[:depth]) and not isinstance(here[key], dict):
            here[key] = {"initial": here[key]}
        here = here[key]
    here[path[-1]] = value


def _unknown(name: str, known: Iterable[str]) -> SettingRefused:
    known = list(dict.fromkeys(known))
    near = nearest(name, known)
    few = f"; known: {', '.join(known)}" if not near and len(known) <= 8 else ""
    return SettingRefused(f"unknown key {name!r}{few}", near[0] if near else None)


def _refused(text: str, message: str) -> ScenarioFaults:
    return ScenarioFaults((Fault(file="--set", path=text, message=message),))
