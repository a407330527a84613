"""Tool servers as hosts: real servers in processes of their own, well-behaved and not."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from societies import doing_async, town

from society import (
    ActionError,
    ActionInDoubt,
    Agent,
    AsyncHost,
    AsyncMCPHost,
    CatalogChanged,
    Limits,
    PermitError,
    Policy,
    ScenarioError,
    ServerUnavailable,
    ToolFailed,
    allow,
    connect_async,
)
from society.catalog import catalog
from society.run_lock import alive

SERVER = Path(__file__).parent / "tool_server.py"


def serving(name: str = "srv", /, *, connect: dict[str, Any] | None = None, **how: Any) -> AsyncMCPHost:
    """Return a host for a server of its own that behaves as told; `connect` goes to `connect_async`."""
    return connect_async(name, command=[sys.executable, "-S", str(SERVER), json.dumps(how)], **(connect or {}))


def calling(*calls: tuple[str, dict[str, Any]], told: list[Any]) -> Callable[[Any], Any]:
    """Return a behavior that makes calls, one after another, and tells what each of them came to."""

    async def behavior(tick: Any) -> None:
        for tool, arguments in calls:
            try:
                told.append(await tick.call(tool, **arguments))
            except ActionError as error:
                told.append(error)

    return behavior


def came_of(host: Any, *calls: tuple[str, dict[str, Any]], limits: Limits | None = None) -> list[Any]:
    """Return what calls came to, made by one agent in one round on an open host."""
    told: list[Any] = []

    async def main() -> None:
        async with host:
            ada = Agent("ada", calling(*calls, told=told))
            result = await town(ada, hosts=host, limits=limits or Limits()).run(1)
            assert result.outcome == "finished", result.reason

    trio.run(main)
    return told


def gone(pid: int) -> bool:
    return not alive(pid)


def pid_of(host: AsyncMCPHost) -> int:
    assert host._connection is not None and host._connection._process is not None
    return host._connection._process.pid


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_servers_tools_are_called_by_its_name_and_theirs() -> None:
    host = serving("library", tools=["lend", "give.back"])
    told = came_of(host, ("library__lend", {"book": "Emma"}), ("library__give_back", {"n": [1, {"a": None}]}))
    assert told == [{"book": "Emma"}, {"n": [1, {"a": None}]}]
    assert list(host.tools) == ["library__give_back", "library__lend"]
    assert len(host.digest) == 64


def test_an_error_of_a_server_is_a_failure_with_a_text_and_what_it_returns_is_not() -> None:
    """P68"""
    tools = ["quota", "nothing", "unknown", "parts"]
    quota, nothing, unknown, parts = came_of(serving(tools=tools), *((f"srv__{tool}", {}) for tool in tools))
    assert (quota.error, quota.message) == ("ServerToolError", "quota exceeded")
    assert (nothing.error, nothing.message) == ("ServerToolError", "the server says that it failed, and nothing else")
    assert (unknown.error, unknown.message) == ("ServerRefused", "Unknown tool: unknown (code -32602)")
    assert parts == ["one", "two", {"type": "image", "media_type": "image/png", "data": "aGk="}]


def test_a_result_of_five_megabytes_comes_whole() -> None:
    (big,) = came_of(serving(tools=["big"]), ("srv__big", {"bytes": 5_000_000}))
    assert big == "x" * 5_000_000


def test_an_answer_that_no_protocol_knows_leaves_the_call_in_doubt() -> None:
    garbage, after = came_of(serving(tools=["garbage", "echo"]), ("srv__garbage", {}), ("srv__echo", {"n": 1}))
    assert isinstance(garbage, ActionInDoubt)
    assert after == {"n": 1}


def test_a_server_is_told_the_idempotency_key_of_each_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    came_of(serving(log=str(log)), ("srv__echo", {}), ("srv__echo", {}))
    keys = [json.loads(line)[2]["society/idempotency-key"] for line in log.read_text().splitlines()]
    assert len(set(keys)) == 2


def test_a_server_prints_to_its_standard_output_and_works_all_the_same() -> None:
    """P69"""
    host = serving(noise=True)
    assert came_of(host, ("srv__echo", {"city": "東京"})) == [{"city": "東京"}]
    assert host.stats == {"calls": 1, "stray_lines": 3}
    assert host.first_stray_lines == ["Server started", "", "🖥 mode"]


# ── time and death ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_agents_wait_for_two_slow_servers_at_the_same_time() -> None:
    took = 0.0

    async def main() -> None:
        nonlocal took
        async with serving("one", tools=["slow"]) as one, serving("two", tools=["slow"]) as two:
            ada = doing_async(lambda tick: tick.call("one__slow", seconds=1))
            bob = doing_async(lambda tick: tick.call("two__slow", seconds=1))
            agents = [Agent("ada", ada), Agent("bob", bob)]
            begun = time.monotonic()
            await town(*agents, hosts={"ada": one, "bob": two}).run(1)
            took = time.monotonic() - begun

    trio.run(main)
    assert took < 1.9


def test_a_tool_of_a_server_that_is_late_is_in_doubt_and_its_server_serves_on() -> None:
    late, after = came_of(
        serving(tools=["slow", "echo"]),
        ("srv__slow", {"seconds": 30}),
        ("srv__echo", {"n": 1}),
        limits=Limits(tool_timeout=0.2),
    )
    assert isinstance(late, ActionInDoubt) and late.why == "no answer in time"
    assert after == {"n": 1}


def test_a_server_that_dies_in_a_call_leaves_it_in_doubt_and_later_calls_are_never_sent(tmp_path: Path) -> None:
    """P67"""
    log = tmp_path / "log"
    told: list[Any] = []
    other: list[Any] = []

    async def main() -> None:
        async with serving("a", tools=["die"], log=str(log), child=True) as a, serving("b") as b:
            ada = Agent("ada", calling(("a__die", {}), ("a__die", {}), told=told))
            bob = Agent("bob", calling(("b__echo", {"n": 1}), told=other))
            with trio.fail_after(5):
                society = town(ada, bob, hosts={"ada": a, "bob": b})
                result = await society.run(1)
            assert [action.tool for action in result.in_doubt] == ["a__die"]
            async with a:  # opened once more by somebody: nothing is sent again
                pass

    trio.run(main)
    first, second = told
    assert isinstance(first, ActionInDoubt) and "its process ended with code 9" in first.why
    assert isinstance(second, ToolFailed) and second.error == "NotExecuted"
    assert "is gone" in second.message and "out of memory" in second.message
    assert other == [{"n": 1}]
    assert len(log.read_text().splitlines()) == 1


def test_a_server_that_cannot_start_is_told_with_its_standard_error() -> None:
    with pytest.raises(ServerUnavailable, match=r"code 3(.|\n)*no license found"):
        came_of(serving(fail=True))
    with pytest.raises(ServerUnavailable, match="No such file"):
        came_of(connect_async("srv", command=["/no/such/program"]))
    with pytest.raises(ServerUnavailable, match="ConnectError"):
        came_of(connect_async("srv", url="http://127.0.0.1:9/mcp"))


def test_a_mute_server_is_given_up_in_time_and_ended_though_it_clings_to_life() -> None:
    begun = time.monotonic()
    with pytest.raises(ServerUnavailable, match="did not answer within"):
        came_of(serving(mute=True, stays=True, connect={"connect_timeout": 0.3}))
    assert time.monotonic() - begun < 2.6


def test_a_call_to_a_server_in_this_process_that_is_late_is_cancelled_there() -> None:
    from mcp.server.mcpserver import MCPServer

    server, seen = MCPServer("here"), []

    @server.tool()
    async def wait() -> str:
        try:
            await trio.sleep_forever()
        finally:
            seen.append("cancelled")

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    late, after, unfit = came_of(
        connect_async("here", server=server),
        ("here__wait", {}),
        ("here__add", {"a": 1, "b": 2}),
        ("here__add", {"a": "x", "b": 2}),
        limits=Limits(tool_timeout=0.2),
    )
    assert isinstance(late, ActionInDoubt)
    assert seen == ["cancelled"]
    assert after == {"result": 3}
    assert unfit.error == "ServerToolError" and "valid integer" in unfit.message


# ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_pages_of_a_list_are_read_and_a_cursor_that_repeats_is_refused() -> None:
    names = [f"t{number}" for number in range(25)]
    host = serving(tools=names, page=4)
    assert came_of(host, ("srv__t24", {"n": 1})) == [{"n": 1}]
    assert len(host.tools) == 25
    with pytest.raises(ScenarioError, match="never ends: it repeats '0'"):
        came_of(serving(tools=names, cursor="repeat"))


def test_a_pinned_catalog_is_refused_once_it_has_changed_and_refused_again() -> None:
    host = serving(tools=["lend"])
    came_of(host)
    assert host.catalog is not None
    for pin, told in ((host.digest, "it offers now: buy, lend"), (host.catalog, "buy is new")):
        changed = serving(tools=["lend", "buy"], connect={"digest": pin})
        for _ in range(2):
            with pytest.raises(CatalogChanged, match=told):
                came_of(changed)
        assert came_of(serving(tools=["lend"], connect={"digest": pin}), ("srv__lend", {"n": 1})) == [{"n": 1}]


def test_a_pinned_catalog_that_changes_while_it_is_open_is_used_no_more() -> None:
    host = serving(tools=["grow", "echo"])
    came_of(host)
    pinned = serving(tools=["grow", "echo"], connect={"digest": host.catalog})
    grown, after, later = came_of(pinned, ("srv__grow", {}), ("srv__echo", {}), ("srv__echo", {}))
    assert grown == {}
    for refused in (after, later):
        assert refused.error == "NotExecuted"
        assert "further is new" in refused.message


@pytest.mark.parametrize("newer", [True, "drops", "ends"])
def test_a_server_of_the_newer_protocol_tells_on_a_stream_and_one_whose_stream_broke_off_is_asked(newer: Any) -> None:
    pin = catalog("srv", [{**tool, "description": f"It does {tool['name']}."} for tool in NAMED])
    host = serving(tools=["grow", "echo"], newer=newer, connect={"digest": pin})
    told: list[Any] = []

    async def main() -> None:
        async with host:
            assert host._connection is not None
            while not host._connection._stale:  # it is, as soon as the stream is acknowledged
                await trio.sleep(0.01)
            calls = calling(("srv__echo", {"n": 1}), ("srv__grow", {}), ("srv__echo", {}), ("srv__echo", {}), told=told)
            await town(Agent("ada", calls), hosts=host).run(1)

    trio.run(main)
    before, grown, after, later = told
    assert (before, grown) == ({"n": 1}, {})
    for refused in (after, later):
        assert refused.error == "NotExecuted"
        assert "further is new" in refused.message


@pytest.mark.parametrize("newer", ["refuses", "mute"])
def test_a_server_of_the_newer_protocol_that_has_no_stream_of_changes_serves_all_the_same(newer: str) -> None:
    pin = catalog("srv", [{**tool, "description": f"It does {tool['name']}."} for tool in NAMED])
    host = serving(tools=["grow", "echo"], newer=newer, connect={"digest": pin})
    assert came_of(host, ("srv__echo", {"n": 1}), ("srv__grow", {}), ("srv__echo", {"n": 2})) == [
        {"n": 1},
        {},
        {"n": 2},
    ]
    assert gone(pid_of(host))


NAMED = [{"name": "grow"}, {"name": "echo"}]


def test_a_stream_of_changes_that_broke_off_is_opened_again_and_until_then_every_call_looks_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change that nobody told of is found by the next call; where there was none, calls go on."""
    monkeypatch.setattr("society.mcp_connection.LISTEN_AGAIN", 0.05)
    pin = catalog("srv", [{"name": "echo", "description": "It does echo."}])

    async def main() -> None:
        async with serving(tools=["echo"], newer=True, connect={"digest": pin}) as host:
            connection = host._connection
            assert connection is not None
            while not connection._stale:
                await trio.sleep(0.01)
            told: list[Any] = []

            async def call() -> None:
                await town(Agent("ada", calling(("srv__echo", {"n": 1}), told=told)), hosts=host).run(1)

            await call()
            assert not connection._stale
            assert connection._process is not None
            connection._process.send_nowait(b'{"jsonrpc": "2.0", "method": "test/drop"}')
            while not connection._deaf:
                await trio.sleep(0.01)
            await call()
            while connection._deaf:
                await trio.sleep(0.01)
            await call()
            assert told == [{"n": 1}] * 3
            assert not connection._stale

    trio.run(main)


