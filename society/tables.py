"""The tables of a scenario file as values: which keys there are, of which type, and what holds where one is left out.

A new section is one class here and one field of `ScenarioTable`.

Knows: keys, types, ranges, defaults.
Does not know: TOML, lines, code files, or whether what a name refers to is there.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

import attrs

from society.limits import Limits


@attrs.frozen
class AtLeast:
    """In a type: whole numbers from here on."""

    least: int


@attrs.frozen
class Free:
    """In a type: any value that may cross between agents (V1)."""


@attrs.frozen
class Number:
    """In a type: a whole number from 0 on, or the parameter that holds it."""


@attrs.frozen
class Share:
    """In a type: a number from 0 to 1."""


@attrs.frozen
class Above:
    """In a type: a number above 0."""


@attrs.frozen
class Wording:
    """In a type: a text, `{ file = … }` or `{ template = … }`."""


@attrs.frozen
class Pin:
    """In a type: a text, or `{ file = … }`."""


class Misfit(Exception):
    """A table whose keys do not go together. The loader turns it into a fault with its line."""

    def __init__(self, message: str, needs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.needs = needs
        """Keys whose absence is what is wrong."""


MOST: Final = 10_000_000
"""Agents that one entry may stand for. More is a slip, and would only end when memory does."""

Positive = Annotated[int, AtLeast(1)]
Whole = Annotated[int, AtLeast(-(2**63))]
Value = Annotated[Any, Free()]
Values = Annotated[dict[str, Any], Free()]
Count = Annotated[int | str, Number()]
Rate = Annotated[float, Share()]
AboveZero = Annotated[float, Above()]
Names = tuple[str, ...]

Activation = Literal["synchronized", "sequential", "shuffled", "random", "partial"]
RULES: Final = ("never", "deny", "allow", "approve")
OnError = Literal["stop", "continue", "retire"]

_INDEX: Final = "its number in the file's list, from 0; not a key"


def index() -> Any:
    """A field that the loader fills in: the number of a table in the file's list, from 0."""
    return attrs.field(default=0, eq=False, metadata={"omit": _INDEX})


@attrs.frozen(kw_only=True)
class SharedTable:
    initial: Value = None
    merge: str = "last"
    """The name of a merge rule, or of a function of the code file."""
    writers: Names | None = None
    readers: Names | None = None


@attrs.frozen(kw_only=True)
class RuleTable:
    never: str | None = None
    deny: str | None = None
    allow: str | None = None
    approve: str | None = None
    when: str | None = None
    index: int = index()

    def __attrs_post_init__(self) -> None:
        if len(self.kinds) != 1:
            raise Misfit("a rule has exactly one of never, deny, allow, approve, which names a tool or a glob", RULES)

    @property
    def kinds(self) -> list[Literal["never", "deny", "allow", "approve"]]:
        given: dict[Literal["never", "deny", "allow", "approve"], str | None] = {
            "never": self.never,
            "deny": self.deny,
            "allow": self.allow,
            "approve": self.approve,
        }
        return [kind for kind, tool in given.items() if tool is not None]


@attrs.frozen(kw_only=True)
class PolicyTable:
    default: Literal["allow", "deny"] = "allow"
    rules: tuple[RuleTable, ...] = ()


@attrs.frozen(kw_only=True)
class PromptTable:
    """A prompt: literal, in a file, or a template over parameters and state."""

    text: str | None = None
    file: str | None = None
    template: str | None = None


Prompt = Annotated[Any, Wording()]


@attrs.frozen(kw_only=True)
class ModelTable:
    use: str
    """The model's name, as its service knows it; or `scripted`, or `replay`."""
    replies: str | None = None
    """A file of scripted replies, or of answers that were kept."""
    base_url: str | None = None
    """Any server that speaks the Messages API, instead of the vendor's."""
    api_key: str | None = None
    extra_body: Values = attrs.field(factory=dict)
    """Further fields of each request."""
    prices: str | None = None
    """A file of prices in the shape of `prices.toml`, instead of the one that comes with the project."""


