"""Parameters that nobody reads: told by `check`, and refused where they are set or varied."""

from __future__ import annotations

from pathlib import Path

import pytest

from society import ScenarioError, load_scenario
from society.mentions import check_read, unread
from tests.test_cli import society

TOML = """
code = "town.py"
max_ticks = 2
until = "parameters.goal == shared.n"

[parameters]
patience = 3
goal = 9
size = 2
word = "hello"
forgotten = 1

[shared]
n = 0

[models.fast]
use = "scripted"
replies = "town.replies.toml"

[[agents]]
name = "ada"
behavior = "live"
count = "parameters.size"

[[agents]]
name = "bob"
prompt = { template = "Say {word}." }
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    (tmp_path / "town.py").write_text("def live(tick):\n    tick.note(str(tick.parameters['patience']))\n")
    (tmp_path / "town.replies.toml").write_text('[[bob]]\nstop_reason = "end_turn"\ncontent = "hello"\n' * 2)
    (tmp_path / "town.toml").write_text(TOML)
    return tmp_path / "town.toml"


def test_a_parameter_is_read_by_code_conditions_counts_and_templates(town: Path) -> None:
    assert unread(load_scenario(town)) == ["forgotten"]


def test_check_tells_of_a_parameter_that_nobody_reads(town: Path) -> None:
    told = society("check", town)
    assert told.returncode == 0
    assert "  nobody reads the parameter 'forgotten'\n" in told.stdout


@pytest.mark.parametrize("key", ["forgotten", "parameters.forgotten"])
@pytest.mark.parametrize("command", [("run", "--no-store"), ("compare",)])
def test_to_set_a_parameter_that_nobody_reads_is_refused(town: Path, key: str, command: tuple[str, ...]) -> None:
    told = society(command[0], town, *command[1:], "--set", f"{key}=2")
    assert told.returncode == 2
    assert "--set: nobody reads the parameter 'forgotten'" in told.stderr
    assert society(command[0], town, *command[1:], "--set", "patience=2").returncode == 0


def test_other_keys_are_passed_over(town: Path) -> None:
    check_read(["seed", "shared.n", "limits.forgotten"], load_scenario(town), "--set")


def test_the_nearest_one_that_is_read_is_named(town: Path) -> None:
    text = town.read_text().replace("forgotten = 1", "patienc = 1")
    town.write_text(text)
    with pytest.raises(ScenarioError, match="Did you mean 'patience'"):
        check_read(["patienc"], load_scenario(town), "--set")


def test_an_unknown_key_that_is_varied_is_blamed_on_that(town: Path) -> None:
    told = society("sweep", town, "--vary", "patienc=1:3")
    assert told.returncode == 2
    assert told.stderr.startswith("vary: patienc: unknown key 'patienc'") and "patience" in told.stderr
