"""Run the benchmarks and print one table: what was measured, what it may be, and whether it is.

Each module beside this one has functions called `NAME_costs` that return rows of (what, value, bar). A bar is a text,
`>= 0.8` or `<= 5`; an empty one promises nothing. Bars are ratios measured side by side where that can be, since machines differ.

    python -m tests.bench            all of them
    python -m tests.bench ring       those of `ring_costs`

Exits with 1 when a value is on the wrong side of its bar.

Knows: where benchmarks are, and how a bar is read.
Does not know: what they measure.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import tests.bench

Row: TypeAlias = tuple[str, float, str]

_SIDES: Final = {">=": operator.ge, "<=": operator.le}


def main(wanted: list[str]) -> int:
    """Run the benchmarks that are wanted, all if none is named; return the exit code."""
    found = dict(benchmarks())
    for name in wanted:
        if name not in found:
            print(f"no benchmark is called {name!r}; there are {', '.join(found)}", file=sys.stderr)
            return 2
    missed = 0
    print(f"{'':58}{'measured':>14}  bar", flush=True)
    for name in wanted or found:
        for row in found[name]():
            print(line(row), flush=True)
            missed += holds(row) is False
    print(f"\n{missed} of them on the wrong side" if missed else "\nall bars hold")
    return 1 if missed else 0


def benchmarks() -> Iterator[tuple[str, Callable[[], Iterable[Row]]]]:
    """Yield (name, function) of each benchmark, modules by name, functions in the order of the module."""
    for module in sorted(pkgutil.iter_modules(tests.bench.__path__), key=lambda module: module.name):
        if module.name == "__main__":
            continue
        for name, function in vars(importlib.import_module(f"tests.bench.{module.name}")).items():
            if name.endswith("_costs") and not name.startswith("_"):
                yield name.removesuffix("_costs"), function


def holds(row: Row) -> bool | None:
    """Tell whether a value is on the right side of its bar; None where there is none."""
    _, value, bar = row
    if not bar:
        return None
    side, limit = bar.split()
    return _SIDES[side](value, float(limit))


def line(row: Row) -> str:
    what, value, bar = row
    verdict = {True: "ok", False: "NO", None: ""}[holds(row)]
    number = f"{value:,.2f}" if abs(value) < 1_000 else f"{value:,.0f}"
    return f"{what:58}{number:>14}  {bar:12}{verdict}".rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
