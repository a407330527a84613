"""A history: what was said to a model and what it said, as whole exchanges, with the ids of its calls.

Every call in it has its answer in the message after it. It grows at its end and is cut at its beginning without being
walked again, so that going on costs no more after 1,000 exchanges than after 10.

Knows: messages in the shape that goes on the wire, and which ids are taken.
Does not know: turns, stop reasons, or whose history it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import attrs
import immutables

from society.errors import ScenarioError
from society.replies import calls_of
from society.values import FrozenDict, FrozenList, Value, freeze

Ids: TypeAlias = "immutables.Map[str, int]"
"""The id of each call, with a number *n*: all of `id_2` … `id_n` are taken too. A persistent map: copying a dict for
each of 1,000 exchanges would cost more than they do."""

_NUMBERED: Final = re.compile(r"(.+)_([1-9]\d*)", re.DOTALL)


@attrs.frozen
class History:
    """Whole exchanges. `history_of` makes one."""

    messages: FrozenList
    ids: Ids = attrs.field(repr=False, factory=immutables.Map)

    def asked(self, content: Value) -> History:
        """Return it with a user message at its end."""
        return History(FrozenList([*self.messages, FrozenDict(role="user", content=content)]), self.ids)

    def grown(self, messages: Sequence[Value]) -> History:
        """Return it with whole exchanges at its end, whose ids are distinct from those in it."""
        return History(FrozenList([*self.messages, *messages]), _with(self.ids, _ids_in(messages)))

    def without_first(self, count: int) -> History:
        """Return it without its first messages, which are whole exchanges."""
        if not count:
            return self
        return History(FrozenList(self.messages[count:]), _without(self.ids, _ids_in(self.messages[:count])))


NOTHING_SAID: Final = History(FrozenList())


def history_of(messages: Iterable[Any]) -> History:
    """Return messages as a history.

    Raises:
        ScenarioError: One of them is no message, or a call in them has no answer.
    """
    history = freeze(list(messages), "messages")
    open_ids: list[str] = []
    for place, message in enumerate(history):
        if (
            not isinstance(message, dict)
            or message.get("role") not in ("user", "assistant")
            or "content" not in message
        ):
            raise ScenarioError(f"messages[{place}]: {message!r:.80} is not a message with a role and content.")
        blocks = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "assistant":
            _all_answered(open_ids, set(), place)
            open_ids = [block["id"] for _, block in calls_of(blocks)]
        elif open_ids:
            _all_answered(open_ids, {block.get("tool_use_id") for block in blocks}, place)
            open_ids = []
    _all_answered(open_ids, set(), len(history))
    return History(history, _with(immutables.Map(), _ids_in(history)))


def free_id(call_id: str, taken: Ids) -> tuple[str, Ids]:
    """Return the id, or the first `id_2`, `id_3`, … that is free, and the ids taken after it."""
    if call_id not in taken:
        return call_id, taken.set(call_id, 1)
    number = taken[call_id] + 1
    while (free := f"{call_id}_{number}") in taken:
        number += 1
    # Where the search stopped is kept: a model that always repeats one id would make each search longer.
    return free, taken.set(call_id, number).set(free, 1)


def _all_answered(ids: list[str], answered: set[Any], place: int) -> None:
    missing = [call_id for call_id in ids if call_id not in answered]
    if missing:
        raise ScenarioError(
            f"messages[{place - 1}]: the call {missing[0]!r} has no answer in the message after it, and no service "
            "takes such a history. Answer it there with a `tool_result` block, or leave the exchange out."
        )


def _ids_in(messages: Iterable[Value]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "assistant" and isinstance(message["content"], list):
            for _, block in calls_of(message["content"]):
                yield block["id"]


def _with(taken: Ids, ids: Iterable[str]) -> Ids:
    for call_id in ids:
        taken = taken.set(call_id, taken.get(call_id, 1))
        stem, number = _parts(call_id)
        if number and taken.get(stem) == number - 1:
            taken = taken.set(stem, number)
    return taken


def _without(taken: Ids, ids: Iterable[str]) -> Ids:
    for call_id in ids:
        taken = taken.delete(call_id) if call_id in taken else taken
        stem, number = _parts(call_id)
        if number and taken.get(stem, 0) >= number:
            taken = taken.set(stem, number - 1)
    return taken


def _parts(call_id: str) -> tuple[str, int]:
    """Return an id as `free_id` may have made it, stem and number; a number of 0 where it did not."""
    found = _NUMBERED.fullmatch(call_id)
    number = int(found[2]) if found is not None and len(found[2]) < 10 else 0
    return (found[1], number) if found is not None and number > 1 else ("", 0)
