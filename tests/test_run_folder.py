"""A run's folder is whole: the scenario means the same in it, whatever it named and wherever it lies (P54, P76)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from society.errors import ResumeRefused, ScenarioError
from society.load import load_scenario
from society.run_folder import begun, branched, changed_inputs, claimed, fresh, scenario_in

DEMO = """
# A comment that is kept.
code = "../code/demo.py"
inputs = ["notes.txt"]
max_ticks = 5
seed = 1

[parameters]
patience = 3

[shared]
log = { initial = [], merge = "append" }
status = "open"

[policy]
rules = [{ approve = "pay" }]

[[agents]]
name = "citizen"
behavior = "live"
rows = "../tables/panel.csv"

[[agents]]
from = "more"
"""
CODE = """
import pathlib
import beside
from society import Agent, AsyncHost

host = AsyncHost()
NOTES = (pathlib.Path(__file__).parent.parent / "demo" / "notes.txt").read_text()

@host.tool("pay")
def pay(): ...

def live(tick):
    tick.share("log", [tick.agent, beside.WORD, NOTES])

def more(setup):
    return [Agent((setup.folder / "notes.txt").read_text(), live)]
"""


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A scenario whose files lie around it."""
    for name in ("demo", "code", "tables"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (tmp_path / "project/demo/demo.toml").write_text(DEMO, "utf-8")
    (tmp_path / "project/demo/notes.txt").write_text("zoe", "utf-8")
    (tmp_path / "project/code/demo.py").write_text(CODE, "utf-8")
    (tmp_path / "project/code/beside.py").write_text("WORD = 'hi'\n", "utf-8")
    (tmp_path / "project/tables/panel.csv").write_text("name,age\nada,3\nbob,4\n", "utf-8")
    return tmp_path / "project/demo/demo.toml"


def test_a_fresh_folder_is_named_without_colons() -> None:
    assert re.fullmatch(r"runs/\d{8}T\d{6}Z-in-ci-dent-[0-9a-f]{4}", str(fresh("in:ci/dent")))


def test_the_copy_means_the_same_when_the_original_is_gone_and_the_folder_has_moved(demo: Path, tmp_path: Path) -> None:
    original = load_scenario(demo)
    begun(original, tmp_path / "run")
    shutil.rmtree(tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").rename(tmp_path / "elsewhere/moved")

    copy = scenario_in(tmp_path / "elsewhere/moved")

    assert copy.fingerprint == original.fingerprint
    assert [agent.name for agent in copy.agents] == ["ada", "bob", "zoe"]
    assert [str(rule) for rule in copy.policy.rules] == [str(rule) for rule in original.policy.rules]
    assert copy.name == original.name == "demo"


def test_files_lie_to_each_other_as_they_did_and_have_digests(demo: Path, tmp_path: Path) -> None:
    begun(load_scenario(demo), tmp_path / "run")

    assert list(json.loads((tmp_path / "run/inputs/digests.json").read_text())) == [
        "code/beside.py",
        "code/demo.py",
        "demo/notes.txt",
        "tables/panel.csv",
    ]
    assert changed_inputs(tmp_path / "run") == []


def test_settings_stand_at_the_end_and_the_file_before_them_line_by_line(demo: Path, tmp_path: Path) -> None:
    settings = {"patience": 9, "seed": 4, "activation": "sequential", "shared.status": 'a "b"\n'}
    original = load_scenario(demo, set=settings)

    copy = begun(original, tmp_path / "run")

    assert (tmp_path / "run/scenario.toml").read_text("utf-8").startswith(DEMO)
    assert (copy.parameters["patience"], copy.seed, copy.activation) == (9, 4, "sequential")
    assert copy.shared["status"].initial == 'a "b"\n'


def test_a_copy_can_be_copied_again_with_other_settings(demo: Path, tmp_path: Path) -> None:
    first = begun(load_scenario(demo, set={"seed": 4, "patience": 9}), tmp_path / "run")

    second = begun(load_scenario(first.path, set={"seed": 5}), tmp_path / "again")

    assert (second.seed, second.parameters["patience"]) == (5, 9)
    assert second.fingerprint == load_scenario(demo, set={"seed": 5, "patience": 9}).fingerprint
    assert (tmp_path / "again/scenario.toml").read_text("utf-8").count("[run]") == 1


def test_paths_from_the_root_are_moved_too(demo: Path, tmp_path: Path) -> None:
    rows = tmp_path / "project/tables/panel.csv"
    demo.write_text(DEMO.replace("../tables/panel.csv", str(rows)), "utf-8")
    original = load_scenario(demo)
    begun(original, tmp_path / "run")
    shutil.rmtree(tmp_path / "project")

    assert scenario_in(tmp_path / "run").fingerprint == original.fingerprint


def test_a_copy_that_does_not_stand_by_itself_is_told_before_the_run_and_leaves_nothing(
    demo: Path, tmp_path: Path
) -> None:
    demo.write_text(DEMO.replace('inputs = ["notes.txt"]', ""), "utf-8")

    with pytest.raises(ScenarioError, match=r"(?s)notes.txt.*`inputs`.*--no-store"):
        begun(load_scenario(demo), tmp_path / "run")

    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("there", ["journal.jsonl", "letter.txt"])
def test_a_folder_that_holds_something_is_refused_and_left_alone(there: str, demo: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / there).write_text("mine")

    with pytest.raises(ScenarioError, match="choose another folder"):
        begun(load_scenario(demo), tmp_path / "run")

    assert [path.name for path in (tmp_path / "run").iterdir()] == [there]


def test_a_changed_or_missing_input_is_named(demo: Path, tmp_path: Path) -> None:
    begun(load_scenario(demo), tmp_path / "run")
    (tmp_path / "run/inputs/code/beside.py").write_text("WORD = 'ho'\n")
    (tmp_path / "run/inputs/demo/notes.txt").unlink()

    assert changed_inputs(tmp_path / "run") == ["inputs/code/beside.py", "inputs/demo/notes.txt"]


def test_a_fork_has_the_files_of_the_run_it_comes_from(demo: Path, tmp_path: Path) -> None:
    original = begun(load_scenario(demo, set={"seed": 4}), tmp_path / "run")
    shutil.rmtree(tmp_path / "project")

    assert branched(tmp_path / "run", tmp_path / "other").fingerprint == original.fingerprint
    assert changed_inputs(tmp_path / "other") == []


def test_a_folder_of_a_program_says_where_its_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(ResumeRefused, match="program"):
        scenario_in(tmp_path)


def test_a_folder_that_is_claimed_is_refused_to_whoever_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr("society.run_folder.refuse_taken", lambda folder: None)  # they looked at the same moment
    with claimed(folder):
        (folder / "mine").write_text("")
        with pytest.raises(ScenarioError, match="another run begins there just now"), claimed(folder):
            raise AssertionError("it is taken")
        assert (folder / "mine").exists()


@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_left_of_a_folder_whose_run_could_not_begin(there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
    with pytest.raises(ZeroDivisionError), claimed(folder):
        (folder / "scenario.toml").write_text("")
        raise ZeroDivisionError
    assert folder.exists() == there
    assert not there or list(folder.iterdir()) == []
