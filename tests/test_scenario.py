"""Scenario files: what they may say, and how all of their faults are told."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import trio

from society.errors import Fault, ScenarioError, ScenarioFaults, UnknownTool
from society.load import load_scenario
from society.scenario import Scenario

CODE = """
from society.agent import Agent
from society.host import AsyncHost

local = AsyncHost()

@local.sensor("service.status")
def status(): return "up"

@local.tool("restart", idempotent=True)
def restart(service): return {"ok": True}

def analyst(tick): pass
async def citizen(tick): pass
def most(value, contribution): return max(value, contribution)
def done(view): return False
def mood(agent): return 1
def grid(setup):
    return [Agent(f"cell-{i}", citizen, state={"x": setup.rng.random()}) for i in range(setup.parameters["n"])]
def empty_handed(setup): return [1]
def stumbling(setup):
    return 1 / 0
"""

ONE = '[[agents]]\nname = "analyst"\nbehavior = "analyst"\n'


class Folder:
    """A folder with a scenario and its code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("town.py", CODE)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def load(self, text: str, **given: Any) -> Scenario:
        return load_scenario(self.write("town.toml", text), **given)

    def faults(self, text: str, **given: Any) -> list[Fault]:
        with pytest.raises(ScenarioFaults) as caught:
            self.load(text, **given)
        return list(caught.value.faults)

    def told(self, text: str, **given: Any) -> list[str]:
        """Return the faults as they are printed, without the folder."""
        return [str(fault).replace(f"{self.path}{os.sep}", "") for fault in self.faults(text, **given)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_scenario_says_who_takes_part_and_what_holds(folder: Folder) -> None:
    town = folder.load("""\
        name = "town"
        about = "A town."
        code = "town.py"
        activation = "shuffled"
        max_ticks = 8
        until = "done"
        seed = 7
        on_error = "continue"
        quiet = true
        [parameters]
        n = 2
        [limits]
        tool_timeout = 10
        [shared]
        status = "open"
        high = { initial = 0, merge = "most", writers = ["analyst", "citizen"] }
        [[agents]]
        name = "analyst"
        behavior = "analyst"
        observe = ["service.status"]
        state = { tries = 0 }
        public = { mood = 1 }
        [[agents]]
        name = "citizen"
        behavior = "citizen"
        hosts = []
        count = 3
        [[agents]]
        from = "grid"
        [[events]]
        round = 3
        share = { status = "closed" }
        [[events]]
        round = 2
        send = { to = "citizen-2", kind = "hint", body = { text = "hm" } }
        [[measures]]
        name = "highest"
        value = "high"
        [[measures]]
        name = "mood"
        value = "mood"
        per = "agent"
        """)

    assert (town.name, town.about, town.activation, town.max_ticks, town.seed) == ("town", "A town.", "shuffled", 8, 7)
    assert (town.on_error, town.quiet, town.limits.tool_timeout, town.parameters) == ("continue", True, 10, {"n": 2})
    assert [agent.name for agent in town.agents] == [
        "analyst",
        "citizen-0",
        "citizen-1",
        "citizen-2",
        "cell-0",
        "cell-1",
    ]
    assert [(agent.group, agent.index) for agent in town.agents[:3]] == [(None, None), ("citizen", 0), ("citizen", 1)]
    assert (town.agents[0].observe, town.agents[0].state) == (("service.status",), {"tries": 0})
    assert town.code is not None
    assert town.until is town.code.done
    assert town.shared["high"].merge is town.code.most
    assert (town.shared["status"].initial, town.shared["status"].merge) == ("open", "last")
    assert [len(town.hosts[agent.name]) for agent in town.agents] == [1, 0, 0, 0, 1, 1]
    assert town.events == (
        {"round": 3, "share": {"status": "closed"}},
        {"round": 2, "send": {"to": "citizen-2", "kind": "hint", "body": {"text": "hm"}}},
    )
    assert list(town.measures) == ["highest", "mood"]
    assert [one.name for one in town.inputs] == ["town.toml", "town.py"]


def test_what_is_left_out_has_defaults(folder: Folder) -> None:
    town = folder.load('code = "town.py"\n' + ONE)

    assert (town.name, town.activation, town.seed, town.on_error, town.until) == (
        "town",
        "synchronized",
        0,
        "stop",
        None,
    )


def test_ten_faults_of_one_file_are_told_at_once_each_with_its_line(folder: Folder) -> None:
    told = folder.told("""\
        base_url = "http://127.0.0.1:1234"
        code = "town.py"
        activation = "sequentiel"
        [parameters]
        start = 2026-10-25T02:30:00
        [limits]
        tool_timout = 5
        max_concurrent_tools = 0
        [shared]
        status = "open"
        log = { initial = [], merge = "apend", writers = ["analist"] }
        [[agents]]
        name = "analyst"
        behavior = "analist"
        hosts = ["locl"]
        [[agents]]
        name = "analyst"
        behavior = "citizen"
        [[agents]]
        name = "citizen"
        behavior = "citizen"
        count = -1
        [[agents]]
        name = "world"
        behavior = "citizen"
        [[events]]
        round = 1
        send = { to = "Analyst", kind = "x" }
        [[events]]
        round = 0
        share = { statu = 1 }
        [[measures]]
        name = "m"
        value = "loog"
        """)

    assert told == [
        "town.toml:1: base_url: unknown key; it belongs under [models.NAME]",
        'town.toml:3: activation: expected one of "synchronized", "sequential", "shuffled", "random", "partial", '
        "found the text 'sequentiel'; did you mean \"sequential\"?",
        "town.toml:5: parameters.start: expected a time with its zone, 2026-10-25T02:30:00Z, or a text in quotes, "
        "found the time 2026-10-25T02:30:00",
        "town.toml:7: limits.tool_timout: unknown key; did you mean tool_timeout?",
        "town.toml:8: limits.max_concurrent_tools: expected a whole number of at least 1 "
        "(leave the key out for no bound), found the number 0",
        "town.toml:11: shared.log.writers[0]: unknown agent 'analist'; did you mean analyst?",
        "town.toml:11: shared.log.merge: neither a merge rule nor a function of the code file: 'apend'; "
        "did you mean append?",
        "town.toml:14: agents[0].behavior: the code file has no function 'analist'; did you mean analyst?",
        "town.toml:15: agents[0].hosts[0]: the code file has no host 'locl'; did you mean local?",
        "town.toml:17: agents[1].name: the name 'analyst' is taken by an earlier agent in line 13; "
        "messages are addressed by name",
        "town.toml:22: agents[2].count: expected a whole number of at least 0, found the number -1",
        "town.toml:24: agents[3].name: 'world' is the sender of scenario events; choose another name",
        "town.toml:28: events[0].send.to: unknown agent 'Analyst'; did you mean analyst?",
        "town.toml:30: events[1].round: expected a whole number of at least 1, found the number 0",
        "town.toml:34: measures[0].value: neither a SHARED key nor a function of the code file: 'loog'; did you mean log?",
    ]


@pytest.mark.parametrize("name", ["no", "on", "null", "007", "1e3", "12:30", "2026-01-01"])
def test_names_stay_as_they_are_written(folder: Folder, name: str) -> None:
    """P72."""
    town = folder.load(f"""\
        code = "town.py"
        [[agents]]
        name = "{name}"
        behavior = "analyst"
        [[events]]
        round = 1
        send = {{ to = "{name}", kind = "x" }}
        """)

    assert town.agents[0].name == name


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1e3", '4: agents[0].name: expected a text, found the number 1e3; in quotes it is a text: "1e3"'),
        ("true", '4: agents[0].name: expected a text, found the truth value true; in quotes it is a text: "true"'),
        (
            "2026-01-01",
            '4: agents[0].name: expected a text, found the date 2026-01-01; in quotes it is a text: "2026-01-01"',
        ),
        ("no", "4:8: no TOML: Invalid value; a text stands in quotes"),
    ],
)
def test_a_name_without_quotes_is_never_taken_for_something_else(folder: Folder, written: str, said: str) -> None:
    """P72."""
    told = folder.told(f'code = "town.py"\n\n[[agents]]\nname = {written}\nbehavior = "analyst"\n')

    assert told[0] == f"town.toml:{said}"


