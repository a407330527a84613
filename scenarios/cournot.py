"""Firms that each make what would pay best against what the others make."""


def firm(tick):
    others = sum(public["output"] for public in tick.neighbors.values())
    best = best_reply(others, tick.parameters)
    if abs(best - tick.public["output"]) > tick.parameters["near"]:
        tick.public["output"] = best


def best_reply(others, parameters):
    return max(0.0, (parameters["price"] - parameters["cost"] - others) / 2)


def equilibrium(view):
    whole, near = total(view), view.parameters["near"]
    outputs = [agent.public["output"] for agent in view.agents]
    return all(abs(best_reply(whole - output, view.parameters) - output) <= near for output in outputs)


def total(view):
    return sum(agent.public["output"] for agent in view.agents)
