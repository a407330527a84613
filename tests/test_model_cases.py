"""Trouble that was reported of agent loops, in whole societies: through the real SDK, a server on loopback, a journal,
and a replay of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from messages_server import Received, serving
from schedules import Delays, run

from society import (
    Agent,
    AnthropicModel,
    AsyncHost,
    AsyncSociety,
    FileStore,
    Limits,
    ModelAgent,
    ScriptedModel,
    Shared,
)
from society.records import Denial, Intent, Result
from society.reruns import replay, resume
from society.testing import say, use

HOSTILE = "x [/] [/INST] [bold]loud[/bold] [red] arr[0] [link=file] \\[ :smile: \ud835 ☂"


def calling(*calls: tuple[str, str, Any], text: str = "", stop_reason: str = "tool_use") -> dict[str, Any]:
    """Return a reply of calls (id, tool, input); an input that is a text is sent as it is."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call_id, tool, given in calls:
        raw = {"raw": given, "input": {}} if isinstance(given, str) else {"input": given}
        blocks.append({"type": "tool_use", "id": call_id, "name": tool, **raw})
    return {"content": blocks, "stop_reason": stop_reason}


class Told:
    """What came of a run over the wire."""

    def __init__(self, folder: Path, town: AsyncSociety, bodies: list[dict[str, Any]], agent: str) -> None:
        self.folder, self.town = folder, town
        self.bodies = [body for body in bodies if f"You are {agent}." in json.dumps(body["system"])]
        self.trace = town.trace
        self.records = list(FileStore(folder).read().records())

    def results(self, request: int = -1) -> list[tuple[str, str, bool]]:
        """Return (id, text, whether it is an error) of the answers that end a request."""
        return [
            (block["tool_use_id"], block["content"], block.get("is_error", False))
            for block in self.bodies[request]["messages"][-1]["content"]
            if block["type"] == "tool_result"
        ]

    def kept(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


def over_the_wire(
    folder: Path,
    answers: list[Any],
    host: Callable[[], AsyncHost] = AsyncHost,
    rounds: int = 1,
    prompt: str = "You are ada.",
    others: tuple[Agent, ...] = (),
    **options: Any,
) -> Told:
    """Run a society of `ada`, whose model answers with these, and replay its journal: the trace is the same."""

    def answer(received: Received) -> Any:
        asked = [one for one in server.received if "You are ada." in json.dumps(one.body["system"])]
        return answers[len(asked) - 1] if asked and asked[-1] is received else say("other")

    def make(store: Any, model: Any, **more: Any) -> AsyncSociety:
        ada = ModelAgent("ada", prompt, tools=["*"], **options)
        return AsyncSociety(
            [ada, *others],
            hosts=host(),
            model=model,
            store=store,
            run_id="r",
            shared={"log": Shared([], "append")},
            **more,
        )

    async def live() -> tuple[AsyncSociety, list[dict[str, Any]]]:
        nonlocal server
        async with serving(answer) as server, AnthropicModel("m", base_url=server.url) as model:
            town = make(FileStore(folder), model)
            await town.run(rounds)
            return town, [received.body for received in server.received]

    server: Any = None
    town, bodies = trio.run(live)
    again = replay(FileStore(folder), lambda store, **more: make(store, Refusing(), **more))
    assert again.trace.digest == town.trace.digest
    for line in (folder / "journal.jsonl").read_bytes().decode("utf-8").splitlines():
        json.loads(line[line.index("{") :], parse_constant=_refuse) if "{" in line else None
    return Told(folder, town, bodies, "ada")


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


class Refusing:
    """A model that no replay may reach."""

    async def reply(self, request: Any) -> Any:
        raise AssertionError("the model was asked")


# ── A ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_failing_tool_costs_its_siblings_nothing_in_a_society_either(tmp_path: Path) -> None:
    """P02."""
    runs: list[str] = []

    def host() -> AsyncHost:
        host = AsyncHost()

        @host.tool("ok", reads_only=True)
        async def ok(text: str, ms: int) -> str:
            runs.append(text)
            await trio.sleep(ms / 1000)
            return text

        @host.tool("boom", reads_only=True)
        async def boom() -> None:
            runs.append("boom")
            raise ValueError("boom")

        return host

    calls = calling(("t1", "ok", {"text": "A", "ms": 50}), ("t2", "boom", {}), ("t3", "ok", {"text": "C", "ms": 100}))
    told = over_the_wire(tmp_path, [calls, say("done")], host)
    assert [(call, wrong) for call, _, wrong in told.results()] == [("t1", False), ("t2", True), ("t3", False)]
    texts = [text for _, text, _ in told.results()]
    assert (texts[0], texts[2]) == ("A", "C") and "ValueError" in texts[1] and "boom" in texts[1]
    assert sorted(runs) == ["A", "C", "boom"] and len(told.bodies) == 2


def test_a_repeated_id_is_two_actions_with_keys_of_their_own(tmp_path: Path) -> None:
    """P05: in one reply, and across replies and ticks."""
    found: list[str] = []

    def host() -> AsyncHost:
        host = AsyncHost()
        host.tool("search", thread=False)(lambda q: found.append(q) or q)
        return host

    twice = calling(("search", "search", {"q": "a"}), ("search", "search", {"q": "b"}))
    once = calling(("search", "search", {"q": "c"}))
    told = over_the_wire(tmp_path, [twice, once, say("done"), once, say("done")], host, rounds=2)
    assert found == ["a", "b", "c", "c"]
    assert [text for _, text, _ in told.results(1)] == ["a", "b"]
    intents = told.kept(Intent)
    assert len({intent.id for intent in intents}) == 4
    for body in told.bodies:
        asked = [b["id"] for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if "id" in b]
        answered = [b["tool_use_id"] for m in body["messages"] for b in m["content"] if "tool_use_id" in b]
        assert asked == answered and len(set(asked)) == len(asked)


def test_a_call_that_was_cut_off_is_not_run_and_asked_for_with_more_room(tmp_path: Path) -> None:
    """P06."""
    written: list[str] = []

    def host() -> AsyncHost:
        host = AsyncHost()
        host.tool("write_file", thread=False)(lambda path, content: written.append(content))
        return host

    cut = calling(("t1", "write_file", {"path": "a.txt"}), text="Writing it", stop_reason="max_tokens")
    whole = calling(("t1", "write_file", {"path": "a.txt", "content": "all"}))
    told = over_the_wire(tmp_path / "again", [cut, whole, say("done")], host, max_tokens=256)
    assert [body["max_tokens"] for body in told.bodies] == [256, 1024, 256]
    assert len(told.bodies[1]["messages"]) == 1 and written == ["all"]

    told = over_the_wire(tmp_path / "twice", [cut, cut], host, max_tokens=256)
    (ended,) = told.trace.where(kind="act")
    assert ended.outcome == "truncated" and not told.kept(Intent) and written == ["all"]


def test_pauses_go_back_unchanged_and_are_bounded(tmp_path: Path) -> None:
    """P07."""
    pauses = [say("part 1", stop_reason="pause_turn"), say("part 2", stop_reason="pause_turn"), say("part 3")]
    told = over_the_wire(tmp_path / "whole", pauses)
    assert [[message["role"] for message in body["messages"]] for body in told.bodies] == [
        ["user"],
        ["user", "assistant"],
        ["user", "assistant", "assistant"],
    ]
    assert told.trace.where(kind="act")[0].outcome == "done"

    told = over_the_wire(tmp_path / "long", [pauses[0]] * 4, max_turns=3)
    assert told.trace.where(kind="act")[0].outcome == "max_turns" and len(told.bodies) == 3


@pytest.mark.parametrize("reason", ["refusal", "brand_new_reason", None])
def test_what_is_no_end_is_never_done_and_others_go_on(reason: str | None, tmp_path: Path) -> None:
    """P09."""
    paid: list[int] = []

    def host() -> AsyncHost:
        host = AsyncHost()
        host.tool("pay", thread=False)(lambda eur: paid.append(eur))
        return host

    content = [] if reason == "refusal" else calling(("t1", "pay", {"eur": 5}))["content"]
    answers = [{"content": content, "stop_reason": reason}]
    told = over_the_wire(tmp_path, answers, host, others=(ModelAgent("bob", "You are bob."),))
    ends = {event.agent: event for event in told.trace.where(kind="act")}
    assert (
        ends["ada"].outcome == ("refused" if reason == "refusal" else "unknown_stop") and ends["bob"].outcome == "done"
    )
    assert reason == "refusal" or repr(reason) in ends["ada"].reason or "no stop_reason" in ends["ada"].reason
    assert paid == [] and len(told.bodies) == 1


PROGRAM = """
import sys
from pathlib import Path
import trio
from society import AsyncHost, AsyncSociety, FileStore, ModelAgent, ScriptedModel
from society.testing import say, use

folder = Path(sys.argv[1])

def note(line):
    with open(folder / "ledger", "a") as ledger:
        ledger.write(line + "\\n")

def make(store):
    host = AsyncHost()

    @host.tool("lookup")
    async def lookup(n: int) -> str:
        note(f"lookup {n}")
        if n == 2 and not (folder / "killed").exists():
            await trio.sleep_forever()
        return f"found {n}"

    def last(request):
        import json
        (folder / "request.json").write_text(json.dumps(list(request["messages"])))
        return say("done")

    model = ScriptedModel([use([("lookup", {"n": 1}), ("lookup", {"n": 2})]), last])
    return AsyncSociety([ModelAgent("ada", "You are ada.", tools=["lookup"])], hosts=host, model=model, store=store)

town = make(FileStore(folder / "run"))
result = trio.run(town.run, 1)
print(result.outcome, len(result.in_doubt))
"""


def test_a_run_killed_between_a_request_and_its_result_goes_on(tmp_path: Path) -> None:
    """P01: the process is killed for real while the second of two calls is under way."""
    (tmp_path / "tale.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "tale.py"), str(tmp_path)]
    ledger = tmp_path / "ledger"
    child = subprocess.Popen(command)
    patience = time.monotonic() + 120
    while not (ledger.exists() and "lookup 2" in ledger.read_text()):
        assert time.monotonic() < patience and child.poll() is None
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    (tmp_path / "killed").touch()
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.stdout.split() == ["finished", "1"], told.stderr
    assert ledger.read_text().splitlines() == ["lookup 1", "lookup 2"]
    *_, asked, answers = json.loads((tmp_path / "request.json").read_text())
    assert [block["id"] for block in asked["content"]] == [block["tool_use_id"] for block in answers["content"]]
    first, second = answers["content"]
    assert first["content"] == "found 1" and not first.get("is_error")
    assert second["is_error"] and "in doubt" in second["content"]


# ── B, C ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_does_not_exist_leaves_no_action_behind(tmp_path: Path) -> None:
    """P12."""

    def host() -> AsyncHost:
        host = AsyncHost()
        host.tool("get_rain", thread=False)(lambda: "rain")
        host.tool("get_wind", thread=False)(lambda: "wind")
        return host

    told = over_the_wire(tmp_path, [calling(("t1", "get_weather", {}), ("t2", "get_rain", {})), say("done")], host)
    (_, text, wrong), rain = told.results()
    assert wrong and "get_weather" in text and text.index("get_rain") < text.index("get_wind")
    assert rain == ("t2", "rain", False)
    assert [intent.tool for intent in told.kept(Intent)] == ["get_rain"] and not told.kept(Denial)


def test_arguments_that_cannot_be_read_run_nothing_and_stand_in_the_trace(tmp_path: Path) -> None:
    """P13, P15, P61: broken off, a number too long, and NaN; each beside a call that is well."""
    deleted: list[Any] = []

    def host() -> AsyncHost:
        host = AsyncHost()

        @host.tool("delete_notes", thread=False)
        def delete_notes(ids: Any = "all") -> None:
            deleted.append(ids)

        host.tool("count_notes", thread=False)(lambda: 3)
        return host

    digits = sys.get_int_max_str_digits()
    wrong = ['{"ids": [1, 2', '{"ids": ' + "9" * 5000 + "}", '{"ids": NaN}', '{"ids": 1e400}']
    answers = [calling((f"c{n}", "delete_notes", raw), (f"d{n}", "count_notes", {})) for n, raw in enumerate(wrong)]
    told = over_the_wire(tmp_path, [*answers, say("done")], host, others=(ModelAgent("bob", "You are bob."),))
    assert deleted == [] and sys.get_int_max_str_digits() == digits
    said = ["not valid JSON", "number too long", "NaN", "number too large"]
    for request, why in enumerate(said, 1):
        (_, text, error), count = told.results(request)
        assert error and why in text and count[1:] == ("3", False)
    assert "character" in told.results(1)[0][1]
    traced = told.trace.data.decode()
    assert '{\\"ids\\": [1, 2' in traced and "9" * 790 in traced and "9" * 1000 not in traced
    assert {event.agent: event.outcome for event in told.trace.where(kind="act")} == {"ada": "done", "bob": "done"}


def test_what_no_value_can_stand_for_was_done_all_the_same(tmp_path: Path) -> None:
    """P15, P19, P21, P23, P24, P60: what tools return and raise, as a model is told of it."""

    class Odd:
        def __repr__(self) -> str:
            return f"<Odd at {id(self):x}>"

    def leave() -> None:
        sys.exit(0)

    def grouped() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [TimeoutError("read timed out")]), OSError("refused")])

    given: dict[str, Any] = {
        "long": lambda: 10**5000,
        "set": lambda: {3, 1, 2},
        "bytes": lambda: b"\x00\xff",
        "odd": Odd,
        "generator": lambda: (n for n in ()),
        "none": lambda: None,
        "tokyo": lambda: {"city": "東京", "note": "naïve ☂"},
        "half": lambda: "end \udcb2",
        "leave": leave,
        "grouped": grouped,
    }

    def host() -> AsyncHost:
        host = AsyncHost()
        for name, function in given.items():
            host.tool(name, thread=False)(function)
        return host

    told = over_the_wire(tmp_path, [calling(*((name, name, {}) for name in given)), say("done")], host)
    texts = {call: (text, wrong) for call, text, wrong in told.results()}
    for name in ("long", "set", "bytes", "odd", "generator"):
        assert "not representable" in texts[name][0] or "cannot be written" in texts[name][0], texts[name]
        assert "failed" not in texts[name][0] and " at 0x" not in texts[name][0]
    assert texts["none"] == ("null", False) and texts["half"] == ("end \ufffd", False)
    assert "東京" in texts["tokyo"][0] and "naïve ☂" in texts["tokyo"][0]
    assert "東京" in told.trace.data.decode() and "東京" in told.town.render_traces()
    assert texts["leave"][1] and "SystemExit" in texts["leave"][0]
    assert "TimeoutError: read timed out" in texts["grouped"][0] and "OSError: refused" in texts["grouped"][0]
    endings = {result.id: result.ending for result in told.kept(Result)}
    assert sorted(endings.values()) == ["done"] * 8 + ["failed"] * 2


