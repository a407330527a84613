"""How a trace looks: lines of styled parts, for a person to read or for grep to search.

`story` is made for reading: a round is a block that opens with what its snapshot changed; then come the agents, each
with its part, in the order in which they were activated; then the barrier with merges, conflicts, refusals and
deliveries. Long values are bounded and say by how much; names and ids are never cut. `listing` is made for searching:
one event a line, nothing cut.

Knows: rounds, and which events are asked for.
Does not know: what an event says (`saying.py`), columns (`lines.py`), colors, terminals, files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from society.lines import BOUND, Layout, Line, Part, counted, shown
from society.saying import Letters, arguments, delivered, joined, said, value_part

if TYPE_CHECKING:
    from society.trace import Event, Trace


@attrs.frozen(kw_only=True)
class Choice:
    """Which part of a trace is shown, and how much of each value."""

    rounds: Collection[int] | None = None
    agents: Collection[str] | None = None
    kinds: Collection[str] | None = None
    full: bool = False
    collapse: bool = False

    @property
    def bound(self) -> int | None:
        return None if self.full else BOUND

    def takes(self, event: Event) -> bool:
        fields = event.fields
        return (
            (self.rounds is None or fields["round"] in self.rounds)
            and (self.kinds is None or fields["kind"] in self.kinds)
            and (self.agents is None or not _people(fields).isdisjoint(self.agents))
        )


def _people(fields: dict[str, Any]) -> set[str]:
    """Return everyone whom an event is about: who did it, and whom the barrier names."""
    named = [fields.get(name) for name in ("agent", "sender", "recipient")]
    return {name for name in (*named, *(fields.get("writers") or ())) if isinstance(name, str)}


def story(trace: Trace, width: int, choice: Choice) -> Iterator[Line]:
    """Yield the lines of a trace to read, none wider than `width` unless a single name is."""
    layout = Layout(width)
    yield from _heading(trace.header, layout)
    letters = Letters(trace.header["activation"])
    for number, events in _rounds(trace.events):
        letters.note(events)
        chosen = [event for event in events if choice.takes(event)]
        if chosen:
            yield from _round(number, chosen, events, letters, layout, choice)
    if trace.end is None:
        yield ()
        yield (Part("The run has not ended.", "bad"),)


def _rounds(events: Iterable[Event]) -> Iterator[tuple[int | None, list[Event]]]:
    """Yield (round, its events); what ends the run comes last, under `None`."""
    found: dict[int | None, list[Event]] = {}
    for event in events:
        found.setdefault(None if event.fields["kind"] == "end" else event.fields["round"], []).append(event)
    yield from found.items()


def _heading(header: dict[str, Any], layout: Layout) -> Iterator[Line]:
    agents = header["agents"]
    rate = f" at rate {header['rate']}" if "rate" in header else ""
    parts = [
        Part(shown(header["scenario"]), "title"),
        Part(f" · {shown(header['activation'])}{rate} · seed {header['seed']}"),
    ]
    yield from layout.wrapped(parts, 0)
    names = [Part(f"{counted(len(agents), 'agent')}: ", "quiet")]
    few = agents if len(agents) <= 12 else agents[:10]
    names += joined([Part(shown(name), "agent") for name in few])
    if len(few) < len(agents):
        names.append(Part(f" and {len(agents) - len(few):,} more", "quiet"))
    yield from layout.wrapped(names, 0)


def _round(
    number: int | None, chosen: list[Event], events: list[Event], letters: Letters, layout: Layout, choice: Choice
) -> Iterator[Line]:
    yield ()
    if number is not None:
        yield layout.ruled(f"round {number}")
    sections = list(_sections(chosen))
    for run in _alike(sections) if choice.collapse else ([section] for section in sections):
        if len(run) > 1:
            yield from layout.heading(_collapsed(run))
            continue
        title, members = run[0]
        if title is not None and number != 0:
            yield from layout.heading([title])
        for event in members:
            yield from layout.event(_LABELS.get(event.kind, event.kind), said(event, letters, choice.bound))
    if number and choice.agents is None and choice.kinds is None:
        yield from _deliveries(events, sections, layout)


def _deliveries(events: list[Event], sections: list[_Section], layout: Layout) -> Iterator[Line]:
    if any(event.kind == "send" for event in events):
        if sections[-1][0] != _title(("barrier", None)):
            yield from layout.heading([Part("barrier", "title")])
        yield from layout.event("delivered", delivered(events))


_LABELS: Final = {"round": "snapshot"}
"""What a kind of event is called where its own name would say nothing: in the block of a round."""

_BARRIER: Final = frozenset({"merge", "conflict", "refused", "undelivered", "settled", "measure"})
_Section: TypeAlias = tuple[Part | None, list["Event"]]


def _sections(events: Iterable[Event]) -> Iterator[_Section]:
    """Yield the parts of a round in order: its opening, each agent's part, the barrier."""
    last: tuple[str, str | None] | None = None
    members: list[Event] = []
    for event in events:
        kind, agent = event.fields["kind"], event.fields["agent"]
        place = ("barrier", None) if kind in _BARRIER else ("world", None) if kind == "event" else ("agent", agent)
        if place != last and members:
            yield _title(last), members
            members = []
        last = place
        members.append(event)
    if members:
        yield _title(last), members


def _title(place: tuple[str, str | None] | None) -> Part | None:
    match place:
        case ("agent", str(name)):
            return Part(shown(name), "agent")
        case ("barrier" | "world" as name, _):
            return Part(name, "title")
    return None


def _alike(sections: Sequence[_Section]) -> Iterator[list[_Section]]:
    """Yield runs of agents in order whose parts hold the same kinds of events; all else, and short runs, one by one."""
    run: list[_Section] = []
    for section in [*sections, None]:
        if section is not None and run and _shape(section) == _shape(run[-1]) and _shape(section) is not None:
            run.append(section)
            continue
        yield from [run] if len(run) > 3 else [[member] for member in run]
        run = [section] if section is not None else []


def _shape(section: _Section) -> tuple[str, ...] | None:
    title, events = section
    if title is None or title.style != "agent":
        return None
    return tuple(event.fields["kind"] for event in events)


def _collapsed(run: list[_Section]) -> list[Part]:
    (first, events), (last, _) = run[0], run[-1]
    assert first is not None
    assert last is not None
    count: dict[str, int] = {}
    for event in events:
        count[event.fields["kind"]] = count.get(event.fields["kind"], 0) + 1
    kinds = ", ".join(kind if times == 1 else f"{kind} ×{times}" for kind, times in count.items())
    return [first, Part(" … "), last, Part(f" ({len(run):,} agents, each: {kinds})", "quiet")]


def listing(trace: Trace, choice: Choice) -> Iterator[Line]:
    """Yield one line for the header and one for each event, nothing cut and nothing wrapped."""
    head = [Part("trace", "title")]
    for name, value in trace.header.items():
        head += [Part("  "), Part(f"{shown(name)}=", "quiet"), value_part(value, None)]
    yield tuple(head)
    for event in trace.events:
        if choice.takes(event):
            yield _searchable(event.fields)


def _searchable(fields: dict[str, Any]) -> Line:
    agent = fields["agent"]
    parts = [Part(f"round {fields['round']}  "), Part("-" if agent is None else shown(agent), "agent"), Part("  ")]
    return (*parts, Part(shown(fields["kind"]), "kind"), Part("  "), *arguments(_rest(fields), None, "  "))


def _rest(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in ("round", "agent", "kind")}
