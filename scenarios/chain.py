"""A chain of agents: each bears the next one, hands it the baton, and leaves."""

from society import Agent


def link(tick):
    for receipt in tick.receipts:
        tick.note(f"{receipt.recipient} did not get {receipt.message.kind!r}: {receipt.reason}")
    for message in tick.inbox:
        tick.state["holds"] = True
        tick.send(message.sender, "thanks")
    if not tick.state["holds"]:
        return
    if "child" in tick.state:
        if tick.round > tick.state["bore_in"]:  # nobody can write to it before
            tick.send(tick.state["child"], "baton")
            tick.state["holds"] = False
            tick.retire()
        return
    tick.share("held", tick.agent)
    following = tick.state["number"] + 1
    if following > tick.parameters["length"]:
        tick.state["holds"] = False
        tick.retire()
    else:
        child = Agent(f"link-{following}", link, state={"number": following, "holds": False})
        tick.state["child"], tick.state["bore_in"] = child.name, tick.round
        tick.spawn(child)


def alive(view):
    return sum(not agent.retired for agent in view.agents)
