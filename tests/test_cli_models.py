"""Models on the command line: a server of one's own, keys, budgets, kept answers, and what a run with models cost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from society.testing import say
from tests.messages_server import MessagesServer, Received, Status, serving
from tests.test_cli import last_line, society

ROOT = Path(__file__).parent.parent
TOWN_HALL = ROOT / "scenarios" / "townhall.toml"
PLANTED = "sk-planted-0123456789"

DRIVEN = """
name = "driven"
max_ticks = 3

[models.fast]
use = "claude-haiku-4-5"
base_url = "{url}"
api_key = {{ env = "FAST_KEY" }}
{more}
[[agents]]
name = "ada"
prompt = "You are [/] ada."
"""


@contextmanager
def served(answer: Callable[[Received], Any]) -> Iterator[MessagesServer]:
    """Run a server on loopback in a thread of its own."""
    ready, found = threading.Event(), []

    async def serve() -> None:
        async with serving(answer) as server:
            stop = trio.Event()
            found.extend([server, trio.lowlevel.current_trio_token(), stop])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    assert ready.wait(60)
    server, token, stop = found
    try:
        yield server
    finally:
        token.run_sync_soon(stop.set)
        thread.join()


def driven(folder: Path, url: str, more: str = "") -> Path:
    file = folder / "driven.toml"
    file.write_text(DRIVEN.format(url=url, more=more), "utf-8")
    return file


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def row(told: str, name: str) -> str:
    return next((line.split(name, 1)[1].strip() for line in told.splitlines() if line.startswith(f"  {name}  ")), "")


def test_a_rule_cast_becomes_a_model_cast_by_the_command_line_alone(tmp_path: Path) -> None:
    commons = ROOT / "scenarios" / "commons.toml"
    with served(lambda received: say('{"fish": 20}')) as server:
        told = society("run", commons, "--model", "fisher-1", "--base-url", server.url, "--no-store", "--json")
    found = json.loads(told.stdout)
    assert found["metrics"]["llm_calls"] == 5 and found["shared"]["lake"] == {"month": 1, "left": 0, "caught": 100}


def test_the_summary_of_a_run_that_asked_models_says_tokens_and_cost(tmp_path: Path) -> None:
    tokens = {"input_tokens": 1_000, "output_tokens": 200, "cache_read_input_tokens": 50}
    with served(lambda received: say("hi", usage=tokens)) as server:
        told = society("run", driven(tmp_path, server.url), "--no-store", environ={"FAST_KEY": PLANTED})
        unpriced = society("run", TOWN_HALL, "--model", "unheard-of", "--base-url", server.url, "--no-store")
    assert told.returncode == 0, told.stderr
    assert (row(told.stdout, "input tokens"), row(told.stdout, "output tokens")) == ("3,000", "600")
    assert row(told.stdout, "cache read tokens") == "150"
    assert row(told.stdout, "cost") == "$0.006015"
    assert row(unpriced.stdout, "cost") == "not known: a model has no price"

    without = society("run", ROOT / "scenarios" / "incident.toml", "--no-store")
    assert "tokens" not in without.stdout and "cost" not in without.stdout


def test_a_key_goes_to_its_server_and_is_nowhere_else(tmp_path: Path) -> None:
    """The server echoes what it was sent, in a refusal that passes and in one that does not."""

    def answer(received: Received) -> Any:
        if len(server.received) == 1:
            return Status(429, retry_after=0, message=f"slow down, {received.headers['authorization']}")
        if len(server.received) == 3:
            return Status(401, kind="authentication_error", message=f"bad key {received.headers['authorization']}")
        return say("hi")

    with served(answer) as server:
        file, run = driven(tmp_path, server.url), tmp_path / "run"
        told = society("run", file, "--store", run, "--show", environ={"FAST_KEY": PLANTED})
        again = society("replay", run, environ={"FAST_KEY": PLANTED})
    assert told.returncode == 1 and again.returncode == 0, told.stderr + again.stderr
    assert {received.headers["authorization"] for received in server.received} == {f"Bearer {PLANTED}"}
    assert "bad key Bearer [key]" in told.stdout
    said = told.stdout + told.stderr + again.stdout + again.stderr
    assert PLANTED not in said and PLANTED.encode() not in everything_in(tmp_path)


def test_a_key_of_the_vendor_does_not_go_to_a_server_of_ones_own(tmp_path: Path) -> None:
    with served(lambda received: say("hi")) as server:
        told = society(
            *("run", TOWN_HALL, "--model", "m", "--base-url", server.url, "--no-store", "--ticks", "2"),
            environ={"ANTHROPIC_API_KEY": PLANTED, "ANTHROPIC_AUTH_TOKEN": PLANTED},
        )
    assert told.returncode == 0, told.stderr
    assert server.received and not any(PLANTED in str(received.headers) for received in server.received)


def test_kept_answers_run_the_scenario_offline_with_the_same_trace(tmp_path: Path) -> None:
    """Bodies with brackets and characters that are not ASCII; one call finds the service broken, and that is kept too."""

    def answer(received: Received) -> Any:
        if len(server.received) == 4:
            return Status(400, message="no")
        asked = received.body["messages"][-1]["content"]
        return say(
            '{"choice": "yes", "because": "☂ [/]"}' if asked.endswith("How do you vote?") else f"Well. {len(asked)} ☂"
        )

    with served(answer) as server:
        how = ("run", TOWN_HALL, "--base-url", server.url, "--model", "m", "--set", "limits.max_concurrent_llm=1")
        online = society(*how, "--record", "--store", tmp_path / "online", "--json")
    offline = society("run", TOWN_HALL, "--model", tmp_path / "online" / "replies.json", "--no-store", "--json")
    assert online.returncode == offline.returncode == 0, online.stderr + offline.stderr
    first, second = json.loads(online.stdout), json.loads(offline.stdout)
    assert first["shared"] == second["shared"] and first["shared"]["ballots"]["ada"] == "yes"
    assert first["digest"] == second["digest"]


def test_a_budget_in_dollars_ends_a_run_and_goes_on_being_spent(tmp_path: Path) -> None:
    tokens = {"input_tokens": 1_000, "output_tokens": 0}  # a tenth of a cent each
    with served(lambda received: say("hi", usage=tokens)) as server:
        file, run = driven(tmp_path, server.url), tmp_path / "run"
        told = society("run", file, "--budget-usd", "0.0015", "--store", run, environ={"FAST_KEY": "k"})
        assert (told.returncode, len(server.received)) == (1, 2), told.stderr
        assert "budget" in last_line(told.stdout) and row(told.stdout, "cost") == "$0.002000"
        again = society("run", file, "--budget-usd", "0.0015", "--store", run, environ={"FAST_KEY": "k"})
        assert (again.returncode, len(server.received)) == (1, 2), again.stderr


def test_a_budget_in_dollars_needs_a_price_and_a_file_may_give_it(tmp_path: Path) -> None:
    tokens = {"input_tokens": 1_000, "output_tokens": 1_000}
    with served(lambda received: say("hi", usage=tokens)) as server:
        file = driven(tmp_path, server.url, 'prices = "prices.toml"\n')
        file.write_text(file.read_text().replace("claude-haiku-4-5", "own-model"))
        missing = society("run", file, "--no-store", environ={"FAST_KEY": "k"})
        (tmp_path / "prices.toml").write_text("[other]\ninput = 1.0\noutput = 2.0\n")
        other = society("run", file, "--no-store", environ={"FAST_KEY": "k"})
        (tmp_path / "prices.toml").write_text("[own]\ninput = 1.0\noutput = 2.0\n")
        told = society("run", file, "--budget-usd", "0.004", "--no-store", environ={"FAST_KEY": "k"})
        file.write_text(file.read_text().replace('prices = "prices.toml"\n', ""))
        none = society("run", file, "--budget-usd", "0.004", "--no-store", environ={"FAST_KEY": "k"})
    assert (missing.returncode, other.returncode, none.returncode) == (2, 2, 2)
    assert "models.fast.prices: there is no file" in missing.stderr
    assert "models.fast.prices: prices.toml has no price for 'own-model'" in other.stderr
    assert "price" in none.stderr and "own-model" not in none.stdout
    assert told.returncode == 1 and row(told.stdout, "cost") == "$0.006000"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--model", "rehersal.toml"], "rehersal.toml"),
        (["--budget-usd", "0"], "budget"),
        (["--record", "--no-store"], "--record and --no-store"),
    ],
)
def test_wrong_models_are_told_before_the_run(wrong: list[str], said: str, tmp_path: Path) -> None:
    told = society("run", TOWN_HALL, *wrong, cwd=tmp_path)
    assert told.returncode == 2 and said in told.stderr
    assert "Traceback" not in told.stderr and not list(tmp_path.iterdir())


SCRIPTED = """
name = "scripted"
code = "tale.py"
max_ticks = 1

