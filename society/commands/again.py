"""`society resume`, `replay` and `fork`: what is done with a run that has a folder.

Knows: options, and what is said before and after.
Does not know: how records become a run again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.life import Asking, Kept, Quiet, lived, told
from society.commands.options import Json, OnScreen, Settings, settings
from society.exit_codes import DIFFERENCE, DONE, MEANINGS, Verdict
from society.lines import counted
from society.view import Screen


def resume(
    folder: Annotated[Path, Parameter(name="DIR")],
    /,
    *,
    ticks: int | None = None,
    cut: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
    approve: Asking = None,
    quiet: Quiet = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Go on with a run after a crash, a signal, a failure, or an answer.

    What counts is what lies in the run's folder: a mistake in the code is mended in its `inputs`.

    Args:
        folder: The run's folder.
        ticks: How many rounds in all, instead of the scenario's own.
        cut: Set a damaged last batch of the journal aside first, and take its actions as in doubt.
        force: Go on although the scenario's meaning has changed. The journal says so.
    """
    from society.reruns import opened_at
    from society.reruns import resume as resumed
    from society.run_folder import scenario_in

    scenario = scenario_in(folder)
    store = opened_at(folder)
    rounds = scenario.max_ticks if ticks is None else ticks
    town = scenario.society(store=store, **_people(approve, scenario, store, screen))
    town.forced = force
    _tell_changed(folder, screen)

    async def run() -> Any:
        return await resumed(store, lambda **_: town, max_ticks=rounds, force=force, cut=cut)

    return told(lived(town, run, rounds, Kept(folder=folder, ticks=ticks), screen, quiet or json), screen, json=json)


def _people(approve: Any, scenario: Any, store: Any, screen: Screen) -> dict[str, Any]:
    """Return who is asked. A run that waits for answers goes on waiting for those that are missing."""
    from society.approving import people
    from society.errors import JournalDamaged
    from society.whereabouts import whereabouts

    if approve is None:
        with suppress(JournalDamaged):  # it is cut off, or told, by what follows
            approve = "wait" if whereabouts(store.read()).waiting else None
    return people(approve, scenario.every_host, screen)


def _tell_changed(folder: Path, screen: Screen) -> None:
    from society.run_folder import changed_inputs

    for name in changed_inputs(folder):
        screen.say(f"{folder / name} is not what it was when the run began.")


def replay(folder: Annotated[Path, Parameter(name="DIR")], /, *, json: Json = False, screen: OnScreen) -> Verdict:
    """Run the behaviors of a run again, with all answers from its journal, and compare; exit with 4 at a difference.

    Args:
        folder: The run's folder.
    """
    from society.errors import ReplayDivergence
    from society.reruns import opened_at
    from society.reruns import replay as replayed
    from society.run_folder import scenario_in

    scenario_in(folder)  # said before the journal is read: what is missing, or unsound
    _tell_changed(folder, screen)
    try:
        found = replayed(opened_at(folder))
    except ReplayDivergence as divergence:
        if not json:
            raise
        import attrs

        facts = {"same": False, "difference": attrs.asdict(divergence), "exit_code": DIFFERENCE}
        return _reported(facts, Verdict(DIFFERENCE, MEANINGS[DIFFERENCE]), screen)
    digest = found.trace.digest
    verdict = Verdict(DONE, f"{counted(found.rounds, 'round')} replayed, and nothing differs")
    if json:
        facts = {
            "same": True,
            "rounds": found.rounds,
            "digest": digest,
            "outcome": found.outcome or None,
            "open": found.ends_open,
            "exit_code": verdict.code,
        }
        return _reported(facts, verdict, screen)
    screen.tell(f"{digest}  {folder}")
    if found.ends_open:
        screen.tell("The journal ends inside a round, which was not replayed.")
    return verdict


def _reported(facts: dict[str, Any], verdict: Verdict, screen: Screen) -> Verdict:
    import msgspec

    screen.document(msgspec.json.encode(facts, enc_hook=str) + b"\n")
    return verdict


def fork(
    folder: Annotated[Path, Parameter(name="DIR")],
    /,
    *,
    at: int,
    set_: Settings = (),
    store: Annotated[Path | None, Parameter(negative="")] = None,
    ticks: int | None = None,
    approve: Asking = None,
    quiet: Quiet = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Start a new run that has everything up to a round from an old one, and goes another way from there.

    Args:
        folder: The old run's folder, which stays as it is.
        at: The last round that both runs have; 0 starts over.
        store: The folder of the new run, instead of a fresh one under runs/.
        ticks: How many rounds in all, instead of the scenario's own.
    """
    import trio

    from society.approving import people
    from society.file_store import FileStore
    from society.reruns import fork as forked
    from society.run_folder import branched, fresh, refuse_taken, scenario_in
    from society.store import convert

    name = scenario_in(folder).name
    into = fresh(name) if store is None else store
    refuse_taken(into)
    begun = forked(_opened(folder), at, set=settings(set_))  # in memory: nothing is made if it is refused
    scenario = branched(folder, into)
    trio.run(convert, begun, FileStore(into))
    rounds = scenario.max_ticks if ticks is None else ticks
    town = scenario.society(store=FileStore(into), **people(approve, scenario.every_host, screen))
    kept = Kept(folder=into, ticks=ticks)
    return told(lived(town, lambda: town.run(rounds), rounds, kept, screen, quiet or json), screen, json=json)


def _opened(folder: Path) -> Any:
    from society.reruns import opened_at

    return opened_at(folder)
