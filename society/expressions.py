"""What a condition's text refers to, read without running it: facts, functions, macros, and faults in any of them.

The language is the Common Expression Language, https://github.com/google/cel-spec. Its parser has accepted the text
before it comes here; this module finds what the parser does not tell: which members of which facts are named.

Each member that is named becomes a variable of its own (`shared.status` → `fact_0`). So a verdict converts the few
values that its text names, not all of SHARED, and a value that is unknown is a variable without a value: there is no
map from which it could seem to be merely absent.

Knows: the words of the language, the names that a scenario declares.
Does not know: how a text is parsed or judged; that is `conditions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

import attrs

from society.errors import ScenarioError, nearest, suggestion

MAX_LENGTH: Final = 4_000
"""Characters of one condition. The evaluator recurses over chains of operators, and its stack ends near 20,000."""
MAX_NESTED_MACROS: Final = 2
"""`all` in `all`, but not deeper: the evaluator has no limit on steps, and each level multiplies them."""

KEYED: Final = frozenset({"shared", "observed", "args", "state", "parameters"})
"""Facts with members."""
POLICY_FACTS: Final = ("args", "shared", "state", "observed", "round", "agent", "in_doubt")
UNTIL_FACTS: Final = ("shared", "round", "parameters")

MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
FUNCTIONS: Final = frozenset(
    {"has", "size", "int", "uint", "double", "string", "bytes", "type", "dyn", "timestamp", "duration"}
)
METHODS: Final = frozenset({"size", "contains", "startsWith", "endsWith", "matches"}) | {
    "get" + part
    for part in (
        *("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear"),
        *("Hours", "Minutes", "Seconds", "Milliseconds"),
    )
}
TYPES: Final = frozenset({"int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type"})
LITERALS: Final = frozenset({"true", "false", "null", "in"})

_LOGICAL: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "in", "?"})
_NOT_BOOLEAN_CALLS: Final = (
    (FUNCTIONS - {"has", "dyn"}) | {"map", "filter"} | {m for m in METHODS if m.startswith("get")}
)

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
      | (?P<text>(?:[rR][bB]?|[bB][rR])(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"[^"\n]*"|'[^'\n]*')
            |[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)


def _known(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


@attrs.frozen
class Names:
    """The names that conditions of one scenario may use. `None` leaves a set open: any name passes."""

    shared: tuple[str, ...] | None = attrs.field(default=None, converter=_known)
    sensors: tuple[str, ...] | None = attrs.field(default=None, converter=_known)
    state: tuple[str, ...] | None = attrs.field(default=None, converter=_known)
    args: tuple[str, ...] | None = attrs.field(default=None, converter=_known)
    parameters: tuple[str, ...] | None = attrs.field(default=None, converter=_known)

    def of(self, fact: str) -> tuple[str, ...] | None:
        known: tuple[str, ...] | None = getattr(self, "sensors" if fact == "observed" else fact)
        return known


@attrs.define
class ConditionFault(ScenarioError):
    """A condition that cannot be used, with the place in its text."""

    text: str
    offset: int
    """Characters before the fault, in `text`."""
    why: str
    place: str = ""

    @property
    def line(self) -> int:
        """From 1, within the text."""
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        """From 1, in characters."""
        return self.offset - (self.text.rfind("\n", 0, self.offset) + 1) + 1

    def __str__(self) -> str:
        line = self.text.split("\n")[self.line - 1].replace("\t", " ")
        start = max(0, self.column - 61)  # of a long line, what stands around the fault
        where = f"{self.place}: " if self.place else ""
        said = f"{where}condition, line {self.line}, column {self.column}: {self.why}"
        return f"{said}\n    {line[start : start + 100]}\n    {' ' * (self.column - 1 - start)}^"


@attrs.frozen
class Reference:
    """One variable of a condition, and the fact that it stands for."""

    variable: str
    fact: str
    key: str | None
    """The member; `None` for the fact as a whole."""
    asks: Literal["value", "presence"] = "value"
    """`presence` for `has(args.force)`: whether the member is there."""

    def __str__(self) -> str:
        return written(self.fact, () if self.key is None else (self.key,))


@attrs.frozen
class Reading:
    """A condition's text with its references taken out."""

    text: str
    """The text with a variable in place of each reference."""
    references: tuple[Reference, ...]
    paths: tuple[tuple[str, ...], ...]
    """Everything that is named, as deep as it is named: `("shared", "window", "open")`."""
    macros: int
    """How deep macros nest."""
    boolean: bool
    """False where the result is certainly neither true nor false."""

    @property
    def shared(self) -> tuple[str, ...]:
        """The SHARED keys that are read."""
        return tuple(dict.fromkeys(r.key for r in self.references if r.fact == "shared" and r.key is not None))


def written(fact: str, members: tuple[str, ...]) -> str:
    """Return a path as it is written in a condition: `shared.status`, `observed["service.status"]`."""
    return fact + "".join(f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f'["{name}"]' for name in members)


