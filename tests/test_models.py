"""Requests, scripts, and the door that every reply goes through."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from society.errors import MalformedReply, ModelSilent, ScenarioError
from society.models import Request, ScriptedModel, asked, load_replies, request_body
from society.replies import reply_of, text_of
from society.testing.replies import say, use
from society.values import EMPTY
from society.wire import Assembly, DataLines, UnreadableJson, body_of, read_json


def request(agent: str | None = None, call: int = 1, **body: Any) -> Request:
    given = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, **body}
    return Request(request_body(**given), agent=agent, call=call)


def test_a_request_is_a_read_only_mapping_in_the_shape_of_the_wire() -> None:
    asking = request(system="be brief", tools=[EMPTY])

    assert dict(asking) == {
        "max_tokens": 16,
        "system": "be brief",
        "tools": [{}],
        "messages": [{"role": "user", "content": "hi"}],
    }
    with pytest.raises(TypeError):
        asking["max_tokens"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        asking["messages"].append(1)


def test_the_digest_of_a_request_depends_on_what_is_sent_alone() -> None:
    assert request("ada", 1).digest == request("bob", 7).digest
    assert request().digest != request(system="x").digest


@pytest.mark.trio
async def test_a_script_is_picked_by_agent_and_number_of_its_call() -> None:  # L6
    model = ScriptedModel({"ada": [say("a1"), say("a2")], "bob": [say("b1")]})

    order = [("bob", 1), ("ada", 2), ("ada", 1), ("ada", 2)]
    said = [text_of((await asked(model, request(*who)))["content"]) for who in order]

    assert said == ["b1", "a2", "a1", "a2"]
    assert [(asking.agent, asking.call) for asking in model.requests] == order


@pytest.mark.trio
async def test_a_flat_script_is_refused_once_a_second_agent_asks() -> None:
    model = ScriptedModel([say("one"), say("two")])
    await asked(model, request("ada", 1))
    await asked(model, request("ada", 2))
    with pytest.raises(ScenarioError, match="both 'ada' and 'bob' ask"):
        await asked(model, request("bob", 1))


@pytest.mark.trio
async def test_a_scripted_reply_may_be_a_function_or_an_exception() -> None:
    model = ScriptedModel([lambda asking: say(asking["messages"][-1]["content"]), OSError("gone")])

    assert text_of((await asked(model, request()))["content"]) == "hi"
    with pytest.raises(OSError, match="gone"):
        await asked(model, request())


@pytest.mark.trio
async def test_a_script_that_ends_leaves_the_model_silent_and_says_so() -> None:
    with pytest.raises(ModelSilent, match="holds 0 replies, and call 1 was made"):
        await asked(ScriptedModel([]), request())
    with pytest.raises(ModelSilent, match="Did you mean 'ada'"):
        await asked(ScriptedModel({"ada": []}), request("Ada"))


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (None, "reply"),
        ({"hello": "world"}, "content"),
        ({"content": "text"}, "content"),
        ({"content": [{"text": "x"}]}, "content[0]"),
        ({"content": [{"type": "text", "text": None}]}, "content[0].text"),
        ({"content": [{"type": "tool_use", "id": "t", "input": {}}]}, "content[0].name"),
        ({"content": [{"type": "odd", "when": {1, 2}}]}, "content[0].when"),
        ({"content": [], "stop_reason": 3}, "stop_reason"),
        ({"content": [], "usage": {"input_tokens": "many"}}, "usage.input_tokens"),
    ],
)
def test_a_malformed_reply_is_found_at_the_door(raw: Any, path: str) -> None:
    with pytest.raises(MalformedReply) as caught:
        reply_of(raw)
    assert caught.value.path == path


def test_null_counts_of_usage_are_none_spent() -> None:
    reply = reply_of(
        {"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 5, "cache_read_input_tokens": None}}
    )
    assert reply["usage"]["input_tokens"] == 5
    assert reply["usage"]["cache_read_input_tokens"] == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"eur": math.nan}, "arguments.eur: float nan is no value"),
        ({"eur": [-math.inf]}, r"arguments.eur\[0\]: float -inf"),
        ({"price": int("9" * 4000) * 10**1000}, "number too long: arguments.price"),
        ("{}", "not an object but str"),
        (None, "not an object but nothing"),
        ([1], "not an object but list"),
    ],
)
def test_arguments_that_are_no_values_spoil_their_call_and_not_the_reply(arguments: Any, why: str) -> None:  # P15, P61
    raw = use([("a", {}), ("b", {})])
    raw["content"][0]["input"] = arguments
    reply = reply_of(raw)

    assert reply["content"][0]["input"] == {}
    assert list(reply["unreadable"]) == ["0"]
    import re

    assert re.match(why, reply["unreadable"]["0"]["why"])


def test_a_lone_surrogate_is_replaced_and_the_reply_can_be_written() -> None:  # P60
    reply = reply_of({"content": [{"type": "text", "text": "ok \ud835 end"}], "stop_reason": "end_turn"})
    assert text_of(reply["content"]) == "ok � end"
    text_of(reply["content"]).encode()


def test_json_is_read_strictly() -> None:
    assert read_json('{"a": [1, -0.0, "\\ud83d\\ude00"]}') == {"a": [1, -0.0, "😀"]}
    for text, why in [
        ('{"ids": [1, 2', "not valid JSON: Expecting ',' delimiter at character 14 of 13"),
        ('{"price": ' + "9" * 5000 + "}", "number too long: 5000 digits, and 64 bits are the most"),
        ('{"x": NaN}', "not valid JSON: NaN is no number"),
        ('{"x": 1e400}', "number too large: 1e400"),
        ("[" * 100_000, "nested too deep to be read"),
    ]:
        with pytest.raises(UnreadableJson) as caught:
            read_json(text)
        assert caught.value.why == why


def test_an_unstreamed_body_with_a_number_too_long_keeps_its_other_calls() -> None:  # P15
    first = '{"type": "tool_use", "id": "t1", "name": "buy", "input": {"price": ' + "9" * 5000 + "}}"
    second = '{"type": "tool_use", "id": "t2", "name": "buy", "input": {"price": 5}}'
    body = '{"content": [' + first + ", " + second + '], "stop_reason": "tool_use"}'
    reply = reply_of(body_of(body.encode()))

    assert "number too long" in reply["unreadable"]["0"]["why"]
    assert reply["content"][1]["input"] == {"price": 5}


def test_events_are_cut_out_of_any_chunks() -> None:
    data = b'event: ping\r\ndata: {"type":\r\ndata: "ping"}\r\n\r\n: comment\n\ndata:{"u":"\xe2\x80\xa8"}\n\n'
    whole = DataLines().feed(data)
    lines = DataLines()
    assert [event for index in range(len(data)) for event in lines.feed(data[index : index + 1])] == whole
    assert whole == [b'{"type":\n"ping"}', '{"u":"\u2028"}'.encode()]


def test_a_character_split_over_two_deltas_is_put_together() -> None:  # P60
    assembly = Assembly()
    assembly.take('{"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}}')
    assembly.take('{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}')
    for half in ("\\ud83d", "\\ude00"):
        delta = '{"type": "text_delta", "text": "' + half + '"}'
        assembly.take('{"type": "content_block_delta", "index": 0, "delta": ' + delta + "}")
    assert text_of(reply_of(assembly.reply())["content"]) == "😀"


def test_replies_are_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "town.replies.toml"
    path.write_text(
        '[[ada]]\ncontent = "Zoë"\n[[ada]]\ncontent = [{ type = "tool_use", name = "vote", input = { yes = true } }]\n'
        '[[bob]]\nstop_reason = "refusal"\ncontent = []\n',
        encoding="utf-8",
    )
    loaded = load_replies(path)

    assert [reply["stop_reason"] for reply in loaded["ada"]] == ["end_turn", "tool_use"]
    assert loaded["ada"][1]["content"][0]["input"] == {"yes": True}
    assert loaded["bob"][0]["stop_reason"] == "refusal"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ada]\nx = 1", "replies are written as"),
        ("[[ada]]\ncontent = 3", "reply 1 of 'ada': content: int, not a list"),
        ("[[ada]]\n[[ada]", "town.toml"),
    ],
)
def test_a_broken_file_of_replies_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "town.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=said):
        load_replies(path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_replies(tmp_path / "absent.toml")


def test_nothing_but_a_call_loads_the_sdk() -> None:
    code = (
        "import sys, society.acts, society.sync; from society.anthropic_model import AnthropicModel; AnthropicModel('m');"
        "sys.exit('anthropic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "."}, check=False).returncode == 0
