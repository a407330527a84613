"""Fishers at one lake."""

CAPACITY = 100


def fisher(tick):
    there = fish(tick.shared["lake"], tick.round)
    if there:
        tick.share("lake", {"month": tick.round, "fish": min(tick.parameters["each"], there)})


def fish(lake, month):
    """Return how many fish there are in a month: what was left doubles with each month that has begun since."""
    return min(CAPACITY, lake["left"] * 2 ** (month - lake["month"]))


def fished(lake, catch):
    """Return the lake after a catch, which is never more than there is."""
    there = fish(lake, catch["month"])
    taken = min(catch["fish"], there)
    return {"month": catch["month"], "left": there - taken, "caught": lake["caught"] + taken}


def left(view):
    return view.shared["lake"]["left"]


def caught(view):
    return view.shared["lake"]["caught"]
