"""Agents that a model drives: what they are told, what they remember, when they are asked, and what acts in their place."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from messages_server import Received, Status, serving
from schedules import run

from society import (
    Agent,
    AnthropicModel,
    AsyncHost,
    AsyncSociety,
    Budget,
    FileStore,
    Limits,
    MemoryStore,
    ModelAgent,
    Policy,
    ResumeRefused,
    ScenarioError,
    ScriptedModel,
    Shared,
    approve,
)
from society.briefing import Template
from society.testing import crash_everywhere, say, use
from society.thread import NO_THREAD, THREAD, remember, remembered


class Unpriced:
    """A model whose price nobody knows."""

    async def reply(self, request: Any) -> Any:
        return say("hi")


def driven(*agents: Agent, replies: Any, **how: Any) -> tuple[AsyncSociety, ScriptedModel]:
    model = ScriptedModel(replies)
    return AsyncSociety(agents, model=model, **how), model


def told(model: ScriptedModel, number: int = -1) -> str:
    message = model.requests[number]["messages"][-1]
    return str(message["content"])


# ── what it is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_its_inbox_and_all_it_sees_become_a_request_of_stable_bytes() -> None:
    host = AsyncHost()

    @host.sensor("door")
    async def door() -> str:
        return "open"

    @host.sensor("smoke")
    async def smoke() -> str:
        raise OSError("no wire")

    def ada(tick: Any) -> None:
        if tick.round == 1:
            tick.send("bob", "offer", price=3)
            tick.send("bob", "hint", text="take it ☂")

    society, model = driven(
        Agent("ada", ada),
        ModelAgent("bob", "You are careful.", observe=["door", "smoke"], wake="inbox"),
        replies=[say("fine")],
        hosts=host,
        shared={"status": "open", "log": list(range(2_000)), "secret": Shared(1, readers=["ada"])},
    )
    trio.run(society.run, 2)

    (request,) = model.requests
    assert request["system"] == "You are careful."
    text = told(model)
    assert text.startswith(
        "Round 2. You are bob.\n\n"
        "Messages for you:\n"
        '- ada, offer: {"price": 3}\n'
        "- ada, hint: take it ☂\n\n"
        "Shared:\n"
        '- status = "open"\n'
        "- log = [0, 1, 2,"
    )
    assert "… (10,890 characters; society__read_shared gives all of them)" in text
    assert text.endswith(
        'You perceive:\n- door = "open"\n- smoke: unknown (OSError: no wire)\n\nYou can write to: ada.'
    )
    assert "secret" not in text


def test_it_has_the_tools_of_the_society_besides_its_own() -> None:
    host = AsyncHost()

    @host.tool("service.restart")
    async def restart(service: str) -> str:
        """Restart a service."""
        return f"{service} restarted"

    calls = [
        ("service_restart", {"service": "web"}),
        ("society__share", {"key": "log", "value": "restarted"}),
        ("society__read_shared", {"key": "log"}),
        ("society__note", {"text": "ok"}),
        ("society__broadcast", {"kind": "news", "body": {"ok": True}}),
        ("society__send", {"to": "bob", "kind": "thanks", "body": {}}),
        ("society__share", {"key": "lgo", "value": 1}),
    ]
    society, model = driven(
        ModelAgent("ada", "P", tools=["service.restart"]),
        Agent("bob", lambda tick: None),
        replies=[use(calls), say("done")],
        hosts=host,
        shared={"log": Shared([], merge="append")},
    )
    trio.run(society.run, 1)

    results = [block["content"] for block in told_blocks(model)]
    assert results[0] == "web restarted" and results[2] == '["restarted"]'
    assert results[6].startswith("society__share failed: SharedRefused: shared.lgo")
    assert [tool["name"] for tool in model.requests[0]["tools"]] == [
        "service_restart",
        *(f"society__{name}" for name in ("send", "broadcast", "share", "read_shared", "note")),
    ]
    assert [event.kind for event in society.trace.where(agent="ada")] == [
        *("act", "model", "action", "share", "note", "send", "send", "model"),
    ]
    assert society.shared["log"] == ["restarted"]


def told_blocks(model: ScriptedModel) -> list[Any]:
    return list(model.requests[-1]["messages"][-1]["content"])


def test_its_policy_judges_its_calls() -> None:
    host, asked = AsyncHost(), []

    @host.tool("pay")
    async def pay(eur: int) -> str:
        return "paid"

    def approver(request: Any) -> bool:
        asked.append(request.arguments)
        return bool(request.arguments["eur"] < 10)

    calls = [("pay", {"eur": 5}), ("pay", {"eur": 50})]
    society, model = driven(
        ModelAgent("ada", "P", tools=["pay"], policy=Policy(approve("pay"))),
        replies=[use(calls), say("done")],
        hosts=host,
        approver=approver,
    )
    trio.run(society.run, 1)
    assert asked == [{"eur": 5}, {"eur": 50}]
    assert [block.get("is_error", False) for block in told_blocks(model)] == [False, True]
    assert told_blocks(model)[1]["content"].startswith("Denied: pay was refused by the person who was asked")


def test_a_timed_out_action_is_told_as_in_doubt_and_happens_once() -> None:
    """P25."""
    host, paid = AsyncHost(), []

    @host.tool("pay")
    async def pay() -> None:
        paid.append(1)
        await trio.sleep(1)

    society, model = driven(
        ModelAgent("ada", "P", tools=["pay"]),
        replies=[use("pay"), say("I shall look first")],
        hosts=host,
        limits=Limits(tool_timeout=0.1),
    )
    result = run(society.run, 1)
    assert paid == [1] and len(result.in_doubt) == 1
    assert "its effect may have happened" in told_blocks(model)[0]["content"]


def test_a_prompt_may_be_a_template_over_parameters_and_state() -> None:
    prompt = Template("{agent} waits {patience} rounds, as {{a}} {mood} one.")
    society, model = driven(
        ModelAgent("ada", prompt, state={"mood": "calm"}), replies=[say("")], parameters={"patience": 3}
    )
    trio.run(society.run, 1)
    assert model.requests[0]["system"] == "ada waits 3 rounds, as {a} calm one."

    lost, _ = driven(ModelAgent("ada", Template("{patienc}")), replies=[say("")], parameters={"patience": 3})
    assert "is called 'patienc'. Did you mean 'patience'?" in trio.run(lost.run, 1).reason


# ── when it is asked, and what it remembers ─────────────────────────────────────────────────────────────────────────────


def test_an_idle_one_costs_nothing() -> None:
    host, read = AsyncHost(), []

    @host.sensor("door")
    async def door() -> str:
        read.append(1)
        return "open"

    agents = [ModelAgent(f"a{n}", "P", wake="inbox", observe=["door"]) for n in range(3)]
    event = {"round": 2, "send": {"to": "a1", "kind": "hi", "body": {}}}
    society, model = driven(*agents, replies={"a1": [say("hello")]}, hosts=host, events=[event])
    trio.run(society.run, 4)
    assert [request.agent for request in model.requests] == ["a1"] and len(read) == 1


def test_a_thread_is_remembered_whole_and_a_fresh_one_is_not() -> None:
    replies = {"ada": [use("nope"), say("one"), say("two")], "bob": [say("one"), say("two")]}
    society, model = driven(ModelAgent("ada", "P"), ModelAgent("bob", "P", memory="fresh"), replies=replies)
    trio.run(society.run, 2)

    last = {request.agent: request["messages"] for request in model.requests}
    assert [message["role"] for message in last["ada"]] == ["user", "assistant", "user", "assistant", "user"]
    assert len(last["bob"]) == 1


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(1, 600))
def test_a_thread_is_cut_between_exchanges_and_never_inside_one(sizes: list[int], most: int) -> None:
    state: dict[str, Any] = {}
    exchanges = [
        [{"role": "user", "content": f"{number}"}, {"role": "assistant", "content": "x" * size}]
        for number, size in enumerate(sizes)
    ]
    thread = NO_THREAD
    for exchange in exchanges:
        thread = remember(state, thread, exchange, most)
        assert thread == remembered(state)
        kept = thread.history.messages
        assert len(kept) % 2 == 0 and kept[-2:] == exchange
    kept = [message for number in range(0, len(kept), 2) for message in kept[number : number + 2]]
    assert kept == [message for exchange in exchanges[-len(kept) // 2 :] for message in exchange]
    total = sum(entry["size"] for key, entry in state.items() if key.startswith(THREAD))
    assert total <= most or len(kept) == 2


def test_what_is_kept_beside_a_thread_changes_nothing() -> None:
    """Ids that repeat, exchanges that are left out, and a fallback that forgets: resumed anywhere, the requests are the same."""

    def forgetful(tick: Any) -> None:
        for key in [key for key in tick.state if key.startswith(THREAD)][:2]:
            del tick.state[key]
        tick.state["forgot"] = tick.round

    replies: list[Any] = []
    for number in range(9):
        if number == 6:
            replies.append(say("", stop_reason="refusal"))
        else:
            replies += [use("society__note", id="call", text=str(number)), say("y" * (10 * number % 70))]

    def make(store: Any) -> AsyncSociety:
        ada = ModelAgent("ada", "P", context=1_200, fallback=forgetful)
        return AsyncSociety([ada], model=ScriptedModel(replies), store=store, behaviors=[forgetful])

    whole = make(MemoryStore())
    assert trio.run(whole.run, 9).outcome == "finished"
    counted = [len(request["messages"]) for request in whole._models["model"].requests]
    assert max(counted) > 12 and counted[-1] < max(counted)
    crash_everywhere(make, 9)


def test_each_barrier_writes_down_the_new_exchange_alone() -> None:
    store = MemoryStore()
    society, _ = driven(ModelAgent("ada", "P"), replies=[say("x" * 100)] * 5, store=store)
    trio.run(society.run, 5)
    written = [record.ticks[0].state for record in store.read().records() if type(record).__name__ == "Barrier"]
    assert [list(keys) for keys in written] == [[f"{THREAD}{number}"] for number in range(1, 6)]


# ── when the model gives nothing ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (RuntimeError("down"), "model_silent"),
        (say("", stop_reason="refusal"), "refused"),
        (say("hello", stop_reason=None), "unknown_stop"),
        (use("pay", stop_reason="brand_new_reason"), "unknown_stop"),
    ],
)
def test_the_fallback_acts_where_the_model_is_silent_or_refuses(reply: Any, outcome: str) -> None:
    """P09; the others' rounds go on, and no call of such a reply is run."""
    host = AsyncHost()

    @host.tool("pay")
    async def pay() -> None:
        raise AssertionError("it was called")

    async def cautious(tick: Any) -> None:
        tick.share("votes", f"{tick.agent}: no")

    society, _ = driven(
        ModelAgent("ada", "P", tools=["pay"], fallback=cautious),
        ModelAgent("bob", "P", fallback=cautious),
        replies={"ada": [reply], "bob": [say("yes")]},
        hosts=host,
        shared={"votes": Shared([], merge="append")},
    )
    result = trio.run(society.run, 1)
    assert result.outcome == "finished" and result.shared["votes"] == ["ada: no"]
    (end,) = society.trace.where(kind="act", agent="ada")
    assert end.outcome == outcome


