"""Cells that live or do not."""

from society import Agent

STARTS = {"r-pentomino": (" ##", "## ", " # "), "glider": (" # ", "  #", "###")}


def cells(setup):
    """Return one cell for each place, in reading order; a pattern stands in the middle."""
    width, height, density = (setup.parameters[name] for name in ("width", "height", "density"))
    first = (height // 2 - 1) * width + width // 2 - 1
    pattern = STARTS[setup.parameters["start"]]
    living = {first + down * width + right for down in range(3) for right in range(3) if pattern[down][right] == "#"}
    for place in range(width * height):
        lives = setup.rng.random() < density if density else place in living
        yield Agent(f"cell-{place}", cell, public={"alive": int(lives)}, group="cell", index=place)


def cell(tick):
    alive = tick.public["alive"]
    around = sum([public["alive"] for public in tick.neighbors.values()])
    lives = int(around == 3 or (around == 2 and alive == 1))
    if lives != alive:
        tick.public["alive"] = lives


def alive(view):
    return sum(agent.public["alive"] for agent in view.agents)
