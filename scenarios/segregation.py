"""Households of two kinds that move when too few around them are of their kind. Even numbers are of one kind, odd of the other.

Places are claimed on a board in SHARED: of two that claim one place in the same round the first in order has it, and the
other stays where it was.
"""

from functools import cache

from society import Agent, grid


def households(setup):
    """Return the households with the places that they start from."""
    size = setup.parameters["size"]
    places = list(range(size * size))
    setup.rng.shuffle(places)
    places = places[: round(len(places) * setup.parameters["full"])]
    board = [-1] * (size * size)
    for number, place in enumerate(places):
        board[place] = number
    for number, place in enumerate(places):
        state = {"place": place, "claimed": None} | ({"board": board} if number == 0 else {})
        yield Agent(f"household-{number}", household, state=state, group="household", index=number)


def household(tick):
    board = tick.shared["board"]
    if not board:
        if tick.index == 0:  # it knows where everybody starts, and tells once
            tick.share("board", {"all": tick.state["board"]})
        return
    claimed = tick.state["claimed"]
    if claimed is not None:
        if board[claimed] == tick.index:
            tick.state["place"] = claimed
        tick.state["claimed"] = None
    place = tick.state["place"]
    if alike(board, place, tick.index) < tick.parameters["wanted"]:
        free = [at for at, who in enumerate(board) if who < 0]
        to = free[tick.rng.randrange(len(free))]
        tick.share("board", {"who": tick.index, "from": place, "to": to})
        tick.state["claimed"] = to


def moves(board, move):
    """Return the board after a move, or as it was where somebody was faster."""
    if "all" in move:
        return move["all"]
    if board[move["to"]] >= 0:
        return board
    board = list(board)
    board[move["to"]], board[move["from"]] = move["who"], -1
    return board


def alike(board, place, who):
    """Return the share of the households around a place that are of the kind of `who`; 1 where nobody lives."""
    around = [board[other] for other in beside(len(board))[place]]
    neighbors = [other for other in around if other >= 0]
    return sum((other - who) % 2 == 0 for other in neighbors) / len(neighbors) if neighbors else 1.0


@cache
def beside(places):
    size = round(places**0.5)
    return list(grid(size, size, torus=True).values())


def content(view):
    """Tell whether nobody wants to move."""
    board, wanted = view.shared["board"], view.parameters["wanted"]
    return bool(board) and all(alike(board, place, who) >= wanted for place, who in enumerate(board) if who >= 0)


def similar(view):
    """The mean share of neighbors of one's own kind."""
    board = view.shared["board"]
    shares = [alike(board, place, who) for place, who in enumerate(board) if who >= 0]
    return sum(shares) / len(shares) if shares else 0.0
