"""What a verdict costs: Python rules and compiled conditions, over 1,000 SHARED keys."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from society.conditions import Names, compiled
from society.judge import Judge
from society.policy import Policy, allow, approve, never
from society.values import FrozenDict, freeze

KEYS: Final = 1_000


@attrs.frozen
class Facts:
    args: Mapping[str, Any]
    shared: Mapping[str, Any]
    observed: Mapping[str, Any]
    state: Mapping[str, Any] = FrozenDict()
    round: int = 1
    agent: str = "ada"
    in_doubt: tuple[Any, ...] = ()


def policy_costs() -> list[tuple[str, float, str]]:
    """Return (name, microseconds per verdict, bar); each action has other arguments, as actions have."""
    shared = freeze({f"key_{number}": number for number in range(KEYS)} | {"status": "open", "window": {"open": False}})
    observed = {"vault.door": "shut"}
    facts = [Facts(freeze({"amount": amount, "to": f"account-{amount}"}), shared, observed) for amount in range(1_000)]
    names = Names(shared=tuple(shared), sensors=("vault.door",))
    return [
        ("policy: python rules, us", _microseconds(Judge(_in_python()), facts), "<= 5"),
        ("policy: compiled conditions, us", _microseconds(Judge(compiled(_in_text(), names)), facts), "<= 10"),
    ]


def _in_python() -> Policy:
    return Policy(
        never("pay", lambda facts: facts.shared["status"] != "open" or facts.shared["window"]["open"]),
        allow("p*", lambda facts: facts.observed["vault.door"] == "shut"),
        approve("pay", lambda facts: facts.args["amount"] > 5_000),
    )


def _in_text() -> Policy:
    return Policy(
        never("pay", 'shared.status != "open" || shared.window.open'),
        allow("p*", 'observed["vault.door"] == "shut"'),
        approve("pay", "args.amount > 5000"),
    )


def _microseconds(judge: Judge, facts: list[Facts]) -> float:
    def verdicts() -> None:
        for fact in facts:
            judge.verdict("pay", fact)

    return _best(verdicts) / len(facts) * 1e6


def _best(work: Callable[[], None]) -> float:
    return min(timeit.repeat(work, number=1, repeat=20))
