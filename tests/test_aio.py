"""Societies inside asyncio programs: a web server, a notebook, a task that is cancelled."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import trio
from societies import doing_async, town
from test_mcp_host import gone, pid_of, serving

from society import (
    Agent,
    AsyncHost,
    FileStore,
    MemoryStore,
    ScriptedModel,
    SocietyError,
    ToolFailed,
    TrioNeeded,
    act,
    aio,
)
from society.reruns import resume


def sleeping(seconds: float) -> Any:
    return doing_async(lambda tick: trio.sleep(seconds))


def test_a_society_runs_in_an_asyncio_program_and_gives_the_same_trace() -> None:
    async def ada(tick: Any) -> None:
        await trio.sleep(0.01)
        tick.share("sum", tick.rng.randrange(100))

    def make() -> Any:
        return town(ada, shared={"sum": 0})

    there = asyncio.run(aio.run(make(), 3))
    assert there.outcome == "finished"
    assert there.trace.data == trio.run(make().run, 3).trace.data


def test_what_is_awaited_in_the_wrong_event_loop_says_what_to_write_instead() -> None:
    society = town(Agent("ada", sleeping(0)))

    async def opens() -> None:
        async with serving():
            pass

    for awaited in (society.run(1), society.tick(), opens(), act(ScriptedModel([]), "go")):
        with pytest.raises(TrioNeeded, match=r"await society\.aio\.run\(town, max_ticks\)"):
            asyncio.run(awaited)
    with pytest.raises(SocietyError, match="no asyncio loop runs here"):
        trio.run(aio.run, society, 1)
    assert trio.run(society.run, 1).outcome == "finished"


def test_societies_of_one_loop_run_at_once_and_one_after_another() -> None:
    async def main() -> float:
        begun = time.monotonic()
        await asyncio.gather(*(aio.run(town(Agent("ada", sleeping(0.3))), 1) for _ in range(5)))
        took = time.monotonic() - begun
        for _ in range(3):
            assert (await aio.run(town(Agent("ada", sleeping(0))), 1)).outcome == "finished"
        return took

    assert asyncio.run(main()) < 0.9
    asyncio.run(main())  # and in another loop


def test_an_error_goes_to_who_awaits_it_and_to_nobody_else() -> None:
    async def fails() -> None:
        await trio.sleep(0.01)
        raise ValueError("mine")

    async def main() -> list[Any]:
        society = aio.run(town(Agent("ada", sleeping(0.1))), 1)
        return await asyncio.gather(aio.call(fails), society, return_exceptions=True)

    error, result = asyncio.run(main())
    assert isinstance(error, ValueError) and str(error) == "mine"
    assert result.outcome == "finished"


def test_cancelling_the_asyncio_task_cancels_the_run_which_can_be_resumed() -> None:
    """J10"""
    store, seen, held = MemoryStore(), [], [True]

    async def ada(tick: Any) -> None:
        if held[0]:
            try:
                await trio.sleep_forever()
            finally:
                seen.append("cancelled")
        tick.note("went on")

    def make(**how: Any) -> Any:
        return town(Agent("ada", ada), **how)

    async def main() -> None:
        task = asyncio.create_task(aio.run(make(store=store), 1))
        other = asyncio.create_task(aio.run(town(Agent("bob", sleeping(0.2))), 1))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cancelled"]
        assert (await other).outcome == "finished"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await aio.run(town(Agent("ada", sleeping(30))), 1)

    asyncio.run(main())
    held[0] = False
    assert trio.run(lambda: resume(store, make, max_ticks=1)).outcome == "finished"


INTERRUPTED = """
import asyncio, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
sys.path.insert(0, {tests!r})
from societies import doing_async, town
from test_mcp_host import gone, pid_of, serving
from society import Agent, FileStore, aio

host = serving(tools=["slow"], log={log!r})
slow = doing_async(lambda tick: tick.call("srv__slow", seconds=30))
society = town(Agent("ada", slow), hosts=host, store=FileStore({folder!r}))

def interrupt():
    while not os.path.exists({log!r}):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)

async def main():
    return await asyncio.gather(aio.run(society, 1), aio.run(town(Agent("bob", doing_async())), 1))

threading.Thread(target=interrupt).start()
try:
    {how}
except KeyboardInterrupt:
    print("interrupted", gone(pid_of(host)))
