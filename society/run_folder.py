"""A run's folder: all that a run needs to be resumed, replayed or forked, here or on another machine.

    scenario.toml         as it was run: the author's file, line by line, and a section [run] at its end that says where
                          its other files lie now, and what was set from outside
    inputs/               copies of the files that it names, and of those its code imports, as they lay to each other
    inputs/digests.json   their sha256, by path inside `inputs/`
    journal.jsonl         what the run is resumed from
    trace.jsonl           its story up to where it last ended

A run uses these copies from its first round on, so that nothing is found missing when it is resumed. What the environment
holds is not in them: `{ env = "NAME" }` stands there as the author wrote it.

Knows: the names of the files, and how they come there.
Does not know: records, or how a run goes.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from society.errors import ResumeRefused, ScenarioError, ScenarioFaults

if TYPE_CHECKING:
    from society.scenario import Scenario
    from society.trace import Trace

RUNS: Final = Path("runs")
"""Where runs are kept that were not told where to go."""

SCENARIO, INPUTS, DIGESTS = "scenario.toml", "inputs", "inputs/digests.json"
JOURNAL, TRACE = "journal.jsonl", "trace.jsonl"
HOW: Final = "# How it was run:"
"""What stands above the section [run]."""


def fresh(name: str, under: Path = RUNS) -> Path:
    """Return the path of a new run's folder, not made yet: `runs/20261130T221530Z-incident-3f2a`."""
    # No colons: they separate paths on some systems, and cannot be in names on others.
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    known = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40] or "run"
    return under / f"{now}-{known}-{secrets.token_hex(2)}"


def begun(scenario: Scenario, folder: Path) -> Scenario:
    """Make a run's folder and return the scenario that lies in it, which is the one to run.

    Raises:
        ScenarioError: The folder is in use for something else, or the copy is not what the original is.
        OSError: The disk says no.
    """
    with claimed(folder):
        return laid(scenario, folder)


def laid(scenario: Scenario, folder: Path) -> Scenario:
    """Write a scenario into a folder that is claimed, and return it as it lies there."""
    text, copies = _whole(scenario)
    _write_all(folder, text, copies)
    return _checked(scenario, folder)


def _checked(scenario: Scenario, folder: Path) -> Scenario:
    """Return the copy of a scenario, which means the same."""
    try:
        copy = scenario_in(folder)
    except ScenarioFaults as faults:
        raise ScenarioError(
            f"the copy of this scenario in {folder} does not stand by itself:\n{faults}\n"
            "Name the files that the code reads in the scenario's key `inputs`, or run it with --no-store."
        ) from faults
    if copy.fingerprint != scenario.fingerprint:
        from society.fingerprint import differences

        changed = "; ".join(differences(scenario.meaning, copy.meaning)[:4])
        raise ScenarioError(f"the copy of this scenario in {folder} means something else: {changed}.")
    return copy


def refuse_taken(folder: Path) -> None:
    """Check that a folder is free for a new run.

    Raises:
        ScenarioError: It holds something, or is none.
    """
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(f"{folder} is a file; a run is kept in a folder.")
    if (folder / JOURNAL).exists():
        raise ScenarioError(f"{folder} holds a run already; choose another folder for a new one.")
    if folder.is_dir() and any(folder.iterdir()):
        raise ScenarioError(f"{folder} is not empty and holds no run; choose another folder.")


