"""Models inside ticks: answers with a contract, agent loops through the gate, budgets, and what a resume serves."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import attrs
import pytest
import trio
from messages_server import serving
from schedules import Delays, run
from societies import town

from society import (
    Agent,
    AnthropicModel,
    AsyncHost,
    AsyncSociety,
    Budget,
    FileStore,
    Limits,
    MemoryStore,
    Policy,
    ReplayDivergence,
    ScenarioError,
    ScriptedModel,
    deny,
    field,
)
from society.budget import Price
from society.reruns import replay, resume
from society.testing import FailingStore, crash_everywhere, say, use
from society.testing.failing_store import Crash

PLANTED = "sk-planted-0123456789"
TOKENS = {"input_tokens": 10, "output_tokens": 5}


@attrs.frozen
class Verdict:
    """How a restart would end."""

    risk: float = field(1.0, ge=0, le=1)
    cause: Literal["disk", "network", "unknown"] = "unknown"


class Untouchable:
    """A model that no test may reach."""

    async def reply(self, request: Any) -> Any:
        raise AssertionError("the model was asked")


class Slow:
    """A model that takes its time, and never answers two at once where it must not."""

    def __init__(self, seconds: float, text: str = "done") -> None:
        self.seconds, self.text = seconds, text
        self.now = self.most = 0

    async def reply(self, request: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await trio.sleep(self.seconds)
        finally:
            self.now -= 1
        return say(self.text)


def asking(question: str = "How risky?", **options: Any) -> Any:
    async def ada(tick: Any) -> None:
        verdict = await tick.reason(Verdict, question, using={"log": ["a"]}, **options)
        tick.note(f"{verdict.risk} {verdict.cause} {tick.degraded}")

    return ada


def acting(*tools: str, **options: Any) -> Any:
    async def ada(tick: Any) -> None:
        result = await tick.act("go", tools=tools, **options)
        tick.note(f"{result.outcome}: {result.text or result.reason}")

    return ada


def notes(society: AsyncSociety) -> list[str]:
    return [event.text for event in society.trace.where(kind="note")]


def last_results(model: ScriptedModel) -> list[tuple[str, bool]]:
    content = model.requests[-1]["messages"][-1]["content"]
    return [(block["content"], block.get("is_error", False)) for block in content]


# ── reason ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_an_instance_of_its_class_and_both_stand_in_the_trace() -> None:
    model = ScriptedModel([say('{"risk": "0.5", "cause": " Disk"}', usage=TOKENS)])
    society = town(asking(), model=model)
    result = trio.run(society.run, 1)

    assert notes(society) == ["0.5 disk False"]
    (told,) = society.trace.where(kind="reason")
    assert (told.answer, told.degraded, told.missing) == ({"risk": 0.5, "cause": "disk"}, False, [])
    (call,) = society.trace.where(kind="model")
    assert call.stop_reason == "end_turn" and len(call.request) == 64
    assert (result.usage["input_tokens"], result.usage["output_tokens"], result.cost_usd) == (10, 5, 0.0)
    assert result.metrics.llm_calls == 1


@pytest.mark.parametrize(
    "came", [RuntimeError("down"), {"no": "reply"}, say("about 0.5, I think"), say("{", stop_reason="refusal")]
)
def test_where_the_model_gives_no_answer_the_defaults_hold_and_the_trace_says_so(came: Any) -> None:
    """B5; a reply that is none costs the tick nothing else."""
    society = town(asking(), model=ScriptedModel([came]))
    trio.run(society.run, 1)

    assert notes(society) == ["1.0 unknown True"]
    (told,) = society.trace.where(kind="reason")
    assert told.degraded and told.missing == ["risk", "cause"] and told.why


def test_a_field_out_of_its_range_is_missing_and_the_rest_stands() -> None:
    society = town(asking(), model=ScriptedModel([use("answer_verdict", risk=7, cause="network")]))
    trio.run(society.run, 1)
    assert notes(society) == ["1.0 network True"]


def test_a_society_without_a_model_says_so_in_the_tick_that_asks() -> None:
    result = trio.run(town(asking()).run, 1)
    assert result.outcome == "failed" and "the society has none: give it `model=`" in result.reason


def test_one_of_several_models_is_asked_by_name() -> None:
    models = {"fast": ScriptedModel([say('{"risk": 0.1, "cause": "disk"}')]), "slow": Untouchable()}
    society = town(asking(model="fast"), model=models)
    assert trio.run(society.run, 1).outcome == "finished" and notes(society) == ["0.1 disk False"]

    unnamed = trio.run(town(asking(), model=models).run, 1)
    assert "which one? There are fast, slow." in unnamed.reason
    with pytest.raises(ScenarioError, match="no model 'fats'"):
        town(Agent("ada", asking(), model="fats"), model=models)


# ── act ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def workshop() -> tuple[AsyncHost, list[Any]]:
    host, seen = AsyncHost(), []

    @host.tool("look", reads_only=True)
    async def look(at: str) -> str:
        seen.append(("look", at, trio.current_time()))
        await trio.sleep(1)
        return f"{at} is there"

    @host.tool("work")
    async def work(n: int = 0) -> int:
        seen.append(("begin", n))
        await trio.sleep(1)
        seen.append(("end", n))
        return n

    @host.tool("pay")
    async def pay() -> None:
        seen.append(("pay",))
        await trio.sleep(60)

    @host.tool("break")
    async def breaks() -> None:
        raise ValueError("boom")

    return host, seen


def test_calls_go_through_the_gate_and_every_one_has_its_answer_in_request_order() -> None:
    """L4, K6, P12: unknown, unfit, denied, failed and in doubt are error-flagged results that say which."""
    host, seen = workshop()
    calls = [("wrok", {}), ("work", {"n": "2"}), ("work", {"n": 1}), ("look", {"at": "x"}), ("break", {}), ("pay", {})]
    model = ScriptedModel([use(calls), say("done")])
    policy = Policy(deny("look"))
    society = town(
        acting("look", "work", "break", "pay"), hosts=host, model=model, policy=policy, limits=Limits(tool_timeout=5)
    )
    run(society.run, 1)

    results = last_results(model)
    assert [flag for _, flag in results] == [True, True, False, True, True, True]
    assert results[0][0].startswith("There is no tool 'wrok'. The tools are: look, work, break, pay.")
    assert "n: expected `int`, got `str`" in results[1][0]
    assert results[2][0] == "1"
    assert results[3][0].startswith("Denied: look is denied by rule deny look")
    assert results[4][0] == "break failed: ValueError: boom"
    assert results[5][0].startswith("pay is in doubt (no answer in time): neither done nor failed")
    assert [event.tool for event in society.trace.where(kind="action")] == ["work", "look", "break", "pay"]
    assert ("pay",) in seen and seen.count(("pay",)) == 1
    assert notes(society) == ["done: done"]


def test_reads_of_a_turn_overlap_and_effects_run_one_at_a_time_in_request_order() -> None:
    """L5."""
    host, seen = workshop()
    calls = [("look", {"at": "a"}), ("look", {"at": "b"}), ("work", {"n": 1}), ("work", {"n": 2})]
    society = town(acting("*"), hosts=host, model=ScriptedModel([use(calls), say("done")]))
    run(society.run, 1)

    looks = [entry for entry in seen if entry[0] == "look"]
    assert looks[0][2] == looks[1][2]
    assert [entry for entry in seen if entry[0] != "look"] == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]


def test_only_the_tools_that_were_named_can_be_called() -> None:
    host, seen = workshop()
    society = town(acting("look"), hosts=host, model=ScriptedModel([use("work", n=1), say("done")]))
    run(society.run, 1)
    assert not seen and not society.trace.where(kind="action")

    unknown = run(town(acting("lok"), hosts=host, model=ScriptedModel([])).run, 1)
    assert "has no tool 'lok'. Did you mean 'look'?" in unknown.reason


def test_an_outcome_other_than_done_is_told() -> None:
    host, _ = workshop()
    model = ScriptedModel([use("work", n=1), use("work", n=2), say("never")])
    society = town(acting("work", max_turns=2), hosts=host, model=model)
    run(society.run, 1)
    (told,) = society.trace.where(kind="act")
    assert (told.outcome, told.turns) == ("max_turns", 2)


def test_slots_for_the_model_are_held_for_one_call_each_and_no_bound_deadlocks() -> None:
    """B3: acts inside sub-agents inside an agent, with one slot of each kind."""
    host, _ = workshop()
    model = Slow(1)

    @host.subagent("scout")
    async def scout(tick: Any, payload: Any) -> str:
        result = await tick.act("look around", tools=["look"])
        return str(result.text)

    async def ada(tick: Any) -> None:
        await tick.gather(tick.delegate("scout"), tick.delegate("scout"), tick.reason(Verdict, "?"), tick.act("go"))

    async def bob(tick: Any) -> None:
        await ada(tick)

    limits = Limits(max_concurrent_llm=1, max_concurrent_tools=1)
    society = town(ada, bob, hosts=host, model=model, limits=limits)
    assert run(society.run, 1).outcome == "finished"
    assert model.most == 1 and society.metrics.llm_calls == 8
    assert society.stats.llm["queued"] > 0


def test_the_timeout_of_a_call_starts_with_its_slot_and_makes_the_model_silent() -> None:
    """B2, B5."""
    limits = Limits(max_concurrent_llm=1, llm_timeout=10)

    async def ada(tick: Any) -> None:
        results = await tick.gather(*(tick.reason(Verdict, f"{n}?") for n in range(4)))
        tick.note(str(len(results)))

    waited = town(ada, model=Slow(8, '{"risk": 0, "cause": "disk"}'), limits=limits)
    run(waited.run, 1)
    assert not any(event.degraded for event in waited.trace.where(kind="reason"))

    late = town(acting(), model=Slow(11), limits=limits)
    run(late.run, 1)
    assert notes(late) == ["model_silent: no answer within 10 seconds"]
    assert late.metrics.timeouts == 1
    assert late.trace.where(kind="model")[0].silent == "no answer within 10 seconds"


@pytest.mark.parametrize("schedule", range(5))
def test_a_script_is_dealt_out_by_ordinal_whatever_overlaps_in_the_code(schedule: int) -> None:
    """L6: concurrent answers, loops and sub-agents of one agent get the same replies under any schedule."""
    host, _ = workshop()

    @host.subagent("scout")
    async def scout(tick: Any, payload: Any) -> float:
        await trio.sleep(payload)
        return float((await tick.reason(Verdict, "scouting")).risk)

    async def ada(tick: Any) -> None:
        found = await tick.gather(
            tick.delegate("scout", 3),
            tick.reason(Verdict, "now"),
            tick.act("go", tools=["work"]),
            tick.delegate("scout", 1),
            tick.reason(Verdict, "then"),
        )
        tick.note(f"{found[0]} {found[1].risk} {found[2].text} {found[3]} {found[4].risk}")

    answers = [say(f'{{"risk": 0.{n}, "cause": "disk"}}') for n in range(1, 5)]
    model = ScriptedModel([*answers[:2], use("work", n=1), say("worked"), *answers[2:]])
    society = town(ada, hosts=host, model=model)
    run(society.run, 1, schedule=schedule)
    assert notes(society) == ["0.1 0.2 worked 0.3 0.4"]


class Unhurried:
    """A model like a service's: it takes its time, and who asks in what order is nothing to it. It keeps what it was told."""

    def __init__(self, schedule: int) -> None:
        self.delays = Delays(schedule)
        self.calls: dict[tuple[str, int], str] = {}
        self.now = self.most = 0

    async def reply(self, request: Any) -> Any:
        key = (request.agent, request.call)
        assert key not in self.calls
        self.calls[key] = request.ordinal
        self.now += 1
        self.most = max(self.most, self.now)
        await self.delays()
        self.now -= 1
        if request.get("tools", ()) and len(request["messages"]) < 3 and request["max_tokens"] != 1024:
            return use("look", at="door")
        return say(f'{{"risk": 0.{request.call}, "cause": "disk"}}')


