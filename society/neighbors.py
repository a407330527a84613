"""Neighbors: who is next to whom, as names, and what a tick sees of those next to its agent.

Knows: names, and public state as a snapshot shows it.
Does not know: where a graph comes from; a scenario file's is made in topology.py, a board in lattice.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from society.errors import BehaviorError, ScenarioError, suggestion
from society.lattice import Lattice
from society.values import EMPTY, FrozenDict

if TYPE_CHECKING:
    from society.state import State
    from society.tick import Tick


class Topology(Mapping[str, tuple[str, ...]]):
    """By an agent's name, the names of its neighbors, in the order in which `tick.neighbors` gives them."""

    # On a board everyone looks at everyone around. A list of public states by place, made once for a round in which
    # somebody looks, is read by place many times faster than a map is by name, however large the board.

    def __init__(self, neighbors: Mapping[str, tuple[str, ...]], places: Mapping[str, int]) -> None:
        self._neighbors = neighbors
        self._picks = {name: _pick([places[other] for other in others]) for name, others in neighbors.items()}
        self._state: State | None = None
        self._publics: list[FrozenDict] = []

    def publics(self, name: str, state: State) -> tuple[FrozenDict, ...]:
        """Return the public states of an agent's neighbors."""
        if self._state is not state:
            self._state, self._publics = state, list(map(state.publics.get, state.names, repeat(EMPTY)))
        return self._picks[name](self._publics)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self._neighbors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._neighbors)

    def __len__(self) -> int:
        return len(self._neighbors)


def _pick(places: list[int]) -> Callable[[list[FrozenDict]], tuple[FrozenDict, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda publics: tuple([publics[place] for place in places])


class Neighbors(Mapping[str, FrozenDict]):
    """By name, the public state of an agent's neighbors as the snapshot shows it. Read where it lies, nothing is copied.

    `values()` and `items()` are tuples: the quick way to look at all of them. Who has left is a neighbor no more. It dies
    with its tick.
    """

    __slots__ = ("_names", "_tick", "_whole")

    def __init__(self, tick: Tick) -> None:
        snapshot = tick._snapshot
        name = tick._member.agent.name
        topology: Topology | None = snapshot.neighbors
        if topology is None:
            raise NoTopology(f"{name} looks at its neighbors, and this society has no topology; declare one.")
        names = topology._neighbors.get(name, ())
        self._whole = topology if names else None
        if gone := snapshot.before.retired:
            self._whole = None
            names = tuple([other for other in names if other not in gone])
        self._tick = tick
        self._names = names

    def values(self) -> tuple[FrozenDict, ...]:  # type: ignore[override]
        going = self._tick._alive()._snapshot.going
        before, now = going.before, going.publics
        if self._whole is not None:
            found = self._whole.publics(self._tick._member.agent.name, before)
        else:
            found = tuple(map(before.publics.get, self._names, repeat(EMPTY)))
        if now:  # in turn, what earlier ticks of the round left counts already (Q2)
            return tuple(map(now.get, self._names, found))
        return found

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
    places = {name: place for place, name in enumerate(names)}
    if isinstance(topology, Lattice):
        return Topology(topology.named(names), places)
    is_graph = hasattr(topology, "adj")
    adjacent = topology.adj if is_graph else topology
    if not isinstance(adjacent, Mapping):
        kind = type(topology).__name__
        raise ScenarioError(f"topology: a mapping of names, a graph of networkx or grid(…), not of type {kind}.")
    found: dict[str, tuple[str, ...]] = {}
    for name, others in adjacent.items():
        _check_agent(name, places, "node" if is_graph else "key")
        found[name] = _listed(name, others, places, is_graph)
    return Topology(found, places)


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
