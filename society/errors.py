"""Every error that society raises on purpose.

    SocietyError
    ├── ScenarioError            the scenario's author: something is declared wrongly
    │   ├── UnknownTool
    │   ├── CatalogChanged
    │   └── ScenarioFaults       all faults of one scenario file at once
    ├── BehaviorError            the behavior's author: something is used wrongly inside a tick
    │   ├── UnknownRecipient
    │   ├── ValueRefused
    │   ├── SharedRefused
    │   ├── TickOver
    │   └── PlainBehavior
    ├── ActionError              an action that did not end well; what `tick.call` raises
    │   ├── ActionDenied
    │   ├── ToolFailed
    │   └── ActionInDoubt
    ├── ModelError               the model service
    │   ├── ModelSilent
    │   └── MalformedReply
    ├── PermitError              an effect was asked for around the gate
    ├── SharedConflict           a barrier that could not merge
    ├── ReplayDivergence         the code asks for something else than the journal holds
    ├── JournalError             the disk, or what is on it
    │   ├── JournalDamaged
    │   ├── JournalUnwritable
    │   ├── RunLocked
    │   └── ResumeRefused
    ├── TraceDamaged             a trace file that is not as it was written
    ├── ServerUnavailable        a tool server that did not start, did not answer, or broke the protocol
    ├── AsyncioNeeded            a tool that awaits asyncio and does not say so
    ├── TrioNeeded               a society that is awaited where another event loop runs
    └── AsyncToolRefused         an `async def` tool given to a program without a loop

Knows: the fields of each error, and the sentence made of them.
Does not know: who catches them. A refusal or a limit that was reached is an ending, not an exception.
Our own mistakes are not in this tree: they stay assertions and tracebacks.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Final, Literal

import attrs

RAISED: Final = (Exception, SystemExit, GeneratorExit)
"""What counts as an error of the author's plain function that raises it; Ctrl+C and signals are not the function's."""


def nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return up to `count` known names that look most like `name`, best first; letter case counts little."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold().strip(), candidate)
    found = difflib.get_close_matches(name.casefold().strip(), list(folded), n=count, cutoff=0.6)
    return [folded[match] for match in found]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known name, or with all of them when they are few, or nothing."""
    known = list(known)
    close = nearest(name, known)
    if close:
        return f" Did you mean {close[0]!r}?"
    if known and len(known) <= 8:
        return " Known: " + ", ".join(known) + "."
    return ""


class SocietyError(Exception):
    """The root of the tree."""


class ScenarioError(SocietyError):
    """Something is declared wrongly: a name, a sensor, a limit. Told before the run starts where it can be known."""


@attrs.define
class UnknownTool(ScenarioError):
    what: str
    """`tool` or `sensor`."""
    name: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"no host has a {self.what} {self.name!r}.{suggestion(self.name, self.known)}"


@attrs.define
class CatalogChanged(ScenarioError):
    server: str
    pinned: str
    found: str
    difference: tuple[str, ...] = ()
    """What has changed, one line each; where only a digest was pinned, what there is now."""

    def __str__(self) -> str:
        told = "".join(f"\n  {line}" for line in self.difference)
        return (
            f"server {self.server!r}: its catalog is not the pinned one: digest {self.found}, pinned {self.pinned}. "
            f"Look at what has changed, and pin the new digest if it is meant to be so.{told}"
        )


@attrs.frozen(kw_only=True)
class Fault:
    """One thing that is wrong in a scenario file, its code, or a setting."""

    file: str
    """As it was named by the caller; for a setting from outside, how it was given: `--set`."""
    line: int | None = None
    """From 1."""
    column: int | None = None
    """From 1; only where the text is no TOML, or no Python, at all."""
    path: str = ""
    """The key path: `agents[2].count`."""
    message: str = ""
    """What is wrong, where "expected … found …" does not say it."""
    expected: str | None = None
    found: str | None = None
    near: str | None = None
    """The nearest known name."""

    def __str__(self) -> str:
        at = self.file + "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        said = [self.message] if self.message else []
        if self.expected is not None:
            said.append(f"expected {self.expected}" + (f", found {self.found}" if self.found is not None else ""))
        if self.near is not None:
            said.append(f"did you mean {self.near}?")
        return ": ".join(part for part in (at, self.path, "; ".join(said)) if part)


