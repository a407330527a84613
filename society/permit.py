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
from society.errors import PermitError, ValueRefused
from society.slots import Place
from society.values import Value, freeze

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
    """Leave for one action. It cannot be made, copied, changed or stored; the gate gives it to the host that is called."""

    __slots__ = ("action", "arguments", "place", "tool")

    action: CurrentAction
    tool: str
    arguments: Value
    """What was judged and approved: what is sent is this, not what is presented with the permit."""
    place: Place

    def __init__(self, gate: object, action: CurrentAction, tool: str, arguments: Value, place: Place) -> None:
        if gate is not _GATE:
            raise PermitError(tool, "a permit that was not given by the gate")
        put = object.__setattr__
        put(self, "action", action)
        put(self, "tool", tool)
        put(self, "arguments", arguments)
        put(self, "place", place)

    def _refuse(self, *_: object) -> NoReturn:
        raise PermitError(getattr(self, "tool", "?"), "a permit cannot be copied, changed or stored")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __setattr__ = __delattr__ = _refuse


_live: Final[dict[Permit, bytes]] = {}
"""Permits that were given and are not used up, each with its arguments as they were written when they were judged.

A permit is good because it stands here, not because of anything in it, so there is nothing to forge.
"""


def written(arguments: Value) -> bytes:
    """Return arguments as they are compared: 1, 1.0 and true are equal to Python, but not the same arguments."""
    return _encode(arguments)


def give(action: CurrentAction, tool: str, arguments: Value, place: Place, judged: bytes | None = None) -> Permit:
    """Give a permit. Called by the gate alone.

    Args:
        judged: The arguments as they were `written` before they were judged; as they are now where None.
    """
    permit = Permit(_GATE, action, tool, arguments, place)
    _live[permit] = written(arguments) if judged is None else judged
    return permit


def void(permit: Permit) -> None:
    """Take a permit back: its action has ended, whether the host used it or not."""
    _live.pop(permit, None)


def check(permit: Any, tool: str, arguments: Value) -> Permit:
    """Return the permit, spent, or refuse. What is called next is called with the permit's own arguments.

    Raises:
        PermitError: It is missing, forged, used, or for something else; unless it is used up, it stays good.
    """
    if type(permit) is not Permit:
        raise PermitError(
            tool, "called without a permit" if permit is None else "called with something that is no permit"
        )
    judged = _live.get(permit)
    if judged is None:
        raise PermitError(tool, "this permit was used before, or its action has ended, or no gate gave it")
    if tool != permit.tool:
        raise PermitError(tool, f"this permit is for {permit.tool!r}")
    if not _same(arguments, permit.arguments, judged):
        raise PermitError(tool, "this permit is for other arguments")
    if _live.pop(permit, None) is None:  # of two threads that got this far, one is first
        raise PermitError(tool, "this permit was used before; each is good for one call")
    return permit


def _same(presented: Value, permitted: Value, judged: bytes) -> bool:
    """Return whether what is presented, and what the permit holds, are what was judged."""
    if presented is not permitted:
        try:
            if written(freeze(presented)) != judged:
                return False
        except ValueRefused:
            return False  # NaN is written like None, and bytes like a text: what is no value is never the same
    return written(permitted) == judged
