"""An agent as it is declared: a name and a behavior, what it observes, and what it starts with.

Knows: which declarations are possible.
Does not know: ticks, rounds, or hosts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from society.errors import ScenarioError, ValueRefused
from society.messages import WORLD
from society.policy import Policy
from society.values import EMPTY, FrozenDict, freeze

if TYPE_CHECKING:
    from society.budget import Budget

Behavior = Callable[[Any], Any]
"""`behavior(tick)`, plain or `async`."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_name(name: Any) -> str:
    """Return `name` if an agent may have it.

    Raises:
        ScenarioError: It is empty, reserved, padded with blanks, or holds control characters.
    """
    if not isinstance(name, str) or not name:
        raise ScenarioError(f"an agent's name is a text, not {name!r}.")
    if name == WORLD:
        raise ScenarioError(f"{WORLD!r} is the sender of scenario events; choose another name.")
    if name != name.strip() or _UNPRINTABLE.search(name):
        raise ScenarioError(
            f"the name {name!r} has blanks around it or characters that cannot be shown; choose another."
        )
    return name


def _values(state: Mapping[str, Any] | None) -> FrozenDict:
    if not isinstance(state, Mapping):
        raise ScenarioError(f"state is a dict of values by name, not {state!r}.")
    try:
        return freeze(dict(state), "state")  # type: ignore[no-any-return]
    except ValueRefused as refused:
        raise ScenarioError(str(refused)) from refused


def _sensors(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ScenarioError(f"observe is a list of sensors' names, not the text {names!r}.")
    return tuple(names)


@attrs.frozen
class Agent:
    """A declared agent."""

    name: str
    behavior: Behavior
    observe: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_sensors)
    """Sensors that are read before the behavior runs, all at once; their values are in `tick.observed`."""
    policy: Policy = attrs.field(factory=Policy, kw_only=True)
    state: FrozenDict = attrs.field(default=EMPTY, kw_only=True, converter=_values)
    """What `tick.state` starts from."""
    public: FrozenDict = attrs.field(default=EMPTY, kw_only=True, converter=_values)
    """What `tick.public`, the part that others may read, starts from."""
    group: str | None = attrs.field(default=None, kw_only=True)
    index: int | None = attrs.field(default=None, kw_only=True)
    """Its number within its group, from 0."""
    model: str | None = attrs.field(default=None, kw_only=True)
    """Which of the society's models it asks; `None` for the only one."""
    budget: Budget | None = attrs.field(default=None, kw_only=True)
    """How much it may use of models, in all its life."""

    def __attrs_post_init__(self) -> None:
        check_name(self.name)
        if not callable(self.behavior):
            raise ScenarioError(f"agent {self.name!r}: its behavior is a function of the tick, not {self.behavior!r}.")
        if inspect.isgeneratorfunction(self.behavior) or inspect.isasyncgenfunction(self.behavior):
            raise ScenarioError(
                f"agent {self.name!r}: its behavior holds a `yield`, so that calling it would run nothing; "
                "write `await`, or put the generator into a function of its own."
            )


def qualified(function: Any) -> str:
    """Return the name by which a function is found again in another process: `module:qualname`."""
    function = getattr(function, "func", function)  # functools.partial
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}"
