"""Conditions written as text, in the Common Expression Language: `shared.status == "open" && args.amount > 100`.

    args.amount                  an argument of the call; `has(args.amount)` where it may be absent
    shared.status                a SHARED key; `shared["block-list"]` where the name has other characters
    observed["service.status"]   a reading of this tick
    state.tries                  the agent's memory; `has(state.tries)` where it may not be set
    round, agent                 a number and a name
    in_doubt                     the tools of the agent's actions in doubt: `"pay" in in_doubt`

A condition is true, false or unknown. Unknown is what rests on a reading that failed, a member that is not there, types
that do not fit (`1 > "a"`, `1 + 2.5`), or a division by zero; `false && unknown` is false and `true || unknown` is
true, in either order. Inside a macro one unknown element makes the whole macro unknown unless an earlier element has
settled it, which is stricter than the language's own rule. `==` between different types is false, not unknown. `size`
of a text counts its UTF-8 bytes.

The evaluator has no limit on steps, so there are three here: a text has at most 4,000 characters, macros nest two deep,
and a nested macro over values so large that it could take more than `MAX_STEPS` is unknown.

Knows: the package `cel`, the only module that does. It is imported when the first text is compiled; that takes a fifth
of a second.
Does not know: policies' verdicts, or where facts come from.
"""

from __future__ import annotations

import operator
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs

from society.errors import SocietyError
from society.expressions import (
    KEYED,
    MAX_LENGTH,
    POLICY_FACTS,
    UNTIL_FACTS,
    ConditionFault,
    Names,
    Reading,
    Reference,
    read,
    tokens,
    written,
)
from society.policy import Policy
from society.values import UNKNOWN, FrozenDict, FrozenList, Value

__all__ = [
    "Condition",
    "ConditionFault",
    "Names",
    "Until",
    "UntilFacts",
    "compile_condition",
    "compile_until",
    "compiled",
]

MAX_STEPS: Final = 250_000
"""About a tenth of a second."""

_FAILURES: Final = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError)
"""What the evaluator raises: no value, no conversion, types that do not fit, a missing member, an overflow."""


class UntilFacts(Protocol):
    """What an `until` is told at a barrier."""

    @property
    def shared(self) -> Mapping[str, Value]: ...

    @property
    def round(self) -> int: ...

    @property
    def parameters(self) -> Mapping[str, Value]: ...


def compile_condition(text: str, *, names: Names, place: str = "") -> Condition:
    """Return the condition that `text` describes.

    Args:
        text: An expression of the language above.
        names: What is declared; names outside of it are faults.
        place: Where the text stands (`vault.toml:31`), for errors.

    Raises:
        ConditionFault: The text cannot be parsed, uses an unknown name, or can never be true or false.
    """
    return _compile(text, names, POLICY_FACTS, place)


def compile_until(text: str, *, names: Names, place: str = "") -> Until:
    """Return the `until` that `text` describes, over the facts `shared`, `round` and `parameters`.

    Raises:
        ConditionFault: As `compile_condition`.
    """
    return Until(_compile(text, names, UNTIL_FACTS, place))


def compiled(policy: Policy, names: Names) -> Policy:
    """Return the policy with each condition that is a text replaced by a `Condition`.

    Raises:
        ConditionFault: The first text that cannot be used.
    """
    if not any(isinstance(rule.when, str) for rule in policy.rules):
        return policy
    rules = [
        attrs.evolve(rule, when=compile_condition(rule.when, names=names, place=rule.place))
        if isinstance(rule.when, str)
        else rule
        for rule in policy.rules
    ]
    return Policy(*rules, default=policy.default)


