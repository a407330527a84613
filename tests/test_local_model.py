"""A real model, small and on loopback: the whole way from a scenario to its trace, without a key and without a network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="`make local` installs it")

from tests.local_model import served, weights

ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def town_hall(address: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run the town hall, with short speeches, in a process that has no key."""
    command = ["run", str(ROOT / "scenarios" / "townhall.toml"), "--model", "local", "--base-url", address, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
    told = subprocess.run(
        [sys.executable, "-m", "society", *command, "--set", "words=8", "--store", str(folder), *more],
        capture_output=True,
        timeout=250,
        env=environment,
    )
    assert told.returncode == 0, told.stderr.decode()
    document: dict[str, Any] = json.loads(told.stdout)
    return document


def first_rounds(folder: Path, rounds: int) -> list[str]:
    lines = (folder / "trace.jsonl").read_text("utf-8").splitlines()
    return [line for line in lines if json.loads(line).get("round", rounds + 1) <= rounds and '"end"' not in line]


def test_a_town_hall_of_a_real_model_ends_well_and_begins_the_same_way_again(tmp_path: Path) -> None:
    """The second run is a short one: prompts cost this model most of its time."""
    assert weights().stat().st_size > 10**7
    with served(free_port()) as address:
        whole = town_hall(address, tmp_path / "whole")
        short = town_hall(address, tmp_path / "short", "--ticks", "3")

    assert whole["outcome"] == "finished" and whole["metrics"]["llm_calls"] == 15
    assert whole["usage"]["output_tokens"] > 0 and whole["metrics"]["failed_ticks"] == 0
    assert len(whole["shared"]["minutes"]) == 10
    assert short["outcome"] == "finished" and short["metrics"]["llm_calls"] == 5
    assert first_rounds(tmp_path / "whole", 3) == first_rounds(tmp_path / "short", 3)
