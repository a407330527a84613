"""Replies for scripted models, in the shape of the Messages API.

ScriptedModel([use("search", q="rain"), say("It will rain.")])
"""

from __future__ import annotations

from typing import Any


def say(text: str, *, stop_reason: str | None = "end_turn", usage: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a reply that says something."""
    return _reply([{"type": "text", "text": text}], stop_reason, usage)


def use(
    tool: str | tuple[tuple[str, dict[str, Any]], ...] | list[tuple[str, dict[str, Any]]],
    /,
    *,
    saying: str = "",
    id: str | None = None,
    stop_reason: str | None = "tool_use",
    usage: dict[str, int] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Return a reply that calls a tool, or several: `use([("a", {}), ("b", {"x": 1})])`.

    Args:
        tool: Its name; or (name, arguments) of each call.
        saying: Text before the calls.
        id: Of the one call; `t1`, `t2`, … where None. The loop makes ids distinct across a history.
        stop_reason: `tool_use`, unless something else shall be shown.
        usage: Token counts by name.
        arguments: Of the one call.
    """
    calls = [(tool, arguments)] if isinstance(tool, str) else list(tool)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": saying}] if saying else []
    for number, (name, given) in enumerate(calls, 1):
        blocks.append({"type": "tool_use", "id": id or f"t{number}", "name": name, "input": dict(given)})
    return _reply(blocks, stop_reason, usage)


def _reply(blocks: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, int] | None) -> dict[str, Any]:
    return {
        "content": blocks,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 0, "output_tokens": 0, **(usage or {})},
    }
