"""README.md is true: every file that it shows is written and run, every command gives the output that it shows.

A block of Python or TOML begins with a comment that names its file. In a block of commands, lines after `$ ` are typed, the lines
below are what comes; `…` stands for any text in a line, and for any lines where it stands alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest

from society.exit_codes import MEANINGS

ROOT: Final = Path(__file__).parent.parent
TEXT: Final = (ROOT / "README.md").read_text("utf-8")
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS: Final = [(found[1], found[2]) for found in BLOCK.finditer(TEXT)]


@attrs.frozen
class Typed:
    command: str
    shown: str


def files() -> dict[str, str]:
    """Return the files that it shows, by name."""
    found = {}
    for language, text in BLOCKS:
        if language in ("python", "toml"):
            first, _, _ = text.partition("\n")
            found[first.removeprefix("# ")] = text
    return found


def commands() -> list[Typed]:
    found = []
    for language, text in BLOCKS:
        if language == "console":
            assert text.startswith("$ "), f"no command begins {text!r}"
            for part in text.split("\n$ "):
                command, _, shown = part.removeprefix("$ ").partition("\n")
                found.append(Typed(command, shown if shown.endswith("\n") or not shown else shown + "\n"))
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that it shows, and the project's scenarios and traces."""
    folder = tmp_path_factory.mktemp("readme")
    for name, text in files().items():
        (folder / name).write_text(text, "utf-8")
    for shared in ("scenarios", "traces"):
        (folder / shared).symlink_to(ROOT / shared)
    return folder


def matches(shown: str, said: str) -> bool:
    """Tell whether output is as it is shown."""
    pattern = re.escape(shown)
    pattern = re.sub(r"^…\n", "(?:.*\n)*?", pattern.replace("\\\n", "\n"), flags=re.MULTILINE)
    return re.fullmatch(pattern.replace("…", ".*"), said) is not None


@pytest.fixture(scope="module")
def output_of(workspace: Path) -> Callable[[int], subprocess.CompletedProcess[bytes]]:
    """Return what gives the output of a command by its place. All before it have run by then: they leave files behind."""
    every, known = commands(), list[subprocess.CompletedProcess[bytes]]()

    def output(place: int) -> subprocess.CompletedProcess[bytes]:
        while len(known) <= place:
            known.append(ran(every[len(known)], workspace))
        return known[place]

    return output


def ran(typed: Typed, workspace: Path) -> subprocess.CompletedProcess[bytes]:
    program, *arguments = typed.command.split()
    known = {"society": [sys.executable, "-m", "society"], "python": [sys.executable]}
    launched = [*known.get(program, [program]), *arguments]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run(launched, cwd=workspace, env=environment, capture_output=True, timeout=120)


@pytest.mark.parametrize("place", range(len(commands())), ids=[typed.command for typed in commands()])
def test_every_command_gives_the_output_that_is_shown(
    place: int, output_of: Callable[[int], subprocess.CompletedProcess[bytes]]
) -> None:
    typed, ended = commands()[place], output_of(place)

    said = ended.stdout.decode() + ended.stderr.decode()
    assert matches(typed.shown, said), f"\n--- shown\n{typed.shown}\n--- said\n{said}"
    told = re.search(r"^exit (\d+):", typed.shown, re.MULTILINE)
    assert ended.returncode == (int(told[1]) if told else 0)


@pytest.mark.parametrize("name", files())
def test_every_file_that_is_shown_is_named_and_used(name: str) -> None:
    assert re.fullmatch(r"\w+\.(py|toml)", name)
    used = [typed.command for typed in commands()]
    # The code of a scenario is used by the scenario.
    assert any(name in command or Path(name).with_suffix(".toml").name in command for command in used)


def test_only_known_kinds_of_blocks_are_shown() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "toml", "console", "sh", "text"}


def test_the_targets_of_make_are_there() -> None:
    made = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert made
    for line in made:
        target = re.fullmatch(r"make (\w+) +#.*", line)
        assert target is not None
        assert re.search(rf"^{target[1]}:", makefile, re.MULTILINE)


def test_the_society_in_ten_lines_has_ten() -> None:
    lines = [line for line in files()["greetings.py"].splitlines()[1:] if line.strip()]

    assert len(lines) <= 10


def test_the_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", TEXT, re.MULTILINE)

    assert {int(code): meaning for code, meaning in rows} == MEANINGS


def test_the_files_that_it_speaks_of_are_there() -> None:
    table = TEXT[TEXT.index("## Where things are") :]
    for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", cell):
            there = ROOT / name if (ROOT / name).exists() else ROOT / "society" / name
            assert there.exists(), name
