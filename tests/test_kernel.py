"""The kernel under attack: whatever is tried, no effect without a fresh permit for exactly what was judged (K, B8)."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from schedules import run
from societies import idle, town

from society import (
    ActionDenied,
    ActionError,
    ActionInDoubt,
    Agent,
    AsyncHost,
    Limits,
    MemoryStore,
    PermitError,
    Policy,
    ScenarioError,
    Shared,
    SqliteStore,
    ToolFailed,
    allow,
    approve,
    current_action,
    deny,
    never,
    plain,
)
from society.permit import Permit, current
from society.values import FrozenDict

TOO_MUCH = 100

Step = Callable[[Any], Awaitable[None]]
amounts = st.one_of(
    st.integers(0, 200), st.booleans(), st.floats(0, 5), st.none(), st.lists(st.integers(0, 3), max_size=2)
)
written = msgspec.json.Encoder().encode


class Treacherous(AsyncHost):
    """A host that is given permits like any host, and does with them what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.permits: list[Permit] = []
        self.mischief: Callable[[str, Any, Any], Awaitable[Any]] | None = None

    def invoke(self, tool: str, arguments: Any, permit: Any = None) -> Awaitable[Any]:
        if type(permit) is Permit and tool == "pay":
            self.permits.append(permit)
            if self.mischief is not None:
                return self.mischief(tool, arguments, permit)
        return super().invoke(tool, arguments, permit)

    def honest(self, tool: str, arguments: Any, permit: Any) -> Awaitable[Any]:
        return super().invoke(tool, arguments, permit)


def too_much(facts: Any) -> bool:
    amount = facts.args["amount"]
    return isinstance(amount, int | float) and amount > TOO_MUCH