@pytest.mark.parametrize("schedule", range(12))
def test_calls_to_any_model_have_numbers_that_follow_the_ordinals(schedule: int) -> None:
    """L6: what a real model is told of an agent's calls does not depend on who was answered first."""
    host, _ = workshop()
    delays = Delays(schedule + 100)

    @host.subagent("scout")
    async def scout(tick: Any, payload: Any) -> float:
        await delays()
        return float((await tick.reason(Verdict, "scouting")).risk)

    async def ada(tick: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick.reason, Verdict, "first")
            nursery.start_soon(tick.delegate, "scout")
            await delays()
            nursery.start_soon(partial(tick.act, "go", tools=["look"]))
            nursery.start_soon(tick.delegate, "scout")
            await delays()
            await tick.reason(Verdict, "in between")
            await delays()
            await tick.gather(tick.reason(Verdict, "one"), tick.reason(Verdict, "two"))
        await tick.reason(Verdict, "last")

    async def bob(tick: Any) -> None:
        await ada(tick)

    model = Unhurried(schedule)
    society = town(ada, bob, hosts=host, model=model)
    assert run(society.run, 2, schedule=schedule).outcome == "finished"
    for name in ("ada", "bob"):
        told = [ordinal for (agent, _), ordinal in sorted(model.calls.items()) if agent == name]
        assert told == ["1.1", "2.1.1", "3.1", "3.3", "4.1.1", "5.1", "6.1", "7.1", "8.1"] * 2


