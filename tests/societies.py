"""Societies for tests: small builders with good defaults, and random ones made from plans.

A *plan* is data: for each agent, for each of its rounds, a list of steps. Hypothesis draws plans, and `planned` builds the
same society from the same plan as often as it is asked, each time with other delays at its boundaries.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio
from hypothesis import strategies as st
from schedules import Delays

from society import Agent, AsyncHost, AsyncSociety, Limits, Shared, Society, story
from society.barrier import fold
from society.codec import ORIGIN, encode, scan, sum_of
from society.declare import declared
from society.errors import SocietyError, ToolFailed
from society.records import Barrier, End, Opening, Start
from society.telling import Telling

# ── small ones ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def idle(tick: Any) -> None:
    """A behavior that does nothing."""


def town(*agents: Agent | Callable[[Any], Any], turns: bool = False, **how: Any) -> AsyncSociety:
    """Return a society; a bare function becomes an agent of its name, `turns` makes them tick one after another."""
    declared = [agent if isinstance(agent, Agent) else Agent(agent.__name__, agent) for agent in agents]
    return (Society if turns else AsyncSociety)(declared, **how)


def doing(*rounds: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return a plain behavior that does one thing per round, and nothing in later ones."""

    def behavior(tick: Any) -> None:
        if tick.round <= len(rounds) and (act := rounds[tick.round - 1]) is not None:
            act(tick)

    return behavior


def doing_async(*rounds: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return an async behavior that does one thing per round; each thing may be async."""

    async def behavior(tick: Any) -> None:
        if tick.round <= len(rounds) and (act := rounds[tick.round - 1]) is not None:
            result = act(tick)
            if result is not None:
                await result

    return behavior


def kinds(town: AsyncSociety, agent: str | None = None, round: int | None = None) -> list[str]:
    """Return the kinds of a trace's events, in order, without the first of a round and the end."""
    found = town.trace.events if agent is None and round is None else town.trace.where(agent=agent, round=round)
    return [event.kind for event in found if event.kind not in ("round", "end")]


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Kept:
    """A journal that keeps the lines it is given, and is durable after a random while."""

    def __init__(self, delays: Delays | None = None) -> None:
        self.lines: list[bytes] = []
        self._delays = delays

    def put(self, record: Any) -> None:
        before = sum_of(self.lines[-1]) if self.lines else ORIGIN
        self.lines.append(encode(record, before, begins_batch=False))

    async def durable(self) -> None:
        if self._delays is not None:
            await self._delays()

    def records(self) -> list[Any]:
        return list(scan(b"".join(self.lines)).records())


def keeping(town: AsyncSociety, delays: Delays | None = None) -> Kept:
    """Let a society's records be kept, encoded, as a store would."""
    journal = Kept(delays)
    journal.put(town.start_record())

    async def run(max_ticks: int) -> Any:
        return await town._run_with(journal, max_ticks)

    town._run = run  # type: ignore[method-assign]
    return journal


def refolded(records: Iterable[Any]) -> tuple[Any, bytes]:
    """Return the state that the records of a run come to, and its trace, folded and told without its code."""
    terms = state = None
    told = Telling()
    crossings: dict[tuple[str, int], list[Any]] = {}
    last = None
    for record in records:
        match record:
            case Start():
                terms, state = declared(record)
                told.begin(record)
            case Opening():
                told.add(story.opening(record))
            case Barrier():
                closed = fold(state, terms, record, crossings)  # type: ignore[arg-type]
                told.add(story.tell(state, record, crossings, closed))  # type: ignore[arg-type]
                state, crossings = closed.after, {}
            case End():
                last = record
            case _ if hasattr(record, "at"):
                crossings.setdefault((record.agent, record.tick), []).append(record)
    return state, told.told(last, state.round)  # type: ignore[union-attr]


# ── random ones ─────────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = ("ada", "bob", "cyd", "dan", "eve")
RULES: Mapping[str, Shared] = {
    "last": Shared(0),
    "first": Shared(0, merge="first"),
    "append": Shared([], merge="append"),
    "sum": Shared(0, merge="sum"),
    "min": Shared(None, merge="min"),
    "max": Shared(0, merge="max"),
    "union": Shared(["x"], merge="union"),
    "named": Shared(0, merge=lambda value, contribution: value * 2 + contribution),
}
STUCK = 10_000.0
"""Seconds, of a clock that jumps; far above all random delays together."""
PATIENCE = 10.0
ROUND = 5_000.0

Step = tuple[Any, ...]

_keys = st.sampled_from(sorted(RULES))
_numbers = st.integers(0, 9)
_tools = st.sampled_from(["echo", "quick", "look", "broken", "slow", "asking again"])
_steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 4), _numbers),
    st.tuples(st.just("broadcast"), _numbers),
    st.tuples(st.just("share"), _keys, _numbers),
    st.tuples(st.just("share"), _keys, _numbers),
    st.tuples(st.just("see"), _keys),
    st.tuples(st.just("read"), st.sampled_from(["weather", "noise", "dead"])),
    st.tuples(st.just("call"), _tools, _numbers),
    st.tuples(st.just("call"), _tools, _numbers),
    st.tuples(st.just("gather"), st.lists(_tools, min_size=2, max_size=3), _numbers),
    st.tuples(st.just("nursery"), st.lists(_tools, min_size=2, max_size=3), _numbers),
    st.tuples(st.just("delegate"), st.sampled_from(["helper", "oracle", "breaking"]), _numbers),
    st.tuples(st.just("ask"), _numbers),
    st.tuples(st.just("remember"), _numbers),
    st.tuples(st.just("publish"), _numbers),
    st.tuples(st.just("peer"), st.integers(0, 4)),
    st.tuples(st.just("draw")),
    st.tuples(st.just("give up")),
)
_endings: st.SearchStrategy[Step] = st.one_of(
    st.just(("well",)),
    st.just(("well",)),
    st.just(("well",)),
    st.just(("fail",)),
    st.just(("late",)),
    st.just(("forget",)),
    st.just(("retire",)),
    st.tuples(st.just("spawn"), _numbers),
)


