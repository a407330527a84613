"""Werewolf: nights and days, each step begun once everybody who was asked has answered.

The narrator writes to a player one letter a step, so that what a model is asked does not depend on who ticks when.
"""

from collections import Counter

ROLES = {"anna": "villager", "bela": "wolf", "carl": "villager", "dora": "seer", "egon": "villager", "fay": "wolf"}
ANSWERS = {"whisper": "whisper", "choose": "kill", "look": "look", "vote": "vote"}


def narrator(tick):
    if "step" not in tick.state:
        tick.state["alive"] = list(ROLES)
        night(tick)
        return
    if tick.shared["winner"]:
        return  # decided in this round already
    answers = {**tick.state["answers"]}
    for message in tick.inbox:
        if message.sender in tick.state["asked"]:
            answers[message.sender] = message.body.get("name")
    tick.state["answers"] = answers
    if len(answers) == len(tick.state["asked"]):
        NEXT[tick.state["step"]](tick, answers)


def ask(tick, step, players, **letter):
    tick.state["step"], tick.state["asked"], tick.state["answers"] = step, list(players), {}
    alive = list(tick.state["alive"])
    for player in players:
        tick.send(player, step, alive=alive, answer=f'to narrator, kind {ANSWERS[step]}, body {{"name": …}}', **letter)


def wolves(tick):
    return [player for player in tick.state["alive"] if ROLES[player] == "wolf"]


def night(tick):
    """The first wolf whispers to the second, who chooses; one wolf alone chooses at once."""
    pack = wolves(tick)
    if len(pack) == 2:
        tick.send(pack[0], "whisper", to=pack[1], answer='kind whisper, body {"name": whom you would take}')
        tick.state["step"], tick.state["asked"], tick.state["answers"] = "choose", [pack[1]], {}
    else:
        ask(tick, "choose", pack)


def chosen(tick, answers):
    tick.state["victim"] = next(iter(answers.values()))
    seers = [player for player in tick.state["alive"] if ROLES[player] == "seer"]
    if seers:
        ask(tick, "look", seers)
    else:
        day(tick, {})


def day(tick, answers):
    """The victim is gone, the seer knows a little more, and all vote."""
    tick.state["seen"] = {seer: {"name": name, "role": ROLES.get(name)} for seer, name in answers.items()}
    if leaves(tick, tick.state["victim"], "night") or over(tick):
        return
    vote(tick)


def vote(tick):
    players = list(tick.state["alive"])
    tick.state["step"], tick.state["asked"], tick.state["answers"] = "vote", players, {}
    for player in players:
        seen = tick.state["seen"].get(player)
        letter = {"alive": players, "gone": tick.state["victim"], "answer": 'to narrator, kind vote, body {"name": …}'}
        tick.send(player, "vote", **(letter if seen is None else letter | {"you_saw": seen}))


def counted(tick, answers):
    votes = Counter(name for name in answers.values() if name in tick.state["alive"])
    if votes:
        # Of several with the most votes the first by name: an even vote is no coin.
        most = max(votes.values())
        if leaves(tick, min(name for name in votes if votes[name] == most), "vote"):
            return
    if not over(tick):
        night(tick)


def leaves(tick, player, by):
    """Let a player leave; return whether the game is over."""
    if player in tick.state["alive"]:
        tick.state["alive"] = [other for other in tick.state["alive"] if other != player]
        tick.share("out", {"name": player, "role": ROLES[player], "by": by})
    return over(tick)


def over(tick):
    wolfish = len(wolves(tick))
    if wolfish and wolfish * 2 < len(tick.state["alive"]):
        return False
    if tick.shared["winner"] == "":
        tick.share("winner", "wolves" if wolfish else "village")
    return True


NEXT = {"choose": chosen, "look": day, "vote": counted}


def abstain(tick):
    """In place of a model that says nothing: answer what was asked with nobody."""
    for message in tick.inbox:
        if message.kind == "whisper" and message.sender == "narrator":
            tick.send(message.body["to"], "whisper", name=None)
        else:
            kind = ANSWERS.get(message.kind if message.sender == "narrator" else "choose", "vote")
            tick.send("narrator", kind, name=None)
