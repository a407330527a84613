"""From the data of a TOML file to its tables, with every key of a wrong type, out of range, unknown or missing noted.

What is wrong is left out and the rest is read on, so that what refers to it can be checked as well.

Knows: cattrs, and how its errors become faults.
Does not know: files, or whether what a name refers to is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from society.errors import ScenarioError, ValueRefused, nearest
from society.limits import Limits
from society.locate import Path
from society.report import ABSENT, TEXT, Report
from society.tables import (
    HOMES,
    MOST,
    Above,
    AtLeast,
    Free,
    Misfit,
    Number,
    Pin,
    PinTable,
    PromptTable,
    ScenarioTable,
    Share,
    SharedTable,
    Wording,
)
from society.values import freeze

ZONE: Final = "a time with its zone, 2026-10-25T02:30:00Z, or a text in quotes"


def structured(data: dict[str, Any], report: Report) -> tuple[ScenarioTable, frozenset[Path]]:
    """Return the tables of `data`, and the paths of what was wrong in it and is not in them."""
    left_out: set[Path] = set()
    told: set[Path] = set()
    while True:
        try:
            return _converter().structure(data, ScenarioTable), frozenset(left_out)
        except ClassValidationError as error:
            wrong = list(_wrongs(error))
        for one in wrong:
            # A key that is missing only because it was wrong, or mistyped, has been told of.
            if not any((*one.path, key) in told for key in one.needs):
                report.add(one.path, one.message, expected=one.expected, found=one.found, near=one.near)
            told |= {one.path, (*one.path[:-1], one.near or "")}
        left_out |= {one.path for one in wrong}
        data = _without(data, {one.path for one in wrong}, ())


@attrs.frozen(kw_only=True, eq=False)
class _Wrong(Exception):
    path: Path = ()
    """Below the table or list that the hook was given."""
    message: str = ""
    expected: str | None = None
    found: Any = ABSENT
    near: str | None = None
    needs: tuple[str, ...] = ()
    """Keys whose absence is what is wrong."""


class _Wrongs(Exception):
    """Several at once."""

    def __init__(self, wrongs: Iterable[_Wrong]) -> None:
        super().__init__()
        self.wrongs = tuple(wrongs)


def _wrongs(error: BaseException) -> Iterator[_Wrong]:
    """Yield what is wrong, with its path from the top of what was structured."""
    match error:
        case ClassValidationError():
            for inner in error.exceptions:
                at = [note for note in getattr(inner, "__notes__", ()) if isinstance(note, AttributeValidationNote)]
                key = _key(at[0].name) if at else None
                if isinstance(inner, KeyError) and key is not None:
                    yield _Wrong(message=f"`{key}` is missing", needs=(key,))
                    continue
                for wrong in _wrongs(inner):
                    yield wrong if key is None else attrs.evolve(wrong, path=(key, *wrong.path))
        case ForbiddenExtraKeysError():
            for extra in sorted(error.extra_fields):
                yield _unknown_key(extra, error.cl)
        case _Wrongs():
            yield from error.wrongs
        case _Wrong():
            yield error
        case Misfit():
            yield _Wrong(message=str(error), needs=error.needs)
        case _:
            raise error


def _unknown_key(key: str, table: Any) -> _Wrong:
    known = _keys(table)
    near = nearest(key, known)
    home = HOMES.get(key)
    if home and not near:
        return _Wrong(path=(key,), message=f"unknown key; it belongs under {home}")
    few = "" if near or len(known) > 8 else f"; known: {', '.join(known)}"
    if table is SharedTable and not near:
        few += "; a table as the first value is written { initial = { … } }"
    return _Wrong(path=(key,), message=f"unknown key{few}", near=near[0] if near else None)


def _keys(table: Any) -> list[str]:
    return [_key(field.name) for field in attrs.fields(table) if "omit" not in field.metadata]


def _key(name: str) -> str:
    return name.rstrip("_")  # `from` is no name in Python


def _without(data: Any, paths: set[Path], here: Path) -> Any:
    """Return the data without what stands at the paths. In a list that leaves a hole: the others keep their numbers."""
    if isinstance(data, dict):
        return {key: _without(item, paths, (*here, key)) for key, item in data.items() if (*here, key) not in paths}
    if isinstance(data, list):
        return [_HOLE if (*here, i) in paths else _without(item, paths, (*here, i)) for i, item in enumerate(data)]
    return data


_HOLE: Final = object()


def _converter() -> Converter:
    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    hook, factory = converter.register_structure_hook_func, converter.register_structure_hook_factory
    converter.register_structure_hook(str, _exactly(TEXT, str))  # cattrs' own would make "1000.0" of the number 1e3
    converter.register_structure_hook(bool, _exactly("true or false", bool))
    hook(_is(Literal), _literal)
    hook(_is(Annotated), _annotated)
    hook(lambda kind: kind is Limits, _limits)
    factory(_is(tuple), _list_of(converter))
    factory(_is(dict), _table_of(converter))
    factory(lambda kind: attrs.has(kind) and kind is not Limits, _attrs(converter))
    return converter


def _is(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


Hook = Callable[[Any, Any], Any]


def _exactly(expected: str, kind: type) -> Hook:
    def hook(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise _Wrong(expected=expected, found=value)
        return value

    return hook


def _literal(value: Any, kind: Any) -> Any:
    known = get_args(kind)
    if value in known and isinstance(value, str):
        return value
    near = nearest(value, known) if isinstance(value, str) else []
    choices = ", ".join(f'"{choice}"' for choice in known)
    raise _Wrong(expected=f"one of {choices}", found=value, near=f'"{near[0]}"' if near else None)


def _annotated(value: Any, kind: Any) -> Any:
    _, rule = get_args(kind)
    if isinstance(rule, AtLeast):
        return _whole(value, rule.least)
    if isinstance(rule, Number):
        return _number(value)
    if isinstance(rule, Share):
        return _share(value)
    if isinstance(rule, Above):
        return _above(value)
    if isinstance(rule, Wording):
        return _wording(value)
    if isinstance(rule, Pin):
        return _pin(value)
    assert isinstance(rule, Free)
    is_table = get_origin(get_args(kind)[0]) is dict
    if is_table and not isinstance(value, dict):
        raise _Wrong(expected="a table of values by name", found=value)
    return _free(value)


def _whole(value: Any, least: int) -> int:
    bound = f" of at least {least}" if least > -(2**63) else " of 64 bits"
    if type(value) is not int or not least <= value < 2**63:
        raise _Wrong(expected=f"a whole number{bound}", found=value)
    return value


def _number(value: Any) -> int | str:
    if isinstance(value, str) and value.startswith("parameters."):
        return value
    if isinstance(value, str):
        raise _Wrong(expected='a whole number of at least 0, or "parameters.KEY"', found=value)
    if type(value) is int and value > MOST:
        raise _Wrong(expected=f"at most {MOST:,} agents", found=value)
    return _whole(value, 0)


def _share(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise _Wrong(expected="a number from 0 to 1", found=value)
    return float(value)


def _above(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise _Wrong(expected="a number above 0", found=value)
    return float(value)


def _wording(value: Any) -> PromptTable:
    if isinstance(value, str) and value.strip():
        return PromptTable(text=value)
    ways = attrs.fields_dict(PromptTable).keys() - {"text"}
    if (
        isinstance(value, dict)
        and len(value) == 1
        and value.keys() <= ways
        and isinstance(next(iter(value.values())), str)
    ):
        return PromptTable(**value)
    raise _Wrong(expected="a text, { file = … }, or { template = … }", found=value)


def _pin(value: Any) -> PinTable:
    if isinstance(value, str):
        return PinTable(sha256=value)
    if isinstance(value, dict) and list(value) == ["file"] and isinstance(value["file"], str):
        return PinTable(file=value["file"])
    raise _Wrong(expected="a text, the sha256 of a catalog, or { file = … }", found=value)


def _free(value: Any) -> Any:
    """Return a value in the sense of V1, frozen, with times in UTC as texts; all that is no value at once."""
    wrong: list[_Wrong] = []
    mended = _mended(value, (), wrong)
    if wrong:
        raise _Wrongs(wrong)
    try:
        return freeze(mended)
    except ValueRefused as refused:
        raise _Wrong(message=f"{refused.found} is no value that agents can share") from refused


def _mended(value: Any, path: Path, wrong: list[_Wrong]) -> Any:
    if isinstance(value, dict):
        return {key: _mended(item, (*path, key), wrong) for key, item in value.items()}
    if isinstance(value, list):
        return [_mended(item, (*path, index), wrong) for index, item in enumerate(value) if item is not _HOLE]
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, (datetime.date, datetime.time)):
        wrong.append(_Wrong(path=path, expected=ZONE, found=value))
        return None
    try:
        return freeze(value)
    except ValueRefused as refused:
        wrong.append(_Wrong(path=path, message=f"{refused.found} is no value that agents can share"))
        return None


def _limits(value: Any, _: Any) -> Limits:
    """Let `Limits` itself judge each bound, one at a time, so that all are told."""
    if not isinstance(value, dict):
        raise _Wrong(expected="a table", found=value)
    wrong = [_unknown_key(key, Limits) for key in value if key not in _keys(Limits)]
    for key in value.keys() & set(_keys(Limits)):
        try:
            Limits(**{key: value[key]})
        except ScenarioError:
            unit = "a number of seconds above 0" if key.endswith("_timeout") else "a whole number of at least 1"
            wrong.append(_Wrong(path=(key,), expected=f"{unit} (leave the key out for no bound)", found=value[key]))
    if wrong:
        raise _Wrongs(wrong)
    return Limits(**value)


def _list_of(converter: Converter) -> Callable[[Any], Hook]:
    def factory(kind: Any) -> Hook:
        inner = get_args(kind)[0]
        numbered = attrs.has(inner) and "index" in attrs.fields_dict(inner)

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, list):
                raise _Wrong(expected="a list of tables" if numbered else "a list of texts", found=value)
            good, wrong = [], []
            for number, item in enumerate(value):
                if item is _HOLE:
                    continue
                try:
                    one = converter.structure(item, inner)
                except (_Wrong, _Wrongs, ClassValidationError) as error:
                    wrong += [attrs.evolve(found, path=(number, *found.path)) for found in _wrongs(error)]
                else:
                    good.append(attrs.evolve(one, index=number) if numbered else one)
            if wrong:
                raise _Wrongs(wrong)
            return tuple(good)

        return hook

    return factory


def _table_of(converter: Converter) -> Callable[[Any], Hook]:
    """Tables by name: SHARED. What is no table is the first value of its key."""

    def factory(kind: Any) -> Hook:
        inner = get_args(kind)[1]

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, dict):
                raise _Wrong(expected="a table", found=value)
            good, wrong = {}, []
            for key, item in value.items():
                declared = item if isinstance(item, dict) or inner is not SharedTable else {"initial": item}
                try:
                    good[key] = converter.structure(declared, inner)
                except (_Wrong, _Wrongs, ClassValidationError) as error:
                    for found in _wrongs(error):
                        below = found.path if declared is item else found.path[1:]
                        wrong.append(attrs.evolve(found, path=(key, *below)))
            if wrong:
                raise _Wrongs(wrong)
            return good

        return hook

    return factory


def _attrs(converter: Converter) -> Callable[[Any], Hook]:
    def factory(kind: Any) -> Hook:
        overrides = {
            field.name: override(omit=True) if "omit" in field.metadata else override(rename=_key(field.name))
            for field in attrs.fields(kind)
        }
        read = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, **overrides)  # type: ignore[arg-type]

        rest = getattr(kind, "rest", None)

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, dict):
                raise _Wrong(expected="a table", found=value)
            if rest is None:
                return read(value, kind)
            try:
                return read(_gathered(value, rest, _keys(kind)), kind)
            except ClassValidationError as error:
                wrongs = list(_wrongs(error))
            # Back to where the file has it.
            raise _Wrongs(attrs.evolve(one, path=one.path[one.path[:1] == (rest,) :]) for one in wrongs)

        return hook

    return factory


def _gathered(value: dict[str, Any], rest: str, keys: list[str]) -> dict[str, Any]:
    """Return a table with all keys that are not its own under `rest`."""
    own = {key: item for key, item in value.items() if key in keys and key != rest}
    return own | {rest: {key: item for key, item in value.items() if key not in own}}