@attrs.define
class ScenarioFaults(ScenarioError):
    faults: tuple[Fault, ...]
    """Ordered by file and line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


class BehaviorError(SocietyError):
    """Something is used wrongly inside a tick. It fails that tick and no other."""


@attrs.define
class UnknownRecipient(BehaviorError):
    name: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = " Did you mean " + " or ".join(map(repr, self.near)) + "?" if self.near else ""
        return f"no agent is called {self.name!r}: names are matched letter by letter.{hint}"


@attrs.define
class ValueRefused(BehaviorError):
    path: str
    """Where the value stands, as a path into the data: `shared.log[2].when`."""
    found: str
    """What was found there: the name of a type, or a few words."""

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.found}. Values are None, bool, int of 64 bits, finite float, str, "
            "lists, and dicts with str keys; write anything else in these terms first."
        )


@attrs.define
class SharedRefused(BehaviorError):
    key: str
    agent: str
    why: str

    def __str__(self) -> str:
        return f"shared.{self.key}: {self.agent!r} {self.why}"


@attrs.define
class TickOver(BehaviorError):
    agent: str
    round: int
    why: str

    def __str__(self) -> str:
        return f"the tick of {self.agent!r} in round {self.round} {self.why}; nothing was changed."


@attrs.define
class PlainBehavior(BehaviorError):
    agent: str
    crossing: str

    def __str__(self) -> str:
        return (
            f"{self.agent!r} asks for `{self.crossing}` in a plain behavior, where nothing can be awaited. "
            "Write the behavior as `async def` and await the call."
        )


class ActionError(SocietyError):
    """An action that did not end well. To a model each is an error-flagged result that says which of the three it was."""


@attrs.define
class ActionDenied(ActionError):
    tool: str
    by: Literal["rule", "refused", "no_answer"]
    rule: str | None = None
    """The rule that denied it or asked, as written, with the place it stands at."""
    why: str | None = None
    """Which fact was unknown, where that decided."""

    def __str__(self) -> str:
        said = {
            "rule": f"{self.tool} is denied by rule {self.rule or '(default)'}",
            "refused": f"{self.tool} was refused by the person who was asked ({self.rule})",
            "no_answer": f"{self.tool} needs approval ({self.rule}) and nobody answered; that is not a refusal",
        }[self.by]
        return said + (f" ({self.why})" if self.why else "") + ". It was not performed."


@attrs.define
class ToolFailed(ActionError):
    tool: str
    error: str
    """The type of the tool's exception, or of each leaf of a group, joined by `; `."""
    message: str

    def __str__(self) -> str:
        return (
            f"{self.tool} failed: {self.error}: {self.message}" if self.message else f"{self.tool} failed: {self.error}"
        )


@attrs.define
class ActionInDoubt(ActionError):
    tool: str
    id: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.tool} is in doubt ({self.why}): its effect may have happened. "
            f"It is not repeated; look at the world before asking again (action {self.id[:12]})."
        )


class ModelError(SocietyError):
    """The model service did not answer, or not in the shape of a reply. What a model's `reply` raises."""


@attrs.define
class ModelSilent(ModelError):
    why: str

    def __str__(self) -> str:
        return f"the model is silent: {self.why}"


@attrs.define
class MalformedReply(ModelError):
    path: str
    """Where in the reply: `content[1].input`."""
    found: str
    """What was found there: the name of a type, or a few words."""

    def __str__(self) -> str:
        return f"the model's answer is not a reply of the Messages API: {self.path}: {self.found}"


@attrs.define
class PermitError(SocietyError):
    tool: str
    why: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.why}. Effects go through `tick.call`, which asks the gate for a permit."


