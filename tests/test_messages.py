"""Messages: who reads what and when, what is refused, and that its sender hears of it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from schedules import run
from societies import doing, idle, kinds, town

from society import Agent, Limits, UnknownRecipient


def test_several_messages_of_one_kind_are_all_read_in_order_of_sender_and_of_sending() -> None:
    """P37."""
    read: list[list[tuple[str, int]]] = []

    def a(tick: Any) -> None:
        read.append([(message.sender, message.body["n"]) for message in tick.inbox])

    def sending(first: int, second: int) -> Any:
        return doing(lambda tick: [tick.send("a", "offer", n=n) for n in (first, second)])

    society = town(Agent("a", a), *(Agent(name, sending(1, n)) for n, name in enumerate("bcd")))
    run(society.run, 2)
    assert read == [[], [("b", 1), ("b", 0), ("c", 1), ("c", 1), ("d", 1), ("d", 2)]]


@pytest.mark.parametrize("name", ["bob", "Bob ", "Carol"])
def test_a_message_to_someone_who_was_never_declared_raises_at_once_with_the_nearest_names(name: str) -> None:
    """P38."""
    raised: list[UnknownRecipient] = []

    def alice(tick: Any) -> None:
        try:
            tick.send(name, "x")
        except UnknownRecipient as error:
            raised.append(error)

    society = town(Agent("Alice", alice), Agent("Bob", idle))
    result = run(society.run, 2)
    assert [error.name for error in raised] == [name, name]
    assert raised[0].near == (("Bob",) if name != "Carol" else ())
    assert (result.metrics.messages_sent, len(society.agents)) == (0, 2)


@pytest.mark.parametrize("turns", [False, True])
def test_a_full_inbox_refuses_and_the_sender_hears_of_it_one_round_later(turns: bool) -> None:
    heard: list[list[tuple[str, str, int]]] = []

    def ada(tick: Any) -> None:
        heard.append([(receipt.recipient, receipt.reason, receipt.message.body["n"]) for receipt in tick.receipts])
        if tick.round == 1:
            for n in range(3):
                tick.send("bob", "x", n=n)

    society = town(ada, Agent("bob", idle), turns=turns, limits=Limits(inbox_capacity=2))
    metrics = run(society.run, 3).metrics
    assert heard == [[], [("bob", "inbox full", 2)], []]
    assert (metrics.messages_sent, metrics.messages_read, metrics.messages_refused) == (3, 2, 1)
    assert [(event.sender, event.recipient, event.message) for event in society.trace.where(kind="refused")] == [
        ("ada", "bob", 3)
    ]


def test_an_inbox_is_used_up_by_its_round_however_the_tick_ends() -> None:
    read: list[int] = []

    def bob(tick: Any) -> None:
        read.append(len(tick.inbox))
        if tick.round == 2:
            raise ValueError

    society = town(Agent("ada", doing(lambda tick: tick.send("bob", "x"))), bob, on_error="continue")
    metrics = run(society.run, 3).metrics
    assert read == [0, 1, 0] and metrics.messages_read == 1


def test_who_does_not_tick_in_a_round_keeps_its_inbox() -> None:
    read: dict[str, int] = {}

    def behavior(tick: Any) -> None:
        read[tick.agent] = read.get(tick.agent, 0) + len(tick.inbox)
        tick.broadcast("x")

    society = town(*(Agent(name, behavior) for name in "abcd"), activation="partial", rate=0.5)
    metrics = run(society.run, 12).metrics
    waiting = sum(len(agent.inbox) for agent in society.agents)
    assert metrics.messages_sent == metrics.messages_read + waiting == sum(read.values()) + waiting
    assert 0 < metrics.ticks < 48


@pytest.mark.parametrize("turns", [False, True])
def test_what_a_behavior_does_to_its_inbox_changes_nothing(turns: bool) -> None:
    def bob(tick: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            tick.inbox.clear()
        with contextlib.suppress(AttributeError, TypeError):
            tick.receipts.clear()
        if tick.round == 1:
            tick.send("bob", "a")
            tick.send("bob", "b")

    society = town(bob, turns=turns, limits=Limits(inbox_capacity=1))
    run(society.run, 2)
    assert kinds(society, "bob", 2) == ["receive", "receipt"]


def test_a_message_passed_on_in_every_round_does_not_nest_without_bound() -> None:
    """V2."""

    def ada(tick: Any) -> None:
        tick.send("ada", "again", inside=tick.inbox[0].body if tick.inbox else {})

    result = run(town(ada).run, 300)
    assert (result.outcome, result.rounds) == ("failed", 200)
    assert "nested over 200 deep" in result.reason