@attrs.frozen(eq=False)
class Condition:
    """A compiled condition: a function of the facts that returns `True`, `False` or `UNKNOWN`."""

    text: str
    reading: Reading
    _program: _Program

    def __call__(self, facts: Any) -> Any:
        """Return `True`, `False` or `UNKNOWN`. Facts are looked up by the names in the text, and no others."""
        try:
            result = self._program.run(facts)
        except _FAILURES:
            return UNKNOWN
        return result if result is True or result is False else UNKNOWN

    def unknown(self, facts: Any) -> str:
        """Return which fact made the condition unknown, or what went wrong; empty where it is not unknown."""
        missing = [said for path in self.reading.paths if (said := _missing(path, self.reading, facts))]
        try:
            result = self._program.run(facts)
        except _FAILURES as error:
            return "; ".join(missing) or _told(error)
        if result is True or result is False:
            return ""
        return f"its result is {result!r}, neither true nor false"

    @property
    def shared(self) -> tuple[str, ...]:
        """The SHARED keys that it reads."""
        return self.reading.shared

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _condition, (self.text, self.reading)


@attrs.frozen
class Until:
    """A condition that ends a run. Unknown is not yet."""

    condition: Condition

    def __call__(self, facts: UntilFacts) -> bool:
        return self.condition(facts) is True

    def unknown(self, facts: UntilFacts) -> str:
        return self.condition.unknown(facts)

    @property
    def text(self) -> str:
        return self.condition.text

    def __str__(self) -> str:
        return str(self.condition)


class TooManySteps(RuntimeError):
    """A nested macro over too large a value."""


class _Program:
    """The evaluator's side of a condition.

    Converting a value costs far more than evaluating with it, so a variable stays bound from verdict to verdict as
    long as it holds the very same frozen value: a list of 10,000 blocked hosts is converted once a round, not once an
    action.
    """

    def __init__(self, program: Any, reading: Reading) -> None:
        self._program = program
        self._reading = reading
        self._variables = tuple((reference.variable, _getter(reference)) for reference in reading.references)
        self._lock = threading.Lock()  # societies in different threads may share a policy
        self._fresh()

    def run(self, facts: Any) -> Any:
        with self._lock:
            self._bind(facts)
            return self._program.execute(self._context)

    def _bind(self, facts: Any) -> None:
        values = {}
        for variable, get in self._variables:
            value = get(facts)
            if value is not UNKNOWN:
                values[variable] = value
        if self._reading.macros > 1:
            _check_steps(self._reading, values)
        if not self._bound.keys() <= values.keys():  # what has become unknown: a variable cannot be unbound
            self._fresh()
        bound = self._bound
        for variable, value in values.items():
            if variable in bound and bound[variable] is value:
                continue
            try:
                self._context.add_variable(variable, value)
            except _FAILURES:
                self._fresh()  # or the value that was bound before would be judged next time
                raise
            bound[variable] = value if type(value) in _FROZEN else _ANOTHER

    def _fresh(self) -> None:
        import cel

        self._context = cel.Context()
        self._bound: dict[str, Any] = {}


_FROZEN: Final = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList})
_ANOTHER: Final = object()
"""Stands for a value that may change in place: it is bound anew each time."""


def _getter(reference: Reference) -> Callable[[Any], Any]:
    """Return a function of the facts that looks up what a variable stands for; `UNKNOWN` where there is nothing."""
    fact, key = reference.fact, reference.key
    look = operator.attrgetter(fact)

    def member(facts: Any) -> Any:
        try:
            return look(facts)[key]
        except (LookupError, SocietyError):  # the latter: SHARED that this agent may not read
            return UNKNOWN

    if key is not None:
        return member if reference.asks == "value" else lambda facts: key in look(facts)
    if fact == "in_doubt":
        return lambda facts: list(look(facts))
    if fact in KEYED:
        return lambda facts: dict(look(facts))
    return look


def _check_steps(reading: Reading, values: Mapping[str, Any]) -> None:
    size = len(reading.text) + sum(_size(value) for value in values.values())
    if size**reading.macros > MAX_STEPS:
        raise TooManySteps(f"its nested macros could take more than {MAX_STEPS:,} steps over values so large")


def _size(value: Value) -> int:
    """Return how many elements a value has, at all depths."""
    if not isinstance(value, (dict, list)):
        return 1
    return 1 + sum(map(_size, value.values() if isinstance(value, dict) else value))


