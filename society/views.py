"""Views of a society from outside: what measures, `until` and users look at.

Knows: states, and what was declared of agents.
Does not know: ticks; nothing here can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from society.agent import Agent
from society.messages import Message
from society.state import State
from society.values import EMPTY, FrozenDict, Value


class Counts(Mapping[str, Any]):
    """Numbers by name, read as `counts["ticks"]` or `counts.ticks`."""

    def __init__(self, numbers: Mapping[str, Any]) -> None:
        self._numbers = dict(numbers)

    def __getitem__(self, name: str) -> Any:
        return self._numbers[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_numbers"][name]
        except KeyError:
            raise AttributeError(f"no count is called {name!r}; there are {', '.join(self._numbers)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"Counts({self._numbers!r})"


@attrs.frozen(eq=False)
class AgentView:
    """One agent, between two rounds."""

    _agent: Agent
    _state: State

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def group(self) -> str | None:
        return self._agent.group

    @property
    def index(self) -> int | None:
        return self._agent.index

    @property
    def state(self) -> FrozenDict:
        return self._state.memories.get(self.name, EMPTY)

    @property
    def public(self) -> FrozenDict:
        return self._state.publics.get(self.name, EMPTY)

    @property
    def inbox(self) -> Sequence[Message]:
        """What it will read in the next round."""
        return tuple(self._state.inboxes.get(self.name, ()))

    @property
    def retired(self) -> bool:
        return self.name in self._state.retired


class Agents(Sequence[AgentView]):
    """All agents there ever were, in declared order; by place, or by name."""

    def __init__(self, declared: Mapping[str, Agent], state: State) -> None:
        self._declared = declared
        self._state = state

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return [self._view(name) for name in self._state.names[which]]
        return self._view(which if isinstance(which, str) else self._state.names[which])

    def _view(self, name: str) -> AgentView:
        return AgentView(self._declared[name], self._state)

    def __iter__(self) -> Iterator[AgentView]:
        return (self._view(name) for name in self._state.names)

    def __contains__(self, name: object) -> bool:
        return name in self._state.groups

    def __len__(self) -> int:
        return len(self._state.names)


class SharedValues(Mapping[str, Value]):
    """SHARED, or its versions, in declared order."""

    def __init__(self, keys: Sequence[str] | Mapping[str, Any], values: Mapping[str, Value]) -> None:
        self._keys = keys
        self._values = values

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))


@attrs.frozen
class View:
    """What a measure and `until` look at: the society after a barrier."""

    round: int
    shared: Mapping[str, Value]
    agents: Agents
    parameters: Mapping[str, Value]
