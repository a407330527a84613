"""`society sweep`: a scenario with many values, activations and seeds, on all cores."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.compare import known
from society.commands.options import Json, OnScreen, Settings, file_to_write, numbers, settings
from society.exit_codes import DONE, FAILED, Verdict
from society.lines import counted

ENOUGH = 1_000_000
"""Values of one `--vary`. More is a slip in a step."""


def sweep(
    scenario: str,
    *,
    vary: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    activations: str | None = None,
    seeds: str | None = None,
    ticks: int | None = None,
    set_: Settings = (),
    series: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    workers: int | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Run a scenario with every combination of values, activations and seeds: one tidy row per run.

    Args:
        scenario: A scenario file, or the name of one that ships with the project.
        vary: KEY=[V1,V2], or KEY=A:B or KEY=A:B:STEP, where B is not among the values. May be repeated.
        activations: Names with commas between them. The scenario's own when not given.
        seeds: 7, or 1,2,5, or 0:20 for 0 to 19. The scenario's own when not given.
        ticks: How many rounds at most, instead of the scenario's own.
        series: One row per round instead.
        output: A .csv or .parquet file. If it is there, the sweep goes on where it was. Standard output when not given.
        workers: How many processes. As many as there are cores when not given.
        quiet: Say nothing meanwhile.
    """
    from society.shelf import scenario_path
    from society.signals import cancelled_by_signal
    from society.sweeping import carry_out, planned

    path = scenario_path(scenario)
    file_to_write(output, "--output", path, endings=(".csv", ".parquet"))
    if workers is not None and workers < 1:
        from society.errors import ScenarioError

        raise ScenarioError(f"--workers {workers}: at least one.")
    plan = planned(
        path,
        _by_key(map(varied, vary)),
        None if seeds is None else numbers(seeds, "--seeds"),
        activations=None if activations is None else known(activations),
        max_ticks=ticks,
        settings=settings(set_),
        series=series,
    )
    rows: list[Any] = []
    failed: list[str] = []
    table = _table(output, plan)
    done = 0 if table is None else table.done
    watch = Watch(screen, len(plan.runs), done, quiet or json)

    def found(run: Any, of_run: list[Any]) -> None:
        if table is None:
            rows.extend(of_run)
        else:
            table.add(run, of_run)
        if of_run[-1]["outcome"] in ("error", "failed", "conflict"):
            failed.append(f"run {run.number}: {of_run[-1]['reason']}")
        watch.ended()

    cancelled_by_signal(lambda: carry_out(plan, plan.runs[done:], found, workers=workers))
    if table is not None:
        table.close()
    else:
        _print(rows, plan.columns, screen, json)
    if failed:
        return Verdict(FAILED, f"{counted(len(failed), 'run')} of {len(plan.runs):,} failed; {failed[0]}")
    return Verdict(DONE, counted(len(plan.runs), "run"))


def _by_key(varied: Iterable[tuple[str, list[Any]]]) -> dict[str, list[Any]]:
    from society.errors import ScenarioError

    found: dict[str, list[Any]] = {}
    for key, values in varied:
        if key in found:
            raise ScenarioError(f"--vary {key}: given twice. Write all of its values in one list: {key}=[V1, V2].")
        found[key] = values
    return found


def varied(typed: str) -> tuple[str, list[Any]]:
    """Return (key, values) of `KEY=[1, 2]`, `KEY=0:10` or `KEY=0:1:0.1`.

    Raises:
        ScenarioError: It is none of these.
    """
    from society.errors import ScenarioError

    key, is_given, text = typed.partition("=")
    key, text = key.strip(), text.strip()
    wrong = ScenarioError(f"--vary {typed}: expected KEY=[V1, V2], KEY=A:B or KEY=A:B:STEP.")
    if not key or not is_given:
        raise wrong
    if not text.startswith("["):
        return key, _span(text, wrong)
    try:
        values = tomllib.loads(f"values = {text}")["values"]
    except tomllib.TOMLDecodeError as error:
        raise wrong from error
    return key, values


def _span(text: str, wrong: Exception) -> list[Any]:
    """Return the numbers from A on before B; counted in decimals, so that 0:1:0.1 has no 0.30000000000000004."""
    parts = text.split(":")
    try:
        first, end, *more = map(Decimal, parts)
        (step,) = more or (Decimal(1),)
        if not step.is_finite() or step == 0 or not abs(end - first) / abs(step) <= ENOUGH:
            raise wrong
    except (InvalidOperation, ValueError):
        raise wrong from None
    values: list[Any] = []
    is_whole = not any("." in part or "e" in part.lower() for part in parts)
    while (first < end) if step > 0 else (first > end):
        values.append(int(first) if is_whole else float(first))
        first += step
    if not values:
        raise wrong
    return values


class Watch:
    """Says how far a sweep is, and how long it will take: at most one line in ten seconds, or for each tenth of it."""

    def __init__(self, screen: Any, runs: int, done: int, quiet: bool) -> None:
        import time

        self._clock = time.monotonic
        self._screen, self._runs, self._before, self._done, self._quiet = screen, runs, done, done, quiet
        self._began = self._said = self._clock()
        if done and not quiet:
            screen.say(f"{done:,} of {counted(runs, 'run')} are in the table already")

    def ended(self) -> None:
        """One more run has ended."""
        self._done += 1
        now = self._clock()
        is_due = now - self._said >= 10 or self._done * 10 // self._runs > (self._done - 1) * 10 // self._runs
        if self._quiet or not is_due or (now - self._said < 1 and self._done < self._runs):
            return
        self._said = now
        left = (now - self._began) / (self._done - self._before) * (self._runs - self._done)
        minutes, seconds = divmod(round(left), 60)
        self._screen.say(f"{self._done:,} of {counted(self._runs, 'run')}, {minutes}:{seconds:02} left")


def _table(output: Path | None, plan: Any) -> Any:
    if output is None:
        return None
    from society.sweep_table import Table

    return Table(output, plan)


def _print(rows: list[Any], columns: tuple[str, ...], screen: Any, json: bool) -> None:
    if json:
        import msgspec

        screen.document(msgspec.json.encode(rows) + b"\n")
        return
    from society.grids import Grid
    from society.lines import Part, shown

    shown_columns = (
        columns if screen.bound is None else tuple(c for c in columns if c not in ("digest", "meaning", "command"))
    )
    cells = tuple(
        tuple(Part("" if row[column] is None else shown(str(row[column]))) for column in shown_columns) for row in rows
    )
    screen.grid(Grid("sweep", shown_columns, cells))