@attrs.frozen(kw_only=True)
class Plan:
    agents: tuple[tuple[tuple[Step, ...], ...], ...]
    """By agent, by round, the steps."""
    seed: int = 0
    inbox_capacity: int | None = None
    tools: int | None = 2
    on_error: str = "continue"
    error_key: bool = False
    """One more key, with merge = "error", that the first two agents write in the last round."""
    rounds: int = 3


_rounds = st.builds(lambda steps, ending: (*steps, ending), st.lists(_steps, max_size=4), _endings)
plans = st.builds(
    Plan,
    agents=st.lists(st.lists(_rounds, min_size=3, max_size=3).map(tuple), min_size=2, max_size=5).map(tuple),
    seed=st.integers(0, 3),
    inbox_capacity=st.sampled_from([None, 1, 2]),
    tools=st.sampled_from([None, 1, 2]),
    on_error=st.sampled_from(["continue", "continue", "retire", "stop"]),
    error_key=st.booleans(),
)


def drawn_plan(number: int) -> Plan:
    """Return one plan with a lot in it, without hypothesis."""
    rng = random.Random(number)
    tools = ["echo", "quick", "look", "broken", "slow", "asking again"]

    def step() -> Step:
        n = rng.randrange(10)
        return rng.choice(
            [
                ("send", n % 5, n),
                ("broadcast", n),
                ("share", rng.choice(sorted(RULES)), n),
                ("read", rng.choice(["weather", "noise", "dead"])),
                ("call", rng.choice(tools), n),
                ("gather", rng.sample(tools, 3), n),
                ("nursery", rng.sample(tools, 3), n),
                ("delegate", rng.choice(["helper", "oracle", "breaking"]), n),
                ("ask", n),
                ("draw",),
                ("give up",),
            ]
        )

    endings = [("well",)] * 6 + [("fail",), ("late",), ("forget",), ("spawn", 1)]
    return Plan(
        agents=tuple(tuple((*(step() for _ in range(4)), rng.choice(endings)) for _ in range(3)) for _ in range(5)),
        seed=number,
        inbox_capacity=4,
    )


class Violation(AssertionError):
    """An agent saw what it must not see."""