[models.script]
use = "scripted"
replies = "tale.replies.toml"

[[agents]]
name = "ada"
prompt = "You are ada."
max_turns = 2
{fallback}
"""
NOTE = 'content = [{ type = "tool_use", name = "society__note", input = { text = "x" } }]'
PAY = 'content = [{ type = "tool_use", name = "pay", input = {} }]\nstop_reason = "brand_new_reason"'


@pytest.mark.parametrize(
    ("replies", "fallback", "code", "outcome"),
    [
        ([NOTE, NOTE], "", 1, "max_turns"),  # P10
        ([NOTE, NOTE], 'fallback = "rest"', 1, "max_turns"),
        ([PAY], "", 1, "unknown_stop"),  # P09
        (['content = []\nstop_reason = "refusal"'], "", 1, "refused"),
        (['content = []\nstop_reason = "refusal"'], 'fallback = "rest"', 0, "refused"),
        (['content = "Half a"\nstop_reason = "max_tokens"'], "", 1, "truncated"),
        ([NOTE, 'content = "done"'], "", 0, "done"),
        ([], "", 1, "model_silent"),
    ],
)
def test_a_run_in_which_a_loop_was_cut_short_does_not_exit_as_done(
    replies: list[str], fallback: str, code: int, outcome: str, tmp_path: Path
) -> None:
    """P09, P10. Where a fallback acted instead, nothing is left to be told by the exit code; the trace says what it was."""
    (tmp_path / "tale.toml").write_text(SCRIPTED.format(fallback=fallback))
    (tmp_path / "tale.py").write_text("def rest(tick):\n    tick.note('rests')\n")
    (tmp_path / "tale.replies.toml").write_text("".join(f"[[ada]]\n{reply}\n" for reply in replies))
    told = society("run", "tale.toml", "--store", "run", "--show", cwd=tmp_path)
    assert told.returncode == code, told.stdout + told.stderr
    assert outcome in told.stdout and "pay(" not in told.stdout
    how = ", but 1 agent loop did not end as done" if code else ""
    assert last_line(told.stdout) == f"exit {code}: finished after 1 round{how}"
