"""`society tools`: what each agent of a scenario may call, and the digests of its tool servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.options import Json, OnScreen, Settings, settings
from society.exit_codes import DONE, Verdict
from society.lines import counted


def tools(
    scenario: str,
    *,
    set_: Settings = (),
    pin: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """List what each agent may call. Tool servers are started for it, and asked for nothing but their lists.

    Args:
        scenario: A scenario file, or the name of one that ships with the project.
        pin: Keep the catalog of each server in a file: the one that its `digest` names, else NAME.catalog.json beside the
            scenario. What has changed since it was kept is told.
    """
    from society.load import load_scenario
    from society.shelf import scenario_path
    from society.signals import cancelled_by_signal

    loaded = load_scenario(scenario_path(scenario), set=settings(set_), pinned=not pin)
    town = loaded.society()
    found = cancelled_by_signal(seen, town)
    if pin:
        for line in pinned(loaded, town.members.connections):
            (screen.say if json else screen.tell)(line)
    if json:
        import msgspec

        screen.document(msgspec.json.encode(found) + b"\n")
    else:
        for line in told(found):
            screen.tell(line)
    count = len({tool["name"] for agent in found["agents"] for tool in agent["tools"]})
    return Verdict(DONE, f"{counted(count, 'tool')}, {counted(len(found['servers']), 'server')}")


def pinned(scenario: Any, servers: Iterable[Any]) -> Iterator[str]:
    """Write the catalog file of each server; yield what there is to say of it."""
    from society.pins import SUFFIX, kept
    from society.whole_file import write_whole

    for host in servers:
        path = scenario.pins.get(host.name, scenario.folder / f"{host.name}{SUFFIX}")
        changes = _changes(path, host)
        write_whole(path, kept(host.catalog))
        yield f"wrote {os.path.relpath(path)}"
        yield from (f"  {line}" for line in changes)
        if host.name not in scenario.pins:
            yield f'  [servers.{host.name}] is pinned to it by  digest = {{ file = "{path.name}" }}'


def _changes(path: Path, host: Any) -> list[str]:
    """Return what has changed since a catalog file was written."""
    from society.errors import ScenarioError
    from society.pins import read_catalog

    if not path.exists():
        return []
    try:
        before = read_catalog(host.name, path.read_bytes())
    except ScenarioError as error:
        return [str(error)]
    return before.difference(host.catalog) or ["nothing has changed"]


async def seen(town: Any) -> dict[str, Any]:
    """Return what each agent of a society sees, with all its servers open."""
    from society.connections import opened

    members = town.members
    async with opened(members.connections):
        members.seat_again()
        return {
            "servers": [_server(host) for host in members.connections],
            "agents": [_agent(name, members.of(name)) for name in members.agents],
        }


def told(found: dict[str, Any]) -> list[str]:
    """Return it in lines. Agents that see the same are told of once."""
    lines = [f"server {server['name']}: {server['digest']} ({server['source']})" for server in found["servers"]]
    alike: dict[str, list[str]] = {}
    by_sight: dict[str, list[dict[str, Any]]] = {}
    for agent in found["agents"]:
        sight = repr(agent["tools"])
        alike.setdefault(sight, []).append(agent["name"])
        by_sight[sight] = agent["tools"]
    for sight, names in alike.items():
        lines.append(_names(names))
        lines += [f"  {_tool(tool)}" for tool in by_sight[sight]] or ["  no tools"]
    return lines


def _server(host: Any) -> dict[str, Any]:
    return {"name": host.name, "source": host.source.partition(": ")[2], "digest": host.digest}


def _agent(name: str, member: Any) -> dict[str, Any]:
    """Return an agent's tools, without those that its policy never lets it call."""
    from society.policy import Policy
    from society.review import Hints, Subject, review

    hints = {tool.name: Hints(tool.reads_only, tool.idempotent) for _, tool in member.desk.tools.values()}
    policy = member.judge.policy if member.judge is not None else Policy()
    (standing,) = review([Subject(name, hints, policy)], shared={}).agents
    asks = {line.tool for line in standing.asks}
    there = {line.tool for line in (*standing.may, *standing.asks)}
    return {
        "name": name,
        "tools": [
            {**_described(host, tool), "asks": tool.name in asks}
            for host, tool in member.desk.tools.values()
            if tool.name in there
        ],
    }


def _described(host: Any, tool: Any) -> dict[str, Any]:
    from society.values import plain

    catalog = getattr(host, "catalog", None)
    offers = {offer.name: offer for offer in catalog.offers} if catalog is not None else {}
    offer = offers.get(tool.name)
    description = offer.description if offer is not None else (tool.function.__doc__ or "")
    return {
        "name": tool.name,
        "description": " ".join(description.split()),
        "reads_only": tool.reads_only,
        "idempotent": tool.idempotent,
        "hints": dict(offer.hints) if offer is not None else {},
        # Of a function, its annotations say it.
        "input_schema": plain(offer.input_schema) if offer is not None else None,
        "output_schema": plain(offer.output_schema) if offer is not None else None,
    }


def _tool(tool: dict[str, Any]) -> str:
    facts = {
        "reads only": tool["reads_only"],
        "idempotent": tool["idempotent"] and not tool["reads_only"],
        "asks a person": tool["asks"],
    }
    held = [word for word, is_so in facts.items() if is_so]
    hinted = [
        f"says {hint.replace('_', ' ')}"
        for hint, is_so in tool["hints"].items()
        if is_so and not tool.get(hint) and hint in ("reads_only", "idempotent")
    ]
    marks = ", ".join([*held, *hinted])
    return " · ".join(part for part in (tool["name"], marks, tool["description"]) if part)


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{names[0]} … {names[-1]} ({counted(len(names), 'agent')})"
