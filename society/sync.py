"""For programs without an event loop: `act` and `run`, each in a loop of its own.

Knows: that a program without a loop cannot be handed `async def` tools.
Does not know: anything else; the awaited forms do the work.
"""

from __future__ import annotations

import functools
from typing import Any

import trio

from society.acts import ActResult, ActTool
from society.acts import act as awaited_act
from society.errors import AsyncToolRefused
from society.host import is_async


def act(model: Any, prompt: Any = None, **options: Any) -> ActResult:
    """Let a model work with plain functions as tools; takes what `society.acts` takes.

    Raises:
        AsyncToolRefused: A tool is an `async def` function. It is refused before the model is asked.
    """
    options["tools"] = list(options.get("tools", ()))
    for tool in options["tools"]:
        function = tool.function if isinstance(tool, ActTool) else tool
        if is_async(function):
            raise AsyncToolRefused(
                tool.schema.name if isinstance(tool, ActTool) else getattr(tool, "__name__", repr(tool))
            )
    return trio.run(functools.partial(awaited_act, model, prompt, **options))


def run(town: Any, max_ticks: int | None = None) -> Any:
    """Run a society, as `trio.run(town.run, max_ticks)` does, and return its result."""
    return trio.run(town.run, max_ticks)
