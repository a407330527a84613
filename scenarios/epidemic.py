"""Households of three; the first one of each carries a disease."""

from society import Agent

SIZE = 3


def people(setup):
    for number in range(SIZE * setup.parameters["households"]):
        yield Agent(
            f"person-{number}",
            person,
            state={"ill": number % SIZE == 0, "met": False},
            group="person",
            index=number,
        )


def person(tick):
    for _ in tick.inbox:
        if tick.rng.random() >= tick.parameters["escape"]:
            tick.state["ill"] = True
    if tick.state["ill"] and not tick.state["met"]:
        tick.state["met"] = True
        first = tick.index - tick.index % SIZE
        for number in range(first, first + SIZE):
            if number != tick.index:
                tick.send(f"person-{number}", "meets")


def sizes(view):
    """Return how many households have 0, 1, 2 further cases, as shares."""
    ill = [agent.state["ill"] for agent in view.agents]
    further = [sum(ill[first : first + SIZE]) - 1 for first in range(0, len(ill), SIZE)]
    return [further.count(size) / len(further) for size in range(SIZE)]


def none(view):
    return sizes(view)[0]


def one(view):
    return sizes(view)[1]


def both(view):
    return sizes(view)[2]
