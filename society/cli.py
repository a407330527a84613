"""The command line: which commands there are, and how each way to end becomes an exit code and a last line.

The one module that reads argv and the environment, and the one that opens exception groups.

Knows: the commands, and which error is whose fault.
Does not know: what a command does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from society.commands import again, approve, check, compare, run, shelf, sweep, tools, trace
from society.errors import (
    AsyncToolRefused,
    ReplayDivergence,
    ResumeRefused,
    ScenarioError,
    SocietyError,
    leaves,
)
from society.exit_codes import DIFFERENCE, FAILED, INTERRUPTED, MEANINGS, WRONG, Verdict, worst
from society.signals import Interrupted, raising
from society.view import Screen


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("society")
    except PackageNotFoundError:
        return "not installed: run from a checkout"


app = App(
    name="society",
    help="Societies of agents: synchronized rounds, honest effects, traces that are the same byte for byte.",
    version=_version,
    # Plain text: help is read in pipes too, and nothing in it is markup.
    help_format="plaintext",
    help_formatter="plain",
    help_epilogue="Exit codes:\n" + "\n".join(f"  {code:3}  {meaning}" for code, meaning in MEANINGS.items()),
    default_parameter=Parameter(show_default=False),
)
app.command(run.run)
app.command(again.resume)
app.command(again.replay)
app.command(again.fork)
app.command(approve.approve)
app.command(check.check)
app.command(compare.compare)
app.command(sweep.sweep)
app.command(tools.tools)
app.command(trace.app)
app.command(shelf.list_, name="list")
app.command(shelf.new)


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    # A process that was started with a closed stream has None in its place.
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        screen = Screen(sys.stdout or nothing, sys.stderr or nothing, os.environ, sys.stdin)
        sys.exit(carried_out(sys.argv[1:], screen))


def carried_out(arguments: Sequence[str], screen: Screen) -> int:
    """Carry out a command; return its exit code after the last line has said the same."""
    verdict = Verdict(FAILED, MEANINGS[FAILED])
    ended: list[Verdict] = []
    try:
        with raising():
            verdict = _called(arguments, screen)
    except* CycloptsError as group:
        ended += [_told(error, WRONG, screen) for error in leaves(group)]
    except* SocietyError as group:
        ended += [_told(error, _code(error), screen) for error in leaves(group)]
    except* OSError as group:
        ended += [_told(error, _code(error), screen) for error in leaves(group)]
    except* Interrupted as group:
        ended += [
            Verdict(128 + error.number, "interrupted") for error in leaves(group) if isinstance(error, Interrupted)
        ]
    except* KeyboardInterrupt:
        ended.append(Verdict(INTERRUPTED, "interrupted"))
    return _last_line(ended, verdict, screen)


def _called(arguments: Sequence[str], screen: Screen) -> Verdict:
    if list(arguments) == ["trace"]:
        raise ScenarioError(
            f"trace: name one of its commands: {', '.join(trace.COMMANDS)}. `society trace --help` tells of each."
        )
    command, bound, given = app.parse_args(arguments, exit_on_error=False, print_error=False)
    more: dict[str, Any] = {"screen": screen} if "screen" in given else {}
    verdict = command(*bound.args, **bound.kwargs, **more)
    # Help and version print by themselves and return nothing.
    return verdict if isinstance(verdict, Verdict) else Verdict(0, "")


def _told(error: BaseException, code: int, screen: Screen) -> Verdict:
    screen.say(_sentence(error), "bad")
    # A note says how to go on.
    why = [MEANINGS[code] if code != FAILED else type(error).__name__, *getattr(error, "__notes__", ())]
    return Verdict(code, "; ".join(why))


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error) or type(error).__name__


def _code(error: BaseException) -> int:
    """Return whose fault an error is: of what was typed or written in a scenario, or of the run."""
    match error:
        case ScenarioError() | AsyncToolRefused() | FileNotFoundError() | IsADirectoryError() | NotADirectoryError():
            return WRONG
        case ResumeRefused():  # another scenario than the run began with, or a folder that holds none: nothing has run
            return WRONG
        case ReplayDivergence():
            return DIFFERENCE
    return FAILED


def _last_line(ended: list[Verdict], verdict: Verdict, screen: Screen) -> int:
    if ended:
        verdict = worst(ended)
        screen.say(str(verdict), "bad")
    elif verdict.why:
        screen.tell(str(verdict), "good" if verdict.code == 0 else "bad")
    return verdict.code
