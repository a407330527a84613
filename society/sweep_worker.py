"""A process that carries out runs of a sweep: a job as a line of JSON comes in, the rows of its run as a line go out.

Run as `python -m society.sweep_worker`; it ends with its input, in the middle of a run too: nobody is there any more who
would hear of it.

Knows: one run at a time.
Does not know: the plan, or other workers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any, Final

import msgspec
import trio

from society.errors import SocietyError, described
from society.load import load_scenario
from society.server_process import kill_all

MEANING: Final = 16
"""Digits of a fingerprint that a row has."""


def main() -> None:
    """Carry out jobs until there are no more."""
    # What a scenario's code prints must not stand among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_take, args=(jobs,), daemon=True).start()
    while True:
        line = jobs.get()
        rows = carried_out(msgspec.json.decode(line))
        data = memoryview(msgspec.json.encode(rows) + b"\n")
        while data:
            data = data[answers.write(data) :]


def _take(jobs: SimpleQueue[bytes]) -> None:
    """Hand jobs on as they come in; end the process when the sweep has gone, killed perhaps."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    kill_all()
    os._exit(0)


def carried_out(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what there is to say of a run: one row, or one for each round where `series` is asked for."""
    try:
        scenario = load_scenario(job["path"], set=job["set"])
        town = scenario.society(activation=job["activation"])
        result = trio.run(town.run, job["max_ticks"] or scenario.max_ticks)
    except SocietyError as error:
        return [{"outcome": "error", "reason": str(error)}]
    except (
        Exception,
        SystemExit,
    ) as error:  # the author's code outside of ticks, such as a measure: a row, not the end
        kind, message = described(error)
        return [{"outcome": "error", "reason": f"{kind}: {message}"}]
    assert result.trace is not None  # a digest is what a run is told by
    measures = {name: [_number(value) for value in values] for name, values in result.measures.items()}
    names = {name: f"{name}.mean" if isinstance(values[0], dict) else name for name, values in result.measures.items()}
    ended = {
        "outcome": result.outcome,
        "reason": result.reason,
        "rounds": result.rounds,
        "digest": result.trace.digest,
        "meaning": scenario.fingerprint[:MEANING],
    }
    if not job["series"]:
        return [{**ended, **{names[name]: values[-1] for name, values in measures.items()}}]
    return [
        {**ended, "round": round, **{names[name]: values[round] for name, values in measures.items()}}
        for round in range(result.rounds + 1)
    ]


def _number(value: Any) -> Any:
    """Return a measure as one number: of one for each agent, the mean."""
    if not isinstance(value, dict):
        return value
    return sum(value.values()) / len(value) if value else None


if __name__ == "__main__":
    main()
