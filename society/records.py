"""The journal's records as values: what a run is resumed from and what its trace is computed from (J1, J2, J9).

Rounds make these whether or not a store writes them. What crosses the edge is written down; what can be computed (merges,
deliveries, refusals, versions) is not: `barrier.py` computes it from the contributions, alike in a live run and from the file.

Knows: the fields of each record.
Does not know: bytes, files, or the order in which records arrive. Between agents that order means nothing: a record says
where it belongs by (round, agent, tick, at).

`at` is an ordinal: "3" is the third crossing of a tick, "3.1" the first one inside the delegation that is its third
crossing. What a tick contributes carries the ordinal of the crossing before it, "0" before the first.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from society.values import Value


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="record"):
    """Anything that stands in a journal."""


class Start(Record, tag="start", frozen=True, kw_only=True):
    """The first record: what is run."""

    format: int = 1
    run_id: str
    scenario: str
    activation: str
    seed: int
    agents: list[str]
    declared: dict[str, Any] = {}
    """SHARED, activation, agents and rules as `declare.py` writes them: enough to fold the journal without the code."""
    meaning: dict[str, Any] = {}
    """What may not change on resume (J7), by key path."""
    code: dict[str, str] = {}
    """Digests of the files whose change is recorded but not refused."""


class Crossing(Record, frozen=True, kw_only=True):
    """One record of one crossing of one tick."""

    round: int
    agent: str
    tick: int = 1
    """Number of the agent's tick in this round, from 1."""
    at: str


class Read(Crossing, tag="read", frozen=True, kw_only=True):
    """A sensor was read. Exactly one of `value` and `unknown` says what came."""

    sensor: str
    value: Value = None
    unknown: str | None = None
    """Why nothing was perceived."""
    timed_out: bool = False
    cut: bool = False
    """The tick gave the crossing up and went on."""


class Intent(Crossing, tag="intent", frozen=True, kw_only=True):
    """An effect is about to start: the permit was given, the slot is held."""

    id: str
    tool: str
    arguments: Value
    verdict: str = "allow"
    """`allow`, or `approve` where a person approved exactly these arguments."""
    rule: str | None = None
    attempt: int = 1
    opaque: bool = False
    """A sub-agent without a tick: `tool` is its name, `arguments` its payload."""


class Result(Crossing, tag="result", frozen=True, kw_only=True):
    """How an effect ended. Without one, its intent is in doubt."""

    id: str
    ending: Literal["done", "failed", "in_doubt", "not_executed"]
    value: Value = None
    """The tool's value for `done`; `{"error": type, "message": text}` for `failed`."""
    why: str | None = None
    """For `in_doubt`: what happened. For `done` with a value that cannot be represented: which."""
    timed_out: bool = False
    cut: bool = False
    settled: str | None = None
    """How a doubt was settled: `repeated` with the same key, `reconciled`, `executed` after a reconciler's word."""


class Denial(Crossing, tag="denial", frozen=True, kw_only=True):
    """An action that got no permit. It never started."""

    id: str
    tool: str
    arguments: Value
    verdict: Literal["never", "deny", "refused", "no_answer"]
    rule: str | None = None
    why: str | None = None
    timed_out: bool = False
    cut: bool = False


class Approval(Crossing, tag="approval", frozen=True, kw_only=True):
    """What a person said about one action. Asked for once; a yes for other arguments is void."""

    id: str
    tool: str
    arguments: Value
    rule: str
    answer: bool | None = None
    """`None`: the question stands and nobody has answered yet."""
    no_answer: bool = False


class Answer(Crossing, tag="answer", frozen=True, kw_only=True):
    """A person was asked. `answer` is what was said, unless nobody answered."""

    question: Value
    answer: Value = None
    no_answer: bool = False
    standing: bool = False
    """The question stands, to be answered in another process."""
    timed_out: bool = False
    cut: bool = False


class Delegation(Crossing, tag="delegation", frozen=True, kw_only=True):
    """A sub-agent ended. One that got a tick is run again on resume, and this record compared."""

    subagent: str
    payload: Value
    ending: Literal["done", "failed", "in_doubt"]
    result: Value = None
    cut: bool = False


class Model(Crossing, tag="model", frozen=True, kw_only=True):
    """The model was asked. At most one of `reply`, `silent` and `malformed` says what came; none where it was cut."""

    request: str
    """Digest of what was asked."""
    reply: Value = None
    """In the shape of `replies.py`."""
    silent: str | None = None
    """Why there was no answer."""
    malformed: str | None = None
    """Why the answer was no reply."""
    nano_usd: int | None = None
    """What it cost, in nano-dollars; `None` where the model has no price or nothing came."""
    timed_out: bool = False
    cut: bool = False


class Reason(Crossing, tag="reason", frozen=True, kw_only=True):
    """An answer with a contract, as it was read: computed from the reply, and compared on resume."""

    question: str
    answer: Value
    degraded: bool = False
    missing: list[str] = []
    why: str | None = None
    """Why there was no answer at all."""


