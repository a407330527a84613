"""`society.testing`: fakes that go through the gate, ticks by themselves, traces compared, and the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import society.testing
from society import (
    UNKNOWN,
    ActionInDoubt,
    Agent,
    AsyncHost,
    AsyncSociety,
    Limits,
    Message,
    PermitError,
    Policy,
    Shared,
    Society,
    ToolFailed,
    current_action,
    never,
)
from society.declaring import ACTIVATIONS
from society.testing import FakeHost, same_trace, say, tick_once, use
from society.testing.plugin import KNOWN

pytest_plugins = ("pytester",)


def ran(town: AsyncSociety, max_ticks: int = 1) -> Any:
    return trio.run(town.run, max_ticks, clock=trio.testing.MockClock(autojump_threshold=0))


# FakeHost.


def test_a_fake_gives_a_value_calls_a_function_or_raises() -> None:
    heard: list[Any] = []

    async def asks(tick: Any) -> None:
        heard.append(await tick.call("fixed"))
        heard.append(await tick.call("double", n=4))
        heard.append(await tick.call("slow_double", n=5))
        for broken in ("broken", "broken_class"):
            try:
                await tick.call(broken)
            except ToolFailed as failed:
                heard.append(str(failed))

    async def slow_double(n: int) -> int:
        await trio.sleep(3600)
        return 2 * n

    host = FakeHost(
        tools={
            "fixed": {"ok": True},
            "double": lambda n: 2 * n,
            "slow_double": slow_double,
            "broken": OSError("no paper"),
            "broken_class": ValueError,
        }
    )
    result = ran(AsyncSociety([Agent("ada", asks)], hosts=host))

    assert result.outcome == "finished"
    assert heard[:3] == [{"ok": True}, 8, 10]
    assert "OSError" in heard[3] and "no paper" in heard[3]
    assert "ValueError" in heard[4]


def test_a_fake_sensor_shows_a_value_or_is_silent_with_a_reason() -> None:
    seen: dict[str, Any] = {}

    def looks(tick: Any) -> None:
        seen.update(tick.observed)

    host = FakeHost(sensors={"door": "shut", "probe": UNKNOWN, "clock": lambda: 7, "torn": OSError("cable")})
    result = ran(AsyncSociety([Agent("ada", looks, observe=list(host.sensors))], hosts=host))

    assert (seen["door"], seen["clock"]) == ("shut", 7)
    assert seen["probe"] is UNKNOWN
    assert seen["torn"] is UNKNOWN
    why = {event.sensor: event.get("unknown") for event in result.trace.where(kind="read")}
    assert why["probe"] == "TimeoutError: silent, as told"


def test_calls_are_in_canonical_order_and_not_in_order_of_arrival() -> None:
    async def asks(tick: Any) -> None:
        await trio.sleep(tick.state["patience"])
        await tick.gather(*(tick.call("look", at=place, of=tick.agent) for place in "abc"))
        await tick.call("act", of=tick.agent)

    async def look(at: str, of: str) -> None:
        await trio.sleep({"a": 3, "b": 2, "c": 1}[at])

    host = FakeHost(tools={"act": None})
    host.tool("look", reads_only=True)(look)
    names = ("zoe", "bob", "ada")
    agents = [Agent(name, asks, state={"patience": 10 - place}) for place, name in enumerate(names)]
    ran(AsyncSociety(agents, hosts=host), 2)

    told = [(call.round, call.agent, call.arguments.get("at", "act")) for call in host.calls]
    assert told == [(round, name, what) for round in (1, 2) for name in names for what in ("a", "b", "c", "act")]


def test_a_shuffled_society_has_its_calls_in_order_of_activation() -> None:
    async def asks(tick: Any) -> None:
        await tick.call("act")

    host = FakeHost(tools={"act": None})
    names = [f"agent-{number}" for number in range(6)]
    result = ran(Society([Agent(name, asks) for name in names], hosts=host, activation="shuffled"), 2)

    told = [(event.round, event.agent, event.id) for event in result.trace.where(kind="action")]
    assert [(call.round, call.agent, call.id) for call in host.calls] == told
    assert [agent for round, agent, _ in told if round == 1] != names


def test_a_fake_that_never_answers_is_in_doubt_on_a_clock_that_jumps() -> None:
    async def pays(tick: Any) -> None:
        with pytest.raises(ActionInDoubt):
            await tick.call("pay", amount=1)

    host = FakeHost()
    attempts: list[int] = []

    @host.tool("pay", idempotent=True)
    async def pay(amount: int) -> None:
        attempts.append(current_action().attempt)
        await trio.sleep_forever()

    ran(AsyncSociety([Agent("ada", pays)], hosts=host, limits=Limits(tool_timeout=60)))

    assert attempts == [1, 2]
    assert [(call.tool, call.arguments, call.attempt) for call in host.calls] == [
        ("pay", {"amount": 1}, 1),
        ("pay", {"amount": 1}, 2),
    ]


def test_nothing_of_a_fake_host_runs_in_a_thread_even_when_asked_to() -> None:
    host = FakeHost(tools={"a": 1}, sensors={"b": 2})
    host.tool("c", thread=True)(lambda: 3)
    host.sensor("d", thread=True)(lambda: 4)

    assert not any(registered.thread for registered in (*host.tools.values(), *host.sensors.values()))


@pytest.mark.trio
async def test_a_fake_host_refuses_calls_without_a_permit_and_does_not_count_them() -> None:
    host = FakeHost(tools={"pay": None})

    with pytest.raises(PermitError):
        await host.invoke("pay", {})
    assert host.calls == []


def test_denied_actions_never_reach_a_fake() -> None:
    async def pays(tick: Any) -> None:
        await tick.call("pay")

    host = FakeHost(tools={"pay": None})
    result = ran(AsyncSociety([Agent("ada", pays)], hosts=host, policy=Policy(never("pay"))))

    assert result.outcome == "failed"
    assert host.calls == []


# tick_once.


def test_a_tick_by_itself_reads_what_it_is_given_and_leaves_its_contribution() -> None:
    def judges(tick: Any) -> None:
        (message,) = tick.inbox
        tick.send(message.sender, "verdict", of=message.body["case"], door=tick.observed["door"])
        tick.broadcast("done")
        tick.share("cases", 1)
        tick.note(f"round {tick.round}, limit {tick.parameters['limit']}, {tick.state['mood']}")
        tick.state["mood"] = "tired"
        tick.public["busy"] = tick.peer("carl")["busy"]

    left = tick_once(
        judges,
        inbox=[("bob", "case", {"case": 7})],
        shared={"cases": Shared(2, merge="sum")},
        observed={"door": "shut"},
        state={"mood": "calm"},
        parameters={"limit": 3},
        peers={"carl": {"busy": True}},
        name="ada",
        round=5,
    )

    assert (left.ending, left.error) == ("well", None)
    assert [(sent.to, sent.kind, sent.body) for sent in left.sent] == [
        ("bob", "verdict", {"of": 7, "door": "shut"}),
        (None, "done", {}),
    ]
    assert left.shared == [("cases", 1)]
    assert left.notes == ["round 5, limit 3, calm"]
    assert left.state == {"mood": "tired"}
    assert left.public == {"busy": True}
    assert not left.retired


def test_a_tick_by_itself_tells_its_actions_births_and_leaving() -> None:
    def child(tick: Any) -> None:
        raise AssertionError("nobody who is born in a round ticks in it")

    async def works(tick: Any) -> None:
        await tick.call("dig", depth=2)
        tick.spawn(Agent("junior", child))
        tick.retire()

    left = tick_once(works, tools={"dig": {"found": "gold"}})

    (dug,) = left.actions
    assert (dug.tool, dug.arguments, dug.ending, dug.result) == ("dig", {"depth": 2}, "done", {"found": "gold"})
    assert (left.spawned, left.retired) == (["junior"], True)


def test_a_tick_by_itself_that_raises_leaves_how_it_ended_and_nothing_else() -> None:
    def raises(tick: Any) -> None:
        tick.share("n", 1)
        tick.state["n"] = 1
        raise LookupError("where is it")

    left = tick_once(raises, shared={"n": 0})

    assert (left.ending, left.error) == ("failed", "LookupError: where is it")
    assert left.where is not None and left.where.startswith("test_testing.py:")
    assert (left.shared, left.state) == ([], {})


def test_a_tick_by_itself_that_is_late_says_so() -> None:
    async def sleeps(tick: Any) -> None:
        await trio.sleep(1e6)

    assert tick_once(sleeps, limits=Limits(round_timeout=5)).ending == "late"


def test_a_tick_by_itself_takes_whole_messages_receipts_and_a_host() -> None:
    host = AsyncHost()

    @host.tool("ring", thread=False)
    def ring() -> str:
        return "rung"

    async def answers(tick: Any) -> None:
        tick.note(f"{tick.inbox[0].round} {tick.inbox[0].sender} {await tick.call('ring')}")

    left = tick_once(answers, inbox=[Message("world", "bell", {}, 3)], host=host, round=4)

    assert left.notes == ["3 world rung"]


@pytest.mark.trio
async def test_a_tick_by_itself_can_be_made_inside_a_loop_too() -> None:
    async def shares(tick: Any) -> None:
        await trio.sleep(10)
        tick.share("n", tick.shared["n"] + 1)

    assert tick_once(shares, shared={"n": 1}).shared == [("n", 2)]
    with pytest.raises(society.ScenarioError):
        tick_once(shares, shared={"n": {1, 2}})


# same_trace.


def noting(text: str) -> AsyncSociety:
    return AsyncSociety([Agent("ada", lambda tick: tick.note(text))])


def test_traces_are_the_same_byte_for_byte_whatever_stands_for_them(tmp_path: Path) -> None:
    town = noting("hello")
    result = ran(town)
    result.trace.save(tmp_path / "trace.jsonl")

    for other in (town, result.trace, result.trace.data, tmp_path / "trace.jsonl", str(tmp_path / "trace.jsonl")):
        assert same_trace(result, other)


def test_traces_that_differ_are_told_apart_by_their_first_differences() -> None:
    one, other = ran(noting("hello")), ran(noting("goodbye"))

    with pytest.raises(AssertionError, match=r"(?s)the traces differ:.*round 1, ada, note.*hello.*goodbye"):
        same_trace(one, other)


def test_what_has_no_trace_is_refused() -> None:
    with pytest.raises(TypeError, match="int has no trace"):
        same_trace(ran(noting("hello")), 3)


# The plugin.


def test_a_test_runs_once_under_each_activation_that_its_mark_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.activations("synchronized", "sequential")
        def test_named(activation):
            assert activation in ("synchronized", "sequential")

        @pytest.mark.activations
        def test_all(activation):
            pass

        def test_without():
            pass
        """
    )

    result = pytester.runpytest("-v", "-p", "no:randomly")

    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*test_named[[]synchronized]*", "*test_named[[]sequential]*", "*test_all[[]random]*"])


