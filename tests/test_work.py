"""One action's way: people who are asked, and doubts that are settled while the run is live (K2, K5, J4, B5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from schedules import run
from societies import town

from society import (
    NO_ANSWER,
    NOT_EXECUTED,
    WAIT,
    ActionDenied,
    ActionInDoubt,
    Agent,
    AsyncHost,
    Limits,
    Policy,
    ToolFailed,
    allow,
    approve,
    current_action,
    deny,
    never,
    plain,
)


class Bank(AsyncHost):
    """A world with one effect: it counts what was paid, and what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: list[Any] = []

        @self.tool("pay", thread=False)
        def pay(amount: Any) -> str:
            self.paid.append(amount)
            return "paid"


def asks(person: Any, *calls: Any, **how: Any) -> tuple[Bank, Any, Any]:
    """Return (bank, society, result) of one agent that pays one amount after another, each to be approved."""
    bank = Bank()

    async def ada(tick: Any) -> None:
        for amount in calls or (5,):
            try:
                await tick.call("pay", amount=amount)
            except ActionDenied as denied:
                tick.note(f"{denied.by}: {denied.why}")

    society = town(Agent("ada", ada, policy=Policy(approve("pay"))), hosts=bank, approver=person, **how)
    return bank, society, run(society.run, 1)


def notes(society: Any, agent: str | None = None) -> list[str]:
    return [event.text for event in society.trace.where(kind="note") if agent in (None, event.agent)]


# Asking a person.


@pytest.mark.parametrize("plain_function", [True, False])
def test_an_approver_may_be_plain_or_async_and_is_asked_about_what_will_be_sent(plain_function: bool) -> None:
    bank, asked = Bank(), []

    def say(request: Any) -> bool:
        asked.append((request.agent, request.tool, plain(request.arguments), request.rule, len(request.id)))
        return True

    async def say_async(request: Any) -> bool:
        return say(request)

    async def ada(tick: Any) -> None:
        assert await tick.call("pay", amount=[1, {"eur": 2}]) == "paid"

    bank.approver = say if plain_function else say_async
    society = town(Agent("ada", ada, policy=Policy(approve("p*", "true"))), hosts=bank)
    assert trio.run(society.run, 1).outcome == "finished"
    assert asked == [("ada", "pay", {"amount": [1, {"eur": 2}]}, "approve p* when true", 64)]
    assert bank.paid == [[1, {"eur": 2}]]
    (event,) = society.trace.where(kind="action")
    assert (event.verdict, event.rule, event.ending) == ("approve", "approve p* when true", "done")


@pytest.mark.parametrize("said", [1, 1.0, "yes", "true", [True], {"ok": True}, None, False, object()])
def test_only_true_approves(said: Any) -> None:
    """K5."""

    async def person(request: Any) -> Any:
        return said

    bank, society, _ = asks(person)
    assert bank.paid == []
    assert notes(society) == ["refused: None"]


def test_one_approval_is_for_one_action_even_with_the_same_arguments() -> None:
    answers = iter([True, False, True])
    asked: list[Any] = []

    async def person(request: Any) -> bool:
        asked.append((plain(request.arguments), request.id))
        return next(answers)

    bank, society, _ = asks(person, 5, 5, 6)
    assert bank.paid == [5, 6]
    assert [arguments["amount"] for arguments, _ in asked] == [5, 5, 6]
    assert len({id for _, id in asked}) == 3
    assert [event.ending for event in society.trace.where(kind="action")] == ["done", "denied", "done"]


