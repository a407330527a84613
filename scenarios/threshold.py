"""People who join a crowd once it is large enough for them."""

from society import Agent


def people(setup):
    """Return them by ascending threshold."""
    for number in range(setup.parameters["people"]):
        threshold = setup.parameters["second"] if number == 1 else number
        yield Agent(
            f"person-{number}", person, state={"threshold": threshold, "joined": False}, group="person", index=number
        )


def person(tick):
    if not tick.state["joined"] and tick.shared["joined"] >= tick.state["threshold"]:
        tick.state["joined"] = True
        tick.share("joined", 1)
