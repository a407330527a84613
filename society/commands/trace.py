"""`society trace`: read a trace: show, diff, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import App, Parameter

from society.commands.options import Json, OnScreen, file_to_write, numbers
from society.exit_codes import DIFFERENCE, DONE, Verdict

if TYPE_CHECKING:
    from society.trace import Trace

app = App(name="trace", help="Read a trace: by round, agent and kind; differences; digest; other formats.")

Names: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="")]


@app.command
def show(
    file: Path,
    *,
    round_: Annotated[str | None, Parameter(("--round", "--rounds"))] = None,
    agent: Names = (),
    kind: Names = (),
    full: Annotated[bool, Parameter(negative="")] = False,
    collapse: Annotated[bool, Parameter(negative="")] = False,
    layout: Literal["story", "lines"] | None = None,
    screen: OnScreen,
) -> Verdict:
    """Show a trace: as a story on a terminal, one event a line in a pipe.

    Args:
        file: A trace, or the folder of a run.
        round_: Only these rounds: 3, or 1,2,5, or 2:6 for 2 to 5.
        agent: Only what this agent did, and what the barrier says of it. May be repeated.
        kind: Only events of this kind. May be repeated.
        full: Show long values whole.
        collapse: Say in one line what many neighbors in order did alike.
        layout: Choose the layout whatever the output is.
    """
    from society.render import Choice, listing, story

    trace = read(file, unfinished=True)
    choice = Choice(
        rounds=numbers(round_, "--round") if round_ is not None else None,
        agents=agent or None,
        kinds=kind or None,
        full=full,
        collapse=collapse,
    )
    as_story = layout == "story" or (layout is None and screen.is_terminal)
    screen.print(story(trace, screen.width, choice) if as_story else listing(trace, choice))
    if trace.end is None:
        screen.say(f"{file}: there is no line `end`: the run goes on, or was killed.")
    return Verdict(DONE, "")


@app.command
def diff(left: Path, right: Path, *, limit: int = 20, json: Json = False, screen: OnScreen) -> Verdict:
    """Show where two traces differ, in order of the story; exit with 4 when they do.

    Args:
        left: A trace, or the folder of a run.
        right: Another one.
        limit: How many differences to show; 0 for all.
    """
    from itertools import islice

    one, other = read(left, unfinished=True), read(right, unfinished=True)
    every = one.diff(other)
    found = list(islice(every, limit or None))
    more = next(every, None) is not None
    if json:
        import attrs
        import msgspec

        differences = [attrs.asdict(each) for each in found]
        screen.document(msgspec.json.encode({"same": not found, "differences": differences, "more": more}) + b"\n")
    else:
        for each in found:
            screen.tell(str(each))
        if more:
            screen.tell("… and more; --limit 0 shows all")
    return (
        Verdict(DIFFERENCE, f"they differ, first in {_place(found[0].round)}")
        if found
        else Verdict(DONE, "no difference")
    )


def _place(round: int | None) -> str:
    return "their headers" if round is None else f"round {round}"


@app.command
def verify(*files: Path, json: Json = False, screen: OnScreen) -> Verdict:
    """Check that traces are whole and as they were written; print their digests.

    Args:
        files: Traces, or folders of runs.
    """
    from society.errors import ScenarioError

    if not files:
        raise ScenarioError("trace verify: name at least one trace.")
    traces = [(file, read(file)) for file in files]
    if json:
        import msgspec

        facts = [
            {"file": str(file), "digest": trace.digest, "events": len(trace.events), "outcome": trace.outcome}
            for file, trace in traces
        ]
        screen.document(msgspec.json.encode(facts) + b"\n")
    else:
        for file, trace in traces:
            screen.tell(f"{trace.digest}  {file}")
    return Verdict(DONE, f"{len(traces)} trace{'s are' if len(traces) != 1 else ' is'} whole")


@app.command
def export(
    file: Path,
    *,
    format: Literal["json"] = "json",
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    screen: OnScreen,
) -> Verdict:
    """Write a trace in another format.

    Args:
        file: A trace, or the folder of a run.
        format: json: one document with the header and a list of events.
        output: The file to write; standard output when not given.
    """
    import msgspec

    file_to_write(output, "--output")
    trace = read(file, unfinished=True)
    data = msgspec.json.encode({"header": trace.header, "events": [event.fields for event in trace.events]}) + b"\n"
    if output is None:
        screen.document(data)
    else:
        output.write_bytes(data)
    return Verdict(DONE, "")


def read(file: Path, *, unfinished: bool = False) -> Trace:
    """Return the trace in a file, or in the folder of a run.

    Raises:
        TraceDamaged: It is not a trace, or not as it was written.
    """
    from society.trace import Trace

    return Trace.load(file / "trace.jsonl" if file.is_dir() else file, unfinished=unfinished)
