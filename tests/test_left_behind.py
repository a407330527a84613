"""Commands that start processes of their own: however they end, none is left behind, and they say so in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_connections import all_gone, children_of, wait_for

from society.run_lock import alive

TESTS = Path(__file__).parent


def scenario(folder: Path, tool: str, **how: object) -> Path:
    command = json.dumps(["python", "-S", str(TESTS / "tool_server.py"), json.dumps(how)], ensure_ascii=False)
    (folder / "a.py").write_text(f"async def act(tick):\n    await tick.call('srv__{tool}', seconds=60)\n")
    (folder / "a.toml").write_text(
        f'code = "a.py"\n[servers.srv]\ncommand = {command}\n[[agents]]\nname = "ada"\nbehavior = "act"\n'
    )
    return folder / "a.toml"


def descendants_of(pid: int) -> list[int]:
    return [found for child in children_of(pid) for found in (child, *descendants_of(child))]


def ended(ran: subprocess.Popen[str], number: signal.Signals) -> list[str]:
    """Send a signal, and return what the command said after all that it had started is gone."""
    started = descendants_of(ran.pid)
    assert started and all(map(alive, started))
    ran.send_signal(number)
    _, said = ran.communicate(timeout=60)
    assert all_gone(started)
    return said.splitlines()


def typed(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "society", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_ended_leaves_neither_workers_nor_their_servers(tmp_path: Path, number: signal.Signals) -> None:
    path = scenario(tmp_path, "slow", tools=["slow"], stays=True, log=str(tmp_path / "log"))
    ran = typed("sweep", str(path), "--seeds", "0:3", "--workers", "2", "--quiet")
    wait_for(tmp_path / "log")
    said = ended(ran, number)
    assert ran.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert said == ([] if number == signal.SIGKILL else [f"exit {128 + number}: interrupted"])


@pytest.mark.parametrize("command", ["compare", "tools"])
def test_an_interrupt_of_a_command_ends_its_servers_and_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    if command == "compare":
        path = scenario(tmp_path, "slow", tools=["slow"], stays=True, log=str(tmp_path / "log"))
    else:
        path = scenario(tmp_path, "slow", mute=True, stays=True, hears=str(tmp_path / "log"))
    ran = typed(command, str(path))
    wait_for(tmp_path / "log")
    assert ended(ran, signal.SIGINT) == ["exit 130: interrupted"]
    assert ran.returncode == 130
