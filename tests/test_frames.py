"""What was measured, as tables for those who analyze: CSV, Parquet, polars and pandas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
import trio

from society import Agent, AsyncSociety, ScenarioError
from society.frames import frame
from society.trace import Trace
from tests.test_cli import ROOT, society


def measured() -> Trace:
    def grows(tick: Any) -> None:
        tick.public["n"] = tick.round

    agents = [Agent(name, grows, public={"n": 0}) for name in ("ada", "bob")]
    measures = {
        "sum": lambda view: sum(agent.public["n"] for agent in view.agents),
        "each": lambda view: {agent.name: agent.public["n"] / 2 for agent in view.agents},
        "none": lambda view: None,
    }
    town = AsyncSociety(agents, measures=measures)
    trio.run(town.run, 1)
    return town.trace


ROWS = [
    (0, "sum", None, 0.0),
    (0, "each", "ada", 0.0),
    (0, "each", "bob", 0.0),
    (0, "none", None, None),
    (1, "sum", None, 2.0),
    (1, "each", "ada", 0.5),
    (1, "each", "bob", 0.5),
    (1, "none", None, None),
]


def test_a_trace_gives_its_measures_as_a_frame_of_polars() -> None:
    found = measured().frame()
    assert isinstance(found, polars.DataFrame)
    assert found.columns == ["round", "measure", "agent", "value"]
    assert found.dtypes == [polars.Int64, polars.String, polars.String, polars.Float64]
    assert found.rows() == ROWS


def test_a_trace_gives_its_measures_as_a_frame_of_pandas() -> None:
    found = measured().frame("pandas")
    assert isinstance(found, pandas.DataFrame)
    assert list(found.columns) == ["round", "measure", "agent", "value"]
    curve = found[found["measure"] == "sum"].set_index("round")["value"]
    assert curve.to_dict() == {0: 0.0, 1: 2.0}
    assert found["value"].isna().sum() == 2 and found["agent"].isna().sum() == 4


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_frame_of_nothing_has_its_columns(library: Any) -> None:
    found = frame([], library)
    assert list(found.columns) == ["round", "measure", "agent", "value"] and len(found) == 0


def test_a_library_that_is_unknown_or_not_installed_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScenarioError, match="'arrow' is no library of frames: polars or pandas"):
        measured().frame("arrow")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ScenarioError, match="pip install pandas"):
        measured().frame("pandas")


def test_measures_are_written_as_csv_or_parquet_by_the_name_of_the_file(tmp_path: Path) -> None:
    threshold = ROOT / "scenarios" / "threshold.toml"
    for name in ("m.csv", "m.parquet"):
        told = society("run", threshold, "--no-store", "--ticks", "3", "--measures", tmp_path / name)
        assert told.returncode == 0, told.stderr
    lines = polars.read_csv(tmp_path / "m.csv", schema_overrides={"agent": polars.String, "value": polars.Float64})
    whole = polars.read_parquet(tmp_path / "m.parquet")
    assert whole.rows() == lines.rows() and len(whole) >= 4
    assert (tmp_path / "m.csv").read_text().startswith("round,measure,agent,value\n0,")
