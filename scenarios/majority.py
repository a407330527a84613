"""People who go with the majority of those they know."""

from society import Agent


def people(setup):
    for number in range(setup.parameters["people"]):
        aye = setup.rng.randrange(2)
        yield Agent(f"person-{number}", person, public={"aye": aye}, group="person", index=number)


def person(tick):
    seen = [public["aye"] for public in tick.neighbors.values()]
    twice = 2 * sum(seen)
    if twice != len(seen):
        aye = int(twice > len(seen))
        if aye != tick.public["aye"]:
            tick.public["aye"] = aye


def ayes(view):
    return sum(agent.public["aye"] for agent in view.agents)
