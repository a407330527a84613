"""What policies come to: what each agent may do, must ask for, can never do, and which rules are odd.

This is what `society check` tells.

Knows: policies, tools' names and hints, who may write which SHARED key.
Does not know: scenario files, hosts, or how the report looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Final, Literal

import attrs

from society.errors import suggestion
from society.judge import names
from society.policy import Policy, Rule
from society.shared import Shared


@attrs.frozen
class Hints:
    """What a host declares of a tool."""

    reads_only: bool = False
    idempotent: bool = False


@attrs.frozen
class Subject:
    """One agent, as far as policies are concerned."""

    agent: str
    tools: Mapping[str, Hints]
    """The tools that it may name, in declared order."""
    policy: Policy = attrs.field(factory=Policy)
    """Its own; the society's is added."""


@attrs.frozen
class Line:
    """What holds of one tool for one agent."""

    tool: str
    rule: str | None = None
    """The rule that decides, as written, with its place; `None` for the default."""
    when: str | None = None
    """Under which conditions: `if args.amount < 10, unless shared.status == "open"`; `None` for always."""
    hints: Hints = Hints()

    def __str__(self) -> str:
        return self.tool if self.when is None else f"{self.tool} {self.when}"


@attrs.frozen
class Standing:
    """What one agent may do. A tool with conditions stands in several lists."""

    agent: str
    may: tuple[Line, ...]
    """Without asking anybody."""
    asks: tuple[Line, ...]
    """After approval."""
    never: tuple[Line, ...]


@attrs.frozen
class Remark:
    """Something odd about a policy: it may be meant so, so it is no fault."""

    kind: Literal["shadowed", "matches nothing", "no rule", "open key"]
    agents: tuple[str, ...]
    """Whom it concerns, in declared order; empty for a rule of the society."""
    what: str
    """The rule as written, with its place; for `no rule` the tool."""
    why: str

    def __str__(self) -> str:
        more = f" and {len(self.agents) - 1} more" if len(self.agents) > 1 else ""
        return f"{self.agents[0]}{more}: {self.what}: {self.why}" if self.agents else f"{self.what}: {self.why}"


@attrs.frozen
class Review:
    agents: tuple[Standing, ...]
    """In declared order."""
    remarks: tuple[Remark, ...]


def review(subjects: Sequence[Subject], *, society: Policy | None = None, shared: Mapping[str, Shared]) -> Review:
    """Return what the policies of a society come to.

    Args:
        subjects: The agents, in declared order.
        society: The policy for everyone.
        shared: SHARED as declared.
    """
    society = society or Policy()
    alike = _alike(subjects)
    lines = {key: _lines(society + key[0], dict(key[1])) for key in alike}
    standings = (Standing(subject.agent, *lines[_key(subject)]) for subject in subjects)
    odd = [*_odd_society_rules(society, alike, shared)]
    for (policy, tools), agents in alike.items():
        odd += _odd_rules(society, policy, dict(tools), agents, shared)
        odd += _tools_without_rule(society + policy, dict(tools), agents)
    return Review(tuple(standings), tuple(odd))


_Key = tuple[Policy, tuple[tuple[str, Hints], ...]]


def _key(subject: Subject) -> _Key:
    return subject.policy, tuple(subject.tools.items())


def _alike(subjects: Iterable[Subject]) -> dict[_Key, tuple[str, ...]]:
    """Return the agents by policy and tools: a thousand citizens are judged, and warned of, once."""
    alike: dict[_Key, list[str]] = {}
    for subject in subjects:
        alike.setdefault(_key(subject), []).append(subject.agent)
    return {key: tuple(agents) for key, agents in alike.items()}


def _lines(policy: Policy, tools: Mapping[str, Hints]) -> tuple[tuple[Line, ...], tuple[Line, ...], tuple[Line, ...]]:
    """Return what an agent may do, must ask for, and can never do."""
    may: list[Line] = []
    asks: list[Line] = []
    never: list[Line] = []
    for tool, hints in tools.items():
        named = [rule for rule in policy.rules if names(rule, tool)]
        refusal = _refusal(policy, named)
        if refusal is not None:
            never.append(Line(tool, refusal or None, None, hints))
            continue
        never += [Line(tool, str(r), f"if {_text(r)}", hints) for r in named if r.kind == "never"]
        terms = _terms(named)
        asking = [rule for rule in named if rule.kind == "approve"]
        always = next((rule for rule in asking if rule.when is None), None)
        if always is not None:
            asks.append(Line(tool, str(always), terms, hints))
            continue
        asks += [Line(tool, str(r), _joined(f"if {_text(r)}", terms), hints) for r in asking]
        unasked = f"unless {' or '.join(map(_text, asking))}" if asking else None
        allowing = next((str(rule) for rule in named if rule.kind == "allow"), None)
        may.append(Line(tool, allowing, _joined(terms, unasked), hints))
    return tuple(may), tuple(asks), tuple(never)


def _refusal(policy: Policy, named: Sequence[Rule]) -> str | None:
    """Return the rule that always refuses, an empty text where the default does, `None` where nothing does."""
    for rule in _refusing(named):
        if rule.when is None:
            return str(rule)
    if policy.default == "deny" and not any(rule.kind == "allow" for rule in named):
        return ""
    return None


