"""What a model is to everyone else: anything with `async def reply(request)`. And one that reads from a script.

A `Request` is a read-only mapping in the shape that goes on the wire. Beside it stand the agent, the round, the
ordinal and the number of this agent's model call, by which a scripted model picks its answer. What a model gives back
goes through `replies.reply_of`, whatever model it is: `asked` is the one door.

Knows: requests, scripts, and files of scripted replies.
Does not know: HTTP, budgets, or what follows from a reply.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import attrs
import msgspec

from society.agent import Agent
from society.budget import FREE, Budget, Price
from society.errors import MalformedReply, ModelSilent, ScenarioError, suggestion
from society.records import Model as Answered
from society.records import order
from society.replies import reply_of
from society.values import FrozenDict, freeze


@attrs.frozen
class Spoke:
    """A piece of text came in. Pieces of an attempt that failed later were said for nothing."""

    text: str


@attrs.frozen
class Waits:
    """The service turned an attempt away, and it is made again after a while."""

    attempt: int
    """The one that failed, from 1."""
    seconds: float
    why: str


Heard: TypeAlias = Spoke | Waits


class Width(Protocol):
    """How many calls to the service may be in flight at once. A crowded service makes it narrower for everyone."""

    def crowded(self) -> None: ...

    def eased(self) -> None: ...


class Request(Mapping[str, Any]):
    """One request: a read-only mapping in the shape that goes on the wire, without the model's name."""

    __slots__ = ("_body", "agent", "call", "listener", "ordinal", "round", "seed", "width")

    def __init__(
        self,
        body: FrozenDict,
        *,
        agent: str | None = None,
        round: int = 0,
        ordinal: str = "1",
        call: int = 1,
        seed: int = 0,
        width: Width | None = None,
        listener: Callable[[Heard], None] | None = None,
    ) -> None:
        self._body = body
        self.agent = agent
        """`None` for an `act` by itself."""
        self.round = round
        self.ordinal = ordinal
        """Of the crossing in its tick: "3", or "3.1" inside one."""
        self.call = call
        """The number of this agent's model call, from 1."""
        self.seed = seed
        """Of the run; waits between attempts are drawn from it."""
        self.width = width
        self.listener = listener

    def __getitem__(self, key: str) -> Any:
        return self._body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def __repr__(self) -> str:
        return f"<Request {self.call} of {self.agent or 'act'}: {len(self._body['messages'])} messages>"

    @property
    def body(self) -> FrozenDict:
        return self._body

    @property
    def digest(self) -> str:
        """Of the whole body, independent of the order of its keys: what a trace says of a request."""
        return hashlib.sha256(msgspec.json.encode(self._body, order="sorted")).hexdigest()

    def tell(self, heard: Heard) -> None:
        if self.listener is not None:
            self.listener(heard)


def request_body(
    *,
    messages: Any,
    max_tokens: int,
    system: str | None = None,
    tools: Sequence[FrozenDict] = (),
    tool_choice: Mapping[str, Any] | None = None,
    output_config: Mapping[str, Any] | None = None,
) -> FrozenDict:
    """Return the body of a request. The stable parts come first, so that its bytes start alike from turn to turn."""
    parts: dict[str, Any] = {
        "max_tokens": max_tokens,
        "system": system or None,
        "tools": list(tools) or None,
        "tool_choice": tool_choice,
        "output_config": output_config,
        "messages": messages,
    }
    # Part by part: a long history is frozen already, and freezing it inside something else would walk all of it.
    return FrozenDict({key: freeze(part, f"request.{key}") for key, part in parts.items() if part is not None})


class Model(Protocol):
    """Anything with this method. It may also have `name`, a text, and `price`, a `budget.Price`."""

    async def reply(self, request: Request) -> Any: ...


async def asked(model: Model, request: Request) -> FrozenDict:
    """Return the model's reply to a request, checked and frozen.

    Raises:
        ModelSilent: The model did not answer.
        MalformedReply: What it gave back is no reply.
    """
    return reply_of(await model.reply(request))


ONLY: Final = "model"
"""The name of a model that was given without one; every agent gets it, whatever name it asks for."""


