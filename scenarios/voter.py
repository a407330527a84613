"""Voters who take over somebody else's opinion."""

from society import Agent


def voters(setup):
    """Return the voters; the first half of them says aye."""
    size = setup.parameters["voters"]
    for number in range(size):
        yield Agent(f"voter-{number}", voter, public={"aye": int(2 * number < size)}, group="voter", index=number)


def voter(tick):
    other = tick.rng.randrange(tick.parameters["voters"] - 1)
    heard = tick.peer(f"voter-{other + (other >= tick.index)}")["aye"]
    own = tick.public["aye"]
    if heard != own:
        tick.public["aye"] = heard
        tick.share("ayes", heard - own)
