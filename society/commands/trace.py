"""`society trace`: read a trace: show, diff, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from cyclopts import App, Parameter

from society.commands.options import Json, OnScreen, file_to_write, numbers
from society.exit_codes import DIFFERENCE, DONE, FAILED, Verdict
from society.lines import counted, text

if TYPE_CHECKING:
    from society.trace import Trace
    from society.whereabouts import Whereabouts

app = App(name="trace", help="Read a trace: by round, agent and kind; differences; digest; other formats.")

COMMANDS: Final = ("show", "diff", "verify", "export")

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
        file: A trace, a journal, or the folder of a run.
        round_: Only these rounds: 3, or 1,2,5, or 2:6 for 2 to 5.
        agent: Only what this agent did, and what the barrier says of it. May be repeated.
        kind: Only events of this kind. May be repeated.
        full: Show long values whole.
        collapse: Say in one line what many neighbors in order did alike.
        layout: Choose the layout whatever the output is.
    """
    from society.render import Choice, listing, story
    from society.saying import KINDS

    trace, where = told(file)
    _check_known("--kind", kind, {*KINDS, *(event.fields["kind"] for event in trace.events)})
    _check_known("--agent", agent, {*trace.header["agents"], *(event.fields["agent"] or "" for event in trace.events)})
    choice = Choice(
        rounds=numbers(round_, "--round") if round_ is not None else None,
        agents=agent or None,
        kinds=kind or None,
        full=full,
        collapse=collapse,
    )
    as_story = layout == "story" or (layout is None and screen.is_terminal)
    screen.print(story(trace, screen.width, choice) if as_story else listing(trace, choice))
    if where is not None and not where.is_over:
        from society.whereabouts import told as lines

        # Where the screen is a person's: what a pipe gets stays one event a line.
        for line in lines(where, file if file.is_dir() else file.parent, screen.bound):
            screen.say(text(line))
    elif trace.end is None:
        screen.say(f"{file}: there is no line `end`: the run goes on, or was killed.")
    return Verdict(DONE, "")


def _check_known(option: str, asked: tuple[str, ...], known: set[str]) -> None:
    from society.errors import ScenarioError, suggestion

    for name in asked:
        if name not in known:
            raise ScenarioError(f"trace show {option}: {name!r} is not in this trace.{suggestion(name, sorted(known))}")


@app.command
def diff(left: Path, right: Path, *, limit: int = 20, json: Json = False, screen: OnScreen) -> Verdict:
    """Show where two traces differ, in order of the story; exit with 4 when they do.

    Args:
        left: A trace, a journal, or the folder of a run.
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
        Verdict(DIFFERENCE, f"they differ, first in {_named(found[0].round)}")
        if found
        else Verdict(DONE, "no difference")
    )


def _named(round: int | None) -> str:
    return "their headers" if round is None else f"round {round}"


@app.command
def verify(*files: Path, json: Json = False, screen: OnScreen) -> Verdict:
    """Check that traces are whole and as they were written; print their digests.

    Args:
        files: Traces, journals, or folders of runs.
    """
    from society.errors import ScenarioError

    if not files:
        raise ScenarioError("trace verify: name at least one trace.")
    found = [examined(file) for file in files]
    damaged = sum("fault" in one for one in found)
    if json:
        import msgspec

        screen.document(msgspec.json.encode(found) + b"\n")
    else:
        for one in found:
            if "fault" in one:
                screen.say(one["fault"], "bad")
                continue
            screen.tell(f"{one['digest']}  {one['file']}")
            if one.get("torn"):
                screen.say(f"{one['file']}: {one['torn']}; the run goes on, or was killed.")
    if damaged:
        return Verdict(FAILED, f"{damaged} of {counted(len(found), 'file')} damaged")
    return Verdict(DONE, f"{len(found)} trace{'s are' if len(found) != 1 else ' is'} whole")


def examined(file: Path) -> dict[str, Any]:
    """Return what there is to say of a trace, a journal or a run's folder: its digest, or its `fault`."""
    from society.errors import JournalError, TraceDamaged
    from society.run_folder import TRACE

    facts: dict[str, Any] = {"file": str(file)}
    try:
        journal = _journal(file)
        if journal is None:
            trace = read(file)
        else:
            from society.whereabouts import scanned, trace_of

            found = scanned(journal)
            trace = trace_of(found)
            facts |= {"records": len(found), "torn": None if found.torn is None else str(found.torn)}
            written = file / TRACE
            if file.is_dir() and written.exists():
                _belongs(read(file=written), trace, written)
    except (JournalError, TraceDamaged) as error:
        return {"file": str(file), "fault": str(error), **_place(error)}
    return facts | {"digest": trace.digest, "events": len(trace.events), "outcome": trace.outcome}


