"""One agent by itself: a society of one, for programs that need no more.

Knows: how a society of one is built.
Does not know: how it runs.
"""

from __future__ import annotations

from typing import Any

from society.agent import Agent
from society.declaring import check_kind
from society.run_result import RunResult
from society.societies import AsyncSociety
from society.trace import Trace


class AsyncRuntime:
    """One agent on one host: `await run(max_ticks)`, `cancel()`, `trace.render()`."""

    def __init__(self, agent: Agent, host: Any = None, model: Any = None, **options: Any) -> None:
        check_kind("agent", agent, Agent, default=False)
        self._society = AsyncSociety([agent], hosts=host, model=model, **{"name": agent.name, **options})

    async def run(self, max_ticks: int) -> RunResult:
        return await self._society.run(max_ticks)

    def cancel(self) -> None:
        self._society.cancel()

    @property
    def trace(self) -> Trace:
        return self._society.trace

    @property
    def society(self) -> AsyncSociety:
        return self._society