def test_no_answer_in_time_refused_and_denied_by_rule_are_three_events() -> None:
    """P30: in none of them the action is performed, or in doubt."""

    async def person(request: Any) -> bool:
        if request.arguments["amount"] == 1:
            await trio.sleep_forever()
        return False

    bank = Bank()

    async def ada(tick: Any) -> None:
        for amount in (1, 2, 3):
            with pytest.raises(ActionDenied, match="It was not performed") as denied:
                await tick.call("pay", amount=amount)
            tick.note(f"{denied.value.by}: {denied.value}")
        assert tick.in_doubt == ()

    policy = Policy(approve("pay"), never("pay", "args.amount == 3"))
    society = town(Agent("ada", ada, policy=policy), hosts=bank, approver=person, limits=Limits(human_timeout=0.1))
    result = run(society.run, 1)
    assert (result.outcome, bank.paid, result.in_doubt) == ("finished", [], ())
    events = society.trace.where(kind="action")
    assert [(event.verdict, event.ending, event.result["by"]) for event in events] == [
        ("approve", "denied", "no_answer"),
        ("approve", "denied", "refused"),
        ("never", "denied", "rule"),
    ]
    assert events[0].result["why"] == "no answer in time"
    assert [note.split(":")[0] for note in notes(society)] == ["no_answer", "refused", "rule"]
    assert "nobody answered; that is not a refusal" in notes(society)[0]
    assert (result.metrics.denied, result.metrics.timeouts, result.metrics.tool_calls) == (3, 1, 0)


async def breaks(request: Any) -> bool:
    raise ConnectionError("the pager is broken")


async def says_nothing(request: Any) -> Any:
    return NO_ANSWER


@pytest.mark.parametrize(
    ("person", "why"),
    [
        (None, "there is nobody to ask"),
        (breaks, "asking raised ConnectionError: the pager is broken"),
        (says_nothing, "None"),
    ],
)
def test_who_is_not_there_breaks_or_says_nothing_has_not_answered_and_not_consented(person: Any, why: str) -> None:
    """P32."""
    bank, society, result = asks(person)
    assert (bank.paid, notes(society), result.metrics.timeouts) == ([], [f"no_answer: {why}"], 0)


def test_several_agents_wait_for_a_person_at_once_while_others_go_on() -> None:
    bank, waiting, most = Bank(), [0], [0]

    async def person(request: Any) -> bool:
        waiting[0] += 1
        most[0] = max(most[0], waiting[0])
        await trio.sleep(10)
        waiting[0] -= 1
        return True

    async def pays(tick: Any) -> None:
        await tick.call("pay", amount=1)

    async def works(tick: Any) -> None:
        began = trio.current_time()
        assert await tick.call("pay", amount=2) == "paid"
        done.append(trio.current_time() - began)

    done: list[float] = []
    society = town(
        *(Agent(name, pays, policy=Policy(approve("pay"))) for name in ("ada", "bob", "cyd")),
        Agent("dan", works),
        hosts=bank,
        approver=person,
        limits=Limits(max_concurrent_tools=1),
    )
    assert run(society.run, 1).outcome == "finished"
    assert (most, done, bank.paid) == ([3], [0], [2, 1, 1, 1])  # who waits for a person holds no slot


def test_a_person_who_is_to_be_asked_later_ends_the_run_as_waiting() -> None:
    bank = Bank()

    async def ada(tick: Any) -> None:
        await tick.call("pay", amount=1)

    async def bob(tick: Any) -> None:
        await trio.sleep(5)
        tick.note("others go on")
        finished.append(tick.agent)

    finished: list[str] = []
    society = town(Agent("ada", ada, policy=Policy(approve("pay"))), bob, hosts=bank, approver=WAIT)
    result = run(society.run, 1)
    assert (result.outcome, result.rounds, finished, bank.paid) == ("waiting", 0, ["bob"], [])


def test_a_rule_whose_fact_is_unknown_asks_and_says_which_fact_it_was() -> None:
    """K4."""
    bank = Bank()

    async def ada(tick: Any) -> None:
        with pytest.raises(ActionDenied, match=r"state\.limit is not there") as denied:
            await tick.call("pay", amount=1)
        assert denied.value.by == "refused"
        tick.state["limit"] = 5
        assert await tick.call("pay", amount=1) == "paid"

    async def person(request: Any) -> bool:
        return False

    policy = Policy(approve("pay", "args.amount > state.limit"))
    assert run(town(Agent("ada", ada, policy=policy), hosts=bank, approver=person).run, 1).outcome == "finished"


# An action in doubt.


