"""Two who go towards each other's opinion."""

from society import Agent


def pair(setup):
    """Return both, in the order that was asked for."""
    both = [Agent("A", believes, public={"opinion": 0.0}), Agent("B", believes, public={"opinion": 1.0})]
    return both if setup.parameters["first"] == "A" else both[::-1]


def believes(tick):
    own = tick.public["opinion"]
    other = tick.peer("B" if tick.agent == "A" else "A")["opinion"]
    if own != other:
        tick.public["opinion"] = own + tick.parameters["trust"] * (other - own)


def opinion(agent):
    return agent.public["opinion"]
