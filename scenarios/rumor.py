"""A rumor that spreads by messages on a small-world network."""

from networkx import connected_watts_strogatz_graph

from society import Agent


def citizens(setup):
    """Return one agent for each node of the network."""
    size, known, elsewhere = (setup.parameters[name] for name in ("citizens", "known", "elsewhere"))
    network = connected_watts_strogatz_graph(size, known, elsewhere, seed=setup.rng)
    for node in range(size):
        acquainted = [f"citizen-{other}" for other in sorted(network[node])]
        yield Agent(
            f"citizen-{node}",
            citizen,
            state={"acquainted": acquainted, "knows": False, "told": False},
            group="citizen",
            index=node,
        )


def citizen(tick):
    if tick.inbox:
        tick.state["knows"] = True
    if tick.state["knows"] and not tick.state["told"]:
        tick.state["told"] = True
        informants = {message.sender for message in tick.inbox}
        for name in tick.state["acquainted"]:
            if name not in informants:
                tick.send(name, "rumor")


def knowing(view):
    return sum(agent.state["knows"] for agent in view.agents)
