"""The shelf: the scenarios that ship with the project, and a new one to start from.

In a checkout they stand in the folder `scenarios` beside the package, in an installed one inside it.

Knows: where they are, and what they say about themselves.
Does not know: what a scenario means.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import attrs

from society.errors import ScenarioError, suggestion

_PACKAGE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@attrs.frozen
class Shipped:
    name: str
    about: str
    path: Path


def shipped() -> list[Shipped]:
    """Return the scenarios that ship with the project, by name."""
    found = []
    for path in sorted(_folder().glob("*.toml")) + sorted(_folder().glob("*/*.toml")):
        if "." in path.stem or (path.parent != _folder() and path.parent.name != path.stem):
            continue  # replies and other tables beside a scenario
        data = tomllib.loads(path.read_text("utf-8"))
        found.append(Shipped(path.stem, " ".join(str(data.get("about", "")).split()), path))
    return sorted(found, key=lambda one: one.name)


def scenario_path(given: str) -> Path:
    """Return the file of a scenario: a path to it, a folder that holds one of its own name, or the name of one that ships.

    Raises:
        ScenarioError: There is no such file.
    """
    path = Path(given)
    if path.is_dir():
        inside = path / f"{path.resolve().name}.toml"
        if inside.is_file():
            return inside
    if path.is_file():
        return path
    there = {one.name: one.path for one in shipped()}
    if given in there:
        return there[given]
    if _NAME.fullmatch(given):
        raise ScenarioError(
            f"{given}: neither a file nor a scenario that ships with the project.{suggestion(given, there)}"
        )
    raise ScenarioError(f"{given}: there is no such file ({path.absolute()}).")


def _folder() -> Path:
    beside = _PACKAGE.parent / "scenarios"
    return beside if beside.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file() else _PACKAGE / "scenarios"


def start(name: str, folder: Path) -> list[Path]:
    """Write a small scenario that runs, into a folder of its own; return its files.

    Raises:
        ScenarioError: The name cannot be one, or there is something of that name already. Nothing is written then.
    """
    if not _NAME.fullmatch(name):
        raise ScenarioError(f"{name!r} is no name for a scenario: a letter, then letters, digits, `-` and `_`.")
    home = folder / name
    try:
        home.mkdir()
    except FileExistsError:
        raise ScenarioError(f"{home} is there already, and nothing is overwritten; choose another name.") from None
    files = {home / f"{name}.toml": _TOML.replace("NAME", name), home / f"{name}.py": _CODE}
    for path, content in files.items():
        path.write_text(content, "utf-8", newline="\n")
    return list(files)


_TOML: Final = """name = "NAME"
about = "One agent asks, another answers, and SHARED counts the answers."
code = "NAME.py"                  # behaviors, by the names of their functions
activation = "synchronized"       # or "sequential": compare them with `society compare`
max_ticks = 6
seed = 1

[parameters]                      # tick.parameters; change one with `--set questions=5`
questions = 2

[shared]
answers = { initial = 0, merge = "sum" }

[[agents]]
name = "asker"
behavior = "ask"

[[agents]]
name = "answerer"
behavior = "answer"

[[measures]]
name = "answers"
value = "answers"                 # the value of a SHARED key, after every round
"""

_CODE: Final = '''"""Behaviors: what an agent does in one round. All agents of a round look at the same snapshot."""


def ask(tick):
    for message in tick.inbox:
        tick.note(f"{message.sender} says {message.body['text']}")
    if tick.round <= tick.parameters["questions"]:
        tick.send("answerer", "question", number=tick.round)


def answer(tick):
    for message in tick.inbox:
        tick.send(message.sender, "answer", text=f"that is {message.body['number'] * 2}")
        tick.share("answers", 1)
'''
