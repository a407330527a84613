"""Neighbors: topologies, and what a tick sees of those next to its agent (R3, Q2, J7)."""

from __future__ import annotations

from typing import Any

import networkx
import pytest
import trio

from society import Agent, AsyncSociety, MemoryStore, Society, grid
from society.errors import ResumeRefused, ScenarioError
from society.neighbors import topology_by_name

RING = {"a": ["b", "c"], "b": ["c"], "c": ["a"]}


def counting(tick: Any) -> None:
    """Be one more than the largest neighbor."""
    tick.public["n"] = 1 + max([public["n"] for public in tick.neighbors.values()], default=0)


def town(kind: Any = AsyncSociety, behavior: Any = counting, topology: Any = None, **options: Any) -> Any:
    agents = [Agent(name, behavior, public={"n": at}) for at, name in enumerate("abc")]
    return kind(agents, topology=RING if topology is None else topology, **options)


def numbers(society: Any) -> list[Any]:
    return [agent.public["n"] for agent in society.agents]


# What a tick sees.


def test_all_at_once_neighbors_are_those_of_the_snapshot() -> None:
    society = town()
    trio.run(society.run, 1)

    assert numbers(society) == [3, 3, 1]


def test_in_turn_what_a_neighbor_has_just_done_is_seen() -> None:
    society = town(Society)
    trio.run(society.run, 1)

    assert numbers(society) == [3, 3, 4]


@pytest.mark.parametrize("kind", [AsyncSociety, Society])
def test_neighbors_are_a_mapping_in_the_order_of_the_topology_read_where_it_lies(kind: Any) -> None:
    seen: list[Any] = []

    def looking(tick: Any) -> None:
        near = tick.neighbors
        if tick.agent == "a":
            seen.append((list(near), len(near), "b" in near, "a" in near, dict(near.items())))
            seen.append([one is near[name] is tick.peer(name) for name, one in zip(near, near.values(), strict=True)])
            tick.public["n"] = 7

    trio.run(town(kind, looking, {"a": ["c", "b"]}).run, 1)

    assert seen == [(["c", "b"], 2, True, False, {"c": {"n": 2}, "b": {"n": 1}}), [True, True]]


def test_who_is_no_neighbor_is_refused_with_the_nearest_name() -> None:
    def looking(tick: Any) -> None:
        tick.neighbors["bb"]

    society = town(behavior=looking, on_error="continue")
    trio.run(society.run, 1)
    said = [event.error for event in society.trace.where(kind="failed")]

    assert "'bb' is no neighbor of a. Did you mean 'b'?" in said[0]


def test_without_a_topology_looking_at_neighbors_fails_the_tick_and_says_why() -> None:
    agents = [Agent("a", counting)]
    result = trio.run(AsyncSociety(agents).run, 1)

    assert result.outcome == "failed"
    assert "this society has no topology" in result.reason


def test_neighbors_die_with_their_tick() -> None:
    kept: list[Any] = []

    def keeping(tick: Any) -> None:
        kept.append(tick.neighbors)

    trio.run(town(behavior=keeping).run, 1)

    with pytest.raises(Exception, match="has ended"):
        kept[0].values()


def test_who_has_left_is_a_neighbor_no_more_and_who_is_born_has_none() -> None:
    seen: dict[str, list[str]] = {}

    def changing(tick: Any) -> None:
        seen[f"{tick.agent}{tick.round}"] = list(tick.neighbors)
        if tick.agent == "b":
            tick.spawn(Agent("d", changing))
            tick.retire()

    trio.run(town(behavior=changing).run, 2)

    assert (seen["a1"], seen["a2"], seen["d2"]) == (["b", "c"], ["c"], [])


# Topologies.


def test_a_graph_of_networkx_has_its_neighbors_in_declared_order_and_a_directed_one_those_that_edges_lead_to() -> None:
    path = networkx.Graph([("c", "b"), ("b", "a")])
    led = networkx.DiGraph([("a", "c"), ("a", "b")])

    assert topology_by_name(path, "abc") == {"c": ("b",), "b": ("a", "c"), "a": ("b",)}
    assert topology_by_name(led, "abc")["a"] == ("b", "c")