def stalls(host: AsyncHost, behave: Callable[[int], Any], **declared: Any) -> list[tuple[int, str]]:
    """Register `pay`, which has its effect at once and then does as told; return where its (attempt, key) are noted."""
    seen: list[tuple[int, str]] = []

    @host.tool("pay", **declared)
    async def pay() -> Any:
        action = current_action()
        seen.append((action.attempt, action.idempotency_key))
        told = behave(action.attempt)
        if isinstance(told, Exception):
            raise told
        await trio.sleep(told)
        return f"paid at attempt {action.attempt}"

    return seen


async def pays(tick: Any) -> None:
    try:
        tick.note(await tick.call("pay"))
    except (ActionInDoubt, ToolFailed) as error:
        tick.note(f"{type(error).__name__}: {error}")


def payed(host: AsyncHost, rounds: int = 1, **how: Any) -> tuple[Any, Any, Any]:
    """Return (society, result, its first action) of a run with a timeout of a second."""
    society = town(Agent("ada", pays), hosts=host, limits=Limits(tool_timeout=1), **how)
    result = run(society.run, rounds)
    return society, result, society.trace.where(kind="action")[0]


def test_a_payment_that_timed_out_happens_once_and_is_neither_success_nor_failure() -> None:
    """P25."""
    host, counter = AsyncHost(), []

    @host.tool("pay", timeout=0.1)
    async def pay() -> str:
        counter.append(1)
        await trio.sleep(1)
        return "paid"

    async def ada(tick: Any) -> None:
        for action in tick.in_doubt:
            tick.note(f"in doubt: {action.tool} of round {action.round}")
        if tick.round == 1:
            for _ in range(3):  # it would ask again if it were told that it failed
                try:
                    await tick.call("pay")
                except ToolFailed:
                    continue
                except ActionInDoubt as doubt:
                    assert "may have happened" in str(doubt)
                break
            assert [action.tool for action in tick.in_doubt] == ["pay"]

    society = town(ada, hosts=host)
    result = run(society.run, 3)
    assert (result.outcome, counter) == ("finished", [1])
    (event,) = society.trace.where(kind="action")
    assert (event.ending, event.result) == ("in_doubt", {"why": "no answer in time"})
    assert notes(society) == ["in doubt: pay of round 1"] * 2
    assert ([action.id for action in result.in_doubt], result.metrics.in_doubt) == ([event.id], 1)
    assert result.metrics.timeouts == 1


def test_an_idempotent_tool_is_called_again_once_with_the_same_key_and_that_is_in_the_trace() -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100 if attempt == 1 else 0, idempotent=True)
    society, result, event = payed(host)
    assert [attempt for attempt, _ in seen] == [1, 2] and len({key for _, key in seen}) == 1
    assert (event.ending, event.result, event.attempts, event.settled) == ("done", "paid at attempt 2", 2, "repeated")
    assert notes(society) == ["paid at attempt 2"]
    assert (result.in_doubt, result.metrics.tool_calls) == ((), 1)


def test_two_attempts_are_all_there_are() -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100, idempotent=True)
    society, result, event = payed(host)
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert (event.ending, event.attempts, len(result.in_doubt)) == ("in_doubt", 2, 1)
    assert notes(society)[0].startswith("ActionInDoubt")


def test_a_second_attempt_that_fails_has_settled_it_too() -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100 if attempt == 1 else ValueError("no such account"), idempotent=True)
    _, result, event = payed(host)
    assert (len(seen), event.ending, event.settled, result.in_doubt) == (2, "failed", "repeated", ())
    assert plain(event.result) == {"error": "ValueError", "message": "no such account"}


def test_a_reconciler_that_knows_what_became_of_it_settles_it() -> None:
    host, asked = AsyncHost(), []
    seen = stalls(host, lambda attempt: 100)

    @host.reconciler("pay")
    async def look_up(doubt: Any) -> str:
        asked.append((doubt.tool, doubt.agent, doubt.round, doubt.arguments, doubt.idempotency_key))
        return "paid, says the ledger"

    society, result, event = payed(host)
    assert asked == [("pay", "ada", 1, {}, seen[0][1])]
    assert (len(seen), event.ending, event.settled) == (1, "done", "reconciled")
    assert (notes(society), result.in_doubt) == (["paid, says the ledger"], ())


