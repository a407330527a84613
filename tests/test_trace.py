"""Reading traces: events, digests, damage, differences (J9)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from society.errors import SocietyError, TraceDamaged
from society.trace import Difference, Trace
from tests.stories import event, incident, lines, send, trace


def first(left: Trace, right: Trace) -> Difference:
    return next(iter(left.diff(right)))


# Events.


def test_an_event_has_its_fields_as_attributes() -> None:
    sent = trace(send(1, "ada", "bob", "ping", n=3)).events[0]

    assert (sent.round, sent.agent, sent.kind, sent.to, sent.body) == (1, "ada", "send", "bob", {"n": 3})


def test_an_event_without_a_field_names_its_kind_and_what_it_has() -> None:
    with pytest.raises(AttributeError, match="kind 'share' has no 'body'; it has round, agent, kind, key, value"):
        _ = trace(event(1, "ada", "share", key="a", value=1)).events[0].body


def test_events_are_found_by_kind_agent_and_round() -> None:
    story = trace(send(1, "ada", "bob"), send(1, "bob", "ada"), send(2, "ada", None), event(2, "ada", "note", text="x"))

    assert len(story.where(kind="send")) == 3
    assert [found.round for found in story.where(kind="send", agent="ada")] == [1, 2]
    assert story.where(kind="send", agent="ada", round=2)[0].to is None


def test_the_end_is_an_event_and_tells_the_outcome() -> None:
    story = trace(send(1, "ada", "bob"), outcome="quiet")

    assert story.events[-1].kind == "end"
    assert story.outcome == "quiet"
    assert trace(outcome=None).outcome is None


def test_a_line_ends_at_lf_alone() -> None:
    text = "one\u2028two\u2029three\u0085four\x0bfive"

    story = trace(event(1, "ada", "note", text=text))

    assert story.events[0].text == text
    story.verify()


def test_measures_are_lists_with_an_index_for_each_round() -> None:
    story = trace(
        event(0, None, "measure", name="open", value=3),
        event(1, None, "measure", name="open", value=2),
        event(2, None, "measure", name="open", value=0),
    )

    assert story.measures == {"open": [3, 2, 0]}


def test_measures_of_each_agent_start_with_its_birth() -> None:
    story = trace(
        event(0, "ada", "measure", name="calls", value=0),
        event(1, "ada", "measure", name="calls", value=1),
        event(1, "new", "measure", name="calls", value=5),
    )

    assert story.measures == {"calls": {"ada": [0, 1], "new": [None, 5]}}


# Digest and files.


def test_the_digest_is_that_of_all_bytes_before_the_end() -> None:
    story = incident()
    body = story.data[: story.data.rindex(b'{"round"')]

    assert story.digest == story.events[-1].sha256 == hashlib.sha256(body).hexdigest()


def test_a_run_that_goes_on_has_the_digest_of_what_there_is() -> None:
    going = trace(send(1, "ada", "bob"), outcome=None)

    assert going.digest == hashlib.sha256(going.data).hexdigest() == trace(send(1, "ada", "bob")).digest


def test_what_was_saved_is_loaded_byte_for_byte(tmp_path: Path) -> None:
    incident().save(tmp_path / "a.jsonl")

    assert Trace.load(tmp_path / "a.jsonl") == incident()
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_trace_without_an_end_is_loaded_when_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(trace(send(1, "ada", "bob"), outcome=None).data + b'{"round":2,"age')

    with pytest.raises(TraceDamaged, match="torn"):
        Trace.load(file)
    assert [found.kind for found in Trace.load(file, unfinished=True).events] == ["send"]


# Damage.


def test_damage_is_an_error_of_ours_with_line_and_offset() -> None:
    head = lines({"format": "society-trace-1", "scenario": "s", "activation": "a", "seed": 0, "agents": []})

    with pytest.raises(SocietyError) as caught:
        Trace(head + b"{nonsense}\n").verify("a.jsonl")

    assert isinstance(caught.value, TraceDamaged)
    assert (caught.value.line, caught.value.offset) == (2, len(head))
    assert str(caught.value).startswith(f"a.jsonl: line 2 at byte {len(head)}: not JSON: ")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"[1]\n", "not an object"),
        (b'{"format":"other"}\n', "not a trace"),
        (b'{"format":"society-trace-1","scenario":"s","activation":"a","seed":true,"agents":[]}\n', "`seed` is True"),
        (b'{"format":"society-trace-1","scenario":"s","activation":"a","seed":1,"agents":[1]}\n', "not all names"),
        (trace().data + b"{}\n", "after `end`"),
        (trace(outcome=None).data, "no line `end`"),
        (trace({"round": -1, "agent": None, "kind": "round"}).data, "`round` is -1"),
        (trace({"round": 1, "agent": 3, "kind": "round"}).data, "`agent` is 3"),
        (trace({"round": 1, "agent": None, "kind": None}).data, "`kind` is None"),
        (trace().data.replace(b'"events":0', b'"events":5'), "there are 0 events before it, and it says 5"),
        (trace(event(1, "ada", "note", text="NaN")).data.replace(b'"NaN"', b"NaN"), "not JSON"),
        (trace(event(1, "ada", "note", text="x")).data.replace(b'"x"', b'"\xff"'), "not JSON"),
    ],
)
def test_what_is_not_a_whole_trace_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(TraceDamaged, match=why):
        Trace(data).verify()


@given(st.data())
def test_one_changed_byte_is_always_found(data: st.DataObject) -> None:
    whole = incident().data
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda other: other != whole[place]))

    changed = whole[:place] + bytes([byte]) + whole[place + 1 :]

    # Only what stands in the last line's own texts, its outcome, reason and round, is not under the digest.
    unprotected = whole.rindex(b'{"round"') <= place
    try:
        Trace(changed).verify()
    except TraceDamaged:
        return
    assert unprotected


# Differences.


def test_a_trace_does_not_differ_from_itself() -> None:
    assert list(incident().diff(incident())) == []


def test_a_difference_names_round_agent_kind_field_and_both_values() -> None:
    left = trace(send(1, "ada", "bob"), event(2, "bob", "share", key="a", value=1))
    right = trace(send(1, "ada", "bob"), event(2, "bob", "share", key="a", value=2))

    assert list(left.diff(right)) == [Difference(2, "bob", "share", "a", "value", 1, 2)]
    assert str(first(left, right)) == "round 2, bob, share a, value: 1 | 2"


def test_a_difference_deep_in_a_value_is_named_by_its_path() -> None:
    left, right = (trace(send(1, "ada", "bob", items=[{"n": 1}, {"n": n}], x=0)) for n in (2, 3))

    assert first(left, right) == Difference(1, "ada", "send", None, "body.items[1].n", 2, 3)


def test_one_event_more_does_not_make_all_that_follow_differ() -> None:
    one, other = send(1, "ada", "bob"), event(1, "bob", "share", key="a", value=1)
    new = event(1, "ada", "note", text="more")

    differences = list(trace(one, other).diff(trace(new, one, other)))

    assert differences == [Difference(1, "ada", "note", None, None, None, new)]
    assert "(nothing) | {" in str(differences[0])


def test_differences_come_in_order_of_the_story() -> None:
    left = trace(event(1, "bob", "share", key="b", value=1), event(2, "ada", "note", text="x"))
    right = trace(
        event(1, "bob", "receive", messages=[["ada", 1]]),
        event(1, "bob", "share", key="b", value=2),
        event(2, "ada", "note", text="y"),
    )

    assert [(each.round, each.kind) for each in left.diff(right)] == [(1, "receive"), (1, "share"), (2, "note")]


def test_headers_and_outcomes_differ_too() -> None:
    left, right = trace(seed=1), trace(seed=2, outcome="failed", reason="x")

    assert [(each.kind, each.field) for each in left.diff(right)] == [
        ("header", "seed"),
        ("end", "outcome"),
        ("end", "reason"),
    ]


def test_the_same_events_in_another_order_differ() -> None:
    one, other = send(1, "ada", None), send(1, "bob", None)

    assert first(trace(one, other), trace(other, one)).kind == "order"


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([0], [False])])
def test_what_python_holds_for_equal_and_json_does_not_differs(one: Any, other: Any) -> None:
    assert first(*(trace(event(1, "ada", "share", key="a", value=value)) for value in (one, other))).kind == "share"


def test_another_spelling_of_the_same_values_is_a_difference_of_bytes() -> None:
    story = trace(event(1, "ada", "note", text="é"))

    assert list(story.diff(Trace(story.data.replace("é".encode(), b"\\u00e9"))))


def test_the_first_difference_of_long_traces_is_found_without_all_others() -> None:
    def told(value: int) -> Trace:
        return trace(*(event(round, "ada", "share", key="a", value=value) for round in range(1, 2000)))

    assert first(told(1), told(2)).round == 1


def test_texts_in_differences_control_nothing() -> None:
    left, right = (trace(event(1, "ada", "note", text=text)) for text in ("\x1b[2J", "\u202eevil"))

    assert str(first(left, right)) == 'round 1, ada, note, text: "\\u001b[2J" | "\\u202eevil"'


def test_a_trace_is_what_json_readers_expect() -> None:
    for line in incident().data.split(b"\n")[:-1]:
        assert msgspec.json.encode(msgspec.json.decode(line)) == line
