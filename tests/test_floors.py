"""Floors: imports point down, what is heavy waits until it is used, and no two modules want each other.

0 values      what is true; nothing that waits or reaches outside
1 rules       what follows from it; no trio, no clock, no files, no environment
2 boundaries  one outside thing each
3 faces       what people touch, and what tests are handed
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "society"

FLOORS = (
    "agent errors exit_codes limits lines locate messages policy records shared values",
    "barrier briefing catalog checkpoint codec declare declaring draw expressions fingerprint grids history judge lattice "
    "loop memory merge neighbors outcomes perceived reason render replaying replies report results retelling review saying "
    "setting settling showing spending state story structure summary tables tally telling thread toml_text toolschema views "
    "wire",
    "acts aio anthropic_model approving asking asyncio_loop births budget casting codefile collector comparing conditions "
    "connections continuing entry environment event_loop file_store files frames gate host load looks mcp_connection mcp_host "
    "meaning measuring members memory_store mentions model_agent models onward permit pins populate references reruns rounds "
    "run_folder run_lock run_result runtime scenario server_process shelf signals slots snapshot societies sqlite_store "
    "store survival sweep_table sweep_worker sweeping sync tick toolbox topology trace whereabouts whole_file width work",
    "__init__ __main__ cli commands testing view",
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}

OUTSIDE = {"trio", "anthropic", "rich", "cyclopts", "mcp", "cel", "networkx", "time", "socket", "subprocess"}
OUTSIDE |= {"os", "pathlib", "signal", "sqlite3", "fcntl", "threading", "asyncio"}
"""What the floors of values and rules are free of, wherever in a file it is imported."""

HEAVY = {"anthropic", "mcp", "cel", "dask", "ray", "altair", "polars", "networkx", "rich", "hypothesis"}
"""What is imported inside the functions that use it."""

DOORS = {
    "anthropic": {"anthropic_model"},
    "cel": {"conditions"},
    "networkx": {"topology"},
    "rich": {"view"},
    "sqlite3": {"sqlite_store"},
    "fcntl": {"run_lock"},
    "gc": {"collector"},
}
"""One outside thing, one door."""


def modules() -> dict[str, ast.Module]:
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(ROOT.rglob("*.py"))
    }


MODULES = modules()


def statements(body: list[ast.stmt], *, deep: bool) -> Iterator[ast.stmt]:
    """Yield statements that run when a module is imported, or all of them; none that are for the type checker alone."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            continue
        yield statement
        if deep or isinstance(statement, (ast.If, ast.Try, ast.With, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(statement, field, ()):
                    yield from statements([inner] if isinstance(inner, ast.stmt) else inner.body, deep=deep)


def imported(name: str, *, deep: bool = False) -> set[str]:
    found: set[str] = set()
    for statement in statements(MODULES[name].body, deep=deep):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module == "society":
            found |= {f"society.{alias.name}" for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            found.add(statement.module)
    return found


def inside(name: str, *, deep: bool = False) -> set[str]:
    """Return the modules of this package that a module imports, as far as they are modules."""
    return {full[8:] for full in imported(name, deep=deep) if full.startswith("society.")} & set(MODULES)


def outside(name: str, *, deep: bool = False) -> set[str]:
    return {full.split(".")[0] for full in imported(name, deep=deep)} - {"society"}


def floor(name: str) -> int:
    return FLOOR.get(name.split(".")[0], 0)  # one without a floor is told once, by the test of the table


def test_every_module_has_its_floor_and_every_floor_its_modules() -> None:
    assert sorted({name.split(".")[0] for name in MODULES} - set(FLOOR)) == [], "give them a floor in FLOORS"
    assert sorted(set(FLOOR) - {name.split(".")[0] for name in MODULES}) == [], "they are gone"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_down(name: str) -> None:
    if name.split(".")[0] not in FLOOR:
        pytest.skip("it has no floor yet")
    assert {other for other in inside(name) if floor(other) > floor(name)} == set()


@pytest.mark.parametrize("name", [name for name in sorted(MODULES) if FLOOR.get(name, 9) <= 1])
def test_values_and_rules_reach_nothing_outside(name: str) -> None:
    assert outside(name, deep=True) & OUTSIDE == set()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_what_is_heavy_is_imported_where_it_is_used(name: str) -> None:
    assert outside(name) & HEAVY == set()


@pytest.mark.parametrize("thing", sorted(DOORS))
def test_an_outside_thing_has_one_door(thing: str) -> None:
    assert {name for name in MODULES if thing in outside(name, deep=True)} == DOORS[thing]


def test_no_two_modules_want_each_other() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(inside(name)):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(MODULES):
        visit(name, ())


def test_a_file_is_short_enough_to_be_read() -> None:
    sizes = {file.name: file.stat().st_size for file in ROOT.rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > 24_000} == {}


def test_a_plain_society_loads_nothing_heavy() -> None:
    program = (
        "import sys, trio, society\n"
        "town = society.AsyncSociety([society.Agent('ada', lambda tick: tick.note('here'))])\n"
        "trio.run(town.run, 1)\n"
        f"print(sorted(set(sys.modules) & {HEAVY | {'cyclopts'}!r}))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "[]\n"
