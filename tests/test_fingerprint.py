"""What a scenario means, apart from how it is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from society.fingerprint import differences
from society.load import load_scenario
from society.scenario import Scenario

CODE = """
def ada(tick): pass
def bob(tick): pass
def done(view): return False
"""

SECTIONS = {
    "": ['code = "town.py"', 'name = "town"', "seed = 7", 'until = "done"', "max_ticks = 5", 'about = "x"'],
    "[limits]": ["inbox_capacity = 4", "tool_timeout = 2.0", "max_concurrent_tools = 3"],
    "[policy]": ['default = "allow"', 'rules = [{ never = "restart", when = "round > 1" }]'],
    "[[agents]]": ['name = "ada"', 'behavior = "ada"', "count = 2", "state = { tries = 0, why = 'x' }"],
    "[[events]]": ["round = 2", "share = { status = 'closed' }"],
    "[[measures]]": ['name = "m"', 'value = "restarts"'],
    "[shared]": ['status = "open"', "restarts = { initial = 0, merge = 'sum' }"],
    "[parameters]": ["patience = 3", "mood = 'calm'"],
}
ORDERED = ("[shared]", "[parameters]")
"""Behaviors walk them, so the order of their keys has a meaning."""


def _text(sections: dict[str, list[str]], between: str = "\n") -> str:
    return between.join(line for header, lines in sections.items() for line in (header, *lines) if line) + "\n"


def _load(folder: Path, text: str, **given: Any) -> Scenario:
    (folder / "town.py").write_text(CODE)
    (folder / "town.toml").write_text(text)
    return load_scenario(folder / "town.toml", **given)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=30
)
@given(data=st.data())
def test_comments_layout_and_the_order_of_settings_are_not_meaning(tmp_path: Path, data: st.DataObject) -> None:
    """J7."""
    top, *rest = SECTIONS.items()
    moved = dict([top, *data.draw(st.permutations(rest))])
    shuffled = {
        header: lines if header in ORDERED else data.draw(st.permutations(lines)) for header, lines in moved.items()
    }
    between = data.draw(st.sampled_from(["\n", "\n\n", "  # a note\n", "\r\n", "\n  \t"]))

    assert _load(tmp_path, _text(shuffled, between)).fingerprint == _load(tmp_path, _text(SECTIONS)).fingerprint


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('about = "x"', 'about = "another"'),
        ("max_ticks = 5", "max_ticks = 50"),
        ("tool_timeout = 2.0", "tool_timeout = 3.0"),
        ("max_concurrent_tools = 3", ""),
        ('default = "allow"', ""),
        ('status = "open"', 'status = { initial = "open", merge = "last" }'),
        ("seed = 7", 'seed = 7\nactivation = "synchronized"'),
    ],
)
def test_what_is_not_meaning_may_change(tmp_path: Path, before: str, after: str) -> None:
    """J7."""
    text = _text(SECTIONS)
    assert before in text

    assert _load(tmp_path, text.replace(before, after)).fingerprint == _load(tmp_path, text).fingerprint


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ('name = "ada"', 'name = "eve"', "agents"),
        ('behavior = "ada"', 'behavior = "bob"', "agents.ada.behavior"),
        ("count = 2", "count = 3", "agents.ada.count"),
        ("tries = 0", "tries = 0.0", "agents.ada.state.tries"),
        ('status = "open"', 'status = "shut"', "shared.status.initial"),
        ("merge = 'sum'", "merge = 'max'", "shared.restarts.merge"),
        ("seed = 7", "seed = 8", "seed"),
        ("seed = 7", 'seed = 7\nactivation = "sequential"', "activation"),
        ("seed = 7", 'seed = 7\non_error = "retire"', "on_error"),
        ('until = "done"', "until = 'round > 3'", "until"),
        ("inbox_capacity = 4", "inbox_capacity = 5", "limits.inbox_capacity"),
        ("patience = 3", "patience = 4", "parameters.patience"),
        ("round > 1", "round > 2", "policy.rules[0]"),
        ("round = 2", "round = 3", "events[0].round"),
        ("'closed'", "'gone'", "events[0].share"),
    ],
)
def test_what_is_meaning_is_named_when_it_changes(tmp_path: Path, before: str, after: str, path: str) -> None:
    """J7."""
    text = _text(SECTIONS)
    assert before in text
    old, new = _load(tmp_path, text), _load(tmp_path, text.replace(before, after))

    assert old.fingerprint != new.fingerprint
    assert path in [said.split(": ")[0] for said in differences(old.meaning, new.meaning)]


def test_the_text_of_the_code_is_not_meaning_but_the_agents_it_makes_are(tmp_path: Path) -> None:
    """J7."""
    text = 'code = "town.py"\n[[agents]]\nfrom = "grid"\n'
    code = "from society.agent import Agent\ndef cell(tick): pass\ndef grid(setup): return [Agent('a', cell)]\n"

    def loaded(code: str) -> Scenario:
        (tmp_path / "town.toml").write_text(text)
        (tmp_path / "town.py").write_text(code)
        return load_scenario(tmp_path / "town.toml")

    same, other = loaded(code + "# mended\n"), loaded(code.replace("'a'", "'b'"))

    assert loaded(code).fingerprint == same.fingerprint != other.fingerprint
    (said,) = differences(same.meaning, other.meaning)
    assert said.startswith('agents.grid.population: {"agents":1,')


def test_a_meaning_is_named_by_key_path(tmp_path: Path) -> None:
    meaning = _load(tmp_path, _text(SECTIONS)).meaning

    assert meaning["agents"] == ["ada"]
    assert meaning["policy.rules[0]"] == ["never", "restart", "round > 1"]
    assert not {"about", "max_ticks", "limits.tool_timeout", "code"} & set(meaning)
