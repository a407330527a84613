"""Firms that each make what would pay best against what the others make."""


def firm(tick):
    others = sum(public["output"] for public in tick.neighbors.values())
    best = max(0.0, (tick.parameters["price"] - tick.parameters["cost"] - others) / 2)
    if abs(best - tick.public["output"]) > tick.parameters["near"]:
        tick.public["output"] = best


def total(view):
    return sum(agent.public["output"] for agent in view.agents)