@pytest.mark.activations("sequential", "shuffled", "random")
def test_the_mark_serves_this_projects_own_tests(activation: str) -> None:
    town = Society([Agent("ada", lambda tick: tick.note("here"))], activation=activation)

    assert ran(town).trace.header["activation"] == activation


def test_the_mark_goes_with_other_parameters_and_async_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from society import Agent, Society
        from society.testing import same_trace

        def town(activation, seed):
            return Society([Agent("ada", lambda tick: tick.note("here"))], activation=activation, seed=seed)

        @pytest.mark.trio
        @pytest.mark.activations("sequential", "shuffled")
        @pytest.mark.parametrize("seed", [1, 2])
        async def test_again(activation, seed):
            one, other = town(activation, seed), town(activation, seed)
            await one.run(2)
            await other.run(2)
            assert same_trace(one, other)
        """
    )

    pytester.runpytest().assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("mark", "argument", "said"),
    [
        ('"sinchronized"', "activation", "*'sinchronized' is not one of synchronized*"),
        ('"sequential"', "", "*takes the argument `activation`*"),
        ('only="sequential"', "activation", "*takes names only*"),
    ],
)
def test_a_mark_that_cannot_be_meant_is_refused_with_the_tests_name(
    pytester: pytest.Pytester, mark: str, argument: str, said: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.activations({mark})
        def test_it({argument}):
            pass
        """
    )

    result = pytester.runpytest()

    assert result.ret == pytest.ExitCode.INTERRUPTED or result.ret == pytest.ExitCode.USAGE_ERROR
    text = "\n".join([*result.outlines, *result.errlines])
    assert "test_it" in text
    pytest.LineMatcher(text.split("\n")).fnmatch_lines([said])


def test_the_plugin_is_listed_among_the_marks(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.activations(*"])


def test_the_plugin_knows_every_activation() -> None:
    assert KNOWN == ACTIVATIONS


def test_the_plugin_loads_next_to_nothing_in_other_projects_runs() -> None:
    code = (
        "import sys, society.testing.plugin; print(*sorted(name for name in sys.modules if name.startswith('society')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert loaded == ["society", "society.testing", "society.testing.plugin"]


# The package.


def test_every_name_that_it_promises_is_there() -> None:
    for name in society.testing.__all__:
        assert getattr(society.testing, name) is not None
    assert {"FakeHost", "FailingStore", "same_trace", "say", "tick_once", "use"} <= set(dir(society.testing))
    assert say("hello")["content"] and use("look")["content"]


def test_a_name_that_it_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no name 'fake_hots'"):
        _ = society.testing.fake_hots
