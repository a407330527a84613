"""The commands, as processes of their own (C1, C2, P28, P44, P77, P79, P81, P82)."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.stories import event, incident, send, trace

ROOT = Path(__file__).parent.parent
ELSEWHERE = tempfile.TemporaryDirectory()
HOSTILE = "x [/] [/INST] [bold]loud[/bold] [red] arr[0] [link=file] \\[ :smile:"

SWAP = """
name = "swap"
about = "Two agents copy from each other."
code = "swap.py"
max_ticks = 1

[shared]
a = 1
b = 2

[[agents]]
name = "A"
behavior = "to_a"

[[agents]]
name = "B"
behavior = "to_b"
"""
SWAP_CODE = """
def to_a(tick):
    tick.share("a", tick.shared["b"])
    tick.send("B", "hi")

def to_b(tick):
    tick.share("b", tick.shared["a"])
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **more}


def society(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environ = environment(**options.pop("environ", {}))
    options.setdefault("cwd", ELSEWHERE.name)  # where the runs are kept that are not told where to go
    command = [sys.executable, "-m", "society", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environ, timeout=60, stdin=subprocess.DEVNULL, **options
    )


def last_line(text: str) -> str:
    return text.rstrip("\n").rsplit("\n", 1)[-1]


def scenario(folder: Path, code: str, toml: str = "", agents: tuple[str, ...] = ("ada",), max_ticks: int = 2) -> Path:
    """Write a scenario whose agents have the behavior `live` of this code; return its file."""
    (folder / "tale.py").write_text("import society, trio\nhost = society.AsyncHost()\n" + code, "utf-8")
    listed = "".join(f"[[agents]]\nname = {json.dumps(name)}\nbehavior = 'live'\n" for name in agents)
    head = f'name = "tale"\ncode = "tale.py"\nmax_ticks = {max_ticks}\n'
    (folder / "tale.toml").write_text(head + toml + "\n" + listed, "utf-8")
    return folder / "tale.toml"


@pytest.fixture
def swap(tmp_path: Path) -> Path:
    (tmp_path / "swap.toml").write_text(SWAP, "utf-8")
    (tmp_path / "swap.py").write_text(SWAP_CODE, "utf-8")
    return tmp_path / "swap.toml"


# Help.


def test_help_loads_nothing_heavy() -> None:
    """How long it takes is measured by `make bench`."""
    heavy = ["anthropic", "mcp", "cel", "dask", "altair", "networkx", "polars", "trio"]
    code = (
        "import sys; sys.argv = ['society', '--help']\n"
        "from society.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=environment())

    assert last_line(told.stdout) == "[]"
    assert "run" in told.stdout
    assert "130" in told.stdout


@pytest.mark.parametrize("command", [(), ("run", "--help"), ("trace", "--help"), ("--version",)])
def test_help_is_no_failure(command: tuple[str, ...]) -> None:
    told = society(*command)

    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout


# run.


def test_a_run_ends_with_a_summary_and_a_last_line_that_says_the_exit_code(swap: Path) -> None:
    told = society("run", swap)

    assert told.returncode == 0
    rows = [line.split() for line in told.stdout.splitlines()]
    assert ["outcome", "finished"] in rows
    assert ["a", "1", "2"] in rows  # key, version, value
    assert ["b", "1", "1"] in rows
    assert ["shared", "conflicts", "0"] in rows
    assert last_line(told.stdout) == "exit 0: finished after 1 round"
    assert told.stderr == ""


def test_activation_ticks_seed_and_settings_are_changed_from_outside(swap: Path, tmp_path: Path) -> None:
    told = society(
        "run",
        swap,
        "--activation",
        "sequential",
        "--ticks",
        3,
        "--seed",
        9,
        "--set",
        "shared.b=5",
        "--trace",
        tmp_path / "t",
    )

    assert told.returncode == 0
    header = json.loads((tmp_path / "t").read_text("utf-8").splitlines()[0])
    assert (header["activation"], header["seed"]) == ("sequential", 9)
    assert ["b", "3", "5"] in [line.split() for line in told.stdout.splitlines()]


def test_json_is_one_document_on_standard_output_and_nothing_else(swap: Path) -> None:
    told = society("run", swap, "--json")

    facts = json.loads(told.stdout)
    assert told.stdout.count("\n") == 1
    assert (facts["outcome"], facts["shared"], facts["exit_code"]) == ("finished", {"a": 2, "b": 1}, 0)
    assert facts["versions"] == {"a": 1, "b": 1}
    assert last_line(told.stderr) == "exit 0: finished after 1 round"


def test_the_trace_that_is_written_is_whole_and_the_same_each_time(swap: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert society("run", swap, "--trace", tmp_path / name, "--quiet").returncode == 0

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert society("trace", "verify", tmp_path / "one").returncode == 0
    assert society("trace", "diff", tmp_path / "one", tmp_path / "two").returncode == 0


def test_measures_are_written_as_a_table(tmp_path: Path) -> None:
    toml = "[shared]\nn = { initial = 0, merge = 'sum' }\n[[measures]]\nname = 'n'\nvalue = 'n'\n"
    file = scenario(tmp_path, "def live(tick): tick.share('n', 2)\n", toml)

    assert society("run", file, "--measures", tmp_path / "m.csv").returncode == 0
    assert (tmp_path / "m.csv").read_text() == "round,measure,agent,value\n0,n,,0\n1,n,,2\n2,n,,4\n"


def test_the_story_of_a_run_is_shown_when_asked_for(swap: Path) -> None:
    told = society("run", swap, "--show")

    assert "── round 1 ──" in told.stdout
    assert "a = 2 (version 1, by A)" in told.stdout


def test_a_file_in_the_place_of_the_runs_folder_is_refused_and_left_alone(swap: Path) -> None:
    before = swap.read_bytes()
    told = society("run", swap, "--store", swap)
    assert told.returncode == 2
    assert swap.read_bytes() == before


def test_a_closed_standard_output_is_no_failure(swap: Path) -> None:
    line = f'"{sys.executable}" -m society run "{swap}" --no-store >&-'
    told = subprocess.run(["sh", "-c", line], capture_output=True, encoding="utf-8", env=environment(), timeout=60)
    assert (told.returncode, "Traceback" in told.stderr) == (0, False)


def test_a_file_that_cannot_be_written_is_told_before_the_run(swap: Path, tmp_path: Path) -> None:
    told = society("run", swap, "--trace", tmp_path / "nowhere" / "t")

    assert told.returncode == 2
    assert "--trace" in told.stderr
    assert told.stdout == ""


# Exit codes (P82).

LIVES = {
    "a tick failed": ("def live(tick): 1 / 0\n", "", 1, "ZeroDivisionError"),
    "ticks failed and the run went on": ("def live(tick): 1 / 0\n", 'on_error = "continue"', 1, "but 2 ticks failed"),
    "an action is in doubt": (
        "@host.tool('slow')\nasync def slow(): await trio.sleep(60)\n"
        "async def live(tick):\n"
        "    if tick.round > 1: return\n"
        "    try: await tick.call('slow')\n"
        "    except society.ActionInDoubt: pass\n",
        "[limits]\ntool_timeout = 0.05",
        3,
        "with 1 action in doubt",
    ),
    "a conflict": (
        "def live(tick): tick.share('k', 1)\n",
        "[shared]\nk = { initial = 0, merge = 'error' }",
        1,
        "conflict",
    ),
}


@pytest.mark.parametrize("life", LIVES)
def test_the_exit_code_and_the_last_line_say_what_happened(life: str, tmp_path: Path) -> None:
    code, toml, expected, said = LIVES[life]
    agents = ("ada", "bob") if life == "a conflict" else ("ada",)

    told = society("run", scenario(tmp_path, code, toml, agents))

    assert told.returncode == expected, told
    assert last_line(told.stdout).startswith(f"exit {expected}: ")
    assert said in last_line(told.stdout)
    assert "Traceback" not in told.stdout + told.stderr


def test_actions_in_doubt_are_listed_with_their_whole_ids(tmp_path: Path) -> None:
    code, toml, _, _ = LIVES["an action is in doubt"]
    file = scenario(tmp_path, code, toml)

    told = society("run", file, "--trace", tmp_path / "t")
    id = json.loads(society("run", file, "--json").stdout)["in_doubt"][0]["id"]

    assert id in told.stdout
    assert id in (tmp_path / "t").read_text()


@pytest.mark.parametrize(
    "command",
    [
        ("run", "nowhere.toml"),
        ("rnu",),
        ("run", "x", "--tick", "3"),
        ("trace", "show", "nowhere"),
        ("trace",),
        ("trace", "shwo"),
        ("compare", "swap.toml", "--seeds", "5:5"),
        ("compare", "swap.toml", "--activations", "sequental"),
        ("run", "swap.toml", "--set", "nonsense"),
        ("trace", "show", "swap.toml"),
        ("trace", "show", ROOT / "traces" / "swap.synchronized.jsonl", "--kind", "snd"),
        ("trace", "show", ROOT / "traces" / "swap.synchronized.jsonl", "--agent", "C"),
    ],
)
def test_wrong_usage_is_one_sentence_and_two(command: tuple[str, ...], swap: Path) -> None:
    told = society(*command, cwd=swap.parent)

    expected = 1 if command[:2] == ("trace", "show") and command[2] == "swap.toml" else 2
    assert told.returncode == expected
    assert last_line(told.stderr).startswith(f"exit {expected}: ")
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_a_scenario_with_faults_says_all_of_them_and_exits_with_two(tmp_path: Path) -> None:
    file = scenario(tmp_path, "def live(tick): pass\n", "colour = 1\nseed = 'x'\n")

    for command in ("run", "check"):
        told = society(command, file)
        assert told.returncode == 2
        assert "colour" in told.stdout + told.stderr
        assert "seed" in told.stdout + told.stderr


# Signals (P28).


def started(file: Path, *options: object) -> subprocess.Popen[str]:
    """Start a run and wait until its behavior says so."""
    process = subprocess.Popen(
        [sys.executable, "-m", "society", "run", str(file), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
        cwd=file.parent,
    )
    for _ in range(500):
        if (file.parent / "begun").exists():
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


BEGUN = "import pathlib, time\ndef begun(): pathlib.Path('begun').touch()\n"
ASLEEP = BEGUN + (
    "@host.tool('slow')\nasync def slow(): begun(); await trio.sleep(60)\n"
    "async def live(tick): await tick.call('slow')\n"
)
BLOCKED = BEGUN + (
    "@host.tool('slow')\ndef slow(): begun(); time.sleep(20)\nasync def live(tick): await tick.call('slow')\n"
)
STUCK = BEGUN + "def live(tick):\n    begun()\n    while True: pass\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_soon_and_without_a_traceback(number: int, code: int, tmp_path: Path) -> None:
    process = started(scenario(tmp_path, ASLEEP), "--trace", tmp_path / "t")

    process.send_signal(number)
    out, err = process.communicate(timeout=5)

    assert process.returncode == code
    assert last_line(out).startswith(f"exit {code}: interrupted after 0 rounds")
    assert "Traceback" not in out + err
    assert society("trace", "show", tmp_path / "t").returncode == 0


@pytest.mark.parametrize("code", [BLOCKED, STUCK])
def test_a_second_signal_ends_the_process_at_once(code: str, tmp_path: Path) -> None:
    process = started(scenario(tmp_path, code))

    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=5)

    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "exit 130: " in out + err


def test_a_terminal_has_its_cursor_back_whatever_ended_the_run(tmp_path: Path) -> None:
    file = scenario(tmp_path, BLOCKED)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "society", "run", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="20"),
        cwd=tmp_path,
    )
    os.close(theirs)
    seen = b""
    sent = 0
    try:
        while piece := os.read(ours, 65536):
            seen += piece
            # Once it is drawing, two signals: the tool's thread cannot be interrupted.
            if sent < 2 and b"round" in seen and (tmp_path / "begun").exists():
                process.send_signal(signal.SIGINT)
                sent += 1
    except OSError:
        pass  # the other side is closed
    os.close(ours)

    assert process.wait(timeout=5) == 130
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


# compare (P44).


def test_comparing_shows_both_results_and_where_they_part(swap: Path) -> None:
    told = society("compare", swap)

    rows = [line.split() for line in told.stdout.splitlines()]
    assert told.returncode == 0
    assert ["synchronized", "sequential"] in rows
    assert ["shared.b", "1", "2"] in rows
    assert "round 1, B, receive" in told.stdout
    assert last_line(told.stdout) == "exit 0: they differ"


def test_comparing_fails_only_when_asked_to(swap: Path) -> None:
    assert society("compare", swap, "--fail").returncode == 4
    assert society("compare", swap, "--fail", "--activations", "synchronized,synchronized").returncode == 0


def test_comparing_over_seeds_as_json(swap: Path) -> None:
    facts = json.loads(society("compare", swap, "--seeds", "0:3", "--json").stdout)

    assert len(facts["runs"]) == 6
    assert facts["same_outcome"] is True
    assert facts["same_shared"] is False
    assert facts["first_difference"]["agent"] == "B"


# trace.


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[Path]:
    incident().save(tmp_path / "incident.jsonl")
    yield tmp_path


def test_a_trace_in_a_pipe_is_one_event_a_line(traces: Path) -> None:
    told = society("trace", "show", traces / "incident.jsonl")

    assert told.returncode == 0
    assert told.stdout.splitlines() == list(incident().lines())


def test_a_trace_is_narrowed_by_round_agent_and_kind(traces: Path) -> None:
    told = society("trace", "show", traces / "incident.jsonl", "--round", "1:2", "--agent", "monitor", "--kind", "send")

    assert [line.split()[:4] for line in told.stdout.splitlines()[1:]] == [["round", "1", "monitor", "send"]] * 2


def test_the_story_is_chosen_in_a_pipe_too(traces: Path) -> None:
    told = society("trace", "show", traces / "incident.jsonl", "--layout", "story")

    assert told.stdout == incident().render()


def test_two_traces_are_compared(traces: Path) -> None:
    trace(send(1, "ada", "bob", n=1)).save(traces / "a")
    trace(send(1, "ada", "bob", n=2)).save(traces / "b")

    told = society("trace", "diff", traces / "a", traces / "b")

    assert told.returncode == 4
    assert told.stdout.splitlines() == ["round 1, ada, send, body.n: 1 | 2", "exit 4: they differ, first in round 1"]
    assert society("trace", "diff", traces / "a", traces / "a").returncode == 0
    assert json.loads(society("trace", "diff", traces / "a", traces / "b", "--json").stdout)["same"] is False


def test_a_damaged_trace_names_line_and_byte(traces: Path) -> None:
    whole = incident().data
    (traces / "bad.jsonl").write_bytes(whole.replace(b"checking", b"chucking"))

    told = society("trace", "verify", traces / "bad.jsonl")

    assert told.returncode == 1
    assert re.search(r"bad\.jsonl: line 37 at byte \d+: the SHA-256", told.stderr)
    assert incident().digest in society("trace", "verify", traces / "incident.jsonl").stdout


def test_a_trace_of_a_run_that_goes_on_is_shown(traces: Path) -> None:
    going = trace(send(1, "ada", "bob"), outcome=None)
    going.save(traces / "going")

    told = society("trace", "show", traces / "going")

    assert told.returncode == 0
    assert "the run goes on" in told.stderr
    assert society("trace", "verify", traces / "going").returncode == 1


def test_a_trace_is_exported_as_one_document(traces: Path) -> None:
    told = society("trace", "export", traces / "incident.jsonl")

    facts = json.loads(told.stdout)
    assert facts["header"]["scenario"] == "incident"
    assert len(facts["events"]) == 36


# Texts, pipes, locales (P77, P79, P81).


def test_square_brackets_are_shown_by_run_trace_and_compare(tmp_path: Path) -> None:
    folder = tmp_path / "a [bold]folder [red]"
    folder.mkdir()
    code = (
        f"TEXT = {HOSTILE!r}\n"
        "def live(tick):\n"
        "    tick.share('k', TEXT)\n    tick.broadcast(TEXT, text=TEXT)\n    raise ValueError(TEXT)\n"
    )
    file = scenario(folder, code, "on_error = 'continue'\n[shared]\nk = 1\n", (HOSTILE,))

    told = society("run", file, "--trace", folder / "t", "--show")
    assert told.returncode == 1
    assert HOSTILE in told.stdout
    assert HOSTILE in society("trace", "show", folder / "t").stdout
    assert society("compare", file).returncode == 0
    assert "[bold]folder [red]" in society("run", folder / "nope.toml").stderr


def test_a_pipe_gets_whole_names_and_no_escapes(traces: Path) -> None:
    name = "n" * 60
    trace(event(1, name, "note", text="m" * 5000), agents=(name,), scenario="s" * 40).save(traces / "long")

    for environ in ({}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"COLUMNS": "20"}):
        told = society("trace", "show", traces / "long", environ=environ)
        assert "\x1b" not in told.stdout
        assert f"round 1  {name}  note  " in told.stdout
        assert "m" * 5000 in told.stdout


