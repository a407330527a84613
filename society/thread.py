"""An agent's thread: the exchanges that it remembers, one entry in its state for each tick.

So each barrier writes down what is new and not all of it again. What the entries add up to is kept beside them from
tick to tick, and made again where the state is another one: after a resume, or after a tick that did not end well.

Knows: the keys of the state that hold a thread, and how much of it is kept.
Does not know: models, or what is said in an exchange.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

import attrs

from society.history import NOTHING_SAID, History, history_of
from society.values import Value

THREAD: Final = "society__thread."
"""Keys of `tick.state` under which a thread is kept, with the number of the exchange behind it."""


@attrs.frozen
class Thread:
    """What the entries of a state add up to, the oldest first."""

    keys: list[str]
    entries: list[Mapping[str, Value]]
    history: History
    size: int
    """Characters of all of it."""


NO_THREAD: Final = Thread([], [], NOTHING_SAID, 0)


def remembered(state: Mapping[str, Value], known: Thread = NO_THREAD) -> Thread:
    """Return an agent's thread.

    Args:
        state: The agent's.
        known: What it was when it was looked at last, or anything else: it is only returned where it still holds.
    """
    if known.keys and _still_holds(known, state):
        return known
    keys = sorted((key for key in state if key.startswith(THREAD)), key=_number)
    entries = [state[key] for key in keys]
    messages = [message for entry in entries for message in entry["messages"]]
    return Thread(keys, entries, history_of(messages), sum(entry["size"] for entry in entries))


def remember(state: MutableMapping[str, Any], thread: Thread, messages: Sequence[Value], most: int) -> Thread:
    """Put an exchange at the end of a thread, and leave out old ones, whole, until it is short enough.

    Args:
        state: The agent's, which is written to.
        thread: What it holds now.
        messages: From what the agent was told to the last reply; nothing is kept where there was none.
        most: Characters of the whole thread. The newest exchange is kept however long it is.
    """
    if not any(message["role"] == "assistant" for message in messages):
        return thread
    key = f"{THREAD}{_number(thread.keys[-1]) + 1 if thread.keys else 1}"
    size = len(json.dumps(messages, ensure_ascii=False))
    state[key] = {"messages": list(messages), "size": size}
    gone, kept = 0, thread.size + size
    while kept > most and gone < len(thread.keys):
        kept -= thread.entries[gone]["size"]
        del state[thread.keys[gone]]
        gone += 1
    forgotten = sum(len(entry["messages"]) for entry in thread.entries[:gone])
    return Thread(
        [*thread.keys[gone:], key],
        [*thread.entries[gone:], state[key]],
        thread.history.without_first(forgotten).grown(state[key]["messages"]),
        kept,
    )


def _still_holds(known: Thread, state: Mapping[str, Value]) -> bool:
    """Tell whether a state holds these entries and no others; nothing is looked at key by key, if it need not be."""
    names, last = list(state), len(known.keys)
    if names[-last:] == known.keys:
        others, entries = names[:-last], list(state.values())[-last:]
    else:  # something else was put into the state since
        others, entries = list(set(names).difference(known.keys)), list(map(state.get, known.keys))
    return entries == known.entries and not any(key.startswith(THREAD) for key in others)


def _number(key: str) -> int:
    return int(key.removeprefix(THREAD))