# ── F ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schedule", range(4))
def test_peaks_of_models_and_tools_are_exact_with_loops_and_sub_agents(schedule: int) -> None:
    """P46: six agents, each with a loop of three calls, two of them with a sub-agent that has a loop of its own."""
    host, delays, now = AsyncHost(), Delays(schedule), {"llm": 0, "tool": 0}
    peaks = dict(now)

    async def taking(what: str) -> None:
        now[what] += 1
        peaks[what] = max(peaks[what], now[what])
        await delays()
        await trio.sleep(0.5)
        now[what] -= 1

    @host.tool("work", reads_only=True)
    async def work(n: int) -> int:
        await taking("tool")
        return n

    @host.subagent("helper")
    async def helper(tick: Any, payload: Any) -> str:
        return str((await tick.act("help", tools=["work"])).text)

    class Model:
        async def reply(self, request: Any) -> Any:
            await taking("llm")
            if len(request["messages"]) < 6:
                return use([("work", {"n": 1}), ("work", {"n": 2})])
            return say("done")

    async def behavior(tick: Any) -> None:
        result = await tick.act("go", tools=["work"])
        helped = await tick.delegate("helper") if tick.index < 2 else "done"
        tick.note(f"{result.outcome} {helped}")

    town = AsyncSociety(
        [Agent(f"a{n}", behavior, index=n) for n in range(6)],
        hosts=host,
        model=Model(),
        limits=Limits(max_concurrent_llm=2, max_concurrent_tools=3, llm_timeout=2, tool_timeout=2),
    )
    assert run(town.run, 1, schedule=schedule).outcome == "finished"
    assert [event.text for event in town.trace.where(kind="note")] == ["done done"] * 6
    assert peaks == {"llm": 2, "tool": 3}
    assert town.metrics.timeouts == 0 and town.stats.llm["queued"] > 0


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_text_of_a_model_goes_everywhere_and_raises_nowhere(tmp_path: Path) -> None:
    """P60, P77: in messages, SHARED, notes, arguments, results and errors; journal, replay and rendering."""

    def host() -> AsyncHost:
        host = AsyncHost()

        @host.tool("echo", thread=False)
        def echo(text: str) -> str:
            if text == "raise":
                raise ValueError(HOSTILE)
            return text + HOSTILE

        return host

    body = {"to": "bob", "kind": HOSTILE, "body": {HOSTILE: HOSTILE}}
    calls = calling(
        ("t1", "echo", {"text": HOSTILE}),
        ("t2", "echo", {"text": "raise"}),
        ("t3", "society__send", body),
        ("t4", "society__share", {"key": "log", "value": HOSTILE}),
        ("t5", "society__note", {"text": HOSTILE}),
        ("t6", HOSTILE, {}),
        ("t7", "society__read_shared", {"key": HOSTILE}),
        text=HOSTILE,
    )
    told = over_the_wire(
        tmp_path, [calls, say(HOSTILE), say("again")], host, rounds=2, others=(ModelAgent("bob", "You are bob."),)
    )
    mended = HOSTILE.replace("\ud835", "\ufffd")
    results = told.results(1)
    assert [wrong for *_, wrong in results] == [False, True, False, False, False, True, True]
    assert results[0][1] == mended * 2 and mended in results[1][1]
    assert list(told.town.shared["log"]) == [mended]
    for text in (told.trace.data.decode(), told.town.render_traces()):
        assert "[/INST] [bold]loud[/bold] [red] arr[0]" in text and ":smile:" in text
    shown = subprocess.run(
        [sys.executable, "-m", "society", "trace", "show", "--full", str(tmp_path)], capture_output=True, timeout=120
    )
    assert shown.returncode == 0, shown.stderr.decode()
    assert "[/INST] [bold]loud[/bold] [red] arr[0] [link=file]" in shown.stdout.decode()


# ── replay and resume ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_journal_that_ends_early_is_no_difference_and_asks_nobody(tmp_path: Path) -> None:
    """P58."""

    def make(store: Any, model: Any, **more: Any) -> AsyncSociety:
        return AsyncSociety([ModelAgent("ada", "You are ada.")], model=model, store=store, run_id="r", **more)

    noted = use("society__note", text="x")
    trio.run(make(FileStore(tmp_path / "run"), ScriptedModel([say("one"), noted, say("two")])).run, 2)
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if b'"record":"model"' in line)
    journal.write_bytes(b"".join(lines[:last]))
    replayed = replay(FileStore(tmp_path / "run"), lambda store, **more: make(store, Refusing(), **more))
    assert (replayed.rounds, replayed.ends_open) == (1, True)
    again = ScriptedModel([say(""), say(""), say("two")])

    async def go_on() -> Any:
        return await resume(FileStore(tmp_path / "run"), lambda store, **more: make(store, again, **more), max_ticks=2)

    result = trio.run(go_on)
    assert result.outcome == "finished" and [request.call for request in again.requests] == [3]
