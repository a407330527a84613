"""Settings from outside: what they may name, and what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from society.errors import ScenarioFaults
from society.load import load_scenario
from society.scenario import Scenario
from society.setting import read_setting

TEXT = """\
code = "town.py"
seed = 7
[parameters]
patience = 3
grid = { width = 4 }
limits = 1
[shared]
status = "open"
restarts = { initial = 0, merge = "sum" }
[[agents]]
name = "citizen"
behavior = "citizen"
count = 2
state = { mood = 1 }
[[events]]
round = 2
share = { status = "closed" }
[[measures]]
name = "open"
value = "restarts"
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    (tmp_path / "town.py").write_text("def citizen(tick): pass\n")
    (tmp_path / "town.toml").write_text(TEXT)
    return tmp_path / "town.toml"


def _set(town: Path, path: str, value: Any) -> Scenario:
    return load_scenario(town, set={path: value})


def test_a_setting_names_a_key_of_the_file_or_a_parameter(town: Path) -> None:
    assert _set(town, "parameters.patience", 5).parameters["patience"] == 5
    assert _set(town, "patience", 5).parameters["patience"] == 5
    assert _set(town, "grid.width", 9).parameters["grid"] == {"width": 9}
    assert _set(town, "seed", 8).seed == 8
    assert _set(town, "on_error", "retire").on_error == "retire"
    assert _set(town, "limits.tool_timeout", 2.0).limits.tool_timeout == 2.0
    assert len(_set(town, "agents.citizen.count", 4).agents) == 4
    assert _set(town, "agents.citizen.state.mood", 2).agents[1].state == {"mood": 2}
    assert _set(town, "events.0.round", 5).events[0]["round"] == 5
    assert _set(town, "measures.open.name", "m").measures.keys() == {"m"}


def test_a_setting_of_a_shared_key_changes_its_first_value_alone(town: Path) -> None:
    assert _set(town, "shared.status", "shut").shared["status"].initial == "shut"
    sums = _set(town, "shared.restarts", 3).shared["restarts"]
    assert (sums.initial, sums.merge) == (3, "sum")
    assert _set(town, "shared.status.merge", "first").shared["status"].merge == "first"
    assert _set(town, "shared.status", {"a": 1}).shared["status"].initial == {"a": 1}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("patiense", "--set: patiense: unknown key 'patiense'; did you mean patience?"),
        ("parameters.patiense", "--set: parameters.patiense: unknown key 'patiense'; did you mean patience?"),
        ("shared.statsu", "--set: shared.statsu: unknown key 'statsu'; did you mean status?"),
        ("agents.citzen.count", "--set: agents.citzen.count: unknown key 'citzen'; did you mean citizen?"),
        ("agents.citizen.cuont", "--set: agents.citizen.cuont: unknown key 'cuont'; did you mean count?"),
        ("limits.tool_timout", "--set: limits.tool_timout: unknown key 'tool_timout'; did you mean tool_timeout?"),
        ("seed.x", "--set: seed.x: seed is no table, it has no 'x'"),
        ("a..b", "--set: a..b: 'a..b' is not a dotted path of keys"),
        (
            "limits",
            "--set: limits: both a key of the file and a parameter; write parameters.limits for the parameter",
        ),
    ],
)
def test_a_setting_that_names_nothing_is_refused_with_the_nearest_name(town: Path, path: str, said: str) -> None:
    with pytest.raises(ScenarioFaults) as caught:
        _set(town, path, 1)

    assert [str(fault) for fault in caught.value.faults] == [said]


def test_a_value_that_does_not_fit_is_told_as_the_settings_not_the_files(town: Path) -> None:
    with pytest.raises(ScenarioFaults) as caught:
        load_scenario(town, set={"seed": "x", "agents.citizen.count": -1})

    assert [str(fault) for fault in caught.value.faults] == [
        "--set: seed: expected a whole number of 64 bits, found the text 'x'",
        "--set: agents[0].count: expected a whole number of at least 0, found the number -1",
    ]


def test_a_setting_is_typed_with_a_toml_value() -> None:
    assert read_setting("patience=5") == ("patience", 5)
    assert read_setting("a.b = [1, 2.0, {c = true}]") == ("a.b", [1, 2.0, {"c": True}])
    assert read_setting('shared.status="a=b"') == ("shared.status", "a=b")
    for wrong in ("patience", "=5", "status=open", "a=1\nb=2", "a="):
        with pytest.raises(ScenarioFaults):
            read_setting(wrong)


def test_a_text_without_quotes_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(ScenarioFaults, match=r"""open is no TOML value; a text stands in quotes: status='"open"'"""):
        read_setting("status=open")


def test_settings_are_part_of_the_meaning(town: Path) -> None:
    assert _set(town, "patience", 3).fingerprint == load_scenario(town).fingerprint
    assert _set(town, "patience", 4).fingerprint != load_scenario(town).fingerprint
