"""What a tick looks at by key: SHARED with its own writes over it, and its agent's own memory. Both die with the tick.

Knows: one tick, its writes, and who may read a key.
Does not know: other ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from society.agent import Agent
from society.errors import SharedRefused, ValueRefused, suggestion
from society.merge import fold_contributions
from society.values import FrozenDict, Value, freeze

if TYPE_CHECKING:
    from society.tick import Tick


class SharedView(Mapping[str, Value]):
    """SHARED as one tick sees it, in declared order. It dies with the tick."""

    __slots__ = ("_tick", "folded")

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self.folded: dict[str, Value] = {}
        """Values of keys that this tick has written, its own writes folded in."""

    def __getitem__(self, key: str) -> Value:
        tick = self._tick
        if tick._task is None:
            tick._over("has ended")
        snapshot = tick._snapshot
        key = freeze(key) if isinstance(key, str) else key
        declared = snapshot.terms.shared.get(key)
        if declared is None:
            known = suggestion(str(key), snapshot.terms.shared)
            raise SharedRefused(str(key), tick._member.agent.name, f"reads a key that is not declared.{known}")
        if declared.readers is not None and not is_named(declared.readers, tick._member.agent):
            readers = ", ".join(declared.readers) or "nobody"
            raise SharedRefused(key, tick._member.agent.name, f"may not read it; its readers are {readers}.")
        value = snapshot.going.value(key)
        if tick._own is None and tick._parent is None and not tick._joined:
            return value
        own = tick.own(key)
        if not own:
            return value
        if tick._parent is not None or key not in self.folded:
            rule = declared.merge
            self.folded[key] = fold_contributions(
                "last" if rule == "first" and snapshot.terms.in_turn else rule, value, own
            )
        return self.folded[key]

    def __contains__(self, key: object) -> bool:
        return key in self._tick._alive()._snapshot.terms.shared

    def __iter__(self) -> Iterator[str]:
        tick = self._tick._alive()
        for key, declared in tick._snapshot.terms.shared.items():
            if declared.readers is None or is_named(declared.readers, tick._member.agent):
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self)) if self._tick._task is not None else "<shared of a tick that has ended>"


class Memory(MutableMapping[str, Value]):
    """An agent's own memory in one tick: what it was, with this tick's changes over it. It dies with the tick."""

    __slots__ = ("_assigned", "_before", "_deleted", "_name", "_tick")

    def __init__(self, tick: Tick, before: FrozenDict, name: str) -> None:
        self._tick = tick
        self._before = before
        self._name = name
        self._assigned: dict[str, Value] = {}
        self._deleted: set[str] = set()

    def __getitem__(self, key: str) -> Value:
        self._tick._alive()
        if key in self._assigned:
            return self._assigned[key]
        if key in self._deleted or key not in self._before:
            raise KeyError(key)
        return self._before[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise ValueRefused(f"{self._name}[{key!r}]", f"a key of type {type(key).__name__}")
        self._tick.owned_here()
        self._assigned[freeze(str(key))] = freeze(value, f"{self._name}.{key}")
        self._deleted.discard(key)

    def __delitem__(self, key: str) -> None:
        self._tick.owned_here()
        self[key]  # raises KeyError where there is none
        self._assigned.pop(key, None)
        if key in self._before:
            self._deleted.add(key)

    def __iter__(self) -> Iterator[str]:
        self._tick._alive()
        yield from (key for key in self._before if key not in self._deleted)
        yield from (key for key in self._assigned if key not in self._before)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{dict(self)!r}" if self._tick._task is not None else f"<{self._name} of a tick that has ended>"

    def held(self) -> dict[str, Value]:
        """Return all of it as a dict of its own: quicker than key by key where there are many."""
        self._tick._alive()
        held = dict(self._before)
        for key in self._deleted:
            held.pop(key, None)
        held.update(self._assigned)
        return held

    def changes(self) -> tuple[dict[str, Value], list[str]]:
        return self._assigned, sorted(self._deleted)


def is_named(names: Sequence[str], agent: Agent) -> bool:
    return agent.name in names or (agent.group is not None and agent.group in names)