def test_tools_of_one_name_are_refused_before_anything_runs_and_all_sources_are_named() -> None:
    """P17"""
    local = AsyncHost()
    local.tool("alpha__search")(lambda: None)

    async def main() -> None:
        async with serving("alpha", tools=["search"]) as alpha, serving("beta", tools=["search"]) as beta:
            assert {*alpha.tools, *beta.tools} == {"alpha__search", "beta__search"}
            with pytest.raises(ScenarioError, match=r"'alpha__search' is offered by two of its hosts: .*server alpha"):
                town(Agent("ada", doing_async()), hosts=[local, alpha, beta])

    trio.run(main)
    with pytest.raises(ScenarioError, match=r"'a\.b' and 'a/b'"):
        came_of(serving(tools=["a.b", "a/b"]))


HINTED = [{"name": "look", "annotations": {"readOnlyHint": True, "idempotentHint": True}}]


def test_hints_are_shown_and_believed_only_where_that_is_said() -> None:
    host = serving(tools=HINTED)
    came_of(host)
    assert host.catalog is not None
    assert host.catalog.offers[0].hints == {"reads_only": True, "idempotent": True}
    assert not host.tools["srv__look"].reads_only and not host.tools["srv__look"].idempotent
    trusting = serving(tools=HINTED, connect={"trust": ["reads_only"]})
    came_of(trusting)
    assert trusting.tools["srv__look"].reads_only and trusting.tools["srv__look"].idempotent
    trusting = serving(tools=HINTED, connect={"trust": ["idempotent"]})
    came_of(trusting)
    assert trusting.tools["srv__look"].idempotent and not trusting.tools["srv__look"].reads_only
    with pytest.raises(ScenarioError, match="Did you mean 'reads_only'"):
        serving(connect={"trust": ["read_only"]})


# ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_is_reached_through_the_gate_alone() -> None:
    """K2"""

    async def main() -> None:
        async with serving() as host:
            with pytest.raises(PermitError, match="without a permit"):
                await host.invoke("srv__echo", {"n": 1})
            assert host.calls == 0

    trio.run(main)


def test_policies_name_a_servers_tools_by_globs() -> None:
    told: list[Any] = []

    async def main() -> None:
        async with serving() as host:
            ada = Agent("ada", calling(("srv__echo", {"n": 1}), told=told))
            await town(ada, hosts=host, policy=Policy(allow("srv__*", when="args.n > 3"))).run(1)
            assert host.calls == 0

    trio.run(main)
    assert type(told[0]).__name__ == "ActionDenied"


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", ["as opened", "in reverse", "from other tasks"])
@pytest.mark.parametrize("dead", [False, True])
def test_connections_are_closed_in_any_order_from_any_task_though_a_server_has_died(order: str, dead: bool) -> None:
    """P66"""

    async def main() -> None:
        hosts = [serving(f"s{number}", child=True) for number in range(3)]
        async with trio.open_nursery() as nursery:
            for host in hosts:
                nursery.start_soon(host.__aenter__)
        pids = [pid_of(host) for host in hosts]
        if dead:
            os.kill(pids[1], signal.SIGKILL)
            await hosts[1]._connection.ended.wait()  # type: ignore[union-attr]
        begun = time.monotonic()
        if order == "from other tasks":
            async with trio.open_nursery() as nursery:
                for host in hosts:
                    nursery.start_soon(host.__aexit__)
        else:
            for host in hosts if order == "as opened" else reversed(hosts):
                await host.__aexit__()
        assert time.monotonic() - begun < 2
        assert all(map(gone, pids))

    trio.run(main)


