"""Values: a closed set, frozen where it enters."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import run
from societies import town

from society import UNKNOWN, AsyncHost, Limits, plain, unstructure
from society.errors import ValueRefused
from society.values import EMPTY, FrozenDict, FrozenList, UnknownTruth, freeze, freeze_items, walk

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@given(values)
def test_a_frozen_value_equals_what_it_was_made_of_and_goes_through_json_pickle_and_deepcopy(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value and plain(frozen) == value
    assert json.dumps(frozen) == json.dumps(value)
    for other in (pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen), copy.copy(frozen), freeze(frozen)):
        assert other == value and type(other) is type(frozen)
    assert msgspec.json.encode(frozen) == msgspec.json.encode(value)


@given(values)
def test_what_was_frozen_does_not_follow_its_source(value: Any) -> None:
    source = copy.deepcopy(value)
    frozen = freeze({"v": [source]})
    if isinstance(source, list):
        source.append(1)
    elif isinstance(source, dict):
        source["new"] = 1
    assert frozen == {"v": [value]}


MUTATIONS: dict[str, Any] = {
    "d[k]=": lambda d, _: d.__setitem__("a", 1),
    "del d[k]": lambda d, _: d.__delitem__("a"),
    "d|=": lambda d, _: d.__ior__({"a": 1}),
    "d.clear": lambda d, _: d.clear(),
    "d.pop": lambda d, _: d.pop("a"),
    "d.popitem": lambda d, _: d.popitem(),
    "d.setdefault": lambda d, _: d.setdefault("b", 1),
    "d.update": lambda d, _: d.update(a=1),
    "l[i]=": lambda _, items: items.__setitem__(0, 9),
    "l[:]=": lambda _, items: items.__setitem__(slice(None), []),
    "del l[i]": lambda _, items: items.__delitem__(0),
    "l+=": lambda _, items: items.__iadd__([1]),
    "l*=": lambda _, items: items.__imul__(2),
    "l.append": lambda _, items: items.append(1),
    "l.clear": lambda _, items: items.clear(),
    "l.extend": lambda _, items: items.extend([1]),
    "l.insert": lambda _, items: items.insert(0, 1),
    "l.pop": lambda _, items: items.pop(),
    "l.remove": lambda _, items: items.remove(1),
    "l.reverse": lambda _, items: items.reverse(),
    "l.sort": lambda _, items: items.sort(),
}


@pytest.mark.parametrize("how", MUTATIONS)
def test_every_change_is_refused_and_says_how_to_get_a_free_copy(how: str) -> None:
    frozen = freeze({"a": {"a": 1, "l": [1, 2]}})
    with pytest.raises(TypeError, match="plain"):
        MUTATIONS[how](frozen["a"], frozen["a"]["l"])
    assert frozen == {"a": {"a": 1, "l": [1, 2]}}


def test_no_method_that_changes_a_list_or_dict_was_forgotten() -> None:
    for kind, frozen in ((dict, FrozenDict), (list, FrozenList)):
        changing = {
            "__setitem__",
            "__delitem__",
            "__ior__",
            "__iadd__",
            "__imul__",
            "append",
            "clear",
            "extend",
            "insert",
        }
        changing |= {"pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"}
        for name in changing & set(dir(kind)):
            assert getattr(frozen, name) is not getattr(kind, name), name


def test_a_plain_copy_is_free_at_every_depth() -> None:
    frozen = freeze({"a": [{"b": [1]}]})
    free = plain(frozen)
    free["a"][0]["b"].append(2)
    assert type(free) is dict and frozen == {"a": [{"b": [1]}]}


def test_tuples_enter_as_lists_and_dicts_keep_their_order() -> None:
    assert freeze(((1, 2), [3])) == [[1, 2], [3]]
    assert list(freeze({"z": 1, "a": 2})) == ["z", "a"]


def test_types_that_look_alike_stay_apart() -> None:
    """P56."""
    frozen = freeze([1, 1.0, True, -0.0])
    assert [type(value) for value in frozen] == [int, float, bool, float]
    assert msgspec.json.encode(frozen) == b"[1,1.0,true,-0.0]"


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"log": [1, 2, {"when": date(2026, 1, 1)}]}, "shared.log[2].when", "date"),
        ({3, 1, 2}, "shared", "set"),
        (frozenset(), "shared", "frozenset"),
        (b"\x00\xff", "shared", "bytes"),
        (bytearray(), "shared", "bytearray"),
        (Decimal("1.10"), "shared", "Decimal"),
        (object(), "shared", "object"),
        ((n for n in ()), "shared", "generator"),
        (1j, "shared", "complex"),
        (float("nan"), "shared", "float nan"),
        ([float("-inf")], "shared[0]", "float -inf"),
        (json.loads("1e400"), "shared", "float inf"),
        (2**64, "shared", "an int of 65 bits"),
        (-(2**63) - 1, "shared", "an int of 64 bits"),
        ({1: "x"}, "shared[1]", "a key of type int"),
        ({("a", "b"): 1}, "shared[('a', 'b')]", "a key of type tuple"),
        ({None: 1}, "shared[None]", "a key of type NoneType"),
        (Color.RED, "shared", "Color, an enum member"),
        (Level.HIGH, "shared", "Level, an enum member"),
        (UNKNOWN, "shared", "UNKNOWN"),
        ([UNKNOWN], "shared[0]", "UNKNOWN"),
    ],
)
def test_everything_else_is_refused_with_its_path_and_type(value: Any, path: str, found: str) -> None:
    """V2, P56, P61."""
    with pytest.raises(ValueRefused) as refused:
        freeze(value, "shared")
    assert refused.value.path == path and refused.value.found.startswith(found)


def test_values_nest_up_to_two_hundred_deep_however_they_got_there() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    frozen = freeze(value)
    for deeper in (lambda: freeze([value]), lambda: freeze([frozen]), lambda: freeze_items({"a": frozen}, "body")):
        with pytest.raises(ValueRefused, match="nested over 200 deep"):
            deeper()
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueRefused, match="nested"):
        freeze(endless)


def test_a_lone_surrogate_is_replaced_and_a_pair_is_one_character() -> None:
    """V2, P60."""
    assert freeze("ok \ud835 end") == "ok \ufffd end"
    assert freeze({"\udcb2": "\ud83c\udfb2"}) == {"\ufffd": "🎲"}
    assert freeze_items({"k\ud800": "\ud800"}, "body") == {"k\ufffd": "\ufffd"}
    with pytest.raises(ValueRefused, match="two keys"):
        freeze(dict.fromkeys(["\ud800", "\udfff"]))


@given(st.text(st.characters()), st.text(st.characters()))
def test_whatever_a_text_holds_it_can_be_written_as_utf8(text: str, key: str) -> None:
    msgspec.json.encode(freeze({key: [text]})).decode()


def test_subclasses_of_texts_and_numbers_enter_as_what_they_are() -> None:
    class Name(str):
        pass

    class Count(int):
        pass

    class Bag(dict[str, Any]):
        pass

    frozen = freeze([Name("ada"), Count(3), Bag(a=1)])
    assert [type(value) for value in frozen] == [str, int, FrozenDict]


@attrs.frozen
class Point:
    x: int
    color: Color = Color.RED


def test_attrs_instances_and_enums_enter_through_unstructure_only() -> None:
    with pytest.raises(ValueRefused):
        freeze(Point(1))
    assert freeze(unstructure({"p": [Point(1)]})) == {"p": [{"x": 1, "color": "red"}]}


def test_walk_tells_each_leaf_with_its_path() -> None:
    assert list(walk(freeze({"a": [1, {"b": None}], "c": "x"}))) == [("a[0]", 1), ("a[1].b", None), ("c", "x")]
    assert not EMPTY


# ── UNKNOWN (V3) ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_comparing_unknown_gives_unknown() -> None:
    assert (UNKNOWN == 1) is UNKNOWN and (UNKNOWN != None) is UNKNOWN and (UNKNOWN > 1) is UNKNOWN  # noqa: E711
    assert (UNKNOWN > 0.5) is UNKNOWN and (UNKNOWN == UNKNOWN) is UNKNOWN


def test_unknown_has_no_truth_value_and_is_one() -> None:
    for decide in (lambda: bool(UNKNOWN), lambda: UNKNOWN == 1 or True, lambda: not UNKNOWN):
        with pytest.raises(UnknownTruth):
            decide()
    for same in (copy.copy(UNKNOWN), copy.deepcopy([UNKNOWN])[0], pickle.loads(pickle.dumps(UNKNOWN))):
        assert same is UNKNOWN


def test_its_truth_value_tells_which_sensor_was_silent_and_why() -> None:
    host = AsyncHost()

    @host.sensor("eye")
    async def eye() -> None:
        raise OSError("no such device")

    async def ada(tick: Any) -> None:
        if await tick.read("eye") > 0.5:
            tick.note("never")

    result = run(town(ada, hosts=host).run, 1)
    assert result.outcome == "failed" and "eye: OSError: no such device" in result.reason


@pytest.mark.parametrize("returned", [UNKNOWN, {1}, float("nan"), object(), float("inf")])
def test_a_sensor_that_returns_no_value_is_unknown(returned: Any) -> None:
    """V3, P61."""
    host = AsyncHost()
    host.sensor("eye", thread=False)(lambda: returned)

    async def ada(tick: Any) -> None:
        assert await tick.read("eye") is UNKNOWN
        for share in (
            lambda: tick.share("k", UNKNOWN),
            lambda: tick.send("ada", "x", n=UNKNOWN),
            lambda: tick.call("t", n=UNKNOWN),
            lambda: tick.state.update(n=UNKNOWN),
        ):
            with pytest.raises(ValueRefused, match="UNKNOWN"):
                share()

    society = town(ada, hosts=host, shared={"k": 0}, limits=Limits())
    assert run(society.run, 1).outcome == "finished"
    assert "it returned no value" in society.trace.where(kind="read")[0].unknown
