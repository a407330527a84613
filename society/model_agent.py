"""Agents that a model drives: each tick, its inbox and what it sees become a request, and its calls become actions.

    ModelAgent("responder", "You keep the service alive.", tools=["restart"], wake="inbox")

Knows: what such an agent is declared with, and the order of steps of its tick.
Does not know: how a model is asked (`asking.py`), or the words it is told (`briefing.py`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from society.agent import Agent, Behavior, qualified
from society.briefing import Template, briefing, plain_prompt
from society.budget import Budget
from society.errors import ScenarioError, suggestion
from society.history import NOTHING_SAID
from society.host import Desk
from society.policy import Policy
from society.thread import NO_THREAD, remember, remembered
from society.toolbox import PREFIX, toolbox
from society.values import EMPTY

Wake: TypeAlias = Literal["always", "inbox"]
Remembers: TypeAlias = Literal["thread", "fresh"]

WITHOUT: Final = ("model_silent", "refused", "malformed", "unknown_stop", "budget")
"""Outcomes in which the model gave nothing to go by: the fallback acts instead."""

CONTEXT: Final = 100_000
MAX_TURNS: Final = 8
MAX_TOKENS: Final = 4096


@attrs.frozen(eq=False, kw_only=True)
class Driven:
    """The behavior of an agent that a model drives."""

    prompt: str | Template
    tools: tuple[str, ...]
    wake: Wake
    memory: Remembers
    context: int
    max_turns: int
    max_tokens: int
    model: str | None
    fallback: Behavior | None

    asks = True
    """It needs a model; told before the run starts."""

    # Plain, so that one who sleeps costs no task: what it returns is awaited.
    def __call__(self, tick: Any) -> Coroutine[Any, Any, None] | None:
        if self.wake == "inbox" and not tick.inbox and not tick.receipts:
            return None
        return self._drive(tick)

    async def _drive(self, tick: Any) -> None:
        system = self.prompt if isinstance(self.prompt, str) else self.prompt.filled(tick)
        threads = tick._snapshot.gate.models(tick).threads
        if self.memory == "thread":
            thread = remembered(tick.state.held(), threads.get(tick.agent, NO_THREAD))
        before = thread.history if self.memory == "thread" else NOTHING_SAID
        result = await tick.act(
            briefing(tick, _others(tick)),
            tools=self.all_tools,
            system=system,
            max_tokens=self.max_tokens,
            max_turns=self.max_turns,
            messages=before,
        )
        if self.memory == "thread":
            said = result.messages[len(before.messages) :]
            threads[tick.agent] = remember(tick.state, thread, said, self.context)
        if result.outcome != "done" and self.fallback is not None and self.heeds(result.outcome):
            acting = self.fallback(tick)
            if hasattr(acting, "__await__"):
                await acting

    def heeds(self, outcome: str) -> bool:
        """Tell whether an outcome of its loop is success, or one in which its fallback acts."""
        return outcome == "done" or (self.fallback is not None and outcome in WITHOUT)

    @property
    def all_tools(self) -> tuple[str, ...]:
        return (*self.tools, f"{PREFIX}*")

    @property
    def meaning(self) -> dict[str, Any]:
        """What may not change on resume (J7)."""
        return {
            "prompt": plain_prompt(self.prompt),
            "tools": list(self.tools),
            "wake": self.wake,
            "memory": self.memory,
            "context": self.context,
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "model": self.model,
        }

    @property
    def written(self) -> dict[str, Any]:
        """All of it as a value, from which `driven_as_written` makes it again."""
        return {**self.meaning, "fallback": None if self.fallback is None else qualified(self.fallback)}

    def check(self, desk: Desk, agent: str) -> None:
        """Refuse tools that the agent's hosts have not."""
        toolbox(desk, self.all_tools, agent)


def _others(tick: Any) -> Sequence[str]:
    """Return its neighbors, where there is a topology; else all who have not left."""
    snapshot = tick._snapshot
    return list(tick.neighbors) if snapshot.neighbors is not None else snapshot.before.live