@attrs.frozen(kw_only=True)
class BudgetTable:
    usd: AboveZero | None = None
    tokens: Positive | None = None

    def __attrs_post_init__(self) -> None:
        if self.usd is None and self.tokens is None:
            raise Misfit("a budget has usd, tokens, or both", ("usd", "tokens"))


DRIVEN: Final = ("tools", "wake", "memory", "context", "max_turns", "max_tokens", "fallback")
"""Keys that go with a prompt only."""


@attrs.frozen(kw_only=True)
class AgentTable:
    name: str | None = None
    behavior: str | None = None
    """A function of the code file."""
    prompt: Prompt | None = None
    """Instead of a behavior: a model drives the agent."""
    model: str | None = None
    """Which of [models.NAME] it asks."""
    budget: BudgetTable | None = None
    """Its own, each of them where there are many."""
    tools: Names | None = None
    """What its model may call, by names or globs; the society's own tools it always may."""
    wake: Literal["always", "inbox"] | None = None
    memory: Literal["thread", "fresh"] | None = None
    context: Positive | None = None
    """Characters of its thread."""
    max_turns: Positive | None = None
    max_tokens: Positive | None = None
    fallback: str | None = None
    """A function of the code file that acts where the model is silent or refuses."""
    count: Count | None = None
    """How many of them, `NAME-0` and so on; or `parameters.KEY`, which holds the number."""
    rows: str | None = None
    """A table in CSV, one agent a row; its columns go into `state`, a column `name` names the agent."""
    from_: str | None = None
    """A function of the code file that returns agents."""
    observe: Names = ()
    hosts: Names | None = None
    """Hosts of the code file, and servers; left out, all of them."""
    policy: PolicyTable = PolicyTable()
    state: Values = attrs.field(factory=dict)
    public: Values = attrs.field(factory=dict)
    index: int = index()

    def __attrs_post_init__(self) -> None:
        if self.from_ is not None:
            single = ("name", "behavior", "prompt", "model", "budget", *DRIVEN, "count", "rows")
            own = {key: getattr(self, key) for key in single}
            given = [key for key, value in own.items() if value is not None]
            given += [key for key in ("observe", "state", "public") if getattr(self, key)]
            if given:
                raise Misfit(f"`from` makes whole agents; {', '.join(given)} come from what its function returns")
            return
        missing = [key for key in ("name", "behavior") if getattr(self, key) is None]
        if self.prompt is not None and "behavior" in missing:
            missing.remove("behavior")
        if missing:
            what = " and ".join(f"`{key}`" for key in missing)
            raise Misfit(
                f"{what} missing: an agent has `name` and `behavior`, `name` and `prompt`, or `from`",
                ("name", "behavior", "prompt", "from"),
            )
        if self.behavior is not None and self.prompt is not None:
            raise Misfit("`behavior` and `prompt` both say what it does; a `fallback` acts where the model is silent")
        if self.prompt is None and (given := [key for key in DRIVEN if getattr(self, key) is not None]):
            raise Misfit(f"{', '.join(given)}: only with a `prompt`, which a model follows", ("prompt",))
        if self.count is not None and self.rows is not None:
            raise Misfit("`count` and `rows` both say how many agents there are; keep one")

    @property
    def label(self) -> str:
        """What the entry is called in paths: its name, or that of its function."""
        return self.name or self.from_ or ""


@attrs.frozen(kw_only=True)
class SendTable:
    to: str
    kind: str
    body: Values = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class EventTable:
    round: Positive
    share: Values | None = None
    send: SendTable | None = None
    index: int = index()

    def __attrs_post_init__(self) -> None:
        if (self.share is None) == (self.send is None):
            either = "share = { KEY = VALUE } or send = { to = …, kind = …, body = { … } }"
            raise Misfit(f"an event has either {either}", ("share", "send"))


@attrs.frozen(kw_only=True)
class MeasureTable:
    name: str
    value: str
    """A SHARED key, `public.KEY` of agents' public state (for the society added up), or a function of the code file."""
    per: Literal["society", "agent"] = "society"
    index: int = index()