def branched(source: Path, folder: Path) -> Scenario:
    """Make the folder of a run that forks from another; return its scenario, which is the other's.

    Raises:
        ScenarioError, OSError: As `begun`.
    """
    refuse_taken(folder)
    scenario_in(source)
    inside = source / INPUTS
    files = sorted(path for path in inside.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    copies = {path.relative_to(inside).as_posix(): path.read_bytes() for path in files if path != source / DIGESTS}
    with claimed(folder):
        _write_all(folder, (source / SCENARIO).read_bytes(), copies)
        return scenario_in(folder)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Own a folder for a new run. When the block fails nothing is left of it: half a run helps nobody.

    Raises:
        ScenarioError: The folder holds something, or is none. That is somebody else's, and stays.
    """
    refuse_taken(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / INPUTS).mkdir()  # of two that begin here at the same time, one can
    except FileExistsError:
        raise ScenarioError(f"{folder}: another run begins there just now; choose another folder.") from None
    try:
        yield
    except BaseException:  # it goes on, once nothing is left of what was begun
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if made:
            folder.rmdir()
        raise


def scenario_in(folder: Path) -> Scenario:
    """Return the scenario of a run, ready to go on.

    Raises:
        ResumeRefused: There is none: the run was made by a program, and that is where it goes on.
        ScenarioFaults: It was changed into something unsound.
    """
    from society.load import load_scenario

    if not folder.is_dir():
        raise ScenarioError(f"{folder}: there is no such folder.")
    if not (folder / SCENARIO).is_file():
        raise ResumeRefused(
            f"{folder} holds no {SCENARIO}. A run that a program began is gone on with by that program: "
            "society.resume(store, make)"
        )
    return load_scenario(folder / SCENARIO)


def changed_inputs(folder: Path) -> list[str]:
    """Return the files in `inputs/` that are no longer what they were when the run began, or are gone."""
    try:
        digests = json.loads((folder / DIGESTS).read_bytes())
    except (FileNotFoundError, ValueError):
        return [DIGESTS]
    return [f"{INPUTS}/{name}" for name, digest in digests.items() if _digest_of(folder / INPUTS / name) != digest]


def keep_trace(folder: Path, trace: Trace) -> None:
    """Write a run's trace into its folder, whole or not at all."""
    half = folder / f"{TRACE}.part"
    trace.save(half)
    half.replace(folder / TRACE)


def _whole(scenario: Scenario) -> tuple[bytes, dict[str, bytes]]:
    """Return (the text of the scenario as it is run, copies by their path in `inputs/`)."""
    from society.locate import path_text
    from society.setting import with_settings
    from society.toml_text import toml_text

    original = scenario.path.read_bytes().decode("utf-8-sig")
    data = tomllib.loads(original)
    inputs = scenario.inputs[1:]
    outside = max((_ups(one.name) for one in inputs), default=0)
    home = Path(*scenario.folder.parts[len(scenario.folder.parts) - outside :]) if outside else Path()
    moved = {
        # Settings name the tables of a list by their numbers.
        path_text(tuple(map(str, setting))): Path(os.path.relpath(path, scenario.folder)).as_posix()
        for setting, path in scenario.absolute.items()
    }
    settings = {**scenario.settings, **moved}
    _refuse_secrets(with_settings(data, settings)[0])
    run = {
        "file": data.get("run", {}).get("file", scenario.path.name),
        "folder": Path(INPUTS, home).as_posix(),
        "set": settings,
    }
    text = f"{_without_run(original)}\n{HOW}\n{toml_text({'run': run})}"
    copies = {os.path.normpath(home / one.name): one.path.read_bytes() for one in inputs}
    return text.encode(), copies


def _without_run(text: str) -> str:
    """Return a scenario's text up to its section [run], if it is a copy of a run itself."""
    before, mark, _ = text.partition(f"\n{HOW}\n")
    return before if mark else text + ("" if text.endswith("\n") else "\n")


def _ups(name: str) -> int:
    """Return how many folders up a path leads."""
    return sum(part == ".." for part in Path(name).parts)


def _refuse_secrets(data: Mapping[str, Any]) -> None:
    for name, model in (data.get("models") or {}).items():
        if isinstance(model, dict) and isinstance(model.get("api_key"), str):
            raise ScenarioError(
                f'models.{name}.api_key: a text here would be written into the run\'s folder. Write {{ env = "NAME" }}, '
                "of which only the name is kept, or run with --no-store."
            )


def _write_all(folder: Path, scenario: bytes, copies: Mapping[str, bytes]) -> None:
    """Write the files of a new run durably, the scenario last: where it stands, the rest stands too."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(copies.items())}

    for name, content in copies.items():
        _write(folder / INPUTS / name, content)
    _write(folder / DIGESTS, json.dumps(digests, indent=1, ensure_ascii=False).encode() + b"\n")
    _write(folder / SCENARIO, scenario)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _digest_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
