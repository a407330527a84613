"""Write the published traces: each scenario under each activation, as a trace and as text to read.

Of large boards and crowds only a line is kept for each, in `traces/digests.txt`: the digest of the trace after a few rounds.

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
LARGE: Final = ("dilemma", "life", "voter", "gossip", "segregation", "epidemic")
DIGESTED: Final = tuple((name, activation) for name in LARGE for activation in ACTIVATIONS)
DIGESTS: Final = TRACES / "digests.txt"
ROUNDS: Final = 5
"""After which the traces of large ones are digested."""


def publish() -> None:
    """Write all of them."""
    TRACES.mkdir(exist_ok=True)
    for name, activation in PUBLISHED + SERVED:
        for path, content in files(name, activation):
            path.write_bytes(content)
    DIGESTS.write_text("".join(f"{line(name, activation)}\n" for name, activation in DIGESTED), "utf-8")


def line(name: str, activation: str) -> str:
    """Return what is published of a large scenario under an activation."""
    trace = told(name, activation, ROUNDS)
    return f"{name}.{activation} after {ROUNDS} rounds: sha256 {trace.digest}"


def files(name: str, activation: str) -> Iterator[tuple[Path, bytes]]:
    """Yield (path, content) of what is published of a scenario under an activation."""
    trace = told(name, activation)
    yield TRACES / f"{name}.{activation}.jsonl", trace.data
    yield TRACES / f"{name}.{activation}.txt", trace.render(width=80).encode()


@functools.cache
def told(name: str, activation: str, rounds: int | None = None) -> Trace:
    """Return the trace of a run, as long as the scenario says or of so many rounds.

    The clock jumps: a trace tells no times, and nobody wants to wait for them.
    """
    scenario = load_scenario(scenario_path(name))
    town = scenario.society(activation=activation)
    is_here = (name, activation) not in SERVED  # else what is waited for comes from outside
    clock = trio.testing.MockClock(autojump_threshold=0) if is_here else None
    result = trio.run(town.run, rounds or scenario.max_ticks, clock=clock)
    assert result.trace is not None
    return result.trace


if __name__ == "__main__":
    publish()
