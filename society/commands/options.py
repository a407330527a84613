"""Options that several commands have, and how what was typed becomes values.

Knows: how seeds, rounds and settings are written.
Does not know: which command has which option.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from society.errors import ScenarioError
from society.locate import path_text
from society.setting import GIVEN
from society.view import Screen

OnScreen: TypeAlias = Annotated[Screen, Parameter(parse=False)]
"""Given by the program, not typed."""

Activation: TypeAlias = Literal["synchronized", "sequential", "shuffled", "random", "partial"]

Json: TypeAlias = Annotated[
    bool, Parameter("--json", negative="", help="Print one JSON document on standard output and nothing else.")
]
Settings: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        "--set",
        negative="",
        help="KEY=VALUE: a dotted path into the file, or a parameter's name, and a TOML value. May be repeated.",
    ),
]

_RANGE = re.compile(r"(-?\d*):(-?\d*)")


def settings(given: Iterable[str], **more: Any) -> dict[str, Any]:
    """Return settings by path; those of `more` that are not `None` come last.

    Raises:
        ScenarioFaults: One of them is not KEY=VALUE.
    """
    from society.setting import read_setting

    found = dict(map(read_setting, given))
    return found | {name: value for name, value in more.items() if value is not None}


def model_settings(path: Path, model: str | None, base_url: str | None, usd: float | None) -> dict[str, Any]:
    """Return the settings by which all agents of a scenario ask one model, and have a budget.

    Raises:
        ScenarioError: `--base-url` stands without a model that it is for.
    """
    found: dict[str, Any] = {} if usd is None else {"budget.usd": usd}
    if model is None:
        if base_url is not None:
            raise ScenarioError("--base-url goes with --model, which is asked there.")
        return found
    declared = _models_of(path)
    name = model if model in declared else GIVEN
    found["model"] = name
    at = path_text(("models", name))
    if name == GIVEN:
        file = Path(model)
        kinds = {".toml": "scripted", ".json": "replay"}
        if file.suffix in kinds:
            found |= {f"{at}.use": kinds[file.suffix], f"{at}.replies": str(file.absolute())}
        else:
            found[f"{at}.use"] = model
    if base_url is not None:
        found[f"{at}.base_url"] = base_url
    return found


def _models_of(path: Path) -> Collection[str]:
    """Return the names of a file's models; what is wrong with it is told when it is loaded."""
    try:
        models = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("models", {})
    except (OSError, ValueError):
        return ()
    return models if isinstance(models, dict) else ()


def numbers(typed: str, option: str) -> Collection[int]:
    """Return the numbers in `7`, `1,2,5` or `0:20`, whose end is not among them.

    Raises:
        ScenarioError: It is none of these.
    """
    try:
        found = _RANGE.fullmatch(typed)
        if found is None:
            return tuple(map(int, typed.split(",")))
        if found[2] == "":
            raise ValueError(typed)
        span = range(int(found[1] or 0), int(found[2]))
    except ValueError:
        raise ScenarioError(
            f"{option} {typed}: expected a number, numbers as in 1,2,5, or a range as in 0:20."
        ) from None
    if not span:
        raise ScenarioError(f"{option} {typed}: there is no number in it; the end of a range is not part of it.")
    return span


def file_to_write(path: Path | None, option: str, *read: Path, endings: Collection[str] = ()) -> None:
    """Check before a run that a file can be written after it, and that nothing is lost by that.

    Args:
        path: What was typed, if anything was.
        option: Behind which option.
        read: What the command reads: it is not written over.
        endings: How the name may end, where the ending says what is written; any where it is empty.

    Raises:
        ScenarioError: Its folder is not there, it is a folder itself, it is read, or it is what a run is resumed from.
    """
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise ScenarioError(f"{option} {path}: the folder {path.absolute().parent} is not there.")
    if path.is_dir():
        raise ScenarioError(f"{option} {path}: a folder; name a file in it.")
    if endings and path.suffix not in endings:
        raise ScenarioError(f"{option} {path}: expected a name that ends in {' or '.join(endings)}.")
    kept = path.resolve()
    if kept in [one.resolve() for one in read]:
        raise ScenarioError(f"{option} {path}: this command reads it. Choose another file.")
    # A trace can be told again; these cannot.
    if kept.exists() and kept.name in ("journal.jsonl", "scenario.toml") and (kept.parent / "journal.jsonl").exists():
        raise ScenarioError(f"{option} {path}: a run is resumed from it. Choose another file.")
