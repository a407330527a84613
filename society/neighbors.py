"""Neighbors: who is next to whom, as names, and what a tick sees of those next to its agent.

Knows: names, and public state as a snapshot shows it.
Does not know: where a graph comes from; a scenario file's is made in topology.py, a board in lattice.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from society.errors import BehaviorError, ScenarioError, suggestion
from society.lattice import Lattice
from society.values import EMPTY, FrozenDict

if TYPE_CHECKING:
    from society.tick import Tick

Topology = Mapping[str, tuple[str, ...]]
"""By an agent's name, the names of its neighbors, in the order in which `tick.neighbors` gives them."""


class Neighbors(Mapping[str, FrozenDict]):
    """By name, the public state of an agent's neighbors as the snapshot shows it. Read where it lies, nothing is copied.

    `values()` and `items()` are tuples: the quick way to look at all of them. Who has left is a neighbor no more. It dies
    with its tick.
    """

    __slots__ = ("_names", "_tick")

    def __init__(self, tick: Tick) -> None:
        snapshot = tick._snapshot
        topology, name = snapshot.neighbors, tick._member.agent.name
        if topology is None:
            raise NoTopology(f"{name} looks at its neighbors, and this society has no topology; declare one.")
        names = topology.get(name, ())
        if gone := snapshot.before.retired:
            names = tuple([other for other in names if other not in gone])
        self._tick = tick
        self._names = names

    def values(self) -> tuple[FrozenDict, ...]:  # type: ignore[override]
        going = self._tick._alive()._snapshot.going
        before, now = going.before.publics, going.publics
        if now:  # in turn, what earlier ticks of the round left counts already (Q2)
            return tuple([now[name] if name in now else before.get(name, EMPTY) for name in self._names])
        return tuple(map(before.get, self._names, repeat(EMPTY)))

    def items(self) -> tuple[tuple[str, FrozenDict], ...]:  # type: ignore[override]
        return tuple(zip(self._names, self.values(), strict=True))

    def __getitem__(self, name: str) -> FrozenDict:
        if name not in self._names:
            known = suggestion(str(name), self._names)
            raise KeyError(f"{name!r} is no neighbor of {self._tick._member.agent.name}.{known}")
        return self._tick._alive()._snapshot.going.public(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<neighbors {', '.join(self._names)}>"


class NoTopology(BehaviorError):
    """A tick looks at its neighbors in a society that declares none."""


def topology_by_name(topology: Any, names: Sequence[str]) -> Topology:
    """Return a topology as names.

    Args:
        topology: A mapping from names to names; a graph of networkx whose nodes are names; or `grid(…)`, whose places are
            the agents in declared order. In a directed graph a neighbor is one that an edge leads to.
        names: Of the agents, in declared order. A mapping's neighbors keep the order in which they are given; those of a
            graph, or of a set, which have none that means something, come in declared order.

    Raises:
        ScenarioError: A node is no agent, or it is none of these.
    """
    if isinstance(topology, Lattice):
        return topology.named(names)
    is_graph = hasattr(topology, "adj")
    adjacent = topology.adj if is_graph else topology
    if not isinstance(adjacent, Mapping):
        kind = type(topology).__name__
        raise ScenarioError(f"topology: a mapping of names, a graph of networkx or grid(…), not of type {kind}.")
    places = {name: place for place, name in enumerate(names)}
    found: dict[str, tuple[str, ...]] = {}
    for name, others in adjacent.items():
        _check_agent(name, places, "node" if is_graph else "key")
        found[name] = _listed(name, others, places, is_graph)
    return found


def _listed(name: str, others: Any, places: Mapping[str, int], is_graph: bool) -> tuple[str, ...]:
    if isinstance(others, str) or not isinstance(others, Iterable):
        raise ScenarioError(f"topology.{name}: the neighbors are a list of names, not {others!r}.")
    listed = tuple(dict.fromkeys(others))
    for other in listed:
        _check_agent(other, places, f"neighbor of {name}")
    if is_graph or isinstance(others, (set, frozenset)):
        listed = tuple(sorted(listed, key=places.__getitem__))
    return listed


def _check_agent(name: Any, places: Mapping[str, int], what: str) -> None:
    if not isinstance(name, str) or name not in places:
        raise ScenarioError(f"topology: the {what} {name!r} is no agent.{suggestion(str(name), places)}")
