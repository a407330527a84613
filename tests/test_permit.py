"""Permits: no effect without leave for exactly this action, good once (K2)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from schedules import run
from societies import town

from society import AsyncHost, PermitError, current_action, plain
from society.permit import CurrentAction, Permit, check, give
from society.slots import Place, Slots
from society.values import freeze


def permit(tool: str = "pay", **arguments: Any) -> Permit:
    action = CurrentAction("id", "ada", 1, 1, (0, 1), "run")
    return give(action, tool, freeze(arguments), Place(Slots(None)))


def test_a_permit_is_good_once_for_exactly_its_action() -> None:
    given = permit(eur=5)
    assert check(given, "pay", {"eur": 5}) is given
    with pytest.raises(PermitError, match="used before"):
        check(given, "pay", {"eur": 5})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("refund", {"eur": 5}), ("pay", {"eur": 6}), ("pay", {"eur": 5.0}), ("pay", {"eur": 5, "more": 1}), ("pay", {})],
)
def test_a_permit_for_something_else_is_refused_and_not_used_up(tool: str, arguments: Any) -> None:
    given = permit(eur=5)
    with pytest.raises(PermitError):
        check(given, tool, arguments)
    check(given, "pay", {"eur": 5})


def test_arguments_that_are_equal_but_not_the_same_are_other_arguments() -> None:
    for other in (True, 1.0):
        with pytest.raises(PermitError, match="other arguments"):
            check(permit(n=1), "pay", {"n": other})


def test_permits_cannot_be_made_copied_stored_or_forged() -> None:
    action = CurrentAction("id", "ada", 1, 1, (0, 1), "run")
    with pytest.raises(PermitError):
        Permit(object(), action, "pay", {}, Place(Slots(None)))
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PermitError):
            copying(permit())

    class Forged(Permit):
        def spend(self, tool: str, arguments: Any) -> None:
            return None

    for forged in (None, True, "permit", action, object.__new__(Permit), object.__new__(Forged)):
        with pytest.raises(PermitError):
            check(forged, "pay", {})


def test_a_host_refuses_whoever_calls_it_without_the_gate() -> None:
    host, done = AsyncHost(), []
    host.tool("pay", thread=False)(lambda **arguments: done.append(arguments))

    @host.tool("indirect")
    async def indirect() -> None:
        # The context of one action grants nothing for another.
        assert current_action().agent == "ada"
        with pytest.raises(PermitError):
            await host.invoke("pay", {"eur": 1})

    async def ada(tick: Any) -> None:
        with pytest.raises(PermitError):
            await host.invoke("pay", {"eur": 5})
        with pytest.raises(PermitError):
            current_action()
        await tick.call("indirect")
        await tick.call("pay", eur=2)

    assert run(town(ada, hosts=host).run, 1).outcome == "finished"
    assert done == [{"eur": 2}]


def test_a_tool_is_told_its_action_and_gets_a_free_copy_of_its_arguments() -> None:
    host, told = AsyncHost(), []

    @host.tool("work", thread=False)
    def work(items: list[int]) -> list[int]:
        told.append(current_action())
        items.append(9)
        return items

    async def ada(tick: Any) -> None:
        mine = [1]
        assert await tick.call("work", items=mine) == [1, 9]
        assert mine == [1]

    society = town(ada, hosts=host, run_id="r1")
    assert run(society.run, 1).outcome == "finished"
    (action,) = society.trace.where(kind="action")
    assert plain(action.arguments) == {"items": [1]}
    assert (told[0].id, told[0].agent, told[0].round, told[0].attempt) == (action.id, "ada", 1, 1)
    assert told[0].idempotency_key != action.id
