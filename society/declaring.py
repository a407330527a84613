"""What is declared for a society, checked where it is given: activation, SHARED, parameters, events, references.

Knows: which declarations are possible, and how to say what is wrong with one.
Does not know: files; a scenario's own faults are told by `references.py` with their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from society.errors import ScenarioError, ValueRefused, suggestion
from society.limits import Limits
from society.merge import check_fit
from society.policy import Policy
from society.shared import Shared
from society.state import State
from society.values import EMPTY, WAIT, FrozenDict, freeze

ACTIVATIONS: Final = ("synchronized", "sequential", "shuffled", "random", "partial")
SYNCHRONIZED: Final = ("synchronized", "partial")
IN_TURN: Final = ("sequential", "shuffled", "random")
ON_ERROR: Final = ("stop", "continue", "retire")


def check_activation(activation: Any, possible: tuple[str, ...], kind: str, rate: Any) -> None:
    """Refuse an activation that is not known, or not one of this kind of society; and a rate that does not go with it."""
    if activation not in ACTIVATIONS:
        raise ScenarioError(
            f"activation: {activation!r} is not one of {', '.join(ACTIVATIONS)}.{suggestion(str(activation), ACTIVATIONS)}"
        )
    if activation not in possible:
        other = "Society" if activation in IN_TURN else "AsyncSociety"
        raise ScenarioError(f"activation: {activation!r} is an activation of {other}, not of {kind}.")
    if (activation == "partial") != (rate is not None):
        raise ScenarioError("activation: 'partial' goes with a rate, and a rate with 'partial'.")
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1):
        raise ScenarioError(f"rate: {rate!r} is not a probability from 0 to 1.")


def check_options(**given: Any) -> None:
    """Refuse what was given to a society and is not of its kind or shape."""
    for name, (what, is_one) in _SHAPES.items():
        value = given.pop(name)
        if value is not None and not is_one(value):
            raise ScenarioError(f"{name}: {value!r} is not {what}.")
    check_seed(given.pop("seed"))
    check_error_rule(given.pop("on_error"))
    for name, kind in (("limits", Limits), ("policy", Policy)):
        check_kind(name, given.pop(name), kind)
    assert not given


def check_error_rule(on_error: Any) -> None:
    if on_error not in ON_ERROR:
        raise ScenarioError(
            f"on_error: {on_error!r} is not one of {', '.join(ON_ERROR)}.{suggestion(str(on_error), ON_ERROR)}"
        )


def check_seed(seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ScenarioError(f"seed: {seed!r} is not a whole number.")


def check_kind(path: str, value: Any, kind: type, default: bool = True) -> None:
    """Refuse what is no `kind`, and is not left out either; the text or dict of a scenario file is none."""
    if not isinstance(value, kind) and not (default and value is None):
        raise ScenarioError(f"{path}: {value!r} is no {kind.__name__}; write society.{kind.__name__}(…).")


def checked_list(path: str, value: Any) -> Iterable[Any]:
    if not is_list(value):
        raise ScenarioError(f"{path}: {value!r} is no list.")
    return value  # type: ignore[no-any-return]


def is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def is_host(value: Any) -> bool:
    return hasattr(value, "tools") and hasattr(value, "sensors")


def are_hosts(value: Any) -> bool:
    """Tell whether this is a host, a list of hosts, or such by agent's name."""
    if isinstance(value, Mapping):
        return all(are_hosts(found) for found in value.values())
    return all(map(is_host, value)) if isinstance(value, (list, tuple)) else is_host(value)


def are_callable(functions: Any) -> bool:
    return all(map(callable, functions)) if isinstance(functions, Iterable) else False


def is_store(value: Any) -> bool:
    return hasattr(value, "opened") and hasattr(value, "read")


def is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_answerer(value: Any) -> bool:
    return value is WAIT or callable(value)


_SHAPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "shared": ("a dict of first values, or of Shared(…), by key", is_mapping),
    "parameters": ("a dict of values by name", is_mapping),
    "hosts": ("a host, a list of hosts, or a dict of them by agent's name", are_hosts),
    "measures": ("a dict of functions by name", lambda all: is_mapping(all) and are_callable(all.values())),
    "behaviors": ("a list of functions", are_callable),
    "store": ("a store: MemoryStore(), FileStore(folder) or SqliteStore(path)", is_store),
    "events": ("a list of dicts, each with a round, and share or send", is_list),
    "until": ("a function of a view, or a condition as text", lambda until: callable(until) or isinstance(until, str)),
    "quiet": ("True or False", is_switch),
    "keep_trace": ("True or False", is_switch),
    "name": ("a text", is_text),
    "run_id": ("a text", is_text),
    "approver": ("a function of the request, or WAIT", _is_answerer),
    "asker": ("a function of the question, or WAIT", _is_answerer),
}


def check_references(names: Mapping[str, str | None], shared: Mapping[str, Shared], hosts: Any) -> None:
    """Refuse writers, readers and hosts of agents that are not declared. `names` are agents, with their groups."""
    groups = {group for group in names.values() if group is not None}
    for key, declared in shared.items():
        for what, listed in (("writers", declared.writers), ("readers", declared.readers)):
            for name in listed or ():
                if name not in names and name not in groups and name != "world":
                    raise ScenarioError(f"shared.{key}.{what}: no agent is called {name!r}.{suggestion(name, names)}")
    if isinstance(hosts, Mapping):
        for name in hosts:
            if name not in names and name not in groups:
                raise ScenarioError(f"hosts: no agent is called {name!r}.{suggestion(str(name), names)}")


def declared_shared(shared: Mapping[str, Any]) -> dict[str, Shared]:
    """Return SHARED as declared, plain values as `Shared(value)`."""
    declared: dict[str, Shared] = {}
    for key, value in shared.items():
        if not isinstance(key, str) or not key:
            raise ScenarioError(f"shared: a key is a text, not {key!r}.")
        try:
            name = freeze(key)
            declared[name] = value if isinstance(value, Shared) else Shared(freeze(value, f"shared.{key}"))
        except ValueRefused as refused:
            raise ScenarioError(str(refused)) from refused
    return declared


def frozen_parameters(parameters: Mapping[str, Any] | None) -> FrozenDict:
    try:
        return freeze(dict(parameters or {}), "parameters")  # type: ignore[no-any-return]
    except ValueRefused as refused:
        raise ScenarioError(str(refused)) from refused


def dated_events(
    events: Iterable[Mapping[str, Any]], shared: Mapping[str, Shared], state: State
) -> dict[int, list[Any]]:
    """Return the scenario's events by round, checked and frozen."""
    dated: dict[int, list[Any]] = {}
    for place, event in enumerate(events):
        at = f"events[{place}]"
        if not is_mapping(event):
            raise ScenarioError(f"{at}: {event!r} is no event: a dict with a round, and share or send.")
        round = event.get("round")
        if isinstance(round, bool) or not isinstance(round, int) or round < 1:
            raise ScenarioError(f"{at}.round: {round!r} is not a round, 1 or more.")
        happening: dict[str, Any] = {key: value for key, value in event.items() if key != "round"}
        if not happening or set(happening) - {"share", "send"}:
            raise ScenarioError(f"{at}: an event has a round, and share = {{…}} or send = {{to, kind, body}}.")
        for key, value in happening.get("share", EMPTY).items():
            if key not in shared:
                raise ScenarioError(f"{at}.share.{key}: the key is not declared.{suggestion(str(key), shared)}")
            try:
                check_fit(shared[key].merge, key, shared[key].initial, freeze(value, f"shared.{key}"))
            except ValueRefused as refused:
                raise ScenarioError(f"{at}.share: {refused}") from refused
        if "send" in happening:
            send = happening["send"]
            to = send.get("to")
            if to is not None and to not in state.groups:
                raise ScenarioError(f"{at}.send.to: no agent is called {to!r}.{suggestion(str(to), state.groups)}")
            if not isinstance(send.get("kind"), str):
                raise ScenarioError(f"{at}.send.kind: {send.get('kind')!r} is not a text.")
            happening["send"] = {"to": to, "kind": send["kind"], "body": send.get("body", {})}
        try:
            dated.setdefault(round, []).append(freeze(happening, at))
        except ValueRefused as refused:
            raise ScenarioError(str(refused)) from refused
    return dated
