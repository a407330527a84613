"""A market of pairs: a buyer bids, and offers go back and forth until one accepts or leaves."""

from typing import Literal

import attrs

import society


@attrs.frozen
class Move:
    """A trader's answer to a price."""

    move: Literal["accept", "counter", "leave"] = "leave"
    price: int = society.field(0, ge=0, le=100, about="of a counter-offer, in coins")


async def buyer(tick):
    if "offers" not in tick.state:
        tick.state["offers"] = 0
        tick.send(tick.state["partner"], "offer", price=tick.state["worth"] // 2)
    await answer(tick, limit=tick.state["worth"], better=lambda mine, price: price <= mine)


async def seller(tick):
    await answer(tick, limit=tick.state["cost"], better=lambda mine, price: price >= mine)


async def answer(tick, limit, better):
    for message in tick.inbox:
        if message.kind != "offer":
            continue
        price, offers = message.body["price"], tick.state.get("offers", 0) + 1
        tick.state["offers"] = offers
        move = await MINDS[tick.parameters["mind"]](tick, limit, price, better)
        # What a mind may decide is decided here: no deal at a loss, no haggling for ever.
        if move.move == "accept" and better(limit, price):
            tick.share("deals", {"seller": pair(tick, message)[0], "buyer": pair(tick, message)[1], "price": price})
            tick.share("closed", 1)
            tick.send(message.sender, "deal", price=price)
        elif (
            move.move == "counter" and move.price and better(limit, move.price) and offers < tick.parameters["patience"]
        ):
            tick.send(message.sender, "offer", price=move.price)
        else:
            tick.share("closed", 1)
            tick.send(message.sender, "left")


def pair(tick, message):
    return (tick.agent, message.sender) if tick.group == "seller" else (message.sender, tick.agent)


async def by_rules(tick, limit, price, better):
    """Accept what is halfway or better, else meet in the middle."""
    fair = (limit + 10) if tick.group == "seller" else (limit - 10)
    return Move("accept") if better(fair, price) else Move("counter", (limit + price + fair) // 3)


async def by_model(tick, limit, price, better):
    side = "sell a lamp that cost you" if tick.group == "seller" else "buy a lamp that is worth"
    question = f"You are {tick.agent} and {side} {limit} coins. {tick.state['partner']} offers {price}. What do you do?"
    return await tick.reason(Move, question, using={"offers so far": tick.state["offers"]}, max_tokens=200)


MINDS = {"rules": by_rules, "model": by_model}


def surplus(view):
    """What all deals were worth to buyers above what they cost sellers."""
    worth = {agent.name: agent.state["worth"] for agent in view.agents if agent.group == "buyer"}
    cost = {agent.name: agent.state["cost"] for agent in view.agents if agent.group == "seller"}
    return sum(worth[deal["buyer"]] - cost[deal["seller"]] for deal in view.shared["deals"])
