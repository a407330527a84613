"""Answers with a contract: schemas, coercion, closed sets, ranges, defaults."""

from __future__ import annotations

import enum
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from society.errors import ScenarioError
from society.reason import contract_of, field, question_text, read, recorded
from society.replies import reply_of
from society.testing.replies import say, use


class Mood(enum.Enum):
    CALM = "calm"
    ANGRY = "angry"


@attrs.frozen
class Place:
    city: str = "nowhere"
    floor: int = field(0, ge=0, le=99)


@attrs.frozen
class Verdict:
    risk: float = field(1.0, ge=0, le=1, about="0 is none")
    cause: Literal["disk", "network", "unknown"] = "unknown"
    tries: int = field(3, gt=0)
    urgent: bool = True
    mood: Mood = Mood.ANGRY
    place: Place = attrs.Factory(Place)
    tags: list[str] = attrs.Factory(list)
    note: str | None = None


VERDICT = contract_of(Verdict)
WHOLE = {
    "risk": 0.25,
    "cause": "disk",
    "tries": 1,
    "urgent": False,
    "mood": "calm",
    "place": {"city": "Oslo", "floor": 2},
    "tags": ["a"],
    "note": "x",
}


def answered(**changed: Any) -> Any:
    return read(VERDICT, reply_of(use(VERDICT.tool, **{**WHOLE, **changed})))


def test_a_class_becomes_a_schema_with_its_bounds_in_words() -> None:
    properties = VERDICT.schema["properties"]
    assert properties["risk"] == {"type": "number", "description": "0 is none. at least 0, at most 1"}
    assert properties["cause"] == {"enum": ["disk", "network", "unknown"]}
    assert properties["mood"] == {"enum": ["calm", "angry"]}
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["place"]["additionalProperties"] is False
    assert VERDICT.schema["required"] == list(WHOLE)


def test_a_model_is_asked_by_structured_output_or_by_a_forced_call() -> None:
    assert VERDICT.structured()["output_config"]["format"]["schema"] == VERDICT.schema
    forced = VERDICT.forced()
    assert forced["tool_choice"] == {"type": "tool", "name": "answer_verdict"}
    assert forced["tools"][0]["input_schema"] == VERDICT.schema


def test_a_whole_answer_is_an_instance() -> None:
    found = answered()
    assert found.answer == Verdict(0.25, "disk", 1, False, Mood.CALM, Place("Oslo", 2), ["a"], "x")
    assert (found.degraded, found.missing) == (False, ())
    assert recorded(found.answer) == WHOLE


@pytest.mark.parametrize("text", ['{"risk": 0.5}', '```json\n{"risk": 0.5}\n```', ' ```\n{"risk": 0.5}``` '])
def test_an_answer_may_be_text_that_is_json(text: str) -> None:
    found = read(VERDICT, reply_of(say(text)))
    assert found.answer.risk == 0.5
    assert found.missing[0] == "cause"


@pytest.mark.parametrize(
    ("name", "given_in", "read_as"),
    [
        ("risk", "0.7", 0.7),
        ("risk", 1, 1.0),
        ("tries", 3.0, 3),
        ("tries", " 4 ", 4),
        ("cause", " Disk", "disk"),
        ("mood", "CALM", Mood.CALM),
        ("urgent", "False", False),
        ("note", 7, "7"),
        ("note", None, None),
        ("place", {"city": "Rom", "floor": "3"}, Place("Rom", 3)),
    ],
)
def test_values_are_read_as_a_person_reads_a_form(name: str, given_in: Any, read_as: Any) -> None:
    found = answered(**{name: given_in})
    assert getattr(found.answer, name) == read_as
    assert type(getattr(found.answer, name)) is type(read_as)
    assert not found.degraded


