"""What the process says when it ends: one table of exit codes (C1), and which code wins when several hold.

Knows: codes, outcomes, and the order among codes.
Does not know: processes, signals, or where the facts come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from society.lines import counted

DONE: Final = 0
FAILED: Final = 1
WRONG: Final = 2
IN_DOUBT: Final = 3
DIFFERENCE: Final = 4
INTERRUPTED: Final = 130
TERMINATED: Final = 143

MEANINGS: Final[Mapping[int, str]] = {
    DONE: "done",
    FAILED: "the run failed, ticks failed, a guard ended it, or it waits for a person",
    WRONG: "wrong usage or scenario",
    IN_DOUBT: "actions are in doubt",
    DIFFERENCE: "a difference",
    INTERRUPTED: "interrupted (SIGINT)",
    TERMINATED: "interrupted (SIGTERM)",
}

PRECEDENCE: Final = (WRONG, INTERRUPTED, TERMINATED, DIFFERENCE, FAILED, IN_DOUBT, DONE)
"""If several hold, the first of these."""

OUTCOMES: Final[Mapping[str, int]] = {
    "finished": DONE,
    "satisfied": DONE,
    "quiet": DONE,
    "failed": FAILED,
    "conflict": FAILED,
    "budget": FAILED,
    "waiting": FAILED,
    "cancelled": INTERRUPTED,
    "interrupted": INTERRUPTED,
}
"""What a run's outcome (R14) says by itself."""

SIGNALS: Final[Mapping[int, int]] = {2: INTERRUPTED, 15: TERMINATED}
"""Signal numbers and the codes they stand for."""


@attrs.frozen
class Verdict:
    """An exit code, with the sentence that the last line says."""

    code: int
    why: str

    def __str__(self) -> str:
        return f"exit {self.code}: {self.why}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the one of several verdicts that decides; `done` when there is none."""
    return min(verdicts, key=lambda verdict: PRECEDENCE.index(verdict.code), default=Verdict(DONE, MEANINGS[DONE]))


def of_run(
    outcome: str,
    reason: str = "",
    *,
    rounds: int,
    failed_ticks: int = 0,
    cut_short: int = 0,
    in_doubt: int = 0,
    signal: int | None = None,
    onward: str | None = None,
) -> Verdict:
    """Return what a run's end means for the process.

    Args:
        outcome: One of `OUTCOMES`.
        reason: Why, as the run says it.
        rounds: How many rounds there were.
        failed_ticks: Ticks that failed or were late although the run went on.
        cut_short: Agent loops that a guard ended, or that ended otherwise than as done, and nothing acted instead.
        in_doubt: Actions that may or may not have happened.
        signal: Number of the signal that ended the run, if one did.
        onward: The command that leads on, if something is left to do.
    """
    after = f"{outcome} after {counted(rounds, 'round')}"
    code = OUTCOMES.get(outcome, FAILED)
    if code == INTERRUPTED and signal is not None:
        code = SIGNALS.get(signal, INTERRUPTED)
    # Of a good end the outcome says enough.
    holds = [Verdict(code, f"{after}: {reason}" if reason and code != DONE else after)]
    if failed_ticks and code == DONE:
        holds.append(Verdict(FAILED, f"{after}, but {counted(failed_ticks, 'tick')} failed"))
    if cut_short and code == DONE:
        holds.append(Verdict(FAILED, f"{after}, but {counted(cut_short, 'agent loop')} did not end as done"))
    if in_doubt:
        holds.append(Verdict(IN_DOUBT, f"{after}, with {counted(in_doubt, 'action')} in doubt"))
    found = worst(holds)
    return attrs.evolve(found, why=f"{found.why}; go on with: {onward}") if onward else found
