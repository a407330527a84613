"""Crashes in process: killed at any write, resumed, killed again, on other schedules, and the run is what it would have been."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from typing import Any

import pytest
from schedules import run
from societies import drawn_plan, planned

import society.survival
from society import WAIT, Agent, AsyncHost, AsyncSociety, Limits, Policy, Shared, Society, load_scenario
from society.testing import CrashChangedRun, crash_everywhere
from tests.publish import PUBLISHED, ROOT

ACTIVATIONS = (None, "sequential", "shuffled", "random")


def scheduled(function: Any, number: int) -> Any:
    """Run each process of a life on a schedule of its own."""
    return run(function, schedule=number)


@pytest.fixture(params=[None, 2_000], ids=["plain", "checkpoints"])
def checkpoints(request: Any, monkeypatch: Any) -> None:
    """Run a test without checkpoints, and with many of them."""
    if request.param is not None:
        monkeypatch.setattr(society.survival, "LEAST_BYTES", request.param)


# ── random societies ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("number", range(3))
def test_random_societies_end_as_if_nothing_had_happened(activation: str | None, number: int, monkeypatch: Any) -> None:
    """J5, each process with other delays and another order of tasks."""
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 5_000)
    plan = drawn_plan(500 + number)
    schedules = itertools.count()

    def make(store: Any) -> AsyncSociety:
        town = planned(plan, next(schedules), turns=activation)
        town.store = store
        return town

    tried = crash_everywhere(make, plan.rounds, most=30, seed=number, run=scheduled)
    assert tried.crashes > 30
