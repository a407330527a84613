"""The agent loop as a state machine (L1–L4)."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any, get_args

import pytest
from histories import open_calls
from hypothesis import given
from hypothesis import strategies as st

from society.errors import ScenarioError
from society.loop import ROWS, Ask, Call, End, Loop, Run, batches, begin
from society.models import request_body
from society.replies import reply_of
from society.results import CallResult, result_of
from society.testing.replies import say, use

HELLO = {"role": "user", "content": "hello"}


def start(
    *, max_turns: int = 10, max_tokens: int = 256, enlarged_tokens: int | None = None, messages: Any = (HELLO,)
) -> Loop:
    return begin(messages, max_turns=max_turns, max_tokens=max_tokens, enlarged_tokens=enlarged_tokens)


def after(state: Loop, *inputs: Any) -> Loop:
    """Feed raw replies and lists of results."""
    for given_in in inputs:
        if isinstance(given_in, list):
            state = state.answered([result_of(value) for value in given_in])
        else:
            state = state.replied(reply_of(given_in))
    return state


def end_of(state: Loop) -> End:
    step = state.step
    assert isinstance(step, End)
    return step


def asked(state: Loop) -> Ask:
    step = state.step
    assert isinstance(step, Ask)
    return step


def calls(state: Loop) -> tuple[Call, ...]:
    step = state.step
    assert isinstance(step, Run)
    return step.calls


def test_there_is_a_row_for_each_stop_reason_of_the_installed_sdk() -> None:
    from anthropic.types import StopReason
    from anthropic.types.beta import BetaStopReason

    assert set(ROWS) == set(get_args(StopReason)) | set(get_args(BetaStopReason))


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence"])
def test_a_turn_that_ends_is_done(reason: str) -> None:
    state = after(start(), say("hi", stop_reason=reason))

    assert end_of(state) == End("done", "hi")
    assert state.messages == [HELLO, {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}]


def test_calls_are_run_and_answered_by_one_user_message_in_request_order() -> None:
    state = after(start(), use([("a", {"x": 1}), ("b", {})], saying="wait"))
    assert [(call.name, call.arguments) for call in calls(state)] == [("a", {"x": 1}), ("b", {})]

    state = after(state, ["A", {"b": 2}])

    assert asked(state).messages[-1] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "A"},
            {"type": "tool_result", "tool_use_id": "t2", "content": '{"b": 2}'},
        ],
    }
    assert end_of(after(state, say("done"))).text == "done"


def test_tool_use_without_a_call_is_malformed_after_one_retry() -> None:
    state = after(start(), say("…", stop_reason="tool_use"))
    assert asked(state).messages == [HELLO]
    assert asked(state).number == 2

    assert end_of(after(state, say("…", stop_reason="tool_use"))).outcome == "malformed"
    assert end_of(after(state, say("ok"))).outcome == "done"


def test_a_malformed_answer_is_asked_for_once_more() -> None:
    state = start().malformed("no content")
    assert asked(state).number == 2
    assert end_of(state.malformed("no content again")) == End("malformed", "", "no content again")


def test_each_turn_has_its_own_retry() -> None:
    state = after(start().malformed("x"), use("a"), [None]).malformed("y")
    assert asked(state).messages[-1]["role"] == "user"


def test_a_pause_goes_back_unchanged_and_its_text_belongs_to_the_answer() -> None:  # P07
    state = after(start(), say("part 1", stop_reason="pause_turn"))
    assert asked(state).messages == [HELLO, {"role": "assistant", "content": [{"type": "text", "text": "part 1"}]}]

    state = after(state, say("part 2", stop_reason="pause_turn"))
    assert [message["role"] for message in asked(state).messages] == ["user", "assistant", "assistant"]

    state = after(state, say("part 3"))
    assert end_of(state) == End("done", "part 1part 2part 3")
    assert state.turns == 3


def test_pauses_count_as_turns_and_end_at_the_guard() -> None:  # P07
    state = start(max_turns=3)
    for _ in range(3):
        state = after(state, say(".", stop_reason="pause_turn"))
    assert end_of(state).outcome == "max_turns"


@pytest.mark.parametrize("reply", [use("a", stop_reason="pause_turn"), {"content": [], "stop_reason": "compaction"}])
def test_a_pause_that_cannot_be_sent_back_is_malformed(reply: dict[str, Any]) -> None:
    assert end_of(after(start(), reply, reply)).outcome == "malformed"


def test_a_call_cut_off_by_the_limit_is_asked_for_once_more_with_more_room() -> None:  # P06
    cut = use("write_file", saying="Writing it", path="a.txt", stop_reason="max_tokens")
    state = after(start(max_tokens=256, enlarged_tokens=1024), cut)

    assert asked(state) == Ask(start().messages, 1024, 2)
    assert end_of(after(state, cut)).outcome == "truncated"
    whole = after(state, use("write_file", path="a.txt", content="…"))
    assert calls(whole)[0].arguments["content"] == "…"
    assert asked(after(whole, ["ok"])).max_tokens == 256


def test_a_cut_off_call_without_a_further_try_is_truncated_and_leaves_no_call_behind() -> None:  # P06
    state = after(start(), use("write_file", saying="Writing it", path="a.txt", stop_reason="max_tokens"))

    assert end_of(state).outcome == "truncated"
    assert state.messages == [HELLO]


def test_text_cut_off_by_the_limit_is_truncated_with_the_text() -> None:
    state = after(start(enlarged_tokens=1024), say("Once upon a", stop_reason="max_tokens"))
    assert (end_of(state).outcome, end_of(state).text) == ("truncated", "Once upon a")


def test_a_refusal_says_its_category() -> None:  # P09
    reply = {"content": [], "stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio"}}
    state = after(start(), reply)

    assert end_of(state) == End("refused", "", "category bio")
    assert state.messages == [HELLO]


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (use("pay", eur=5, stop_reason="brand_new_reason"), "'brand_new_reason'"),
        (say("hello", stop_reason=None), "no stop_reason"),
    ],
)
def test_an_unknown_or_missing_stop_reason_is_never_done_and_runs_nothing(
    reply: dict[str, Any], named: str
) -> None:  # P09
    state = after(start(), reply)

    assert end_of(state).outcome == "unknown_stop"
    assert named in end_of(state).reason
    assert open_calls(state.messages) == set()


def test_a_full_context_has_its_own_outcome() -> None:
    assert end_of(after(start(), say("and", stop_reason="model_context_window_exceeded"))).outcome == "context_full"


def test_only_an_exact_tool_use_runs_calls() -> None:
    state = after(start(), use("pay", stop_reason="end_turn"))

    assert "1 calls were not run" in end_of(state).reason
    assert state.messages[-1]["content"][0]["is_error"] is True
    assert open_calls(state.messages) == set()


def test_the_turn_guard_keeps_the_results_of_its_last_turn() -> None:  # P10
    state = after(start(max_turns=2), use("step", id="t1"), ["one"], use("step", id="t2"), ["two"])

    assert end_of(state).outcome == "max_turns"
    assert [message["role"] for message in state.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert open_calls(state.messages) == set()
    gone_on = start(messages=state.messages)
    assert asked(gone_on).messages == state.messages


def test_ids_repeated_in_one_reply_are_made_distinct_in_calls_and_results() -> None:  # P05
    raw = use([("search", {"q": "a"}), ("search", {"q": "b"})])
    for block in raw["content"]:
        block["id"] = "search"
    state = after(start(), raw)

    assert [(call.id, call.arguments["q"]) for call in calls(state)] == [("search", "a"), ("search_2", "b")]
    state = after(state, ["A", "B"])
    turn, results = state.messages[-2:]
    assert [block["id"] for block in turn["content"]] == ["search", "search_2"]
    assert [block["tool_use_id"] for block in results["content"]] == ["search", "search_2"]


def test_ids_repeated_across_replies_are_made_distinct_also_after_going_on() -> None:  # P05
    state = after(start(), use("a", id="t1"), ["x"], use("a", id="t1"), ["y"])
    assert [call["id"] for message in state.messages[1::2] for call in message["content"]] == ["t1", "t1_2"]

    gone_on = after(start(messages=state.messages), use("a", id="t1"))
    assert calls(gone_on)[0].id == "t1_3"


def test_a_missing_id_is_given_one() -> None:
    state = after(start(), {"content": [{"type": "tool_use", "name": "a", "input": {}}], "stop_reason": "tool_use"})
    assert calls(state)[0].id == "call"


def test_the_assistant_turn_goes_back_as_it_came_but_for_empty_texts() -> None:  # L3
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s=="}
    new = {"type": "brand_new_block", "payload": {"a": [1, None]}}
    blocks = [{"type": "text", "text": ""}, thinking, new, {"type": "text", "text": " "}]
    state = after(start(), {"content": blocks, "stop_reason": "end_turn"})
    assert state.messages[-1]["content"] == blocks[1:]


def test_a_guard_answers_the_calls_that_are_open() -> None:  # L4
    state = after(start(), use([("a", {}), ("b", {})]))
    state = state.stop("cancelled", "from outside", [result_of("done"), None])

    assert end_of(state) == End("cancelled", "", "from outside")
    answers = state.messages[-1]["content"]
    assert answers[0]["content"] == "done"
    assert "not run" in answers[1]["content"]
    assert open_calls(state.messages) == set()


def test_a_history_with_an_open_call_is_refused() -> None:  # P01
    turn = {"role": "assistant", "content": use("a", id="t1")["content"]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": ""}]}
    for history in ([HELLO, turn], [HELLO, turn, HELLO], [HELLO, turn, answer], [HELLO, turn, turn]):
        with pytest.raises(ScenarioError, match="'t1' has no answer"):
            start(messages=history)


@pytest.mark.parametrize(
    "wrong", [{"max_turns": 0}, {"max_tokens": True}, {"enlarged_tokens": 256}, {"messages": ["hi"]}]
)
def test_impossible_beginnings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError):
        start(**wrong)


def test_neighbors_that_may_overlap_run_together_and_others_alone() -> None:  # L5
    state = after(start(), use([("r", {}), ("r", {}), ("w", {}), ("r", {}), ("w", {}), ("w", {})]))
    grouped = batches(calls(state), lambda call: call.name == "r")
    assert [[call.index for call in batch] for batch in grouped] == [[0, 1], [2], [3], [4], [5]]


REPLIES = st.one_of(
    st.builds(say, st.sampled_from(["", "hi"]), stop_reason=st.sampled_from([*ROWS, None, "new"])),
    st.builds(
        lambda names, reason: use([(name, {}) for name in names], stop_reason=reason),
        st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
        st.sampled_from([*ROWS, "tool_use", "tool_use", None]),
    ),
)


@given(st.lists(REPLIES, max_size=8), st.integers(1, 4))
def test_whatever_comes_every_request_is_answered_and_the_state_can_be_rebuilt(replies: list[Any], guard: int) -> None:
    def fed(state: Loop, reply: Any) -> Loop:
        assert open_calls(state.messages) == set()
        if isinstance(state.step, Run):
            state = state.answered([CallResult("ok")] * len(state.step.calls))
        return state if isinstance(state.step, End) else state.replied(reply_of(reply))

    first = start(max_turns=guard, enlarged_tokens=512)
    state = reduce(fed, replies, first)
    stopped = state.stop("cancelled")
    assert open_calls(stopped.messages) == set()
    assert state.turns <= guard
    assert reduce(fed, replies, first) == state
    start(messages=stopped.messages)


def test_a_long_history_costs_no_more_to_build_on_than_a_short_one() -> None:
    def seconds(exchanges: int) -> float:
        state = start(max_turns=2000)
        for _ in range(exchanges):
            state = after(state, use("a", id="always the same"), ["x"])
        reply, answers = reply_of(use("a")), [CallResult("x")]
        rounds = []
        for _ in range(7):
            began = time.process_time()
            for _ in range(100):
                grown = state.replied(reply).answered(answers)
                request_body(messages=asked(grown).messages, max_tokens=16)
            rounds.append(time.process_time() - began)
        return min(rounds)

    # The bar is twice; a busy machine gets a little more.
    assert seconds(1000) < 3 * seconds(10)