def test_questions_to_a_model_overlap() -> None:
    async def ada(tick: Any) -> None:
        await tick.gather(*(tick.reason(Verdict, f"{n}?") for n in range(4)))

    model = Slow(1, '{"risk": 0, "cause": "disk"}')
    run(town(ada, model=model).run, 1)
    assert model.most == 4


# ── budgets and sums ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_budget_of_a_society_is_judged_at_the_barrier_and_goes_on_after_a_resume() -> None:
    """L6, R14: both agents of the round that overdraws it are served; a larger one lets the run go on."""

    def make(store: Any, tokens: int = 50) -> AsyncSociety:
        model = ScriptedModel({name: [say("hm", usage=TOKENS)] * 9 for name in ("ada", "bob")})
        agents = [Agent(name, acting()) for name in ("ada", "bob")]
        return AsyncSociety(agents, model=model, budget=Budget(tokens=tokens), store=store)

    store = MemoryStore()
    ended = trio.run(make(store).run, 9)
    assert (ended.outcome, ended.rounds, ended.reason) == ("budget", 2, "60 of 50 tokens are used")
    assert trio.run(make(store).run, 9).rounds == 2
    more = trio.run(make(store, 100).run, 9)
    assert (more.outcome, more.rounds, sum(more.usage.values())) == ("budget", 4, 120)


