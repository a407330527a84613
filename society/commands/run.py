"""`society run`: run a scenario, tell of it while it runs, and sum it up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.life import Asking, Kept, Quiet, lived, told
from society.commands.options import Activation, Json, OnScreen, Settings, file_to_write, settings
from society.exit_codes import Verdict


def run(
    scenario: str,
    *,
    activation: Activation | None = None,
    ticks: int | None = None,
    seed: int | None = None,
    set_: Settings = (),
    store: Annotated[Path | None, Parameter(negative="")] = None,
    no_store: Annotated[bool, Parameter(("--no-store",), negative="")] = False,
    trace: Path | None = None,
    measures: Path | None = None,
    approve: Asking = None,
    show: Annotated[bool, Parameter(negative="")] = False,
    quiet: Quiet = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Run a scenario, and keep the run in a folder.

    Args:
        scenario: A scenario file, or the name of one that ships with the project.
        activation: The rule by which ticks follow one another, instead of the scenario's own.
        ticks: How many rounds at most, instead of the scenario's own.
        seed: Instead of the scenario's own.
        store: The folder to keep it in, instead of a fresh one under runs/. If the folder holds a run of the same
            scenario, that one goes on.
        no_store: Keep nothing.
        trace: Write the trace to this file, too.
        measures: Write the measures to this file, as CSV.
        show: Print the story of the run before the summary.
    """
    from society.approving import people
    from society.errors import ScenarioError
    from society.load import load_scenario
    from society.shelf import scenario_path

    if store is not None and no_store:
        raise ScenarioError("--store and --no-store: choose one of them.")
    file_to_write(trace, "--trace")
    file_to_write(measures, "--measures")
    loaded = load_scenario(
        scenario_path(scenario), set=settings(set_, activation=activation, max_ticks=ticks, seed=seed)
    )
    folder = None if no_store else _folder(loaded, store)
    town = _town(loaded, folder, people(approve, loaded.every_host, screen))
    ran = lived(town, lambda: town.run(loaded.max_ticks), loaded.max_ticks, Kept(folder=folder), screen, quiet or json)
    if trace is not None:
        ran.result.trace.save(trace)
    if measures is not None:
        write_measures(ran.result.trace, measures)
    return told(ran, screen, json=json, show=show)


def _folder(loaded: Any, given: Path | None) -> Path:
    from society.run_folder import fresh

    return fresh(loaded.name) if given is None else given


def _town(loaded: Any, folder: Path | None, people: dict[str, Any]) -> Any:
    """Return the society to run: where it is kept, that of the copy in the run's folder."""
    if folder is None:
        return loaded.society(**people)
    from society.file_store import FileStore
    from society.run_folder import JOURNAL, begun, taken_back

    store = FileStore(folder)
    if (folder / JOURNAL).exists():
        return _same(folder, loaded).society(store=store, **people)
    with taken_back(folder):
        return begun(loaded, folder).society(store=store, **people)


def _same(folder: Path, loaded: Any) -> Any:
    """Return the scenario in the folder of a run that was begun already.

    Raises:
        ResumeRefused: It is a run of something else.
    """
    from society.errors import ResumeRefused
    from society.fingerprint import differences
    from society.run_folder import scenario_in

    there = scenario_in(folder)
    if there.fingerprint != loaded.fingerprint:
        changed = "; ".join(differences(there.meaning, loaded.meaning)[:4])
        raise ResumeRefused(f"{folder} holds a run of something else: {changed}. Choose another folder.")
    return there


def write_measures(trace: Any, path: Path) -> None:
    """Write a line for each value that was measured: round, measure, agent, value."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("round", "measure", "agent", "value"))
        for event in trace.where(kind="measure"):
            lines.writerow((event.round, event.name, event.agent or "", event.value))