def _compile(text: str, names: Names, facts: tuple[str, ...], place: str) -> Condition:
    _parse(text, place)
    reading = read(text, names, facts, place)
    if not reading.boolean:
        raise ConditionFault(text, 0, "the result is neither true nor false; compare it with something.", place)
    _check_patterns(text, place)
    condition = _condition(text, reading)
    if not reading.references and (fault := condition.unknown(None)):
        raise ConditionFault(text, 0, f"it can be neither true nor false: {fault}.", place)
    return condition


def _condition(text: str, reading: Reading) -> Condition:
    import cel

    program = cel.compile(reading.text)
    assert KEYED.isdisjoint(program.variables()), f"a reference was overlooked in {text!r}"
    return Condition(text, reading, _Program(program, reading))


def _parse(text: str, place: str) -> None:
    """Raise a fault where the language's own parser finds one."""
    import cel

    if not text.strip():
        raise ConditionFault(text, 0, "it is empty; leave `when` out if the rule always holds.", place)
    if len(text) > MAX_LENGTH:
        raise ConditionFault(
            text, MAX_LENGTH, f"it is longer than {MAX_LENGTH:,} characters; write a Python function.", place
        )
    try:
        cel.compile(text)
    except ValueError as error:
        # The message begins with the text itself, which may look like anything.
        said = str(error)[len("Failed to parse expression ''") + len(text) :]
        faults = r"ERROR: <input>:(\d+):(\d+): "
        found = re.search(faults + "Syntax error: (.*)", said) or re.search(faults + "(.*)", said)
        if found is None:
            raise ConditionFault(text, 0, f"it cannot be parsed{said}", place) from error
        line, column, why = int(found[1]), int(found[2]), found[3]
        start = sum(len(before) + 1 for before in text.split("\n")[: line - 1])
        offset = min(start + column - 1, len(text))
        raise ConditionFault(text, offset, _explained(why, text[offset:]), place) from error


_WORDS: Final = {"and": "&&", "or": "||", "not": "!", "is": "==", "=": "==", "&": "&&", "|": "||"}


def _explained(why: str, rest: str) -> str:
    """Return the parser's complaint without its list of all it would have taken, and with a hint where one helps."""
    word = re.match(r"\w+|=(?!=)|[&|]", rest)
    hint = f" Write {_WORDS[word[0]]!r} for {word[0]!r}." if word and word[0] in _WORDS else ""
    if "<EOF>'" in why.split(" expecting ")[0]:
        why = "the text ends where a value is expected"
    return why.split(" expecting ")[0].rstrip(".") + "." + hint


def _check_patterns(text: str, place: str) -> None:
    """Raise a fault where the pattern of a `matches` stands in the text and is none."""
    import cel

    found = tokens(text)
    for called, bracket, pattern in zip(found, found[1:], found[2:], strict=False):
        if called.text == "matches" and bracket.text == "(" and pattern.kind == "text":
            try:
                cel.compile(f'"".matches({pattern.text})').execute()
            except _FAILURES as error:
                raise ConditionFault(text, pattern.start, "this is not a regular expression.", place) from error


def _missing(path: tuple[str, ...], reading: Reading, facts: Any) -> str:
    """Return a sentence where what a condition names cannot be found among the facts, or nothing."""
    fact, *members = path
    named = [r for r in reading.references if r.fact == fact and members and r.key == members[0] and r.asks == "value"]
    if not named:
        return ""
    value = _getter(named[0])(facts)
    if value is UNKNOWN:
        what = "could not be perceived" if fact == "observed" else "is not there"
        return f"{written(fact, (members[0],))} {what}"
    for depth, member in enumerate(members[1:], start=2):
        if not isinstance(value, dict) or member not in value:
            return f"{written(fact, tuple(members[:depth]))} is not there"
        value = value[member]
    return ""


def _told(error: Exception) -> str:
    """Return what went wrong inside the evaluator, in a few words."""
    match error:
        case TypeError():
            return "its types do not fit: " + str(error).split(". ")[0].split("\n")[0].removeprefix(
                "No such overload: "
            )
        case KeyError():
            return f"there is no member {error.args[0]}"
        case _:
            return str(error).split(". ")[0].split("\n")[0].rstrip(".")
