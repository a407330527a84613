"""The table of a sweep: rows are added as runs end, so that a sweep that was stopped goes on where it was.

CSV is written row by row. Parquet cannot be, so its rows stand in a CSV file beside it until the sweep is through.

Knows: files and CSV, and how a table becomes Parquet.
Does not know: how runs are carried out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from society.errors import ScenarioError
from society.frames import PARQUET, installed
from society.sweeping import Plan, Planned, Row


class Table:
    """A table on disk, open to be gone on with."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Open a table, and find out which runs it has.

        Raises:
            ScenarioError: It holds another sweep, or Parquet is asked for and polars is not installed.
        """
        self._path, self._plan = path, plan
        self._is_parquet = path.suffix == PARQUET
        if self._is_parquet:
            installed("polars")
        self._csv = path.with_suffix(".parquet.csv") if self._is_parquet else path
        rows = self._whole()
        self.done = self._of_plan(rows)
        kept = [row for row in rows if int(row["run"]) < self.done]
        heads = dict(zip(plan.columns, plan.columns, strict=True))
        fresh = self._csv.with_name(self._csv.name + ".new")
        fresh.write_bytes(_lines([heads, *kept], plan.columns))
        fresh.replace(self._csv)

    def add(self, run: Planned, rows: Sequence[Row]) -> None:
        """Add the rows of a run, in one write."""
        try:
            with self._csv.open("ab") as file:
                file.write(_lines(rows, self._plan.columns))
        except OSError as error:
            error.filename = str(self._csv)  # a disk that is full does not say whose
            raise

    def close(self) -> None:
        """Turn the rows into Parquet where that was asked for."""
        if not self._is_parquet:
            return
        installed("polars").read_csv(self._csv, infer_schema_length=None).write_parquet(self._path)
        self._csv.unlink()

    def _whole(self) -> list[dict[str, str]]:
        """Return the rows that are whole; a line that was being written when the sweep was stopped is not."""
        if not self._csv.exists():
            return []
        data = self._csv.read_bytes()
        text = data[: data.rfind(b"\n") + 1].decode("utf-8", errors="replace")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        if not data:
            return []
        if tuple(reader.fieldnames or ()) != self._plan.columns:
            raise self._other(f"its columns are {', '.join(reader.fieldnames or ())}")
        return [row for row in reader if None not in row.values()]

    def _of_plan(self, rows: Sequence[Mapping[str, str]]) -> int:
        """Return how many runs of the plan, from the first on, the table has whole."""
        done = 0
        for row in rows:
            number = row["run"]
            if not number.isdecimal() or int(number) >= len(self._plan.runs):
                raise self._other(f"it has a run {number}")
            run = self._plan.runs[int(number)]
            for column, value in run.identity.items():
                if row[column] != _cell(value):
                    raise self._other(f"its run {number} has {column} {row[column]}, not {_cell(value)}")
            if number == "0" and row["meaning"] not in ("", self._plan.meaning):
                raise self._other("the scenario has changed since")
            if not self._plan.series or row["round"] == row["rounds"]:
                done = int(number) + 1
        return done

    def _other(self, why: str) -> ScenarioError:
        return ScenarioError(f"{self._csv} holds another sweep: {why}. Choose another file, or remove it.")


def _lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerows([_cell(row[column]) for column in columns] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """Return a value as a cell; what holds more than one as JSON, on one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\r", " ").replace("\n", " ")
    if isinstance(value, (bool, list, tuple, dict)):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)
