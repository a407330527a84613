"""Who is whose neighbor: a graph that a scenario file names, over the agents of one group.

Knows: networkx, the only module that does.
Does not know: what agents do with their neighbors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from society.agent import Agent
from society.codefile import CodeFile, fault_of, unread
from society.draw import stream
from society.errors import RAISED, nearest
from society.lattice import grid
from society.populate import Ground, Setup
from society.tables import TopologyTable

Topology = dict[str, tuple[str, ...]]
"""By an agent's name, the names of its neighbors in declared order."""


def topology_of(table: TopologyTable | None, agents: Iterable[Agent], ground: Ground) -> Topology | None:
    """Return the neighbors of each agent of the table's group, or of the agents that are its nodes by name.

    A graph with an agent's name among its nodes goes by name, and may leave agents out. Else there are as many nodes as
    agents: node `i` is the agent `GROUP-i`, where the nodes are the numbers from 0 on; or they are taken in the graph's order.
    In a directed graph a neighbor is one that an edge leads to. The neighbors on a `grid`, and those that a function gives
    as lists, stay in their order; those of a graph come in the order in which the agents are declared.
    """
    if table is None:
        return None
    known = [agent for agent in agents if table.group is None or table.group in (agent.group, agent.name)]
    if not known:
        names = [agent.group or agent.name for agent in agents]
        ground.report.unknown(("topology", "group"), "no agents of the group", table.group or "", names)
        return None
    graph = _graph(table, ground)
    if graph is None:
        return None
    adjacent = _adjacent(graph)
    if adjacent is None:
        kind = type(graph).__name__
        ground.report.add(("topology", "graph"), f"{table.graph} gives no graph of networkx, but one of type {kind}")
        return None
    names = [agent.name for agent in known]
    order = {name: place for place, name in enumerate(names)}
    if any(node in order for node in adjacent if isinstance(node, str)):
        strange = [node for node in _all_nodes(adjacent) if node not in order]
        for node in strange:
            what = f"{table.graph} goes by the names of agents, and gives a node that is none:"
            ground.report.unknown(("topology", "graph"), what, str(node), names)
        if strange:
            return None
        nodes: dict[Any, str] | None = {name: name for name in names}
    else:
        nodes = _named(list(adjacent), names)
    if nodes is None:
        few = f"the graph has {len(adjacent):,} nodes and the group {len(names):,} agents"
        ground.report.add(("topology",), f"{few}; node i is the agent {table.group or 'GROUP'}-i")
        return None
    for node, others in adjacent.items():
        for other in others:
            if other not in nodes:
                near = nearest(str(other), list(map(str, nodes)))
                why = f"{table.graph} gives {node!r} the neighbor {other!r}, which is no node"
                ground.report.add(("topology", "graph"), why, near=near[0] if near else None)
                return None
    is_ordered = not hasattr(graph, "adj")
    found: Topology = {}
    for node, others in adjacent.items():
        listed = [nodes[other] for other in dict.fromkeys(others)]
        found[nodes[node]] = tuple(listed if is_ordered else sorted(listed, key=order.__getitem__))
    return found


def _graph(table: TopologyTable, ground: Ground) -> Any:
    options = {key: _option(value, key, ground) for key, value in table.options.items()}
    written = ground.code.function(table.graph) if ground.code else None
    if written is unread:
        return None
    rng = stream(ground.seed, "topology", table.graph)
    if written is not None:
        setup = Setup(parameters=ground.parameters, rng=rng, folder=ground.files.folder)
        return _called(written, (setup,), options, ground, ground.code)
    generator = grid if table.graph == "grid" else _generator(table.graph, ground)
    if generator is None:
        return None
    if "seed" in inspect.signature(generator).parameters:
        options.setdefault("seed", rng)
    return _called(generator, (), options, ground, None)


def _generator(name: str, ground: Ground) -> Callable[..., Any] | None:
    import networkx

    found = getattr(networkx, name, None)
    if callable(found) and not name.startswith("_"):
        return found  # type: ignore[no-any-return]
    graphs = [known for known in dir(networkx) if known.endswith("_graph")]
    functions = ground.code.functions() if ground.code else []
    near = nearest(name, [*functions, "grid", *graphs])
    why = f"neither `grid`, nor a generator of networkx, nor a function of the code file: {name!r}"
    ground.report.add(("topology", "graph"), why, near=near[0] if near else None)
    return None


def _called(
    function: Callable[..., Any],
    given: tuple[Any, ...],
    options: Mapping[str, Any],
    ground: Ground,
    code: CodeFile | None,
) -> Any:
    try:
        return function(*given, **options)
    except RAISED as error:  # the author's function, or a generator given numbers that it cannot use
        if code is None:
            ground.report.add(("topology",), f"{type(error).__name__}: {error}")
        else:
            fault = fault_of(error, code, ground.files)
            ground.report.faults.append(attrs.evolve(fault, path="topology"))
        return None


def _option(value: Any, key: str, ground: Ground) -> Any:
    if not (isinstance(value, str) and value.startswith("parameters.")):
        return value
    name = value.removeprefix("parameters.")
    if name not in ground.parameters:
        ground.report.unknown(("topology", key), "unknown parameter", name, ground.parameters)
    return ground.parameters.get(name)


def _adjacent(graph: Any) -> dict[Any, list[Any]] | None:
    """Return each node's neighbors; of a graph of networkx, a grid, or a dict of lists."""
    found = getattr(graph, "adj", graph)
    if not isinstance(found, Mapping):
        return None
    # A set has no order that would be the same in every process.
    return {
        node: sorted(others, key=str) if isinstance(others, (set, frozenset)) else list(others)
        for node, others in found.items()
    }


def _all_nodes(adjacent: Mapping[Any, Iterable[Any]]) -> list[Any]:
    """Return all nodes, once, those that are neighbors only too."""
    return list(dict.fromkeys([*adjacent, *(other for others in adjacent.values() for other in others)]))


def _named(nodes: list[Any], names: list[str]) -> dict[Any, str] | None:
    """Return the name of the agent that each node is; `None` where they do not fit."""
    if len(nodes) != len(names):
        return None
    if set(nodes) == set(range(len(nodes))):
        return {node: names[node] for node in nodes}
    return dict(zip(nodes, names, strict=True))
