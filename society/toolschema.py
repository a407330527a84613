"""What a model may call, described from a function: its name, its docstring, and a JSON schema from its type hints.

    def restart(service: str, tries: int = 1) -> dict:
        '''Restart a service.

        Args:
            service: Its name, as `status` lists it.
        '''

becomes `{"name": "restart", "description": "Restart a service.", "input_schema": {"type": "object", "properties":
{…}, …}}`. Types are those of msgspec: JSON's own, `Literal`, enums, unions, lists, dicts, sets, tuples, dates,
dataclasses, attrs classes, `TypedDict`; `Annotated[int, msgspec.Meta(ge=1)]` gives bounds, `Annotated[int,
"seconds"]` a description. A parameter without a hint takes any value. Arguments are judged strictly: "2" is no
number, and what does not fit is told.

Parameters that the caller fills itself (`injected`, or bound by `functools.partial`) stay out of the schema.

Knows: functions as they are written, and how arguments are judged before anything runs.
Does not know: who runs them, policies, or how a result is told.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Final

import attrs
import msgspec

from society.errors import ScenarioError, nearest
from society.values import FrozenDict, Value, freeze, plain

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""What the service takes as the name of a tool."""


@attrs.frozen
class Parameter:
    name: str
    type: Any
    required: bool


@attrs.frozen(kw_only=True)
class ToolSchema:
    """A tool as a model sees it, and the judge of the arguments it sends."""

    name: str
    description: str
    input_schema: FrozenDict
    parameters: tuple[Parameter, ...] | None = None
    """`None` where only a schema is known (a tool server's): the server judges the arguments."""
    open: bool = False
    """It takes further arguments by name (`**kwargs`)."""
    source: str = "a function"
    """Where it comes from: a function, a host, a server. Told when names clash."""

    def wire(self) -> FrozenDict:
        """Return it in the shape that goes on the wire."""
        return FrozenDict(name=self.name, description=self.description, input_schema=self.input_schema)

    def faults(self, arguments: Mapping[str, Value]) -> list[str]:
        """Return what in the arguments does not fit, each as a few words; none if they do."""
        if self.parameters is None:
            return []
        known = {parameter.name: parameter for parameter in self.parameters}
        found = [
            f"{name!r} is missing" for name, parameter in known.items() if parameter.required and name not in arguments
        ]
        for name, value in arguments.items():
            if name in known:
                found += _misfit(known[name], value)
            elif not self.open:
                near = nearest(name, known)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                found.append(f"{name!r} is not a parameter (there is {', '.join(known) or 'none'}{hint})")
        return found

    def bound(self, arguments: Mapping[str, Value]) -> dict[str, Any]:
        """Return arguments that fit as the function takes them: free copies, made into the classes its hints name."""
        types = {parameter.name: parameter.type for parameter in self.parameters or ()}
        return {
            name: msgspec.convert(plain(value), types[name]) if name in types else plain(value)
            for name, value in arguments.items()
        }


def schema_of(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    injected: Collection[str] = (),
    source: str = "a function",
) -> ToolSchema:
    """Return the description of a function.

    Args:
        function: Plain or `async`, a method, a `functools.partial`, or an object that can be called.
        name: Instead of the function's own.
        description: Instead of its docstring's.
        injected: Parameters that the caller fills and no model sees.
        source: Where it comes from, for errors.

    Raises:
        ScenarioError: The name is illegal, or a parameter is of a kind or type that no model can fill.
    """
    bare = _bare(function)
    name = name if name is not None else str(getattr(bare, "__name__", ""))
    check_tool_name(name, source)
    said, told = _docstring(inspect.getdoc(bare) or "")
    hidden = set(injected) | _bound_by_partial(function)
    hints = _hints(bare, name)
    parameters: list[Parameter] = []
    more = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
        elif parameter.name in hidden:
            continue
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise ScenarioError(
                f"tool {name!r}: {parameter.name!r} has no name in a call; a model gives arguments by name."
            )
        else:
            hint = hints.get(parameter.name, Any)
            parameters.append(Parameter(parameter.name, hint, parameter.default is parameter.empty))
    defaults = {key: value.default for key, value in inspect.signature(function).parameters.items()}
    return ToolSchema(
        name=name,
        description=description if description is not None else said,
        input_schema=_object_schema(name, parameters, told, defaults, more),
        parameters=tuple(parameters),
        open=more,
        source=source,
    )


def check_tool_name(name: str, source: str = "a function") -> None:
    """Refuse a name that the service does not take as that of a tool."""
    if not NAME.fullmatch(name):
        raise ScenarioError(
            f"{name!r} ({source}) cannot be the name of a tool: a model calls tools by 1 to 128 of the characters "
            "a-z, A-Z, 0-9, _ and -. Give another name."
        )


