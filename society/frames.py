"""Tables for those who analyze: what was measured as rows, as CSV or Parquet, and as a frame of polars or pandas.

Knows: polars and pandas, which are imported where they are used and need not be installed.
Does not know: how anything was measured.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from society.errors import ScenarioError
from society.whole_file import write_whole

Library: TypeAlias = Literal["polars", "pandas"]
LIBRARIES: Final = ("polars", "pandas")

Measured: TypeAlias = tuple[int, str, str | None, Any]
"""(round, measure, agent or None, value)"""

PARQUET: Final = ".parquet"

COLUMNS: Final = ("round", "measure", "agent", "value")


def frame(measured: Iterable[Measured], library: Library = "polars") -> Any:
    """Return what was measured as a data frame, a row for each value: round, measure, agent, value.

    Args:
        measured: In the order of the rows.
        library: `polars` or `pandas`. Values are floats in both; what is missing is what each of them has for it.

    Raises:
        ScenarioError: The library is another, or not installed.
    """
    columns = list(zip(*measured, strict=True)) or [(), (), (), ()]
    by_name: dict[str, Sequence[Any]] = dict(zip(COLUMNS, columns, strict=True))
    by_name["value"] = [None if value is None else float(value) for value in by_name["value"]]
    there = installed(library)
    if library == "polars":
        return there.DataFrame(
            by_name,
            schema={"round": there.Int64, "measure": there.String, "agent": there.String, "value": there.Float64},
        )
    return there.DataFrame(
        {
            "round": there.Series(by_name["round"], dtype="int64"),
            "measure": there.Series(by_name["measure"], dtype="object"),
            "agent": there.Series(by_name["agent"], dtype="object"),
            "value": there.Series(by_name["value"], dtype="float64"),
        }
    )


def check_writable(path: Path) -> None:
    """Refuse a Parquet file where nothing writes it, before what it would hold is worked out.

    Raises:
        ScenarioError: polars is not installed.
    """
    if path.suffix == PARQUET:
        installed("polars")


def write(measured: Iterable[Measured], path: Path) -> None:
    """Write what was measured to a file, as Parquet if its name says so, else as CSV."""
    if path.suffix == PARQUET:
        frame(measured).write_parquet(path)
        return
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows((round, name, agent or "", value) for round, name, agent, value in measured)
    write_whole(path, text.getvalue().encode())


def installed(library: str) -> Any:
    """Return the module of a library.

    Raises:
        ScenarioError: It is not installed, or none that is known here.
    """
    if library not in LIBRARIES:
        raise ScenarioError(f"{library!r} is no library of frames: {' or '.join(LIBRARIES)}.")
    try:
        return importlib.import_module(library)
    except ImportError:
        other = "; name a .csv file instead" if library == "polars" else ""
        raise ScenarioError(
            f"{library} is not installed, which makes this table: pip install {library}{other}."
        ) from None