class Kernel(RuleBasedStateMachine):
    """One society, one round for each step; in each of them something is tried."""

    @initialize(bound=st.sampled_from([None, 1, 2]))
    def begin(self, bound: int | None) -> None:
        self.effects: list[tuple[str, bytes]] = []
        """(action, arguments as written), of everything that was paid."""
        self.approved: list[tuple[str, bytes]] = []
        self.yes = True
        self.raising = False
        self.step: Step | None = None
        self.before_answering: Callable[[], None] = lambda: None
        self.host = Treacherous()
        self._offer(self.host)
        policy = Policy(approve("pay"), never("pay", too_much))
        self.town = town(
            Agent("ada", self._behavior, policy=policy),
            hosts=self.host,
            limits=Limits() if bound is None else Limits(max_concurrent_tools=bound),
        )

    def _offer(self, host: Treacherous) -> None:
        host.approver = self._approver

        @host.tool("pay")
        async def pay(amount: Any) -> str:
            action = current.get()  # an effect is an effect, also one of nobody's action
            self.effects.append((action.id if action else "nobody", written({"amount": amount})))
            await trio.lowlevel.checkpoint()
            if self.raising:
                raise ValueError("paid, and then something broke")
            return "paid"

        @host.tool("relay")
        async def relay(amount: Any) -> Any:
            return await host.invoke("pay", {"amount": amount})

        @host.tool("from a thread")
        def from_a_thread(amount: Any) -> Any:
            permit = host.permits[-1] if host.permits else None
            return trio.from_thread.run(host.invoke, "pay", {"amount": amount}, permit)

        @host.subagent("helper")
        async def helper(tick: Any, amount: Any) -> Any:
            return await tick.call("pay", amount=amount)

        @host.subagent("opaque")
        async def opaque(amount: Any) -> Any:
            return await host.invoke("pay", {"amount": amount}, self.host.permits[-1] if self.host.permits else None)

    async def _approver(self, request: Any) -> Any:
        self.before_answering()
        await trio.lowlevel.checkpoint()
        if self.yes:
            self.approved.append((request.id, written(request.arguments)))
        return self.yes

    async def _behavior(self, tick: Any) -> None:
        assert self.step is not None
        await self.step(tick)

    def _take(self, step: Step) -> None:
        self.step = step
        result = trio.run(self.town.run, self.town.round + 1)
        assert result.outcome == "finished", result.reason

    def _taken(self, *crossings: Callable[[Any], Any]) -> list[Any]:
        """Take a step that makes crossings; return what each came to."""
        came: list[Any] = []

        async def step(tick: Any) -> None:
            for crossing in crossings:
                try:
                    came.append(await crossing(tick))
                except (ActionError, PermitError) as error:
                    came.append(error)

        self._take(step)
        return came

    # ── what is tried ───────────────────────────────────────────────────────────────────────────────────────────────

    @rule(amount=amounts, yes=st.booleans(), raising=st.booleans())
    def call(self, amount: Any, yes: bool, raising: bool) -> None:
        self.yes, self.raising = yes, raising
        before = len(self.effects)
        (came,) = self._taken(lambda tick: tick.call("pay", amount=amount))
        passes = yes and not (isinstance(amount, int) and amount > TOO_MUCH)
        assert len(self.effects) - before == passes
        assert (came == "paid") == (passes and not raising)

    @rule(amount=amounts, gathered=st.integers(1, 3))
    def call_at_once_and_in_a_nursery(self, amount: Any, gathered: int) -> None:
        self.yes = True

        async def step(tick: Any) -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(gathered):
                    nursery.start_soon(swallowed, tick.call("pay", amount=amount))
            await swallowed(tick.gather(*(tick.call("pay", amount=amount) for _ in range(gathered))))

        self._take(step)

    @rule(forged=st.booleans())
    def change_the_original_afterwards(self, forged: bool) -> None:
        self.yes, self.raising = True, False
        inner = [0]
        given: Any = FrozenDict({"inner": inner}) if forged else {"inner": inner}
        before = len(self.effects)
        self.before_answering = lambda: inner.append(9)
        (came,) = self._taken(lambda tick: tick.call("pay", amount=given))
        self.before_answering = lambda: None
        assert [effect for _, effect in self.effects[before:]] == (
            [] if forged else [written({"amount": {"inner": [0]}})]
        )
        assert isinstance(came, ToolFailed) if forged else came == "paid"

    @rule(amount=amounts)
    def call_the_host(self, amount: Any) -> None:
        before = len(self.effects)
        forged = object.__new__(Permit)
        permits = [None, True, "permit", forged, *self.host.permits[-3:]]
        for permit in permits:
            with pytest.raises(PermitError):
                trio.run(self.host.honest, "pay", {"amount": amount}, permit)
        for permit in self.host.permits[-3:]:
            with pytest.raises(PermitError):
                trio.run(self.host.honest, "pay", permit.arguments, permit)
        assert len(self.effects) == before

    @rule(amount=amounts, way=st.sampled_from(["relay", "from a thread"]))
    def call_through_another_tool(self, amount: Any, way: str) -> None:
        before = len(self.effects)
        (came,) = self._taken(lambda tick: tick.call(way, amount=amount))
        assert isinstance(came, ToolFailed) and came.error == "PermitError"
        assert len(self.effects) == before

    @rule(amount=amounts, yes=st.booleans())
    def delegate(self, amount: Any, yes: bool) -> None:
        self.yes, self.raising = yes, False
        before = len(self.approved)
        self._taken(lambda tick: tick.delegate("helper", amount))
        assert len(self.approved) - before <= yes
        (came,) = self._taken(lambda tick: tick.delegate("opaque", amount))
        assert isinstance(came, ToolFailed) and came.error == "PermitError"

    @rule(number=st.integers(0, TOO_MUCH))
    def use_a_permit_twice(self, number: int) -> None:
        async def twice(tool: str, arguments: Any, permit: Permit) -> Any:
            result = await self.host.honest(tool, arguments, permit)
            with pytest.raises(PermitError):
                await self.host.honest(tool, arguments, permit)
            return result

        assert self._with(twice, number) == 1

    @rule(number=st.integers(0, TOO_MUCH), other=amounts)
    def use_a_permit_for_something_else(self, number: int, other: Any) -> None:
        async def others(tool: str, arguments: Any, permit: Permit) -> Any:
            for tampered in (
                {"amount": other},
                {"amount": math.nan},
                {"amount": number + 0.0},
                {},
                {"amount": number, "x": 1},
            ):
                if written(tampered) != written({"amount": number}):
                    with pytest.raises(PermitError):
                        await self.host.honest(tool, tampered, permit)
            with pytest.raises(PermitError):
                await self.host.honest("relay", arguments, permit)
            return await self.host.honest(tool, dict(arguments), permit)

        assert self._with(others, number) == 1

    @rule(number=st.integers(0, TOO_MUCH))
    def change_or_copy_a_permit(self, number: int) -> None:
        async def copied(tool: str, arguments: Any, permit: Permit) -> Any:
            for copying in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(PermitError):
                    copying(permit)
            for name in Permit.__slots__:
                with pytest.raises(PermitError):
                    setattr(permit, name, arguments)
            forged = object.__new__(Permit)
            for name in Permit.__slots__:
                object.__setattr__(forged, name, getattr(permit, name))
            with pytest.raises(PermitError):
                await self.host.honest(tool, arguments, forged)
            return await self.host.honest(tool, arguments, permit)

        assert self._with(copied, number) == 1

    @rule(number=st.integers(0, TOO_MUCH))
    def keep_a_permit_for_later(self, number: int) -> None:
        async def lies(tool: str, arguments: Any, permit: Permit) -> Any:
            return "paid"

        assert self._with(lies, number) == 0
        kept = self.host.permits[-1]
        with pytest.raises(PermitError):
            trio.run(self.host.honest, "pay", kept.arguments, kept)

    @rule(number=st.integers(0, TOO_MUCH))
    def use_a_permit_in_several_threads(self, number: int) -> None:
        refused: list[PermitError] = []

        async def race(tool: str, arguments: Any, permit: Permit) -> Any:
            def one() -> None:
                try:
                    trio.run(self.host.honest, tool, arguments, permit)
                except PermitError as error:
                    refused.append(error)

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(trio.to_thread.run_sync, one)

        assert self._with(race, number) == 1
        assert len(refused) == 2

    def _with(self, mischief: Any, number: int) -> int:
        """Let the host do something with the permit of one approved action; return how many effects it had."""
        before = len(self.effects)
        self.yes, self.raising, self.host.mischief = True, False, mischief
        self._taken(lambda tick: tick.call("pay", amount=number))
        self.host.mischief = None
        return len(self.effects) - before

    # ── what holds ──────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def every_effect_had_an_approval_of_its_own_for_exactly_its_arguments(self) -> None:
        if not hasattr(self, "effects"):
            return
        assert len({action for action, _ in self.effects}) == len(self.effects)
        assert set(self.effects) <= set(self.approved)

    @invariant()
    def every_effect_is_in_the_trace_with_its_verdict_and_arguments(self) -> None:
        if not hasattr(self, "effects"):
            return
        told = {event.id: event for event in self.town.trace.where(kind="action")}
        for action, arguments in self.effects:
            assert (told[action].verdict, written(plain(told[action].arguments))) == ("approve", arguments)


