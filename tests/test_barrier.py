"""The barrier: contributions in order of activation become the state that the next round starts from."""

from __future__ import annotations

from typing import Any

import attrs
from societies import idle

from society.agent import Agent
from society.barrier import fold
from society.records import Barrier, Contribution, Intent, Result
from society.shared import Shared
from society.state import State, Terms, first_state
from society.values import freeze

SHARED = {
    "a": Shared(1),
    "log": Shared([], merge="append"),
    "once": Shared(None, merge="first"),
    "strict": Shared(0, merge="error"),
    "named": Shared(0, merge=lambda value, contribution: value + contribution),
    "picky": Shared(0, merge=lambda value, contribution: value // contribution),
}


def terms(**how: Any) -> Terms:
    return Terms(shared=SHARED, **{"in_turn": False, **how})


def before(*names: str, **how: Any) -> State:
    return first_state([Agent(name, idle, **how) for name in names or ("ada", "bob", "cyd")], SHARED)


def did(agent: str, *what: tuple[Any, ...], **how: Any) -> Contribution:
    return Contribution(agent, 1, did=[(kind, "0", *rest) for kind, *rest in what], **how)


def send(to: str | None, n: int = 0) -> tuple[Any, ...]:
    return "send", to, "note", freeze({"n": n})


def closed(state: State, *ticks: Contribution, crossings: Any = None, terms_: Terms | None = None, **how: Any) -> Any:
    given = {tick.agent for tick in ticks}
    ticks = (*ticks, *(Contribution(name) for name in state.live if name not in given))
    in_order = sorted(ticks, key=lambda tick: state.names.index(tick.agent))
    return fold(state, terms_ or terms(), Barrier(round=state.round + 1, ticks=in_order, **how), crossings or {})


def inbox(state: State, name: str) -> list[tuple[str, int]]:
    return [(message.sender, message.body["n"]) for message in state.inboxes.get(name, ())]


def test_contributions_count_in_declared_order_whatever_order_they_are_in() -> None:
    after = closed(
        before(), did("cyd", ("share", "log", 3)), did("ada", ("share", "log", 1), ("share", "log", 2))
    ).after
    assert after.shared["log"] == [1, 2, 3]
    assert after.versions["log"] == 3


def test_messages_are_ordered_by_sender_then_by_sending() -> None:
    after = closed(before(), did("cyd", send("bob", 3)), did("ada", send("bob", 1), send("bob", 2))).after
    assert inbox(after, "bob") == [("ada", 1), ("ada", 2), ("cyd", 3)]


def test_a_broadcast_is_one_message_and_reaches_all_but_its_sender() -> None:
    after = closed(before(), did("bob", send(None))).after
    assert after.inboxes["ada"][0] is after.inboxes["cyd"][0]
    assert "bob" not in after.inboxes
    assert after.counts["messages_sent"] == 2


def test_one_may_write_to_oneself() -> None:
    assert inbox(closed(before(), did("bob", send("bob", 7))).after, "bob") == [("bob", 7)]


def test_a_tick_that_did_not_end_well_leaves_nothing() -> None:
    failed = did("ada", send("bob"), ("share", "a", 9), ("retire",), ending="failed", state={"n": 1})
    after = closed(before(), failed).after
    assert (after.shared["a"], after.versions["a"], after.live) == (1, 0, ("ada", "bob", "cyd"))
    assert not after.inboxes and not after.memories


def test_a_full_inbox_refuses_the_later_ones_in_declared_order_and_tells_their_senders() -> None:
    result = closed(
        before(), did("ada", send("bob", 1)), did("cyd", send("bob", 2), send("bob", 3)), terms_=terms(inbox_capacity=2)
    )
    assert inbox(result.after, "bob") == [("ada", 1), ("cyd", 2)]
    assert [
        (receipt.recipient, receipt.reason, receipt.message.body["n"]) for receipt in result.after.receipts["cyd"]
    ] == [("bob", "inbox full", 3)]
    assert result.after.counts["messages_refused"] == 1


def test_who_leaves_turns_back_what_was_sent_in_the_same_round() -> None:
    result = closed(before(), did("ada", ("retire",)), did("bob", send("ada", 1)))
    assert result.after.live == ("bob", "cyd")
    assert [receipt.reason for receipt in result.after.receipts["bob"]] == ["retired"]
    assert result.after.counts["messages_undelivered"] == 1


def test_a_broadcast_passes_over_those_who_have_left() -> None:
    state = closed(before(), did("ada", ("retire",))).after
    after = closed(state, did("bob", send(None))).after
    assert after.counts["messages_sent"] == 1 and not after.receipts


def test_last_keeps_the_last_and_tells_the_conflict_with_all_writers_and_what_was_lost() -> None:
    result = closed(before(), did("ada", ("share", "a", 5), ("share", "a", 6)), did("cyd", ("share", "a", 6)))
    assert result.conflicts == [("a", 6, [("ada", 5), ("ada", 6)], ["ada", "cyd"])]
    assert result.merges == [("a", 6, 3, ["ada", "cyd"])]
    assert result.after.counts["shared_conflicts"] == 1


def test_first_keeps_the_first() -> None:
    result = closed(before(), did("ada", ("share", "once", 5)), did("cyd", ("share", "once", 6)))
    assert result.conflicts == [("once", 5, [("cyd", 6)], ["ada", "cyd"])]
    assert result.after.versions["once"] == 2


def test_one_agent_alone_is_no_conflict_however_often_it_writes() -> None:
    result = closed(before(), did("ada", ("share", "strict", 5), ("share", "strict", 6)))
    assert result.conflicts == [] and result.after.shared["strict"] == 6


def test_equal_values_of_two_agents_are_a_conflict_too() -> None:
    assert closed(before(), did("ada", ("share", "a", 5)), did("bob", ("share", "a", 5))).conflicts


def test_error_stops_with_nothing_of_the_round_applied() -> None:
    state = before()
    result = closed(
        state, did("ada", ("share", "strict", 1), ("share", "a", 9), send("bob")), did("bob", ("share", "strict", 1))
    )
    assert attrs.evolve(result.after, counts=state.counts) == state and result.conflict_key == "strict"
    assert result.after.counts["shared_conflicts"] == 1
    assert result.conflicts == [("strict", 0, [("ada", 1), ("bob", 1)], ["ada", "bob"])]
    assert result.merges == []


def test_what_a_function_merged_is_taken_from_the_record_where_there_is_one() -> None:
    ticks = [did("ada", ("share", "named", 2)), did("bob", ("share", "named", 3)), did("cyd")]
    assert closed(before(), *ticks, merged={"named": 55}).after.shared["named"] == 55


def test_in_turn_there_are_no_conflicts_and_first_and_error_act_like_last() -> None:
    ticks = [did(name, ("share", "once", n), ("share", "strict", n)) for n, name in enumerate(("ada", "bob", "cyd"))]
    result = closed(before(), *ticks, terms_=terms(in_turn=True))
    assert result.conflicts == [] and result.conflict is None
    assert (result.after.shared["once"], result.after.shared["strict"], result.after.versions["once"]) == (2, 2, 3)


def test_births_stand_behind_all_others_in_the_order_of_parents_and_calls() -> None:
    def birth(name: str) -> tuple[Any, ...]:
        return "spawn", {"name": name, "behavior": "x:y", "state": {"n": 1}, "group": "kids"}

    result = closed(before(), did("cyd", birth("kim")), did("ada", birth("lea"), birth("kim")))
    assert result.after.names == ("ada", "bob", "cyd", "lea", "kim")
    assert result.after.memories["kim"] == {"n": 1} and result.after.groups["kim"] == "kids"
    assert [(receipt.message, receipt.recipient, receipt.reason) for receipt in result.after.receipts["cyd"]] == [
        (None, "kim", "name taken")
    ]


def test_actions_of_a_tick_that_failed_are_stranded_in_the_order_of_their_ordinals_until_one_ends_well() -> None:
    def effect(at: str, ending: Any) -> list[Any]:
        head: dict[str, Any] = {"round": 1, "agent": "ada", "at": at, "id": at}
        return [Intent(**head, tool="t", arguments={}), Result(**head, ending=ending, value=1)]

    arrived = [*effect("10", "done"), *effect("2.1", "failed"), *effect("2", "in_doubt")]
    result = closed(before(), did("ada", ending="failed"), crossings={("ada", 1): arrived})
    assert [(action.id, action.ending) for action in result.after.stranded["ada"]] == [
        ("2", "in_doubt"),
        ("2.1", "failed"),
        ("10", "done"),
    ]
    assert list(result.after.doubts) == ["2"]
    again = closed(result.after, did("ada", ending="late")).after
    assert len(again.stranded["ada"]) == 3
    assert "ada" not in closed(again, did("ada")).after.stranded


def test_the_state_before_is_never_changed() -> None:
    state = closed(before(), did("ada", send("bob", 1), ("share", "log", 1))).after
    boxes, shared = dict(state.inboxes), dict(state.shared)
    closed(state, did("ada", send("bob", 2), ("share", "log", 2), ("retire",)), did("bob", send(None)))
    assert dict(state.inboxes) == boxes and dict(state.shared) == shared
    assert inbox(state, "bob") == [("ada", 1)]
