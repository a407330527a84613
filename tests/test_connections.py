"""Connections of a society: opened with the run, closed with it, and part of its meaning."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from societies import doing_async, town
from test_mcp_host import gone, pid_of, serving

from society import Agent, FileStore, MemoryStore, ResumeRefused, ScenarioError, ServerUnavailable
from society.reruns import replay, resume

TESTS = Path(__file__).parent


def echo(number: int) -> Any:
    return lambda tick: tick.call("srv__echo", n=number)


def test_a_society_opens_its_servers_with_the_run_and_closes_them_after_it() -> None:
    host, pids = serving(), []

    async def ada(tick: Any) -> None:
        pids.append(pid_of(host))
        tick.note(str(await tick.call("srv__echo", n=tick.round)))

    society = town(ada, hosts=host)
    trio.run(society.run, 2)
    trio.run(society.run, 3)
    assert [event.text for event in society.trace.where(kind="note")] == ["{'n': 1}", "{'n': 2}", "{'n': 3}"]
    assert pids[0] == pids[1] != pids[2]
    assert all(map(gone, pids))
    assert society.stats["server srv"] == {"calls": 3, "stray_lines": 0}


def test_servers_are_opened_at_the_same_time_and_one_that_fails_closes_the_others() -> None:
    good, bad = serving("good"), serving("bad", fail=True)
    with pytest.raises(ServerUnavailable, match="no license found"):
        trio.run(town(Agent("ada", doing_async()), hosts=[good, bad]).run, 1)
    assert gone(pid_of(good))


def test_what_only_a_servers_catalog_can_tell_is_told_before_the_first_tick() -> None:
    ticked: list[Any] = []
    society = town(Agent("ada", ticked.append, observe=["clock"]), hosts=serving())
    with pytest.raises(ScenarioError, match="observes 'clock'"):
        trio.run(society.run, 1)
    assert not ticked


def test_a_run_that_is_cancelled_while_a_server_begins_ends_as_cancelled() -> None:
    async def main() -> Any:
        society = town(Agent("ada", doing_async()), hosts=serving(mute=True))
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio.sleep(0.2)
                society.cancel()

            nursery.start_soon(cancel)
            return await society.run(1)

    begun = time.monotonic()
    assert trio.run(main).outcome == "cancelled"
    assert time.monotonic() - begun < 3


def test_a_run_with_a_server_is_replayed_without_it() -> None:
    """J8"""
    store = MemoryStore()

    def make(**how: Any) -> Any:
        return town(Agent("ada", doing_async(echo(1), echo(2))), hosts=serving(), **how)

    trio.run(make(store=store).run, 2)
    assert (
        replay(store, lambda **how: town(Agent("ada", doing_async(echo(1), echo(2))), hosts=lost(), **how)).rounds == 2
    )


def lost() -> Any:
    """Return a host whose server is not there any more."""
    from society import connect_async

    return connect_async("srv", command=["/no/such/program"])


def test_a_run_is_not_resumed_with_a_catalog_that_has_changed() -> None:
    """J7: tools are meaning."""
    store = MemoryStore()

    def make(tools: list[str], **how: Any) -> Any:
        return town(Agent("ada", doing_async(echo(1), echo(2))), hosts=serving(tools=tools), store=store, **how)

    trio.run(make(["echo"]).run, 1)
    with pytest.raises(ResumeRefused, match=r"servers\.srv\.tools\.more is new"):
        trio.run(make(["echo", "more"]).run, 2)
    assert trio.run(make(["echo"]).run, 2).rounds == 2


@pytest.mark.parametrize("store", [MemoryStore, lambda: None], ids=["kept", "not kept"])
def test_a_run_that_has_ended_opens_no_server_again(store: Any) -> None:
    kept = store()

    def make(host: Any) -> Any:
        return town(
            Agent("ada", doing_async(echo(1), echo(2))), hosts=host, store=kept, until=lambda view: view.round == 2
        )

    host = serving()
    society = make(host)
    assert trio.run(society.run, 1).outcome == "finished"
    first = pid_of(host)
    assert trio.run(society.run, 1).outcome == "finished"
    assert pid_of(host) == first
    if kept is None:
        return
    assert trio.run(make(lost()).run, 1).rounds == 1
    with pytest.raises(ServerUnavailable):
        trio.run(make(lost()).run, 2)
    assert trio.run(make(serving()).run, 3).outcome == "satisfied"
    before = kept.read().data
    ended = trio.run(make(lost()).run, 5)
    assert (ended.outcome, ended.rounds) == ("satisfied", 2)
    assert kept.read().data == before


def test_a_run_that_everybody_has_left_opens_no_server_again() -> None:
    store = MemoryStore()

    def make(host: Any) -> Any:
        return town(Agent("ada", lambda tick: tick.retire()), hosts=host, store=store)

    assert trio.run(make(serving()).run, 5).reason == "everybody has left"
    assert trio.run(make(lost()).run, 9).reason == "everybody has left"


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
sys.path.insert(0, {tests!r})
import trio
from societies import doing_async, town
from test_mcp_host import serving
from society import Agent, FileStore

host = serving(tools=["die", "slow"], log={log!r}, stays={stays!r})
call = lambda tick: tick.call({tool!r}, **{arguments!r})
trio.run(town(Agent("ada", doing_async(call)), hosts=host, store=FileStore({folder!r})).run, 1)
"""


