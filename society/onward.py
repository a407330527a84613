"""How a run goes on that has ended, for now or for good: one row for each outcome.

Knows: outcomes, and the commands that lead on.
Does not know: why a run ended.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

RESUME: Final = "society resume {folder}{ticks}"

ONWARD: Final = {
    None: RESUME,  # the journal just ends: a killed process
    "interrupted": RESUME,
    "cancelled": RESUME,
    "failed": RESUME,
    "budget": RESUME,
    "waiting": "society approve {folder}, then " + RESUME,
    "conflict": "society fork {folder} --at {round}",
    "finished": None,
    "satisfied": None,
    "quiet": None,
}


def onward(outcome: str | None, folder: Path, round: int, ticks: int | None = None) -> str | None:
    """Return the command that leads on from an outcome; `None` where nothing is left to do.

    Args:
        outcome: `None` where the journal ends without one.
        round: The last round that is whole.
        ticks: The number of rounds, where it was not the scenario's own.
    """
    way = ONWARD[outcome]
    if way is None:
        return None
    return way.format(folder=shlex.quote(str(folder)), round=round, ticks="" if ticks is None else f" --ticks {ticks}")