"""


@pytest.mark.parametrize("how", ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"])
def test_an_interrupt_of_an_asyncio_program_ends_its_runs_and_their_servers(tmp_path: Path, how: str) -> None:
    """J10. asyncio's own runner cancels its task; where there is none, trio hears of it."""
    tests, log = str(Path(__file__).parent), str(tmp_path / "log")
    script = INTERRUPTED.format(tests=tests, log=log, folder=str(tmp_path / "run"), how=how)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "interrupted True\n"
    assert ended.stderr == ""

    def make(**how: Any) -> Any:
        slow = doing_async(lambda tick: tick.call("srv__slow", seconds=30))
        return town(Agent("ada", slow), hosts=serving(tools=["slow"], log=log), on_error="continue", **how)

    went_on = trio.run(lambda: resume(FileStore(tmp_path / "run"), make, max_ticks=1, force=True))
    assert [action.tool for action in went_on.in_doubt] == ["srv__slow"]


def test_a_society_inside_asyncio_has_tool_servers_and_asyncio_tools() -> None:
    server, host, pids = serving(), AsyncHost(), []

    @host.tool("ask", loop="asyncio")
    async def ask() -> int:
        await asyncio.sleep(0.01)
        return 7

    @host.tool("forgot")
    async def forgot() -> None:
        await asyncio.sleep(0.01)  # here an asyncio loop is running, though not for this function

    async def ada(tick: Any) -> None:
        pids.append(pid_of(server))
        tick.share("got", [await tick.call("ask"), await tick.call("srv__echo", n=1)])
        await tick.call("forgot")

    society = town(ada, hosts=[host, server], shared={"got": []}, on_error="continue")
    result = asyncio.run(aio.run(society, 1))
    assert "forgot awaits asyncio" in society.render_traces()
    assert result.metrics["failed_ticks"] == 1
    assert all(map(gone, pids))


def test_inside_asyncio_a_function_that_needs_to_be_its_task_is_told_how_to_be_registered() -> None:
    """There a loop does run, but the function is a task of trio's."""
    host, told = AsyncHost(), []

    @host.tool("timed")
    async def timed() -> None:
        async with asyncio.timeout(1):
            pass

    @host.tool("grouped")
    async def grouped() -> None:
        async with asyncio.TaskGroup():
            pass

    @host.tool("fetched")
    async def fetched() -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get("http://127.0.0.1:9/"):
            pass

    async def ada(tick: Any) -> None:
        for tool in ("timed", "grouped", "fetched"):
            try:
                await tick.call(tool)
            except ToolFailed as failed:
                told.append((failed.error, f"{tool} awaits asyncio" in failed.message))

    asyncio.run(aio.run(town(ada, hosts=host), 1))
    assert told == [("AsyncioNeeded", True)] * 3


def test_a_web_application_runs_two_societies_at_once_and_answers_others_meanwhile() -> None:
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    inside, pinged = set(), []

    @app.get("/run/{name}")
    async def run(name: str) -> dict[str, Any]:
        async def waits(tick: Any) -> None:
            """Be done once both societies are in their round, and somebody else was answered."""
            inside.add(name)
            while len(inside) < 2 or not pinged:
                await trio.sleep(0.01)

        result = await aio.run(town(Agent("ada", waits)), 1)
        return {"outcome": result.outcome}

    @app.get("/ping")
    async def ping() -> str:
        pinged.append(len(inside))
        return "pong"

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            return json.loads(response.read())

    async def main() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        runs = [asyncio.create_task(asyncio.to_thread(get, f"/run/{name}")) for name in "ab"]
        while len(inside) < 2:
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(get, "/ping") == "pong"
        assert [await run for run in runs] == [{"outcome": "finished"}] * 2
        server.should_exit = True
        await serving

    asyncio.run(main())


def test_a_notebook_awaits_a_society_at_its_top_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    kernel = tmp_path / "kernels" / "here" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({**spec, "display_name": "here"}))
    for name in ("JUPYTER_PATH", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    cells = [
        """
import trio
import society
from society import Agent, AsyncSociety

async def ada(tick):
    await trio.sleep(0.01)
    tick.share("count", 1)
""",
        """
town = AsyncSociety([Agent("ada", ada)], shared={"count": society.Shared(0, merge="sum")})
result = await society.aio.run(town, 3)
print(result.outcome, result.shared["count"])
""",
        "print((await society.aio.run(town, 5)).shared['count'])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="here", timeout=60).execute()
    printed = [output["text"] for cell in notebook.cells for output in cell.outputs]
    assert printed == ["finished 3\n", "5\n"]