def named_models(model: Any, budget: Budget | None, agents: Sequence[Agent]) -> dict[str, Model]:
    """Return what `model=` of a society gave, by name.

    Raises:
        ScenarioError: One of them is no model, or has no price where a budget is in dollars.
    """
    if model is None:
        for agent in agents:
            if agent.model is not None or getattr(agent.behavior, "asks", False):
                chosen({}, agent.model, agent.name)
        return {}
    found: dict[str, Model] = dict(model) if isinstance(model, Mapping) else {ONLY: model}
    in_dollars = [f"agent {agent.name!r}" for agent in agents if agent.budget is not None and agent.budget.usd]
    if budget is not None and budget.usd is not None:
        in_dollars.insert(0, "the society")
    for name, one in found.items():
        if not callable(getattr(one, "reply", None)):
            raise ScenarioError(f"model {name!r}: a model has `async def reply(request)`, and {one!r} has not.")
        if in_dollars:
            _priced(name, one, in_dollars[0])
    for agent in agents:
        if agent.model is not None or getattr(agent.behavior, "asks", False):
            chosen(found, agent.model, agent.name)
    return found


def check_newborn(models: Mapping[str, Model], agent: Agent) -> None:
    """Refuse an agent that would ask a model that there is not, or one without a price under a budget in dollars.

    Raises:
        ScenarioError: It would.
    """
    chosen(models, agent.model, agent.name)
    for name, one in models.items() if agent.budget is not None and agent.budget.usd else ():
        _priced(name, one, f"agent {agent.name!r}")


def _priced(name: str, model: Model, whose: str) -> None:
    if getattr(model, "price", None) is None:
        raise ScenarioError(
            f"model {name!r}: its price is not known, and the budget of {whose} is in dollars: add it to the "
            "price table, or bound tokens."
        )


def chosen(models: Mapping[str, Model], name: str | None, agent: str) -> Model:
    """Return one of several models by name, or the only one where there is no name.

    Raises:
        ScenarioError: There is none of that name, or several and nothing says which.
    """
    if not models:
        raise ScenarioError(f"agent {agent!r} asks a model, and the society has none: give it `model=`.")
    if len(models) == 1 and (name is None or ONLY in models):
        return next(iter(models.values()))
    if name is None:
        raise ScenarioError(f"agent {agent!r} asks a model: which one? There are {', '.join(models)}.")
    if name not in models:
        raise ScenarioError(f"agent {agent!r}: there is no model {name!r}.{suggestion(name, models)}")
    return models[name]


ScriptedReply: TypeAlias = Mapping[str, Any] | BaseException | Callable[[Request], Any]


class ScriptedModel:
    """A model that answers from a script: for tests, for scenarios that run offline, and for examples.

    Args:
        replies: A list, for `act` or for one agent; or a dict of lists by agent name, for a society. Each is a dict in
            the shape of a Messages API reply, a function of the request that returns one, or an exception to raise.
        price: What its tokens cost; nothing unless told.

    A reply is picked by (agent, number of its call), never by order of arrival, so a script survives resume. An `act`
    by itself has no agent: it gets the replies in the order in which it asks.
    """

    name = "scripted"
    answers_by_number = True
    """Calls of one agent are made one after another, in the order of their ordinals."""

    def __init__(
        self, replies: Sequence[ScriptedReply] | Mapping[str, Sequence[ScriptedReply]], *, price: Price = FREE
    ) -> None:
        self._replies = dict(replies) if isinstance(replies, Mapping) else list(replies)
        self.price = price
        self.requests: list[Request] = []
        """What was asked, in order of arrival."""

    async def reply(self, request: Request) -> Any:
        self.requests.append(request)
        script = self._script(request)
        number = request.call
        if request.agent is None:
            number = sum(1 for earlier in self.requests if earlier.agent is None)
        if number > len(script):
            raise ModelSilent(
                f"the script of {request.agent or 'act'!r} holds {len(script)} replies, and call {number} was made"
            )
        reply = script[number - 1]
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _script(self, request: Request) -> Sequence[ScriptedReply]:
        if isinstance(self._replies, dict):
            if request.agent in self._replies:
                return self._replies[request.agent]
            raise ModelSilent(
                f"there are no scripted replies for {request.agent!r}.{suggestion(str(request.agent), self._replies)}"
            )
        agents = list(dict.fromkeys(earlier.agent for earlier in self.requests))
        if len(agents) > 1:
            raise ScenarioError(
                f"a flat list of replies is for one agent, and both {agents[0]!r} and {agents[1]!r} ask: it would be "
                "dealt out in order of arrival. Give a dict of lists by agent name."
            )
        return self._replies


