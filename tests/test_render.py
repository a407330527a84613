"""How a trace looks: to read, and to search (P77, P79)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from society.lines import BOUND, columns, shown
from society.trace import Trace
from tests.stories import action, event, incident, send, trace

GOLDEN = Path(__file__).parent / "golden"
ROUND_1, ROUND_2 = "── round 1 ", "── round 2 "
HOSTILE = "x [/] [/INST] [bold]loud[/bold] [red] arr[0] [link=file] \\[ :smile:"


def block(story: str, agent: str) -> list[str]:
    """Return what stands below an agent's name."""
    below = story.split(f"\n  {agent}\n", 1)[1].splitlines()
    return [line.strip() for line in below[: next(i for i, x in enumerate([*below, ""]) if not x.startswith("    "))]]


# The whole.


@pytest.mark.parametrize("width", [80, 40, 20])
def test_a_story_looks_as_it_did(width: int) -> None:
    assert incident().render(width=width) == (GOLDEN / f"incident.{width}.txt").read_text("utf-8")


def test_a_listing_looks_as_it_did() -> None:
    assert "\n".join(incident().lines()) + "\n" == (GOLDEN / "incident.lines.txt").read_text("utf-8")


def test_a_story_is_eighty_columns_wide_where_nothing_else_is_said() -> None:
    assert incident().render() == incident().render(width=80)


# A round is a block.


def test_a_round_opens_with_what_its_snapshot_changed() -> None:
    story = trace(event(3, None, "round", versions={"status": 2}), event(3, "ada", "note", text="x")).render()

    assert story.index("round 3") < story.index("status version 2") < story.index("ada\n")


def test_agents_stand_in_the_order_of_the_trace_and_the_barrier_after_them() -> None:
    story = incident().render(rounds=[1])

    places = [story.index(f"\n  {title}\n") for title in ("world", "monitor", "analyst", "responder", "barrier")]
    assert places == sorted(places)


def test_an_agent_that_ticks_twice_in_a_round_has_two_parts() -> None:
    story = trace(*(event(1, name, "note", text="x") for name in ("ada", "bob", "ada")), activation="random").render()

    assert story.count("\n  ada\n") == 2


def test_a_conflict_shows_what_was_kept_and_what_was_lost_by_whom() -> None:
    lost = [["ada", 1], ["eve", 3]]
    story = trace(event(1, None, "conflict", key="k", kept=2, lost=lost, writers=["ada", "bob", "eve"])).render()

    assert "k written by ada, bob, eve: kept 2; lost 1 of ada, 3 of eve" in story


def test_a_merge_shows_value_version_and_writers() -> None:
    story = trace(event(1, None, "merge", key="k", value=[1], version=4, writers=["ada"])).render()

    assert "k = [1] (version 4, by ada)" in story


def test_deliveries_of_a_round_are_counted_at_its_barrier() -> None:
    story = trace(
        send(1, "ada", "bob"),
        send(1, "ada", "bob", message=2),
        event(1, None, "refused", sender="ada", recipient="bob", message=2, reason="inbox full"),
    ).render()

    assert "2 messages sent, 1 refused" in story


def test_messages_that_are_received_are_called_by_their_kind() -> None:
    story = trace(
        send(1, "ada", "bob", "ping"),
        send(2, "ada", "bob", "pong"),
        event(2, "bob", "receive", messages=[["ada", 1]]),
    )

    assert block(story.render(), "bob") == ["receive     ping #1 of ada"]


def test_in_sequence_a_message_may_be_received_in_the_round_of_its_sending() -> None:
    story = trace(
        send(1, "ada", "bob", "ping"), event(1, "bob", "receive", messages=[["ada", 1]]), activation="sequential"
    )

    assert "ping #1 of ada" in story.render()


def test_an_inbox_kept_over_rounds_may_hold_the_same_number_twice() -> None:
    story = trace(
        send(1, "ada", "bob", "first"),
        send(2, "ada", "bob", "second"),
        event(3, "bob", "receive", messages=[["ada", 1], ["ada", 1], ["eve", 1]]),
    )

    assert "first #1 of ada, second #1 of ada, #1 of eve" in story.render()


def test_a_run_that_goes_on_says_that_it_has_not_ended() -> None:
    assert trace(send(1, "ada", "bob"), outcome=None).render().endswith("The run has not ended.\n")


def test_kinds_and_fields_that_nobody_knows_are_shown_as_they_are() -> None:
    story = trace(event(1, "ada", "dream", of="sheep"), event(1, "ada", "send", strange=True)).render()

    assert 'dream       of="sheep"' in story
    assert "send        strange=true" in story


@pytest.mark.parametrize(
    ("by", "said"),
    [("rule", "denied by never page"), ("refused", "refused by the person asked"), ("no_answer", "nobody answered")],
)
def test_the_three_ways_to_be_denied_read_differently(by: str, said: str) -> None:
    denied = {**action(1, "ada", "page", "denied", {"by": by}), "rule": "never page"}

    assert said in trace(denied).render()


def test_an_action_in_doubt_shows_its_whole_id() -> None:
    doubt = action(1, "ada", "page", "in_doubt", {"why": "late"})

    assert doubt["id"] in trace(doubt).render(width=20)


