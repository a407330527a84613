"""A tick: one agent's part in one round, as its behavior sees it.

What the behavior looks at is its snapshot with its own writes over it; what it leaves is its contribution. Crossings are
plain functions that take their ordinal when they are called and return a coroutine object (J2).

A sub-agent that takes a tick gets a *lane* of its caller's tick: the same snapshot, policy and memory, ordinals below the
delegation's, and random numbers of its own. What a lane writes is seen by its caller once nothing of the caller is in
flight any more, and counts only if the lane ends well.

Knows: one agent's snapshot, contribution and ordinals.
Does not know: how a crossing is made (that is the gate's), or what other agents do.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import trio

from society.agent import Agent
from society.draw import stream
from society.entry import Entry, check_not_inside, gathered
from society.errors import (
    PlainBehavior,
    ScenarioError,
    SharedRefused,
    TickOver,
    UnknownRecipient,
    ValueRefused,
    nearest,
    suggestion,
)
from society.memory import Memory, SharedView, is_named
from society.merge import check_fit
from society.messages import Message, Receipt
from society.neighbors import Neighbors
from society.records import Contribution, Crossing, order
from society.state import Action
from society.values import FrozenDict, Unperceived, Value, freeze, freeze_items

if TYPE_CHECKING:
    from society.acts import ActResult
    from society.snapshot import Member, Snapshot

Answer = TypeVar("Answer")

_current_task: Final = trio.lowlevel.current_task
_FRESH: Final = "0"


class Tick:
    """One agent's part in one round. It belongs to its task, and is dead once the tick has ended (R16)."""

    # Most ticks make no crossing and touch no memory: what they do not need they do not carry,
    # and the cyclic collector need not walk.
    _task: Any = None
    _plain = False
    _ordinal = 0
    _at = _FRESH
    _own: dict[str, list[Value]] | None = None
    _joined: list[tuple[tuple[int, ...], Tick]] | None = None
    _rng: random.Random | None = None
    _memory: Memory | None = None
    _public: Memory | None = None
    _shared: SharedView | None = None
    _parent: Tick | None = None
    _prefix = ""
    observations: dict[str, Value] | None = None
    silent: dict[str, str] | None = None
    degraded_by: str | None = None
    retiring = False
    gatherings: tuple[Coroutine[Any, Any, Any], ...] = ()
    place = 0
    """The tick's place in order of activation."""
    script: dict[str, list[Any]] | None = None
    records: list[Crossing] = []  # noqa: RUF012  (empty lists that nobody appends to: `_ask` gives a tick its own)
    entries: list[Entry] = []  # noqa: RUF012
    """Crossings that were asked for and have not ended, those of lanes included."""
    cuts: list[Crossing] = []  # noqa: RUF012
    """Crossings that this tick gave up; recorded if it goes on."""
    left: tuple[tuple[float, Entry], ...] = ()
    """Crossings that were cancelled, with the time: what a late tick waited for."""

    def __init__(
        self, snapshot: Snapshot, member: Member, number: int, inbox: Sequence[Message], receipts: Sequence[Receipt]
    ) -> None:
        self._snapshot = snapshot
        self._member = member
        self.number = number
        self._inbox = inbox
        self._receipts = receipts
        self._did: list[tuple[Any, ...]] = []

    @property
    def root(self) -> Tick:
        """The tick of the agent itself, of which this may be a lane."""
        tick = self
        while tick._parent is not None:
            tick = tick._parent
        return tick

    # ── who and when ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def agent(self) -> str:
        return self._alive()._member.agent.name

    @property
    def group(self) -> str | None:
        return self._alive()._member.agent.group

    @property
    def index(self) -> int | None:
        return self._alive()._member.agent.index

    @property
    def round(self) -> int:
        return self._alive()._snapshot.round

    @property
    def parameters(self) -> Mapping[str, Value]:
        return self._alive()._snapshot.parameters

    @property
    def asks_model(self) -> bool:
        """Whether there is a model for this agent to ask."""
        asking = self._alive()._snapshot.gate.asking
        return asking is not None and bool(asking.models)

    @property
    def rng(self) -> random.Random:
        """Random numbers of this agent and round; nobody else's draws change them (R15)."""
        self._alive()
        if self._rng is None:
            snapshot = self._snapshot
            self._rng = stream(snapshot.seed, self._member.agent.name, snapshot.round, self.number, self._prefix)
        return self._rng

    # ── what it looks at ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def inbox(self) -> Sequence[Message]:
        """Messages of the round before, by sender's declared position, then in order of sending."""
        if self._task is None:
            self._over("has ended")
        return self._inbox

    @property
    def receipts(self) -> Sequence[Receipt]:
        """What became of this agent's messages that were not delivered."""
        return self._alive()._receipts

    @property
    def observed(self) -> Mapping[str, Value]:
        """Readings of the sensors in `observe`, by name; `UNKNOWN` where a sensor was silent."""
        self._alive()
        return FrozenDict(self.root.observations or {})

    @property
    def shared(self) -> SharedView:
        """SHARED as this tick sees it: the snapshot, with its own writes folded in."""
        self._alive()
        if self._shared is None:
            self._shared = SharedView(self)
        return self._shared

    @property
    def state(self) -> Memory:
        """The agent's own memory, assigned by key; values are frozen."""
        self._alive()
        root = self.root
        if root._memory is None:
            root._memory = Memory(root, root._snapshot.going.memory(root._member.agent.name), "state")
        return root._memory

    @property
    def public(self) -> Memory:
        """The part of the agent's memory that others may read, from the next snapshot on."""
        self._alive()
        root = self.root
        if root._public is None:
            root._public = Memory(root, root._snapshot.going.public(root._member.agent.name), "public")
        return root._public

    def peer(self, name: str) -> Mapping[str, Value]:
        """Return the public state of another agent, as the snapshot shows it.

        Raises:
            UnknownRecipient: Nobody has that name.
        """
        self._alive()
        snapshot = self._snapshot
        if name not in snapshot.before.groups:
            raise UnknownRecipient(name, tuple(nearest(str(name), snapshot.before.names, 3)))
        return snapshot.going.public(name)

    @property
    def neighbors(self) -> Neighbors:
        """Those next to this agent in the topology: name → public state, as the snapshot shows it, in order."""
        self._alive()
        return Neighbors(self)

    @property
    def in_doubt(self) -> tuple[Action, ...]:
        """Actions of this agent that may or may not have happened, this tick's included."""
        self._alive()
        name = self._member.agent.name
        earlier = [action for action in self._snapshot.before.doubts.values() if action.agent == name]
        return (*earlier, *(action for action in self._snapshot.effects(self.root) if action.ending == "in_doubt"))

    @property
    def stranded(self) -> tuple[Action, ...]:
        """Actions of this agent's earlier ticks that did not end well, until one of its ticks ends well (R4)."""
        self._alive()
        return self._snapshot.before.stranded.get(self._member.agent.name, ())

    @property
    def degraded(self) -> bool:
        """Whether the model was silent in this tick and defaults applied."""
        return self._alive().root.degraded_by is not None

    # ── what it leaves ──────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, to: str, kind: str, /, **body: Any) -> None:
        """Send a message, to be read in the next round.

        Raises:
            UnknownRecipient: Nobody was ever called `to`.
            ValueRefused: The body holds something that is no value.
        """
        try:
            if _current_task() is not self._task:
                self._stray()
        except RuntimeError:
            self._stray()
        if to not in self._snapshot.before.groups:
            raise UnknownRecipient(str(to), tuple(nearest(str(to), self._snapshot.before.names, 3)))
        if type(kind) is not str:
            raise ValueRefused("kind", type(kind).__name__)
        if not kind.isascii():
            kind = freeze(kind)
        self._did.append(("send", self._at, to, kind, freeze_items(body, "body")))

    def broadcast(self, kind: str, /, **body: Any) -> None:
        """Send one message to everybody else who has not left."""
        self._mine()
        if type(kind) is not str:
            raise ValueRefused("kind", type(kind).__name__)
        self._did.append(("send", self._at, None, freeze(kind), freeze_items(body, "body")))

    def share(self, key: str, value: Any) -> None:
        """Contribute to a SHARED key, by its merge rule.

        Raises:
            SharedRefused: The key is not declared, or this agent may not write it.
            ValueRefused: It is no value, or does not fit the merge rule.
        """
        self._mine()
        snapshot = self._snapshot
        key = freeze(key) if isinstance(key, str) else key
        declared = snapshot.terms.shared.get(key)
        name = self._member.agent.name
        if declared is None:
            raise SharedRefused(
                str(key), name, f"writes a key that is not declared.{suggestion(str(key), snapshot.terms.shared)}"
            )
        if declared.writers is not None and not is_named(declared.writers, self._member.agent):
            raise SharedRefused(
                key, name, f"may not write it; its writers are {', '.join(declared.writers) or 'nobody'}."
            )
        frozen = freeze(value, f"shared.{key}")
        check_fit(declared.merge, key, snapshot.going.value(key), frozen)
        if self._own is None:
            self._own = {}
        self._own.setdefault(key, []).append(frozen)
        if self._shared is not None:
            self._shared.folded.pop(key, None)
        self._did.append(("share", self._at, key, frozen))

    def note(self, text: str) -> None:
        """Leave a remark in the trace."""
        self._mine()
        if not isinstance(text, str):
            raise ValueRefused("note", type(text).__name__)
        self._did.append(("note", self._at, freeze(str(text))))

    def spawn(self, agent: Agent) -> None:
        """Let a new agent join at the barrier, behind all present ones (R13).

        Raises:
            ScenarioError: Its name was used before, or a durable run could not find its behavior again.
        """
        self._mine()
        if not isinstance(agent, Agent):
            raise ScenarioError(f"spawn takes an Agent, not {type(agent).__name__}.")
        if agent.name in self._snapshot.before.groups:
            raise ScenarioError(f"spawn: the name {agent.name!r} was used before; names are never used again.")
        self._did.append(("spawn", self._at, self._snapshot.expect_birth(self._member.agent.name, agent)))

    def retire(self) -> None:
        """Leave the society at the barrier."""
        self._mine()
        if not self.root.retiring:
            self.root.retiring = True
            self._did.append(("retire", self._at))

    # ── crossings ───────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, sensor: str) -> Coroutine[Any, Any, Value]:
        """Read a sensor; gives its value, or `UNKNOWN`."""
        entry = self._ask("read", f"read {sensor}")
        return self._crossing(entry, self._snapshot.gate.read(self, entry, sensor))

    def call(self, tool: str, /, **arguments: Any) -> Coroutine[Any, Any, Value]:
        """Call a tool; gives what it returned, frozen.

        Raises (when awaited):
            ActionDenied: A rule, a person, or nobody's answer stood against it. It was not performed.
            ToolFailed: The tool raised.
            ActionInDoubt: It may or may not have happened.
        """
        frozen = freeze_items(arguments, f"{tool}")
        entry = self._ask("call", f"{tool}")
        if self._snapshot.gate.has_effect(self, tool):
            entry.order = order(entry.at)
        return self._crossing(entry, self._snapshot.gate.call(self, entry, tool, frozen))

    def ask_human(self, question: Any) -> Coroutine[Any, Any, Value]:
        """Ask a person; gives the answer, or `NO_ANSWER`, which is neither a refusal nor consent."""
        frozen = freeze(question, "question")
        entry = self._ask("ask_human", "a person's answer")
        return self._crossing(entry, self._snapshot.gate.ask(self, entry, frozen))

    def delegate(self, subagent: str, payload: Any = None) -> Coroutine[Any, Any, Value]:
        """Let a sub-agent work on a payload; gives its result."""
        frozen = freeze(payload, "payload")
        entry = self._ask("delegate", f"sub-agent {subagent}")
        entry.order = order(entry.at)
        return self._crossing(entry, self._snapshot.gate.delegate(self, entry, subagent, frozen))

    def reason(
        self,
        answer: type[Answer],
        question: str,
        using: Mapping[str, Any] | None = None,
        *,
        system: str | None = None,
        model: str | None = None,
        max_tokens: int = 1024,
    ) -> Coroutine[Any, Any, Answer]:
        """Ask the model for an instance of an attrs class; what it does not give holds its default.

        Args:
            using: What the question is about, by name.
            model: One of the society's; the agent's own where None.
        """
        asking = self._snapshot.gate.models(self)
        asked = asking.question(answer, question, using, system, model, max_tokens)
        entry = self._ask("reason", "an answer of the model")
        return self._crossing(entry, asking.reason(self, entry, asked))

    def act(
        self,
        prompt: str | None,
        *,
        tools: Sequence[str] = (),
        system: str | None = None,
        max_tokens: int = 4096,
        max_turns: int = 20,
        model: str | None = None,
        messages: Sequence[Any] = (),
    ) -> Coroutine[Any, Any, ActResult]:
        """Let the model work with tools until it is done or a guard ends it: an outcome, never an error.

        Args:
            tools: Names or globs: tools of its hosts, and the society's own, `society__*`.
            messages: Whole exchanges to go on from, with `prompt=None` as they are.
        """
        asking = self._snapshot.gate.models(self)
        job = asking.job(prompt, messages, tools, system, max_tokens, max_turns, model)
        entry = self._ask("act", "an agent loop")
        return self._crossing(entry, asking.act(self, entry, job))

    def gather(self, *crossings: Awaitable[Any]) -> Coroutine[Any, Any, list[Any]]:
        """Make several crossings at once; gives their results in order.

        All run to their end. If some raise, the first of them in order is raised then.
        """
        self._mine()
        gathering = gathered(crossings)
        self.root.gatherings = (*self.root.gatherings, gathering)
        return gathering

    # ── how it is kept ──────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, crossing: str, what: str) -> Entry:
        """Take the next ordinal for a crossing."""
        self._mine()
        if self._plain:
            raise PlainBehavior(self._member.agent.name, crossing)
        root = self.root
        check_not_inside(root, what)
        if root.entries is Tick.entries:
            root.records, root.entries, root.cuts = [], [], []
        if root.cuts:
            self._snapshot.gate.flush_cuts(root)
        self._ordinal += 1
        self._at = f"{self._prefix}{self._ordinal}"
        frame = sys._getframe(2)
        return Entry(self, self._at, what, (frame.f_code.co_filename, frame.f_lineno))

    def _crossing(self, entry: Entry, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        entry.coroutine = coroutine
        self.root.entries.append(entry)
        return coroutine

    @property
    def flying(self) -> list[Entry]:
        """Crossings that have begun and not ended."""
        return [entry for entry in self.entries if entry.begun]

    def never_awaited(self) -> list[Entry]:
        """Return the crossings that this tick or lane asked for and never began, and close them (B9)."""
        root = self.root
        if self is root:
            for gathering in self.gatherings:  # its crossings tell that it was never awaited; Python need not warn too
                if inspect.getcoroutinestate(gathering) == inspect.CORO_CREATED:
                    gathering.close()
            self.gatherings = ()
        left = [entry for entry in root.entries if not entry.begun and (self is root or entry.tick is self)]
        for entry in left:
            root.entries.remove(entry)
            if entry.coroutine is not None:
                entry.coroutine.close()
                entry.coroutine = None
        return left

    def lane(self, entry: Entry) -> Tick:
        """Return the tick of code that has a lane."""
        lane = Tick(self._snapshot, self._member, self.number, self._inbox, self._receipts)
        lane._parent, lane._prefix, lane._at, entry.has_lane = self, f"{entry.at}.", f"{entry.at}.0", True
        lane._task = _current_task()
        lane.silent = self.silent
        return lane

    def join(self, lane: Tick) -> None:
        """Have what a lane left that ended well taken over, as soon as nothing is under way."""
        self._joined = self._joined or []
        self._joined.append((order(lane._prefix[:-1]), lane))

    def takes_over(self) -> None:
        if not self._joined or any(entry.tick is self for entry in self.root.entries):
            return  # lanes are taken over by ordinal, not by who ended first
        joined, self._joined = sorted(self._joined, key=lambda item: item[0]), None
        for _, lane in joined:
            lane.takes_over()
            self._did += lane._did
            for key, values in (lane._own or {}).items():
                if self._own is None:
                    self._own = {}
                self._own.setdefault(key, []).extend(values)
                if self._shared is not None:
                    self._shared.folded.pop(key, None)

    def own(self, key: str) -> list[Value]:
        """Return this tick's contributions to a key so far, in order."""
        if self._joined:
            self.takes_over()
        mine = (self._own or {}).get(key, [])
        return [*self._parent.own(key), *mine] if self._parent is not None else mine

    def begins(self, *, plain: bool) -> None:
        self._task = _current_task()
        self._plain = plain
        if self.silent:
            _silent[self._task] = self

    def ends(self) -> None:
        """Be dead from now on; calls that stray tasks left in flight are given up."""
        if _silent:
            _silent.pop(self._task, None)
        self._task = None
        # These point back at the tick. Let go of, it is freed at once, and the next one is built in its place: on a large
        # board that is half of what a tick costs.
        if self._memory is not None:
            self._memory = None
        if self._public is not None:
            self._public = None
        if self._shared is not None:
            self._shared = None
        if self.entries:
            for entry in self.flying:
                if entry.scope is not None:
                    entry.scope.cancel()

    def ends_lane(self) -> None:
        """Be dead from now on; the caller's tick goes on."""
        _silent.pop(self._task, None)
        self._task = None

    def is_over(self) -> bool:
        return self.root._task is None

    def becomes_silent(self, sensor: str, why: str) -> None:
        """Remember a silent sensor, so that UNKNOWN can tell which one it was."""
        if self.root.silent is None:
            self.root.silent = {}
        self.root.silent[sensor] = why
        for tick in (self, self.root):
            if tick._task is not None:
                _silent[tick._task] = self.root

    def contribution(self) -> Contribution:
        """Return what a tick that ended well leaves for the barrier."""
        if self._joined:
            self.takes_over()
        contribution = Contribution(self._member.agent.name, self.number, "well", self._did)
        if self._memory is not None:
            contribution.state, contribution.gone = self._memory.changes()
        if self._public is not None:
            contribution.public, contribution.public_gone = self._public.changes()
        return contribution

    def _alive(self) -> Tick:
        if self._task is None:
            self._over("has ended")
        return self

    def _mine(self) -> None:
        try:
            if _current_task() is not self._task:
                self._stray()
        except RuntimeError:
            self._stray()

    def owned_here(self) -> None:
        """Refuse a write to memory from a task that is neither the tick's own nor one of its lanes'."""
        try:
            task = _current_task()
        except RuntimeError:
            self._stray()
        if task is not self._task and not any(entry.task is task for entry in self.flying):
            self._stray()

    def _stray(self) -> NoReturn:
        self._over("has ended" if self._task is None else "belongs to another task; call it from the behavior itself")

    def _over(self, why: str) -> NoReturn:
        raise TickOver(self._member.agent.name, self._snapshot.round, why)


_silent: dict[Any, Tick] = {}
"""Ticks with silent sensors by task, so that UNKNOWN's refusal of a truth value can name them."""


def _reasons() -> list[str]:
    try:
        tick = _silent.get(_current_task())
    except RuntimeError:
        return []
    return [f"{sensor}: {why}" for sensor, why in (tick.silent or {}).items()] if tick is not None else []


Unperceived.reasons = staticmethod(_reasons)