class ReplayModel:
    """A model that gives the answers that were kept of another one: `society run --record` writes them.

    Args:
        answers: A file of them, or what is in it: by agent, in order of its calls, each with `reply`, `silent` or
            `malformed`, as its record has it.

    Raises:
        ScenarioError: The file cannot be read, or holds something else.
    """

    name = "replay"
    answers_by_number = True
    price = FREE

    def __init__(self, answers: str | Path | Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.answers = dict(answers) if isinstance(answers, Mapping) else load_answers(answers)

    async def reply(self, request: Request) -> Any:
        kept = self.answers.get(request.agent or "", ())
        if request.call > len(kept):
            raise ModelSilent(f"{len(kept)} answers of {request.agent!r} were kept, and call {request.call} was made")
        answer = kept[request.call - 1]
        if "silent" in answer:
            raise ModelSilent(answer["silent"])
        if "malformed" in answer:
            raise KeptFault("", "", answer["malformed"])
        return answer["reply"]


class KeptFault(MalformedReply):
    """What was wrong with an answer, in the words of then."""

    def __init__(self, path: str, found: str, said: str) -> None:
        super().__init__(path, found)
        self.said = said

    def __str__(self) -> str:
        return self.said


def answers_in(records: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the answers of all model calls among a journal's records, for a `ReplayModel`."""
    found: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for record in records:
        if isinstance(record, Answered) and not record.cut:
            came = {"reply": record.reply, "silent": record.silent, "malformed": record.malformed}
            answer = {key: value for key, value in came.items() if value is not None}
            found.setdefault(record.agent, []).append(((record.round, record.tick, order(record.at)), answer))
    return {agent: [answer for _, answer in sorted(kept, key=lambda one: one[0])] for agent, kept in found.items()}


def load_answers(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Return the answers in a file: what `answers_in` returned, as JSON.

    Raises:
        ScenarioError: The file cannot be read, or holds something else.
    """
    try:
        read = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, list[dict[str, Any]]])
    except OSError as error:
        raise ScenarioError(f"{path}: the kept answers cannot be read: {error.strerror}.") from None
    except msgspec.MsgspecError as error:
        raise ScenarioError(f"{path}: no kept answers: {error}.") from None
    for agent, answers in read.items():
        for number, answer in enumerate(answers, 1):
            if len(answer) != 1 or not answer.keys() <= {"reply", "silent", "malformed"}:
                raise ScenarioError(f"{path}: answer {number} of {agent!r} is none: it has reply, silent or malformed.")
    return read


def load_replies(path: str | Path) -> dict[str, list[FrozenDict]]:
    """Return the scripted replies of a `*.replies.toml`: by agent name, in order of that agent's calls.

        [[responder]]
        stop_reason = "end_turn"
        content = [{ type = "text", text = "Noted." }]

    `content` may be a text; `stop_reason` may be left out: it is then `tool_use` if there is a call, else `end_turn`.

    Raises:
        ScenarioError: The file cannot be read, or a reply in it is none; the error says which.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: the scripted replies cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    loaded: dict[str, list[FrozenDict]] = {}
    for agent, replies in tables.items():
        if not isinstance(replies, list):
            raise ScenarioError(f"{path}: {agent}: replies are written as [[{agent}]] tables, one for each call.")
        for number, reply in enumerate(replies, 1):
            try:
                loaded.setdefault(agent, []).append(reply_of(_completed(reply)))
            except MalformedReply as error:
                raise ScenarioError(f"{path}: reply {number} of {agent!r}: {error.path}: {error.found}.") from None
    return loaded


def _completed(reply: Any) -> Any:
    if not isinstance(reply, dict):
        return reply
    content = reply.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(content, list) and all(isinstance(block, dict) for block in content):
        # Ids need only be distinct within a history; the loop sees to that.
        content = [{"id": "call", **block} if block.get("type") == "tool_use" else block for block in content]
        called = any(block.get("type") == "tool_use" for block in content)
        reply = {"stop_reason": "tool_use" if called else "end_turn", **reply}
    return {**reply, "content": content}
