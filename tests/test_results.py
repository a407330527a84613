"""What the model is told of its calls (V4, L4, K6)."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from typing import Any

import pytest

from society.errors import ActionDenied, ActionInDoubt, ToolFailed, described
from society.results import failed, result_of, result_of_error, unknown_tool


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.0, "1.0"),
        ("as it is", "as it is"),
        ({"a": 1, "b": [None]}, '{"a": 1, "b": [null]}'),
        ((1, 2), "[1, 2]"),
    ],
)
def test_values_become_text_by_one_rule(value: Any, text: str) -> None:  # P19
    assert result_of(value).content == text
    assert not result_of(value).is_error


PICTURE = {"type": "image", "media_type": "image/png", "data": "aGk="}
SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (PICTURE, [SHOWN]),
        (
            ["before", PICTURE, "", {"n": 1}],
            [{"type": "text", "text": "before"}, SHOWN, {"type": "text", "text": '{"n": 1}'}],
        ),
        (["before", {"n": 1}], '["before", {"n": 1}]'),
        ({**PICTURE, "media_type": "image/tiff"}, '{"type": "image", "media_type": "image/tiff", "data": "aGk="}'),
        ({**PICTURE, "alt": "x"}, '{"type": "image", "media_type": "image/png", "data": "aGk=", "alt": "x"}'),
    ],
)
def test_an_image_is_shown_as_one_in_its_place_between_the_texts(value: Any, content: Any) -> None:  # P68
    assert result_of(value).content == content


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: value["note"]])
def test_text_reaches_the_model_in_its_own_characters(wrap: Any) -> None:  # P24
    text = result_of(wrap({"city": "東京", "note": "naïve ☂"})).content
    assert "naïve ☂" in text
    assert "\\u" not in text


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({3, 1, 2}, "set"),
        (b"\x00\xff", "bytes"),
        (datetime.datetime(2026, 1, 1), "datetime"),
        (decimal.Decimal("1.10"), "Decimal"),
        (object(), "object"),
        ((n for n in ()), "generator"),
        ({"price": float("nan")}, "result.price: float nan"),
        pytest.param(10**5000, "an int of 16610 bits", id="number too long to write"),
    ],
)
def test_what_is_no_value_is_done_all_the_same_and_says_so(value: Any, named: str) -> None:  # P15, P19, P61
    told = result_of(value)
    assert told.is_error
    assert told.content.startswith("The call was done and took effect, but what it returned is not representable")
    assert named in told.content


def test_the_texts_are_the_same_under_any_hash_seed() -> None:  # P19
    code = (
        "from society.results import result_of as r; print(r({'b', 'a', 'c'}).content, r({'y': 1, 'x': {'q'}}).content)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_a_lone_surrogate_in_a_result_is_replaced() -> None:  # P60
    assert result_of("a\udcb2b").content == "a\ufffdb"


def test_each_way_to_end_says_which_it_was_and_what_to_do() -> None:  # K6
    denied = result_of_error(ActionDenied("pay", "no_answer", "approve pay"))
    doubt = result_of_error(ActionInDoubt("pay", "ab12", "no answer within 5 seconds"))
    fault = result_of_error(ToolFailed("pay", "ValueError", "boom"))

    assert denied.content.startswith("Denied: pay needs approval")
    assert "may have happened" in doubt.content
    assert fault.content == "pay failed: ValueError: boom"
    assert all(told.is_error for told in (denied, doubt, fault))


def test_every_leaf_of_a_group_is_named() -> None:  # P23
    inner = ExceptionGroup("inner", [TimeoutError("read timed out"), OSError("gone")])
    told = failed("fetch", *described(ExceptionGroup("outer", [inner, KeyError("k")])))
    assert told.content == "fetch failed: TimeoutError: read timed out; OSError: gone; KeyError: 'k'"


def test_an_unknown_tool_is_told_the_others_in_declared_order() -> None:  # P12
    told = unknown_tool("get_weather", ["get_rain", "get_wind"])
    assert told.content == ("There is no tool 'get_weather'. The tools are: get_rain, get_wind. This call was not run.")


def test_an_error_without_text_still_says_something() -> None:  # P68
    from society.results import CallResult

    assert CallResult("", is_error=True).block("t1")["content"]
