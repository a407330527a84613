"""What was used of models, by agent, and what a trace tells of a model's answer: both computed from records.

Knows: the records of model calls.
Does not know: models, prices, or budgets. What a call cost stands in its record, so a total never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from society.records import Crossing, Model, Reason
from society.replies import calls_of, text_of
from society.values import Value


@attrs.frozen(kw_only=True)
class Spent:
    """What one agent, or all of them, used of models."""

    asked: int = 0
    """Model calls, silent ones included; not those that were given up."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    nano_usd: int = 0
    unpriced: int = 0
    """Replies whose cost is not known."""

    @property
    def tokens(self) -> int:
        """All of them, what a budget of tokens counts."""
        return self.input_tokens + self.output_tokens + self.cache_write_tokens + self.cache_read_tokens

    @property
    def usage(self) -> dict[str, int]:
        """Tokens, by kind."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "cache_read_tokens": self.cache_read_tokens,
        }

    @property
    def cost_usd(self) -> float | None:
        """`None` where the cost of a reply is not known."""
        return None if self.unpriced else self.nano_usd / 1e9

    def with_call(self, record: Model) -> Spent:
        """Return the sum after one more call."""
        if record.cut:
            return self
        if record.reply is None:
            return attrs.evolve(self, asked=self.asked + 1)
        counts = record.reply["usage"]
        return Spent(
            asked=self.asked + 1,
            input_tokens=self.input_tokens + counts["input_tokens"],
            output_tokens=self.output_tokens + counts["output_tokens"],
            cache_write_tokens=self.cache_write_tokens + counts["cache_creation_input_tokens"],
            cache_read_tokens=self.cache_read_tokens + counts["cache_read_input_tokens"],
            nano_usd=self.nano_usd + (record.nano_usd or 0),
            unpriced=self.unpriced + (record.nano_usd is None),
        )

    def written(self) -> dict[str, int]:
        """Return it as a value; `Spent(**value)` reads it."""
        return attrs.asdict(self)


def spent_after(before: Mapping[str, Spent], crossings: Mapping[Any, Sequence[Crossing]]) -> Mapping[str, Spent]:
    """Return the sums by agent after the crossings of a round."""
    changed: dict[str, Spent] = {}
    for records in crossings.values():
        for record in records:
            if isinstance(record, Model):
                name = record.agent
                changed[name] = changed.get(name, before.get(name, _NOTHING)).with_call(record)
    return {**before, **changed} if changed else before


def total(spent: Iterable[Spent]) -> Spent:
    """Return the sum of several."""
    sums = dict.fromkeys((field.name for field in attrs.fields(Spent)), 0)
    for one in spent:
        for name in sums:
            sums[name] += getattr(one, name)
    return Spent(**sums)


def told_model(record: Model) -> dict[str, Any]:
    """Return the fields of the event `model`.

    `calls` are in order, each with `name` and `arguments`; where these could not be read, `unreadable` says why and
    shows the beginning of the raw text. An answer that did not come says why in `silent`, one that was no reply in
    `malformed`, and a call that was given up has `cut`.
    """
    reply = record.reply
    told: dict[str, Any] = {
        "request": record.request,
        "stop_reason": None if reply is None else reply["stop_reason"],
        "text": "" if reply is None else text_of(reply["content"]),
        "calls": [] if reply is None else _calls(reply),
        "usage": {} if reply is None else reply["usage"],
    }
    if reply is not None and reply.get("stop_details"):
        told["stop_details"] = reply["stop_details"]
    for name in ("silent", "malformed"):
        if (why := getattr(record, name)) is not None:
            told[name] = why
    if record.cut:
        told["cut"] = True
    return told


def told_reason(record: Reason) -> dict[str, Any]:
    """Return the fields of the event `reason`."""
    told: dict[str, Any] = {
        "question": record.question,
        "answer": record.answer,
        "degraded": record.degraded,
        "missing": record.missing,
    }
    return told if record.why is None else {**told, "why": record.why}


def _calls(reply: Value) -> list[dict[str, Any]]:
    unreadable = reply.get("unreadable") or {}
    found = []
    for index, block in calls_of(reply["content"]):
        call = {"name": block["name"], "arguments": block["input"]}
        if str(index) in unreadable:
            call["unreadable"] = unreadable[str(index)]
        found.append(call)
    return found


_NOTHING = Spent()
