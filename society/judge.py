"""The verdict on one action: may it happen, must somebody be asked, or is it refused. K3 and K4 of the contract.

    1. A `never` that applies refuses, then a `deny` that applies.
    2. If `allow` rules name the tool, one of them must hold; if none names it, the default decides.
    3. What remains is asked about if an `approve` applies.

Unknown counts against the action: it makes `never`, `deny` and `approve` apply, and `allow` not count. What a condition
returns besides `True` and `False`, and what it raises, is unknown.

Knows: policies, and how their rules are weighed.
Does not know: how facts come about, how texts become conditions, or what happens after the verdict.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol

import attrs

from society.errors import RAISED, described
from society.expressions import written
from society.policy import Condition, Kind, Policy, Rule
from society.values import UNKNOWN, UnknownTruth, Value


class Facts(Protocol):
    """What conditions are told of an action. Everything in it is frozen."""

    @property
    def args(self) -> Mapping[str, Value]:
        """The tool's arguments, exactly those that will be sent."""

    @property
    def shared(self) -> Mapping[str, Value]:
        """SHARED as the agent sees it, its own writes included."""

    @property
    def state(self) -> Mapping[str, Value]:
        """The agent's memory."""

    @property
    def observed(self) -> Mapping[str, Any]:
        """What the agent perceived in this tick, by sensor; `UNKNOWN` where a reading failed."""

    @property
    def round(self) -> int: ...

    @property
    def agent(self) -> str: ...

    @property
    def in_doubt(self) -> Sequence[str]:
        """The tools of the agent's actions in doubt, one for each action."""


@attrs.frozen
class Verdict:
    verdict: Literal["allow", "approve", "deny", "never"]
    rule: str | None
    """The rule that decided, as written, with its place; `None` where the default did."""
    why: str | None
    """Which fact was unknown, where that decided; what would have been needed, where nothing allowed it."""


class Judge:
    """Judges the actions of one agent by one policy: the society's and its own, added up."""

    def __init__(self, policy: Policy) -> None:
        """Raises `TypeError` where a condition is still a text: `conditions.compiled` makes functions of them."""
        for rule in policy.rules:
            if isinstance(rule.when, str):
                raise TypeError(f"{rule}: the condition is not compiled.")
        self.policy = policy
        self._plans: dict[str, Plan] = {}

    def verdict(self, tool: str, facts: Facts) -> Verdict:
        """Return the verdict on calling `tool`. Never raises what a condition raises: that is unknown."""
        plan = self._plans.get(tool)
        if plan is None:
            plan = self._plans[tool] = planned(self.policy, tool)
        for step in plan.refusing:
            held = _held(step.when, facts)
            if held is not False:
                return step.verdict if held is True else attrs.evolve(step.verdict, why=held)
        passed = _allowed(plan, facts) if plan.allowing else plan.otherwise
        if passed.verdict != "allow":
            return passed
        for step in plan.asking:
            held = _held(step.when, facts)
            if held is not False:
                return step.verdict if held is True else attrs.evolve(step.verdict, why=held)
        return passed


@attrs.frozen
class Step:
    """One rule for one tool, and the verdict where it holds, made once."""

    when: Condition | None
    verdict: Verdict


@attrs.frozen
class Plan:
    """What a policy says of one tool: globs are matched here, once."""

    refusing: tuple[Step, ...]
    """`never`, then `deny`, in declared order."""
    allowing: tuple[Step, ...]
    asking: tuple[Step, ...]
    otherwise: Verdict
    """Where no `allow` names the tool: the default. Where some do: what holds if none of them counts."""


_VERDICTS: Final[Mapping[Kind, Literal["allow", "approve", "deny", "never"]]] = {
    "never": "never",
    "deny": "deny",
    "allow": "allow",
    "approve": "approve",
}