@attrs.frozen(kw_only=True)
class TopologyTable:
    rest: ClassVar = "options"
    """The field that takes all keys that are not fields."""

    graph: str
    """A function of the code file, `grid`, or the name of a generator of networkx."""
    group: str | None = None
    """Whose members are the nodes; left out, the nodes are all agents."""
    options: Values = attrs.field(factory=dict)
    """What the generator is called with."""


@attrs.frozen(kw_only=True)
class PinTable:
    """What a catalog must be, by exactly one of two."""

    sha256: str | None = None
    """The digest that it must have; `society tools` tells it."""
    file: str | None = None
    """The whole of it, as `society tools --pin` keeps it."""


@attrs.frozen(kw_only=True)
class ServerTable:
    """A tool server."""

    command: Names | None = None
    """Starts it, in the scenario's folder; `python` is the interpreter that runs the society."""
    args: Names = ()
    """Further arguments of the command."""
    env: dict[str, str] = attrs.field(factory=dict)
    """What it sees of the environment besides a few variables such as PATH."""
    url: str | None = None
    """Where it listens, instead of a command."""
    headers: dict[str, str] = attrs.field(factory=dict)
    """Sent with every request to the url."""
    digest: Annotated[PinTable | None, Pin()] = None
    """What its catalog must be."""
    trust: tuple[Literal["reads_only", "idempotent"], ...] = ()
    """Which of its hints are believed."""

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise Misfit("a server has either command = [ … ] or url = …", ("command", "url"))
        if self.command == ():
            raise Misfit("the command is empty; its first part is a program")
        if self.command is None and (self.args or self.env):
            raise Misfit("args and env go with a command; a server at a url was started by somebody else")
        if self.url is None and self.headers:
            raise Misfit("headers go with a url")


@attrs.frozen(kw_only=True)
class RunTable:
    """How a scenario was run: the end of the copy that lies in a run's folder."""

    file: str | None = None
    """The name of the file that it is a copy of. Line by line it is the same up to here."""
    folder: str = "."
    """What paths in the file are relative to, from its own folder."""
    set_: Values = attrs.field(factory=dict)
    """What was set from outside, by path."""


@attrs.frozen(kw_only=True)
class ScenarioTable:
    """A whole scenario file."""

    name: str | None = None
    """Left out, the file's name without its ending."""
    about: str = ""
    code: str | None = None
    """A Python file, relative to the scenario."""
    inputs: Names = ()
    """Further files that the code reads. A run's folder has copies of them."""
    activation: Activation = "synchronized"
    rate: Rate | None = None
    """With which probability an agent joins a round, where the activation is `partial`."""
    max_ticks: Positive = 100
    """The most rounds of a run."""
    until: str | None = None
    seed: Whole = 0
    on_error: OnError = "stop"
    quiet: bool = False
    parameters: Values = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    shared: dict[str, SharedTable] = attrs.field(factory=dict)
    model: str | None = None
    """Which of [models.NAME] all agents ask, whatever they name."""
    models: dict[str, ModelTable] = attrs.field(factory=dict)
    budget: BudgetTable | None = None
    """Of all together; judged after each round."""
    servers: dict[str, ServerTable] = attrs.field(factory=dict)
    policy: PolicyTable = PolicyTable()
    topology: TopologyTable | None = None
    agents: tuple[AgentTable, ...] = ()
    events: tuple[EventTable, ...] = ()
    measures: tuple[MeasureTable, ...] = ()
    run: RunTable = RunTable()


HOMES: Final[dict[str, str]] = {
    **{field.name: "[limits]" for field in attrs.fields(Limits)},
    **dict.fromkeys(("base_url", "api_key", "use", "extra_body", "replies"), "[models.NAME]"),
    **dict.fromkeys(("usd", "tokens"), "[budget]"),
    **dict.fromkeys(("command", "url", "digest", "trust"), "[servers.NAME]"),
    **dict.fromkeys(("initial", "merge", "writers", "readers"), "[shared] KEY = { … }"),
    **dict.fromkeys(("behavior", "prompt", "count", "rows", "observe", "hosts", "state", "public"), "[[agents]]"),
}
"""Where a key belongs that stands in the wrong table."""
