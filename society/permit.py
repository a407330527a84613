"""Permits: leave for one action with exactly these arguments, good for one use (K2).

Knows: how a permit is given, spent, and told from a forged one.
Does not know: policies or people. Only the gate gives permits; a host spends them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NoReturn

import attrs
import msgspec

from society.draw import idempotency_key
from society.errors import PermitError
from society.slots import Place
from society.values import Value

_GATE: Final = object()
_encode = msgspec.json.Encoder().encode


@attrs.frozen
class CurrentAction:
    """What a tool may know of the action it carries out."""

    id: str
    """The same in every run of the scenario; traces show it."""
    agent: str
    round: int
    attempt: int
    """1, or 2 where an action in doubt of an idempotent tool is called again."""
    order: tuple[int, ...]
    """Its place in the round: the tick's in order of activation, from 0, then the ordinal within the tick."""
    _run_id: str = attrs.field(repr=False)

    @property
    def idempotency_key(self) -> str:
        """The same on every resume of this run, different for every action and run: hand it to the service that is called."""
        return idempotency_key(self._run_id, self.id)


current: ContextVar[CurrentAction | None] = ContextVar("society_current_action", default=None)


def current_action() -> CurrentAction:
    """Return the action that the running tool carries out. It only tells; it grants nothing.

    Raises:
        PermitError: No tool is running here.
    """
    action = current.get()
    if action is None:
        raise PermitError("current_action", "no tool is running here")
    return action


class Permit:
    """Leave for one action. It cannot be made, copied or stored; the gate gives it to the host that is called."""

    __slots__ = ("_spent", "action", "arguments", "place", "tool")

    def __init__(self, gate: object, action: CurrentAction, tool: str, arguments: Value, place: Place) -> None:
        if gate is not _GATE:
            raise PermitError(tool, "a permit that was not given by the gate")
        self.action = action
        self.tool = tool
        self.arguments = arguments
        self.place = place
        self._spent = False

    def spend(self, tool: str, arguments: Value) -> None:
        """Use the permit up for calling `tool` with `arguments`.

        Raises:
            PermitError: It is spent, or it is for another action.
        """
        if self._spent:
            raise PermitError(tool, "this permit was used before; each is good for one call")
        if tool != self.tool:
            raise PermitError(tool, f"this permit is for {self.tool!r}")
        # Compared as they are written: 1, 1.0 and true are equal to Python, but not the same arguments.
        if arguments is not self.arguments and _encode(arguments) != _encode(self.arguments):
            raise PermitError(tool, "this permit is for other arguments")
        self._spent = True

    def _refuse(self, *_: object) -> NoReturn:
        raise PermitError(self.tool, "a permit cannot be copied or stored")

    __copy__ = __deepcopy__ = __reduce__ = _refuse
    __reduce_ex__ = _refuse


def give(action: CurrentAction, tool: str, arguments: Value, place: Place) -> Permit:
    """Give a permit. Called by the gate alone."""
    return Permit(_GATE, action, tool, arguments, place)


def check(permit: Any, tool: str, arguments: Value) -> Permit:
    """Return the permit, spent, or refuse.

    Raises:
        PermitError: It is missing, forged, used, or for something else.
    """
    if type(permit) is not Permit:
        raise PermitError(
            tool, "called without a permit" if permit is None else "called with something that is no permit"
        )
    try:
        permit.spend(tool, arguments)
    except AttributeError as unmade:  # made by `object.__new__`: no gate ever saw it
        raise PermitError(tool, "called with a forged permit") from unmade
    return permit
