"""What a model-driven agent is told at the start of its tick: its inbox and what it sees, as text of stable bytes.

    Round 3. You are bob.

    Messages for you:
    - ada, offer: {"price": 3}

    Shared:
    - status = "open"

    You can write to: ada, carol.

Knows: what there is to tell, its order, and how much of it.
Does not know: models, or what an agent makes of it.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from society.errors import ScenarioError, suggestion
from society.results import text_of_value
from society.values import FrozenDict, Unperceived, Value, plain

SHOWN_OF_VALUE: Final = 2_000
"""Characters of a shared value; the whole of it is one call away."""
SHOWN_NAMES: Final = 50


def briefing(tick: Any, others: Sequence[str]) -> str:
    """Return what a tick looks at, in words for its model. `others` are those it is told it can write to."""
    parts = [f"Round {tick.round}. You are {tick.agent}."]
    for title, lines in (
        ("Messages for you", _inbox(tick)),
        ("Not delivered", _receipts(tick)),
        ("Shared", _shared(tick)),
        ("You perceive", _observed(tick)),
        ("In doubt, done or not, nobody knows", [_action(action) for action in tick.in_doubt]),
        ("From rounds of yours that did not end well", [f"{_action(one)}: {one.ending}" for one in tick.stranded]),
    ):
        if lines:
            parts.append("\n".join([f"{title}:", *(f"- {line}" for line in lines)]))
    if names := _names(tick.agent, others):
        parts.append(f"You can write to: {names}.")
    return "\n\n".join(parts)


def _inbox(tick: Any) -> list[str]:
    return [f"{message.sender}, {message.kind}: {_body(message.body)}" for message in tick.inbox]


def _body(body: Mapping[str, Value]) -> str:
    said = body.get("text")
    return said if len(body) == 1 and isinstance(said, str) else _json(body)


def _receipts(tick: Any) -> list[str]:
    return [
        f"{'a birth' if receipt.message is None else receipt.message.kind} for {receipt.recipient}: {receipt.reason}"
        for receipt in tick.receipts
    ]


def _shared(tick: Any) -> list[str]:
    lines = []
    for key, value in tick.shared.items():
        text = _json(value)
        if len(text) > SHOWN_OF_VALUE:
            text = f"{text[:SHOWN_OF_VALUE]}… ({len(text):,} characters; society__read_shared gives all of them)"
        lines.append(f"{key} = {text}")
    return lines


def _observed(tick: Any) -> list[str]:
    silent = tick.root.silent or {}
    return [
        f"{sensor}: unknown ({silent.get(sensor, 'no reading')})"
        if isinstance(value, Unperceived)
        else f"{sensor} = {_json(value)}"
        for sensor, value in tick.observed.items()
    ]


def _action(action: Any) -> str:
    return f"{action.tool}({_json(action.arguments)}) in round {action.round}"


def _names(agent: str, others: Sequence[str]) -> str:
    others = [name for name in others if name != agent]
    more = f" and {len(others) - SHOWN_NAMES:,} more" if len(others) > SHOWN_NAMES else ""
    return ", ".join(others[:SHOWN_NAMES]) + more


def _json(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@attrs.frozen
class Template:
    """A prompt with `{name}` where a parameter of the society or a value of the agent's state stands.

    `{agent}`, `{group}` and `{index}` are the agent itself, unless a parameter or its state has that name. A brace is
    written twice: `{{`.
    """

    text: str

    def __attrs_post_init__(self) -> None:
        for name in self.names:
            if not name.isidentifier():
                raise ScenarioError(
                    f"template: {{{name}}} is not a name of a parameter or of the state; a brace is written twice: {{{{."
                )

    @property
    def names(self) -> list[str]:
        """The names in it, in order.

        Raises:
            ScenarioError: A brace is not closed.
        """
        try:
            parsed = list(string.Formatter().parse(self.text))
        except ValueError as error:
            raise ScenarioError(f"template: {error}; a brace is written twice: {{{{.") from None
        names = []
        for _, name, form, conversion in parsed:
            if name is not None:
                names.append(f"{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}")
        return names

    def filled(self, tick: Any) -> str:
        """Return the text for one tick.

        Raises:
            ScenarioError: Nothing has one of its names.
        """
        known = {"agent": tick.agent, "group": tick.group, "index": tick.index, **tick.parameters, **tick.state}
        for name in self.names:
            if name not in known:
                raise ScenarioError(
                    f"the prompt of {tick.agent!r}: neither a parameter nor its state is called {name!r}."
                    f"{suggestion(name, [*tick.parameters, *tick.state])}"
                )
        return self.text.format_map({name: text_of_value(known[name]) for name in self.names})


def plain_prompt(prompt: str | Template) -> Any:
    """Return a prompt as a value, for what may not change on resume."""
    return prompt if isinstance(prompt, str) else plain(FrozenDict(template=prompt.text))