async def swallowed(crossing: Any) -> None:
    with contextlib.suppress(ActionError):
        await crossing


TestKernel = Kernel.TestCase
TestKernel.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


# What hypothesis has been told about, one by one.


def approved_by(*, policy: Policy, hosts: AsyncHost, behavior: Any, **how: Any) -> Any:
    society = town(Agent("ada", behavior, policy=policy), hosts=hosts, **how)
    return society, run(society.run, how.pop("rounds", 1))


def test_what_looks_frozen_and_is_changed_while_a_person_thinks_is_not_sent() -> None:
    """The same value is judged, approved, digested and sent."""
    host, paid, inner = AsyncHost(), [], [1]

    async def person(request: Any) -> bool:
        inner.append(1000)
        return True

    host.approver = person
    host.tool("pay", thread=False)(lambda amount: paid.append(amount))

    async def ada(tick: Any) -> None:
        with pytest.raises(ToolFailed, match="other arguments"):
            await tick.call("pay", amount=FrozenDict({"n": inner}))
        await tick.call("pay", amount={"n": [1]})

    _, result = approved_by(policy=Policy(approve("pay")), hosts=host, behavior=ada)
    assert result.outcome == "finished", result.reason
    assert paid == [{"n": [1]}]


class Sly(str):
    """A text that is equal to nothing while it is judged."""

    shown = False

    def __eq__(self, other: object) -> bool:
        return self.shown and str.__eq__(self, other)

    __hash__ = str.__hash__


