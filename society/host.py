"""Hosts: the tools, sensors and sub-agents that agents reach the world through.

A host refuses every effect that comes without the gate's permit (K2), whoever calls it.

Knows: what is registered, and how a function is called: awaited in the loop, in a worker thread, or where it stands.
Does not know: policies, limits, journals, or which agent asks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import attrs

from society import permit as permits
from society.errors import AsyncioNeeded, ScenarioError, leaves, suggestion
from society.slots import Place
from society.values import plain

Function = TypeVar("Function", bound=Callable[..., Any])


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling `function` gives something to await, as far as can be seen without calling it."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


@attrs.frozen(kw_only=True)
class Tool:
    name: str
    function: Callable[..., Any]
    idempotent: bool = False
    """Calling it twice with one idempotency key has the effect once: a doubt is settled by calling again."""
    reads_only: bool = False
    """It has no effect: its calls overlap within a tick."""
    timeout: float | None = None
    """Seconds; the society's `tool_timeout` where None."""
    thread: bool = True
    """A plain function runs in a worker thread; otherwise where it stands, for quick, pure ones."""
    loop: str | None = None
    """`"asyncio"`: it is called and awaited in an asyncio loop of its host; None: in trio."""
    awaited: bool = attrs.field(init=False)
    """It is an `async` function."""

    @awaited.default
    def _is_awaited(self) -> bool:
        return is_async(self.function)


@attrs.frozen(kw_only=True)
class Sensor:
    name: str
    function: Callable[..., Any]
    thread: bool = True


@attrs.frozen(kw_only=True)
class SubAgent:
    name: str
    function: Callable[..., Any]
    with_tick: bool
    """`f(tick, payload)`: code like a behavior. Otherwise `f(payload)`: opaque, an effect like a tool's."""


class Host(Protocol):
    """What the gate asks of a host; `AsyncHost` is the ordinary one."""

    tools: Mapping[str, Tool]
    sensors: Mapping[str, Sensor]
    subagents: Mapping[str, SubAgent]
    reconcilers: Mapping[str, Callable[..., Any]]
    approver: Any
    asker: Any

    def invoke(self, tool: str, arguments: Mapping[str, Any], permit: Any = None) -> Awaitable[Any]: ...

    async def perceive(self, sensor: str, place: Place) -> Any: ...