def process(tmp_path: Path, tool: str, stays: bool = False, **arguments: Any) -> subprocess.Popen[bytes]:
    how = {"tests": str(TESTS), "log": str(tmp_path / "log"), "folder": str(tmp_path / "run"), "stays": stays}
    script = SCRIPT.format(**how, tool=tool, arguments=arguments)
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)


def wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists() and path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("stays", [False, True])
def test_a_run_that_is_interrupted_or_killed_in_a_call_leaves_no_server_and_the_call_is_in_doubt_on_resume(
    tmp_path: Path, number: signal.Signals, stays: bool
) -> None:
    ran = process(tmp_path, "srv__slow", stays, seconds=30)
    wait_for(tmp_path / "log")
    pids = children_of(ran.pid)
    ran.send_signal(number)
    ran.communicate(timeout=60)
    assert pids and all_gone(pids)

    host = serving(tools=["die", "slow"], log=str(tmp_path / "log"))
    slow = doing_async(lambda tick: tick.call("srv__slow", seconds=30))

    def make(**how: Any) -> Any:
        return town(Agent("ada", slow), hosts=host, on_error="continue", **how)

    result = trio.run(lambda: resume(FileStore(tmp_path / "run"), make, max_ticks=1, force=True))
    assert [action.tool for action in result.in_doubt] == ["srv__slow"]
    assert len((tmp_path / "log").read_text().splitlines()) == 1  # it is not sent again


def test_a_second_interrupt_ends_the_process_at_once_and_its_servers_with_it(tmp_path: Path) -> None:
    how = json.dumps({"tools": ["slow"], "log": str(tmp_path / "log"), "stays": True})
    command = json.dumps(["python", "-S", str(TESTS / "tool_server.py"), how], ensure_ascii=False)
    (tmp_path / "a.py").write_text("async def slow(tick):\n    await tick.call('srv__slow', seconds=30)\n")
    (tmp_path / "a.toml").write_text(
        f'code = "a.py"\n[servers.srv]\ncommand = {command}\n[[agents]]\nname = "ada"\nbehavior = "slow"\n'
    )
    typed = [sys.executable, "-m", "society", "run", str(tmp_path / "a.toml"), "--no-store"]
    ran = subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path / "log")
    servers = children_of(ran.pid)
    ran.send_signal(signal.SIGINT)
    time.sleep(0.2)
    begun = time.monotonic()
    ran.send_signal(signal.SIGINT)
    ran.communicate(timeout=60)
    assert ran.returncode == 130 and time.monotonic() - begun < 1
    assert servers and all_gone(servers)


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def all_gone(pids: list[int]) -> bool:
    for _ in range(1000):
        if all(map(gone, pids)):
            return True
        time.sleep(0.02)
    return False