def test_an_argument_cannot_hide_from_the_rules_behind_a_class_of_text() -> None:
    host, done = AsyncHost(), []
    host.tool("open", thread=False)(lambda **arguments: done.append(arguments))

    async def ada(tick: Any) -> None:
        for name in (Sly("force"), "force"):
            with pytest.raises(ActionDenied):
                await tick.call("open", **{name: True})
        await tick.call("open", gently=True)

    _, result = approved_by(
        policy=Policy(never("open", "has(args.force)"), never("open", lambda facts: "force" in facts.args)),
        hosts=host,
        behavior=ada,
    )
    assert result.outcome == "finished", result.reason
    assert done == [{"gently": True}]


@pytest.mark.parametrize("threaded", [True, False])
def test_tools_may_call_their_arguments_what_they_like(threaded: bool) -> None:
    host, seen = AsyncHost(), []

    @host.tool("go", thread=threaded)
    def go(place: str, function: str, thread: str, self: str, tool: str) -> None:
        seen.append((place, function, thread, self, tool))

    async def ada(tick: Any) -> None:
        arguments = {"place": "here", "function": "walk", "thread": "of life", "tool": "feet", "self": "me"}
        await tick.call("go", **arguments)

    result = trio.run(town(ada, hosts=host).run, 1)
    assert result.outcome == "finished", result.reason
    assert seen == [("here", "walk", "of life", "me", "feet")]


# Rules bind sub-agents and children.


def world(done: list[str]) -> AsyncHost:
    host = AsyncHost()

    @host.tool("open", thread=False)
    def open_it() -> None:
        done.append(current_action().agent)

    @host.subagent("oracle")
    async def oracle(payload: Any) -> str:
        done.append("oracle")
        return "yes"

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> Any:
        return await tick.call("open")

    return host


@pytest.mark.parametrize(
    ("policy", "endings"),
    [
        (Policy(), ["oracle"]),
        (Policy(default="deny"), []),
        (Policy(never("oracle")), []),
        (Policy(deny("oracle", 'args.payload == "please"')), []),
        (Policy(allow("oracle", 'args.payload == "please"'), default="deny"), ["oracle"]),
    ],
)
def test_an_opaque_sub_agent_is_judged_like_the_effect_it_is(policy: Policy, endings: list[str]) -> None:
    done: list[str] = []

    async def ada(tick: Any) -> None:
        await swallowed(tick.delegate("oracle", "please"))

    _, result = approved_by(policy=policy, hosts=world(done), behavior=ada)
    assert (result.outcome, done) == ("finished", endings)


def test_a_sub_agent_with_a_tick_is_judged_by_its_callers_policy_at_any_depth() -> None:
    done: list[str] = []
    host = world(done)

    @host.subagent("deep")
    async def deep(tick: Any, depth: int) -> Any:
        return await (tick.delegate("deep", depth - 1) if depth else tick.delegate("helper", None))

    async def ada(tick: Any) -> None:
        with pytest.raises(ToolFailed, match="denied by rule never open"):
            await tick.delegate("deep", 5)

    _, result = approved_by(policy=Policy(never("open")), hosts=host, behavior=ada)
    assert (result.outcome, done) == ("finished", [])


async def opens(tick: Any) -> None:
    try:
        await tick.call("open")
    except ActionDenied as denied:
        tick.note(f"{denied.by}: {denied.rule}")