@pytest.mark.parametrize(
    ("name", "given_in"),
    [
        ("risk", 1.5),
        ("risk", -0.0001),
        ("risk", "nan"),
        ("risk", "1_0"),
        ("risk", True),
        ("risk", [0.5]),
        ("tries", 0),
        ("tries", 2.5),
        ("tries", "9" * 400),
        ("cause", "fire"),
        ("cause", ["disk"]),
        ("urgent", 1),
        ("urgent", "yes"),
        ("mood", None),
        ("place", "Oslo"),
        ("tags", "a"),
        ("tags", [["a"]]),
    ],
)
def test_what_does_not_fit_has_its_default_and_is_named(name: str, given_in: Any) -> None:
    found = answered(**{name: given_in})
    assert getattr(found.answer, name) == getattr(Verdict(), name)
    assert (found.degraded, found.missing) == (True, (name,))


def test_inside_a_nested_answer_only_the_field_is_missing() -> None:
    found = answered(place={"city": "Oslo", "floor": 100})
    assert found.answer.place == Place("Oslo", 0)
    assert found.missing == ("place.floor",)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "the model was silent"),
        (say("I think it is fine."), "not valid JSON"),
        (say("[1]"), "not a JSON object"),
        (say('{"risk": 0}', stop_reason="max_tokens"), "ended with max_tokens"),
        (say('{"risk": 0}', stop_reason=None), "ended with None"),
        ({"content": [], "stop_reason": "refusal"}, "ended with refusal"),
        (use("answer_verdict", risk=0, stop_reason="max_tokens"), "ended with max_tokens"),
        (use("something_else", risk=0), "no call of answer_verdict"),
        (use("answer_verdict", risk=float("nan")), "no value"),
    ],
)
def test_without_an_answer_all_defaults_hold_and_it_says_why(reply: Any, why: str) -> None:  # B5, P09
    found = read(VERDICT, None if reply is None else reply_of(reply))
    assert found.answer == Verdict()
    assert found.degraded
    assert set(found.missing) == set(WHOLE)
    assert why in found.why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*WHOLE, "city", "floor"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*WHOLE, "more"]), JSON))
def test_whatever_comes_the_answer_keeps_its_contract(found: dict[str, Any]) -> None:
    answer = read(VERDICT, reply_of(use([(VERDICT.tool, found)]))).answer
    assert 0 <= answer.risk <= 1
    assert answer.cause in ("disk", "network", "unknown")
    assert answer.tries > 0
    assert isinstance(answer.mood, Mood)
    recorded(answer)


def test_a_union_keeps_the_kind_that_came() -> None:
    @attrs.frozen
    class Either:
        x: int | str = 0

    contract = contract_of(Either)
    for value in (2, "2", "two"):
        answer = read(contract, reply_of(use(contract.tool, x=value))).answer
        assert answer.x == value
        assert type(answer.x) is type(value)


def test_broken_contracts_are_refused_where_they_are_declared() -> None:
    @attrs.frozen
    class NoDefault:
        x: int

    @attrs.frozen
    class Odd:
        x: complex = 0j

    for wrong, said in ((NoDefault, "NoDefault.x has no default"), (Odd, "Odd.x"), (int, "no answer class")):
        with pytest.raises(ScenarioError, match=said):
            contract_of(wrong)
    with pytest.raises(ScenarioError, match="at most 1"):
        field(2.0, le=1)


def test_what_a_question_is_about_stands_under_its_name_in_the_order_given() -> None:
    assert question_text("Why?", {"log": ["東京"], "text": "as it is"}) == (
        'Why?\n\n<log>\n["東京"]\n</log>\n\n<text>\nas it is\n</text>'
    )


@pytest.mark.parametrize("tries", [2.0**64, -(2.0**63) - 2048, "18446744073709551616", 1e300])
def test_a_number_of_more_than_64_bits_is_no_answer(tries: Any) -> None:
    read_back = read(VERDICT, reply_of(use([(VERDICT.tool, {"tries": tries})])))
    assert "tries" in read_back.missing
