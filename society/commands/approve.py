"""`society approve`: what waits for a person in a run, and the person's answer, from another process than the run's."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from society.commands.options import Json, OnScreen
from society.exit_codes import DONE, Verdict
from society.lines import Part, shown
from society.view import Screen


def approve(
    folder: Annotated[Path, Parameter(name="DIR")],
    id: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    refuse: Annotated[bool, Parameter(negative="")] = False,
    answer: Annotated[str | None, Parameter(negative="")] = None,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """List what waits for a person in a run, or answer it; `society resume` then goes on.

    A yes is given to exactly the arguments that are shown.

    Args:
        folder: The run's folder.
        id: What to answer; the beginning of an id is enough.
        refuse: The answer is no.
        answer: The answer to a question in words.
    """
    from society.errors import ScenarioError
    from society.reruns import opened_at, standing

    store = opened_at(folder)
    if id is None:
        if refuse or answer is not None:
            raise ScenarioError(
                "approve: name what you answer by its id; without one, `society approve DIR` lists them."
            )
        return _listed(standing(store), folder, screen, json)
    return _answered(store, folder, id, refuse, answer, screen, json)


def _listed(waiting: list[Any], folder: Path, screen: Screen, json: bool) -> Verdict:
    if json:
        _document({"waiting": [facts(one) for one in waiting]}, screen)
    else:
        for one in waiting:
            screen.print(lines(one))
    if not waiting:
        return Verdict(DONE, "nothing waits for a person")
    first = shlex.quote(waiting[0].id[:12])
    way = "" if waiting[0].tool is not None else " --answer TEXT"
    waits = "1 question waits" if len(waiting) == 1 else f"{len(waiting)} questions wait"
    return Verdict(DONE, f"{waits}; go on with: society approve {shlex.quote(str(folder))} {first}{way}")


def _answered(
    store: Any, folder: Path, id: str, refuse: bool, words: str | None, screen: Screen, json: bool
) -> Verdict:
    import trio

    from society.errors import ScenarioError
    from society.reruns import answer as answered
    from society.reruns import standing

    meant = [one for one in standing(store) if one.id.startswith(id)]
    if len(meant) == 1:  # any other number is refused below, with what there is
        if meant[0].tool is None and (words is None or refuse):
            raise ScenarioError(f"{meant[0].id} is a question in words: answer it with --answer TEXT.")
        if meant[0].tool is not None and words is not None:
            raise ScenarioError(f"{meant[0].id} is an action: it is approved, or refused with --refuse.")
    question = trio.run(answered, store, id, words if words is not None else not refuse)
    left = len(standing(store))
    said = "answered" if question.tool is None else "refused" if refuse else "approved"
    if json:
        _document({"answered": {**facts(question), "as": said}, "waiting": left}, screen)
    else:
        screen.print(lines(question))
    more = f"; {left} more to answer" if left else ""
    return Verdict(DONE, f"{said}{more}; go on with: society resume {shlex.quote(str(folder))}")


def lines(one: Any) -> list[Any]:
    """Return a question as lines: whole, since a yes is given to exactly this."""
    from society.approving import asked, words

    head = (Part(shown(one.id), "kind"), Part(f"  round {one.round}", "quiet"))
    if one.tool is None:
        return [head, (Part(shown(one.agent), "agent"), Part(" asks "), Part(words(one.arguments), "value"))]
    return [head, *asked(one.agent, one.tool, one.arguments, one.rule)]


def facts(one: Any) -> dict[str, Any]:
    """Return a question as a JSON object."""
    from society.values import plain

    found = {"id": one.id, "agent": one.agent, "round": one.round}
    if one.tool is None:
        return {**found, "question": plain(one.arguments)}
    return {**found, "tool": one.tool, "arguments": plain(one.arguments), "rule": one.rule}


def _document(found: dict[str, Any], screen: Screen) -> None:
    import msgspec

    screen.document(msgspec.json.encode(found) + b"\n")
