"""A scenario that was read, found to be sound, and can be run.

Knows: what a society is made of.
Does not know: how it was written down; `load.py` reads files.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from society.agent import Agent
from society.budget import Budget
from society.casting import Cast
from society.connections import is_connection
from society.errors import UnknownTool
from society.files import Input
from society.host import AsyncHost
from society.limits import Limits
from society.locate import Path as KeyPath
from society.policy import Policy
from society.shared import Shared
from society.values import FrozenDict

if TYPE_CHECKING:
    from society.societies import AsyncSociety, Society


@attrs.define(kw_only=True, eq=False)
class Scenario:
    name: str
    about: str
    path: Path
    """Absolute."""
    activation: str
    """`synchronized`, `sequential`, `shuffled`, `random` or `partial`."""
    rate: float | None
    """With which probability an agent joins a round where the activation is `partial`."""
    seed: int
    max_ticks: int
    agents: tuple[Agent, ...]
    """Each of them, in declared order."""
    hosts: Mapping[str, list[AsyncHost]]
    """By the agents' names."""
    every_host: tuple[AsyncHost, ...]
    """Those of the code file. Where no agent names its own, agents that are born during a run have all of them, too."""
    shared: Mapping[str, Shared]
    limits: Limits
    parameters: Mapping[str, Any]
    policy: Policy
    events: tuple[FrozenDict, ...]
    """What the world does, in the order of the file: `{"round", "share"}` or `{"round", "send"}`."""
    topology: Mapping[str, tuple[str, ...]] | None
    """By an agent's name, the names of its neighbors in declared order."""
    models: Mapping[str, Cast]
    model: str | None
    """Which of them all agents ask, whatever they name."""
    budget: Budget | None
    measures: Mapping[str, Callable[..., Any]]
    until: Callable[..., Any] | None
    on_error: str
    quiet: bool
    meaning: Mapping[str, Any]
    """What may not change on resume, by key path."""
    fingerprint: str
    """The sha256 of the meaning, in hex."""
    inputs: tuple[Input, ...]
    """The scenario file first, then the files it used."""
    pins: Mapping[str, Path]
    """The files that hold the catalogs of tool servers, by server."""
    folder: Path
    """What the scenario's paths are relative to."""
    absolute: Mapping[KeyPath, Path]
    """What the file names by a path from the root, by setting."""
    code: ModuleType | None
    behaviors: tuple[Callable[..., Any], ...]
    """The functions of the code file: what agents that are born may do."""
    settings: Mapping[str, Any]
    """What was set from outside, by path."""
    again: Callable[..., Scenario]
    """Loads the scenario once more: `again(seed=5)`."""
    is_used: bool = False
    """A society was made of it."""

    def society(
        self,
        *,
        activation: str | None = None,
        seed: int | None = None,
        model: Any = None,
        tools: Mapping[str, Any] | None = None,
        sensors: Mapping[str, Any] | None = None,
        approver: Any = None,
        asker: Any = None,
        store: Any = None,
        keep_trace: bool = True,
    ) -> AsyncSociety | Society:
        """Return a society of this scenario, ready to run.

        The first society has the code that is in `code`. Each further one, and one with another seed, has its code run
        afresh, so that what one run leaves in global variables is not there in the next.

        Args:
            activation: Instead of the scenario's own.
            seed: Instead of the scenario's own.
            model: Instead of the scenario's own models, for all agents.
            tools: Functions, by the names of the tools that they stand for on every host. A tool server of which there
                are some is not started: they stand for the whole of it.
            sensors: Functions, by the names of sensors.
            keep_trace: Without a trace a run costs less; its result then has `trace=None`.

        Raises:
            UnknownTool: No host has the tool or sensor of that name.
        """
        if self.is_used or (seed is not None and seed != self.seed):
            return self.again(seed=self.seed if seed is None else seed).society(
                activation=activation,
                model=model,
                tools=tools,
                sensors=sensors,
                approver=approver,
                asker=asker,
                store=store,
                keep_trace=keep_trace,
            )
        activation = activation or self.activation
        hosts = self._hosts(tools or {}, sensors or {})
        self.is_used = True
        from society.declaring import SYNCHRONIZED
        from society.societies import AsyncSociety, Society

        model = self._models() if model is None else model
        parts = self._parts(hosts, activation) | {"approver": approver, "asker": asker, "store": store, "model": model}
        given = {key: value for key, value in parts.items() if value is not None} | {"keep_trace": keep_trace}
        if activation in SYNCHRONIZED:
            rate = self.rate if activation == "partial" else None
            return AsyncSociety(self.agents, activation=activation, rate=rate, **given)
        return Society(self.agents, activation=activation, **given)

    def _models(self) -> Any:
        """Return the models by name, or the one that all agents ask; `None` where there are none."""
        if self.model is not None:
            return self.models[self.model].model()
        return {name: cast.model() for name, cast in self.models.items()} or None

    def _parts(self, hosts: Any, activation: str) -> dict[str, Any]:
        return {
            "meaning": {**self.meaning, "activation": activation},
            "code": {one.name: one.sha256 for one in self.inputs if one.path.suffix == ".py"},
            "behaviors": self.behaviors,
            "name": self.name,
            "hosts": hosts,
            "shared": dict(self.shared),
            "limits": self.limits,
            "parameters": self.parameters,
            "policy": self.policy,
            "events": self.events,
            "budget": self.budget,
            "topology": self.topology,
            "measures": dict(self.measures),
            "seed": self.seed,
            "until": self.until,
            "on_error": self.on_error,
            "quiet": self.quiet,
        }

    def _hosts(self, tools: Mapping[str, Any], sensors: Mapping[str, Any]) -> Any:
        """Return one list for all where all have the same, so that newborns have it too; else one for each, and each group."""
        there = list({id(host): host for hosts in (*self.hosts.values(), self.every_host) for host in hosts}.values())
        for what, fakes, known in (
            ("tool", tools, {name for host in there for name in host.tools}),
            ("sensor", sensors, {name for host in there for name in host.sensors}),
        ):
            for name in fakes:
                if name not in known and not any(_is_of_server(name, host) for host in there):
                    raise UnknownTool(what, name, tuple(sorted(known)))
        twins = {id(host): _with_fakes(host, tools, sensors) for host in there}
        if all(list(hosts) == list(self.every_host) for hosts in self.hosts.values()):
            return [twins[id(host)] for host in self.every_host]
        found = {name: [twins[id(host)] for host in hosts] for name, hosts in self.hosts.items()}
        return {agent.group: found[agent.name] for agent in self.agents if agent.group is not None} | found


def _with_fakes(host: AsyncHost, tools: Mapping[str, Any], sensors: Mapping[str, Any]) -> AsyncHost:
    """Return a host whose tools and sensors of these names are replaced; the rest of each declaration stays."""
    if of_server := [name for name in tools if _is_of_server(name, host)]:
        stand_in = AsyncHost()
        for name in of_server:
            stand_in.tool(name, thread=False)(tools[name])
        return stand_in
    if not (host.tools.keys() & tools.keys() or host.sensors.keys() & sensors.keys()):
        return host
    twin = copy.copy(host)
    # Where they stand, not in a thread: fakes are quick, and a clock that jumps does not wait for threads.
    twin.tools = {
        name: attrs.evolve(tool, function=tools[name], thread=False, loop=None) if name in tools else tool
        for name, tool in host.tools.items()
    }
    twin.sensors = {
        name: attrs.evolve(sensor, function=sensors[name], thread=False) if name in sensors else sensor
        for name, sensor in host.sensors.items()
    }
    return twin


def _is_of_server(tool: str, host: Any) -> bool:
    """Tell whether a host is a tool server that a tool of this name would be on; which ones it has is not known yet."""
    return is_connection(host) and tool.startswith(f"{host.name}__")
