"""What each kind of event says, as parts of a line.

Knows: the kinds of events and their fields: a row for each.
Does not know: rounds, columns, or which events are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from society.lines import Part, Style, bounded, counted, cut, shown
from society.messages import WORLD

if TYPE_CHECKING:
    from society.trace import Event


def said(event: Event, letters: Letters, bound: int | None) -> list[Part]:
    """Return one event as parts, without its kind."""
    fields = event.fields
    tell = _SAID.get(fields["kind"])
    try:
        return tell(fields, letters, bound) if tell else _plainly(fields, bound)
    except (KeyError, TypeError, ValueError, AttributeError):
        # A trace of a later version, or one made by hand, may have other fields; it is shown all the same.
        return _plainly(fields, bound)


def _plainly(fields: dict[str, Any], bound: int | None) -> list[Part]:
    rest = {name: value for name, value in fields.items() if name not in ("round", "agent", "kind")}
    return arguments(rest, bound)


def arguments(values: Any, bound: int | None, between: str = " ") -> list[Part]:
    """Return a dict as `name=value` parts; anything else as the value it is."""
    if not isinstance(values, dict):
        return [value_part(values, bound)]
    pairs = [[Part(shown(name) + "=", "quiet"), value_part(value, bound)] for name, value in values.items()]
    return [part for index, pair in enumerate(pairs) for part in ([Part(between)] if index else []) + pair]


def value_part(value: Any, bound: int | None) -> Part:
    return Part(bounded(value, bound), "value")


def _name(text: Any) -> Part:
    return Part(shown(str(text)), "name")


def _agent(name: Any) -> Part:
    return Part("everyone else" if name is None else shown(str(name)), "agent")


def joined(parts: Iterable[Part], between: str = ", ") -> list[Part]:
    return [piece for index, part in enumerate(parts) for piece in ((Part(between), part) if index else (part,))]


def _opening(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    versions = fields["versions"]
    if not versions:
        return [Part("SHARED has not changed", "quiet")]
    changed = [[_name(key), Part(f" version {version}")] for key, version in versions.items()]
    return [part for index, pair in enumerate(changed) for part in ([Part(", ")] if index else []) + pair]


def _world(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    if fields.get("share") is not None:
        return [Part("shares "), *arguments(fields["share"], bound)]
    sent = fields["send"]
    body = arguments(sent.get("body", {}), bound)
    return [
        Part("sends "),
        _name(sent["kind"]),
        Part(" to "),
        _agent(sent.get("to")),
        *([Part(": "), *body] if body else []),
    ]


def _received(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts: list[Part] = []
    for (sender, number), kind in letters.kinds(fields):
        parts += [Part(", ")] if parts else []
        parts += [_name(kind), Part(" ")] if kind else []
        parts += [Part(f"#{number} of "), _agent(sender)]
    return parts


def _receipt(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    what = f"#{fields['message']} to " if fields["message"] is not None else "birth of "
    return [Part(what), _agent(fields["recipient"]), Part(f" came back: {shown(fields['reason'])}", "bad")]


def _read(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    sensor = _name(fields["sensor"])
    if "unknown" in fields and fields["unknown"] is not None:
        return [sensor, Part(f" is unknown: {cut(shown(fields['unknown']), bound)}", "bad")]
    return [sensor, Part(" = "), value_part(fields["value"], bound)]


def _model(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts = [_name(fields["stop_reason"])] if fields["stop_reason"] is not None else []
    for name in ("silent", "malformed", "cut"):
        if fields.get(name):
            why = "" if fields[name] is True else f": {cut(shown(str(fields[name])), bound)}"
            parts.append(Part(("given up" if name == "cut" else name) + why, "bad"))
    if fields.get("text"):
        parts += [Part(" "), value_part(fields["text"], bound)]
    for call in fields.get("calls") or ():
        parts += [Part(" ")] + ([value_part(call, bound)] if not isinstance(call, str) else [_name(call)])
    if fields.get("usage"):
        parts += [Part(" ("), *arguments(fields["usage"], bound), Part(")")]
    return parts


def _reasoned(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts = [value_part(fields["question"], bound), Part(" → "), *arguments(fields["answer"], bound)]
    if fields.get("degraded"):
        parts.append(Part(" degraded", "bad"))
    if fields.get("missing"):
        parts += [Part(" missing ", "bad"), *joined(map(_name, fields["missing"]))]
    return parts


def _acted(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    style: Style = "good" if fields["outcome"] == "done" else "bad"
    turns = "1 turn" if fields["turns"] == 1 else f"{fields['turns']} turns"
    said = [Part(shown(fields["outcome"]), style), Part(f" after {turns}")]
    return said + ([Part(f": {cut(shown(fields['reason']), bound)}")] if fields.get("reason") else [])


def _action(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    given = arguments(fields["arguments"], bound, ", ")
    parts = [_name(fields["tool"]), Part("("), *given, Part(") → ")]
    if fields["ending"] == "denied":
        return parts + _denied(fields["rule"], fields["result"])
    parts += _ending(fields["ending"], fields.get("result"), bound)
    if fields["verdict"] == "approve":
        parts.append(Part(f" · approved, as asked by {shown(str(fields['rule']))}", "quiet"))
    if fields.get("attempts"):
        parts.append(Part(f" · {fields['attempts']} attempts", "quiet"))
    if fields.get("settled"):
        parts.append(Part(f" · doubt settled: {shown(fields['settled'])}", "quiet"))
    # The id is what a doubt is looked up by; elsewhere it would only be in the way.
    if fields["ending"] not in ("done", "failed"):
        parts += [Part(" · action ", "quiet"), _name(fields["id"])]
    return parts


def _denied(rule: str | None, result: dict[str, Any]) -> list[Part]:
    rule = shown(rule) if rule is not None else "the default"
    said = {
        "refused": f"refused by the person asked, under {rule}",
        "no_answer": f"not approved: nobody answered, as asked by {rule}",
    }.get(result["by"], f"denied by {rule}")
    return [Part(said, "bad"), *([Part(f" ({shown(result['why'])})")] if result.get("why") else [])]


def _ending(ending: str, result: Any, bound: int | None) -> list[Part]:
    if ending == "done":
        return [value_part(result, bound)]
    word = Part(shown(ending).replace("_", " "), "bad")
    if isinstance(result, dict) and result.keys() == {"why"}:
        return [word, Part(f": {cut(shown(str(result['why'])), bound)}")]
    if isinstance(result, dict) and result.keys() == {"error", "message"}:
        return [word, Part(f": {shown(str(result['error']))}: {cut(shown(str(result['message'])), bound)}")]
    return [word] if result is None else [word, Part(": "), value_part(result, bound)]


def _asked(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    return [value_part(fields["question"], bound), Part(" → "), value_part(fields["answer"], bound)]


def _delegated(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    said = [_name(fields["subagent"]), Part("("), *arguments(fields["payload"], bound, ", "), Part(") → ")]
    return said + _ending(fields["ending"], fields.get("result"), bound)


def _sent(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts = [_name(fields["message_kind"]), Part(f" #{fields['message']} to "), _agent(fields["to"])]
    return parts + ([Part(": "), *arguments(fields["body"], bound)] if fields["body"] else [])


def _shared(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    return [_name(fields["key"]), Part(" = "), value_part(fields["value"], bound)]


def _noted(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    return [value_part(fields["text"], bound)]


def _born(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    return [_agent(fields["name"])]


def _retired(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    return [Part("leaves at the barrier", "quiet")]


def _failed(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts = [Part(cut(shown(str(fields["error"])), bound), "bad")]
    return parts + ([Part(" at "), _name(fields["where"])] if fields.get("where") else [])


def _late(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    waiting = fields.get("waiting_for")
    return [Part("not done in time", "bad"), *([Part(", waiting for "), _name(waiting)] if waiting else [])]


def _settled(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    who = [Part(" of "), _agent(fields["agent"])] if fields["agent"] is not None else []
    return [
        Part("action "),
        _name(fields["id"]),
        *who,
        Part(f" {shown(fields['how'])} → "),
        value_part(fields["result"], bound),
    ]


def _merged(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    by = [Part(", by "), *joined(map(_agent, fields["writers"]))] if fields.get("writers") else []
    return [*_shared(fields, letters, bound), Part(f" (version {fields['version']}"), *by, Part(")")]


def _conflict(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    parts = [_name(fields["key"]), Part(" written by "), *joined(map(_agent, fields["writers"])), Part(": kept ")]
    parts.append(value_part(fields["kept"], bound))
    for index, (writer, value) in enumerate(fields["lost"]):
        parts += [
            Part(", " if index else "; lost ", "" if index else "bad"),
            value_part(value, bound),
            Part(" of "),
            _agent(writer),
        ]
    return parts


def _refused(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    what = f"#{fields['message']} of " if fields.get("message") is not None else "birth of "
    to = [_agent(fields["sender"]), Part(" to "), _agent(fields["recipient"])]
    if fields.get("message") is None:
        to = [_agent(fields["recipient"]), Part(", asked for by "), _agent(fields["sender"])]
    return [Part(what), *to, Part(f": {shown(fields['reason'])}", "bad")]


def _measured(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    who = [Part(" of "), _agent(fields["agent"])] if fields["agent"] is not None else []
    return [_name(fields["name"]), *who, Part(" = "), value_part(fields["value"], bound)]


def _ended(fields: dict[str, Any], letters: Letters, bound: int | None) -> list[Part]:
    good = fields["outcome"] in ("finished", "satisfied", "quiet")
    said = [Part(shown(fields["outcome"]), "good" if good else "bad"), Part(f" after round {fields['round']}")]
    return said + ([Part(f": {shown(fields['reason'])}")] if fields.get("reason") else [])


_SAID: Final = {
    "round": _opening,
    "event": _world,
    "receive": _received,
    "receipt": _receipt,
    "read": _read,
    "model": _model,
    "reason": _reasoned,
    "act": _acted,
    "action": _action,
    "ask": _asked,
    "delegate": _delegated,
    "send": _sent,
    "share": _shared,
    "note": _noted,
    "spawn": _born,
    "retire": _retired,
    "failed": _failed,
    "late": _late,
    "settled": _settled,
    "merge": _merged,
    "conflict": _conflict,
    "refused": _refused,
    "undelivered": _refused,
    "measure": _measured,
    "end": _ended,
}
"""A row for each kind of event; kinds that are not here are shown as their fields."""

KINDS: Final = tuple(_SAID)


def delivered(events: Iterable[Event]) -> list[Part]:
    """Return what became of the messages of a round, counted."""
    count = dict.fromkeys(("send", "refused", "undelivered"), 0)
    for event in events:
        if event.fields["kind"] in count and event.fields.get("message") is not None:
            count[event.fields["kind"]] += 1
    sent = f"{counted(count['send'], 'message')} sent"
    lost = [f"{count[kind]:,} {kind}" for kind in ("refused", "undelivered") if count[kind]]
    return [Part(", ".join([sent, *lost]) if lost else f"{sent}, none refused", "quiet")]


class Letters:
    """Which message a (sender, number) of an inbox stands for: the last one that had been sent to it by then."""

    def __init__(self, activation: str) -> None:
        self._at_once = activation in ("sequential", "shuffled", "random")
        self._sent: dict[tuple[Any, Any], list[tuple[int, str | None, str]]] = {}

    def note(self, events: Iterable[Event]) -> None:
        outside = 0
        for event in events:
            fields = event.fields
            if fields["kind"] == "event" and fields.get("send") is not None:
                outside += 1
                what = fields["send"]
                # Counted as those of an agent are; they are there to be read in the same round.
                written = (fields["round"] - 1, what.get("to"), str(what.get("kind")))
                self._sent.setdefault((WORLD, outside), []).append(written)
            elif fields["kind"] == "send":
                written = (fields["round"], fields.get("to"), str(fields.get("message_kind")))
                self._sent.setdefault((fields["agent"], fields.get("message")), []).append(written)

    def kinds(self, received: dict[str, Any]) -> Iterator[tuple[tuple[str, int], str | None]]:
        """Yield each (sender, number) of an inbox with the kind of its message, or `None` if that is not known."""
        before = received["round"] + self._at_once
        messages = [(sender, number) for sender, number in received["messages"]]
        for index, key in enumerate(messages):
            fitting = [
                kind
                for round, to, kind in self._sent.get(key, ())
                if round < before and to in (None, received["agent"])
            ]
            # An inbox kept over rounds may hold the same number of one sender twice: the older one stands first.
            later = messages[index + 1 :].count(key) if len(fitting) > 1 else 0
            yield key, fitting[-1 - later] if len(fitting) > later else None