@attrs.define
class SharedConflict(SocietyError):
    key: str
    round: int
    why: str
    writers: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = f" by {', '.join(self.writers)}" if self.writers else ""
        return f"shared.{self.key}: round {self.round} cannot be merged{who}: {self.why}"


@attrs.define
class ReplayDivergence(SocietyError):
    round: int
    agent: str
    crossing: str
    recorded: Any
    asked: Any

    def __str__(self) -> str:
        return (
            f"round {self.round}, {self.agent!r}, crossing {self.crossing}: "
            f"the journal holds {self.recorded}, the code asks for {self.asked}."
        )


class JournalError(SocietyError):
    """The disk, or what is on it."""


@attrs.define
class JournalDamaged(JournalError):
    path: str
    record: int
    """Number of the record in its file, from 1."""
    offset: int
    """Bytes before it."""
    why: str

    def __str__(self) -> str:
        return f"{self.path}: record {self.record} at byte {self.offset}: {self.why}. Nothing on disk was changed."


@attrs.define
class JournalUnwritable(JournalError):
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: cannot be written: {self.why}. Free the cause and resume; calls in flight are in doubt."


@attrs.define
class RunLocked(JournalError):
    path: str
    holder: str

    def __str__(self) -> str:
        return f"{self.path}: in use by {self.holder}. One process owns a run at a time; reading is always possible."


@attrs.define
class ResumeRefused(JournalError):
    why: str

    def __str__(self) -> str:
        return f"not resumed: {self.why}"


@attrs.define
class TraceDamaged(SocietyError):
    path: str
    line: int
    """From 1, the header."""
    offset: int
    """Bytes before that line."""
    why: str

    def __str__(self) -> str:
        return f"{self.path}: line {self.line} at byte {self.offset}: {self.why}"


@attrs.define
class ServerUnavailable(SocietyError):
    server: str
    why: str
    stderr: str = ""
    """The end of what it wrote to its standard error."""

    def __str__(self) -> str:
        said = f" Its standard error:\n{self.stderr}" if self.stderr else ""
        return f"server {self.server!r}: {self.why.rstrip('.')}.{said}"


@attrs.define
class AsyncioNeeded(SocietyError):
    name: str
    """Of the function."""
    said: str
    """What the event loop said."""

    def __str__(self) -> str:
        return (
            f"{self.name} awaits asyncio, and societies run in trio ({self.said}). "
            'Register it with loop="asyncio": @host.tool(…, loop="asyncio").'
        )


@attrs.define
class TrioNeeded(SocietyError):
    what: str

    def __str__(self) -> str:
        return (
            f"{self.what} runs in trio, which does not run here. In an asyncio program or a notebook: "
            "`await society.aio.run(town, max_ticks)`, or `await society.aio.call(function, …)` for all else; "
            "in a program without an event loop: `trio.run(function, …)`."
        )


@attrs.define
class AsyncToolRefused(SocietyError):
    tool: str

    def __str__(self) -> str:
        return (
            f"{self.tool!r} is an `async def` function, and a program without an event loop cannot await it. "
            "Give a plain function, or use the awaited form of the call."
        )


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors inside an exception group, at any depth, in order; a plain error alone."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


def is_closing(error: BaseException) -> bool:
    """Tell whether the coroutine that caught an error is being closed, which no boundary may swallow.

    A `GeneratorExit` is thrown into the very frame that is closed; one that somebody raised by hand comes from a frame below.
    """
    trace = error.__traceback__
    return isinstance(error, GeneratorExit) and (trace is None or trace.tb_next is None)


def described(error: BaseException, most: int = 8) -> tuple[str, str]:
    """Return (type, message) of an error; of the leaves of a group, in order, joined by `; `, at most `most` of them."""
    found = leaves(error)
    shown = found[:most]
    more = f" (+{len(found) - most} more)" if len(found) > most else ""
    if len(found) == 1:
        return type(found[0]).__name__, str(found[0])
    types = "; ".join(type(leaf).__name__ for leaf in shown)
    return types, "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in shown) + more