def _belongs(written: Trace, told: Trace, path: Path) -> None:
    """Check that the trace beside a journal is what the journal tells, or told before the run went on.

    Raises:
        TraceDamaged: It tells another story.
    """
    from society.errors import TraceDamaged

    body = [event for event in written.events if event.kind != "end"]
    for number, (one, other) in enumerate(zip(body, told.events, strict=False), 2):
        if one != other:
            raise TraceDamaged(str(path), number, 0, "it is not what the journal beside it tells")


def _place(error: Any) -> dict[str, Any]:
    """Return where the damage is: the number of the record or line, and the bytes before it."""
    return {name: getattr(error, name) for name in ("record", "line", "offset") if hasattr(error, name)}


@app.command
def export(
    file: Path,
    *,
    format: Literal["json", "html", "svg"] | None = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    screen: OnScreen,
) -> Verdict:
    """Write a trace in another format.

    Args:
        file: A trace, a journal, or the folder of a run.
        format: json: one document with the header and a list of events; html, svg: the story, as a page or a picture. When
            not given, what the name of the output ends with, else json.
        output: The file to write; standard output when not given.
    """

    file_to_write(output, "--output", file, file / "trace.jsonl")
    trace = read(file, unfinished=True)
    ending = "" if output is None else output.suffix.removeprefix(".")
    data = _exported(trace, format or (ending if ending in ("html", "svg") else "json"))
    if output is None:
        screen.document(data)
    else:
        from society.whole_file import write_whole

        write_whole(output, data)
    return Verdict(DONE, "")


def _exported(trace: Trace, format: str) -> bytes:
    if format == "json":
        import msgspec

        return msgspec.json.encode({"header": trace.header, "events": [event.fields for event in trace.events]}) + b"\n"
    from society.render import Choice, story
    from society.view import PAGE, page

    return page(story(trace, PAGE, Choice()), f"{trace.header['scenario']} · {trace.header['activation']}", format)


def read(file: Path, *, unfinished: bool = False) -> Trace:
    """Return the trace in a file; of a run's folder or a journal, the trace that the journal tells.

    Raises:
        TraceDamaged: It is not a trace, or not as it was written.
        JournalDamaged: It is a journal whose chain does not hold.
    """
    from society.trace import Trace

    journal = _journal(file)
    if journal is None:
        return Trace.load(file / "trace.jsonl" if file.is_dir() else file, unfinished=unfinished)
    from society.whereabouts import scanned, trace_of

    return trace_of(scanned(journal))


def told(file: Path) -> tuple[Trace, Whereabouts | None]:
    """Return a trace and, where there is a journal, where its run stands."""
    journal = _journal(file)
    if journal is None:
        return read(file, unfinished=True), None
    from society.whereabouts import scanned, trace_of, whereabouts

    found = scanned(journal)
    return trace_of(found), whereabouts(found)


def _journal(file: Path) -> Path | None:
    """Return the journal that is meant, if one is. In a run's folder it is ahead of the trace, or as far."""
    from society.run_folder import JOURNAL
    from society.whereabouts import is_journal

    if file.is_dir():
        return file / JOURNAL if (file / JOURNAL).exists() else None
    return file if is_journal(file) else None
