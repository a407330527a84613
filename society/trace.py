"""A trace: the canonical story of a run, as it is read.

The bytes are the trace. Each line is one JSON object and ends with LF, and a line ends at byte 0x0A alone: U+2028 and
U+0085 stand in texts as they are. The first line is the header (`format`, `scenario`, `activation`, `seed`, `agents`; with
`partial` also its `rate`); then comes one event a line, each with `round`, `agent` (or null) and `kind`; the last line is
the event `end`, with the number of events before it and the SHA-256 of all bytes before it. A trace without `end` is that of
a run that goes on.

Knows: the lines, what makes them whole, and how two traces differ.
Does not know: how a story is made from records, or how it looks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import attrs
import msgspec

from society import lines, render
from society.errors import TraceDamaged
from society.whole_file import write_whole

FORMAT: Final = "society-trace-1"
_T = TypeVar("_T")
_HEADER: Final = {"format": str, "scenario": str, "activation": str, "seed": int, "agents": list}


class Event:
    """One event, its fields as attributes: `event.round`, `event.agent`, `event.kind`, and those of its kind."""

    __slots__ = ("fields",)

    fields: dict[str, Any]
    """All of it, as it stands in the line."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            known = ", ".join(self.fields)
            raise AttributeError(
                f"an event of kind {self.fields.get('kind')!r} has no {name!r}; it has {known}"
            ) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` where this kind of event has none of that name."""
        return self.fields.get(name, default)

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, Event) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.fields})

    def __repr__(self) -> str:
        return f"Event({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Event, (self.fields,)


@attrs.frozen
class Difference:
    """One place where two traces differ."""

    round: int | None
    """`None` for a difference in the headers."""
    agent: str | None
    kind: str
    """The kind of event; `header`, or `order` where the same events stand in another order."""
    subject: str | None
    """What the event is about: a key of SHARED, a tool, a sensor, a measure, a name."""
    field: str | None
    """The path to what differs, `body.items[2]`; `None` where a whole event stands on one side only."""
    left: Any
    """A value, or all fields of the event; `None` where the event is missing on this side."""
    right: Any

    def __str__(self) -> str:
        where = "header" if self.round is None else f"round {self.round}"
        who = f", {self.agent}" if self.agent is not None else ""
        about = f" {self.subject}" if self.subject is not None else ""
        what = f", {self.kind}{about}" if self.kind != "header" else ""
        at = f", {self.field}" if self.field else ""
        return lines.shown(f"{where}{who}{what}{at}: {_side(self.left, self)} | {_side(self.right, self)}")


class Trace:
    """The story of a run. `data` is trusted to be a trace; `load` and `verify` do not trust."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        """All bytes."""

    def __repr__(self) -> str:
        ended = f", outcome={self.outcome!r}" if self.outcome else ""
        return f"<Trace of {self.header['scenario']!r}, {len(self.events)} events{ended}>"

    def __eq__(self, other: object) -> bool:
        return self.data == other.data if isinstance(other, Trace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.data)

    @cached_property
    def header(self) -> dict[str, Any]:
        """`format`, `scenario`, `activation`, `seed` and `agents`, names in declared order."""
        found: dict[str, Any] = msgspec.json.decode(self.data[: self.data.find(b"\n") + 1])
        return found

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Every event in canonical order, `end` included. Decoded when first asked for."""
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        lines = self.data.split(b"\n")
        # Splitting leaves an empty piece behind the last LF; a torn line behind it is no event yet.
        return tuple(Event(decode(line)) for line in lines[1:-1])

    def where(self, kind: str | None = None, agent: str | None = None, round: int | None = None) -> list[Event]:
        """Return the events that fit all that is given."""
        return [
            event
            for event in self.events
            if (kind is None or event.fields["kind"] == kind)
            and (agent is None or event.fields["agent"] == agent)
            and (round is None or event.fields["round"] == round)
        ]

    @cached_property
    def end(self) -> Event | None:
        """The event `end`; `None` while the run goes on."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last.fields["kind"] == "end" else None

    @property
    def outcome(self) -> str | None:
        """How the run ended; `None` while it goes on."""
        return self.end.outcome if self.end else None

    @property
    def measures(self) -> dict[str, Any]:
        """Each measure by name: a list with its value after each round, at the index of the round, 0 included.

        A measure per agent is a dict of such lists, by the agents' names. `None` stands for a round without a value, as
        before an agent's birth.
        """
        found: dict[str, Any] = {}
        for event in self.where(kind="measure"):
            series = found.setdefault(event.name, [] if event.agent is None else {})
            if event.agent is not None:
                series = series.setdefault(event.agent, [])
            series += [None] * (event.round - len(series))
            series.append(event.value)
        return found

    def measured(self) -> Iterator[tuple[int, str, str | None, Any]]:
        """Yield (round, measure, agent or None, value) for each value that was measured."""
        for event in self.where(kind="measure"):
            yield event.round, event.name, event.agent, event.value

    def frame(self, library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return what was measured as a data frame with a row for each value: round, measure, agent, value.

        Args:
            library: Whose data frame; it has to be installed.

        Raises:
            ScenarioError: It is not.
        """
        from society.frames import frame

        return frame(self.measured(), library)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all bytes before the line of `end`, or of all bytes where there is none yet; 64 hex digits."""
        return hashlib.sha256(self.data[: self._body_bytes()]).hexdigest()

    def _body_bytes(self) -> int:
        last = self.data.rfind(b"\n", 0, -1) + 1
        return last if self.end else len(self.data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bytes to a file; one that is there is replaced whole."""
        write_whole(Path(path), self.data)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, unfinished: bool = False) -> Trace:
        """Return the trace in a file, every line checked.

        Args:
            path: The file.
            unfinished: Whether a trace without `end`, that of a run still going on or killed, is good too. What stands
                behind its last LF is left out then.

        Raises:
            TraceDamaged: The file is not a trace, or not as it was written.
            OSError: It cannot be read.
        """
        data = Path(path).read_bytes()
        if unfinished and not data.endswith(b"\n"):
            data = data[: data.rfind(b"\n") + 1]
        trace = cls(data)
        trace.verify(str(path), unfinished=unfinished)
        return trace

    def verify(self, path: str = "trace", *, unfinished: bool = False) -> None:
        """Check every line, and the digest and the number of events in the last one.

        Raises:
            TraceDamaged: Naming the line and its offset.
        """
        _verify(self.data, path, unfinished)

    def diff(self, other: Trace) -> Iterator[Difference]:
        """Yield where two traces differ, in order of the story; nothing when they are the same byte for byte.

        Events are paired by round, agent and kind, so that one event more does not make all that follow differ. What
        only counts other events (`end.events`, `end.sha256`) is left out.
        """
        if self.data == other.data:
            return
        some = False
        for difference in _differences(self, other):
            some = True
            yield difference
        if not some:
            yield _first_line(self, other)

    def render(
        self,
        *,
        width: int | None = None,
        rounds: Collection[int] | None = None,
        agents: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        full: bool = False,
        collapse: bool = False,
    ) -> str:
        """Return the story as text to read: a block for each round.

        Args:
            width: Columns; 80 when not given.
            rounds: Only these.
            agents: Only what these did, and what the barrier says of them.
            kinds: Only these kinds of events.
            full: Show long values whole.
            collapse: Say in one line what many neighbors in order did alike.
        """
        choice = render.Choice(rounds=rounds, agents=agents, kinds=kinds, full=full, collapse=collapse)
        return "".join(lines.text(line) + "\n" for line in render.story(self, width or 80, choice))

    def lines(
        self,
        *,
        rounds: Collection[int] | None = None,
        agents: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[str]:
        """Yield the story as text to search: one event a line, nothing cut."""
        choice = render.Choice(rounds=rounds, agents=agents, kinds=kinds)
        for line in render.listing(self, choice):
            yield lines.text(line)


# Reading without trust.


def _verify(data: bytes, path: str, unfinished: bool) -> None:
    offset = 0
    ended = False
    for number, line in enumerate(data.split(b"\n"), 1):
        at = (path, number, offset)
        if offset == len(data):
            if number == 1:
                raise TraceDamaged(*at, "the file is empty.")
            break
        if offset + len(line) == len(data):
            raise TraceDamaged(*at, "the line is torn: it does not end with LF.")
        if ended:
            raise TraceDamaged(*at, "there is a line after `end`.")
        fields = _object(line, at)
        if number == 1:
            _check_header(fields, at)
        else:
            _check_event(fields, at)
            ended = fields["kind"] == "end"
        if ended:
            _check_end(fields, hashlib.sha256(data[:offset]).hexdigest(), number - 2, at)
        offset += len(line) + 1
    if not ended and not unfinished:
        raise TraceDamaged(*at, "there is no line `end`: the run goes on, was killed, or the file was cut.")


def _object(line: bytes, at: tuple[str, int, int]) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceDamaged(*at, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise TraceDamaged(*at, "not an object.")
    return fields


def _check_header(fields: dict[str, Any], at: tuple[str, int, int]) -> None:
    if fields.get("format") != FORMAT:
        raise TraceDamaged(*at, f"not a trace: `format` is {fields.get('format')!r}, this reads {FORMAT!r}.")
    for name, kind in _HEADER.items():
        if type(fields.get(name)) is not kind:
            raise TraceDamaged(*at, f"the header's `{name}` is {fields.get(name)!r}, not of type {kind.__name__}.")
    if not all(isinstance(name, str) for name in fields["agents"]):
        raise TraceDamaged(*at, "the header's `agents` are not all names.")


def _check_event(fields: dict[str, Any], at: tuple[str, int, int]) -> None:
    if type(fields.get("round")) is not int or fields["round"] < 0:
        raise TraceDamaged(*at, f"`round` is {fields.get('round')!r}, not a number from 0.")
    if not isinstance(fields.get("kind"), str):
        raise TraceDamaged(*at, f"`kind` is {fields.get('kind')!r}, not a text.")
    if "agent" not in fields or not isinstance(fields["agent"], str | None):
        raise TraceDamaged(*at, f"`agent` is {fields.get('agent')!r}, neither a name nor null.")


def _check_end(fields: dict[str, Any], digest: str, events: int, at: tuple[str, int, int]) -> None:
    if not isinstance(fields.get("outcome"), str):
        raise TraceDamaged(*at, f"`outcome` is {fields.get('outcome')!r}, not a text.")
    if fields.get("events") != events:
        raise TraceDamaged(*at, f"there are {events} events before it, and it says {fields.get('events')!r}.")
    if fields.get("sha256") != digest:
        raise TraceDamaged(
            *at, f"the SHA-256 of all bytes before it is {digest}, and it says {fields.get('sha256')!r}."
        )


# Comparing.


def _differences(left: Trace, right: Trace) -> Iterator[Difference]:
    for name in dict.fromkeys([*left.header, *right.header]):
        if not _same(left.header.get(name), right.header.get(name)):
            yield Difference(None, None, "header", None, *_inner(name, left.header.get(name), right.header.get(name)))
    ours, theirs = _by_round(left), _by_round(right)
    for number in sorted({*ours, *theirs}):
        yield from _round_differences(ours.get(number, ()), theirs.get(number, ()))


def _by_round(trace: Trace) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = {}
    for event in trace.events:
        found.setdefault(event.fields["round"], []).append(event)
    return found


def _round_differences(left: Collection[Event], right: Collection[Event]) -> Iterator[Difference]:
    ours, theirs = _paired(left), _paired(right)
    parts: dict[Any, list[_Key]] = {part: [] for part in _woven([key[0] for key in ours], [key[0] for key in theirs])}
    for key in _woven(list(ours), list(theirs)):
        parts[key[0]].append(key)
    for keys in parts.values():
        for key in keys:
            yield from _event_differences(ours.get(key), theirs.get(key))


def _woven(left: list[_T], right: list[_T]) -> list[_T]:
    """Return what stands in either list, once, in the left one's order; what only the right has, where it has it."""
    place = {item: index for index, item in enumerate(right)}
    known = set(left)
    woven: list[_T] = []
    taken = 0
    for item in dict.fromkeys(left):
        upto = place.get(item, -1) + 1
        woven += [other for other in right[taken:upto] if other not in known]
        taken = max(taken, upto)
        woven.append(item)
    return list(dict.fromkeys([*woven, *(other for other in right[taken:] if other not in known)]))


AFTER_TICKS: Final = frozenset({"merge", "conflict", "refused", "undelivered", "settled", "measure", "end"})
_Key = tuple[tuple[bool, str | None], str, str | None, int]
"""The part of the round (whether after the ticks, agent), the kind, what the event is about, its number there."""


def _paired(events: Collection[Event]) -> dict[_Key, Event]:
    """Return the events of a round, in order, each under a key by which the other trace has its like."""
    found: dict[_Key, Event] = {}
    count: dict[Any, int] = {}
    for event in events:
        fields = event.fields
        key = ((fields["kind"] in AFTER_TICKS, fields["agent"]), fields["kind"], _subject(fields))
        count[key] = count.get(key, 0) + 1
        found[(*key, count[key])] = event
    return found


_SUBJECTS: Final = ("key", "tool", "sensor", "subagent", "name")


def _subject(fields: dict[str, Any]) -> str | None:
    return next((fields[name] for name in _SUBJECTS if isinstance(fields.get(name), str)), None)


def _event_differences(left: Event | None, right: Event | None) -> Iterator[Difference]:
    one = left or right
    assert one is not None
    where = (one.fields["round"], one.fields["agent"], one.fields["kind"], _subject(one.fields))
    if left is None or right is None:
        yield Difference(*where, None, left and left.fields, right and right.fields)
        return
    for name in dict.fromkeys([*left.fields, *right.fields]):
        if where[2] == "end" and name in ("events", "sha256"):
            continue
        if not _same(left.fields.get(name), right.fields.get(name)):
            yield Difference(*where, *_inner(name, left.fields.get(name), right.fields.get(name)))


def _inner(path: str, left: Any, right: Any) -> tuple[str, Any, Any]:
    """Return the path to what differs, as deep as exactly one part differs, and both sides there."""
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        parts = [(f"{path}.{key}", left[key], right[key]) for key in left]
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        parts = [(f"{path}[{index}]", one, other) for index, (one, other) in enumerate(zip(left, right, strict=True))]
    differing = [part for part in parts if not _same(part[1], part[2])]
    return _inner(*differing[0]) if len(differing) == 1 else (path, left, right)


def _same(left: Any, right: Any) -> bool:
    # Python holds 1, 1.0 and True for equal, and dicts in any order; a trace does not.
    return left == right and msgspec.json.encode(left) == msgspec.json.encode(right)


def _first_line(left: Trace, right: Trace) -> Difference:
    """Return the first line that differs, of traces whose events are the same but for their order or spelling."""
    for one, other in zip(left.events, right.events, strict=False):
        if one.fields != other.fields or list(one.fields) != list(other.fields):
            return Difference(one.fields["round"], one.fields["agent"], "order", None, None, one.fields, other.fields)
    return Difference(None, None, "header", None, "bytes", left.digest, right.digest)


def _side(value: Any, difference: Difference) -> str:
    if difference.field is None and value is None:
        return "(nothing)"
    if difference.field is None and isinstance(value, Mapping):
        value = {name: item for name, item in value.items() if name not in ("round", "agent", "kind")}
    return lines.bounded(value, lines.BOUND)
