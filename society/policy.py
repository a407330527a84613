"""Policies as they are declared: which actions are never done, denied, allowed, or asked about.

Knows: the four kinds of rules and their order in a policy.
Does not know: how a rule is judged; that is `judge.py`. The meaning is K3 and K4 of the contract.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import attrs

from society.errors import ScenarioError
from society.values import UNKNOWN

Kind = Literal["never", "deny", "allow", "approve"]
Condition = Callable[[Any], Any]
"""A function of the facts that returns `True`, `False` or `UNKNOWN`."""


@attrs.frozen
class Rule:
    kind: Kind
    tool: str
    """A tool's name, or a glob: `github__*`."""
    when: str | Condition | None = None
    """A condition as text (Common Expression Language) or a function of the facts; `None` always holds."""
    place: str = attrs.field(default="", kw_only=True, eq=False)
    """Where it is written: `vault.toml:31`. Shown with every verdict that rests on it."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.tool, str) or not self.tool:
            raise ScenarioError(f"{self.kind}: {self.tool!r} is not the name of a tool, or a glob of names.")
        if self.kind not in get_args(Kind):
            raise ScenarioError(f"{self.kind!r} is no kind of rule; there are {', '.join(get_args(Kind))}.")
        if inspect.iscoroutinefunction(self.when):
            raise ScenarioError(
                f"{self.kind}({self.tool!r}): its condition is `async def`; facts are there already, write `def`."
            )
        if self.when is not None and not isinstance(self.when, str) and not callable(self.when):
            raise ScenarioError(
                f"{self.kind}({self.tool!r}): when = {self.when!r} is neither a text nor a function of the facts."
            )

    @property
    def text(self) -> str | None:
        """The condition where it is written as text; `None` for a function, and where the rule always holds."""
        text = self.when if isinstance(self.when, str) else getattr(self.when, "text", None)
        return text if isinstance(text, str) else None

    @property
    def condition(self) -> str | None:
        """The condition as it is written, on one line; the name of a function; `None` where the rule always holds."""
        text = self.text
        if text is None and self.when is not None:
            text = getattr(self.when, "__qualname__", "a function")
        return None if text is None else re.sub(r"\s*\n\s*", " ", text.strip())

    def __str__(self) -> str:
        when = "" if self.condition is None else f" when {self.condition}"
        return f"{self.kind} {self.tool}{when}" + (f" ({self.place})" if self.place else "")


def never(tool: str, when: str | Condition | None = None) -> Rule:
    """Refuse, and list it in `society check` as what can never be done."""
    return Rule("never", tool, when)


def deny(tool: str, when: str | Condition | None = None) -> Rule:
    """Refuse where the condition holds or is unknown."""
    return Rule("deny", tool, when)


def allow(tool: str, when: str | Condition | None = None) -> Rule:
    """Let pass where the condition holds. If any `allow` names a tool, one of them must hold."""
    return Rule("allow", tool, when)


def approve(tool: str, when: str | Condition | None = None) -> Rule:
    """Ask a person about exactly these arguments where the condition holds or is unknown."""
    return Rule("approve", tool, when)


@attrs.frozen(init=False)
class Policy:
    rules: tuple[Rule, ...]
    default: Literal["allow", "deny"]

    def __init__(self, *rules: Rule, default: Literal["allow", "deny"] = "allow") -> None:
        for rule in rules:
            if not isinstance(rule, Rule):
                raise ScenarioError(f"policy: {rule!r} is not a rule; write never(…), deny(…), allow(…) or approve(…).")
        if default not in ("allow", "deny"):
            raise ScenarioError(f"policy: the default is 'allow' or 'deny', not {default!r}.")
        self.__attrs_init__(tuple(rules), default)

    def __add__(self, other: Policy) -> Policy:
        """Both together: the rules add up, and the default is `deny` if either says so."""
        default: Literal["allow", "deny"] = "deny" if "deny" in (self.default, other.default) else "allow"
        return Policy(*self.rules, *other.rules, default=default)


def described_policy(policy: Policy) -> dict[str, Any]:
    """Return a policy as a value, for the journal; a condition that is a function is kept by its name alone."""
    rules = [
        {"kind": rule.kind, "tool": rule.tool, "when": rule.text, "place": rule.place}
        | ({"function": rule.condition} if rule.when is not None and rule.text is None else {})
        for rule in policy.rules
    ]
    return {"rules": rules, "default": policy.default}


def policy_of(described: Mapping[str, Any] | None) -> Policy:
    """Return the policy that `described_policy` described. A condition that was a function is unknown from now on, so
    that what was refused or asked about stays so."""
    if described is None:
        return Policy()
    rules = [
        Rule(rule["kind"], rule["tool"], _lost if "function" in rule else rule["when"], place=rule["place"])
        for rule in described["rules"]
    ]
    return Policy(*rules, default=described["default"])


def _lost(facts: Any) -> Any:
    return UNKNOWN