# What is asked for.


def test_rounds_agents_and_kinds_narrow_the_story() -> None:
    story = incident()

    assert ROUND_1 not in story.render(rounds=[2])
    assert ROUND_2 in story.render(rounds=range(2, 9))
    assert "\n  analyst\n" not in story.render(agents=["monitor"])
    assert {line.split()[3] for line in list(story.lines(kinds=["send", "share"]))[1:]} == {"send", "share"}


def test_what_the_barrier_says_of_an_agent_belongs_to_it() -> None:
    story = incident().render(agents=["monitor"])

    assert "conflict" in story
    assert "refused" in story
    assert "measure     open" not in story


def test_many_agents_that_did_alike_are_one_line_only_when_that_is_asked_for() -> None:
    names = [f"citizen-{n}" for n in range(200)]
    crowd = trace(*(event(1, name, "note", text=name) for name in names), agents=tuple(names))

    assert crowd.render().count("  note  ") == 200
    assert "\n  citizen-0 … citizen-199 (200 agents, each: note)\n" in crowd.render(collapse=True)


def test_an_agent_that_did_otherwise_is_not_swallowed() -> None:
    events = [event(1, f"c-{n}", "note", text="x") for n in range(9)]
    events.insert(4, event(1, "eve", "share", key="k", value=1))

    story = trace(*events).render(collapse=True)

    assert "c-0 … c-3 (4 agents" in story
    assert "k = 1" in story
    assert "c-4 … c-8 (5 agents" in story


# Long and strange texts.


def test_a_long_value_has_a_stated_bound_and_a_way_to_see_all() -> None:
    long = trace(event(1, "ada", "note", text="x" * 5000))

    assert f"… +{5002 - BOUND:,} characters, --full shows all" in long.render(width=1000)
    assert "x" * 5000 in long.render(width=100_000, full=True)
    assert any("x" * 5000 in line for line in long.lines())


def test_names_are_never_cut_or_broken() -> None:
    name = "an-agent-with-a-name-of-sixty-characters-which-is-rather-long"
    story = trace(send(1, name, name + "-2"), agents=(name,))

    for width in (20, 80):
        assert any(line.strip() == name for line in story.render(width=width).splitlines())
        assert name + "-2" in story.render(width=width)


@given(st.integers(1, 120))
def test_no_line_is_wider_than_asked_unless_a_name_is(width: int) -> None:
    for line in incident().render(width=width).splitlines():
        assert columns(line) <= max(width, 8) or not any(
            word for word in line.split() if columns(word) <= width - 20 > 60
        )


@given(st.text(max_size=300), st.integers(8, 100))
def test_wrapping_loses_no_letter(text: str, width: int) -> None:
    story = trace(event(1, "ada", "note", text=text.encode(errors="replace").decode()))

    wide, narrow = (story.render(width=columns, full=True, kinds=["note"]) for columns in (10_000, width))

    def letters(rendered: str) -> str:
        return "".join(rendered.split("ada\n", 1)[1].split())

    assert letters(wide) == letters(narrow)


def test_wide_letters_take_two_columns() -> None:
    assert columns("東京 é") == 6
    assert columns("e\u0301") == 1
    story = trace(event(1, "ada", "note", text="東" * 100)).render(width=40)
    assert all(columns(line) <= 40 for line in story.splitlines())


def test_square_brackets_and_colons_stay_as_they_are() -> None:
    story = trace(
        event(1, HOSTILE, "note", text=HOSTILE), send(1, HOSTILE, None, HOSTILE), agents=(HOSTILE,), scenario=HOSTILE
    )

    rendered = story.render(width=10_000)

    assert rendered.count(HOSTILE) == 4  # scenario, agents, its part, its message
    assert HOSTILE.replace("\\", "\\\\") in rendered  # a text is shown in quotes, as JSON writes it


@given(st.text())
def test_nothing_that_controls_a_terminal_or_turns_the_writing_is_shown(text: str) -> None:
    for letter in shown(text):
        assert unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(letter) not in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")


def test_what_is_not_shown_is_written_out() -> None:
    assert shown("a\x1b[2J\u202eb\x9b\n\t") == "a\\x1b[2J\\u202eb\\x9b\\n\\t"
    assert shown("naïve 東京 👍") == "naïve 東京 👍"


def test_one_event_is_one_line_whatever_its_texts_hold() -> None:
    story = trace(event(1, "ada", "note", text="a\nb\u2028c\x85d"), event(1, "ada", "failed", error="x\ny", where=None))

    lines = list(story.lines())

    assert len(lines) == 4
    assert all(len(line.splitlines()) == 1 for line in lines)


def test_lines_to_search_start_with_round_agent_and_kind() -> None:
    assert list(trace(send(3, "ada", "bob", "ping", n=1)).lines())[1] == (
        'round 3  ada  send  to="bob"  message=1  message_kind="ping"  body={"n": 1}'
    )


def test_a_trace_of_thousands_of_events_is_shown_in_a_moment() -> None:
    events = [send(round, f"a-{n}", None, message=1) for round in range(1, 6) for n in range(200)]
    long = Trace(trace(*events, outcome=None).data)

    assert len(long.render().splitlines()) > 2000
