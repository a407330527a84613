"""Answers with a contract: an attrs class says what may come back, and what holds when it does not.

    @attrs.frozen
    class Verdict:
        risk: float = society.field(1.0, ge=0, le=1)     # unknown risk is high risk
        cause: Literal["disk", "network", "unknown"] = "unknown"

Its fields become a JSON schema, and the reply to it an instance. A field that is missing, of another kind, outside its
closed set or out of its range has its default, and is named. So has every field when the model is silent, refuses, or
was cut off. Every field needs a default: that is the contract.

Coercion is that of a person who reads a form: "0.7" is a number where one is asked for, 3.0 a whole one, " Disk" is
`"disk"` in a closed set, "true" is true. Nothing else is guessed.

Knows: classes, schemas, and how a reply is read.
Does not know: who asks, or which model has structured output.
"""

from __future__ import annotations

import enum
import functools
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union

import attrs

from society.errors import ScenarioError, ValueRefused
from society.replies import calls_of, text_of
from society.results import text_of_value
from society.values import FrozenDict, Value, freeze, unstructure
from society.wire import UnreadableJson, read_json

Answer = TypeVar("Answer")

BOUNDS: Final = "society.bounds"
"""Key in the metadata of an attrs field."""


@attrs.frozen(kw_only=True)
class Bounds:
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    about: str = ""

    def hold(self, number: Any) -> bool:
        return (
            (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
        )

    def __str__(self) -> str:
        said = [("at least", self.ge), ("more than", self.gt), ("at most", self.le), ("less than", self.lt)]
        return ", ".join(f"{words} {bound:g}" for words, bound in said if bound is not None)


def field(
    default: Any,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    about: str = "",
) -> Any:
    """Return a field of an answer.

    Args:
        default: What holds when the model is silent or the field cannot be read; `attrs.Factory(list)` for a list.
        ge: At least; `gt` more than, `le` at most, `lt` less than. For numbers, and for each number of a list.
        about: What the model is told of it.

    Raises:
        ScenarioError: The default is out of its own range.
    """
    bounds = Bounds(ge=ge, gt=gt, le=le, lt=lt, about=about)
    if isinstance(default, (int, float)) and not isinstance(default, bool) and not bounds.hold(default):
        raise ScenarioError(f"the default {default!r} of a field is not {bounds}.")
    return attrs.field(default=default, metadata={BOUNDS: bounds})


@attrs.frozen(kw_only=True)
class Contract:
    """An answer class, ready to be asked for."""

    answer: type[Any]
    tool: str
    """The name of the call that a model without structured output is made to make."""
    schema: FrozenDict

    def structured(self) -> dict[str, Any]:
        """Return the parts of a request to a model that has structured output."""
        return {"output_config": {"format": {"type": "json_schema", "schema": self.schema}}}

    def forced(self) -> dict[str, Any]:
        """Return the parts of a request that forces a call whose arguments are the answer."""
        about = (self.answer.__doc__ or "").strip().splitlines()
        # attrs writes no docstring, but dataclass-like ones are signatures and say nothing.
        described = about[0] if about and "(" not in about[0] else "Give the answer."
        tool = FrozenDict(name=self.tool, description=described, input_schema=self.schema)
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": self.tool}}


@attrs.frozen(kw_only=True)
class Reasoned(Generic[Answer]):
    answer: Answer
    degraded: bool
    """Some of the answer is default: the model was silent, or fields could not be read."""
    missing: tuple[str, ...]
    """Fields that have their default, in declared order, as paths: `place.city`."""
    why: str = ""
    """Why there was no answer at all."""


def question_text(question: str, using: Mapping[str, Value] | None = None) -> str:
    """Return the question with what it is about, each thing under its name, in the order given."""
    parts = [question]
    for name, value in (using or {}).items():
        parts.append(f"<{name}>\n{text_of_value(freeze(value, f'using.{name}'))}\n</{name}>")
    return "\n\n".join(parts)


def contract_of(answer: type[Any]) -> Contract:
    """Return the contract of an attrs class.

    Raises:
        ScenarioError: It is none, a field has no default, or a type in it is not among those that can be asked for.
    """
    found: Any = answer
    return _contract_of(found)


@functools.cache
def _contract_of(answer: Any) -> Contract:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(answer, "__name__", "answer")).lower()
    schema = freeze(_schema(answer, getattr(answer, "__name__", repr(answer))), "schema")
    return Contract(answer=answer, tool=f"answer_{name}"[:128], schema=schema)


