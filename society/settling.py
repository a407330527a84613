"""Doubts that proof clears at a barrier (B4, J4).

Knows: the effects of a round, the doubts before it, and what came back late.
Does not know: how proof is come by.
"""

from __future__ import annotations

from collections.abc import Sequence

from society.barrier import Crossings, effects
from society.records import Late, Settlement
from society.state import State


def settlements(before: State, crossings: Crossings, proofs: Sequence[Late]) -> list[Settlement]:
    """Return the doubts that proof clears at this barrier, in canonical order (B4, J4)."""
    if not proofs:
        return []
    doubts = dict(before.doubts)
    for records in crossings.values():
        doubts.update({action.id: action for action in effects(records) if action.ending == "in_doubt"})
    by_id = {proof.id: proof for proof in proofs}
    return [
        Settlement(action.id, action.agent, "it came back late", by_id[action.id].ending, by_id[action.id].value)
        for action in doubts.values()
        if action.id in by_id
    ]
