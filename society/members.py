"""Members: every agent there is or was, with its hosts joined, its policy ready to judge, and its behavior found again.

Knows: declared agents, those who were born, and what each one reaches.
Does not know: rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from society.agent import Agent, qualified
from society.births import born, lost
from society.conditions import compiled
from society.connections import is_connection
from society.errors import ScenarioError, suggestion
from society.expressions import Names
from society.host import join
from society.judge import Judge
from society.meaning import meaning_of_hosts
from society.policy import Policy
from society.records import Contribution
from society.shared import Shared
from society.snapshot import Member


class Members:
    def __init__(
        self,
        declared: Sequence[Agent],
        hosts: Any,
        policy: Policy,
        shared: Mapping[str, Shared],
        behaviors: Iterable[Callable[..., Any]],
        durable: Callable[[], bool],
    ) -> None:
        self.agents: dict[str, Agent] = {agent.name: agent for agent in declared}
        """By name, those who were born included."""
        self._declared = tuple(declared)
        self._hosts = hosts
        self._shared = dict(shared)
        self.policy = compiled(policy, Names(shared=tuple(shared), sensors=tuple(self._all_sensors())))
        """For everyone; a sensor that an agent does not observe is unknown to its rules."""
        self._behaviors = {qualified(function): function for function in behaviors}
        self._durable = durable
        self.desks: dict[Any, Any] = {}
        self._seats: dict[str, Member] = {}
        self._judges: dict[Policy, Judge | None] = {}
        """By policy: agents that are alike are judged by one."""
        self._parents: dict[str, str] = {}
        self.connections = tuple(
            {
                id(host): host for agent in declared for host in self._hosts_of(agent, None) if is_connection(host)
            }.values()
        )
        """Hosts that are opened with the run."""
        self.seat_again()

    def seat_again(self) -> None:
        """Seat all who know what they reach: all of them once every connection is open."""
        self.desks.clear()
        self._seats.clear()
        for agent in self.agents.values():
            if all(
                host.catalog is not None
                for host in self._hosts_of(agent, self._parents.get(agent.name))
                if is_connection(host)
            ):
                self.of(agent.name)
        if len(self._seats) == len(self.agents):
            self._check_reconcilers()

    def _check_reconcilers(self) -> None:
        """Refuse a reconciler that would never be asked. Its tool may be on another host, and not in every agent's reach."""
        tools = {tool for desk in self.desks.values() for tool in desk.tools}
        for desk in self.desks.values():
            for tool in desk.reconcilers:
                if tool not in tools:
                    raise ScenarioError(
                        f"a reconciler is for the tool {tool!r}, which no host of the society has.{suggestion(tool, tools)}"
                    )

    def of(self, name: str) -> Member:
        """Return an agent with its hosts joined and its sensors found."""
        if name not in self._seats:
            self._seats[name] = self._seated(self.agents[name])
        return self._seats[name]

    def _seated(self, agent: Agent, parent: str | None = None) -> Member:
        parent = parent or self._parents.get(agent.name)
        name, hosts = agent.name, self._hosts_of(agent, parent)
        key = tuple(map(id, hosts))
        desk = self.desks.get(key)
        if desk is None:
            desk = self.desks[key] = join(hosts, name)
        for sensor in agent.observe:
            if sensor not in desk.sensors:
                raise ScenarioError(
                    f"agent {name!r} observes {sensor!r}, which none of its hosts has.{suggestion(sensor, desk.sensors)}"
                )
        if (check := getattr(agent.behavior, "check", None)) is not None:
            check(desk, name)  # a model-driven one names its tools
        return Member(agent, desk, self._judge(self._policy_of(agent, parent, tuple(desk.sensors))))

    def _policy_of(self, agent: Agent, parent: str | None, sensors: tuple[str, ...]) -> Policy:
        """Return the rules for an agent: everyone's and its own, and, for one that was born, its parent's before them.

        Nobody gets around a rule by giving birth to somebody whom it does not bind.
        """
        before = self.policy if parent is None else self._policy_by_name(parent)
        return before + compiled(agent.policy, Names(shared=tuple(self._shared), sensors=sensors))

    def _policy_by_name(self, name: str) -> Policy:
        judge = self.of(name).judge
        return Policy() if judge is None else judge.policy

    def _judge(self, policy: Policy) -> Judge | None:
        if policy not in self._judges:
            self._judges[policy] = Judge(policy) if policy.rules or policy.default != "allow" else None
        return self._judges[policy]

    def _all_sensors(self) -> Iterator[str]:
        hosts = self._hosts.values() if isinstance(self._hosts, Mapping) else [self._hosts]
        for host in hosts:
            for one in host if isinstance(host, list | tuple) else [host]:
                yield from getattr(one, "sensors", ())

    def _hosts_of(self, agent: Agent, parent: str | None) -> tuple[Any, ...]:
        """Return an agent's hosts: its own, its group's, or, for one that was born, its parent's."""
        hosts = self._hosts
        if isinstance(hosts, Mapping):
            while True:
                for key in (agent.name, agent.group):
                    if key in hosts:
                        hosts = hosts[key]
                        return tuple(hosts) if isinstance(hosts, list | tuple) else (hosts,)
                if parent is None:
                    return ()
                agent, parent = self.agents[parent], self._parents.get(parent)
        return tuple(hosts) if isinstance(hosts, list | tuple) else (() if hosts is None else (hosts,))

    def meaning(self) -> dict[str, Any]:
        """Return what the declared agents can reach, by key path (J7)."""
        return meaning_of_hosts(
            self.desks.values(),
            ((name, self._seats[name].desk) for agent in self._declared if (name := agent.name) in self._seats),
        )

    def check_birth(self, agent: Agent, parent: str) -> None:
        """Refuse a birth whose sensors nobody has, that would have more rights than its parent, or whose behavior or
        rules another process could not find (R13)."""
        self._check_rights(agent, parent)
        self._seated(agent, parent)
        if not self._durable():
            return
        for rule in agent.policy.rules:
            if rule.when is not None and rule.text is None:
                raise ScenarioError(
                    f"spawn: a resumed run could not find the condition of {agent.name!r}'s rule {rule} again. "
                    "Write it as a text; its parent's rules hold for it anyway."
                )
        if (why := lost(agent, self.behavior)) is not None:
            raise ScenarioError(f"spawn: a resumed run could not find {why}")

    def _check_rights(self, agent: Agent, parent: str) -> None:
        """Refuse a name or a group by which a newborn could do what its parent cannot."""
        names, before = {agent.name, agent.group}, {parent, self.agents[parent].group} - {None}
        for key, declared in self._shared.items():
            for right, listed in (("write", declared.writers), ("read", declared.readers)):
                if listed is not None and names.intersection(listed) and not before.intersection(listed):
                    raise ScenarioError(
                        f"spawn: as {agent.name!r} of group {agent.group!r} it could {right} shared.{key}, which its "
                        f"parent {parent!r} may not. Give it another name or group."
                    )
        if isinstance(self._hosts, Mapping) and not names.isdisjoint(self._hosts):
            own = self._hosts_of(self.agents[parent], self._parents.get(parent))
            if any(all(host is not other for other in own) for host in self._hosts_of(agent, parent)):
                raise ScenarioError(
                    f"spawn: as {agent.name!r} of group {agent.group!r} it would have hosts that its parent {parent!r} "
                    "has not. Give it another name or group, or its parent these hosts."
                )

    def behavior(self, name: str) -> Any:
        """Return the behavior of that qualified name: among the declared ones, in `behaviors=`, or by import."""
        if name in self._behaviors:
            return self._behaviors[name]
        for agent in self._declared:
            if qualified(agent.behavior) == name:
                return agent.behavior
        return imported(name)

    def adopt(self, contributions: Iterable[Contribution], births: Mapping[int, Any]) -> None:
        """Seat those who were born at a barrier: of two births with one name the first in order (R13)."""
        for contribution in contributions:
            for did in contribution.did if contribution.ending == "well" else ():
                if did[0] == "spawn" and did[2]["name"] not in self.agents:
                    name = did[2]["name"]
                    self.agents[name] = births[id(did[2])][1]
                    self._parents[name] = contribution.agent
                    self.of(name)

    def bear_again(self, births: Iterable[Mapping[str, Any]]) -> None:
        """Seat those whose births stand in a journal.

        Raises:
            ResumeRefused: A behavior or a fallback is not found again.
        """
        for birth in births:
            name = birth["name"]
            if name not in self.agents:
                self.agents[name] = born(birth, self.behavior)
                self._parents[name] = birth["parent"]


def imported(name: str) -> Any:
    """Return the function of a qualified name `module:qualname`, or None."""
    import importlib

    module_name, _, qualname = name.partition(":")
    if "<" in qualname:
        return None
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError:
        return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