@pytest.mark.parametrize(("again", "ending", "calls"), [(0, "done", 2), (100, "in_doubt", 2)])
def test_a_reconciler_that_knows_that_it_did_not_happen_makes_it_happen_now(
    again: float, ending: str, calls: int
) -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100 if attempt == 1 else again)
    host.reconciler("pay")(not_executed)
    _, _, event = payed(host)
    assert (len(seen), event.ending, len({key for _, key in seen})) == (calls, ending, 1)
    assert event.attempts == 2
    if ending == "done":
        assert (event.settled, event.result) == ("executed", "paid at attempt 2")


async def not_executed(doubt: Any) -> Any:
    return NOT_EXECUTED


async def cannot_tell() -> Any:
    raise LookupError("the ledger is down")


async def takes_forever() -> Any:
    await trio.sleep_forever()


@pytest.mark.parametrize("answer", [cannot_tell, takes_forever])
def test_a_reconciler_that_cannot_tell_leaves_the_doubt(answer: Any) -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100)

    @host.reconciler("pay")
    async def look_up(doubt: Any) -> Any:
        return await answer()

    society, result, event = payed(host)
    assert (len(seen), event.ending, len(result.in_doubt)) == (1, "in_doubt", 1)
    assert notes(society)[0].startswith("ActionInDoubt")


def test_an_idempotent_tool_that_stays_in_doubt_has_its_reconciler_asked() -> None:
    host = AsyncHost()
    seen = stalls(host, lambda attempt: 100, idempotent=True)

    @host.reconciler("pay")
    async def look_up(doubt: Any) -> str:
        return "paid"

    _, _, event = payed(host)
    assert (len(seen), event.ending, event.settled) == (2, "done", "reconciled")


def test_rules_may_look_at_what_is_in_doubt_in_this_tick_and_in_later_ones() -> None:
    host, rung = AsyncHost(), []
    stalls(host, lambda attempt: 100)
    host.tool("ring", thread=False)(lambda: rung.append(1))

    async def ada(tick: Any) -> None:
        if tick.round == 1:
            await tick.call("ring")
            await pays(tick)
        with pytest.raises(ActionDenied):
            await tick.call("ring")
        with pytest.raises(ActionDenied):
            await tick.call("pay")

    policy = Policy(deny("pay", '"pay" in in_doubt'), allow("ring", "size(in_doubt) == 0"))
    society = town(Agent("ada", ada, policy=policy), hosts=host, limits=Limits(tool_timeout=1))
    assert run(society.run, 3).outcome == "finished"
    assert rung == [1]
    assert [event.ending for event in society.trace.where(kind="action")] == ["done", "in_doubt"] + ["denied"] * 6


def test_proof_that_comes_late_clears_the_doubt_at_the_next_barrier_and_changes_nothing_else() -> None:
    """B4: the thread has worked on after its timeout."""
    import threading

    host, let_go = AsyncHost(), threading.Event()
    counter: list[int] = []

    @host.tool("pay", timeout=0.02)
    def pay() -> str:
        counter.append(1)
        let_go.wait(10)
        return "paid"

    @host.tool("wait")
    async def wait() -> None:
        let_go.set()
        while society._gate is not None and not society._gate.late:
            await trio.sleep(0.001)

    async def ada(tick: Any) -> None:
        tick.note(f"{len(tick.in_doubt)} in doubt")
        if tick.round == 1:
            with pytest.raises(ActionInDoubt):
                await tick.call("pay")
        elif tick.round == 2:
            await tick.call("wait")

    society = town(ada, hosts=host)
    result = trio.run(society.run, 3)
    assert (result.outcome, counter, result.in_doubt) == ("finished", [1], ())
    pay_event, _ = society.trace.where(kind="action")
    assert pay_event.ending == "in_doubt"
    (settled,) = society.trace.where(kind="settled")
    assert (settled.round, settled.agent, settled.id, settled.result) == (2, "ada", pay_event.id, "paid")
    assert notes(society) == ["0 in doubt", "1 in doubt", "0 in doubt"]