# ── declarations, resume ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prompt": ""}, "its prompt is a text or a Template"),
        ({"wake": "inboks"}, "Did you mean 'inbox'"),
        ({"memory": "tread"}, "Did you mean 'thread'"),
        ({"tools": "pay"}, "tools is a list of names"),
        ({"max_turns": 0}, "max_turns: 0 is not a whole number"),
        ({"tools": ["pya"]}, "has no tool 'pya'"),
        ({"model": "fast"}, "there is no model 'fast'"),
    ],
)
def test_what_is_declared_wrongly_is_told_before_the_run(wrong: dict[str, Any], said: str) -> None:
    host = AsyncHost()
    host.tool("pay")(lambda: None)
    models = {"slow": ScriptedModel([]), "slower": ScriptedModel([])}
    given = {"prompt": "P", "model": "slow", **wrong}
    with pytest.raises(ScenarioError, match=said):
        AsyncSociety([ModelAgent("ada", given.pop("prompt"), **given)], hosts=host, model=models)


def test_a_society_of_model_driven_agents_needs_a_model() -> None:
    with pytest.raises(ScenarioError, match="the society has none"):
        AsyncSociety([ModelAgent("ada", "P")])


def test_resume_refuses_another_prompt() -> None:
    """J7, P54."""
    store = MemoryStore()
    society, _ = driven(ModelAgent("ada", "Be kind."), replies=[say("x")] * 2, store=store)
    trio.run(society.run, 1)
    other, _ = driven(ModelAgent("ada", "Be cruel."), replies=[say("x")] * 2, store=store)
    with pytest.raises(ResumeRefused, match=r"agents.ada.prompt: 'Be kind.', now 'Be cruel.'"):
        trio.run(other.run, 2)