def planned(plan: Plan, schedule: int, *, turns: str | None = None) -> AsyncSociety:
    """Return the society of a plan.

    Args:
        plan: What its agents do.
        schedule: Of the delays at its boundaries.
        turns: `sequential` or `shuffled`; synchronized where None.
    """
    delays = Delays(schedule)
    shared = dict(RULES)
    if plan.error_key:
        shared["strict"] = Shared(0, merge="error")
    built: list[AsyncSociety] = []
    agents = [
        Agent(NAMES[place], _behavior(plan, rounds, place, built), observe=["weather"] if place == 1 else ())
        for place, rounds in enumerate(plan.agents)
    ]
    limits = Limits(
        max_concurrent_tools=plan.tools,
        tool_timeout=PATIENCE,
        round_timeout=ROUND,
        inbox_capacity=plan.inbox_capacity,
    )
    built.append(
        (AsyncSociety if turns is None else Society)(
            agents,
            hosts=_world(delays),
            shared=shared,
            limits=limits,
            seed=plan.seed,
            on_error=plan.on_error,
            run_id="planned",
            measures={"sum": lambda view: view.shared["sum"], "alive": _alive},
            events=[
                {"round": 2, "share": {"sum": 100}},
                {"round": 3, "send": {"to": "ada", "kind": "hint", "body": {"n": 1}}},
            ],
            activation=turns,
        )
    )
    return built[0]


def _alive(view: Any) -> int:
    return sum(not agent.retired for agent in view.agents)


def _world(delays: Delays) -> AsyncHost:
    host = AsyncHost()
    attempts: dict[str, int] = {}

    async def asker(question: Any) -> Any:
        await delays()
        return f"yes to {question}"

    host.asker = asker

    @host.sensor("weather")
    async def weather() -> str:
        await delays()
        return "rain"

    @host.sensor("noise", thread=False)
    def noise() -> Any:
        return {"not", "a value"}

    @host.sensor("dead")
    async def dead() -> str:
        await delays()
        raise OSError("no such device")

    @host.sensor("stuck")
    async def stuck() -> None:
        await trio.sleep(STUCK)

    @host.tool("echo")
    async def echo(n: int) -> int:
        await delays()
        return n

    @host.tool("quick", thread=False)
    def quick(n: int) -> dict[str, int]:
        return {"n": n}

    @host.tool("look", reads_only=True)
    async def look(n: int) -> list[int]:
        await delays()
        return [n, n]

    @host.tool("broken")
    async def broken(n: int) -> None:
        await delays()
        raise ValueError(f"broken {n}")

    @host.tool("slow")
    async def slow(n: int) -> None:
        await trio.sleep(STUCK)

    @host.tool("asking again", idempotent=True)
    async def asking_again(n: int) -> int:
        from society import current_action

        key = current_action().idempotency_key
        attempts[key] = attempts.get(key, 0) + 1
        if attempts[key] == 1:
            await trio.sleep(STUCK)
        return n

    @host.subagent("helper")
    async def helper(tick: Any, n: int) -> Any:
        tick.share("append", f"helped {n}")
        found = await tick.call("echo", n=n)
        tick.send("ada", "helped", n=found)
        return [await tick.read("weather"), tick.rng.random()]

    @host.subagent("breaking")
    async def breaking(tick: Any, n: int) -> None:
        tick.share("append", "never seen")
        await tick.call("echo", n=n)
        raise KeyError(n)

    @host.subagent("oracle")
    async def oracle(n: int) -> int:
        await delays()
        return -n

    return host


def _behavior(
    plan: Plan, rounds: tuple[tuple[Step, ...], ...], place: int, built: list[AsyncSociety]
) -> Callable[[Any], Any]:
    async def behavior(tick: Any) -> None:
        mine: dict[str, list[Any]] = {}
        if tick.inbox:
            tick.note(f"inbox {[(message.sender, message.body.get('n')) for message in tick.inbox]}")
        if tick.stranded or tick.in_doubt:
            tick.note(f"stranded {len(tick.stranded)}, in doubt {len(tick.in_doubt)}")
        for step in rounds[tick.round - 1] if tick.round <= len(rounds) else ():
            await _take(step, tick, mine, built[0])
        if plan.error_key and tick.round == plan.rounds and place < 2:
            tick.share("strict", place)

    return behavior


