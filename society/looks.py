"""What can be looked at of a society before, between and after its rounds, by its users, its measures and `until`.

Knows: the state, and how its parts are shown.
Does not know: how the state comes about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from society import connections
from society.gate import Gate
from society.measuring import Measures
from society.members import Members
from society.rounds import RoundUnderWay
from society.shared import Shared
from society.slots import Boundaries
from society.state import State
from society.values import Value
from society.views import Agents, Counts, SharedValues, View


class Looks:
    """The part of a society that only looks at it."""

    name: str
    state: State
    members: Members
    boundaries: Boundaries
    _shared: Mapping[str, Shared]
    _parameters: Mapping[str, Value]
    _measures: Measures
    _gate: Gate | None
    _under_way: RoundUnderWay | None

    @property
    def round(self) -> int:
        """Rounds that were completed."""
        return self.state.round

    @property
    def shared(self) -> Mapping[str, Value]:
        return SharedValues(self._shared, self.state.shared)

    @property
    def versions(self) -> Mapping[str, int]:
        """By SHARED key, the number of contributions so far, kept or lost."""
        return SharedValues(self._shared, self.state.versions)

    @property
    def agents(self) -> Agents:
        return Agents(self.members.agents, self.state)

    @property
    def parameters(self) -> Mapping[str, Value]:
        return self._parameters

    @property
    def metrics(self) -> Counts:
        return Counts(self.state.counts)

    @property
    def stats(self) -> Counts:
        """By boundary, how calls queued: depends on time, and is never traced."""
        numbers = (self._gate or self.boundaries).stats()
        there = connections.stats_of(self.members.connections)
        return Counts({boundary: Counts(found) for boundary, found in {**numbers, **there}.items()})

    @property
    def curves(self) -> Mapping[str, Sequence[float | None]]:
        """What was measured since this object was made, by measure; of numbers by agent, their mean."""
        return self._measures.curves

    @property
    def progress(self) -> tuple[int, int, int]:
        """(round that is under way, ticks done in it, ticks in all)."""
        way = self._under_way
        if way is None:
            return self.state.round, 0, 0
        return way.snapshot.round, way.done, len(way.members)

    def view(self, state: State | None = None) -> View:
        """Return what measures and `until` look at."""
        state = self.state if state is None else state
        return View(
            state.round, SharedValues(self._shared, state.shared), Agents(self.members.agents, state), self._parameters
        )
