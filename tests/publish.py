"""Write the published traces: each scenario under each activation, as a trace and as text to read.

Run as `python -m tests.publish`, which `make traces` does. `tests/test_scenarios.py` compares what is written here with
what runs give now, byte for byte.

Knows: which scenarios are published, and under which activations.
Does not know: what a scenario shows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio
import trio.testing

from society import load_scenario
from society.shelf import scenario_path
from society.trace import Trace

ROOT: Final = Path(__file__).parent.parent
TRACES: Final = ROOT / "traces"
SCENARIOS: Final = (
    "swap",
    "question",
    "incident",
    "rumor",
    "chain",
    "degroot",
    "cournot",
    "majority",
    "cascade",
    "threshold",
    "commons",
    "vault",
    "townhall",
    "market",
    "werewolf",
    "werewolf_random",
)
ACTIVATIONS: Final = ("synchronized", "sequential", "shuffled", "random")
PUBLISHED: Final = tuple((name, activation) for name in SCENARIOS for activation in ACTIVATIONS)
SERVED: Final = tuple(("library", activation) for activation in ACTIVATIONS)
"""Published, too: those whose tool server is a process of its own, on a clock that cannot jump."""


def publish() -> None:
    """Write all of them."""
    TRACES.mkdir(exist_ok=True)
    for name, activation in PUBLISHED + SERVED:
        for path, content in files(name, activation):
            path.write_bytes(content)


def files(name: str, activation: str) -> Iterator[tuple[Path, bytes]]:
    """Yield (path, content) of what is published of a scenario under an activation."""
    trace = told(name, activation)
    yield TRACES / f"{name}.{activation}.jsonl", trace.data
    yield TRACES / f"{name}.{activation}.txt", trace.render(width=80).encode()


@functools.cache
def told(name: str, activation: str) -> Trace:
    """Return the trace of a run, on a clock that jumps: a trace tells no times, and nobody wants to wait for them."""
    scenario = load_scenario(scenario_path(name))
    town = scenario.society(activation=activation)
    is_here = (name, activation) not in SERVED  # else what is waited for comes from outside
    clock = trio.testing.MockClock(autojump_threshold=0) if is_here else None
    result = trio.run(town.run, scenario.max_ticks, clock=clock)
    assert result.trace is not None
    return result.trace


if __name__ == "__main__":
    publish()
