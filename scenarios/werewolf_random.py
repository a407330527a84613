"""Werewolf without a thought: the first player is the wolf, and all votes are drawn."""

from collections import Counter

WOLF = "player-0"


def narrator(tick):
    if "alive" not in tick.state:
        tick.state["alive"] = [f"player-{number}" for number in range(tick.parameters["players"])]
        ask(tick, "vote", tick.state["alive"])
        return
    tick.state["named"] = [*tick.state["named"], *(letter.body["name"] for letter in tick.inbox)]
    if tick.shared["winner"] or len(tick.state["named"]) < tick.state["asked"]:
        return
    leaves(tick, drawn(tick, tick.state["named"]))


def ask(tick, step, players):
    tick.state["step"], tick.state["asked"], tick.state["named"] = step, len(players), []
    for player in players:
        tick.send(player, step, alive=tick.state["alive"])


def drawn(tick, named):
    """Return who was named most often; of several, one by lot."""
    votes = Counter(named)
    most = max(votes.values())
    return tick.rng.choice(sorted(name for name in votes if votes[name] == most))


def leaves(tick, player):
    tick.share("out", player)
    alive = tick.state["alive"] = [name for name in tick.state["alive"] if name != player]
    if player == WOLF:
        tick.share("winner", "village")
    elif len(alive) <= 2:
        tick.share("winner", "wolves")
    elif tick.state["step"] == "vote":
        ask(tick, "choose", [WOLF])
    else:
        ask(tick, "vote", alive)


def player(tick):
    for letter in tick.inbox:
        others = [name for name in letter.body["alive"] if name != tick.agent]
        tick.send("narrator", "named", name=tick.rng.choice(others))


def wolves(view):
    """1 where the wolf has won."""
    return int(view.shared["winner"] == "wolves")
