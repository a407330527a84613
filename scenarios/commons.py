"""Fishers at one lake, with a rule each, or with a model."""

import attrs

import society

CAPACITY = 100
ASKED = """You are one of five fishers at a lake. At the end of each month the fish that are left double, up to 100.
All five fish in the same month. How many fish do you take this month?"""


@attrs.frozen
class Catch:
    """What a fisher takes in a month."""

    fish: int = society.field(0, ge=0, le=CAPACITY, about="fish that you take out of the lake this month")


async def fisher(tick):
    there = fish(tick.shared["lake"], tick.round)
    if not there:
        return
    taken = tick.parameters["each"]
    if tick.asks_model:
        facts = {"month": tick.round, "fish in the lake": there, "caught by all so far": tick.shared["lake"]["caught"]}
        taken = (await tick.reason(Catch, ASKED, using=facts)).fish
    if taken:
        tick.share("lake", {"month": tick.round, "fish": min(taken, there)})


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
