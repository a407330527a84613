"""Societies: agents, hosts and SHARED, brought from round to round until an outcome holds.

`AsyncSociety` ticks all agents at once on one snapshot; `Society` ticks them one after another. Both are awaited, and both
are one implementation: what differs is who is activated when, and when a contribution counts.

Knows: the order of steps of a run, and which outcome it ends with.
Does not know: how ticks run (rounds.py), how they are merged (barrier.py), or how a journal is kept (store.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio

from society import connections, story
from society.agent import Agent
from society.barrier import RoundInProgress
from society.budget import Budget
from society.collector import paused
from society.conditions import compile_until
from society.continuing import Continuing
from society.declaring import (
    IN_TURN,
    SYNCHRONIZED,
    check_activation,
    check_kind,
    check_options,
    check_references,
    checked_list,
    dated_events,
    declared_shared,
    frozen_parameters,
)
from society.draw import activated
from society.errors import ScenarioError, SocietyError, leaves
from society.event_loop import check_trio
from society.expressions import Names
from society.gate import Gate
from society.limits import Limits
from society.looks import Looks
from society.measuring import Measure, Measures, looked_at
from society.members import Members
from society.models import named_models
from society.neighbors import topology_by_name
from society.outcomes import Past, finished, lasts, outcome_after, past
from society.policy import Policy
from society.records import Barrier, Contribution, End, Late, Opening
from society.replaying import Replaying, scripted
from society.retelling import retold
from society.rounds import RoundUnderWay
from society.run_result import RunResult
from society.settling import settlements
from society.slots import Boundaries
from society.snapshot import Snapshot
from society.spending import total
from society.state import State, Terms, first_state
from society.survival import Keeping, journaled
from society.telling import Telling
from society.trace import Trace


class AsyncSociety(Looks, Continuing):
    """A society whose agents tick all at once, in synchronized rounds (R).

    `activation="partial"` with a `rate` is synchronized too: in each round every agent joins with that probability, on its
    own, keyed by seed, round and name. All who join look at one snapshot; who does not keeps its inbox. 1 is `synchronized`.

    Args:
        agents: In declared order.
        hosts: One host for all, or by agent's name a host or a list of hosts.
        shared: By key, a `Shared` or a plain value.
        limits: Bounds for the whole society.
        model: What agents ask, anything with `async def reply(request)`; or several of them by name.
        budget: How much all of them may use; judged after each round, whose end it makes the run's.
        policy: Rules for everyone; an agent's own add up with it.
        parameters: What ticks see as `tick.parameters`.
        topology: Who is next to whom: by agent's name, the names of its neighbors; a graph of networkx whose nodes are
            agents' names; or `grid(width, height)`, whose places are the agents in declared order.
        measures: By name, a function of a view that returns a number, or a dict of numbers by agent.
        seed: Of all random numbers.
        store: Where the journal lives; without one the run lives in this process alone.
        run_id: Names the run in idempotency keys; a fresh one where None.
        on_error: After a failed tick `"stop"`, `"continue"`, or `"retire"` the agent.
        until: A function of a view; the run is `satisfied` after the first barrier where it holds.
        quiet: End the run as `quiet` once nothing is in flight and everybody has had a tick since anything was written:
            after a round that wrote nothing, or after several, where a round is not everybody's (`random`, `partial`).
        approver, asker: Instead of the hosts' own.
        behaviors: Functions that `spawn` may use in a run with a durable store.
        events: What the world does: `{"round": 3, "share": {…}}` or `{"round": 3, "send": {"to", "kind", "body"}}`.
        name: Of the scenario, for the trace.
        keep_trace: Without a trace a run costs less; results then have `trace=None`.
        meaning, code: What may not change on resume, by key path, and digests of files whose change is only recorded.
        forced: Resume although the meaning has changed; the journal says so.

    Raises:
        ScenarioError: Something is declared wrongly.
    """

    activations: tuple[str, ...] = SYNCHRONIZED

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        hosts: Any = None,
        shared: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        model: Any = None,
        policy: Policy | None = None,
        parameters: Mapping[str, Any] | None = None,
        topology: Any = None,
        measures: Mapping[str, Measure] | None = None,
        seed: int = 0,
        store: Any = None,
        run_id: str | None = None,
        on_error: str = "stop",
        until: Callable[[Any], Any] | str | None = None,
        quiet: bool = False,
        budget: Budget | None = None,
        approver: Any = None,
        asker: Any = None,
        behaviors: Iterable[Callable[..., Any]] = (),
        events: Iterable[Mapping[str, Any]] = (),
        name: str = "society",
        activation: str | None = None,
        rate: float | None = None,
        keep_trace: bool = True,
        meaning: Mapping[str, Any] | None = None,
        code: Mapping[str, str] | None = None,
        forced: bool = False,
    ) -> None:
        self.name = name
        self.activation = activation if activation is not None else self.activations[0]
        check_activation(self.activation, self.activations, type(self).__name__, rate)
        check_options(
            seed=seed,
            on_error=on_error,
            limits=limits,
            policy=policy,
            shared=shared,
            parameters=parameters,
            hosts=hosts,
            measures=measures,
            behaviors=behaviors,
            store=store,
            events=events,
            until=until,
            quiet=quiet,
            keep_trace=keep_trace,
            name=name,
            run_id=run_id,
            approver=approver,
            asker=asker,
        )
        check_kind("budget", budget, Budget)
        self.seed = seed
        self.rate = rate
        self.limits = limits if limits is not None else Limits()
        self.on_error = on_error
        self.approver = approver
        self.asker = asker
        self._declared_agents = tuple(checked_list("agents", agents))
        for at, agent in enumerate(self._declared_agents):
            check_kind(f"agents[{at}]", agent, Agent, default=False)
            check_kind(f"agents[{at}].policy", agent.policy, Policy, default=False)
        self.budget = budget
        self._models = named_models(model, budget, self._declared_agents)
        self._shared = declared_shared(shared or {})
        self._parameters = frozen_parameters(parameters)
        if isinstance(until, str):
            until = compile_until(until, names=Names(shared=tuple(self._shared), parameters=tuple(self._parameters)))
        self._until = until
        self._quiet = quiet
        self._measures = Measures(dict(measures or {}))
        self.state: State = first_state(self._declared_agents, self._shared)
        check_references(self.state.groups, self._shared, hosts)
        self.terms = Terms(
            shared=self._shared,
            in_turn=self.activation in IN_TURN,
            inbox_capacity=self.limits.inbox_capacity,
            retire_failed=on_error == "retire",
        )
        self._topology = None if topology is None else topology_by_name(topology, self.state.names)
        self._events = dated_events(events, self._shared, self.state)
        self.store = store
        self.members = Members(
            self._declared_agents,
            hosts,
            policy if policy is not None else Policy(),
            self._shared,
            behaviors,
            lambda: self.store is not None and not getattr(self.store, "forgets", False),
        )
        self.run_id = run_id if run_id is not None else uuid.uuid4().hex
        self._meaning, self._code = dict(meaning or {}), dict(code or {})
        self._telling = Telling(keep=keep_trace)
        self.follower: Callable[..., None] | None = None  # called with each barrier: see comparing.py
        self._gate: Gate | None = None
        self.boundaries = Boundaries(self.limits)
        self.forced = forced
        self.known_changes: list[str] = []
        self._replaying: Replaying | None = None
        self._from_store = False
        self._started = False
        self._running = False
        self._end: End | None = None
        self._last: Past | None = None
        self._left_open: list[Any] = []
        self._changes: dict[int, list[Any]] = {}
        self._scope: trio.CancelScope | None = None
        self._stop: End | None = None
        self._broken: BaseException | None = None
        self._under_way: RoundUnderWay | None = None

    # ── what users do with it ───────────────────────────────────────────────────────────────────────────────────────

    async def run(self, max_ticks: int) -> RunResult:
        """Bring the society on to round `max_ticks` of its life, or to another outcome before.

        Raises:
            TrioNeeded: No trio runs here; `society.aio.run` is for asyncio.
            SocietyError: The journal could not be kept, or the run is under way already.
            trio.Cancelled: The surrounding scope was cancelled; the run can be resumed.
        """
        check_trio("a society")
        if isinstance(max_ticks, bool) or not isinstance(max_ticks, int) or max_ticks < 0:
            raise ScenarioError(f"max_ticks: {max_ticks!r} is not a number of rounds, 0 or more.")
        if self._running:
            raise SocietyError(
                f"{self.name}: this society is running already; await the first run, or build another one."
            )
        self._running = True
        try:
            return await (self._connected(max_ticks) if self.members.connections else self._run(max_ticks))
        finally:
            self._running = False

    async def tick(self) -> RunResult:
        """Bring the society on by one round."""
        return await self.run(self.state.round + 1)

    def cancel(self) -> None:
        """End the run as `cancelled`: no further crossing starts, calls in flight are cancelled. It can be resumed."""
        self._halt(End(outcome="cancelled", reason="cancelled"))

    def interrupt(self, reason: str = "interrupted") -> None:
        """End the run as `interrupted`, as a signal does."""
        self._halt(End(outcome="interrupted", reason=reason))

    @property
    def measures(self) -> Mapping[str, Any]:
        if self._from_store and self._measures.functions:
            return self.trace.measures
        return {name: list(values) for name, values in self._measures.found.items()}

    @property
    def trace(self) -> Trace:
        """The trace so far; with its last line once the run has ended.

        Raises:
            SocietyError: `keep_trace` is off.
        """
        if not self._telling.keep:
            raise SocietyError(f"{self.name}: no trace is kept (keep_trace=False).")
        if self._from_store:
            return Trace(retold(list(self.store.read().records())).data)
        self._tell_start()
        return Trace(self._telling.told(self._end, self.state.round))

    def render_traces(self, **options: Any) -> str:
        """Return the trace as text to read; options are those of `Trace.render`."""
        return self.trace.render(**options)

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _connected(self, max_ticks: int) -> RunResult:
        """Run with all connections open. A replay opens none, nor does a run that has ended: what they offer is recorded."""
        if self._replaying is not None or await self._is_over(max_ticks):
            return await self._run(max_ticks)
        self._stop = None
        with trio.CancelScope() as self._scope:  # a run that is asked to end may be waiting for a server to begin
            async with connections.opened(self.members.connections):
                self._seat_again()
                return await self._run(max_ticks)
        return self._result(self._stop or End(outcome="cancelled", reason="cancelled"))

    async def _run(self, max_ticks: int) -> RunResult:
        if self.store is None:
            return await self._run_with(None, max_ticks)
        async with journaled(self) as journal:
            return await self._run_with(journal, max_ticks)

    async def _run_with(self, journal: Any, max_ticks: int) -> RunResult:
        if self._end is not None and lasts(self._end, self.round, max_ticks):
            return self._result(self._end)
        if self._end is not None and self._end.outcome == "failed" and self._last is not None:
            self._last = attrs.evolve(self._last, failed=None)  # whoever runs it again goes on behind the failure
        self._end = None
        self._stop = self._broken = None
        self.boundaries.begin()
        gate = self._gate = Gate(
            limits=self.limits,
            boundaries=self.boundaries,
            run_id=self.run_id,
            journal=journal,
            approver=self.approver,
            asker=self.asker,
            crash=self._crashed,
            parked=self._parked,
            replaying=self._replaying,
        )
        if self._models or self._replaying is not None:
            from society.asking import Asking

            gate.asking = Asking(gate, self._models)
        end = None
        try:
            with trio.CancelScope() as self._scope:
                end = await self._rounds(gate, max_ticks)
        except BaseExceptionGroup as group:
            raise self._broken or plainest(group) from None
        finally:
            self._scope, self._under_way = None, None
            gate.closed = True
            self._left_open = gate.open
        if self._broken is not None:
            raise self._broken
        end = end or self._stop or End(outcome="cancelled", reason="cancelled")
        await self._close_run(gate, end)
        return self._result(end)

    async def _close_run(self, gate: Gate, end: End) -> None:
        self._end = end
        if gate.journal is not None:
            gate.journal.put(end)
            await gate.durable()

    def _halt(self, end: End) -> None:
        if self._scope is not None:
            self._stop = self._stop or end
            self._scope.cancel()

    def _crashed(self, error: BaseException) -> None:
        self._broken = self._broken or error
        if self._scope is not None:
            self._scope.cancel()

    def _is_ending(self) -> bool:
        return self._broken is not None or self._stop is not None

    def _parked(self) -> None:
        """Take note that somebody waits for a person's answer that comes in another process."""
        if self._under_way is not None:
            self._under_way.parked = True
            self._look_who_waits()

    def _look_who_waits(self) -> None:
        """End the run as `waiting` once all who are not done with their tick wait for a person (R14)."""
        if self._under_way is not None and self._under_way.waits_for_people():
            self._halt(End(outcome="waiting", reason="everyone who is not done waits for a person's answer"))

    async def _rounds(self, gate: Gate, max_ticks: int) -> End:
        if not self._started:
            self._begin(gate)
        elif self._last is not None and (end := self._outcome(max_ticks)) is not None:
            return end
        while True:
            if (end := finished(self.state, max_ticks)) is not None:
                return end
            await self._round(gate)
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._replaying is not None and self._replaying.goes_on:
                continue  # a run that went on after an end, went on
            if (end := self._outcome(max_ticks)) is not None:
                return end

    def _begin(self, gate: Gate) -> None:
        self._started = True
        self._tell_start()
        record = Opening(measures=self._measures.take(self.view()))
        gate.put(record)
        gate.open.clear()
        self._telling.add(story.opening(record))

    def _tell_start(self) -> None:
        if not self._telling.begun:
            self._telling.begin(self.start_record())

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _round(self, gate: Gate) -> None:
        before = self.state
        round = before.round + 1
        going = RoundInProgress(before, self.terms)
        events = [*self._changes.get(round, ()), *self._events.get(round, ())]
        going.begin(events)
        snapshot = Snapshot(
            round,
            before,
            going,
            self.terms,
            self._parameters,
            self.seed,
            gate,
            self.members.check_birth,
            neighbors=self._topology,
        )
        if self._replaying is not None:
            self._left_open = self._replaying.of_round(round)
        script = scripted(self._left_open, round)
        gate.late += [record for record in self._left_open if isinstance(record, Late)]
        gate.open = [*self._left_open]
        gate.hear()
        self._left_open = []
        way = self._under_way = RoundUnderWay(
            snapshot, self.limits.round_timeout, script, self._is_ending, self._look_who_waits
        )
        ordered = activated(self.activation, before.live, self.seed, round, self.rate)
        members = [self.members.of(name) for name in ordered]
        if self._replaying is not None:
            way.given = self._replaying.late_ticks(round)
        if going.broken is not None:
            contributions: list[Contribution] = []
        elif self.terms.in_turn:
            contributions = await way.in_turn(members)
        else:
            contributions = await way.at_once(members)
        await trio.lowlevel.checkpoint_if_cancelled()
        with paused():
            for contribution in contributions if not self.terms.in_turn else ():
                going.add(contribution)
            self._close(gate, going, way, events, contributions)
        if isinstance(gate.journal, Keeping) and gate.journal.after_round(self):
            # Shielded: the record is whole or not at all, and whoever cancels now finds the round done.
            with trio.CancelScope(shield=True):
                await gate.durable()

    def _close(
        self,
        gate: Gate,
        going: RoundInProgress,
        way: RoundUnderWay,
        events: list[Any],
        contributions: list[Contribution],
    ) -> None:
        """The barrier: contributions become the next state, one record, and the lines of the trace."""
        settled = settlements(going.before, way.crossings, gate.late)
        closed = going.close(way.crossings, settled)
        after = closed.after
        if closed.conflict is None and len(after.names) > len(going.before.names):
            self.members.adopt(contributions, way.snapshot.births)
        barrier = Barrier(
            round=going.round,
            events=events,
            ticks=contributions,
            merged=closed.merged,
            conflict=closed.conflict,
            conflict_key=closed.conflict_key,
            settled=settled,
            in_doubt=list(after.doubts),
            measures=self._measures.take(self.view(after)) if closed.conflict is None else [],
        )
        if self._replaying is not None:
            self._replaying.compare(barrier)
        gate.put(barrier)
        self._telling.add(story.tell(going.before, barrier, way.crossings, closed))
        self.state = after
        if self.follower is not None:
            self.follower(going.before, after, self._topology, barrier)
        self._last = past(barrier, closed, after, self._quiet, self._last)
        gate.open.clear()
        gate.late = []

    def _outcome(self, max_ticks: int) -> End | None:
        assert self._last is not None
        last = self._last
        if self._replaying is not None and self._replaying.failure_passed:
            last = attrs.evolve(last, failed=None)
        return outcome_after(
            last,
            self.state,
            on_error=self.on_error,
            max_ticks=max_ticks,
            until=lambda: self._until is not None and bool(looked_at("until", self._until, self.view())),
            quiet=self._quiet,
            budget=self._used_up(),
            events_to_come=any(round > self.state.round for round in self._events),
        )

    def _used_up(self) -> str | None:
        """Return which bound of the society's budget is reached; judged at the barrier, as all share it (L6)."""
        if self.budget is None:
            return None
        spent = total(self.state.spent.values())
        return self.budget.spent_by(spent, spent.nano_usd)

    def _result(self, end: End) -> RunResult:
        spent = total(self.state.spent.values())
        return RunResult(
            outcome=end.outcome,
            reason=end.reason,
            rounds=self.state.round,
            shared=self.shared,
            metrics=self.metrics,
            measured=lambda: self.measures,
            tell=(lambda: self.trace) if self._telling.keep else _nothing,
            usage=spent.usage,
            cost_usd=spent.cost_usd,
            in_doubt=tuple(self.state.doubts.values()),
        )


class Society(AsyncSociety):
    """A society whose agents tick one after another; each contribution counts before the next agent looks (Q).

    `activation`: `sequential` in declared order; `shuffled`, each round in an order of its own, keyed by seed, round and
    name, so that a newcomer moves nobody else; `random`, as many single ticks as there are agents, drawn with replacement
    and keyed by seed and round: in a round an agent may tick twice (with random numbers of its own each time) or not at all.
    It is awaited like `AsyncSociety`: the name tells the semantics, not the event loop.
    """

    activations = IN_TURN


def plainest(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a caller should see of a group: an interrupt, or the only error in it, not the tasks it climbed through."""
    found = leaves(group)
    interrupts = [leaf for leaf in found if isinstance(leaf, KeyboardInterrupt)]
    others = [leaf for leaf in found if not isinstance(leaf, trio.Cancelled)]
    return interrupts[0] if interrupts else others[0] if len(others) == 1 else group


def _nothing(*_: object) -> None:
    return None