async def _take(step: Step, tick: Any, mine: dict[str, list[Any]], society: AsyncSociety) -> None:
    match step:
        case ("send", to, n):
            tick.send(NAMES[to % len(society._declared_agents)], "note", n=n)
        case ("broadcast", n):
            tick.broadcast("news", n=n)
        case ("share", key, n):
            tick.share(key, n)
            mine.setdefault(key, []).append(n)
        case ("see", key):
            _check_sight(tick, mine, society, key)
        case ("read", sensor):
            value = await tick.read(sensor)
            tick.note(f"{sensor}: {value!r}")
        case ("call", tool, n):
            tick.share("append", await _told(tick.call(tool, n=n)))
            mine.setdefault("append", []).append(None)
        case ("gather", tools, n):
            tick.note(await _told(tick.gather(*(tick.call(tool, n=n) for tool in tools))))
        case ("nursery", tools, n):
            await _in_a_nursery(tick, tools, n)
        case ("delegate", name, n):
            tick.note(await _told(tick.delegate(name, n)))
            mine["append"] = [None]
        case ("ask", n):
            tick.note(await tick.ask_human(n))
        case ("remember", n):
            tick.state["n"] = [*tick.state.get("n", []), n]
        case ("publish", n):
            tick.public["n"] = n
        case ("peer", place):
            name = NAMES[place % len(society._declared_agents)]
            tick.note(f"{name} shows {dict(tick.peer(name))}")
            if not society.terms.in_turn and tick.peer(name) != society.state.publics.get(name, {}):
                raise Violation(f"{tick.agent} sees what {name} published in the same round")
        case ("draw",):
            tick.note(f"drew {tick.rng.random()}")
        case ("give up",):
            with trio.move_on_after(PATIENCE):
                await tick.read("stuck")
        case ("fail",):
            raise RuntimeError(f"{tick.agent} fails")
        case ("late",):
            await tick.read("stuck")
        case ("forget",):
            tick.read("weather")
        case ("retire",):
            tick.retire()
        case ("spawn", n):
            if not any(agent.name == f"kid-{n}" for agent in society.agents):
                tick.spawn(Agent(f"kid-{n}", _kid, state={"parent": tick.agent}))


def _kid(tick: Any) -> None:
    tick.send("ada", "hello", n=tick.round)
    tick.share("union", tick.state["parent"])


async def _told(crossing: Any) -> str:
    try:
        return str(await crossing)
    except (SocietyError, ToolFailed) as error:
        return str(error)


async def _in_a_nursery(tick: Any, tools: list[str], n: int) -> None:
    """Start crossings in a nursery of the agent's own: their order is that of the calls (J2)."""

    async def told(crossing: Any) -> None:
        await _told(crossing)

    async with trio.open_nursery() as nursery:
        for tool in tools:
            nursery.start_soon(told, tick.call(tool, n=n))


def _check_sight(tick: Any, mine: dict[str, list[Any]], society: AsyncSociety, key: str) -> None:
    """Hold R3: in a synchronized round an agent sees its snapshot and its own writes, nobody else's."""
    seen = tick.shared[key]
    tick.note(f"{key} is {seen}")
    if society.terms.in_turn or (key == "append" and mine.get(key)):
        return
    before = society.state.shared[key] + (100 if key == "sum" and tick.round == 2 else 0)
    expected = own_sight(key, before, mine.get(key, [])) if key != "append" else before
    if seen != expected:
        raise Violation(f"{tick.agent} sees {key} = {seen}, not {expected}")


def own_sight(rule: str, value: Any, own: list[Any]) -> Any:
    """Return what an agent sees of a key after its own writes: an account of the merge rules independent of merge.py."""
    for n in own:
        match rule:
            case "last":
                value = n
            case "first":
                value = own[0]
            case "sum":
                value += n
            case "min":
                value = n if value is None else min(value, n)
            case "max":
                value = max(value, n)
            case "union":
                value = value if n in value else [*value, n]
            case "named":
                value = value * 2 + n
    return value
