"""What a journal has to do with a society: its first record, what a checkpoint remembers, and standing where it ends.

Knows: what of a society is written down, and how it is put back.
Does not know: rounds, and where the journal is (survival.py, reruns.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import trio

from society import connections
from society.agent import Agent
from society.barrier import Closed
from society.declare import declaration
from society.meaning import meaning_in_python
from society.measuring import Measures
from society.members import Members
from society.neighbors import Topology
from society.outcomes import Past, lasts, past
from society.records import Barrier, End, Start
from society.replaying import Replaying
from society.retelling import forked_events
from society.shared import Shared
from society.state import State, Terms
from society.values import Value


class Continuing:
    """The part of a society that is recorded and restored."""

    name: str
    run_id: str
    activation: str
    seed: int
    rate: float | None
    on_error: str
    terms: Terms
    state: State
    members: Members
    _declared_agents: tuple[Agent, ...]
    _shared: Mapping[str, Shared]
    _parameters: Mapping[str, Value]
    _topology: Topology | None
    _until: Callable[[Any], Any] | None
    _quiet: bool
    _events: Mapping[int, list[Any]]
    _measures: Measures
    _meaning: Mapping[str, Any]
    _code: dict[str, str]
    _last: Past | None
    _end: End | None
    store: Any
    _started: bool
    _replaying: Replaying | None
    _left_open: list[Any]
    _changes: dict[int, list[Any]]
    _from_store: bool
    """The trace is told from the journal: this object did not live through all of it."""

    def remembered(self) -> dict[str, Any]:
        """Return what decides on the outcome after the last round, for a checkpoint."""
        return _written(self._last) if self._last is not None else {}

    def remembered_of(self, barrier: Barrier, closed: Closed, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the same of a recorded round. `before` is that of the round before."""
        return _written(past(barrier, closed, closed.after, self._quiet, Past(**before) if before else None))

    def continue_from(
        self,
        state: State,
        remembered: Mapping[str, Any] | None,
        open_round: Sequence[Any],
        end: End | None,
        *,
        begun: bool,
        changes: Mapping[int, list[Any]],
    ) -> None:
        """Stand where a journal ends: the state after its last round, and the records of the open one."""
        self.members.bear_again(state.births)
        self.state = state
        self._last = Past(**remembered) if remembered else None
        self._left_open = list(open_round)
        self._end = end
        self._started = begun
        self._from_store = True
        self._changes = dict(changes)

    def replay(self, run_id: str, replaying: Replaying, records: Sequence[Any]) -> None:
        """Take all answers from a journal from now on, and be compared with it."""
        self.run_id = run_id
        self._replaying = replaying
        self._changes = forked_events(records)
        if self.members.connections:
            connections.recall(self.members.connections, records[0].meaning)
            self._seat_again()

    async def _is_over(self, max_ticks: int) -> bool:
        """Tell whether a run has nothing more to do; its connections then offer what they offered, and need not be open."""
        if self._end is not None or self.store is None:
            return self._end is not None and lasts(self._end, self.state.round, max_ticks)
        found = await trio.to_thread.run_sync(self.store.read)
        if not found.kinds or found.kinds[-1] != "end":
            return False
        barrier = found.last("barrier")
        end, round = found.record(len(found) - 1), 0 if barrier is None else found.record(barrier).round
        if not lasts(end, round, max_ticks):
            return False
        unknown = [one for one in self.members.connections if one.catalog is None]
        connections.recall(unknown, found.record(0).meaning)
        self._seat_again()
        return True

    def start_record(self) -> Start:
        """Return the first record of this run's journal."""
        return Start(
            run_id=self.run_id,
            scenario=self.name,
            activation=self.activation,
            seed=self.seed,
            agents=[agent.name for agent in self._declared_agents],
            declared=declaration(
                self._declared_agents, self._shared, self.terms, self.on_error, rate=self.rate, topology=self._topology
            ),
            meaning=self._whole_meaning,
            code=self._code,
        )

    @cached_property
    def _whole_meaning(self) -> dict[str, Any]:
        """What may not change on resume, besides what is declared; of a scenario, its file says most of it."""
        here = self._meaning or meaning_in_python(
            agents=self._declared_agents,
            parameters=self._parameters,
            policy=self.members.policy,
            until=self._until,
            quiet=self._quiet,
            events=self._events,
            measures=self._measures.functions,
        )
        return {**here, **self.members.meaning(), **connections.meaning_of(self.members.connections)}

    def _seat_again(self) -> None:
        self.members.seat_again()
        self.__dict__.pop("_whole_meaning", None)  # it knows more now


def _written(past: Past) -> dict[str, Any]:
    return attrs.asdict(past, filter=lambda field, value: field.name != "silent" or bool(value))
