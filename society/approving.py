"""People at the command line: who answers when an action needs approval, or an agent asks a question in words.

    ask     whoever sits at the terminal, one question after another; without a terminal nobody
    never   nobody, at once
    wait    whoever answers later, from another process: the run ends as `waiting`

No answer is never consent, and only `y` and `yes` are (K5). Waiting for a person holds up nobody but the agent that asked.

Knows: what is shown, and which line means what.
Does not know: terminals (the screen does), or rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from society.lines import Line, Part, shown

if TYPE_CHECKING:
    from society.view import Screen

Approve: TypeAlias = Literal["ask", "never", "wait"]

YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})


def people(how: Approve | None, hosts: Iterable[Any], screen: Screen) -> dict[str, Any]:
    """Return `approver` and `asker` for a society. What is left out, the hosts of the scenario do themselves.

    Args:
        how: What was asked for; `None`: the scenario's own people, or else the one at the terminal.
        hosts: Those of the scenario.
    """
    from society.values import WAIT

    match how:
        case "wait":
            return {"approver": WAIT, "asker": WAIT}
        case "never":
            return {"approver": nobody, "asker": nobody}
    there = list(hosts)
    someone = AtTerminal(screen) if screen.can_ask else None
    found = {
        "approver": someone.approve if someone else nobody,
        "asker": someone.answer if someone else nobody,
    }
    if how == "ask":
        return found
    return {role: who for role, who in found.items() if all(getattr(host, role, None) is None for host in there)}


async def nobody(question: Any) -> Any:
    """Answer nothing."""
    from society.values import NO_ANSWER

    return NO_ANSWER


class AtTerminal:
    """The person at the terminal, who is asked one thing at a time.

    Standing in line for that person counts toward `human_timeout`: whoever asks has waited all the same.
    """

    def __init__(self, screen: Screen) -> None:
        import trio

        self._screen = screen
        self._is_free = trio.Lock()

    async def approve(self, request: Any) -> Any:
        """Return `True` for yes, `False` for no, `NO_ANSWER` when the terminal has gone."""
        from society.values import NO_ANSWER

        async with self._is_free:
            lines = list(asked(request.agent, request.tool, request.arguments, request.rule))
            while (said := await self._screen.ask(lines, "Approve? [y/n] ")) is not None:
                if said.casefold() in YES | NO:
                    return said.casefold() in YES
                lines = []  # neither yes nor no: once more, without showing all of it again
        return NO_ANSWER

    async def answer(self, question: Any) -> Any:
        """Return the line that is typed, `NO_ANSWER` when the terminal has gone."""
        from society.values import NO_ANSWER

        async with self._is_free:
            said = await self._screen.ask([(Part("An agent asks: ", "title"), Part(words(question)))], "Answer: ")
        return NO_ANSWER if said is None else said


def asked(agent: str, tool: str, arguments: Any, rule: str) -> Iterator[Line]:
    """Yield what is to be approved as lines. Nothing is cut: a yes is given to exactly this."""
    yield (Part(shown(agent), "agent"), Part(" wants to use "), Part(shown(tool), "name"))
    for name, value in arguments.items():
        yield (Part("  "), Part(f"{shown(name)} = ", "quiet"), Part(words(value), "value"))
    if not arguments:
        yield (Part("  without arguments", "quiet"),)
    if rule:
        yield (Part("  asked by ", "quiet"), Part(shown(rule)))


def words(value: Any) -> str:
    """Return a value as JSON that is safe to show."""
    return shown(json.dumps(value, ensure_ascii=False))
