"""`society run`: run a scenario, tell of it while it runs, and sum it up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.life import Asking, Kept, Quiet, lived, told
from society.commands.options import Activation, Json, OnScreen, Settings, file_to_write, model_settings, settings
from society.exit_codes import Verdict


def run(
    scenario: str,
    *,
    activation: Activation | None = None,
    ticks: int | None = None,
    seed: int | None = None,
    set_: Settings = (),
    model: str | None = None,
    base_url: Annotated[str | None, Parameter("--base-url", negative="")] = None,
    budget_usd: Annotated[float | None, Parameter("--budget-usd", negative="")] = None,
    record: Annotated[bool, Parameter(negative="")] = False,
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
        model: What all agents ask, whatever they name: one of the scenario's models, the name of a model of the
            service, or a file of scripted replies (.toml) or of kept answers (.json).
        base_url: Any server that speaks the Messages API, for that model.
        budget_usd: How many dollars all of them may spend, instead of the scenario's own budget.
        record: Keep the answers of the models in the run's folder, in replies.json; `--model` runs with them again.
        store: The folder to keep it in, instead of a fresh one under runs/. If the folder holds a run of the same
            scenario, that one goes on.
        no_store: Keep nothing.
        trace: Write the trace to this file, too.
        measures: Write the measures to this file, a row for each value: as Parquet if it is a .parquet, else as CSV.
        show: Print the story of the run before the summary.
    """
    from society.approving import people
    from society.errors import ScenarioError
    from society.frames import check_writable
    from society.frames import write as write_table
    from society.load import load_scenario
    from society.mentions import check_read
    from society.shelf import scenario_path

    if store is not None and no_store:
        raise ScenarioError("--store and --no-store: choose one of them.")
    if record and no_store:
        raise ScenarioError("--record and --no-store: answers are kept in the run's folder.")
    path = scenario_path(scenario)
    file_to_write(trace, "--trace", path)
    file_to_write(measures, "--measures", path)
    if measures is not None:
        check_writable(measures)
    asked = model_settings(path, model, base_url, budget_usd)
    given = settings(set_)
    loaded = load_scenario(path, set=given | settings((), activation=activation, max_ticks=ticks, seed=seed) | asked)
    check_read(given, loaded, "--set")
    folder = None if no_store else _folder(loaded, store)
    town = _town(loaded, folder, people(approve, loaded.every_host, screen))
    ran = lived(town, lambda: town.run(loaded.max_ticks), loaded.max_ticks, Kept(folder=folder), screen, quiet or json)
    if record and folder is not None:
        _record(folder)
    if trace is not None:
        ran.result.trace.save(trace)
    if measures is not None:
        write_table(ran.result.trace.measured(), measures)
    return told(ran, screen, json=json, show=show)


def _record(folder: Path) -> None:
    """Write down what models answered, where a `ReplayModel` finds it."""
    import msgspec

    from society.file_store import FileStore
    from society.models import answers_in

    answers = answers_in(FileStore(folder).read().records())
    (folder / "replies.json").write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")


def _folder(loaded: Any, given: Path | None) -> Path:
    from society.run_folder import fresh

    return fresh(loaded.name) if given is None else given


def _town(loaded: Any, folder: Path | None, people: dict[str, Any]) -> Any:
    """Return the society to run: where it is kept, that of the copy in the run's folder."""
    if folder is None:
        return loaded.society(**people)
    from society.file_store import FileStore
    from society.run_folder import JOURNAL, claimed, laid

    store = FileStore(folder)
    if (folder / JOURNAL).exists():
        return _same(folder, loaded).society(store=store, **people)
    with claimed(folder):
        return laid(loaded, folder).society(store=store, **people)


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
