"""What `run`, `resume` and `fork` have in common: a society is brought to its end, and told of meanwhile and afterwards.

Knows: signals during a run, the summary after it, and what is said about going on.
Does not know: where the society came from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import attrs
from cyclopts import Parameter

from society.approving import Approve
from society.exit_codes import Verdict, of_run
from society.grids import Grid, written
from society.lines import Part, shown
from society.onward import onward
from society.view import Screen

Asking: TypeAlias = Annotated[
    Approve | None,
    Parameter(
        help="Who approves actions and answers questions: ask (whoever is at the terminal), never (nobody), "
        "wait (whoever answers later, with `society approve`). The scenario's own people when not given, else ask."
    ),
]
Quiet: TypeAlias = Annotated[bool, Parameter(negative="", help="Say nothing while it runs.")]


@attrs.frozen(kw_only=True)
class Kept:
    """Where a run is kept."""

    folder: Path | None
    """`None` where it is kept nowhere."""
    ticks: int | None = None
    """The number of rounds, where the folder does not say it."""

    def onward(self, outcome: str | None, round: int) -> str | None:
        return None if self.folder is None else onward(outcome, self.folder, round, self.ticks)


@attrs.frozen(kw_only=True)
class Ran:
    town: Any
    result: Any
    signal: int | None
    """The signal that asked the run to end, if one did."""
    kept: Kept

    @property
    def verdict(self) -> Verdict:
        result = self.result
        failed = result.metrics.get("failed_ticks", 0) + result.metrics.get("late_ticks", 0)
        return of_run(
            result.outcome,
            result.reason,
            rounds=result.rounds,
            failed_ticks=failed,
            cut_short=self._cut_short,
            in_doubt=len(result.in_doubt),
            signal=self.signal,
            onward=self.onward,
        )

    @cached_property
    def _cut_short(self) -> int:
        """How many loops of agents that a model drives ended otherwise than as done, where nothing acted instead.

        An outcome that code was given by `tick.act` is that code's to judge."""
        agents = self.town.members.agents
        driven = {name for name, agent in agents.items() if hasattr(agent.behavior, "heeds")}
        if not driven or self.result.trace is None:
            return 0
        ended = self.result.trace.where(kind="act")
        return sum(one.agent in driven and not agents[one.agent].behavior.heeds(one.outcome) for one in ended)

    @property
    def onward(self) -> str | None:
        """The command that leads on, if something is left to do."""
        return self.kept.onward(self.result.outcome, self.result.rounds)


def lived(town: Any, run: Callable[[], Awaitable[Any]], max_ticks: int, kept: Kept, screen: Screen, quiet: bool) -> Ran:
    """Bring a society to its end, and keep its trace where its journal is."""
    import trio

    from society.run_folder import keep_trace

    ran = trio.run(_live, town, run, max_ticks, kept, screen, quiet)
    if kept.folder is not None and ran.result.trace is not None:
        keep_trace(kept.folder, ran.result.trace)
    return ran


async def _live(
    town: Any, run: Callable[[], Awaitable[Any]], max_ticks: int, kept: Kept, screen: Screen, quiet: bool
) -> Ran:
    """Run a society to its end, or until a signal comes; tell of it meanwhile."""
    import trio

    from society import connections
    from society.server_process import kill_all as kill_servers
    from society.signals import asking

    token = trio.lowlevel.current_trio_token()

    def end() -> None:
        town.interrupt(f"signal {seen.number}")
        if not quiet:
            screen.say("Ending the run; calls in flight are cancelled. Once more to exit at once.")

    def give_up(number: int) -> None:
        kill_servers()  # nothing is unwound any more
        screen.restore()
        way = kept.onward("interrupted", 0)
        on = f"; go on with: {way}" if way else ""
        screen.say(f"exit {128 + number}: given up at once; calls in flight are in doubt{on}", "bad")

    with asking(lambda: token.run_sync_soon(end), give_up) as seen:
        async with AsyncExitStack() as stack:
            if not quiet:
                await stack.enter_async_context(screen.watching(town, max_ticks))
            result = await _with_the_way_on(run, kept)
    for remark in connections.remarks(town.members.connections):
        screen.say(remark)
    return Ran(town=town, result=result, signal=seen.number, kept=kept)


async def _with_the_way_on(run: Callable[[], Awaitable[Any]], kept: Kept) -> Any:
    from society.errors import JournalDamaged, JournalError, JournalUnwritable

    try:
        return await run()
    except JournalDamaged as damage:
        # Said only as far as it is known: whether it is the last batch, --cut finds out, and refuses if not.
        damage.add_note(f"if nothing follows the damage: {kept.onward(None, 0)} --cut")
        raise
    except Exception as error:  # whatever broke the run: its journal is there, and the last line says so
        way = kept.onward(None, 0)
        if way and (isinstance(error, JournalUnwritable) or not isinstance(error, JournalError)):
            error.add_note(f"go on with: {way}")
        raise


def told(ran: Ran, screen: Screen, *, json: bool, show: bool = False) -> Verdict:
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
        result.outcome,
        result.reason,
        result.rounds,
        result.shared,
        ran.town.versions,
        result.metrics,
        result.usage,
        result.cost_usd,
        bound,
    ):
        screen.grid(grid)
    if result.in_doubt:
        # In one line each, also where a table would have to fold them: an id is there to be copied.
        screen.print(written(in_doubt(result)))
    if ran.kept.folder is not None:
        screen.tell(f"kept in {ran.kept.folder}", "quiet")
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
        "usage": dict(result.usage),
        "cost_usd": result.cost_usd,
        "measures": result.measures,
        "in_doubt": [
            {"id": one.id, "agent": one.agent, "round": one.round, "tool": one.tool, "arguments": plain(one.arguments)}
            for one in result.in_doubt
        ],
        "digest": result.trace.digest,
        "folder": None if ran.kept.folder is None else str(ran.kept.folder),
        "onward": ran.onward,
        "exit_code": verdict.code,
        "verdict": verdict.why,
    }
    return msgspec.json.encode(facts) + b"\n"
