"""One tick by itself: a behavior, what it looks at, and what it leaves.

Knows: how a snapshot is made up for one agent, through an ordinary society of one round.
Does not know: ticks; they are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
import trio
import trio.testing

from society.agent import Agent
from society.limits import Limits
from society.messages import Message, Receipt
from society.policy import Policy
from society.societies import AsyncSociety
from society.testing.fake_host import FakeHost
from society.trace import Event
from society.values import Value, freeze


@attrs.frozen(kw_only=True)
class Contributed:
    """What one tick left for its barrier. Of a tick that did not end well, only how it ended counts (R4)."""

    ending: Literal["well", "failed", "late"]
    error: str | None
    """`Type: message` of a tick that failed."""
    where: str | None
    """`file:line` of it."""
    sent: list[Message]
    """A broadcast is one message with `to=None`."""
    shared: list[tuple[str, Value]]
    """(key, value) of each contribution to SHARED, in order."""
    notes: list[str]
    spawned: list[str]
    """Names of the agents that were asked for."""
    retired: bool
    state: Mapping[str, Value]
    """The agent's memory after the tick."""
    public: Mapping[str, Value]
    actions: list[Event]
    """Its actions as the trace tells them: `tool`, `arguments`, `ending`, `result`, …"""
    events: list[Event]
    """Everything that the trace tells of the tick."""


def tick_once(
    behavior: Callable[[Any], Any],
    *,
    inbox: Iterable[Message | Sequence[Any]] = (),
    shared: Mapping[str, Any] | None = None,
    observed: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    host: Any = None,
    state: Mapping[str, Any] | None = None,
    public: Mapping[str, Any] | None = None,
    receipts: Iterable[Receipt] = (),
    parameters: Mapping[str, Any] | None = None,
    peers: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    name: str = "agent",
    group: str | None = None,
    index: int | None = None,
    round: int = 1,
    seed: int = 0,
    policy: Policy | None = None,
    limits: Limits | None = None,
) -> Contributed:
    """Let a behavior tick once, on a clock that jumps, and return its contribution.

    It may be called with or without an event loop around it, and is not awaited.

    Args:
        behavior: Plain or `async`.
        inbox: Messages, or (sender, kind) or (sender, kind, body).
        shared: As for a society: values, or `Shared`.
        observed: By sensor, what it shows; `UNKNOWN` for one that is silent. As in `FakeHost`.
        tools: By name, what each gives. As in `FakeHost`.
        host: One host more.
        peers: Names of others, besides the senders in `inbox`; with their public state, if there is any.
        round: The number of the round.
    """
    fakes = FakeHost(tools=tools, sensors=observed)
    messages = [_message(given, round) for given in inbox]
    faces = peers if isinstance(peers, Mapping) else {peer: {} for peer in peers}
    others = dict.fromkeys([*faces, *(message.sender for message in messages if message.sender != "world")])
    agent = Agent(
        name, behavior, observe=tuple(observed or ()), state=state or {}, public=public or {}, group=group, index=index
    )
    town = AsyncSociety(
        [agent, *(Agent(other, _idle, public=faces.get(other, {})) for other in others if other != name)],
        hosts={name: [fakes] if host is None else [fakes, host]},
        shared=shared,
        parameters=parameters,
        policy=policy,
        limits=limits,
        seed=seed,
        on_error="continue",
    )
    town.state = attrs.evolve(
        town.state,
        round=round - 1,
        inboxes={name: messages} if messages else {},
        receipts={name: list(receipts)} if receipts else {},
    )
    _run(town)
    return _contributed(town, name, round)


def _idle(_: Any) -> None:
    return None


def _message(given: Message | Sequence[Any], round: int) -> Message:
    if isinstance(given, Message):
        return given
    sender, kind, *rest = given
    return Message(sender, kind, freeze(dict(rest[0]) if rest else {}, "body"), round - 1)


def _run(town: AsyncSociety) -> None:
    """Run one round in a loop of its own, whether or not there is one already."""

    def run() -> None:
        trio.run(town.tick, clock=trio.testing.MockClock(autojump_threshold=0))

    if not trio.lowlevel.in_trio_run():
        run()
        return
    raised: list[BaseException] = []

    def in_thread() -> None:
        try:
            run()
        except BaseException as error:  # handed on to the caller below, whatever it is
            raised.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _contributed(town: AsyncSociety, name: str, round: int) -> Contributed:
    events = town.trace.where(agent=name, round=round)
    bad = next((event for event in events if event.kind in ("failed", "late")), None)

    def all_of(kind: str) -> list[Event]:
        return [event for event in events if event.kind == kind]

    return Contributed(
        ending=bad.kind if bad is not None else "well",
        error=bad.get("error") if bad is not None else None,
        where=bad.get("where") if bad is not None else None,
        sent=[
            Message(name, event.message_kind, event.body, round, event.message, event.to) for event in all_of("send")
        ],
        shared=[(event.key, event.value) for event in all_of("share")],
        notes=[event.text for event in all_of("note")],
        spawned=[event.name for event in all_of("spawn")],
        retired=bool(all_of("retire")),
        state=town.agents[name].state,
        public=town.agents[name].public,
        actions=all_of("action"),
        events=events,
    )
