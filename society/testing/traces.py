"""Whether two runs have one trace, and if not, where they part.

Knows: what may stand for a trace.
Does not know: how traces come about.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Literal

from society.trace import Trace

SHOWN = 5
"""Differences in the message."""


def same_trace(a: Any, b: Any) -> Literal[True]:
    """Return True if two traces are the same byte for byte.

    Args:
        a: A `Trace`, what has one (a society, a `RunResult`), its bytes, or the path of its file.
        b: Another.

    Raises:
        AssertionError: They differ; with the first differences, in order of the story.
    """
    left, right = trace_of(a), trace_of(b)
    if left.data == right.data:
        return True
    differences = [str(difference) for difference in islice(left.diff(right), SHOWN + 1)]
    more = ["  …"] if len(differences) > SHOWN else []
    raise AssertionError("\n".join(["the traces differ:", *(f"  {one}" for one in differences[:SHOWN]), *more]))


def trace_of(given: Any) -> Trace:
    """Return the trace that something stands for."""
    if isinstance(given, Trace):
        return given
    if isinstance(given, bytes):
        return Trace(given)
    if isinstance(given, str | os.PathLike):
        return Trace.load(given, unfinished=True)
    found = getattr(given, "trace", None)
    if not isinstance(found, Trace):
        raise TypeError(f"{type(given).__name__} has no trace; give a Trace, a society, a result, bytes or a path.")
    return found