@attrs.frozen(init=False)
class ModelAgent(Agent):
    """An agent that a model drives.

    Each tick its inbox, what is shared and what it observes become a request; the model works with tools until it is
    done or a guard ends it, whose outcome the trace shows. Besides `tools` it has those of the society: `society__send`,
    `society__broadcast`, `society__share`, `society__read_shared`, `society__note`. What they wrote counts even where
    the loop did not end as `done`.

    Args:
        prompt: The persona, sent as the system prompt: a text, or a `Template` over parameters and state.
        tools: Names or globs: tools of its hosts, judged by its policy as any call is.
        wake: With `"inbox"` it is asked only when there are messages or receipts for it; otherwise its tick costs nothing.
        model: The name of one of the society's models; `None` for the only one.
        memory: `"thread"`: it remembers its exchanges, in its state; `"fresh"`: each tick begins anew. What the model was
            told and never answered is not remembered.
        context: Characters of the thread. Older exchanges are left out whole, the oldest first.
        max_turns: Turns of one tick before a guard ends it.
        max_tokens: Room for each reply.
        budget: Of its own, for its whole life.
        fallback: A behavior that acts where the model is silent, refuses, or gives nothing to go by. What the model's
            calls did before stands.

    Raises:
        ScenarioError: Something is declared wrongly.
    """

    def __init__(
        self,
        name: str,
        prompt: str | Template,
        *,
        observe: Iterable[str] = (),
        tools: Iterable[str] = (),
        wake: Wake = "always",
        model: str | None = None,
        memory: Remembers = "thread",
        context: int = CONTEXT,
        max_turns: int = MAX_TURNS,
        max_tokens: int = MAX_TOKENS,
        budget: Budget | None = None,
        policy: Policy | None = None,
        state: Mapping[str, Any] = EMPTY,
        public: Mapping[str, Any] = EMPTY,
        group: str | None = None,
        index: int | None = None,
        fallback: Behavior | None = None,
    ) -> None:
        behavior = driven(
            name,
            prompt,
            tools=tools,
            wake=wake,
            memory=memory,
            context=context,
            max_turns=max_turns,
            max_tokens=max_tokens,
            model=model,
            fallback=fallback,
        )
        self.__attrs_init__(
            name,
            behavior,
            observe=observe,
            policy=policy if policy is not None else Policy(),
            state=state,
            public=public,
            group=group,
            index=index,
            model=model,
            budget=budget,
        )


def driven(
    name: str,
    prompt: str | Template,
    *,
    tools: Iterable[str] = (),
    wake: Wake = "always",
    memory: Remembers = "thread",
    context: int = CONTEXT,
    max_turns: int = MAX_TURNS,
    max_tokens: int = MAX_TOKENS,
    model: str | None = None,
    fallback: Behavior | None = None,
) -> Driven:
    """Return the behavior of a model-driven agent.

    Raises:
        ScenarioError: Something is given wrongly.
    """
    if not isinstance(prompt, (str, Template)) or prompt == "":
        raise ScenarioError(f"agent {name!r}: its prompt is a text or a Template, not {prompt!r}.")
    if isinstance(tools, str):
        raise ScenarioError(f"agent {name!r}: tools is a list of names, not the text {tools!r}.")
    for key, value, known in (("wake", wake, ("always", "inbox")), ("memory", memory, ("thread", "fresh"))):
        if value not in known:
            raise ScenarioError(
                f"agent {name!r}: {key}: {value!r} is not one of {', '.join(known)}.{suggestion(str(value), known)}"
            )
    for key, number in (("context", context), ("max_turns", max_turns), ("max_tokens", max_tokens)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ScenarioError(f"agent {name!r}: {key}: {number!r} is not a whole number of at least 1.")
    if fallback is not None and not callable(fallback):
        raise ScenarioError(f"agent {name!r}: its fallback is a function of the tick, not {fallback!r}.")
    return Driven(
        prompt=prompt,
        tools=tuple(tools),
        wake=wake,
        memory=memory,
        context=context,
        max_turns=max_turns,
        max_tokens=max_tokens,
        model=model,
        fallback=fallback,
    )


def driven_as_written(name: str, written: Mapping[str, Any], fallback: Behavior | None) -> Driven:
    """Return the behavior of an agent that was born in a run, from what is recorded of it."""
    given = {key: value for key, value in written.items() if key not in ("prompt", "fallback")}
    prompt = written["prompt"]
    return driven(name, prompt if isinstance(prompt, str) else Template(prompt["template"]), fallback=fallback, **given)