def planned(policy: Policy, tool: str) -> Plan:
    """Return what `policy` says of `tool`."""
    named = [rule for rule in policy.rules if names(rule, tool)]
    allowing = _steps(named, "allow")
    if allowing:
        rules = "; ".join(str(rule) for rule in named if rule.kind == "allow")
        otherwise = Verdict("deny", rules, "no rule that allows it holds")
    elif policy.default == "deny":
        otherwise = Verdict("deny", None, "no rule allows it, and the default is deny")
    else:
        otherwise = Verdict("allow", None, None)
    return Plan((*_steps(named, "never"), *_steps(named, "deny")), allowing, _steps(named, "approve"), otherwise)


def names(rule: Rule, tool: str) -> bool:
    """Return whether a rule is about `tool`: by name or glob, letter by letter."""
    return rule.tool == tool or fnmatchcase(tool, rule.tool)


def _steps(rules: Sequence[Rule], kind: Kind) -> tuple[Step, ...]:
    return tuple(
        Step(rule.when, Verdict(_VERDICTS[kind], str(rule), None))
        for rule in rules
        if rule.kind == kind and not isinstance(rule.when, str)
    )


def _allowed(plan: Plan, facts: Facts) -> Verdict:
    """Return the verdict of the first `allow` that holds; otherwise a refusal that tells what was unknown."""
    unknown = []
    for step in plan.allowing:
        held = _held(step.when, facts)
        if held is True:
            return step.verdict
        if held is not False:
            unknown.append(held)
    if not unknown:
        return plan.otherwise
    return attrs.evolve(plan.otherwise, why=f"{plan.otherwise.why}: {'; '.join(dict.fromkeys(unknown))}")


def _held(when: Condition | None, facts: Facts) -> bool | str:
    """Return whether a condition holds; a sentence where that is unknown."""
    if when is None:
        return True
    try:
        answer = when(facts)
    except RAISED as error:  # A condition is the author's code: whatever it raises, it has not said that it holds.
        return _reason(when, facts, error)
    if answer is True or answer is False:
        return bool(answer)
    return _reason(when, facts, answer)


def _reason(when: Condition, facts: Facts, answer: object) -> str:
    """Return why a condition came to neither true nor false: the facts that were unknown, or what went wrong."""
    tell = getattr(when, "unknown", None)
    if callable(tell) and not isinstance(answer, RAISED):
        return str(tell(facts))
    if answer is UNKNOWN or isinstance(answer, RAISED):
        return _told(answer, _silent(when, facts))
    if inspect.iscoroutine(answer):
        answer.close()  # or Python warns of a coroutine that was never awaited
    return f"the condition returned {type(answer).__name__}, neither True nor False"


def _told(answer: object, silent: Sequence[str]) -> str:
    """Return the sensors that were silent, and the error if it is more than a question for the truth of `UNKNOWN`."""
    told = [f"{written('observed', (name,))} could not be perceived" for name in silent]
    if isinstance(answer, RAISED) and not (told and isinstance(answer, UnknownTruth)):
        kind, message = described(answer)
        told.append(f"the condition raised {kind}: {message}")
    return "; ".join(told) or "the condition returned UNKNOWN"


def _silent(when: Condition, facts: Facts) -> list[str]:
    """Return the sensors without a reading that a condition looks at: run it once more and watch."""
    watched = _Watched(facts)
    with contextlib.suppress(*RAISED):  # It was judged by what it raised before; here only what it looked at counts.
        when(watched)
    return list(watched.observed.silent)


class _Watched:
    """Facts that note which readings were asked for and are unknown."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.observed = _WatchedReadings(facts.observed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name)


class _WatchedReadings(Mapping[str, Any]):
    def __init__(self, readings: Mapping[str, Any]) -> None:
        self._readings = readings
        self.silent: dict[str, None] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._readings.get(name, UNKNOWN)
        if value is UNKNOWN:
            self.silent[name] = None
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._readings)

    def __len__(self) -> int:
        return len(self._readings)
