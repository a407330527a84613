"""A tool server's process: lines in, lines out, its standard error kept, and an end that is bounded.

It runs in a session of its own, so a Ctrl+C at the terminal is the society's to handle, and whatever it started is ended
with it. Its input is closed first, as the protocol asks; then it is asked to terminate, then killed: 1.5 seconds in all.
When this process is killed and can end nothing, its guard does.

Knows: pipes and processes.
Does not know: what the lines mean.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

KEPT: Final = 4_096
"""Bytes of standard error that are kept, from its end."""
LONGEST: Final = 256 * 1024 * 1024
"""Bytes of one line. A server that never ends its line would use up all memory."""
CLOSED_SECONDS: Final = 0.7
"""How long a server has to leave by itself once its input is closed."""
TERMINATED_SECONDS: Final = 0.5
KILLED_SECONDS: Final = 0.3

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a server sees of the environment besides its own `env`: secrets of this process are not among it."""

groups: set[int] = set()
"""Process groups of servers that run. A process that exits without unwinding ends them first: `kill_all`."""


@attrs.define(eq=False)
class ServerProcess:
    _process: trio.Process
    _end_of_errors: bytes = b""
    _outgoing: trio.MemorySendChannel[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def stderr(self) -> str:
        """The end of what it wrote to its standard error so far."""
        return self._end_of_errors.decode("utf-8", "replace").strip()

    def send_nowait(self, line: bytes) -> None:
        """Hand a line over to be written. What a server does not read waits here, and nobody with it.

        Raises:
            trio.BrokenResourceError: The server takes no more lines.
        """
        assert self._outgoing is not None
        self._outgoing.send_nowait(line)

    async def read(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Hand each line of its standard output over, without its end, until that ends or the process has died."""
        assert self._process.stdout is not None
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := bytes(await self._process.stdout.receive_some(65_536)):
                first, *rest = chunk.split(b"\n")
                pieces.append(first)
                size += len(first)
                for piece in rest:
                    await take(b"".join(pieces))
                    pieces, size = [piece], len(piece)
                if size > LONGEST:
                    return
        if size:
            await take(b"".join(pieces))


@asynccontextmanager
async def started(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None
) -> AsyncGenerator[ServerProcess, None]:
    """Start a server; it has ended, with all that it started, when the block is left.

    Raises:
        OSError: It could not be started.
    """
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in INHERITED if name in os.environ} | dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    groups.add(process.pid)
    outgoing, lines = trio.open_memory_channel[bytes](float("inf"))
    server = ServerProcess(process, outgoing=outgoing)
    guard: trio.Process | None = None
    async with trio.open_nursery() as nursery:
        try:
            with trio.CancelScope(shield=True):  # started for certain, so that it is ended for certain
                guard = await _guarded(process.pid)
            nursery.start_soon(_write, process, lines)
            nursery.start_soon(_keep_errors, server, process)
            nursery.start_soon(_close_after_death, process)
            yield server
        finally:
            # Shielded: whoever cancels, no process is left behind. Each wait inside is bounded.
            with trio.CancelScope(shield=True):
                await _ended(process)
                if guard is not None:
                    guard.kill()  # before its pipe is closed, which would set it off
                    await guard.wait()
                    assert guard.stdin is not None
                    await guard.stdin.aclose()
            groups.discard(process.pid)
            nursery.cancel_scope.cancel()


def kill_all() -> None:
    """Kill every server at once. For a process that is about to exit without unwinding anything."""
    for group in list(groups):
        _signal(group, signal.SIGKILL)


async def _guarded(group: int) -> trio.Process:
    """Start a guard over a process group: a shell that kills it as soon as this process is gone, however it went.

    A server may go on long after its input has ended: it ignores that, or is in the middle of something.
    """
    return await trio.lowlevel.open_process(
        ["/bin/sh", "-c", f"read _; kill -9 -{group}"],
        stdin=subprocess.PIPE,  # which only this process holds open
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _write(process: trio.Process, lines: trio.MemoryReceiveChannel[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async with lines:
            async for line in lines:
                await process.stdin.send_all(line + b"\n")


async def _keep_errors(server: ServerProcess, process: trio.Process) -> None:
    assert process.stderr is not None
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await process.stderr.receive_some(65_536):
            server._end_of_errors = (server._end_of_errors + chunk)[-KEPT:]


async def _close_after_death(process: trio.Process) -> None:
    """End the reading of a server that has died while something it started holds its pipes open."""
    await process.wait()
    await trio.sleep(KILLED_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()


async def _ended(process: trio.Process) -> None:
    if process.stdin is not None:
        await process.stdin.aclose()
    with trio.move_on_after(CLOSED_SECONDS):
        await process.wait()
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with trio.move_on_after(TERMINATED_SECONDS):
            await process.wait()
    _signal(process.pid, signal.SIGKILL)  # also what it started and left behind
    with trio.move_on_after(KILLED_SECONDS):
        await process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()


def _signal(group: int, number: int) -> None:
    """Send a signal to all processes of a group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
