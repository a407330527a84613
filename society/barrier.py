"""The barrier: what the ticks of a round left behind becomes the state that the next round starts from.

A round is folded tick by tick, in order of activation. Synchronized, all inboxes are taken before the first contribution
counts; in turn, each contribution counts before the next agent looks. That is the only difference between the two.

Knows: states, contributions, merge rules, inboxes and their capacity.
Does not know: journals, clocks, behaviors, or whether the round is live or read from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from society.merge import MergeFailed, fold_contributions
from society.messages import WORLD, Message, Receipt
from society.records import Barrier, Contribution, Crossing, Intent, Result, Settlement, order
from society.spending import spent_after
from society.state import Action, State, Terms, action_of
from society.tally import tally, tally_crossings
from society.values import EMPTY, FrozenDict, Value

Crossings = Mapping[tuple[str, int], Sequence[Crossing]]
"""The crossing records of a round by (agent, number of its tick), in any order."""


@attrs.define
class Closed:
    """A round that is over: the state after it, and what its barrier did."""

    after: State
    merges: list[tuple[str, Value, int, list[str]]] = attrs.field(factory=list)
    """(key, value, version, writers), in declared order of keys."""
    conflicts: list[tuple[str, Value, list[tuple[str, Value]], list[str]]] = attrs.field(factory=list)
    """(key, kept, lost as (writer, value), writers)."""
    refused: list[tuple[Message | None, str, str, str]] = attrs.field(factory=list)
    """(message, sender, recipient, reason), in order of delivery."""
    undelivered: list[tuple[Message, str, str, str]] = attrs.field(factory=list)
    merged: dict[str, Value] = attrs.field(factory=dict)
    """Values of keys that a function merged, for the record."""
    conflict: str | None = None
    conflict_key: str | None = None
    looks: list[tuple[Sequence[Message], Sequence[Receipt]]] = attrs.field(factory=list)
    """What each tick found when it began, in order of activation."""
    event_versions: dict[str, int] = attrs.field(factory=dict)


def fold(before: State, terms: Terms, barrier: Barrier, crossings: Crossings) -> Closed:
    """Return what a recorded round did to the state before it."""
    going = RoundInProgress(before, terms, barrier)
    going.begin(barrier.events)
    if not terms.in_turn:
        going.take_all([contribution.agent for contribution in barrier.ticks])
    for contribution in barrier.ticks:
        if terms.in_turn:
            going.take(contribution.agent)
        going.add(contribution)
    return going.close(crossings, barrier.settled)


class RoundInProgress:
    """One round while it is folded; asked by ticks in turn for what already counts."""

    def __init__(self, before: State, terms: Terms, recorded: Barrier | None = None) -> None:
        """Begin a round.

        Args:
            before: The state it starts from.
            terms: What was declared.
            recorded: The barrier as it was recorded, where the round is folded from a journal: what functions merged
                is taken from it, since they are code.
        """
        self.recorded = recorded
        self.before = before
        self.terms = terms
        self.round = before.round + 1
        self.shared: dict[str, Value] = {}
        """Values that already count in this round, over those of the state before."""
        self.versions: dict[str, int] = {}
        self.event_versions: dict[str, int] = {}
        """Versions that the scenario's events changed at the start of this round."""
        self.memories: dict[str, FrozenDict] = {}
        self.publics: dict[str, FrozenDict] = {}
        self.broken: tuple[str, str] | None = None
        """(key, why): a merge in turn that failed; the round must not go on."""
        self.looks: list[tuple[Sequence[Message], Sequence[Receipt]]] = []
        self._writes: dict[str, list[tuple[str, Value]]] = {}
        self._boxes: dict[str, list[Message]] = {}
        self._taken: set[str] = set()
        self._receipts: dict[str, list[Receipt]] = {}
        self._sent: dict[str, int] = {}
        self._births: list[tuple[str, dict[str, Any]]] = []
        self._leaving: list[str] = []
        self._ended: list[Contribution] = []
        self._refused: list[tuple[Message | None, str, str, str]] = []
        self._undelivered: list[tuple[Message, str, str, str]] = []
        self._copies = 0
        self._read = 0
        self._retired = before.retired

    # ── the start of the round ──────────────────────────────────────────────────────────────────────────────────────

    def begin(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Let the scenario's events count, before anyone looks."""
        for event in events:
            for key, value in event.get("share", EMPTY).items():
                self._count_now(key, [value])
                self.event_versions[key] = self.versions[key]
            for key, value in event.get("set", EMPTY).items():  # a fork's change: it replaces, whatever the merge rule
                self.shared[key] = value
                self.versions[key] = self.event_versions[key] = self._version(key) + 1
            if "send" in event:
                send = event["send"]
                self._send(WORLD, send["to"], send["kind"], send["body"])

    def take_all(self, names: Sequence[str]) -> list[tuple[Sequence[Message], Sequence[Receipt]]]:
        """Return what each of those who tick at once finds: as `take`, for names of which none has taken anything yet."""
        boxes, inboxes, receipts = self._boxes, self.before.inboxes, self.before.receipts
        self._taken.update(names)
        for name in names:
            inbox = boxes.pop(name, None) if boxes else None
            if inbox is None:
                inbox = inboxes.get(name, ())  # type: ignore[assignment]
            self._read += len(inbox)  # type: ignore[arg-type]
            self.looks.append((tuple(inbox), tuple(receipts.get(name, ())) if receipts else ()))  # type: ignore[arg-type]
        return self.looks

    def take(self, name: str) -> tuple[Sequence[Message], Sequence[Receipt]]:
        """Return the inbox and receipts of an agent whose tick begins; they are used up, however it ends (R6)."""
        first = name not in self._taken
        self._taken.add(name)
        inbox = self._boxes.pop(name, None)
        if inbox is None:
            inbox = self.before.inboxes.get(name, ()) if first else ()  # type: ignore[assignment]
        if inbox:
            self._read += len(inbox)
        # Tuples: a behavior that empties what it was shown would change the story of what it received.
        look = tuple(inbox or ()), tuple(self.before.receipts.get(name, ())) if first else ()
        self.looks.append(look)
        return look

    # ── one tick's contribution ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, contribution: Contribution) -> None:
        """Count what a tick left behind; of one that did not end well, only how it ended (R4)."""
        self._ended.append(contribution)
        agent = contribution.agent
        if contribution.ending != "well":
            if self.terms.retire_failed and contribution.ending == "failed" and agent not in self._leaving:
                self._leaving.append(agent)
            return
        touched = False
        for did in contribution.did:
            match did[0]:
                case "send":
                    self._send(agent, did[2], did[3], did[4])
                case "share":
                    self._writes.setdefault(did[2], []).append((agent, did[3]))
                    if self.terms.in_turn:
                        touched = True
                case "spawn":
                    self._births.append((agent, did[2]))
                case "retire":
                    if agent not in self._leaving:
                        self._leaving.append(agent)
        if touched:
            self._merge_in_turn(contribution)
        if contribution.state or contribution.gone:
            self.memories[agent] = _changed(self.memory(agent), contribution.state or {}, contribution.gone or ())
        if contribution.public or contribution.public_gone:
            self.publics[agent] = _changed(
                self.public(agent), contribution.public or {}, contribution.public_gone or ()
            )

    def memory(self, name: str) -> FrozenDict:
        found = self.memories.get(name)
        return self.before.memories.get(name, EMPTY) if found is None else found

    def public(self, name: str) -> FrozenDict:
        found = self.publics.get(name)
        return self.before.publics.get(name, EMPTY) if found is None else found

    def value(self, key: str) -> Value:
        """Return what counts now for a declared key."""
        return self.shared[key] if key in self.shared else self.before.shared[key]

    def _merge_in_turn(self, contribution: Contribution) -> None:
        by_key: dict[str, list[Value]] = {}
        for did in contribution.did:
            if did[0] == "share":
                by_key.setdefault(did[2], []).append(did[3])
        for key, values in by_key.items():
            self._count_now(key, values)

    def _count_now(self, key: str, values: list[Value]) -> None:
        rule = self.terms.shared[key].merge
        try:
            # In turn nobody else writes at the same time: `first` and `error` have nothing to decide (Q3).
            self.shared[key] = self._folded(key, "last" if rule == "first" else rule, values)
        except MergeFailed as failed:
            self.broken = self.broken or (key, str(failed))
        self.versions[key] = self._version(key) + len(values)

    def _folded(self, key: str, rule: Any, values: list[Value]) -> Value:
        if self.recorded is not None and callable(rule):
            if key not in self.recorded.merged:
                raise MergeFailed("its function raised when the round was recorded")
            return self.recorded.merged[key]
        return fold_contributions(rule, self.value(key), values)

    def _version(self, key: str) -> int:
        return self.versions[key] if key in self.versions else self.before.versions[key]

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, sender: str, to: str | None, kind: str, body: FrozenDict) -> None:
        number = self._sent.get(sender, 0) + 1
        self._sent[sender] = number
        message = Message(sender, kind, body, self.round, number, to)
        boxes, capacity = self._boxes, self.terms.inbox_capacity
        for name in (to,) if to is not None else self.before.live:
            if to is None and name == sender:
                continue
            self._copies += 1
            if name in self._retired:
                self._return(self._undelivered, message, name, "retired")
                continue
            box = boxes.get(name)
            if box is None:
                # Who does not tick keeps the inbox: what waits there comes first.
                box = boxes[name] = [] if name in self._taken else list(self.before.inboxes.get(name, ()))
            if capacity is not None and len(box) >= capacity:
                self._return(self._refused, message, name, "inbox full")
                continue
            box.append(message)

    def _return(self, where: list[Any], message: Message, to: str, reason: str) -> None:
        where.append((message, message.sender, to, reason))
        if message.sender != WORLD:
            self._receipts.setdefault(message.sender, []).append(Receipt(message, to, reason))

    # ── the end of the round ────────────────────────────────────────────────────────────────────────────────────────

    def close(self, crossings: Crossings, settled: Sequence[Settlement] = ()) -> Closed:
        """Return the state after the round and what the barrier did.

        Args:
            crossings: The round's crossing records.
            settled: The doubts that proof has cleared.
        """
        closed = Closed(self.before, looks=self.looks, event_versions=self.event_versions)
        if self.broken is not None:
            closed.conflict_key, closed.conflict = self.broken
        if self.recorded is not None and self.recorded.conflict is not None:
            closed.conflict, closed.conflict_key = self.recorded.conflict, self.recorded.conflict_key
        for key in sorted(self._writes, key=self.terms.places.__getitem__):
            self._merge(closed, key, self._writes[key])
        closed.merged = {key: value for key, value in self.shared.items() if callable(self.terms.shared[key].merge)}
        if closed.conflict is not None:
            closed.merges = []
            closed.after = self._only_effects(closed, crossings, {settlement.id for settlement in settled})
            return closed
        born = self._bear()
        gone = frozenset(self._leaving)
        self._turn_back(gone)
        closed.refused, closed.undelivered = self._refused, self._undelivered
        closed.after = self._after(closed, born, gone, crossings, {settlement.id for settlement in settled})
        return closed

    def _merge(self, closed: Closed, key: str, writes: list[tuple[str, Value]]) -> None:
        writers = list(dict.fromkeys(agent for agent, _ in writes))
        if not self.terms.in_turn and not self._merge_at_once(closed, key, writes, writers):
            return
        if key in self.shared:
            closed.merges.append((key, self.shared[key], self._version(key), writers))

    def _merge_at_once(self, closed: Closed, key: str, writes: list[tuple[str, Value]], writers: list[str]) -> bool:
        """Fold all contributions of a round to one key; return whether it could be done."""
        before, rule = self.value(key), self.terms.shared[key].merge
        why = None
        if rule == "error" and len(writers) > 1:
            why = f"{' and '.join(writers)} wrote {key} in one round, and its merge rule is error"
        else:
            try:
                merged = self._folded(key, rule, [value for _, value in writes])
            except MergeFailed as failed:
                why = str(failed)
        if why is not None or (closed.conflict is not None and closed.conflict_key == key):
            closed.conflicts.append((key, before, writes, writers))
            closed.conflict, closed.conflict_key = closed.conflict or why, closed.conflict_key or key
            return False
        if rule in ("last", "first") and len(writers) > 1:
            kept = len(writes) - 1 if rule == "last" else 0
            closed.conflicts.append((key, merged, [write for at, write in enumerate(writes) if at != kept], writers))
        self.shared[key] = merged
        self.versions[key] = self._version(key) + len(writes)
        return True

    def _bear(self) -> list[dict[str, Any]]:
        """Return the births that count, in the order of their parents and of the calls; refuse the others (R13)."""
        born: dict[str, dict[str, Any]] = {}
        for parent, child in self._births:
            name = child["name"]
            if name in born or name in self.before.groups:
                self._refused.append((None, parent, name, "name taken"))
                self._receipts.setdefault(parent, []).append(Receipt(None, name, "name taken"))
            else:
                born[name] = {**child, "parent": parent}
        return list(born.values())

    def _turn_back(self, gone: frozenset[str]) -> None:
        """Turn back what waits for those who leave at this barrier."""
        for name in self.before.live:
            if name not in gone:
                continue
            box = self._boxes.pop(name, None)
            if box is None and name not in self._taken:
                box = list(self.before.inboxes.get(name, ()))
            self._taken.add(name)
            for message in box or ():
                self._return(self._undelivered, message, name, "retired")

    def _after(
        self, closed: Closed, born: list[dict[str, Any]], gone: frozenset[str], crossings: Crossings, settled: set[str]
    ) -> State:
        before = self.before
        inboxes: dict[str, Sequence[Message]] = {name: box for name, box in self._boxes.items() if box}
        receipts: dict[str, Sequence[Receipt]] = dict(self._receipts)
        for name, kept in before.inboxes.items():
            if name not in self._taken:
                inboxes.setdefault(name, kept)  # a box that got more starts with what was kept
        for name, heard in before.receipts.items():
            if name not in self._taken:
                receipts[name] = [*heard, *receipts.get(name, ())]
        for name in gone:
            receipts.pop(name, None)
        doubts, stranded = self._doubts(crossings, settled)
        names, live, groups = before.names, before.live, before.groups
        memories, publics = _written(before.memories, self.memories), _written(before.publics, self.publics)
        if gone:
            live = tuple(name for name in live if name not in gone)
        if born:
            children = tuple(child["name"] for child in born)
            names, live = names + children, live + children
            groups = {**groups, **{child["name"]: child.get("group") for child in born}}
            memories = _written(
                memories, {child["name"]: FrozenDict(child["state"]) for child in born if child.get("state")}
            )
            publics = _written(
                publics, {child["name"]: FrozenDict(child["public"]) for child in born if child.get("public")}
            )
        counts = tally(
            before.counts,
            ticks=self._ended,
            crossings=crossings,
            doubts=len(doubts),
            sent=self._copies,
            read=self._read,
            refused=sum(1 for message, *_ in closed.refused if message is not None),
            undelivered=len(closed.undelivered),
            waiting=sum(map(len, inboxes.values())) - sum(map(len, before.inboxes.values())),
            writes=sum(self.versions[key] - before.versions[key] for key in self.versions),
            conflicts=len(closed.conflicts),
            births=len(born),
            retired=len(gone),
        )
        return State(
            round=self.round,
            names=names,
            groups=groups,
            live=live,
            births=(*before.births, *born) if born else before.births,
            keys=before.keys,
            retired=before.retired | gone if gone else before.retired,
            shared=_written(before.shared, self.shared),
            versions=_written(before.versions, self.versions),
            changed={key: self.versions[key] for key, *_ in closed.merges},
            inboxes=inboxes,
            receipts=receipts,
            memories=memories,
            publics=publics,
            doubts=doubts,
            stranded=stranded,
            counts=counts,
            spent=spent_after(before.spent, crossings) if crossings else before.spent,
        )

    def _only_effects(self, closed: Closed, crossings: Crossings, settled: set[str]) -> State:
        """Return the state before, of which nothing was applied; what the tools did has happened all the same."""
        doubts, _ = self._doubts(crossings, settled)
        counts = tally_crossings(self.before.counts, crossings)
        counts["in_doubt"] = len(doubts)
        counts["shared_conflicts"] += len(closed.conflicts)
        return attrs.evolve(self.before, doubts=doubts, counts=counts, spent=spent_after(self.before.spent, crossings))

    def _doubts(
        self, crossings: Crossings, settled: set[str]
    ) -> tuple[Mapping[str, Action], Mapping[str, tuple[Action, ...]]]:
        if not (crossings or settled or self.before.stranded):
            return self.before.doubts, self.before.stranded
        doubts, stranded = dict(self.before.doubts), dict(self.before.stranded)
        for contribution in self._ended:
            actions = effects(crossings.get((contribution.agent, contribution.tick), ()))
            for action in actions:
                if action.ending == "in_doubt":
                    doubts[action.id] = action
            if contribution.ending == "well":
                stranded.pop(contribution.agent, None)
            elif actions:
                stranded[contribution.agent] = (*stranded.get(contribution.agent, ()), *actions)
        for name in settled:
            doubts.pop(name, None)
        return doubts, stranded


def effects(crossings: Sequence[Crossing]) -> list[Action]:
    """Return the actions of a tick that were started, in canonical order, with how each ended."""
    actions: dict[str, Action] = {}
    # Reading calls overlap, so records arrive in any order; what is told of them does not.
    for record in sorted(crossings, key=lambda record: order(record.at)):
        if isinstance(record, Intent):
            actions.setdefault(record.id, action_of(record, "in_doubt"))
    for record in crossings:
        if isinstance(record, Result) and record.id in actions:
            begun = actions[record.id]
            actions[record.id] = Action(
                begun.id, begun.agent, begun.round, begun.tool, begun.arguments, record.ending, record.value
            )
    return list(actions.values())


def _changed(before: FrozenDict, assigned: Mapping[str, Value], deleted: Iterable[str]) -> FrozenDict:
    after = dict(before)
    for key in deleted:
        after.pop(key, None)
    after.update(assigned)
    return FrozenDict(after)


def _written(before: Any, changes: Mapping[str, Any]) -> Any:
    if not changes:
        return before
    with before.mutate() as after:
        for key, value in changes.items():
            after[key] = value
        return after.finish()
