"""Tool servers in whole societies: with models, limits, trust, an environment, in scenario files and on the command line."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from societies import doing_async, town
from test_connections import all_gone, children_of, wait_for
from test_library import Handler
from test_mcp_host import SERVER, came_of, serving

from society import (
    ActionInDoubt,
    Agent,
    AsyncHost,
    AsyncSociety,
    Limits,
    ModelAgent,
    ScriptedModel,
    ServerUnavailable,
    connect_async,
)
from society.testing import say, use
from society.view import progress

SCHEMA = {"type": "object", "properties": {"seat": {"type": "integer", "minimum": 1}}, "required": ["seat"]}

# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_is_shown_local_tools_and_those_of_servers_as_they_describe_themselves() -> None:
    host = AsyncHost()

    @host.tool("weather")
    async def weather(city: str) -> str:
        """Tell the weather."""
        return f"clear in {city}"

    box = serving("box", tools=[{"name": "book", "description": "Book a seat.", "inputSchema": SCHEMA}])
    other = serving("other", tools=["quota", "parts"])
    model = ScriptedModel(
        {
            "ada": [
                use(
                    [
                        ("box__book", {"seat": 7}),
                        ("other__quota", {}),
                        ("other__parts", {}),
                        ("weather", {"city": "Bath"}),
                    ]
                ),
                say("done"),
            ]
        }
    )
    society = AsyncSociety(
        [ModelAgent("ada", "Be brief.", tools=["weather", "box__*", "other__*"])], hosts=[host, box, other], model=model
    )
    trio.run(society.run, 1)

    first, second = model.requests
    shown = {tool["name"]: tool for tool in first["tools"]}
    assert shown["box__book"] == {"name": "box__book", "description": "Book a seat.", "input_schema": SCHEMA}
    assert {"weather", "other__quota", "other__parts"} <= shown.keys()
    booked, quota, parts, sky = second["messages"][-1]["content"]
    assert not booked.get("is_error") and '"seat": 7' in str(booked["content"])
    assert quota["is_error"] and "quota exceeded" in str(quota["content"])
    assert not parts.get("is_error") and "one" in str(parts["content"])
    assert "clear in Bath" in str(sky["content"])


# ── limits, trust, what a server sees ───────────────────────────────────────────────────────────────────────────────────


def test_the_bounds_of_a_society_hold_for_calls_to_servers() -> None:
    took = {}
    lines: list[str] = []

    async def main(slots: int) -> None:
        async with serving(tools=["slow"]) as host:
            slow = doing_async(lambda tick: tick.call("srv__slow", seconds=0.4))
            begun = time.monotonic()
            agents = [Agent(name, slow) for name in ("ada", "bob", "cem")]
            society = town(*agents, hosts=host, limits=Limits(max_concurrent_tools=slots))
            await society.run(1)
            lines[:] = ["".join(part.text for part in line) for line in progress(society, 1)]
            took[slots] = time.monotonic() - begun

    trio.run(main, 1)
    trio.run(main, 3)
    assert took[1] >= 1.2 and took[3] < took[1]
    assert lines[1:] == ["  tools: idle of 3 calls", "  server srv: 3 calls"]


SLOW = {"name": "slow", "annotations": {"idempotentHint": True}}


def keys_in(log: Path) -> list[str]:
    return [json.loads(line)[2]["society/idempotency-key"] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("trust", [(), ("idempotent",)])
def test_a_late_call_is_made_again_only_where_the_servers_word_is_trusted_and_with_the_same_key(
    tmp_path: Path, trust: tuple[str, ...]
) -> None:
    """J4"""
    host = serving(tools=[SLOW], log=str(tmp_path / "log"), connect={"trust": trust})
    (late,) = came_of(host, ("srv__slow", {"seconds": 30}), limits=Limits(tool_timeout=0.2))
    assert isinstance(late, ActionInDoubt)
    keys = keys_in(tmp_path / "log")
    assert len(keys) == (2 if trust else 1) and len(set(keys)) == 1


@pytest.mark.parametrize("trust", [(), ("idempotent",)])
def test_a_call_that_a_killed_run_left_open_is_made_again_only_where_the_servers_word_is_trusted(
    tmp_path: Path, trust: tuple[str, ...]
) -> None:
    """J4"""
    code = CALLS.replace("30", "2")
    path = scenario(tmp_path, code, trust=trust, tools=[SLOW], log=str(tmp_path / "log"))
    command = [sys.executable, "-m", "society", "run", str(path), "--store", str(tmp_path / "run"), "--ticks", "1"]
    ran = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(tmp_path / "log")
    ran.kill()
    ran.communicate(timeout=60)
    ended = typed("resume", str(tmp_path / "run"), "--ticks", "1")
    assert ended.returncode == (0 if trust else 1), ended.stderr
    assert ("alpha__slow" in ended.stdout + ended.stderr) is not bool(trust)
    keys = keys_in(tmp_path / "log")
    assert len(keys) == (2 if trust else 1) and len(set(keys)) == 1


def test_a_server_sees_of_the_environment_what_it_is_given_and_little_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    host = serving(tools=["sees"], connect={"env": {"TOKEN": "t"}})
    ((seen),) = came_of(host, ("srv__sees", {}))
    assert seen["environ"]["TOKEN"] == "t"
    assert "PATH" in seen["environ"] and "ANTHROPIC_API_KEY" not in seen["environ"]


def test_a_server_that_wants_to_know_more_before_it_does_anything_has_failed() -> None:
    (asked,) = came_of(serving(tools=["asks"], newer=True), ("srv__asks", {}))
    assert asked.error == "ServerRefused" and "further input" in asked.message


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def listening(handler: type[Handler]) -> Iterator[str]:
    """Serve in a thread; give the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_headers_are_sent_with_every_request_to_a_url() -> None:
    seen: list[str | None] = []

    class Guarded(Handler):
        def do_POST(self) -> None:
            seen.append(self.headers["authorization"])
            super().do_POST()

    with listening(Guarded) as url:
        host = connect_async("web", url=url, headers={"Authorization": "Bearer t"})
        assert came_of(host, ("web__works", {})) == ["works"]
    assert len(seen) >= 3 and set(seen) == {"Bearer t"}


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
@pytest.mark.parametrize(
    ("status", "became"),
    [
        (401, "it answers with HTTP status 401 Unauthorized"),
        (404, "it answers with HTTP status 404 Not Found"),
        (429, "it answers with HTTP status 429 Too Many Requests"),
        (408, None),
        (500, None),
        (504, None),
        (202, None),
        (200, None),
    ],
)
def test_what_a_gateway_says_of_a_call_is_a_refusal_or_a_doubt_by_its_status(
    status: int, became: str | None, kind: str
) -> None:
    """A 4xx was refused before it began; of all else that is no message of the protocol, nobody knows what it did."""

    class Gateway(Handler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if b'"works"' in body:
                self.answers(status, b'{"error": "slow down"}', kind)
                return
            self.rfile = io.BytesIO(body)
            super().do_POST()

    with listening(Gateway) as url:
        came, after = came_of(connect_async("web", url=url), ("web__works", {}), ("web__slow", {}))
    if became is None:
        assert isinstance(came, ActionInDoubt) and f"HTTP status {status}" in came.why
    else:
        assert (came.error, came.message) == ("ServerRefused", became)
    assert after is None


def test_a_url_that_lets_nobody_in_is_told_with_its_status() -> None:
    class Closed(Handler):
        def do_POST(self) -> None:
            self.answers(401, b"no", "text/plain")

    with listening(Closed) as url, pytest.raises(ServerUnavailable, match="HTTP status 401 Unauthorized"):
        came_of(connect_async("web", url=url))


# ── scenario files and the command line ─────────────────────────────────────────────────────────────────────────────────


def scenario(folder: Path, code: str, trust: Sequence[str] = (), **how: Any) -> Path:
    command = json.dumps(["python", "-S", str(SERVER), json.dumps(how)], ensure_ascii=False)
    (folder / "a.py").write_text(code)
    (folder / "a.toml").write_text(
        f'code = "a.py"\n[servers.alpha]\ncommand = {command}\ntrust = {json.dumps(trust)}\n'
        '[[agents]]\nname = "ada"\nbehavior = "act"\n'
    )
    return folder / "a.toml"


def typed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "society", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


CALLS = "async def act(tick):\n    await tick.call('alpha__slow', seconds=30)\n"


def test_a_scenario_whose_tools_collide_is_wrong_and_both_sources_are_named(tmp_path: Path) -> None:
    """P17"""
    local = "from society import AsyncHost\nlocal = AsyncHost()\n@local.tool('alpha__search')\ndef search(): ...\n"
    ended = typed("run", str(scenario(tmp_path, local + CALLS, tools=["search"])), "--no-store")
    assert ended.returncode == 2
    assert "'alpha__search' is offered by two" in ended.stderr and "server alpha" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_that_cannot_start_is_told_on_the_command_line_with_its_last_words(tmp_path: Path) -> None:
    ended = typed("run", str(scenario(tmp_path, CALLS, fail=True)), "--no-store")
    assert ended.returncode != 0
    assert "alpha" in ended.stderr and "no license found" in ended.stderr and "Traceback" not in ended.stderr


def test_an_interrupt_in_mid_call_ends_the_run_and_its_servers_and_the_call_is_in_doubt(tmp_path: Path) -> None:
    """P28, P67"""
    path = scenario(tmp_path, CALLS, tools=["slow"], log=str(tmp_path / "log"), child=True)
    command = [sys.executable, "-m", "society", "run", str(path), "--store", str(tmp_path / "run"), "--ticks", "1"]
    ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path / "log")
    servers = [child for pid in (ran.pid, *children_of(ran.pid)) for child in children_of(pid)]
    ran.send_signal(signal.SIGINT)
    _, said = ran.communicate(timeout=60)
    assert ran.returncode == 130 and b"Traceback" not in said
    assert len(servers) == 3 and all_gone(servers)  # the server, what it started, and its guard
    ended = typed("resume", str(tmp_path / "run"), "--ticks", "1")
    assert "alpha__slow" in ended.stdout + ended.stderr and "in doubt" in ended.stdout + ended.stderr
    assert len((tmp_path / "log").read_text().splitlines()) == 1
