"""Which event loop: what is awaited where no trio runs says so, and what to write instead.

Knows: whether trio runs the code that asks.
Does not know: what other loops there are (aio.py).
"""

from __future__ import annotations

import trio

from society.errors import TrioNeeded


def check_trio(what: str) -> None:
    """Do nothing inside a trio program.

    Raises:
        TrioNeeded: This is none; trio itself would say `must be called from async context`.
    """
    if not trio.lowlevel.in_trio_task():
        raise TrioNeeded(what)