@pytest.mark.parametrize(
    "environ", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}]
)
def test_any_locale_can_read_a_trace(traces: Path, environ: dict[str, str]) -> None:
    told = society("trace", "show", traces / "incident.jsonl", "--layout", "story", environ=environ)

    assert told.returncode == 0
    assert "round 2" in told.stdout


def test_a_reader_that_takes_one_line_and_goes_makes_no_noise(traces: Path) -> None:
    trace(*(event(1, "ada", "note", text=f"{n}") for n in range(10_000))).save(traces / "many")

    command = f"{sys.executable} -m society trace show {traces / 'many'} | head -n 1; exit ${{PIPESTATUS[0]}}"
    told = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", env=environment())

    assert told.stdout.startswith("trace ")
    assert told.stdout.count("\n") == 1
    assert told.stderr == ""
    assert told.returncode == 0


def test_a_run_whose_reader_has_gone_still_runs_to_its_end(swap: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m society run {swap} --ticks 200 --show --trace {tmp_path / 't'} | true; exit ${{PIPESTATUS[0]}}"
    told = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", env=environment())

    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads((tmp_path / "t").read_text("utf-8").splitlines()[-1])["round"] == 200


# list, new, check.


def test_a_new_scenario_runs_and_nothing_is_overwritten(tmp_path: Path) -> None:
    told = society("new", "market", cwd=tmp_path)
    assert told.returncode == 0
    assert sorted(path.name for path in (tmp_path / "market").iterdir()) == ["market.py", "market.toml"]

    ran = society("run", "market", cwd=tmp_path)
    assert ran.returncode == 0
    assert ["answers", "2", "2"] in [line.split() for line in ran.stdout.splitlines()]

    (tmp_path / "market" / "market.py").write_text("mine")
    again = society("new", "market", cwd=tmp_path)
    assert again.returncode == 2
    assert (tmp_path / "market" / "market.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "../x", "a b", "7", "-x"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    assert society("new", name, cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_the_list_names_every_scenario_that_ships_with_what_it_is_about() -> None:
    told = society("list")
    facts = json.loads(society("list", "--json").stdout)

    assert told.returncode == 0
    assert [line.split()[0] for line in told.stdout.splitlines()] == [one["name"] for one in facts]
    assert {path.stem for path in (ROOT / "scenarios").glob("*.toml") if "." not in path.stem} <= {
        one["name"] for one in facts
    }
    assert all(one["about"] for one in facts)


def test_checking_runs_nothing(tmp_path: Path) -> None:
    file = scenario(tmp_path, BEGUN + "def live(tick): begun()\n")

    told = society("check", file, cwd=tmp_path)

    assert told.returncode == 0
    assert "tale is sound" in told.stdout
    assert not (tmp_path / "begun").exists()


POLICY = """
[shared]
maintenance = "closed"
[policy]
default = "deny"
rules = [
  { never = "open", when = 'shared.maintenance == "open"' }, { allow = "open" }, { approve = "pay" },
  { allow = "pay" }, { deny = "no*" },
]
"""
TOOLS = "".join(f"@host.tool('{name}')\nasync def {name}(): pass\n" for name in ("open", "pay", "burn"))


def test_checking_tells_what_agents_may_do_must_ask_for_and_can_never_do(tmp_path: Path) -> None:
    file = scenario(tmp_path, TOOLS + "def live(tick): pass\n", POLICY, ("ada", "bob"))

    told = society("check", file)
    (facts,) = json.loads(society("check", file, "--json").stdout)

    (both,) = facts["policies"]["agents"]
    assert both["agents"] == ["ada", "bob"]
    assert [(line["tool"], line["when"]) for line in both["may"]] == [("open", 'unless shared.maintenance == "open"')]
    assert [line["tool"] for line in both["asks"]] == ["pay"]
    assert [line["tool"] for line in both["never"]] == ["open", "burn"]
    assert "ada and 1 more" in told.stdout
    assert re.search(r"must ask for +pay", told.stdout)
    assert re.search(r"can never do +burn", told.stdout)
    assert "no tool matches the glob" in told.stdout  # of `no*`
    assert "may write" in told.stdout  # anyone the key that a rule reads


@pytest.mark.parametrize("format", ["html", "svg"])
def test_a_trace_is_exported_as_a_page_or_a_picture_that_needs_nothing_from_elsewhere(
    format: str, tmp_path: Path
) -> None:
    trace = ROOT / "traces" / "incident.synchronized.jsonl"
    by_name = society("trace", "export", trace, "-o", tmp_path / f"story.{format}")
    printed = society("trace", "export", trace, "--format", format)

    assert by_name.returncode == printed.returncode == 0
    written = (tmp_path / f"story.{format}").read_text("utf-8")
    assert written == printed.stdout
    assert "incident" in written and "restart" in written
    assert not re.search(r"(src|href|url\()\s*=?\s*[\"'(]?\s*(https?:)?//", written)
    if format == "svg":
        assert ElementTree.fromstring(written).tag.endswith("svg")
