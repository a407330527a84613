"""People who meet in pairs, and tell a rumor until they find that it is known."""


def person(tick):
    me = tick.agent
    known = tick.shared["people"]
    mine = known.get(me)
    if tick.parameters["seeks"] and mine != "spreads":
        return
    number = tick.rng.randrange(tick.parameters["people"] - 1)
    other = f"person-{number + (number >= tick.index)}"
    theirs = known.get(other)
    if "spreads" not in (mine, theirs):
        return
    if mine is None or theirs is None:
        tick.share("people", {(me if mine is None else other): "spreads"})
        tick.share("spreading", 1)
        return
    tired = [name for name, does in ((me, mine), (other, theirs)) if does == "spreads"]
    tick.share("people", dict.fromkeys(tired, "tired"))
    tick.share("spreading", -len(tired))


def learns(people, change):
    return {**people, **change}


def unaware(view):
    """The share of those who have not heard."""
    return 1 - len(view.shared["people"]) / view.parameters["people"]
