"""The tally: how a round moves the counts in `metrics`. Counts go on across resumes, since they come from the records.

Knows: the records of a round and the names of the counts.
Does not know: anything that depends on time; waiting for slots is in `stats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from society.records import Answer, Contribution, Crossing, Delegation, Denial, Intent, Model, Read, Result


def tally(
    before: Mapping[str, int],
    *,
    ticks: Sequence[Contribution],
    crossings: Mapping[tuple[str, int], Sequence[Crossing]],
    doubts: int,
    sent: int,
    read: int,
    refused: int,
    undelivered: int,
    waiting: int,
    writes: int,
    conflicts: int,
    births: int,
    retired: int,
) -> Mapping[str, int]:
    """Return the counts after a round. `waiting` is by how many copies the inboxes grew."""
    counts = tally_crossings(before, crossings)
    counts["rounds"] += 1
    counts["ticks"] += len(ticks)
    for contribution in ticks:
        if contribution.ending == "failed":
            counts["failed_ticks"] += 1
        elif contribution.ending == "late":
            counts["late_ticks"] += 1
            counts["timeouts"] += 1
    counts["in_doubt"] = doubts
    counts["messages_sent"] += sent
    counts["messages_read"] += read
    counts["messages_delivered"] += waiting + read
    counts["messages_refused"] += refused
    counts["messages_undelivered"] += undelivered
    counts["shared_writes"] += writes
    counts["shared_conflicts"] += conflicts
    counts["births"] += births
    counts["retired"] += retired
    return counts


def tally_crossings(
    before: Mapping[str, int], crossings: Mapping[tuple[str, int], Sequence[Crossing]]
) -> dict[str, int]:
    """Return the counts after the crossings of a round alone."""
    counts = dict(before)
    for records in crossings.values():
        for record in records:
            _count(counts, record)
    return counts


def _count(counts: dict[str, int], record: Crossing) -> None:
    match record:
        case Read():
            counts["reads"] += 1
        case Intent():
            counts["tool_calls"] += record.attempt == 1 and not record.opaque
        case Denial():
            counts["denied"] += 1
        case Answer():
            counts["questions"] += 1
        case Delegation():
            counts["delegations"] += 1
        case Model():
            counts["llm_calls"] += 1
    if getattr(record, "timed_out", False) and not (isinstance(record, Result) and record.settled):
        counts["timeouts"] += 1
