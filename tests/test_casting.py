"""Prompts and models in scenario files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from society import ReplayModel, ScenarioError, ScriptedModel, load_scenario
from society.errors import ScenarioFaults
from society.models import answers_in, load_answers
from society.scenario import Scenario
from society.testing import say

HEAD = """
code = "town.py"
max_ticks = 1
[parameters]
patience = 3
[models.script]
use = "scripted"
replies = "town.replies.toml"
"""
CODE = "def calm(tick): tick.note('calm')\n"
REPLIES = '[[ada]]\ncontent = "hello"\nusage = { input_tokens = 3, output_tokens = 4 }\n'
ADA = '[[agents]]\nname = "ada"\nmodel = "script"\nprompt = '


def load(folder: Path, text: str, **given: Any) -> Scenario:
    for name, content in (("town.py", CODE), ("town.replies.toml", REPLIES), ("town.toml", text)):
        (folder / name).write_text(content, encoding="utf-8")
    return load_scenario(folder / "town.toml", **given)


def faults(folder: Path, text: str, **given: Any) -> list[str]:
    with pytest.raises(ScenarioFaults) as caught:
        load(folder, text, **given)
    return [str(fault).replace(f"{folder}/", "") for fault in caught.value.faults]


def asked(scenario: Scenario) -> Any:
    model = ScriptedModel({agent.name: [say("")] for agent in scenario.agents})
    trio.run(scenario.society(model=model).run, 1)
    return model.requests


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ('"Be kind."', "Be kind."),
        ('{ file = "ada.md" }', "Be brave. {patience}"),
        ('{ template = "Wait {patience} rounds, {mood} {agent}." }', "Wait 3 rounds, calm ada."),
    ],
)
def test_a_prompt_is_literal_from_a_file_or_a_template(tmp_path: Path, prompt: str, sent: str) -> None:
    (tmp_path / "ada.md").write_text("Be brave. {patience}\n", encoding="utf-8")
    (request,) = asked(load(tmp_path, HEAD + ADA + prompt + '\nstate = { mood = "calm" }\n'))
    assert request["system"] == sent


def test_a_run_counts_tokens_and_its_budget_ends_it(tmp_path: Path) -> None:
    scenario = load(tmp_path, HEAD + ADA + '"P"\n[budget]\ntokens = 7\n', set={"max_ticks": 5})
    result = trio.run(scenario.society().run, 5)
    assert (result.outcome, result.rounds, result.usage["output_tokens"]) == ("budget", 1, 4)


def test_a_fallback_of_the_code_acts_where_the_script_ends(tmp_path: Path) -> None:
    scenario = load(tmp_path, HEAD + ADA + '"P"\nfallback = "calm"\n')
    society = scenario.society()
    trio.run(society.run, 2)
    assert [(event.round, event.text) for event in society.trace.where(kind="note")] == [(2, "calm")]


def test_one_model_may_stand_for_all_that_are_named(tmp_path: Path) -> None:
    text = HEAD + '[models.other]\nuse = "scripted"\nreplies = "other.toml"\n' + ADA + '"P"\n'
    (tmp_path / "other.toml").write_text('[[ada]]\ncontent = "from the other"\n', encoding="utf-8")
    society = load(tmp_path, text, set={"model": "other"}).society()
    trio.run(society.run, 1)
    assert society.trace.where(kind="model")[0].text == "from the other"


def test_what_is_wrong_is_told_at_its_place(tmp_path: Path) -> None:
    agents = "".join(
        f'[[agents]]\nname = "a{number}"\n{keys}\n'
        for number, keys in enumerate(
            (
                'prompt = ""',
                'prompt = { flie = "x" }',
                'prompt = { template = "{patienc}" }\nmodel = "script"',
                'prompt = { file = "gone.md" }\nmodel = "script"',
                'prompt = "P"\nmodel = "scirpt"',
                'prompt = "P"\nmodel = "script"\nfallback = "clam"',
                'behavior = "calm"\ntools = ["x"]',
                'behavior = "calm"\nprompt = "P"',
                'prompt = "P"\nmodel = "script"\nwake = "never"',
            )
        )
    )
    budget = "[budget]\nusd = 0\n[models.bare]\nuse = \"scripted\"\n[models.odd]\nuse = 'x'\nreplies = 'y'\n"
    said = faults(tmp_path, HEAD + agents + budget)

    for number, part in enumerate(
        (
            "expected a text, { file = … }, or { template = … }",
            "expected a text, { file = … }, or { template = … }",
            "neither a parameter nor a key of the state 'patienc'; did you mean patience?",
            "there is no file",
            "unknown model 'scirpt'; did you mean script?",
            "the code file has no function 'clam'; did you mean calm?",
            "tools: only with a `prompt`",
            "`behavior` and `prompt` both say what it does",
            'expected one of "always", "inbox"',
        )
    ):
        assert any(f"agents[{number}]" in line and part in line for line in said), (part, said)
    assert any("budget.usd: expected a number above 0, found the number 0" in line for line in said)
    assert any("models.bare: `replies` is missing" in line for line in said)
    assert any("models.odd.replies: goes with" in line for line in said)


def test_a_prompt_and_a_model_are_part_of_the_meaning_and_a_key_is_not(tmp_path: Path) -> None:
    """J7, P54; the reference stands for the key."""
    real = '[models.real]\nuse = "m-1"\napi_key = { env = "PLANTED" }\n'
    text = HEAD + real + ADA + '"Be kind."\n'
    before = load(tmp_path, text, environ={"PLANTED": "sk-planted-1"})
    assert load(tmp_path, text, environ={"PLANTED": "sk-planted-2"}).fingerprint == before.fingerprint
    assert load(tmp_path, text, environ={}).fingerprint == before.fingerprint
    assert load(tmp_path, text.replace("kind", "cruel"), environ={}).fingerprint != before.fingerprint
    assert load(tmp_path, text.replace("m-1", "m-2"), environ={}).fingerprint != before.fingerprint
    assert "planted" not in str(before.meaning)


def test_a_model_without_its_key_is_missed_only_when_it_is_asked(tmp_path: Path) -> None:
    real = '[models.real]\nuse = "m-1"\napi_key = { env = "PLANTED" }\n'
    scenario = load(tmp_path, HEAD + real + ADA + '"P"\n', environ={})
    assert trio.run(scenario.society().run, 1).outcome == "finished"
    failed = trio.run(load(tmp_path, HEAD + real + ADA + '"P"\n', set={"model": "real"}, environ={}).society().run, 1)
    assert "models.real.api_key: the environment variable that it refers to is not set" in failed.reason


def test_kept_answers_make_the_same_run_again(tmp_path: Path) -> None:
    """Silence and malformed replies are kept, too."""
    import msgspec

    from society import AsyncSociety, MemoryStore, ModelAgent

    store = MemoryStore()
    script = [say("one"), {"no": "reply"}, {"no": "reply"}, RuntimeError("down"), say("four ☂")]

    def make(model: Any, store: Any = None) -> AsyncSociety:
        return AsyncSociety([ModelAgent("ada", "P")], model=model, store=store)

    first = make(ScriptedModel(script), store)
    trio.run(first.run, 4)
    path = tmp_path / "kept.json"
    path.write_bytes(msgspec.json.encode(answers_in(store.read().records())))
    again = make(ReplayModel(path))
    trio.run(again.run, 4)
    assert again.trace.digest == first.trace.digest

    path.write_text('{"ada": [{"answer": 1}]}', encoding="utf-8")
    with pytest.raises(ScenarioError, match="answer 1 of 'ada' is none"):
        load_answers(path)