def test_a_key_that_is_written_twice_is_told_with_both_lines_and_the_other_faults(folder: Folder) -> None:
    """P74."""
    told = folder.told("""\
        code = "town.py"
        seed = 1
        [limits]
        tool_timeout = 5.0
        tool_timeout = 6.0
        [[agents]]
        name = "analyst"
        behavior = "analyst"
        count = "three"
        """)

    assert told == [
        "town.toml:5: limits.tool_timeout: written twice, first in line 4; keep one",
        "town.toml:9: agents[0].count: expected a whole number of at least 0, or \"parameters.KEY\", found the text 'three'",
    ]


def test_what_is_no_toml_is_told_with_line_and_column(folder: Folder) -> None:
    assert folder.told("seed = 1\n[limits\n") == [
        "town.toml:2:8: no TOML: Expected ']' at the end of a table declaration"
    ]
    assert folder.told("a = [1,") == [
        "town.toml: no TOML: Invalid value at the end of the file; a text stands in quotes"
    ]


def test_what_is_not_utf8_is_told_with_its_line(folder: Folder) -> None:
    (folder.path / "town.toml").write_bytes(b'seed = 1\nname = "Zo\xeb"\n')

    with pytest.raises(ScenarioFaults, match=r"town\.toml:2: not UTF-8: byte 0xeb at offset 19"):
        load_scenario(folder.path / "town.toml")


