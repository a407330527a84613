"""`society check`: everything about scenarios that can be known without running them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from society.commands.options import Json, OnScreen, Settings, settings
from society.exit_codes import DONE, WRONG, Verdict
from society.lines import Line, Part, counted, shown


def check(*scenarios: str, set_: Settings = (), json: Json = False, screen: OnScreen) -> Verdict:
    """Check scenarios without running them.

    Args:
        scenarios: Scenario files, or names of scenarios that ship with the project.
    """
    from society.errors import ScenarioError

    if not scenarios:
        raise ScenarioError("check: name at least one scenario.")
    found = [examined(name, settings(set_)) for name in scenarios]
    faulty = sum(bool(one["faults"]) for one in found)
    if json:
        import msgspec

        screen.document(msgspec.json.encode(found) + b"\n")
    else:
        for one in found:
            for fault in one["faults"]:
                screen.tell(fault)
            if not one["faults"]:
                screen.tell(f"{one['scenario']}: {one['name']} is sound: {one['says']}")
                screen.print(policies(one["policies"]))
                for name in one["unread"]:
                    screen.tell(f"  nobody reads the parameter {name!r}")
    if faulty:
        count = sum(len(one["faults"]) for one in found)
        return Verdict(WRONG, f"{counted(count, 'fault')} in {faulty} of {counted(len(found), 'scenario')}")
    return Verdict(DONE, "nothing is wrong")


def examined(given: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to say of one scenario: its `faults`, or its `name` and what it is made of."""
    from society.errors import ScenarioError, ScenarioFaults
    from society.load import load_scenario
    from society.mentions import unread
    from society.shelf import scenario_path

    try:
        loaded = load_scenario(scenario_path(given), set=settings)
        # What only a society can tell, such as a sensor that no host has.
        loaded.society()
        found = reviewed(loaded)
    except ScenarioFaults as faults:
        return {"scenario": given, "faults": [str(fault) for fault in faults.faults]}
    except ScenarioError as error:
        return {"scenario": given, "faults": [str(error)]}
    says = (
        f"{counted(len(loaded.agents), 'agent')}, {counted(len(loaded.shared), 'key')} in SHARED, {loaded.activation}, "
        f"at most {counted(loaded.max_ticks, 'round')}, seed {loaded.seed}, meaning {loaded.fingerprint}"
    )
    return {
        "scenario": given,
        "faults": [],
        "name": loaded.name,
        "says": says,
        "fingerprint": loaded.fingerprint,
        "policies": found,
        "unread": unread(loaded),
    }


def reviewed(loaded: Any) -> dict[str, Any] | None:
    """Return what the policies of a scenario come to; `None` where it has none.

    Agents of whom the same holds stand together: `{"agents": [name, …], "may", "asks", "never": [{"tool", "rule", "when"}, …]}`.
    """
    from society.connections import is_connection
    from society.review import Hints, Subject, review

    subjects = []
    for agent in loaded.agents:
        tools = {name: tool for host in loaded.hosts[agent.name] for name, tool in host.tools.items()}
        hints = {name: Hints(tool.reads_only, tool.idempotent) for name, tool in tools.items()}
        for host in loaded.hosts[agent.name]:  # of sub-agents, those that are effects like a tool's
            hints |= {name: Hints() for name, subagent in host.subagents.items() if not subagent.with_tick}
            hints |= {name: Hints() for name in _of_server(host, (*loaded.policy.rules, *agent.policy.rules))}
        subjects.append(Subject(agent.name, hints, agent.policy))
    if not any(policy.rules or policy.default == "deny" for policy in (loaded.policy, *(s.policy for s in subjects))):
        return None
    servers = any(is_connection(host) for hosts in loaded.hosts.values() for host in hosts)
    found = review(subjects, society=loaded.policy, shared=loaded.shared)
    alike: dict[Any, list[str]] = {}
    for one in found.agents:
        alike.setdefault((one.may, one.asks, one.never), []).append(one.agent)
    return {
        "agents": [
            {"agents": names} | dict(zip(("may", "asks", "never"), map(_lines, lists), strict=True))
            for lists, names in alike.items()
        ],
        "remarks": [str(remark) for remark in found.remarks if not (servers and remark.kind == "matches nothing")],
    }


def _of_server(host: Any, rules: Iterable[Any]) -> list[str]:
    """Return the tools of a server that rules name: which others there are is not known without starting it."""
    from society.connections import is_connection

    named = [rule.tool for rule in rules if is_connection(host) and rule.tool.startswith(f"{host.name}__")]
    return [tool for tool in named if not any(sign in tool for sign in "*?[")]


def _lines(lines: Any) -> list[dict[str, Any]]:
    return [{"tool": line.tool, "rule": line.rule, "when": line.when} for line in lines]


def policies(found: dict[str, Any] | None) -> Iterator[Line]:
    """Yield what policies come to as lines."""
    if found is None:
        return
    for one in found["agents"]:
        names = one["agents"]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield (Part("  "), Part(shown(names[0]), "agent"), Part(more))
        for heading, key in (("may", "may"), ("must ask for", "asks"), ("can never do", "never")):
            for line in one[key]:
                when = f" {shown(line['when'])}" if line["when"] else ""
                rule = f"  ({shown(line['rule'])})" if line["rule"] else ""
                yield (Part(f"    {heading:13} "), Part(shown(line["tool"]), "name"), Part(when), Part(rule, "quiet"))
    for remark in found["remarks"]:
        yield (Part("  remark: ", "bad"), Part(shown(remark)))
