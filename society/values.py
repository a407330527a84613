"""What may cross between agents, into SHARED, into state or into the journal: a closed set of values, frozen.

`None`, `bool`, `int` of 64 bits, finite `float`, `str`, list, and dict with `str` keys. `freeze` turns a value into one
that refuses change at every depth; `plain` gives a free copy back.

Knows: the closed set, and how to say where a value left it.
Does not know: who shares, sends or stores.
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn, TypeAlias

import attrs

from society.errors import ValueRefused

Value: TypeAlias = Any
"""A frozen value in the sense of this module. The type checker cannot hold the closed set at every depth, `freeze` does."""

MAX_NESTING: Final = 200
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1


class Unperceived:
    """The type of `UNKNOWN`: what could not be perceived. It is no value, and nothing can be decided on it."""

    __slots__ = ()
    reasons: Callable[[], list[str]] | None = None
    """Set where ticks live: tells which sensors of the current tick were silent, and why."""

    def __bool__(self) -> NoReturn:
        known = Unperceived.reasons() if Unperceived.reasons is not None else []
        which = f" ({'; '.join(known)})" if known else ""
        raise UnknownTruth(
            f"UNKNOWN is neither true nor false{which}. Ask `is UNKNOWN` first, then decide what holds without the reading."
        )

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __copy__(self) -> Unperceived:
        return self

    def __deepcopy__(self, memo: object) -> Unperceived:
        return self

    def __reduce__(self) -> str:
        return "UNKNOWN"


class UnknownTruth(ValueError):
    """UNKNOWN was used as a truth value."""


UNKNOWN: Final = Unperceived()


class NoAnswer(enum.Enum):
    """The type of `NO_ANSWER`: a person did not answer, which is not a refusal and never consent."""

    NO_ANSWER = enum.auto()

    def __repr__(self) -> str:
        return "NO_ANSWER"

    def __bool__(self) -> bool:
        return False


class NotExecuted(enum.Enum):
    """The type of `NOT_EXECUTED`: a reconciler's word that an effect did not happen."""

    NOT_EXECUTED = enum.auto()

    def __repr__(self) -> str:
        return "NOT_EXECUTED"


class Wait(enum.Enum):
    """The type of `WAIT`: an approver that lets the run end as `waiting`, to be answered later."""

    WAIT = enum.auto()

    def __repr__(self) -> str:
        return "WAIT"


NO_ANSWER: Final = NoAnswer.NO_ANSWER
NOT_EXECUTED: Final = NotExecuted.NOT_EXECUTED
WAIT: Final = Wait.WAIT