async def has_a_child_that_opens(tick: Any) -> None:
    if tick.round == 1:
        tick.spawn(Agent("kid", opens, policy=Policy(approve("open"))))


async def has_a_child_with_a_child(tick: Any) -> None:
    if tick.round == 1:
        tick.spawn(Agent("kid", has_a_grandchild))


async def has_a_grandchild(tick: Any) -> None:
    if tick.round == 2:
        tick.spawn(Agent("grandkid", opens))


@pytest.mark.parametrize("behavior", [has_a_child_that_opens, has_a_child_with_a_child])
def test_nobody_gets_around_a_rule_by_having_a_child(behavior: Any) -> None:
    done: list[str] = []
    society = town(Agent("ada", behavior, policy=Policy(never("open"))), Agent("bob", idle), hosts=world(done))
    run(society.run, 4)
    assert done == []
    denied = society.trace.where(kind="action")
    assert denied and {(event.verdict, event.rule) for event in denied} == {("never", "never open")}


def test_a_childs_own_rules_are_there_after_a_resume(tmp_path: Any) -> None:
    done: list[str] = []
    store = SqliteStore(tmp_path / "run.sqlite")

    def made() -> Any:
        agents = [Agent("ada", has_a_child_that_opens)]
        return town(*agents, hosts=world(done), store=store, behaviors=[opens])

    run(made().run, 1)
    society = made()
    assert run(society.run, 2).outcome == "finished"
    assert done == []
    (event,) = society.trace.where(kind="action")
    assert (event.agent, event.verdict, event.result["by"]) == ("kid", "approve", "no_answer")


def lenient(facts: Any) -> bool:
    return True


async def has_a_child_with_a_function(tick: Any) -> None:
    if tick.round == 1:
        tick.spawn(Agent("kid", opens, policy=Policy(never("open", lambda facts: True), allow("open", lenient))))


def test_a_birth_whose_conditions_no_other_process_would_find_is_refused_there_and_stays_strict_here(
    tmp_path: Any,
) -> None:
    done: list[str] = []
    durable = town(
        Agent("ada", has_a_child_with_a_function),
        hosts=world(done),
        store=SqliteStore(tmp_path / "run.sqlite"),
        behaviors=[opens],
    )
    result = run(durable.run, 1)
    assert result.outcome == "failed" and "could not find the condition" in result.reason

    store = MemoryStore()
    for rounds in (1, 2):
        society = town(Agent("ada", has_a_child_with_a_function), hosts=world(done), store=store, behaviors=[opens])
        run(society.run, rounds)
    assert done == []


@pytest.mark.parametrize(("name", "group"), [("mole", "operator"), ("mole", "operators"), ("operators", None)])
@pytest.mark.parametrize("what", ["writers", "readers", "hosts"])
def test_a_child_has_no_right_by_its_name_or_group_that_its_parent_lacks(what: str, name: str, group: Any) -> None:
    async def ada(tick: Any) -> None:
        if tick.round == 1:
            with pytest.raises(ScenarioError, match="its parent 'ada'"):
                tick.spawn(Agent(name, idle, group=group))

    rights: Any = {"operator": [], "operators": []}
    everyone = AsyncHost()
    if what == "hosts":
        how: Any = {"hosts": {"ada": everyone, "operator": AsyncHost(), "operators": AsyncHost()}}
    else:
        how = {"shared": {"window": Shared("shut", **{what: list(rights)})}}
    society = town(ada, Agent("operator", idle), Agent("operators-0", idle, group="operators"), **how)
    assert run(society.run, 2).outcome == "finished"


def test_a_child_of_one_who_has_the_right_has_it_too() -> None:
    async def operator(tick: Any) -> None:
        if tick.round == 1:
            tick.spawn(Agent("operators-1", writes, group="operators"))

    async def writes(tick: Any) -> None:
        tick.share("window", "open")

    society = town(
        Agent("operators-0", operator, group="operators"),
        shared={"window": Shared("shut", writers=["operators"])},
        hosts={"operators": AsyncHost()},
    )
    assert run(society.run, 2).shared["window"] == "open"