def read(contract: Contract, reply: Value | None, why: str = "the model was silent") -> Reasoned[Any]:
    """Return the answer in a reply, with defaults for what is not in it.

    Args:
        contract: What was asked for.
        reply: As `replies.reply_of` makes it; `None` if there is none.
        why: There is none.
    """
    found: Any = None
    if reply is not None:
        found, why = _found(contract, reply)
    missing: list[str] = []
    answer = _filled(contract.answer, found if isinstance(found, dict) else {}, "", missing)
    return Reasoned(answer=answer, degraded=bool(missing), missing=tuple(missing), why=why if found is None else "")


def recorded(answer: Any) -> Value:
    """Return an answer as a value, for journals and traces."""
    return freeze(unstructure(answer), "answer")


def _found(contract: Contract, reply: Value) -> tuple[Any, str]:
    reason = reply["stop_reason"]
    if reason == "tool_use":
        unreadable = reply.get("unreadable") or {}
        for index, block in calls_of(reply["content"]):
            if block["name"] == contract.tool:
                fault = unreadable.get(str(index))
                return (None, fault["why"]) if fault else (block["input"], "")
        return None, f"no call of {contract.tool}"
    if reason not in ("end_turn", "stop_sequence"):
        # What was cut off can parse, and mean something else.
        return None, f"the reply ended with {reason}"
    text = text_of(reply["content"]).strip()
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n?```", text, flags=re.DOTALL)
    try:
        found = read_json(fenced[1] if fenced else text)
    except UnreadableJson as error:
        return None, error.why
    return (found, "") if isinstance(found, dict) else (None, "the answer is not a JSON object")


def _filled(answer: type[Any], found: Mapping[str, Any], path: str, missing: list[str]) -> Any:
    """Return an instance; names of fields that keep their default are added to `missing`."""
    values: dict[str, Any] = {}
    for each in _fields(answer):
        where = f"{path}{each.name}"
        if each.name not in found:
            missing.append(where)
            continue
        nested: list[str] = []
        try:
            values[each.alias or each.name] = _fitted(each.type, found[each.name], _bounds(each), f"{where}.", nested)
            missing += nested
        except ValueError:
            missing.append(where)
    return answer(**values)


def _fitted(hint: Any, value: Any, bounds: Bounds, path: str, missing: list[str]) -> Any:
    """Return a value as what `hint` asks for, or raise ValueError."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _fitted(typing.get_args(hint)[0], value, bounds, path, missing)
    if origin is Literal:
        return _chosen(typing.get_args(hint), value)
    if origin in (Union, types.UnionType):
        return _one_of(typing.get_args(hint), value, bounds, path, missing)
    if origin in (list, tuple) and isinstance(value, list):
        inner = typing.get_args(hint)[0]
        fitted = [_fitted(inner, item, bounds, f"{path}{index}.", missing) for index, item in enumerate(value)]
        return tuple(fitted) if origin is tuple else fitted
    if origin is dict and isinstance(value, dict):
        inner = typing.get_args(hint)[1]
        return {key: _fitted(inner, item, bounds, f"{path}{key}.", missing) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(_chosen(tuple(member.value for member in hint), value))
    if isinstance(hint, type) and attrs.has(hint) and isinstance(value, dict):
        return _filled(hint, value, path, missing)
    return _leaf(hint, value, bounds)


def _leaf(hint: Any, value: Any, bounds: Bounds) -> Any:
    if hint is Any:
        return _held(value)
    if hint in (None, type(None)) and value is None:
        return None
    if hint is bool:
        return _chosen((True, False), value.strip().casefold() == "true" if _is_truth(value) else value)
    if hint is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(_held(value))
    if hint in (int, float):
        number = _number(value)
        if hint is int and not (isinstance(number, int) or number.is_integer()):
            raise ValueError(value)
        number = _held(hint(number))
        if bounds.hold(number):
            return number
    raise ValueError(value)


def _held(value: Any) -> Any:
    """Return a value frozen. What is none, such as a number of more than 64 bits, is no answer."""
    try:
        return freeze(value, "answer")
    except ValueRefused as refused:
        raise ValueError(value) from refused


def _is_truth(value: Any) -> bool:
    return isinstance(value, str) and value.strip().casefold() in ("true", "false")


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(value)
    if isinstance(value, str):
        text = value.strip()
        # `float` takes more than a person would call a number: "nan", "1_000", "infinity".
        if not re.fullmatch(r"[+-]?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?", text):
            raise ValueError(value)
        value = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    number: int | float = value
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _chosen(choices: tuple[Any, ...], value: Any) -> Any:
    """Return the choice that a value names: exactly, or but for case and blanks, if that is only one."""
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    named = [choice for choice in choices if str(choice).strip().casefold() == str(value).strip().casefold()]
    if len(named) != 1 or isinstance(value, (list, dict)) or isinstance(value, bool) != isinstance(named[0], bool):
        raise ValueError(value)
    return named[0]


def _one_of(hints: tuple[Any, ...], value: Any, bounds: Bounds, path: str, missing: list[str]) -> Any:
    # The kind that the value is of already comes first: "2" stays a text in `int | str`.
    for hint in sorted(hints, key=lambda hint: hint is not type(value)):
        kept = list(missing)
        try:
            return _fitted(hint, value, bounds, path, missing)
        except ValueError:
            missing[:] = kept
    raise ValueError(value)


def _fields(answer: type[Any]) -> tuple[attrs.Attribute[Any], ...]:
    if not (isinstance(answer, type) and attrs.has(answer)):
        raise ScenarioError(f"{answer!r} is no answer class: decorate it with `attrs.frozen`.")
    try:
        attrs.resolve_types(answer, include_extras=True)
    except NameError as error:
        raise ScenarioError(
            f"{answer.__name__}: the type {error.name!r} is not known at the level of its module; move it out."
        ) from None
    return tuple(each for each in attrs.fields(answer) if each.init)


def _bounds(each: attrs.Attribute[Any]) -> Bounds:
    bounds: Bounds = each.metadata.get(BOUNDS, Bounds())
    return bounds


def _schema(answer: type[Any], path: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for each in _fields(answer):
        where = f"{path}.{each.name}"
        if each.default is attrs.NOTHING:
            raise ScenarioError(f"{where} has no default: what shall hold when the model is silent?")
        properties[each.name] = _type_schema(each.type, where)
        # Bounds are told in words: services refuse `minimum` in structured output, and what comes is judged here.
        bounds = _bounds(each)
        if told := ". ".join(part for part in (bounds.about, str(bounds)) if part):
            properties[each.name]["description"] = told
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _type_schema(hint: Any, where: str) -> dict[str, Any]:
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", None: "null"}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type_schema(inner[0], where)
    if hint is Any:
        return {}
    if origin is None and hint in plain:
        return {"type": plain[hint]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type_schema(each, where) for each in inner]}
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return {"type": "array", "items": _type_schema(inner[0], f"{where}[]")}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": _type_schema(inner[1], f"{where}{{}}")}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if isinstance(hint, type) and attrs.has(hint):
        return _schema(hint, where)
    raise ScenarioError(
        f"{where}: {hint!r} cannot be asked for. There are str, int, float, bool, None, Literal, enums, unions, "
        "list[…], tuple[…, ...], dict[str, …], and attrs classes."
    )