def test_the_budget_of_an_agent_ends_its_own_loops_and_nobody_elses() -> None:
    model = ScriptedModel(
        {name: [say("hm", usage=TOKENS)] * 9 for name in ("ada", "bob")}, price=Price(input=1, output=1)
    )
    agents = [Agent("ada", acting(), budget=Budget(tokens=20)), Agent("bob", acting())]
    society = AsyncSociety(agents, model=model)
    result = trio.run(society.run, 3)

    assert [event.outcome for event in society.trace.where(kind="act", agent="ada")] == ["done", "done", "budget"]
    assert [event.outcome for event in society.trace.where(kind="act", agent="bob")] == ["done"] * 3
    assert result.cost_usd == pytest.approx(75e-6)


def test_a_budget_in_dollars_needs_a_price() -> None:
    with pytest.raises(ScenarioError, match="its price is not known, and the budget of the society is in dollars"):
        town(asking(), model=Untouchable(), budget=Budget(usd=1))


# ── resume and replay ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_stopped_between_a_request_and_its_result_goes_on() -> None:
    """P01: the first result stands and is not called for again, the second is in doubt, and both are answered."""
    called: list[str] = []

    def make(store: Any) -> AsyncSociety:
        host = AsyncHost()

        @host.tool("lookup")
        async def lookup(n: int) -> str:
            called.append(f"t{n}")
            return f"found {n}"

        model = ScriptedModel([use([("lookup", {"n": 1}), ("lookup", {"n": 2})]), say("done")])
        society = town(Agent("ada", acting("lookup")), hosts=host, model=model, store=store)
        society.scripted = model  # type: ignore[attr-defined]
        return society

    crashing = FailingStore(4)  # two intents and a result are written; the process dies before the second result
    with pytest.raises(Crash):
        trio.run(make(crashing).run, 1)
    assert called == ["t1", "t2"]

    resumed = make(crashing.survivor())
    assert trio.run(resumed.run, 1).outcome == "finished"
    assert called == ["t1", "t2"]
    (only,) = resumed.scripted.requests  # type: ignore[attr-defined]
    assert [block["tool_use_id"] for block in only["messages"][-1]["content"]] == ["t1", "t2"]
    texts = last_results(resumed.scripted)  # type: ignore[attr-defined]
    assert texts[0] == ("found 1", False)
    assert texts[1][1] and texts[1][0].startswith("lookup is in doubt")
    assert only.call == 2


