"""One agent asks, another one answers."""


def asks(tick):
    if "asked_in" not in tick.state:
        tick.send("B", "question", text=tick.parameters["question"])
        tick.state["asked_in"] = tick.round
    for message in tick.inbox:
        tick.note(f"asked in round {tick.state['asked_in']}, answered in round {tick.round}")
        tick.share("answer", message.body["text"])


def answers(tick):
    for message in tick.inbox:
        tick.send(message.sender, "answer", text=tick.parameters["answer"])
