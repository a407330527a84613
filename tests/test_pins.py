"""Catalogs that are kept in files: a server that has changed between runs is refused, and told of line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from society import CatalogChanged, FileStore, load_scenario
from society.catalog import catalog
from society.errors import ScenarioError, ScenarioFaults
from society.pins import kept, read_catalog
from society.reruns import resume
from society.run_folder import begun

SERVER = str(Path(__file__).parent / "tool_server.py")
CODE = "async def teller(tick):\n    await tick.call('tickets__book', seat=tick.round)\n"
BOOK = {"name": "book", "inputSchema": {"type": "object", "properties": {"seat": {"type": "integer"}}}}
STRICTER = {"name": "book", "inputSchema": {"type": "object", "properties": {"seat": {"type": "string"}}}}


def written(folder: Path, *tools: Any, digest: str = '{ file = "tickets.catalog.json" }') -> Path:
    """Write a scenario whose server offers these tools; return its file."""
    folder.mkdir(exist_ok=True)
    (folder / "how.json").write_text(json.dumps({"tools": tools}))
    (folder / "box.py").write_text(CODE)
    (folder / "server.py").write_text(
        "import json, pathlib, runpy, sys\n"
        f"sys.argv[1:] = [pathlib.Path({str(folder / 'how.json')!r}).read_text()]\n"
        f"runpy.run_path({SERVER!r}, run_name='__main__')\n"
    )
    pin = f"digest = {digest}\n" if digest else ""
    (folder / "box.toml").write_text(
        'code = "box.py"\nmax_ticks = 2\n'
        f'[servers.tickets]\ncommand = ["python", "server.py"]\n{pin}'
        '[[agents]]\nname = "ada"\nbehavior = "teller"\n'
    )
    return folder / "box.toml"


def pinned(folder: Path, *tools: Any) -> Path:
    """Write a scenario that is pinned to these tools by a file."""
    path = written(folder, *tools)
    (folder / "tickets.catalog.json").write_bytes(kept(offered(*tools)))
    return path


def offered(*tools: Any) -> Any:
    return catalog("tickets", [{"description": f"It does {tool['name']}.", **tool} for tool in tools])


def run(path: Path) -> Any:
    scenario = load_scenario(path)
    return trio.run(scenario.society().run, scenario.max_ticks)


def typed(*arguments: str, code: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "society", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def faults(path: Path) -> str:
    with pytest.raises(ScenarioFaults) as found:
        load_scenario(path)
    return str(found.value)


def test_a_catalog_is_read_as_it_was_kept() -> None:
    found = offered(BOOK, {"name": "sell", "annotations": {"idempotentHint": True}, "outputSchema": {"type": "object"}})
    assert read_catalog("tickets", kept(found)) == found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no catalog: "),
        (b"\xff\xfe", "no catalog: "),
        (b"[" * 100_000, "no catalog: "),
        (b'{"digest": "x"}', "missing required field `tools`"),
        (b'{"digest": "x", "tools": {"book": {"description": 1}}}', r"Expected `str`, got `int` - at `$.tools[...]"),
        (b'{"digest": "x", "tools": {}, "more": 1}', "unknown field `more`"),
        (kept(offered(BOOK)).replace(b"integer", b"string"), "its tools have the digest"),
    ],
)
def test_a_file_that_holds_no_catalog_or_was_changed_by_hand_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_catalog("tickets", content)
    assert said in str(refused.value)
    assert "society tools SCENARIO --pin" in str(refused.value)


def test_a_server_that_changed_between_runs_is_refused_every_time_and_what_changed_is_shown(tmp_path: Path) -> None:
    path = pinned(tmp_path, BOOK, {"name": "sell"})
    assert run(path).outcome == "finished"
    written(tmp_path, STRICTER, {"name": "burn"})
    for _ in range(2):
        with pytest.raises(CatalogChanged) as refused:
            run(path)
        assert refused.value.difference == (
            "sell is gone",
            "burn is new",
            'book: input_schema.properties.seat.type was "integer", is "string"',
        )
    written(tmp_path, BOOK, {"name": "sell"})
    assert run(path).outcome == "finished"


def test_the_command_that_pins_writes_the_file_and_says_how_to_name_it(tmp_path: Path) -> None:
    path = written(tmp_path, BOOK, digest="")
    told, _ = typed("tools", str(path), "--pin")
    assert 'digest = { file = "tickets.catalog.json" }' in told
    assert read_catalog("tickets", (tmp_path / "tickets.catalog.json").read_bytes()) == offered(BOOK)
    written(tmp_path, BOOK)
    assert run(path).outcome == "finished"


def test_the_command_shows_what_changed_and_pins_anew_only_when_it_is_told_to(tmp_path: Path) -> None:
    path = pinned(tmp_path, BOOK)
    written(tmp_path, STRICTER)
    before = (tmp_path / "tickets.catalog.json").read_bytes()
    _, refused = typed("tools", str(path), code=2)
    _, also = typed("run", str(path), "--no-store", code=2)
    change = '  book: input_schema.properties.seat.type was "integer", is "string"'
    assert change in refused.splitlines() and change in also.splitlines()
    assert (tmp_path / "tickets.catalog.json").read_bytes() == before
    told, _ = typed("tools", str(path), "--pin")
    assert change in told.splitlines()
    assert run(path).outcome == "finished"
    assert "  nothing has changed" in typed("tools", str(path), "--pin")[0].splitlines()
    document, said = typed("tools", str(path), "--pin", "--json")
    assert json.loads(document)["servers"][0]["name"] == "tickets" and "nothing has changed" in said


@pytest.mark.parametrize("content", [None, b"{}", kept(offered(BOOK)).replace(b"integer", b"string")])
def test_the_command_that_pins_writes_a_file_that_is_named_and_missing_or_broken(
    tmp_path: Path, content: bytes | None
) -> None:
    path = written(tmp_path, BOOK)
    if content is not None:
        (tmp_path / "tickets.catalog.json").write_bytes(content)
    assert "let `society tools SCENARIO --pin` write it" in faults(path)
    typed("tools", str(path), "--pin")
    assert run(path).outcome == "finished"


def test_a_catalog_file_that_is_missing_or_broken_is_a_fault_of_the_scenario_file_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, BOOK)
    assert "box.toml:5: servers.tickets.digest.file: there is no file" in faults(path)
    (tmp_path / "tickets.catalog.json").write_text("{}")
    assert "box.toml:5: servers.tickets.digest.file: tickets.catalog.json: no catalog" in faults(path)


@pytest.mark.parametrize("digest", ["3", '{ fil = "x" }', "{ file = 3 }", '{ file = "x", sha256 = "y" }', "[]"])
def test_a_pin_is_a_digest_or_a_file(tmp_path: Path, digest: str) -> None:
    said = faults(written(tmp_path, BOOK, digest=digest))
    assert "box.toml:5: servers.tickets.digest: expected a text, the sha256 of a catalog, or { file = … }" in said


def test_a_catalog_has_a_meaning_and_where_it_is_kept_has_none(tmp_path: Path) -> None:
    """J7"""
    by_file = load_scenario(pinned(tmp_path, BOOK))
    assert by_file.meaning["servers.tickets.digest"] == offered(BOOK).digest
    by_digest = load_scenario(written(tmp_path, BOOK, digest=f'"{offered(BOOK).digest}"'))
    assert by_file.fingerprint == by_digest.fingerprint
    assert load_scenario(pinned(tmp_path, STRICTER)).fingerprint != by_file.fingerprint


def test_a_run_keeps_the_catalog_with_its_inputs_and_is_not_resumed_with_another(tmp_path: Path) -> None:
    path = pinned(tmp_path / "box", BOOK)
    text = path.read_text()
    path.write_text(f'inputs = ["server.py"]\n{text}')
    copy = begun(load_scenario(path), tmp_path / "run")
    trio.run(copy.society(store=FileStore(tmp_path / "run")).run, 1)
    (tmp_path / "box" / "tickets.catalog.json").unlink()
    assert (tmp_path / "run" / "inputs" / "tickets.catalog.json").exists()
    written(tmp_path / "box", STRICTER)
    with pytest.raises(CatalogChanged, match=r"properties\.seat\.type"):
        trio.run(resume, str(tmp_path / "run"))
    written(tmp_path / "box", BOOK)
    assert trio.run(resume, str(tmp_path / "run")).rounds == 2