def test_a_society_of_them_survives_a_crash_anywhere() -> None:
    """J5."""

    def make(store: Any) -> AsyncSociety:
        host = AsyncHost()

        @host.tool("work", idempotent=True)
        async def work(n: int) -> int:
            return n

        greet = use("society__broadcast", kind="hi", body={"text": "you"})
        rounds = [greet, say("hello"), use([("work", {"n": 1}), ("work", {"n": 2})]), say("done"), RuntimeError("gone")]
        model = ScriptedModel({"ada": rounds, "bob": [greet, say("hm"), say("bye")]})
        agents = [ModelAgent("ada", "P", tools=["work"]), ModelAgent("bob", "P", wake="inbox")]
        return AsyncSociety(agents, hosts=host, model=model, store=store)

    def scheduled(function: Any, number: int) -> Any:
        return run(function, schedule=number)

    assert crash_everywhere(make, 3, most=20, run=scheduled).crashes > 15


# ── a narrow service ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.trio
async def test_eight_of_them_finish_against_a_server_that_allows_two_requests_a_second() -> None:
    """P45, L6: none comes back before its `retry-after`, and the width of all is seen to fall and to recover."""
    through: list[float] = []
    sent: dict[str, list[tuple[float, bool]]] = {}
    narrow = True

    def answer(received: Received) -> Any:
        passes = not narrow or sum(1 for at in through if received.at - at < 1) < 2
        if passes:
            through.append(received.at)
        sent.setdefault(received.body["system"], []).append((received.at, passes))
        return say("hi") if passes else Status(429, retry_after=1, kind="rate_limit_error")

    async with serving(answer) as server, AnthropicModel("m", base_url=server.url) as model:
        agents = [ModelAgent(f"a{n}", f"You are number {n}.") for n in range(8)]
        society = AsyncSociety(agents, model=model, limits=Limits(max_concurrent_llm=4), seed=7)
        await society.run(1)
        crowded = dict(society.stats.llm)
        narrow = False
        result = await society.run(3)

    assert result.outcome == "finished" and result.metrics.failed_ticks == 0
    assert [event.outcome for event in result.trace.where(kind="act")] == ["done"] * 24
    for attempts in sent.values():
        assert len(attempts) <= 8 + 2
        for (at, passed), (next_at, _) in itertools.pairwise(attempts):
            assert passed or next_at - at >= 1
    assert crowded["narrowed"] >= 1 and crowded["narrowest"] < 4
    assert society.stats.llm["width"] == 4 and society.stats.llm["max_in_flight"] <= 4


