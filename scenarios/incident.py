"""Three agents contain a failing service, through tools that are slow and not always there."""

import trio

from society import UNKNOWN, ActionInDoubt, AsyncHost

host = AsyncHost()

ERRORS = {"web-1": 212, "web-2": 187, "web-3": 240, "db-1": 0}
"""Lines of each server's log that tell of errors. The world answers by what it is asked alone, so a resumed run gets
the same answers."""


@host.sensor("service.status")
async def status():
    return {"down": [server for server, errors in ERRORS.items() if errors]}


@host.sensor("service.latency")
async def latency():
    await trio.sleep_forever()  # the probe hangs with the service


@host.tool("read_log", reads_only=True)
async def read_log(server):
    await trio.sleep(0.02)
    return {"errors": ERRORS[server]}


@host.tool("restart", idempotent=True)
async def restart(server):
    await trio.sleep(0.03)
    return {"server": server, "up": True}


@host.tool("page", timeout=0.1)
async def page(who, text):
    await trio.sleep_forever()  # the gateway took it, or did not, and never says


async def monitor(tick):
    if not tick.state.get("alerted"):
        tick.state["alerted"] = True
        tick.share("severity", "minor" if tick.observed["service.latency"] is UNKNOWN else "none")
        for server in tick.observed["service.status"]["down"]:
            tick.send("responder", "alert", server=server)
    for receipt in tick.receipts:
        tick.note(f"again, since {receipt.recipient} did not get it: {receipt.reason}")
        tick.send(receipt.recipient, receipt.message.kind, **receipt.message.body)


async def analyst(tick):
    if "failing" not in tick.state:
        servers = tick.parameters["servers"]
        logs = await tick.gather(*(tick.call("read_log", server=server) for server in servers))
        failing = [server for server, log in zip(servers, logs, strict=True) if log["errors"]]
        tick.state["failing"] = failing
        tick.share("severity", "major" if len(failing) > 1 else "minor")
    elif set(tick.state["failing"]) <= set(tick.shared["restarted"]):
        tick.share("status", "closed")


async def responder(tick):
    for message in tick.inbox:
        outcome = await tick.call("restart", server=message.body["server"])
        if outcome["up"]:
            tick.share("restarted", outcome["server"])
    if tick.inbox and not tick.state.get("paged"):
        tick.state["paged"] = True
        try:
            await tick.call("page", who="on call", text=f"the shop: severity {tick.shared['severity']}")
        except ActionInDoubt:
            tick.note("whether anybody was paged is not known; it is not done again, and not called done")