@pytest.mark.parametrize("stays", [False, True])
def test_a_cancelled_run_leaves_no_server_behind(stays: bool) -> None:
    pids: list[int] = []

    async def main() -> None:
        with trio.move_on_after(0.5):
            async with AsyncExitStack() as stack:
                hosts = [await stack.enter_async_context(serving(f"s{n}", tools=["slow"], stays=stays)) for n in "ab"]
                pids.extend(map(pid_of, hosts))
                slow = doing_async(lambda tick: tick.call("sa__slow", seconds=30))
                await town(Agent("ada", slow), hosts=hosts).run(1)

    begun = time.monotonic()
    trio.run(main)
    assert time.monotonic() - begun < 0.5 + 2 * 2
    assert len(pids) == 2 and all(map(gone, pids))


def test_a_connection_that_nobody_closes_ends_with_the_program() -> None:
    pids: list[int] = []

    async def main() -> None:
        host = serving(stays=True)
        await host.__aenter__()
        pids.append(pid_of(host))

    trio.run(main)
    assert all(map(gone, pids))


def test_an_idle_connection_uses_no_processor_time() -> None:
    """P66"""

    async def main() -> None:
        async with serving():
            before = time.process_time()
            await trio.sleep(0.5)
            assert time.process_time() - before < 0.1

    trio.run(main)