def read(text: str, names: Names, facts: tuple[str, ...] = POLICY_FACTS, place: str = "") -> Reading:
    """Return what `text` refers to.

    Args:
        text: A condition that the language's parser accepts.
        names: What is declared.
        facts: The facts there are, of `POLICY_FACTS` or `UNTIL_FACTS`.
        place: Where the text stands, for errors.

    Raises:
        ConditionFault: An unknown name or function, a fact used as a whole that must not be, macros nested too deep.
    """
    return _Reader(text, names, facts, place).reading()


@attrs.frozen
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(text: str, place: str = "") -> list[Token]:
    """Return the words of a condition, without blanks and comments."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ConditionFault(text, at, f"{text[at]!r} is not understood here.", place)
        if match.lastgroup != "blank":
            found.append(Token(match.lastgroup, match.group(), at))
        at = match.end()
    return found


@attrs.define
class _Bracket:
    """An open bracket: what called it, and the name that a macro binds inside it."""

    called: str = ""
    bound: str | None = None


class _Reader:
    """One pass over the words of a condition."""

    def __init__(self, text: str, names: Names, facts: tuple[str, ...], place: str) -> None:
        self.text, self.names, self.facts, self.place = text, names, facts, place
        self.tokens = tokens(text, place)
        self.open: list[_Bracket] = []
        self.edits: list[tuple[int, int, str]] = []
        self.references: dict[tuple[str, str | None, str], Reference] = {}
        self.paths: dict[tuple[str, ...], None] = {}
        self.deepest = 0
        self.stem = "fact_"
        while any(token.text.startswith(self.stem) for token in self.tokens):
            self.stem = "_" + self.stem

    def reading(self) -> Reading:
        at = 0
        while at < len(self.tokens):
            at = self.step(at)
        return Reading(
            self.rewritten(), tuple(self.references.values()), tuple(self.paths), self.deepest, self.boolean()
        )

    def step(self, at: int) -> int:
        """Take the word at `at`; return where the next one stands."""
        token = self.tokens[at]
        match token.text if token.kind == "mark" else token.kind:
            case "(" | "[" | "{":
                self.enter(at)
            case ")" | "]" | "}":
                self.open.pop()
            case "name":
                return self.name(at)
        return at + 1

    def enter(self, at: int) -> None:
        bracket = _Bracket()
        if self.tokens[at].text == "(" and at and self.tokens[at - 1].kind == "name":
            bracket.called = self.tokens[at - 1].text
            if bracket.called in MACROS and self.is_member(at - 1) and self.mark(at + 2) == ",":
                variable = self.tokens[at + 1]
                if variable.text in POLICY_FACTS + UNTIL_FACTS:
                    raise self.fault(
                        variable, f"{variable.text!r} is the name of a fact; give the macro's variable another name."
                    )
                bracket.bound = variable.text
        self.open.append(bracket)
        depth = sum(1 for bracket in self.open if bracket.bound is not None)
        if depth > MAX_NESTED_MACROS:
            raise self.fault(
                self.tokens[at - 1],
                f"macros may nest {MAX_NESTED_MACROS} deep; write this condition as a Python function.",
            )
        self.deepest = max(self.deepest, depth)

    def name(self, at: int) -> int:
        token = self.tokens[at]
        called = self.mark(at + 1) == "("
        if called:
            self.check_call(token, method=self.is_member(at))
        elif token.text in self.facts and not self.is_member(at):
            return self.reference(at)
        elif not (self.is_member(at) or token.text in LITERALS or self.is_bound(token.text) or token.text in TYPES):
            raise self.fault(token, self.unknown_name(token.text))
        return at + 1

    def check_call(self, token: Token, *, method: bool) -> None:
        known = METHODS | MACROS if method else FUNCTIONS
        if token.text not in known:
            kind = "method" if method else "function"
            raise self.fault(token, f"there is no {kind} {token.text!r}.{suggestion(token.text, sorted(known))}")

    def reference(self, at: int) -> int:
        """Replace the reference that starts at `at` by a variable; return where the words after its path stand."""
        root = self.tokens[at]
        members, ends = self.members(at)
        self.paths[(root.text, *members)] = None
        if root.text not in KEYED and members:
            raise self.fault(root, f"{root.text!r} has no members.")
        if not members:
            if root.text in ("shared", "observed"):
                raise self.fault(root, self.needs_key(root.text))
            self.replace(root.start, root.end, root.text, None, "value")
            return at + 1
        self.check_member(root, members)
        if len(members) == 1 and self.open and self.open[-1].called == "has":
            if root.text not in ("args", "state"):
                raise self.fault(root, self.needless_has(root.text, members[0]))
            # `has(args.force)` goes as a whole: a variable of its own says whether the argument is there.
            self.open.pop()
            self.replace(self.tokens[at - 2].start, self.tokens[ends[0]].end, root.text, members[0], "presence")
            return ends[0] + 1
        self.replace(root.start, self.tokens[ends[0] - 1].end, root.text, members[0], "value")
        return ends[-1]

    def members(self, at: int) -> tuple[tuple[str, ...], list[int]]:
        """Return the members named after the word at `at`, and for each where the words after it stand."""
        found: list[str] = []
        ends: list[int] = []
        at += 1
        while True:
            if self.mark(at) == "." and self.mark(at + 2) != "(":
                found.append(self.tokens[at + 1].text)
                at += 2
            elif self.mark(at) == "[" and self.tokens[at + 1].kind == "text" and self.mark(at + 2) == "]":
                found.append(self.literal(self.tokens[at + 1]))
                at += 3
            else:
                return tuple(found), ends
            ends.append(at)

    def literal(self, token: Token) -> str:
        """Return the text that a literal stands for, as a key."""
        if "\\" in token.text or token.text[0] not in "\"'" or token.text[:3] in ('"""', "'''"):
            raise self.fault(token, "write this key between plain quotes, without escapes.")
        return token.text[1:-1]

    def check_member(self, root: Token, members: tuple[str, ...]) -> None:
        known = self.names.of(root.text)
        if known is None or members[0] in known:
            return
        dotted = [".".join(members[:count]) for count in range(len(members), 1, -1)]
        for name in dotted:
            if name in known:
                raise self.fault(root, f"the name {name!r} has dots in it; write {written(root.text, (name,))}.")
        what = {"shared": "SHARED key", "observed": "sensor", "args": "argument", "parameters": "parameter"}.get(
            root.text, "key"
        )
        wrong = dotted[0] if dotted and not nearest(members[0], known) else members[0]
        raise self.fault(root, f"there is no {what} {wrong!r}.{suggestion(wrong, known)}")

    def needs_key(self, fact: str) -> str:
        example = next(iter(self.names.of(fact) or ()), "name")
        return (
            f"name one key: {written(fact, (example,))}. {fact!r} as a whole, or under a computed key, cannot be used."
        )

    def needless_has(self, fact: str, member: str) -> str:
        if fact == "observed":
            return f"leave out `has`: where {member!r} could not be perceived, the condition is unknown by itself."
        return f"leave out `has`: what {fact!r} declares is always there."

    def unknown_name(self, name: str) -> str:
        words = {"and": "&&", "or": "||", "not": "!", "True": "true", "False": "false", "None": "null"}
        if name in words:
            return f"{name!r} is not a word of this language; write {words[name]}."
        for fact in self.facts:
            if fact in KEYED and name in (self.names.of(fact) or ()):
                return f"{name!r} is not a fact. Did you mean {written(fact, (name,))}?"
        close = nearest(name, self.facts)
        hint = f" Did you mean {close[0]!r}?" if close else f" The facts are {', '.join(self.facts)}."
        return f"{name!r} is not a fact.{hint}"

    def replace(self, start: int, end: int, fact: str, key: str | None, asks: Literal["value", "presence"]) -> None:
        at = (fact, key, asks)
        if at not in self.references:
            self.references[at] = Reference(f"{self.stem}{len(self.references)}", fact, key, asks)
        self.edits.append((start, end, self.references[at].variable))

    def rewritten(self) -> str:
        text, at = [], 0
        for start, end, variable in self.edits:
            text += [self.text[at:start], variable]
            at = end
        return "".join([*text, self.text[at:]])

    def boolean(self) -> bool:
        """Return False where no operator outside of brackets gives a truth value, and what is there cannot be one."""
        depth, outer = 0, []
        for token in self.tokens:
            if token.text in (")", "]", "}") and token.kind == "mark":
                depth -= 1
            if depth == 0:
                outer.append(token)
            if token.text in ("(", "[", "{") and token.kind == "mark":
                depth += 1
        if any(token.text in _LOGICAL for token in outer if token.kind != "text"):
            return True
        last = next((token for token in reversed(outer) if token.text not in ("(", ")")), None)
        if last is None:  # all of it in brackets
            return True
        if any(token.text in ("+", "-", "*", "/", "%") for token in outer if token.kind == "mark"):
            return False
        if last.kind in ("text", "number") or last.text in ("null", "}"):
            return False
        if last.text == "]":
            return len(outer) > 2
        return not (outer[-1].text == ")" and last.text in _NOT_BOOLEAN_CALLS)

    def is_member(self, at: int) -> bool:
        return at > 0 and self.mark(at - 1) == "."

    def is_bound(self, name: str) -> bool:
        return any(bracket.bound == name for bracket in self.open)

    def mark(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) and self.tokens[at].kind == "mark" else ""

    def fault(self, token: Token, why: str) -> ConditionFault:
        return ConditionFault(self.text, token.start, why, self.place)