def distinct(schemas: Iterable[ToolSchema]) -> dict[str, ToolSchema]:
    """Return tools by name, in their order.

    Raises:
        ScenarioError: A name is there twice. All its sources are named; it is never the first that wins.
    """
    schemas = list(schemas)
    by_name: dict[str, ToolSchema] = {}
    for schema in schemas:
        if schema.name in by_name:
            sources = [other.source for other in schemas if other.name == schema.name]
            raise ScenarioError(
                f"the tool {schema.name!r} is offered {len(sources)} times: by {', '.join(sources)}. "
                "Rename all but one."
            )
        by_name[schema.name] = schema
    return by_name


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Return for each name the one that a model sees: each character that the service refuses becomes `_`.

    Raises:
        ScenarioError: Two names would look alike, or one is too long.
    """
    seen: dict[str, str] = {}
    for name in names:
        shown = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
        check_tool_name(shown, f"made of {name!r}")
        if shown in seen:
            raise ScenarioError(
                f"the tools {seen[shown]!r} and {name!r} would both be {shown!r} to a model; rename one."
            )
        seen[shown] = name
    return {name: shown for shown, name in seen.items()}


def _misfit(parameter: Parameter, value: Value) -> list[str]:
    try:
        msgspec.convert(plain(value), parameter.type)
    except msgspec.ValidationError as error:
        # msgspec writes paths as `$.a[0]`; the root is the parameter.
        said = str(error)
        where = parameter.name
        if match := re.search(r" - at `\$([^`]*)`$", said):
            said, where = said[: match.start()], parameter.name + match[1]
        return [f"{where}: {said[:1].lower()}{said[1:]}"]
    return []


def _bare(function: Callable[..., Any]) -> Any:
    """Return what carries the name, the docstring and the hints."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__ if not hasattr(function, "__wrapped__") and callable(function) else function


def _bound_by_partial(function: Any) -> set[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= set(function.keywords)
        function = function.func
    return names


def _hints(function: Any, name: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ScenarioError(
            f"tool {name!r}: the type {error.name!r} in its hints is not known at the level of its module. Types that "
            "stand inside a function cannot be found by name; move it out."
        ) from None
    return {key: _with_meta(hint) for key, hint in hints.items()}


def _with_meta(hint: Any) -> Any:
    """Return a hint whose plain texts (`Annotated[int, "seconds"]`) are descriptions."""
    if typing.get_origin(hint) is not Annotated:
        return hint
    inner, *extras = typing.get_args(hint)
    metas = [msgspec.Meta(description=extra) if isinstance(extra, str) else extra for extra in extras]
    for meta in metas:
        inner = Annotated[inner, meta]
    return inner


def _object_schema(
    name: str, parameters: list[Parameter], told: Mapping[str, str], defaults: Mapping[str, Any], more: bool
) -> FrozenDict:
    try:
        schemas, definitions = msgspec.json.schema_components(
            [parameter.type for parameter in parameters], ref_template="#/$defs/{name}"
        )
    except (TypeError, NotImplementedError) as error:
        raise ScenarioError(f"tool {name!r}: a model cannot fill one of its parameters: {error}") from None
    properties: dict[str, Any] = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        properties[parameter.name] = schema
        if parameter.name in told and "$ref" not in schema:
            schema.setdefault("description", told[parameter.name])
        if not parameter.required and _is_json(defaults[parameter.name]):
            schema["default"] = defaults[parameter.name]
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [parameter.name for parameter in parameters if parameter.required]:
        whole["required"] = required
    whole["additionalProperties"] = more
    if definitions:
        whole["$defs"] = definitions
    frozen = freeze(whole, f"tool {name!r}")
    assert isinstance(frozen, FrozenDict)
    return frozen


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's words before its sections, and what its `Args:` (or `:param x:`) say of each parameter."""
    before = re.split(
        r"^\s*(?:Args|Arguments|Parameters|Returns|Yields|Raises):\s*$|^\s*:\w+", text, maxsplit=1, flags=re.M
    )[0]
    told = {
        found[1]: _one_line(found[2])
        for found in re.finditer(r"^:param (?:\w+ )?(\w+): *(.*(?:\n[ \t]+.*)*)", text, flags=re.M)
    }
    if section := re.search(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*(?:\n|$)|\n)+)", text, flags=re.M):
        body = inspect.cleandoc("\n" + section[1])
        for found in re.finditer(r"^\*{0,2}(\w+)(?: *\([^)]*\))?: *(.*(?:\n[ \t]+.*)*)", body, flags=re.M):
            told[found[1]] = _one_line(found[2])
    return before.strip(), told


def _one_line(text: str) -> str:
    return " ".join(text.split())
