"""A host that answers as it is told, and remembers what it was asked.

Everything of it is called where it stands, never in a thread: a clock that jumps does not wait for threads.

Knows: answers by name, and the calls that came.
Does not know: societies; it goes through the gate like every host, and refuses calls without a permit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from society.errors import PermitError
from society.host import AsyncHost
from society.permit import CurrentAction
from society.values import UNKNOWN, Value

Function = TypeVar("Function", bound=Callable[..., Any])


@attrs.frozen
class Call:
    """One call of a tool, attempts of one action counted singly."""

    tool: str
    arguments: Value
    agent: str
    round: int
    id: str = attrs.field(repr=False, eq=False)
    """As in the trace."""
    attempt: int = 1


class FakeHost(AsyncHost):
    """A host of fakes.

    Args:
        tools: By name, what each gives: a function of its arguments, plain or `async`; an exception, which is raised; or a
            value. Give those that need it their declaration by the decorators: `@host.tool("pay", idempotent=True)`.
        sensors: Likewise; `UNKNOWN` for one that is silent.
        approver, asker: As for `AsyncHost`.
    """

    def __init__(
        self,
        tools: Mapping[str, Any] | None = None,
        sensors: Mapping[str, Any] | None = None,
        *,
        approver: Any = None,
        asker: Any = None,
    ) -> None:
        super().__init__(approver=approver, asker=asker)
        self._calls: list[tuple[CurrentAction, Call]] = []
        for name, answer in (tools or {}).items():
            self.tool(name)(answering(answer))
        for name, answer in (sensors or {}).items():
            self.sensor(name)(answering(answer))

    def tool(self, name: str, **declared: Any) -> Callable[[Function], Function]:
        """Register a tool, as `AsyncHost.tool` does, to be called where it stands."""
        return super().tool(name, **{**declared, "thread": False})

    def sensor(self, name: str, **declared: Any) -> Callable[[Function], Function]:
        """Register a sensor, as `AsyncHost.sensor` does, to be called where it stands."""
        return super().sensor(name, **{**declared, "thread": False})

    @property
    def calls(self) -> list[Call]:
        """The calls that came, in canonical order: by round, order of activation, ordinal; not in order of arrival."""
        return [call for _, call in sorted(self._calls, key=lambda made: (made[0].round, made[0].order))]

    async def invoke(self, tool: str, arguments: Mapping[str, Any], permit: Any = None) -> Any:
        """Call a tool; see `AsyncHost.invoke`."""
        action = getattr(permit, "action", None)
        if action is None:
            return await super().invoke(tool, arguments, permit)
        made = action, Call(tool, arguments, action.agent, action.round, action.id, action.attempt)
        self._calls.append(made)
        try:
            return await super().invoke(tool, arguments, permit)
        except PermitError:
            self._calls.remove(made)  # it was refused, and reached no tool
            raise


def answering(answer: Any) -> Callable[..., Any]:
    """Return a function that gives an answer, whatever it is asked."""
    if answer is UNKNOWN:
        return answering(TimeoutError("silent, as told"))
    if isinstance(answer, BaseException) or (inspect.isclass(answer) and issubclass(answer, BaseException)):

        def raises(**_: Any) -> Any:
            raise answer

        return raises
    if callable(answer):
        return answer  # type: ignore[no-any-return]

    def gives(**_: Any) -> Any:
        return answer

    return gives