# ── births ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def seeing() -> AsyncHost:
    host = AsyncHost()

    @host.tool("look", reads_only=True)
    async def look() -> str:
        return "nothing"

    return host


def stay(tick: Any) -> None:
    tick.note("the fallback")


def nursery(**how: Any) -> Any:
    """Return a behavior that bears one agent that a model drives in its first round."""

    def ada(tick: Any) -> None:
        if tick.round == 1:
            prompt = Template("You are {agent}, {trade} ☂ \ud800.")
            kid = ModelAgent(
                "kid", prompt, tools=["look"], model="fast", state={"trade": "a [/] smith"}, max_tokens=64, **how
            )
            tick.spawn(kid)

    return ada


def test_one_that_is_born_in_a_run_that_is_kept_is_born_again_after_any_crash() -> None:
    """R13: its prompt, tools, model, memory and budget are values; its fallback is found by name."""
    replies = [use("look"), say("one"), say("two"), say("", stop_reason="refusal")]
    asked: list[str] = []

    class Fast(ScriptedModel):
        async def reply(self, request: Any) -> Any:
            asked.append(request["system"])
            return await super().reply(request)

    def make(store: Any) -> AsyncSociety:
        models = {"slow": ScriptedModel({}), "fast": Fast({"kid": replies})}
        born = nursery(fallback=stay, budget=Budget(tokens=10_000))
        return AsyncSociety([Agent("ada", born)], hosts=seeing(), model=models, store=store, behaviors=[stay])

    whole = make(MemoryStore())
    result = trio.run(whole.run, 4)
    assert result.outcome == "finished" and result.metrics.failed_ticks == 0
    assert [event.outcome for event in whole.trace.where(kind="act")] == ["done", "done", "refused"]
    assert [event.text for event in whole.trace.where(kind="note")] == ["the fallback"]
    assert set(asked) == {"You are kid, a [/] smith ☂ \ufffd."}
    crash_everywhere(make, 4)


def test_the_fallback_of_one_that_is_born_in_a_run_that_is_kept_is_found_by_its_name(tmp_path: Path) -> None:
    def society(**how: Any) -> AsyncSociety:
        return AsyncSociety(
            [Agent("ada", nursery(fallback=lambda tick: None))],
            hosts=seeing(),
            model={"slow": ScriptedModel({}), "fast": ScriptedModel({})},
            **how,
        )

    kept = society(store=FileStore(tmp_path / "run"))
    assert trio.run(kept.run, 1).outcome == "failed"
    (failed,) = kept.trace.where(kind="failed")
    assert "could not find the fallback of 'kid'" in failed.error and "behaviors=" in failed.error


@pytest.mark.parametrize(
    ("models", "how", "said"),
    [
        ({"slow": ScriptedModel({}), "quick": ScriptedModel({})}, {}, "there is no model 'fast'"),
        (None, {}, "the society has none"),
        ({"fast": Unpriced(), "slow": Unpriced()}, {"budget": Budget(usd=1)}, "its price is not known"),
    ],
)
def test_one_who_would_ask_a_model_that_there_is_not_is_not_born(models: Any, how: dict[str, Any], said: str) -> None:
    society = AsyncSociety([Agent("ada", nursery(**how))], hosts=seeing(), model=models)
    trio.run(society.run, 1)
    (failed,) = society.trace.where(kind="failed")
    assert said in failed.error
