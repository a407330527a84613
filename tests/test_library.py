"""The library: a scenario with a tool server made with the SDK, over its standard output and over HTTP; and servers in files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from societies import town
from test_mcp_host import calling

from society import (
    ActionInDoubt,
    Agent,
    CatalogChanged,
    FileStore,
    Limits,
    ToolFailed,
    Trace,
    connect_async,
    load_scenario,
)
from society.errors import ScenarioFaults
from society.reruns import replay
from tests.publish import ACTIVATIONS, TRACES

LIBRARY = Path(__file__).parents[1] / "scenarios" / "library"


def run(path: Path, **how: Any) -> Any:
    scenario = load_scenario(path)
    return trio.run(scenario.society(**how).run, scenario.max_ticks)


@contextlib.contextmanager
def listening(script: Path = LIBRARY / "library_server.py") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start the library's server, or another one, over HTTP in a process of its own; give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, str(script), "--http", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp", server
    finally:
        server.kill()
        server.wait()


def over_http(folder: Path, url: str) -> Path:
    """Return a copy of the scenario whose server listens at a URL."""
    for name in ("library.py", "library_server.py"):
        (folder / name).write_bytes((LIBRARY / name).read_bytes())
    text = (LIBRARY / "library.toml").read_text(encoding="utf-8")
    line = 'command = ["python", "library_server.py"]'
    assert line in text
    (folder / "library.toml").write_text(text.replace(line, f'url = "{url}"'), encoding="utf-8")
    return folder / "library.toml"


def test_two_readers_share_one_copy_and_the_trace_is_the_same_over_http(tmp_path: Path) -> None:
    here = run(LIBRARY / "library.toml")
    assert (here.outcome, here.metrics["tool_calls"]) == ("satisfied", 14)
    with listening() as (url, _):
        there = run(over_http(tmp_path, url))
    assert there.trace.data == here.trace.data == (TRACES / "library.synchronized.jsonl").read_bytes()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_library_is_replayed_without_its_server_and_gives_the_published_trace(
    tmp_path: Path, activation: str
) -> None:
    """J8"""
    store = FileStore(tmp_path)
    run(LIBRARY / "library.toml", store=store, activation=activation)

    def make(**how: Any) -> Any:
        scenario = load_scenario(LIBRARY / "library.toml", set={"servers.library.command": ["/no/such/program"]})
        society = scenario.society(store=how["store"], activation=activation)
        society.forced = how["forced"]
        return society

    assert replay(store, make).trace.data == (TRACES / f"library.{activation}.jsonl").read_bytes()


def test_fakes_stand_for_a_whole_server_which_is_not_started() -> None:
    set_ = {"servers.library.command": ["/no/such/program"]}
    scenario = load_scenario(LIBRARY / "library.toml", set=set_)
    fakes = {
        "library__search": lambda title: {"title": title, "copies": 1},
        "library__lend": lambda book, reader: {"book": book, "reader": reader, "left": 0},
        "library__give_back": lambda book, reader: None,
    }
    assert trio.run(scenario.society(tools=fakes).run, scenario.max_ticks).outcome == "satisfied"


def test_a_server_in_a_file_is_pinned_by_its_digest() -> None:
    scenario = load_scenario(LIBRARY / "library.toml", set={"servers.library.digest": "0" * 64})
    with pytest.raises(CatalogChanged, match="give_back, lend, search") as refused:
        trio.run(scenario.society().run, 1)
    digest = refused.value.found
    assert run_pinned(digest) == "finished"


def run_pinned(digest: str) -> str:
    scenario = load_scenario(LIBRARY / "library.toml", set={"servers.library.digest": digest})
    outcome: str = trio.run(scenario.society().run, 1).outcome
    return outcome


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[servers.x]", "a server has either command = [ … ] or url = …"),
        ('[servers.x]\nurl = "u"\ncommand = ["c"]', "a server has either"),
        ('[servers."my server"]\nurl = "u"', "cannot be the name of a tool server"),
        (
            '[servers.x]\nurl = "u"\ntrust = ["everything"]',
            'servers.x.trust[0]: expected one of "reads_only", "idempotent"',
        ),
        ('[servers.x]\nurl = "u"\ndigst = "d"', "servers.x.digst: unknown key; did you mean digest?"),
        (
            '[servers.x]\nurl = "u"\nheaders = { A = { env = "NO_SUCH" } }',
            "the environment variable NO_SUCH is not set",
        ),
    ],
)
def test_what_is_wrong_with_a_server_is_told_before_anything_is_started(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "a.py").write_text("def idle(tick): ...\n")
    (tmp_path / "a.toml").write_text(
        f'code = "a.py"\n{table}\n[[agents]]\nname = "a"\nbehavior = "idle"\n', encoding="utf-8"
    )
    with pytest.raises(ScenarioFaults) as faults:
        load_scenario(tmp_path / "a.toml", environ={})
    assert said in str(faults.value)


def test_agents_name_their_servers_among_their_hosts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from society import AsyncHost\nlocal = AsyncHost()\ndef idle(tick): ...\n")
    agents = '[[agents]]\nname = "a"\nbehavior = "idle"\nhosts = ["local", "libary"]\n'
    (tmp_path / "a.toml").write_text(f'code = "a.py"\n[servers.library]\nurl = "u"\n{agents}')
    with pytest.raises(ScenarioFaults, match=r"agents\[0\]\.hosts\[1\].*did you mean library\?"):
        load_scenario(tmp_path / "a.toml")


def test_the_command_lists_what_each_agent_may_call() -> None:
    command = [sys.executable, "-m", "society", "tools", "library"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    assert "ada, ben\n" in listed
    assert "  library__search · reads only · Tell how many copies of a book are in.\n" in listed
    assert "  library__lend · says idempotent · " in listed
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert found["servers"][0]["digest"] in listed
    assert [agent["name"] for agent in found["agents"]] == ["ada", "ben"]
    lend = found["agents"][0]["tools"][1]
    assert list(lend["input_schema"]["properties"]) == ["book", "reader"]
    assert lend["output_schema"]["properties"]["left"]["type"] == "integer"


def test_a_check_starts_no_server_and_knows_that_rules_may_name_its_tools() -> None:
    command = [sys.executable, "-m", "society", "check", "library"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    assert any("can never do" in line and "library__lend" in line for line in said.splitlines())
    assert "remark" not in said


def test_a_run_of_the_library_goes_on_from_its_folder(tmp_path: Path) -> None:
    def typed(*arguments: str) -> str:
        command = [sys.executable, "-m", "society", *arguments, "--quiet"]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode()

    folder = str(tmp_path / "run")
    assert "finished after 5 rounds" in typed("run", "library", "--store", folder, "--ticks", "5")
    assert "satisfied after 12 rounds" in typed("resume", folder, "--ticks", "20")


def test_a_run_of_the_library_that_is_killed_again_and_again_gives_the_published_trace_and_every_book_is_back(
    tmp_path: Path,
) -> None:
    """J5: with a database that outlives the server, and a server whose word is taken that its tools are idempotent."""
    folder, books = tmp_path / "run", tmp_path / "books.db"
    command = json.dumps(["python", "library_server.py", "--books", str(books)])
    trust = 'servers.library.trust=["reads_only", "idempotent"]'
    typed = ["run", "library", "--store", str(folder), "--set", f"servers.library.command={command}", "--set", trust]
    for records in (9, 22, 40):  # a journal of so many lines, and it is killed wherever it is then
        with subprocess.Popen(
            [sys.executable, "-m", "society", *typed, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as ran:
            while ran.poll() is None and lines_in(folder / "journal.jsonl") < records:
                time.sleep(0.001)
            ran.kill()
        typed = ["resume", str(folder)]
    ended = subprocess.run([sys.executable, "-m", "society", *typed, "--quiet"], capture_output=True, text=True)
    assert ended.returncode == 0 and "satisfied after 12 rounds" in ended.stdout, ended.stdout + ended.stderr
    assert told_of(folder / "trace.jsonl") == told_of(TRACES / "library.synchronized.jsonl")
    with contextlib.closing(sqlite3.connect(books)) as database:
        assert database.execute("SELECT count(*) FROM lent").fetchone() == (0,)


def told_of(path: Path) -> list[dict[str, Any]]:
    """Return the events of a trace, without what a doubt that was settled changes in them."""
    settling = ("attempts", "settled", "sha256")
    events = Trace.load(path).events
    return [{key: value for key, value in event.fields.items() if key not in settling} for event in events]


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


# ── what becomes of calls over HTTP ─────────────────────────────────────────────────────────────────────────────────────


class Handler(BaseHTTPRequestHandler):
    """A server that speaks the protocol by hand, and hangs up or fails as it is asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tool = (message.get("params") or {}).get("name")
        match message["method"]:
            case "initialize":
                server = {"name": "http", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
            case "tools/call" if tool == "hangs_up":
                self.close_connection = True
                return
            case "tools/call" if tool == "gateway":
                self.answers(504, b"<html>time is up</html>", "text/html")
                return
            case "tools/call" if tool == "slow":
                time.sleep(1)
                result = {"content": []}
            case "tools/call":
                result = {"content": [{"type": "text", "text": tool}]}
            case method if method.startswith("notifications/"):
                self.answers(202, b"", "text/plain")
                return
            case _:
                error = {"code": -32601, "message": "Method not found"}
                self.answers(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
                return
        self.answers(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_GET(self) -> None:
        self.answers(405, b"")

    def answers(self, status: int, body: bytes, kind: str = "application/json") -> None:
        with contextlib.suppress(OSError):  # the client may have gone
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("connection", "close")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


TOOLS = ("hangs_up", "gateway", "slow", "works")


def test_a_request_over_http_that_fails_costs_that_call_and_not_the_connection() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    told: list[Any] = []

    def stop() -> None:
        server.shutdown()
        server.server_close()

    async def main() -> None:
        async with connect_async("web", url=f"http://127.0.0.1:{server.server_port}/mcp") as host:
            calls = calling(*((f"web__{tool}", {}) for tool in TOOLS), told=told)
            await town(Agent("ada", calls), hosts=host, limits=Limits(tool_timeout=0.5)).run(1)
            await trio.to_thread.run_sync(stop)
            await town(Agent("ada", calling(("web__works", {}), told=told)), hosts=host).run(1)

    trio.run(main)
    thread.join()
    hung_up, gateway, slow, works, after = told
    assert isinstance(hung_up, ActionInDoubt) and "did not answer" in hung_up.why
    assert isinstance(gateway, ActionInDoubt) and "HTTP status 504" in gateway.why
    assert isinstance(slow, ActionInDoubt) and slow.why == "no answer in time"
    assert works == "works"
    assert isinstance(after, ToolFailed) and after.error == "NotExecuted" and "cannot be reached" in after.message


GROWING = Path(__file__).parent / "growing_server.py"


@pytest.mark.parametrize("over", ["pipes", "http"])
def test_the_sdks_own_server_tells_of_a_catalog_that_changes_while_it_is_open(over: str) -> None:
    told: list[Any] = []

    async def main(url: str | None) -> None:
        where: dict[str, Any] = {"command": ["python", str(GROWING)]} if url is None else {"url": url}
        async with connect_async("growing", **where) as host:
            pin = host.catalog
        async with connect_async("growing", **where, digest=pin) as host:
            echo, grow = ("growing__echo", {"n": 1}), ("growing__grow", {})
            while host._connection is None or not host._connection._stale:
                await trio.sleep(0.01)
            await town(Agent("ada", calling(echo, grow, told=told)), hosts=host).run(1)
            while not isinstance(told[-1], ToolFailed):  # over HTTP it is told beside the answer, perhaps after it
                await town(Agent("ada", calling(echo, told=told)), hosts=host).run(1)

    with contextlib.ExitStack() as stack:
        trio.run(main, None if over == "pipes" else stack.enter_context(listening(GROWING))[0])
    assert told[:2] == [{"result": 1}, {"result": "grown"}]
    assert told[-1].error == "NotExecuted" and "further is new" in told[-1].message


def test_a_server_that_is_killed_over_http_leaves_later_calls_never_sent() -> None:
    told: list[Any] = []

    async def main() -> None:
        with listening() as (url, server):
            async with connect_async("library", url=url) as host:
                search = ("library__search", {"title": "Emma"})
                await town(Agent("ada", calling(search, told=told)), hosts=host).run(1)
                os.kill(server.pid, signal.SIGKILL)
                server.wait()
                await town(Agent("ada", calling(search, told=told)), hosts=host).run(1)

    trio.run(main)
    assert told[0] == {"title": "Emma", "copies": 1}
    assert isinstance(told[1], ToolFailed) and told[1].error == "NotExecuted"
