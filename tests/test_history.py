"""Histories of whole exchanges: what is taken from them, and that growing and cutting them is as good as reading them anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from society.history import NOTHING_SAID, History, free_id, history_of


def exchange(*ids: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": call_id, "name": "t", "input": {}} for call_id in ids],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call_id, "content": ""} for call_id in ids],
        },
    ]


steps = st.one_of(
    st.tuples(st.just("say"), st.lists(st.sampled_from(["a", "a_2", "a_3", "a_2_2", "b", "a_1", "a_02"]), max_size=3)),
    st.tuples(st.just("forget"), st.integers(1, 3)),
)


@given(st.lists(steps, max_size=20))
def test_ids_are_given_out_alike_whether_a_history_has_grown_or_was_read(done: list[tuple[str, Any]]) -> None:
    history: History = NOTHING_SAID
    for what, detail in done:
        if what == "forget":
            history = history.without_first(min(3 * detail, len(history.messages)))
            continue
        taken, ids = history.ids, []
        for wanted in detail:
            given_id, taken = free_id(wanted, taken)
            ids.append(given_id)
        assert len(set(ids)) == len(ids) and not set(ids) & set(history.ids)
        history = history.grown(history_of(exchange(*ids)).messages)

        read = history_of(history.messages)
        assert read.messages == history.messages and set(read.ids) == set(history.ids)
        for wanted in ("a", "a_2", "a_3", "b", "c"):
            assert free_id(wanted, history.ids)[0] == free_id(wanted, read.ids)[0]
