"""Everything that is drawn or digested, keyed so that nothing depends on what others draw (R15, Q1, K1).

Knows: how a key becomes random numbers, an order, or an id.
Does not know: who asks. The global random state is neither read nor written.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def digest(*parts: Any) -> bytes:
    """Return the sha256 of the parts as one JSON list: no two lists of parts are spelled alike."""
    return hashlib.sha256(_encode(parts)).digest()


def stream(*key: Any) -> random.Random:
    """Return the stream of random numbers that belongs to `key`."""
    return random.Random(int.from_bytes(digest(*key)))


def activated(activation: str, live: Sequence[str], seed: int, round: int, rate: float | None) -> Sequence[str]:
    """Return the names of those who tick in a round, in order of activation. `live` are in declared order."""
    match activation:
        case "shuffled":
            return shuffled(live, seed, round)
        case "random":
            return drawn(live, seed, round)
        case "partial":
            assert rate is not None
            return joining(live, seed, round, rate)
    return live


def shuffled(names: Iterable[str], seed: int, round: int) -> list[str]:
    """Return the names sorted by sha256(seed, round, name), so that a newcomer moves nobody else."""
    return sorted(names, key=lambda name: digest(seed, round, name))


def drawn(names: Iterable[str], seed: int, round: int) -> list[str]:
    """Return as many names as there are, drawn with replacement."""
    pool = list(names)
    numbers = stream(seed, "random activation", round)
    return [pool[numbers.randrange(len(pool))] for _ in pool]


def joining(names: Iterable[str], seed: int, round: int, rate: float) -> list[str]:
    """Return those of the names that join a round, each with probability `rate`, independent of the others."""
    bound = int(rate * 2**64)
    return [name for name in names if int.from_bytes(digest(seed, round, name, "joins")[:8]) < bound]


def action_id(agent: str, round: int, tick: int, at: str, tool: str, arguments: Any) -> str:
    """Return the id of an action: the same in every run of the scenario."""
    return digest(agent, round, tick, at, tool, arguments).hex()


def idempotency_key(run_id: str, action: str) -> str:
    """Return the key that is the same on every resume of a run, and different for every action and run."""
    return digest(run_id, action).hex()