def busy(store: Any) -> AsyncSociety:
    host, _ = workshop()

    @host.tool("again", idempotent=True)
    async def again(n: int) -> int:
        return n

    async def ada(tick: Any) -> None:
        verdict = await tick.reason(Verdict, f"round {tick.round}")
        result = await tick.act("go", tools=["again", "society__*"])
        tick.state["seen"] = [verdict.risk, result.text]

    async def bob(tick: Any) -> None:
        with trio.move_on_after(1):
            await tick.act("be quick", model="slow")
        tick.note(f"{len(tick.inbox)} {tick.degraded}")

    script = [
        say('{"risk": 0.5}', usage=TOKENS),
        use([("again", {"n": 1}), ("society__send", {"to": "bob", "kind": "hi", "body": {}}), ("again", {"n": 2})]),
        say("done", usage=TOKENS),
    ]
    models = {"fast": ScriptedModel({"ada": script * 3}), "slow": Slow(30)}
    agents = [Agent("ada", ada, model="fast"), Agent("bob", bob, model="slow")]
    return AsyncSociety(agents, hosts=host, model=models, store=store)


def test_a_run_with_models_survives_a_crash_anywhere() -> None:
    """J5, J3; calls that were given up are served as given up."""

    def scheduled(function: Any, number: int) -> Any:
        return run(function, schedule=number)

    assert crash_everywhere(busy, 3, most=24, run=scheduled).crashes > 20


def test_a_replay_asks_no_model() -> None:
    """P58, J8."""
    store = MemoryStore()
    run(busy(store).run, 3)

    def make(store: Any, forced: bool) -> AsyncSociety:
        society = busy(store)
        society._models = {"fast": Untouchable(), "slow": Untouchable()}
        return society

    assert replay(store, make).rounds == 3


def test_a_changed_word_in_a_question_stops_a_replay_and_is_named() -> None:
    """P58: agent, round, crossing, what was recorded and what was asked."""
    store = MemoryStore()
    answers = [say('{"risk": 0.5, "cause": "disk"}')] * 2
    trio.run(town(Agent("ada", asking("How risky?")), model=ScriptedModel(answers), store=store).run, 2)

    def make(store: Any, forced: bool) -> AsyncSociety:
        return town(Agent("ada", asking("How dangerous?")), model=Untouchable())

    with pytest.raises(ReplayDivergence) as stopped:
        replay(store, make)
    assert (stopped.value.round, stopped.value.agent, stopped.value.crossing) == (1, "ada", "1.1")
    assert "How dangerous?" in str(stopped.value)


def test_sums_go_on_where_they_were() -> None:
    store = MemoryStore()
    agent = Agent("ada", acting())

    def make() -> AsyncSociety:
        return town(
            agent, model=ScriptedModel([say("hm", usage=TOKENS)] * 4, price=Price(input=1, output=1)), store=store
        )

    trio.run(make().run, 2)
    result = trio.run(make().run, 3)
    assert (result.metrics.llm_calls, result.usage["input_tokens"]) == (3, 30)
    assert result.cost_usd == pytest.approx(45e-6)


# ── the real SDK ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.trio
async def test_the_real_sdk_is_driven_and_its_key_is_nowhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", PLANTED)
    host, _ = workshop()
    answers = [use("work", n=3), say("done ☂"), say('{"risk": 0.25, "cause": "network"}')]

    async def ada(tick: Any) -> None:
        result = await tick.act("go", tools=["work"])
        verdict = await tick.reason(Verdict, f"after {result.text}")
        tick.note(f"{verdict.risk}")

    async with serving(answers) as server:
        model = AnthropicModel("m", base_url=server.url, api_key=PLANTED, price=Price(input=1, output=1))
        store = FileStore(tmp_path / "run")
        society = town(ada, hosts=host, model=model, store=store)
        result = await society.run(1)
        await model.aclose()

    assert result.outcome == "finished" and notes(society) == ["0.25"]
    assert any(PLANTED in value for value in server.received[0].headers.values())
    forced = server.received[2].body
    assert forced["tool_choice"] == {"type": "tool", "name": "answer_verdict"}
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or PLANTED.encode() not in file.read_bytes()
    assert PLANTED not in society.render_traces() and PLANTED not in repr(model)


def test_resume_refuses_nothing_and_asks_for_nothing_that_is_done() -> None:
    store = MemoryStore()
    trio.run(busy(store).run, 1)
    finished = trio.run(lambda: resume(store, lambda store, forced: busy(store), max_ticks=1))
    assert finished.rounds == 1
