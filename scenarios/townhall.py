"""A town hall: two rounds of speeches and a vote, each stage begun once everybody has been heard."""

from typing import Literal

import attrs

import society

STAGES = ("floor", "reply", "vote")


@attrs.frozen
class Ballot:
    """A citizen's vote on the motion."""

    choice: Literal["yes", "no", "abstain"] = "abstain"
    because: str = society.field("", about="one short sentence")


def moderator(tick):
    """Open each stage with one message to everybody, and close it when all have answered."""
    if "stage" not in tick.state:
        begin(tick, 0)
        return
    heard = {**tick.state["heard"], **{message.sender: message.body for message in tick.inbox}}
    tick.state["heard"] = heard
    citizens = tick.state["citizens"]
    if len(heard) < len(citizens):
        return
    # By name, not by arrival: one after another or all at once, the minutes are the same.
    if tick.state["stage"] == STAGES.index("vote"):
        count(tick, {name: heard[name]["choice"] for name in citizens})
        return
    for name in citizens:
        tick.share("minutes", {"speaker": name, "text": heard[name]["text"]})
    begin(tick, tick.state["stage"] + 1, [(name, heard[name]["text"]) for name in citizens])


def begin(tick, stage, heard=()):
    tick.state["stage"], tick.state["heard"] = stage, {}
    tick.state["citizens"] = ["ada", "bruno", "chen", "dara", "emil"]
    tick.broadcast(STAGES[stage], motion=tick.parameters["motion"], heard=[list(speech) for speech in heard])


def count(tick, ballots):
    yes, no = (sum(choice == side for choice in ballots.values()) for side in ("yes", "no"))
    tick.share("ballots", ballots)
    tick.share("decision", "closed to cars" if yes > no else "stays open" if no > yes else "undecided")
    tick.broadcast("thanks")
    tick.retire()


async def citizen(tick):
    for message in tick.inbox:
        if message.kind == "thanks":
            tick.retire()
            return
        motion, heard = message.body["motion"], message.body["heard"]
        about = "\n".join([f"The motion: {motion}", *(f"{name} said: {text}" for name, text in heard)])
        if message.kind == "vote":
            ballot = await tick.reason(Ballot, f"{about}\nHow do you vote?", system=persona(tick))
            tick.send("moderator", "ballot", choice=ballot.choice, because=ballot.because)
        else:
            ask = f"{about}\nSpeak to the town, in at most {tick.parameters['words']} words."
            said = await tick.act(ask, system=persona(tick), max_tokens=2 * tick.parameters["words"])
            tick.send("moderator", "speech", text=said.text.strip() or "(says nothing)")


def persona(tick):
    return f"You are {tick.agent}, {tick.state['persona']}. You speak at a town hall: plainly, and for yourself."
