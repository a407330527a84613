"""`society run`: run a scenario, tell of it while it runs, and sum it up."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from society.commands.options import Activation, Json, OnScreen, Settings, file_to_write, settings
from society.exit_codes import Verdict, of_run
from society.grids import Grid, written
from society.lines import Part, shown
from society.view import Screen


def run(
    scenario: str,
    *,
    activation: Activation | None = None,
    ticks: int | None = None,
    seed: int | None = None,
    set_: Settings = (),
    trace: Path | None = None,
    measures: Path | None = None,
    show: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Run a scenario.

    Args:
        scenario: A scenario file, or the name of one that ships with the project.
        activation: The rule by which ticks follow one another, instead of the scenario's own.
        ticks: How many rounds at most, instead of the scenario's own.
        seed: Instead of the scenario's own.
        trace: Write the trace to this file.
        measures: Write the measures to this file, as CSV.
        show: Print the story of the run before the summary.
        quiet: Say nothing while it runs.
    """
    import trio

    from society.load import load_scenario
    from society.shelf import scenario_path

    file_to_write(trace, "--trace")
    file_to_write(measures, "--measures")
    loaded = load_scenario(scenario_path(scenario), set=settings(set_, max_ticks=ticks, seed=seed))
    town = loaded.society(activation=activation)
    ran = trio.run(live, town, loaded.max_ticks, screen, quiet or json)
    if trace is not None:
        ran.result.trace.save(trace)
    if measures is not None:
        write_measures(ran.result.trace, measures)
    return told(ran, screen, json=json, show=show)


@attrs.frozen
class Ran:
    town: Any
    result: Any
    signal: int | None
    """The signal that asked the run to end, if one did."""

    @property
    def verdict(self) -> Verdict:
        result = self.result
        failed = result.metrics.get("failed_ticks", 0) + result.metrics.get("late_ticks", 0)
        doubts = len(result.in_doubt)
        return of_run(
            result.outcome,
            result.reason,
            rounds=result.rounds,
            failed_ticks=failed,
            in_doubt=doubts,
            signal=self.signal,
        )


async def live(town: Any, max_ticks: int, screen: Screen, quiet: bool) -> Ran:
    """Run a society to its end, or until a signal comes; tell of it meanwhile."""
    import trio

    from society.signals import asking

    token = trio.lowlevel.current_trio_token()

    def end() -> None:
        town.interrupt(f"signal {seen.number}")
        if not quiet:
            screen.say("Ending the run; calls in flight are cancelled. Once more to exit at once.")

    def give_up(number: int) -> None:
        screen.restore()
        screen.say(f"exit {128 + number}: given up at once; calls in flight are in doubt", "bad")

    with asking(lambda: token.run_sync_soon(end), give_up) as seen:
        async with AsyncExitStack() as stack:
            if not quiet:
                await stack.enter_async_context(screen.watching(town, max_ticks))
            result = await town.run(max_ticks)
    return Ran(town, result, seen.number)


def told(ran: Ran, screen: Screen, *, json: bool, show: bool) -> Verdict:
    """Print what came of a run."""
    if json:
        screen.document(document(ran))
        return ran.verdict
    from society.render import Choice, story
    from society.summary import tables

    result, bound = ran.result, screen.bound
    if show:
        screen.print(story(result.trace, screen.width, Choice(full=bound is None)))
        screen.print([()])
    for grid in tables(
        result.outcome, result.reason, result.rounds, result.shared, ran.town.versions, result.metrics, bound
    ):
        screen.grid(grid)
    if result.in_doubt:
        # In one line each, also where a table would have to fold them: an id is there to be copied.
        screen.print(written(in_doubt(result)))
    return ran.verdict


def in_doubt(result: Any) -> Grid:
    """Return the actions in doubt as a table, their ids whole."""
    rows = tuple(
        tuple(Part(shown(text), "name") for text in (action.agent, str(action.round), action.tool, action.id))
        for action in result.in_doubt
    )
    return Grid("In doubt", ("agent", "round", "tool", "action"), rows)


def document(ran: Ran) -> bytes:
    """Return a run's end as one JSON document."""
    import msgspec

    from society.values import plain

    result, verdict = ran.result, ran.verdict
    facts = {
        "scenario": result.trace.header["scenario"],
        "activation": result.trace.header["activation"],
        "seed": result.trace.header["seed"],
        "outcome": result.outcome,
        "reason": result.reason,
        "rounds": result.rounds,
        "shared": {key: plain(value) for key, value in result.shared.items()},
        "versions": dict(ran.town.versions),
        "metrics": dict(result.metrics),
        "measures": result.measures,
        "in_doubt": [
            {"id": one.id, "agent": one.agent, "round": one.round, "tool": one.tool, "arguments": plain(one.arguments)}
            for one in result.in_doubt
        ],
        "digest": result.trace.digest,
        "exit_code": verdict.code,
        "verdict": verdict.why,
    }
    return msgspec.json.encode(facts) + b"\n"


def write_measures(trace: Any, path: Path) -> None:
    """Write a line for each value that was measured: round, measure, agent, value."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("round", "measure", "agent", "value"))
        for event in trace.where(kind="measure"):
            lines.writerow((event.round, event.name, event.agent or "", event.value))
