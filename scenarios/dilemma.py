"""A board of players who cooperate or defect, and copy the best scorer next to them."""

from functools import cache

from society import Agent

INNER = (6, 7, 8, 11, 12, 13, 16, 17, 18)
"""Of the 25 places of a block of 5 × 5 in reading order, those next to the middle, and the middle."""


def cells(setup):
    """Return one player for each place, in reading order."""
    width, height, share = (setup.parameters[name] for name in ("width", "height", "defectors"))
    middle = height // 2 * width + width // 2
    for place in range(width * height):
        defects = setup.rng.random() < share if share else place == middle
        yield Agent(f"cell-{place}", cell, public={"cooperates": int(not defects)}, group="cell", index=place)


def cell(tick):
    own = tick.public["cooperates"]
    seen = [public["cooperates"] for public in tick.neighbors.values()]
    if len(seen) == 24:
        if sum(seen) == 24 * own:
            return  # everybody in sight does the same
        block = [*seen[:12], own, *seen[12:]]
        cooperators, defectors = best(block, block)
    else:
        width, height = tick.parameters["width"], tick.parameters["height"]
        block = [None] * 25
        for place, cooperates in zip(places(tick.index, width, height), seen, strict=True):
            block[place] = cooperates
        block[12] = own
        cooperators, defectors = best(block, [cooperates or 0 for cooperates in block])
    defectors *= tick.parameters["b"]
    if cooperators != defectors and (cooperators > defectors) != own:
        tick.public["cooperates"] = 1 - own


def best(block, counted):
    """Return the most cooperators that a cooperator, and a defector, among the nine in the middle plays with.

    `block` has None where the board ends, `counted` a 0.
    """
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y = counted  # noqa: E741
    # Three places above one another are summed up once for the three blocks that they are part of.
    above = a + f + k, b + g + l, c + h + m, d + i + n, e + j + o
    beside = f + k + p, g + l + q, h + m + r, i + n + s, j + o + t
    below = k + p + u, l + q + v, m + r + w, n + s + x, o + t + y
    scores = [sums[at] + sums[at + 1] + sums[at + 2] for sums in (above, beside, below) for at in (0, 1, 2)]
    cooperators = defectors = 0
    for place, score in zip(INNER, scores, strict=True):
        if block[place]:
            if score > cooperators:
                cooperators = score
        elif score > defectors and block[place] is not None:
            defectors = score
    return cooperators, defectors


@cache
def places(index, width, height):
    """Return where in its block of 5 × 5 each neighbor of a place near the edge lies."""
    row, column = divmod(index, width)
    return [
        (down + 2) * 5 + right + 2
        for down in range(-2, 3)
        for right in range(-2, 3)
        if (down or right) and 0 <= row + down < height and 0 <= column + right < width
    ]


def defectors(view):
    return sum(not agent.public["cooperates"] for agent in view.agents)


def alike(view):
    return defectors(view) in (0, len(view.agents))


def cooperation(view):
    return 1 - defectors(view) / len(view.agents)