def test_a_missing_file_is_told_with_the_path_tried_and_the_setting(folder: Folder) -> None:
    """P76."""
    (told,) = folder.faults('code = "lib/twon.py"\n' + ONE)

    assert (told.line, told.path) == (1, "code")
    assert str(folder.path / "lib" / "twon.py") in told.message
    with pytest.raises(ScenarioFaults, match=r"there is no file .*nowhere\.toml"):
        load_scenario(folder.path / "nowhere.toml")


def test_files_are_found_from_the_scenarios_folder_wherever_one_stands(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P76."""
    folder.write("demo/code/town.py", CODE)
    folder.write("demo/town.toml", 'code = "code/town.py"\n' + ONE)
    seen = set()
    for stand, path in ((".", "demo/town.toml"), ("demo", "town.toml"), ("demo/code", "../town.toml"), ("/", None)):
        monkeypatch.chdir(folder.path / stand)
        town = load_scenario(path or folder.path / "demo" / "town.toml")
        seen.add((town.fingerprint, town.inputs))

    assert len(seen) == 1


def test_a_code_file_that_raises_is_told_with_its_own_line_and_the_scenarios_faults_too(folder: Folder) -> None:
    folder.write("town.py", "def analyst(tick): pass\n\nraise RuntimeError('no luck')\n")

    assert folder.told('code = "town.py"\nsed = 1\n' + ONE) == [
        "town.toml:2: sed: unknown key; did you mean seed?",
        "town.py:3: RuntimeError: no luck",
    ]
    folder.write("town.py", "def analyst(tick)\n    pass\n")
    assert folder.told('code = "town.py"\n' + ONE) == ["town.py:1:18: no Python: expected ':'"]
    folder.write("town.py", "import sys\nsys.exit(0)\n")
    assert folder.told('code = "town.py"\n' + ONE) == ["town.py:2: SystemExit: 0"]


def test_code_may_import_what_lies_beside_it_and_two_scenarios_do_not_mix(folder: Folder) -> None:
    for name in ("one", "two"):
        folder.write(f"{name}/helper.py", f"NAME = {name!r}\n")
        folder.write(f"{name}/town.py", "import helper\ndef analyst(tick): return helper.NAME\n")
        folder.write(f"{name}/town.toml", 'code = "town.py"\n' + ONE)

    one, two = (load_scenario(folder.path / name / "town.toml") for name in ("one", "two"))

    assert [town.agents[0].behavior(None) for town in (one, two)] == ["one", "two"]
    assert [one.name for one in two.inputs] == ["town.toml", "town.py", "helper.py"]
    assert one.agents[0].behavior.__module__ == two.agents[0].behavior.__module__ == "society_code_town"


def test_what_a_function_named_by_from_does_wrong_is_told(folder: Folder) -> None:
    told = folder.told("""\
        code = "town.py"
        [[agents]]
        from = "empty_handed"
        [[agents]]
        from = "stumbling"
        [[agents]]
        from = "gird"
        [[agents]]
        from = "grid"
        """)

    assert told == [
        "town.toml:3: agents[0].from: empty_handed(setup) returns agents; its item 0 is of type int",
        "town.toml:7: agents[2].from: the code file has no function 'gird'; did you mean grid?",
        "town.py:19: grid(setup): KeyError: 'n'",
        "town.py:22: stumbling(setup): ZeroDivisionError: division by zero",
    ]


def test_agents_of_a_function_depend_on_the_seed_and_nothing_else(folder: Folder) -> None:
    text = 'code = "town.py"\nparameters.n = 2\n' + ONE + '[[agents]]\nfrom = "grid"\n'

    def states(**settings: Any) -> list[Any]:
        return [agent.state for agent in folder.load(text, set=settings).agents[1:]]

    assert states() == states() != states(seed=1)


def test_names_of_counted_agents_collide_like_others(folder: Folder) -> None:
    (told,) = folder.told(
        'code = "town.py"\n[[agents]]\nname = "a"\nbehavior = "citizen"\ncount = 3\n'
        '[[agents]]\nname = "a-1"\nbehavior = "citizen"\n'
    )

    assert told.startswith("town.toml:7: agents[1].name: the name 'a-1' is taken by an earlier agent in line 3")


def test_a_count_may_stand_in_the_parameters(folder: Folder) -> None:
    text = 'code = "town.py"\nparameters.n = 2\n[[agents]]\nname = "a"\nbehavior = "citizen"\ncount = "parameters.n"\n'

    assert [agent.name for agent in folder.load(text, set={"n": 3}).agents] == ["a-0", "a-1", "a-2"]
    assert folder.told(text.replace('"parameters.n"', '"parameters.m"')) == [
        "town.toml:6: agents[0].count: unknown parameter 'm'; known: n"
    ]


def test_a_population_may_stand_in_a_table(folder: Folder) -> None:
    folder.write("panel.csv", "name,age,score,code,votes\nZoë,3,1,007,true\n,4,2.5,008,\n")

    town = folder.load('code = "town.py"\n[[agents]]\nname = "p"\nbehavior = "citizen"\nrows = "panel.csv"\n')

    assert [(agent.name, agent.group, agent.index) for agent in town.agents] == [("Zoë", "p", 0), ("p-1", "p", 1)]
    assert [agent.state for agent in town.agents] == [
        {"age": 3, "score": 1.0, "code": "007", "votes": True},
        {"age": 4, "score": 2.5, "code": "008", "votes": None},
    ]
    assert "panel.csv" in [one.name for one in town.inputs]


def test_times_have_a_zone_and_become_utc(folder: Folder) -> None:
    """P65."""
    town = folder.load('code = "town.py"\nparameters.start = 2026-10-25T02:30:00+02:00\n' + ONE)

    assert town.parameters == {"start": "2026-10-25T00:30:00Z"}
    for zoneless in ("2026-10-25T02:30:00", "2026-10-25", "02:30:00"):
        (told,) = folder.told(f'code = "town.py"\nparameters.start = {zoneless}\n' + ONE)
        assert "expected a time with its zone" in told


def test_values_outside_the_closed_set_are_refused_all_of_them(folder: Folder) -> None:
    told = folder.told('code = "town.py"\nparameters = { a = nan, b = [1, inf], c = 99999999999999999999 }\n' + ONE)

    assert told == [
        "town.toml:2: parameters.a: float nan is no value that agents can share",
        "town.toml:2: parameters.b[1]: float inf is no value that agents can share",
        "town.toml:2: parameters.c: an int of 67 bits is no value that agents can share",
    ]


def test_what_comes_from_the_environment_is_used_and_never_stored(folder: Folder) -> None:
    text = 'code = "town.py"\n[parameters]\nkey = { env = "KEY" }\n' + ONE

    town = folder.load(text, environ={"KEY": "hush"})

    assert town.parameters == {"key": "hush"}
    assert town.meaning["parameters.key"] == '{ env = "KEY" }'
    assert "hush" not in repr((town.meaning, town.inputs, town.settings))
    assert town.fingerprint == folder.load(text, environ={"KEY": "other"}).fingerprint
    assert folder.told(text, environ={}) == ["town.toml:3: parameters.key: the environment variable KEY is not set"]
    (told,) = folder.told(
        'code = "town.py"\n[shared]\na = { initial = { env = "KEY" } }\n' + ONE, environ={"KEY": "hush"}
    )
    assert "would be written into the journal" in told


def test_conditions_and_rules_know_the_line_they_stand_in(folder: Folder) -> None:
    town = folder.load("""\
        code = "town.py"
        until = 'shared.status == "closed"'
        [shared]
        status = "open"
        [policy]
        rules = [
          { never = "restart", when = 'shared.status == "open"' },
        ]
        [[agents]]
        name = "analyst"
        behavior = "analyst"
        policy = { default = "deny", rules = [{ approve = "restart" }] }
        """)

    assert [str(rule.place) for rule in town.policy.rules] == ["town.toml:7"]
    assert [str(rule.place) for rule in town.agents[0].policy.rules] == ["town.toml:12"]
    assert town.agents[0].policy.default == "deny"
    assert str(town.until) == 'shared.status == "closed"'


def test_conditions_with_unknown_names_are_told(folder: Folder) -> None:
    told = folder.told("""\
        code = "town.py"
        until = 'shared.statsu == "closed"'
        [shared]
        status = "open"
        [policy]
        rules = [{ never = "restart", when = 'observed["service.state"] == 1' }]
        [[agents]]
        name = "analyst"
        behavior = "analyst"
        """)

    assert [said.split(": condition")[0] for said in told] == [
        "town.toml:2: until",
        "town.toml:6: policy.rules[0].when",
    ]
    assert "status" in told[0]
    (told_name,) = folder.told('code = "town.py"\nuntil = "doen"\n' + ONE)
    assert told_name == "town.toml:2: until: the code file has no function 'doen'; did you mean done?"


def test_an_event_that_does_not_fit_the_merge_rule_is_told(folder: Folder) -> None:
    (told,) = folder.told(
        """\
        code = "town.py"
        shared.sum = { initial = 0, merge = "sum" }
        [[events]]
        round = 1
        share = { sum = "one" }
        """
        + textwrap.indent(ONE, " " * 8)
    )

    assert told == "town.toml:5: events[0].share.sum: str is no addend for merge = 'sum'"


def test_a_misspelled_key_of_shared_is_not_taken_for_a_value(folder: Folder) -> None:
    """P74."""
    told = folder.told('code = "town.py"\n[shared]\na = { intial = 3 }\nb = { up = true }\n' + ONE)

    assert told == [
        "town.toml:3: shared.a.intial: unknown key; did you mean initial?",
        "town.toml:4: shared.b.up: unknown key; known: initial, merge, writers, readers; "
        "a table as the first value is written { initial = { … } }",
    ]


def test_agents_without_hosts_have_all_of_the_code_file_and_their_sensors_are_checked(folder: Folder) -> None:
    (told,) = folder.told('code = "town.py"\n' + ONE + 'observe = ["service.stat"]\n')

    assert told == (
        "town.toml:5: agents[0].observe[0]: no host of the agent has a sensor 'service.stat'; did you mean service.status?"
    )


def test_a_scenario_without_code_says_so(folder: Folder) -> None:
    assert folder.told(ONE) == [
        "town.toml:3: agents[0].behavior: behavior 'analyst' is a function of the code file, "
        "and the scenario names none (code = …)"
    ]
    assert folder.told('code = "town.py"\n') == ["town.toml: no agents: a society has at least one [[agents]]"]


def test_fakes_stand_for_tools_and_sensors_that_are_there(folder: Folder) -> None:
    town = folder.load('code = "town.py"\n' + ONE)

    with pytest.raises(UnknownTool, match=r"no host has a tool 'restrat'\. Did you mean 'restart'\?"):
        town.society(tools={"restrat": lambda: None})


def test_a_scenario_reads_the_same_in_any_locale(folder: Folder) -> None:
    """P63."""
    name = "Zoë – 東京 🎲"
    path = folder.write(
        "town.toml",
        f"""\
        about = "{name}"
        code = "town.py"
        parameters.text = "{name}"
        [[agents]]
        name = "{name}"
        behavior = "analyst"
        """,
    )
    folder.write("town.py", f"def analyst(tick): return {name!r}\n")
    program = (
        "import sys; from society.load import load_scenario; town = load_scenario(sys.argv[1]); "
        "said = [town.fingerprint, town.about, town.agents[0].name, town.agents[0].behavior(None)]; "
        "sys.stdout.buffer.write(chr(10).join(said).encode())"
    )
    root = str(Path(__file__).parent.parent)
    seen = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={"PYTHONPATH": root, "PATH": os.defpath, **locale},
            check=True,
            capture_output=True,
        ).stdout.decode()
        for locale in (
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"},
        )
    }

    assert seen == {"\n".join([load_scenario(path).fingerprint, name, name, name])}


LIVE = """
from society.host import AsyncHost

local = AsyncHost()
calls = []

@local.sensor("mood")
def mood(): return "real"

@local.tool("restart")
def restart(service): return {"by": "real"}

async def analyst(tick):
    tick.share("moods", tick.observed["mood"])
    tick.share("done", (await tick.call("restart", service="web"))["by"])
    for message in tick.inbox:
        tick.share("heard", f"{message.sender}: {message.kind}")
    calls.append(tick.round)
    tick.share("calls", len(calls))
    tick.share("tokens", len(tick.parameters["token"]))

def tries(agent): return 1
"""
LIVE_TOML = """\
code = "town.py"
until = 'size(shared.heard) > 0 && round >= parameters.least'
[parameters]
least = 1
token = { env = "TOKEN" }
[shared]
moods = { initial = [], merge = "append" }
done = { initial = [], merge = "append" }
heard = { initial = [], merge = "append" }
calls = 0
tokens = 0
[[agents]]
name = "analyst"
behavior = "analyst"
observe = ["mood"]
[[events]]
round = 2
send = { to = "analyst", kind = "hint" }
[[measures]]
name = "moods"
value = "moods"
[[measures]]
name = "tries"
value = "tries"
per = "agent"
"""


def _live(folder: Folder, **given: Any) -> Scenario:
    folder.write("town.py", LIVE)
    return folder.load(LIVE_TOML, environ={"TOKEN": "hush-hush"}, **given)


@pytest.mark.parametrize("activation", ["synchronized", "sequential", "shuffled"])
def test_a_scenario_runs_under_every_activation(folder: Folder, activation: str) -> None:
    scenario = _live(folder)

    result = trio.run(scenario.society(activation=activation).run, scenario.max_ticks)

    assert (result.outcome, result.rounds) == ("satisfied", 2)
    assert result.shared["heard"] == ["world: hint"]
    assert result.shared["moods"] == ["real", "real"]
    assert result.measures["moods"] == [0, 1, 2]
    assert result.trace is not None
    assert result.trace.header["activation"] == activation
    assert result.trace.header["scenario"] == "town"


def test_measures_of_public_state_are_numbers_of_each_or_of_all_added_up(folder: Folder) -> None:
    folder.write(
        "town.py", "def saves(tick):\n    if tick.index:\n        tick.public['gold'] = tick.index * tick.round\n"
    )
    town = folder.load("""
code = "town.py"
max_ticks = 2
[[agents]]
name = "saver"
behavior = "saves"
count = 3
[[measures]]
name = "all"
value = "public.gold"
[[measures]]
name = "each"
value = "public.gold"
per = "agent"
""")

    result = trio.run(town.society().run, 2)

    assert result.measures["all"] == [None, 3, 6]
    assert result.measures["each"] == [{}, {"saver-1": 1, "saver-2": 2}, {"saver-1": 2, "saver-2": 4}]


def test_public_state_that_is_no_number_is_told_with_who_shows_it(folder: Folder) -> None:
    folder.write("town.py", "def says(tick):\n    tick.public['mood'] = 'fine'\n")
    text = 'code = "town.py"\n[[agents]]\nname = "ada"\nbehavior = "says"\n[[measures]]\nname = "m"\nvalue = "public.mood"\n'

    with pytest.raises(ScenarioError, match="ada shows 'fine' as mood; a measure is a number or the length of a list"):
        trio.run(folder.load(text).society().run, 1)


def test_fakes_take_the_place_of_tools_and_sensors(folder: Folder) -> None:
    fakes: Any = {"tools": {"restart": lambda service: {"by": service}}, "sensors": {"mood": lambda: "fake"}}

    result = trio.run(_live(folder).society(**fakes).run, 1)

    assert result.shared["moods"] == ["fake"]
    assert result.shared["done"] == ["web"]


def test_each_society_of_a_scenario_has_its_code_run_afresh(folder: Folder) -> None:
    scenario = _live(folder)

    results = [trio.run(scenario.society().run, 5) for _ in range(2)]

    assert [result.shared["calls"] for result in results] == [2, 2]
    assert results[0].trace == results[1].trace or results[0].trace.digest == results[1].trace.digest


def test_another_seed_makes_another_society(folder: Folder) -> None:
    scenario = folder.load('code = "town.py"\nparameters.n = 2\n' + ONE + '[[agents]]\nfrom = "grid"\n')
    town = scenario.society(seed=3)

    assert town.seed == 3
    assert town.agents[1].state != scenario.agents[1].state


def test_a_run_records_the_meaning_and_the_code_and_no_secret(folder: Folder) -> None:
    """J7."""
    town = _live(folder).society(activation="sequential")
    result = trio.run(town.run, 5)
    start = town.start_record()

    assert result.outcome == "satisfied"
    assert start.meaning["parameters.least"] == 1
    assert start.meaning["activation"] == "sequential"
    assert list(start.code) == ["town.py"]
    assert result.shared["tokens"] == len("hush-hush")
    assert result.trace is not None
    assert "hush-hush" not in repr(start) + result.trace.data.decode()


GRAPH = '[[agents]]\nname = "c"\nbehavior = "citizen"\ncount = 6\n[topology]\ngroup = "c"\n'


def test_a_topology_is_a_graph_of_networkx_whose_node_i_is_the_agent_with_that_number(folder: Folder) -> None:
    text = 'code = "town.py"\nparameters.k = 2\n' + GRAPH

    ring = folder.load(text + 'graph = "watts_strogatz_graph"\nn = 6\nk = "parameters.k"\np = 0\n')
    board = folder.load(text + 'graph = "grid_2d_graph"\nm = 2\nn = 3\n')

    assert ring.topology is not None and board.topology is not None
    assert ring.topology["c-0"] == ("c-1", "c-5")
    assert board.topology["c-4"] == ("c-1", "c-3", "c-5")
    assert ring.fingerprint != board.fingerprint
    assert ring.society().seed == 0


def test_a_random_topology_depends_on_the_seed_alone(folder: Folder) -> None:
    text = 'code = "town.py"\n' + GRAPH + 'graph = "gnp_random_graph"\nn = 6\np = 0.5\n'

    assert folder.load(text).topology == folder.load(text).topology
    assert folder.load(text).topology != folder.load(text, set={"seed": 1}).topology


def test_a_topology_may_be_made_by_a_function_of_the_code_file(folder: Folder) -> None:
    folder.write("town.py", CODE + "\ndef star(setup, hub): return {i: [hub] for i in range(6)}\n")

    town = folder.load('code = "town.py"\n' + GRAPH + 'graph = "star"\nhub = 2\n')

    assert town.topology is not None
    assert town.topology["c-0"] == ("c-2",)


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ('graph = "path_grph"\n', "did you mean path_graph?"),
        ('graph = "path_graph"\nn = 5\n', "the graph has 5 nodes and the group 6 agents; node i is the agent c-i"),
        ('graph = "path_graph"\nm = 5\n', "TypeError: path_graph() "),
        ('graph = "number_of_nodes"\nG = 1\n', "AttributeError"),
        ("n = 5\n", "`graph` is missing"),
        ('graph = "path_graph"\nn = nan\n', "town.toml:9: topology.n: float nan is no value"),
        ('graph = "path_graph"\nn = "parameters.m"\n', "unknown parameter 'm'"),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(folder: Folder, graph: str, said: str) -> None:
    told = folder.told('code = "town.py"\n' + GRAPH + graph)

    assert said in "\n".join(told)


NAMED = """
def ties(setup, **more): return {"c-0": ["c-2"], "c-2": ["c-1", "c-0"], **more}
"""


def test_a_topology_by_name_may_leave_agents_out(folder: Folder) -> None:
    folder.write("town.py", CODE + NAMED)

    town = folder.load('code = "town.py"\n' + GRAPH + 'graph = "ties"\n')

    assert town.topology == {"c-0": ("c-2",), "c-2": ("c-1", "c-0")}


@pytest.mark.parametrize("more", ['c-11 = ["c-0"]', 'c-1 = ["c-11"]'])
def test_a_node_that_is_no_agent_is_refused_with_the_nearest_name(folder: Folder, more: str) -> None:
    folder.write("town.py", CODE + NAMED)

    (told,) = folder.told('code = "town.py"\n' + GRAPH + f'graph = "ties"\n{more}\n')

    assert "topology.graph: ties goes by the names of agents, and gives a node that is none: 'c-11'" in told
    assert "did you mean c-1" in told


def test_a_topology_by_name_runs_as_one_in_python_does(folder: Folder) -> None:
    folder.write("town.py", "def looks(tick): tick.note(', '.join(tick.neighbors))\n" + NAMED)
    text = '[[agents]]\nname = "c"\nbehavior = "looks"\ncount = 3\n[topology]\ngraph = "ties"\n'

    result = trio.run(folder.load('code = "town.py"\n' + text).society().run, 1)

    assert [event.text for event in result.trace.where(kind="note")] == ["c-2", "", "c-1, c-0"]


# Activations and grids.


def test_partial_goes_with_a_rate_and_other_activations_may_have_one_for_comparisons(folder: Folder) -> None:
    agents = 'code = "town.py"\n[[agents]]\nname = "c"\nbehavior = "citizen"\ncount = 6\n'
    text = f'activation = "partial"\nrate = 0.5\n{agents}'
    scenario = folder.load(text)

    assert (scenario.activation, scenario.rate) == ("partial", 0.5)
    assert scenario.society().activation == "partial"
    assert folder.load(f"rate = 0.5\n{agents}").society().activation == "synchronized"
    assert folder.load(f"rate = 0.5\n{agents}").society(activation="random").activation == "random"
    assert scenario.fingerprint != folder.load(text, set={"rate": 0.6}).fingerprint
    told = folder.told(f'activation = "partial"\n{agents}')[0]
    assert told.startswith("town.toml:1: activation: partial goes with `rate`")
    assert "rate: expected a number from 0 to 1" in folder.told(f'activation = "partial"\nrate = 2\n{agents}')[0]


def test_a_topology_may_be_a_grid_whose_neighbors_keep_their_order(folder: Folder) -> None:
    folder.write("town.py", "def citizen(tick): ...")  # a function called `grid` would come first
    board = folder.load(f'code = "town.py"\n{GRAPH}graph = "grid"\nwidth = 3\nheight = 2\ntorus = true\n').topology

    assert board is not None
    assert board["c-0"] == ("c-5", "c-3", "c-4", "c-2", "c-1")
    assert (
        "has 8 nodes and the group 6 agents"
        in folder.told(f'code = "town.py"\n{GRAPH}graph = "grid"\nwidth = 4\nheight = 2\n')[0]
    )