def test_sets_have_no_order_so_declared_order_it_is_and_lists_keep_theirs() -> None:
    assert topology_by_name({"a": {"c", "b"}}, "abc") == {"a": ("b", "c")}
    assert topology_by_name({"a": ["c", "b", "c"]}, "abc") == {"a": ("c", "b")}


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (networkx.Graph([("bobb", "ada")]), "the node 'bobb' is no agent. Did you mean 'bob'?"),
        (networkx.path_graph(2), "the node 0 is no agent"),
        ({"adda": []}, "the key 'adda' is no agent. Did you mean 'ada'?"),
        ({"ada": ["bobb"]}, "the neighbor of ada 'bobb' is no agent. Did you mean 'bob'?"),
        ({"ada": "bob"}, "topology.ada: the neighbors are a list of names, not 'bob'"),
        (grid(3, 1), "a grid of 3 × 1 has 3 places, and there are 2 agents for them"),
        (7, "not of type int"),
    ],
)
def test_a_topology_that_does_not_fit_the_agents_is_refused(topology: Any, said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        AsyncSociety([Agent("ada", counting), Agent("bob", counting)], topology=topology)
    assert said in str(refused.value)


def test_another_topology_or_rate_is_another_meaning() -> None:
    store = MemoryStore()
    trio.run(town(store=store).run, 1)
    with pytest.raises(ResumeRefused, match="topology"):
        trio.run(town(store=store, topology={**RING, "b": ["a"]}).run, 2)
    trio.run(town(store=store).run, 2)

    joining = MemoryStore()
    trio.run(town(store=joining, activation="partial", rate=0.5).run, 1)
    with pytest.raises(ResumeRefused, match="rate"):
        trio.run(town(store=joining, activation="partial", rate=0.6).run, 2)


# Grids.


def test_neighbors_on_a_grid_come_in_reading_order_also_over_the_edge_of_a_torus() -> None:
    board, torus = grid(4, 3), grid(4, 3, torus=True)

    assert board[5] == (0, 1, 2, 4, 6, 8, 9, 10)
    assert board[0] == (1, 4, 5)
    assert torus[0] == (11, 8, 9, 3, 1, 7, 4, 5)
    assert grid(4, 3, moore=False)[5] == (1, 4, 6, 9)
    assert len(grid(9, 9, radius=2)[40]) == 24
    assert len(grid(9, 9, moore=False, radius=2)[40]) == 12


def test_on_a_small_torus_nobody_is_a_neighbor_twice_or_of_oneself() -> None:
    assert [sorted(near) for near in grid(2, 2, torus=True).values()] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert grid(1, 1, torus=True)[0] == ()


def test_being_neighbors_on_a_grid_is_mutual() -> None:
    for torus in (False, True):
        board = grid(5, 4, torus=torus, radius=2)
        assert all(place in board[other] for place, near in board.items() for other in near)


@pytest.mark.parametrize("sides", [(0, 3), (3, -1), (2.0, 3), (True, 3)])
def test_a_side_is_a_number_from_1_on(sides: Any) -> None:
    with pytest.raises(ScenarioError, match="from 1 on"):
        grid(*sides)


# Partial activation.


def test_with_a_rate_each_agent_joins_on_its_own_and_a_newcomer_moves_nobody() -> None:
    def ticked(names: list[str], rate: float = 0.5) -> dict[str, list[int]]:
        rounds: dict[str, list[int]] = {name: [] for name in names}

        def noting(tick: Any) -> None:
            rounds[tick.agent].append(tick.round)

        agents = [Agent(name, noting) for name in names]
        trio.run(AsyncSociety(agents, activation="partial", rate=rate, seed=3).run, 200)
        return rounds

    few, more = ticked(["a", "b"]), ticked(["a", "z", "b"])

    assert {name: more[name] for name in few} == few
    assert all(70 < len(rounds) < 130 for rounds in more.values())
    assert few["a"] != few["b"]
    assert ticked(["a"], 0.0) == {"a": []}
    assert ticked(["a"], 1.0) == {"a": list(range(1, 201))}


@pytest.mark.parametrize("rate", [-0.1, 1.5, "half", True, None])
def test_a_rate_is_a_probability(rate: Any) -> None:
    with pytest.raises(ScenarioError, match="rate"):
        AsyncSociety([Agent("a", counting)], activation="partial", rate=rate)
