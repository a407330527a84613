"""A checkpoint: the whole state between two rounds as one record, so that a resume decodes only what came after it (J3).

Knows: how a state is written down and read again. A message that waits in many inboxes is written once.
Does not know: when a checkpoint is worth its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import immutables

from society.messages import Message, Receipt
from society.records import Checkpoint
from society.spending import Spent
from society.state import Action, State
from society.values import FrozenDict


def checkpoint(state: State, past: Mapping[str, Any]) -> Checkpoint:
    """Return the record of a state. `past` is what decides on the outcome after its round."""
    table: dict[int, int] = {}
    messages: list[dict[str, Any]] = []

    def place(message: Message) -> int:
        if id(message) not in table:
            table[id(message)] = len(messages)
            messages.append(
                {
                    "sender": message.sender,
                    "kind": message.kind,
                    "body": message.body,
                    "round": message.round,
                    "number": message.number,
                    "to": message.to,
                }
            )
        return table[id(message)]

    inboxes = {name: [place(message) for message in box] for name, box in state.inboxes.items()}
    receipts = {
        name: [
            (None if receipt.message is None else place(receipt.message), receipt.recipient, receipt.reason)
            for receipt in heard
        ]
        for name, heard in state.receipts.items()
    }
    return Checkpoint(
        round=state.round,
        names=list(state.names),
        groups=dict(state.groups),
        retired=[name for name in state.names if name in state.retired],
        births=[dict(birth) for birth in state.births],
        shared={key: state.shared[key] for key in state.keys},
        versions={key: state.versions[key] for key in state.keys},
        changed=dict(state.changed),
        messages=messages,
        inboxes=inboxes,
        receipts=receipts,
        memories=_in_order(state.names, state.memories),
        publics=_in_order(state.names, state.publics),
        doubts=[_told(action) for action in state.doubts.values()],
        stranded={name: [_told(action) for action in actions] for name, actions in state.stranded.items()},
        counts=dict(state.counts),
        past=dict(past),
        spent={name: spent.written() for name, spent in state.spent.items()},
    )


def state_at(record: Checkpoint) -> State:
    """Return the state that a checkpoint holds."""
    messages = [Message(**found) for found in record.messages]

    def at(place: int | None) -> Message | None:
        return None if place is None else messages[place]

    retired = frozenset(record.retired)
    return State(
        round=record.round,
        names=tuple(record.names),
        groups=dict(record.groups),
        live=tuple(name for name in record.names if name not in retired),
        retired=retired,
        births=tuple(record.births),
        keys=tuple(record.shared),
        shared=immutables.Map(record.shared),
        versions=immutables.Map(record.versions),
        changed=dict(record.changed),
        inboxes={name: [messages[place] for place in box] for name, box in record.inboxes.items()},
        receipts={
            name: [Receipt(at(place), recipient, reason) for place, recipient, reason in heard]
            for name, heard in record.receipts.items()
        },
        memories=immutables.Map(_frozen(record.memories)),
        publics=immutables.Map(_frozen(record.publics)),
        doubts={found["id"]: Action(**found) for found in record.doubts},
        stranded={name: tuple(Action(**found) for found in actions) for name, actions in record.stranded.items()},
        counts=dict(record.counts),
        spent={name: Spent(**found) for name, found in record.spent.items()},
    )


def _in_order(names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    # A persistent map has no order of its own: its iteration follows the process's hash seed.
    return {name: values[name] for name in names if name in values}


def _frozen(values: Mapping[str, Any]) -> dict[str, FrozenDict]:
    return {name: FrozenDict(value) for name, value in values.items()}


def _told(action: Action) -> dict[str, Any]:
    return {
        "id": action.id,
        "agent": action.agent,
        "round": action.round,
        "tool": action.tool,
        "arguments": action.arguments,
        "ending": action.ending,
        "result": action.result,
    }