def _refusing(rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules that refuse, in the order in which they are weighed."""
    return sorted((rule for rule in rules if rule.kind in ("never", "deny")), key=lambda rule: rule.kind == "deny")


def _terms(named: Sequence[Rule]) -> str | None:
    """Return under which conditions a tool passes: those of `allow`, and against those of `deny` and `never`."""
    allowing = [rule for rule in named if rule.kind == "allow"]
    conditional = allowing and all(rule.when is not None for rule in allowing)
    refusing = _refusing(named)
    return _joined(
        f"if {' or '.join(map(_text, allowing))}" if conditional else None,
        f"unless {' or '.join(map(_text, refusing))}" if refusing else None,
    )


def _joined(*terms: str | None) -> str | None:
    return ", ".join(filter(None, terms)) or None


def _text(rule: Rule) -> str:
    """Return a rule's condition as it is written; the name of a function."""
    return rule.condition or "always"


def _odd_society_rules(
    society: Policy, alike: Mapping[_Key, tuple[str, ...]], shared: Mapping[str, Shared]
) -> Iterator[Remark]:
    """Yield what is odd about the rules for everyone: only what is so for every agent."""
    everything = tuple(dict.fromkeys(tool for _, tools in alike for tool, _ in tools))
    for index, rule in enumerate(society.rules):
        if not any(names(rule, tool) for tool in everything):
            yield Remark("matches nothing", (), str(rule), _matches_nothing(rule, everything))
            continue
        shadows = [_shadow(society + policy, index, dict(tools)) for policy, tools in alike]
        named = [shadow for shadow in shadows if shadow != _NAMES_NOTHING]
        if all(named):
            yield Remark("shadowed", (), str(rule), f"{named[0]}.")
        yield from _open_keys(rule, (), shared)


def _odd_rules(
    society: Policy, own: Policy, tools: Mapping[str, Hints], agents: tuple[str, ...], shared: Mapping[str, Shared]
) -> Iterator[Remark]:
    """Yield what is odd about the rules that some agents have of their own."""
    for index, rule in enumerate(own.rules, start=len(society.rules)):
        shadow = _shadow(society + own, index, tools)
        if shadow == _NAMES_NOTHING:
            yield Remark("matches nothing", agents, str(rule), _matches_nothing(rule, tools))
            continue
        if shadow:
            yield Remark("shadowed", agents, str(rule), f"{shadow}.")
        yield from _open_keys(rule, agents, shared)


def _tools_without_rule(policy: Policy, tools: Mapping[str, Hints], agents: tuple[str, ...]) -> Iterator[Remark]:
    if policy.default == "deny":
        for tool in tools:
            if not any(names(rule, tool) for rule in policy.rules):
                yield Remark("no rule", agents, tool, "no rule names this tool, and the default is deny.")


def _matches_nothing(rule: Rule, tools: Iterable[str]) -> str:
    if any(sign in rule.tool for sign in "*?["):
        return "no tool matches the glob."
    return f"there is no such tool.{suggestion(rule.tool, tools)}"


_NAMES_NOTHING: Final = "it names no tool"


def _shadow(policy: Policy, index: int, tools: Mapping[str, Hints]) -> str:
    """Return why the rule at `index` can never apply, or makes no difference, whatever tool it names; or nothing."""
    rule = policy.rules[index]
    why = _NAMES_NOTHING
    for tool in tools:
        if names(rule, tool):
            why = _shadow_for(policy, index, tool)
            if not why:
                return ""
    return why


def _shadow_for(policy: Policy, index: int, tool: str) -> str:
    rule = policy.rules[index]
    others = [(at, other) for at, other in enumerate(policy.rules) if at != index and names(other, tool)]
    for at, other in others:
        if _settles(other, rule, earlier=at < index):
            return (
                f"it makes no difference beside {other}" if other.kind == rule.kind else f"{other} always comes first"
            )
    if rule.kind == "approve" and policy.default == "deny" and not any(other.kind == "allow" for _, other in others):
        return f"no rule allows {tool}, and the default is deny, so nobody is asked"
    return ""


_WEIGHED: Final = {"never": 0, "deny": 1, "allow": 2, "approve": 3}


def _settles(other: Rule, rule: Rule, *, earlier: bool) -> bool:
    """Return whether `other` leaves nothing to decide for `rule`, of the same tool."""
    covers = other.when is None or other.when == rule.when
    if other.kind == rule.kind:
        # Of one kind the first that holds decides; an `allow` without condition makes others needless, wherever it is.
        return covers and (earlier or (other.kind == "allow" and other.when is None and rule.when is not None))
    if other.kind in ("never", "deny"):
        # A condition that refuses has refused before the same condition could allow or ask.
        return covers and _WEIGHED[other.kind] < _WEIGHED[rule.kind]
    return False


def _open_keys(rule: Rule, agents: tuple[str, ...], shared: Mapping[str, Shared]) -> Iterator[Remark]:
    for key in keys_read(rule, shared):
        if shared[key].writers is None:
            why = f"it reads shared.{key}, which any agent may write. Name its `writers`."
            yield Remark("open key", agents, str(rule), why)


def keys_read(rule: Rule, shared: Mapping[str, Shared]) -> list[str]:
    """Return the SHARED keys that a rule's condition reads.

    A compiled condition tells. Of a function the literals in its code are looked at, so a key that it computes, or
    that a function called by it reads, is overlooked.
    """
    told = getattr(rule.when, "shared", None)
    if isinstance(told, tuple):
        return [key for key in told if key in shared]
    code = getattr(rule.when, "__code__", None)
    if code is None or "shared" not in _words(code, "co_names"):
        return []
    literals = _words(code, "co_consts")
    return [key for key in shared if key in literals]


def _words(code: CodeType, kind: str) -> set[str]:
    """Return the names or text literals in a function's code, and in the functions written inside it."""
    found: set[str] = set()
    for word in (*getattr(code, kind), *code.co_consts):
        if isinstance(word, CodeType):
            found |= _words(word, kind)
        elif isinstance(word, str) and word in getattr(code, kind):
            found.add(word)
        elif isinstance(word, tuple | frozenset) and kind == "co_consts":  # a list or set written out, kept as one
            found |= {item for item in word if isinstance(item, str)}
    return found
