"""The cyclic garbage collector, paused over the parts of a round that make many objects and wait for nothing.

What a round makes lives until its barrier and holds no cycles; walking it again and again is what a large society would
spend most of its time on (measured: a ring of 10,000 agents ran at half the rate of one of 1,000).

Knows: one switch, which it leaves as it found it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Let the collector rest; if it was on before, it is on again after."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
