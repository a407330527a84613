"""`society list` and `society new`: the scenarios that ship with the project, and a new one to start from."""

from __future__ import annotations

from pathlib import Path

from society.commands.options import Json, OnScreen
from society.exit_codes import DONE, Verdict


def list_(*, json: Json = False, screen: OnScreen) -> Verdict:
    """List the scenarios that ship with the project."""
    from society.lines import Layout, Part
    from society.shelf import shipped

    there = shipped()
    if json:
        import msgspec

        facts = [{"name": one.name, "about": one.about, "path": str(one.path)} for one in there]
        screen.document(msgspec.json.encode(facts) + b"\n")
        return Verdict(DONE, "")
    column = max((len(one.name) for one in there), default=0) + 2
    layout = Layout(screen.width if screen.is_terminal else 1_000_000)
    for one in there:
        parts = [Part(one.name, "name"), Part(" " * (column - len(one.name))), Part(one.about)]
        screen.print(layout.wrapped(parts, column))
    return Verdict(DONE, "")


def new(name: str, *, screen: OnScreen) -> Verdict:
    """Write a small scenario to start from, into a folder of its name.

    Args:
        name: Of the scenario, its folder and its files.
    """
    from society.shelf import start

    for path in start(name, Path()):
        screen.tell(f"wrote {path}")
    screen.tell(f"Run it with: society run {name}")
    return Verdict(DONE, "")