def _refuses(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError(
        f"this {type(self).__name__} is frozen: others may be looking at it. `plain(value)` gives a free copy."
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses change. Equal to a plain one, and goes through json, pickle, deepcopy and isinstance like it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuses

    def __reduce__(self) -> tuple[Any, ...]:
        return _thawed_dict, (dict(self),)

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("unhashable type: 'FrozenDict'")


class FrozenList(list[Any]):
    """A list that refuses change. Equal to a plain one, and goes through json, pickle, deepcopy and isinstance like it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = _refuses
    reverse = sort = _refuses

    def __reduce__(self) -> tuple[Any, ...]:
        return _thawed_list, (list(self),)

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("unhashable type: 'FrozenList'")


def _thawed_dict(items: dict[str, Any]) -> FrozenDict:
    return FrozenDict(items)


def _thawed_list(items: list[Any]) -> FrozenList:
    return FrozenList(items)


EMPTY: Final = FrozenDict()


def freeze(value: Any, path: str = "value") -> Value:
    """Return `value` frozen at every depth; a tuple becomes a list, a lone surrogate U+FFFD.

    Args:
        value: Anything. What is frozen already is returned as it is.
        path: What to call the value in an error: `shared.log`.

    Raises:
        ValueRefused: Something in it is not in the closed set; the error names its path and type.
    """
    kind = type(value)
    # The four most common cases first, without a call: messages are mostly short texts and small numbers.
    if kind is str:
        return value if value.isascii() else _mended(value)
    if kind is int:
        if _MIN_INT <= value <= _MAX_INT:
            return value
        raise ValueRefused(path, f"an int of {value.bit_length()} bits")
    if value is None or kind is bool or kind is FrozenDict or kind is FrozenList:
        return value
    return _frozen(value, path, 0)


def freeze_items(items: dict[str, Any], path: str) -> FrozenDict:
    """Return the keyword arguments `items` as one frozen dict. Costs no second walk where all of them are plain."""
    for key, value in items.items():
        kind = type(value)
        if kind is int:
            if not _MIN_INT <= value <= _MAX_INT:
                freeze(value, f"{path}.{key}")
        elif (kind is not str or not value.isascii()) and kind is not bool and value is not None:
            items[key] = _frozen(value, f"{path}.{key}", 1)
        if type(key) is not str or not key.isascii():
            return _frozen_dict(items, path, 0)
    return FrozenDict(items)


def _frozen(value: Any, path: str, depth: int) -> Value:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is FrozenDict or kind is FrozenList:
        # Wrapping what is frozen once a round would otherwise nest without bound.
        if depth + _nesting(value) > MAX_NESTING:
            raise ValueRefused(path[:200], f"nested over {MAX_NESTING} deep")
        return value
    if value is UNKNOWN:
        raise ValueRefused(path, "UNKNOWN, which is no value; decide with `is UNKNOWN` before passing it on")
    if isinstance(value, enum.Enum):
        raise ValueRefused(path, f"{kind.__name__}, an enum member; pass its `.value` or `unstructure` it")
    if isinstance(value, str):
        return _mended(str.__str__(value))
    if isinstance(value, int):
        number = int(value)
        if _MIN_INT <= number <= _MAX_INT:
            return number
        raise ValueRefused(path, f"an int of {number.bit_length()} bits")
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise ValueRefused(path, f"float {float(value)}")
    if depth >= MAX_NESTING:
        raise ValueRefused(path[:200], f"nested over {MAX_NESTING} deep")
    if isinstance(value, dict):
        return _frozen_dict(value, path, depth)
    if isinstance(value, (list, tuple)):
        return FrozenList([_frozen(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)])
    raise ValueRefused(path, kind.__name__)


def _frozen_dict(value: dict[Any, Any], path: str, depth: int) -> FrozenDict:
    frozen: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str) or isinstance(key, enum.Enum):
            raise ValueRefused(f"{path}[{key!r}]", f"a key of type {type(key).__name__}")
        name = _mended(str.__str__(key))
        if name in frozen:
            raise ValueRefused(f"{path}[{name!r}]", "two keys that are equal once lone surrogates are replaced")
        frozen[name] = _frozen(item, f"{path}.{name}", depth + 1)
    return FrozenDict(frozen)


def _nesting(value: Value) -> int:
    """Return how many containers deep a frozen value is."""
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max((_nesting(item) for item in inside if isinstance(item, (dict, list))), default=0)


def _mended(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD; it could not be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # A valid pair written as two surrogates is one character; what is left alone is replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(value: Value) -> Any:
    """Return a free copy of a frozen value: ordinary lists and dicts that may be changed."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return copy.deepcopy(value) if not isinstance(value, (str, int, float, type(None))) else value


def unstructure(value: Any) -> Any:
    """Return attrs instances as dicts of their fields and enum members as their values, at every depth, to be shared or sent."""
    if isinstance(value, enum.Enum):
        return value.value
    if attrs.has(type(value)):
        return {field.name: unstructure(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, dict):
        return {unstructure(key): unstructure(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [unstructure(item) for item in value]
    return value


def walk(value: Value, path: str = "") -> Iterator[tuple[str, Value]]:
    """Yield (path, leaf) for everything in a value that is neither list nor dict, in order."""
    inside: Iterable[tuple[str, Value]]
    if isinstance(value, dict):
        inside = ((f"{path}.{key}" if path else key, item) for key, item in value.items())
    elif isinstance(value, list):
        inside = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    else:
        yield path, value
        return
    for at, item in inside:
        yield from walk(item, at)