def test_a_societys_rule_may_name_a_sensor_that_some_agents_do_not_have() -> None:
    done: list[str] = []
    seeing, blind = world(done), world(done)
    seeing.sensor("door", thread=False)(lambda: "shut")
    society = town(
        Agent("ada", opens, observe=["door"]),
        Agent("bob", opens),
        policy=Policy(allow("open", 'observed.door == "shut"')),
        hosts={"ada": seeing, "bob": blind},
    )
    run(society.run, 1)
    assert done == ["ada"]


# Order among the effects of one agent (B8).


@pytest.mark.parametrize("schedule", range(8))
@pytest.mark.parametrize("how", ["gather", "nursery", "delegations"])
def test_each_effect_is_judged_on_the_state_that_the_one_before_it_left(schedule: int, how: str) -> None:
    """The first one ends in doubt; the rule refuses others while it is."""
    host, done = AsyncHost(), []

    @host.tool("pay")
    async def pay(n: int) -> int:
        done.append(n)
        await trio.sleep(100 if n == 2 else 0.1 / (n + 1))
        return n

    @host.subagent("payer")
    async def payer(tick: Any, n: int) -> Any:
        return await tick.call("pay", n=n)

    async def ada(tick: Any) -> None:
        def one(n: int) -> Any:
            return tick.delegate("payer", n) if how == "delegations" else tick.call("pay", n=n)

        if how == "nursery":
            async with trio.open_nursery() as nursery:
                for n in range(5):
                    nursery.start_soon(swallowed, one(n))
        else:
            await swallowed(tick.gather(*map(one, range(5))))

    society, result = approved_by(
        policy=Policy(deny("pay", '"pay" in in_doubt')), hosts=host, behavior=ada, limits=Limits(tool_timeout=1)
    )
    assert result.outcome == "finished"
    assert done == [0, 1, 2]
    endings = [event.ending for event in society.trace.where(kind="action")]
    assert endings == ["done", "done", "in_doubt", "denied", "denied"]


def test_what_is_in_flight_is_not_in_doubt_yet() -> None:
    host = AsyncHost()

    @host.tool("look", reads_only=True)
    async def look() -> None:
        await trio.sleep(1)

    @host.tool("open")
    async def open_it() -> str:
        return "opened"

    async def ada(tick: Any) -> None:
        assert (await tick.gather(tick.call("look"), tick.call("open")))[1] == "opened"

    for schedule in range(4):
        society = town(Agent("ada", ada, policy=Policy(allow("open", "size(in_doubt) == 0"))), hosts=host)
        assert run(society.run, 1, schedule=schedule).outcome == "finished"


def test_readings_and_reading_calls_of_one_tick_overlap() -> None:
    host, took = AsyncHost(), []

    @host.tool("look", reads_only=True)
    async def look() -> None:
        await trio.sleep(1)

    @host.sensor("eye")
    async def eye() -> int:
        await trio.sleep(1)
        return 1

    async def ada(tick: Any) -> None:
        began = trio.current_time()
        await tick.gather(*(tick.call("look") for _ in range(5)), *(tick.read("eye") for _ in range(5)))
        took.append(trio.current_time() - began)

    run(town(ada, hosts=host).run, 1)
    assert took == [1]


@pytest.mark.parametrize("schedule", range(4))
def test_a_bound_of_one_does_not_deadlock_under_nested_delegations_at_once(schedule: int) -> None:
    host, done = AsyncHost(), []

    @host.tool("work")
    async def work(n: int) -> int:
        done.append(n)
        await trio.sleep(0.1)
        return n

    @host.subagent("split")
    async def split(tick: Any, span: Sequence[int]) -> Any:
        if len(span) == 1:
            return await tick.call("work", n=span[0])
        half = len(span) // 2
        return await tick.gather(tick.delegate("split", span[:half]), tick.delegate("split", span[half:]))

    async def ada(tick: Any) -> None:
        await tick.gather(tick.delegate("split", list(range(8))), tick.call("work", n=8))

    society = town(ada, Agent("bob", ada), hosts=host, limits=Limits(max_concurrent_tools=1, round_timeout=60))
    result = run(society.run, 1, schedule=schedule)
    assert result.outcome == "finished" and not society.trace.where(kind="late")
    for agent in ("ada", "bob"):
        assert [event.arguments["n"] for event in society.trace.where(kind="action", agent=agent)] == list(range(9))