class Act(Crossing, tag="act", frozen=True, kw_only=True):
    """An agent loop ended: computed from its replies and results, and compared on resume."""

    outcome: str
    reason: str = ""
    turns: int = 0


class Late(Record, tag="late", frozen=True, kw_only=True):
    """What came back from an action after its tick had given it up. It changes nothing there; it is proof."""

    id: str
    ending: Literal["done", "failed"]
    value: Value = None


Did: TypeAlias = tuple[Any, ...]
"""One thing that a tick contributes, with the ordinal `at` of the crossing before it:

    ("send", at, to, kind, body)      to is None for a broadcast
    ("share", at, key, value)
    ("note", at, text)
    ("spawn", at, {"name", "behavior", "observe", "state", "public", "group", "index"})
    ("retire", at)
"""


class Contribution(msgspec.Struct, omit_defaults=True, gc=False):
    """What one tick left behind. If it did not end well, nothing of it but its ending counts (R4)."""

    agent: str
    tick: int = 1
    ending: Literal["well", "failed", "late"] = "well"
    did: list[Did] = []
    state: dict[str, Value] | None = None
    """Keys of `tick.state` that were assigned, with their new values."""
    gone: list[str] | None = None
    """Keys of `tick.state` that were deleted."""
    public: dict[str, Value] | None = None
    public_gone: list[str] | None = None
    error: str | None = None
    where: str | None = None
    waiting_for: str | None = None


class Settlement(msgspec.Struct, omit_defaults=True):
    """A doubt that an earlier barrier listed and that proof has cleared."""

    id: str
    agent: str
    how: str
    ending: str
    result: Value = None


class Barrier(Record, tag="barrier", frozen=True, kw_only=True):
    """One round, whole or not at all."""

    round: int
    events: list[dict[str, Any]] = []
    """What the scenario's `world` did at the start of the round: `{"share": {…}}` or `{"send": {"to", "kind", "body"}}`."""
    ticks: list[Contribution]
    """In order of activation."""
    merged: dict[str, Value] = {}
    """Values of keys whose merge rule is a function: it is code, and the fold has none."""
    conflict: str | None = None
    """Why the round could not be merged. Nothing of it is applied then."""
    conflict_key: str | None = None
    settled: list[Settlement] = []
    in_doubt: list[str] = []
    """Ids of all actions in doubt after this round."""
    measures: list[tuple[str, str | None, Value]] = []
    """(name, agent or None, value), computed after the barrier."""


class Opening(Record, tag="opening", frozen=True, kw_only=True):
    """Measures of round 0, before any tick."""

    measures: list[tuple[str, str | None, Value]] = []


class End(Record, tag="end", frozen=True, kw_only=True):
    """The run ended, for now. Only an end that is the last record is traced."""

    outcome: str
    reason: str = ""


class Checkpoint(Record, frozen=True, omit_defaults=True, kw_only=True, tag="checkpoint"):
    """The state after a round, whole: what came before need not be decoded to resume. `checkpoint.py` reads and writes it."""

    round: int
    names: list[str]
    groups: dict[str, str | None]
    retired: list[str]
    births: list[dict[str, Any]]
    shared: dict[str, Value]
    versions: dict[str, int]
    changed: dict[str, int]
    messages: list[dict[str, Any]]
    """Each message that waits somewhere, once."""
    inboxes: dict[str, list[int]]
    """Places in `messages`."""
    receipts: dict[str, list[tuple[int | None, str, str]]]
    memories: dict[str, Value]
    publics: dict[str, Value]
    doubts: list[dict[str, Any]]
    stranded: dict[str, list[dict[str, Any]]]
    counts: dict[str, int]
    past: dict[str, Any]
    spent: dict[str, dict[str, int]] = {}
    """By agent, what it used of models."""


class Forked(Record, frozen=True, omit_defaults=True, kw_only=True, tag="forked"):
    """This run goes another way from a round of an older one; what stands before this record is that run's."""

    of: str
    """The other run's id."""
    at: int
    """The last round that both have."""
    set: dict[str, Value] = {}
    """SHARED values that were changed there."""


class Cut(Record, tag="cut", frozen=True, kw_only=True):
    """A damaged batch was set aside on request; its actions are in doubt."""

    offset: int
    why: str


class Override(Record, tag="override", frozen=True, kw_only=True):
    """A resume that was forced although the scenario's meaning had changed, or that found changed code."""

    differences: list[str]
    forced: bool = False


AnyRecord: TypeAlias = (
    Start
    | Read
    | Intent
    | Result
    | Denial
    | Approval
    | Answer
    | Delegation
    | Model
    | Reason
    | Act
    | Late
    | Opening
    | Barrier
    | End
    | Checkpoint
    | Forked
    | Cut
    | Override
)
"""Every record there is, for decoding."""


def order(at: str) -> tuple[int, ...]:
    """Return the ordinal as numbers, so that "10" comes after "9" and "3.1" after "3"."""
    return tuple(map(int, at.split(".")))
