"""What the model of an agent may call: tools of the agent's hosts, and the society's own.

A tool of a host goes through the gate like any call of the agent: policy, permit, its turn among the effects. The
society's own carry the prefix `society__`; they leave a contribution or look at the snapshot, and are no crossings.

Knows: how names and schemas are shown to a model, and the answer to a call for which no tool can run.
Does not know: models, turns, or how a call is carried out (`gate.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import attrs

from society.errors import ActionError, BehaviorError, ScenarioError, suggestion
from society.host import Desk
from society.loop import Call
from society.results import CallResult, failed, result_of, result_of_error, unfit, unknown_tool, unreadable
from society.tick import Tick
from society.toolschema import ToolSchema, distinct, schema_of, wire_names
from society.values import FrozenDict, Value

PREFIX: Final = "society__"


def send(tick: Tick, to: str, kind: str, body: dict[str, Any]) -> str:
    """Send a message to one agent. It is read in the agent's next round.

    Args:
        to: The name of the agent, letter by letter.
        kind: One word for what the message is: offer, question, vote.
        body: What it says, by name: {"text": "…"}.
    """
    tick.send(to, kind, **body)
    return "sent"


def broadcast(tick: Tick, kind: str, body: dict[str, Any]) -> str:
    """Send one message to all other agents.

    Args:
        kind: One word for what the message is.
        body: What it says, by name: {"text": "…"}.
    """
    tick.broadcast(kind, **body)
    return "sent to everybody else"


def share(tick: Tick, key: str, value: Any) -> str:
    """Contribute to a value that everybody shares, by the merge rule of its key.

    Args:
        key: One of the keys under Shared.
        value: The new value; for a list that grows, the element; for a sum, the addend.
    """
    tick.share(key, value)
    return "noted; it counts once this tick has ended well"


def read_shared(tick: Tick, key: str) -> Value:
    """Read the whole of a shared value, with your own contributions in it.

    Args:
        key: One of the keys under Shared.
    """
    return tick.shared[key]


def note(tick: Tick, text: str) -> str:
    """Leave a remark in the record of the run. Nobody else in the society reads it.

    Args:
        text: The remark.
    """
    tick.note(text)
    return "noted"


OWN: Final[Mapping[str, Callable[..., Value]]] = {
    f"{PREFIX}{function.__name__}": function for function in (send, broadcast, share, read_shared, note)
}


@attrs.frozen(kw_only=True)
class Offer:
    """One thing that may be called."""

    schema: ToolSchema
    name: str | None = None
    """The tool's name on its host; `None` for the society's own."""
    reads_only: bool = False


@attrs.frozen
class Toolbox:
    """All that one model may call, by the names it sees."""

    offers: Mapping[str, Offer]
    wire: tuple[FrozenDict, ...]

    def overlaps(self, call: Call) -> bool:
        """Tell whether a call may run beside its neighbors: it only reads, or is not run at all."""
        offer = self.offers.get(call.name)
        return offer is None or offer.reads_only

    def begun(self, lane: Tick, call: Call) -> CallResult | Coroutine[Any, Any, CallResult]:
        """Return the answer to a call, or what gives it when awaited. Its ordinal is taken here and now."""
        offer = self.offers.get(call.name)
        if offer is None:
            return unknown_tool(call.name, self.offers)
        if call.fault is not None:
            return unreadable(call.name, call.fault)
        if faults := offer.schema.faults(call.arguments):
            return unfit(call.name, faults)
        if offer.name is None:
            return _contributed(lane, call)
        try:
            return _carried_out(lane.call(offer.name, **call.arguments))
        except BehaviorError as error:  # arguments that are no values
            return failed(call.name, type(error).__name__, str(error))


def toolbox(desk: Desk, tools: Iterable[str], agent: str) -> Toolbox:
    """Return what `tools`, names or globs, stand for at an agent's hosts, in declared order.

    Raises:
        ScenarioError: There is no such tool, or two look alike to a model.
    """
    known = {**dict.fromkeys(desk.tools), **dict.fromkeys(OWN)}
    chosen: dict[str, None] = {}
    for wanted in tools:
        if not isinstance(wanted, str):
            raise ScenarioError(f"agent {agent!r}: tools are named by texts, as its hosts know them, not {wanted!r}.")
        found = [wanted] if wanted in known else [name for name in known if fnmatchcase(name, wanted)]
        if not found and not _is_glob(wanted) and not _may_come(desk):
            raise ScenarioError(f"agent {agent!r} has no tool {wanted!r}.{suggestion(wanted, known)}")
        chosen |= dict.fromkeys(found)
    for name in desk.tools:
        if name in OWN:
            raise ScenarioError(f"agent {agent!r}: the tool {name!r} has the prefix {PREFIX}, which is reserved.")
    shown = wire_names(chosen)
    offers = {shown[name]: _own(name) if name in OWN else _offer(desk, name, shown[name]) for name in chosen}
    distinct(offer.schema for offer in offers.values())
    return Toolbox(offers, tuple(offer.schema.wire() for offer in offers.values()))


def _offer(desk: Desk, name: str, shown: str) -> Offer:
    host, tool = desk.tools[name]
    offers = getattr(getattr(host, "catalog", None), "offers", ())
    sent = next((offer for offer in offers if offer.name == name), None)
    if sent is None:
        schema = schema_of(tool.function, name=shown, source=f"the host of {name}")
    else:  # a tool server sends its own schema, and judges arguments itself
        schema = ToolSchema(
            name=shown, description=sent.description, input_schema=sent.input_schema, source=f"the server {host.name}"
        )
    return Offer(schema=schema, name=name, reads_only=tool.reads_only)


def _own(name: str) -> Offer:
    return Offer(schema=schema_of(OWN[name], name=name, injected=("tick",), source="the society"))


def _may_come(desk: Desk) -> bool:
    """Tell whether there are tool servers that are not open yet: what they offer is not known."""
    return any(hasattr(host, "catalog") and host.catalog is None for host in desk.hosts)


def _is_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _contributed(lane: Tick, call: Call) -> CallResult:
    try:
        return result_of(OWN[call.name](lane, **call.arguments))
    except BehaviorError as error:  # no such recipient, no such key: the model can mend it
        return failed(call.name, type(error).__name__, str(error))


async def _carried_out(crossing: Awaitable[Value]) -> CallResult:
    try:
        return result_of(await crossing)
    except ActionError as error:
        return result_of_error(error)


async def all_answered(lane: Tick, box: Toolbox, batch: Sequence[Call], results: dict[int, CallResult]) -> None:
    """Answer the calls of a batch, at once where there are several; `results` are by place in the turn."""
    waiting: dict[int, Coroutine[Any, Any, CallResult]] = {}
    for call in batch:
        answer = box.begun(lane, call)
        if isinstance(answer, CallResult):
            results[call.index] = answer
        else:
            waiting[call.index] = answer
    if len(waiting) == 1:
        ((place, crossing),) = waiting.items()
        results[place] = await crossing
    elif waiting:
        given = await lane.gather(*waiting.values())
        results |= dict(zip(waiting, given, strict=True))