# Tools cannot call tools.


@pytest.mark.parametrize("inner", ["open", "look", "read", "ask"])
@pytest.mark.parametrize("outer", ["open", "look", "read", "ask"])
def test_what_is_called_from_inside_a_tool_a_sensor_or_a_person_is_refused_and_counts_for_nothing(
    outer: str, inner: str
) -> None:
    host, ticks, said = AsyncHost(), [], []

    def crossing(tick: Any, what: str) -> Any:
        match what:
            case "read":
                return tick.read("eye")
            case "ask":
                return tick.ask_human("well?")
        return tick.call(what)

    async def inside() -> str:
        tick = ticks[0]
        if not said:
            said.append("")
            try:
                await crossing(tick, inner)
            except Exception as error:
                said[0] = str(error)
        return "done"

    host.asker = lambda question: inside()
    host.sensor("eye")(inside)
    host.tool("open")(inside)
    host.tool("look", reads_only=True)(inside)

    async def ada(tick: Any) -> None:
        ticks.append(tick)
        assert await crossing(tick, outer) == "done"
        await tick.read("eye")

    society = town(ada, hosts=host, limits=Limits(max_concurrent_tools=1, max_concurrent_reads=1))
    result = run(society.run, 1) if outer != "ask" else trio.run(society.run, 1)
    assert result.outcome == "finished", result.reason
    assert "Tools cannot call tools" in said[0]
    assert len([event for event in society.trace.where(agent="ada") if event.kind in ("action", "read", "ask")]) == 2


def test_what_was_asked_for_before_is_not_awaited_inside_a_tool_either() -> None:
    host, made = AsyncHost(), []

    @host.tool("look", reads_only=True)
    async def look() -> Any:
        return await made[0] if made else "seen"

    async def ada(tick: Any) -> None:
        made.append(tick.call("look"))
        with pytest.raises(ToolFailed, match="Tools cannot call tools"):
            await tick.call("look")

    result = run(town(ada, hosts=host, limits=Limits(max_concurrent_tools=1, round_timeout=5)).run, 1)
    assert "never awaited" in result.reason


def test_a_society_may_be_run_inside_a_tool() -> None:
    """It is another society; its agents are inside its own ticks only."""
    host, inner = AsyncHost(), AsyncHost()
    inner.tool("work", thread=False)(lambda: "worked")

    async def eve(tick: Any) -> None:
        tick.note(await tick.call("work"))

    @host.tool("simulate")
    async def simulate(turns: bool) -> str:
        society = town(eve, hosts=inner, turns=turns, run_id="inner")
        return (await society.run(1)).outcome

    async def ada(tick: Any) -> None:
        assert [await tick.call("simulate", turns=turns) for turns in (False, True)] == ["finished", "finished"]

    assert run(town(ada, hosts=host).run, 1).outcome == "finished"


def test_every_action_is_in_the_trace_with_how_it_ended_also_one_that_was_never_sent() -> None:
    import threading

    host, let_go = AsyncHost(), threading.Event()

    @host.tool("stuck", timeout=0.05)
    def stuck() -> None:
        let_go.wait(10)

    async def ada(tick: Any) -> None:
        with pytest.raises(ActionInDoubt):
            await tick.call("stuck")
        with pytest.raises(ToolFailed, match="never sent"):
            await tick.call("stuck")

    society = town(ada, hosts=host, limits=Limits(max_concurrent_tools=1))
    try:
        trio.run(society.run, 1)
    finally:
        let_go.set()
    assert [event.ending for event in society.trace.where(kind="action")] == ["in_doubt", "not_executed"]