class AsyncHost:
    """Tools, sensors, sub-agents and people, registered by decorators.

    Functions may be plain or `async`. Plain ones run in worker threads and block nobody; a plain function that returns
    an awaitable is awaited.
    """

    def __init__(self, *, approver: Any = None, asker: Any = None) -> None:
        self.tools: dict[str, Tool] = {}
        self.sensors: dict[str, Sensor] = {}
        self.subagents: dict[str, SubAgent] = {}
        self.reconcilers: dict[str, Callable[..., Any]] = {}
        self.approver = approver
        """`approver(request)`, plain or async; only `True` approves."""
        self.asker = asker
        """`asker(question)`, plain or async: a person who answers."""
        self._asyncio: Any = None

    source = "a host of its own functions"
    """Where its tools come from, in a few words, for errors."""

    def sensor(self, name: str, *, thread: bool = True) -> Callable[[Function], Function]:
        """Register a function without arguments that returns what it perceives."""

        def register(function: Function) -> Function:
            self._free(name, self.sensors, "sensor", function)
            self.sensors[name] = Sensor(name=name, function=function, thread=thread)
            return function

        return register

    def tool(
        self,
        name: str,
        *,
        idempotent: bool = False,
        reads_only: bool = False,
        timeout: float | None = None,
        thread: bool = True,
        loop: str | None = None,
    ) -> Callable[[Function], Function]:
        """Register a tool.

        Args:
            name: What agents call it by.
            idempotent: Calling it again with the same idempotency key has no further effect.
            reads_only: It has no effect at all; its calls overlap within a tick.
            timeout: Seconds, instead of the society's `tool_timeout`.
            thread: False calls a plain function where it stands: for quick, pure ones.
            loop: `"asyncio"` for a function that awaits asyncio (aiohttp, asyncpg): it runs in an asyncio loop of this host.
        """
        if loop not in (None, "asyncio"):
            raise ScenarioError(f'tool {name!r}: a loop is "asyncio", or left out for trio, not {loop!r}.')
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ScenarioError(f"tool {name!r}: a timeout is a number of seconds above 0, not {timeout!r}.")

        def register(function: Function) -> Function:
            self._free(name, self.tools, "tool", function)
            self.tools[name] = Tool(
                name=name,
                function=function,
                idempotent=idempotent,
                reads_only=reads_only,
                timeout=timeout,
                thread=thread,
                loop=loop,
            )
            return function

        return register

    def subagent(self, name: str) -> Callable[[Function], Function]:
        """Register `f(tick, payload)`, run like a behavior under its caller's policy, or `f(payload)`, an effect like a
        tool's: rules name it like a tool, and their conditions see `args.payload`."""

        def register(function: Function) -> Function:
            self._free(name, self.subagents, "sub-agent", function)
            takes = [
                parameter
                for parameter in inspect.signature(function).parameters.values()
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            ]
            if len(takes) not in (1, 2):
                raise ScenarioError(
                    f"sub-agent {name!r}: it takes (tick, payload) or (payload), not {len(takes)} arguments."
                )
            self.subagents[name] = SubAgent(name=name, function=function, with_tick=len(takes) == 2)
            return function

        return register

    def reconciler(self, tool: str) -> Callable[[Function], Function]:
        """Register `f(action)` that finds out what became of an action of `tool` in doubt.

        It returns the tool's result, or `NOT_EXECUTED`, or raises if it cannot tell.
        """

        def register(function: Function) -> Function:
            self._free(tool, self.reconcilers, "reconciler", function)
            self.reconcilers[tool] = function
            return function

        return register

    def _free(self, name: str, registered: Mapping[str, Any], what: str, function: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ScenarioError(f"a {what}'s name is a text, not {name!r}.")
        if not callable(function):
            raise ScenarioError(f"{what} {name!r}: {function!r} is no function.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ScenarioError(
                f"{what} {name!r} has a `yield`: calling it runs nothing. Return a value, or a list of them."
            )
        if name in registered:
            raise ScenarioError(f"{what} {name!r} is registered twice on one host; choose another name.")

    def invoke(self, tool: str, arguments: Mapping[str, Any], permit: Any = None) -> Awaitable[Any]:
        """Call a tool; awaited, gives what it returned. Only the gate can: it alone has permits.

        Raises:
            PermitError: There is no permit, or it is spent, forged, or for another action.
        """
        granted = permits.check(permit, tool, arguments)
        place = granted.place
        found = self.tools.get(tool)
        if found is None:
            raise ScenarioError(f"tool {tool!r} is not on this host.{suggestion(tool, self.tools)}")
        if found.loop is not None:
            return self._in_asyncio(found.function, place, **plain(granted.arguments))
        if not found.awaited:
            return called(found.function, place, found.thread, **plain(granted.arguments))
        place.began = True
        return found.function(**plain(granted.arguments))  # type: ignore[no-any-return]

    def _in_asyncio(self, function: Callable[..., Any], place: Place, /, **arguments: Any) -> Awaitable[Any]:
        if self._asyncio is None:
            from society.asyncio_loop import AsyncioLoop

            self._asyncio = AsyncioLoop()
        return self._asyncio.call(function, place, **arguments)  # type: ignore[no-any-return]

    async def perceive(self, sensor: str, place: Place) -> Any:
        """Return what a sensor returns now."""
        found = self.sensors[sensor]
        return await called(found.function, place, found.thread)


async def called(function: Callable[..., Any], place: Place, thread: bool, /, *args: Any, **named: Any) -> Any:
    """Call a function the way it wants to be called, in a place that it holds until it has really ended."""
    if thread and not is_async(function):
        result = await place.run_in_thread(function, *args, **named)
    else:
        place.began = True
        result = function(*args, **named)
        place.interruptible = False
    if inspect.isawaitable(result):
        place.interruptible = True
        result = await result
    return result


_ASYNCIO_SIGNS: Final = ("no running event loop", "used inside a task", "determine the parent task")
"""What asyncio and aiohttp say where no loop runs, or one runs that this function is not a task of."""


def explained(error: BaseException, name: str) -> BaseException:
    """Return an error that says what to do, where a function awaited asyncio inside trio; else the error as it is."""
    for leaf in leaves(error):
        said = str(leaf)
        if (isinstance(leaf, RuntimeError) and any(sign in said for sign in _ASYNCIO_SIGNS)) or (
            isinstance(leaf, TypeError) and "some other framework like asyncio" in said
        ):
            return AsyncioNeeded(name, said.splitlines()[0])
    return error


@attrs.frozen
class Desk:
    """All that one agent reaches through its hosts, joined."""

    hosts: tuple[Any, ...]
    tools: dict[str, tuple[Any, Tool]]
    sensors: dict[str, Any]
    subagents: dict[str, tuple[Any, SubAgent]]
    reconcilers: dict[str, tuple[Any, Callable[..., Any]]]

    def person(self, role: str) -> Any:
        """Return the first host's `approver` or `asker`."""
        return next((found for host in self.hosts if (found := getattr(host, role, None)) is not None), None)


def join(hosts: Sequence[Any], agent: str) -> Desk:
    """Return one agent's hosts as one desk.

    Raises:
        ScenarioError: Two hosts offer one name; it is never the first that wins in silence.
    """
    desk = Desk(tuple(hosts), {}, {}, {}, {})
    for host in hosts:
        for what, registered, joined in (
            ("tool", host.tools, desk.tools),
            ("sensor", host.sensors, desk.sensors),
            ("sub-agent", host.subagents, desk.subagents),
            ("reconciler", host.reconcilers, desk.reconcilers),
        ):
            for name, found in registered.items():
                if name in joined:
                    raise ScenarioError(_twice(agent, what, name, hosts))
                joined[name] = host if what == "sensor" else (host, found)
    return desk


def _twice(agent: str, what: str, name: str, hosts: Sequence[Any]) -> str:
    """Return the sentence that names all hosts of an agent that offer one name."""
    offered = {"tool": "tools", "sensor": "sensors", "sub-agent": "subagents", "reconciler": "reconcilers"}[what]
    sources = [
        f"host {number + 1} ({getattr(host, 'source', type(host).__name__)})"
        for number, host in enumerate(hosts)
        if name in getattr(host, offered)
    ]
    count = {2: "two", 3: "three"}.get(len(sources), len(sources))
    return (
        f"agent {agent!r}: the {what} {name!r} is offered by {count} of its hosts: {', '.join(sources)}. "
        "It is never the first that wins; rename all but one."
    )
