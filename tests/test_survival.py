"""Runs that go on: what a resume restores, what it refuses, and that refusing changes nothing on disk."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from schedules import run
from societies import drawn_plan, planned

import society.survival
from society import (
    Agent,
    AsyncHost,
    AsyncSociety,
    FileStore,
    Limits,
    MemoryStore,
    Policy,
    Shared,
    Society,
    SqliteStore,
    approve,
    deny,
)
from society.errors import JournalDamaged, JournalUnwritable, ResumeRefused
from society.records import Barrier, Checkpoint, End, Intent, Override
from society.testing.crashes import changed_by_doubt
from society.testing.failing_store import Crash, FailingStore


def grow(tick: Any) -> None:
    tick.share("n", 1)


def host_of(*tools: str, **flags: Any) -> AsyncHost:
    host = AsyncHost()
    for name in tools:
        host.tool(name, thread=False, **flags)(lambda **arguments: arguments)
    return host


def growing(store: Any, **how: Any) -> AsyncSociety:
    shared = {"n": Shared(0, "sum"), "log": Shared([], "append")}
    return AsyncSociety(
        how.pop("agents", [Agent("ada", grow), Agent("bob", grow)]), store=store, **{"shared": shared, **how}
    )


def after_two_rounds(**how: Any) -> MemoryStore:
    store = MemoryStore()
    run(growing(store, **how).run, 2)
    return store


def records(store: Any) -> list[Any]:
    return list(store.read().records())


# ── ends that go on, and ends that do not ───────────────────────────────────────────────────────────────────────────────


def test_a_finished_run_returns_its_result_again_and_writes_nothing() -> None:
    store = after_two_rounds()
    before = store.read().data

    again = run(growing(store).run, 2)

    assert (again.outcome, again.rounds, again.shared["n"]) == ("finished", 2, 4)
    assert again.trace.end.outcome == "finished"
    assert store.read().data == before


def test_a_finished_run_goes_on_with_a_larger_max_ticks_as_if_it_had_never_stopped() -> None:
    store = after_two_rounds(measures={"n": lambda view: view.shared["n"]})

    went_on = run(growing(store, measures={"n": lambda view: view.shared["n"]}).run, 5)

    whole = run(growing(None, measures={"n": lambda view: view.shared["n"]}).run, 5)
    assert went_on.trace == whole.trace
    assert went_on.measures == whole.measures == {"n": [0, 2, 4, 6, 8, 10]}
    assert went_on.metrics == whole.metrics


@pytest.mark.parametrize("left_at", range(1, 12))
@pytest.mark.parametrize("checkpoints", [False, True])
def test_who_has_had_a_tick_since_the_last_change_is_known_after_a_resume(
    left_at: int, checkpoints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14: a run of drawn agents ends as quiet in the same round, wherever it was left."""
    if checkpoints:
        monkeypatch.setattr(society.survival, "LEAST_BYTES", 1)

    def town(store: Any) -> AsyncSociety:
        agents = [Agent(f"a-{number}", lambda tick: None) for number in range(8)]
        return AsyncSociety(agents, activation="partial", rate=0.2, seed=3, quiet=True, store=store, name="drawn")

    whole = run(town(MemoryStore()).run, 50)
    store = MemoryStore()
    run(town(store).run, left_at)
    went_on = run(town(store).run, 50)

    assert whole.outcome == "quiet" and whole.rounds > 4
    assert went_on.trace == whole.trace


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        ("satisfied", {"until": "shared.n >= 4"}),
        ("quiet", {"quiet": True, "agents": [Agent("ada", lambda tick: None)]}),
        ("conflict", {"shared": {"n": Shared(0, "error")}}),
    ],
)
def test_what_is_settled_does_not_go_on_with_a_larger_max_ticks(outcome: str, how: dict[str, Any]) -> None:
    """R14."""
    store = MemoryStore()
    first = run(growing(store, **how).run, 5)
    before = store.read().data

    again = run(growing(store, **how).run, 50)

    assert first.outcome == again.outcome == outcome
    assert again.trace == first.trace
    assert store.read().data == before


def fails_in(round: int) -> Callable[[Any], None]:
    def behavior(tick: Any) -> None:
        tick.share("n", 1)
        if tick.round == round:
            raise RuntimeError("not today")

    return behavior


def test_a_failed_run_goes_on_behind_the_failure() -> None:
    """R11."""
    store, agents = MemoryStore(), [Agent("ada", fails_in(2))]
    assert run(growing(store, agents=agents).run, 4).outcome == "failed"

    went_on = run(growing(store, agents=agents).run, 4)

    assert (went_on.outcome, went_on.rounds, went_on.shared["n"]) == ("finished", 4, 3)


def test_a_failure_that_was_passed_stays_passed_when_the_resumed_run_crashes_in_its_next_round() -> None:
    host = host_of("note", idempotent=True)

    async def ada(tick: Any) -> None:
        await tick.call("note", n=tick.round)
        fails_in(2)(tick)

    store, how = MemoryStore(), {"agents": [Agent("ada", ada)], "hosts": host}
    run(growing(store, **how).run, 4)
    with pytest.raises(Crash):
        run(growing(FailingStore(2, store=store), **how).run, 4)
    assert isinstance(records(store)[-1], Intent)

    assert run(growing(store, **how).run, 4).outcome == "finished"


def test_a_crash_between_a_failed_round_and_the_end_leaves_the_run_failed() -> None:
    agents, whole = [Agent("ada", fails_in(2))], MemoryStore()
    run(growing(whole, agents=agents).run, 4)
    scan = whole.read()
    store = MemoryStore(scan.data[: scan.starts[-1]])
    assert isinstance(records(store)[-1], Barrier)

    assert run(growing(store, agents=agents).run, 4).outcome == "failed"


def test_a_run_that_was_cancelled_at_the_barrier_that_satisfied_it_is_satisfied_when_resumed() -> None:
    store, towns = MemoryStore(), []

    def measured(view: Any) -> int:
        if view.shared["n"] == 4:
            towns[0].cancel()
        return 0

    def made() -> AsyncSociety:
        return growing(store, until="shared.n == 4", measures={"m": measured})

    towns.append(made())
    assert run(towns[0].run, 9).outcome == "cancelled"

    resumed = run(made().run, 9)

    assert (resumed.outcome, resumed.rounds) == ("satisfied", 2)


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
def test_a_run_that_was_stopped_from_outside_goes_on_inside_its_round(how: str) -> None:
    towns: list[AsyncSociety] = []
    called: list[int] = []
    host = AsyncHost()

    @host.tool("pay", thread=False)
    def pay(n: int) -> int:
        called.append(n)
        return n

    async def ada(tick: Any) -> None:
        tick.share("n", await tick.call("pay", n=tick.round))
        if tick.round == 2 and towns:
            getattr(towns.pop(), how)()
        await trio.sleep(1)

    store, given = MemoryStore(), {"agents": [Agent("ada", ada)], "hosts": host, "run_id": "one"}
    towns.append(growing(store, **given))
    stopped = run(towns[0].run, 3)
    assert (stopped.outcome, stopped.rounds) == ("cancelled" if how == "cancel" else "interrupted", 1)

    resumed = run(growing(store, **given).run, 3)

    assert called == [1, 2, 3]
    assert resumed.trace == run(growing(None, **given).run, 3).trace


def test_one_society_runs_on_in_its_own_journal_and_tells_one_trace() -> None:
    town = growing(MemoryStore())

    async def three_times() -> list[int]:
        return [(await town.run(ticks)).rounds for ticks in (1, 3, 3)]

    assert run(three_times) == [1, 3, 3]
    assert town.trace == run(growing(None).run, 3).trace


# ── what may not change ─────────────────────────────────────────────────────────────────────────────────────────────────


def other(tick: Any) -> None:
    tick.share("n", 2)


def at_round(view: Any) -> int:
    return int(view.round)


ADA, BOB = Agent("ada", grow), Agent("bob", grow)
SHARED = {"n": Shared(0, "sum"), "log": Shared([], "append")}
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"seed": 1}, "seed: 0, now 1"),
    ({}, {"agents": [BOB, ADA]}, "agents: ['ada', 'bob'], now ['bob', 'ada']"),
    ({}, {"agents": [ADA]}, "agents: ['ada', 'bob'], now ['ada']"),
    ({}, {"agents": [ADA, Agent("bob", grow, state={"x": 1})]}, "agents.bob.state: {}, now {'x': 1}"),
    ({}, {"agents": [ADA, Agent("bob", grow, policy=Policy(deny("pay")))]}, "agents.bob.policy.rules[0] is new"),
    ({}, {"shared": {**SHARED, "n": Shared(1, "sum")}}, "shared.n.initial: 0, now 1"),
    ({}, {"shared": {**SHARED, "n": Shared(0, "max")}}, "shared.n.merge: 'sum', now 'max'"),
    ({}, {"shared": {**SHARED, "n": Shared(0.0, "sum")}}, "shared.n.initial: 0, now 0.0"),
    ({}, {"shared": dict(reversed(SHARED.items()))}, "shared: ['n', 'log'], now ['log', 'n']"),
    ({}, {"shared": {**SHARED, "more": 1}}, "shared.more.initial is new: 1"),
    ({}, {"on_error": "continue"}, "on_error: 'stop', now 'continue'"),
    ({}, {"limits": Limits(inbox_capacity=5)}, "limits.inbox_capacity: None, now 5"),
    ({}, {"activation": "partial", "rate": 0.5}, "activation: 'synchronized', now 'partial'"),
    ({"parameters": {"p": 3}}, {"parameters": {"p": True}}, "parameters.p: 3, now True"),
    ({"parameters": {"p": 3}}, {}, "parameters.p is gone (it was 3)"),
    ({"policy": Policy(deny("x*"))}, {"policy": Policy(approve("x*"))}, "policy.rules[0]: ['deny', 'x*', None], now"),
    ({}, {"policy": Policy(default="deny")}, "policy.default is new: 'deny'"),
    ({"until": "shared.n > 9"}, {"until": "shared.n > 8"}, "until: 'shared.n > 9', now 'shared.n > 8'"),
    ({}, {"quiet": True}, "quiet is new: True"),
    ({}, {"events": [{"round": 9, "share": {"n": 1}}]}, "events in round 9[0] is new"),
    ({}, {"topology": {"ada": ["bob"]}}, "topology is new"),
    ({"measures": {"n": at_round}}, {"measures": {"m": at_round}}, "measures.n is gone"),
    ({"hosts": host_of("pay")}, {"hosts": host_of("paid")}, "tools.pay is gone (it was []); tools.paid is new: []"),
    ({"hosts": host_of("pay")}, {"hosts": host_of("pay", idempotent=True)}, "tools.pay: [], now ['idempotent']"),
    ({}, {"meaning": {"prompt": "be kind"}}, "prompt is new: 'be kind'"),
]


@pytest.mark.parametrize(("before", "now", "told"), CHANGES, ids=[told for *_, told in CHANGES])
def test_a_changed_meaning_is_refused_by_name_and_nothing_on_disk_is_changed(
    before: dict[str, Any], now: dict[str, Any], told: str, tmp_path: Path
) -> None:
    """J7, P54."""
    store = FileStore(tmp_path)
    trio.run(growing(store, **before).run, 2)
    there = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "journal.lock"}

    with pytest.raises(ResumeRefused) as refused:
        trio.run(growing(store, **now).run, 3)

    assert told in str(refused.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "journal.lock"} == there


def test_another_activation_is_refused() -> None:
    store = after_two_rounds()
    with pytest.raises(ResumeRefused, match="activation: 'synchronized', now 'sequential'"):
        run(Society([ADA, BOB], shared=SHARED, store=store).run, 3)


@pytest.mark.parametrize(
    "now",
    [
        {"limits": Limits(max_concurrent_tools=1, tool_timeout=3, round_timeout=100)},
        {"keep_trace": True},
        {"agents": [Agent("ada", other), Agent("bob", other)]},
        {"approver": lambda request: True},
    ],
    ids=["limits", "trace", "behavior", "approver"],
)
def test_what_is_no_meaning_may_change(now: dict[str, Any]) -> None:
    store = after_two_rounds()

    assert run(growing(store, **now).run, 3).rounds == 3
    assert not [record for record in records(store) if isinstance(record, Override)]


def test_a_changed_code_file_is_recorded_and_not_refused() -> None:
    store = after_two_rounds(code={"town.py": "old"})

    run(growing(store, code={"town.py": "new"}).run, 3)
    run(growing(store, code={"town.py": "old"}).run, 4)

    (override,) = [record for record in records(store) if isinstance(record, Override)]
    assert (override.differences, override.forced) == (["code town.py has changed"], False)


def test_a_forced_resume_goes_on_and_says_so_in_the_journal() -> None:
    store = after_two_rounds()

    forced = run(growing(store, seed=5, forced=True).run, 3)

    (override,) = [record for record in records(store) if isinstance(record, Override)]
    assert (override.differences, override.forced) == (["seed: 0, now 5"], True)
    assert forced.rounds == 3


def test_functions_that_decide_are_told_by_name() -> None:
    store = after_two_rounds(until=at_round)
    with pytest.raises(ResumeRefused, match=r"until: '.*:at_round', now '.*:other'"):
        run(growing(store, until=other).run, 3)


def test_a_journal_of_a_later_format_is_refused() -> None:
    """P54 (f)."""
    from society.codec import ORIGIN, encode
    from society.reruns import attrs_of

    start = attrs_of(growing(None).start_record(), format=2)
    store = MemoryStore(encode(start, ORIGIN, begins_batch=True))
    with pytest.raises(ResumeRefused, match="format 2"):
        run(growing(store).run, 3)


def test_if_changed_code_asks_for_another_crossing_than_the_journal_holds_resume_stops_and_shows_both() -> None:
    """J7."""
    host = host_of("pay", "send")

    def paying(tool: str) -> Callable[[Any], Any]:
        async def ada(tick: Any) -> None:
            await tick.call(tool, n=1)

        return ada

    store = MemoryStore()
    with pytest.raises(Crash):
        run(growing(FailingStore(2, store=store), hosts=host, agents=[Agent("ada", paying("pay"))]).run, 1)
    before = store.read().data

    with pytest.raises(Exception, match=r"round 1, 'ada', crossing 1: .*pay.*send"):
        run(growing(store, hosts=host, agents=[Agent("ada", paying("send"))]).run, 1)
    assert store.read().data == before


# ── damage, torn ends, full disks ───────────────────────────────────────────────────────────────────────────────────────


def busy(store: Any) -> AsyncSociety:
    town = planned(drawn_plan(7), 3)
    town.store = store
    return town


def cut_points(data: bytes) -> list[int]:
    ends = [place for place, byte in enumerate(data) if byte == 0x0A]
    near = {place + by for place in ends for by in (-60, -1, 0, 1, 2, 30)}
    return sorted(point for point in near if 0 <= point <= len(data))


def test_a_journal_that_was_cut_anywhere_goes_on_to_the_same_end() -> None:
    """J5, J6; cut inside a record that record is gone, and its action in doubt if its intent was left."""
    whole = MemoryStore()
    run(busy(whole).run, 3)
    data, told = whole.read().data, run(busy(None).run, 3).trace
    same = 0
    for point in cut_points(data)[::5]:
        store = MemoryStore(data[:point])
        again = run(busy(store).run, 3)
        same += not changed_by_doubt(told, records(whole), again.trace, records(store))
    assert same > 10


def test_a_run_of_one_byte_after_another_goes_on_to_the_same_end() -> None:
    whole = MemoryStore()
    run(growing(whole).run, 2)
    data, told = whole.read().data, run(growing(None).run, 2).trace
    for point in range(len(data) + 1):
        assert run(growing(MemoryStore(data[:point])).run, 2).trace == told


def test_a_flipped_byte_is_refused_with_its_record_and_offset_and_nothing_is_changed() -> None:
    whole = after_two_rounds()
    data, scan = whole.read().data, whole.read()
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 0x20
        store = MemoryStore(bytes(flipped))
        with pytest.raises(JournalDamaged) as damage:
            run(growing(store).run, 9)
        number = sum(start <= place for start in scan.starts)
        assert (damage.value.record, damage.value.offset) == (number, scan.starts[number - 1])
        assert bytes(store._data) == bytes(flipped)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_full_disk_starts_no_tool_whose_intent_is_not_durable_and_the_run_goes_on_when_there_is_room(
    kind: str, tmp_path: Path
) -> None:
    """P59."""
    called: list[int] = []
    host = AsyncHost()

    @host.tool("pay", thread=False)
    def pay(n: int) -> int:
        called.append(n)
        return n

    async def ada(tick: Any) -> None:
        for n in range(3):
            tick.share("n", await tick.call("pay", n=10 * tick.round + n))

    def made(store: Any) -> AsyncSociety:
        return growing(store, agents=[Agent("ada", ada)], hosts=host)

    disk = FileStore(tmp_path) if kind == "file" else SqliteStore(tmp_path / "run.sqlite")
    full = FailingStore(10, store=disk, point="inside", error=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(JournalUnwritable) as unwritable:
        trio.run(made(full).run, 2)
    assert str(disk.path) in str(unwritable.value)
    assert "No space left on device" in str(unwritable.value)
    written = {record.arguments["n"] for record in records(disk) if isinstance(record, Intent)}
    assert set(called) <= written

    resumed = trio.run(made(disk).run, 2)

    assert resumed.outcome == "finished" or resumed.in_doubt
    assert len(called) == len(set(called))


# ── cancellation ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("surrounding", [False, True], ids=["cancel()", "scope"])
def test_for_calls_in_flight_a_cancelled_run_writes_nothing_and_their_doubt_is_settled_on_resume(
    surrounding: bool,
) -> None:
    """J10."""
    host, called, known = AsyncHost(), [], []

    @host.tool("pay")
    async def pay(n: int) -> int:
        called.append(n)
        await trio.sleep(100)
        return n

    @host.reconciler("pay")
    async def paid(doubt: Any) -> Any:
        known.append(doubt.idempotency_key)
        return doubt.arguments["n"]

    async def ada(tick: Any) -> None:
        tick.share("n", await tick.call("pay", n=tick.round))

    store = MemoryStore()
    town = growing(store, agents=[Agent("ada", ada)], hosts=host)
    reached: list[str] = []

    async def cancelled() -> None:
        if surrounding:
            with trio.move_on_after(5) as scope:
                await town.run(1)
                reached.append("the line behind")
            assert scope.cancelled_caught
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(town.run, 1)
                await trio.sleep(5)
                town.cancel()

    run(cancelled)
    kinds = [type(record) for record in records(store)][2:]
    assert kinds == ([Intent] if surrounding else [Intent, End])
    assert reached == []

    resumed = run(growing(store, agents=[Agent("ada", ada)], hosts=host).run, 1)

    assert (resumed.outcome, resumed.shared["n"], called) == ("finished", 1, [1])
    assert len(known) == 1


# ── how far a run may be ahead of its disk ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("crossing", [False, True])
def test_only_rounds_in_which_something_came_from_outside_wait_for_the_disk(crossing: bool, tmp_path: Path) -> None:
    """J1: reads are durable by their barrier; what can be computed again need not be, before an effect starts."""
    host = AsyncHost()
    host.sensor("weather", thread=False)(lambda: "rain")

    async def ada(tick: Any) -> None:
        if crossing:
            await tick.read("weather")
        tick.share("n", 1)

    store = Batches(tmp_path)
    trio.run(growing(store, agents=[Agent("ada", ada)], hosts=host).run, 50)

    assert store.batches >= 50 if crossing else store.batches <= 51
    assert records(store)[-1].outcome == "finished"


class Batches(FileStore):
    """A file store that tells how many batches were written."""

    batches = 0

    @asynccontextmanager
    async def opened(self) -> Any:
        async with super().opened() as (journal, found):
            yield journal, found
            self.batches = journal.batches


def test_a_run_is_never_ahead_of_its_disk_by_more_than_its_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(society.survival, "AHEAD", 2_000)
    behind: list[int] = []
    real = society.survival.Keeping.after_round

    def watched(self: Any, town: Any) -> bool:
        waits = real(self, town)
        behind.append(0 if waits else self.journal.behind)
        return waits

    monkeypatch.setattr(society.survival.Keeping, "after_round", watched)
    run(growing(MemoryStore()).run, 100)

    assert max(behind) <= 2_000


def test_a_disk_that_fails_behind_a_round_stops_the_run_all_the_same() -> None:
    store = FailingStore(3, error=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(JournalUnwritable, match="No space left"):
        run(growing(store).run, 200)
    assert run(growing(store.survivor()).run, 200).trace == run(growing(None).run, 200).trace


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_checkpoints_come_when_the_changes_outweigh_the_last_one_and_not_more_often(monkeypatch: Any) -> None:
    """J3."""
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 1_000)
    store = MemoryStore()
    run(growing(store, shared={"n": Shared(0, "sum"), "large": "x" * 5_000}).run, 100)

    scan = store.read()
    sizes = [len(line) for line in scan.lines()]
    places = [place for place, kind in enumerate(scan.kinds) if kind == "checkpoint"]
    assert len(places) > 2
    for one, next_one in pairwise(places):
        assert sum(sizes[one + 1 : next_one]) >= sizes[one] * 0.9


def test_a_resume_decodes_nothing_before_the_last_checkpoint(monkeypatch: Any) -> None:
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 1_000)
    store = MemoryStore()
    run(growing(store).run, 60)
    scan = store.read()
    last = scan.last("checkpoint")
    assert last is not None
    decoded: list[int] = []
    whole = type(scan).record

    def record(self: Any, index: int) -> Any:
        decoded.append(index)
        return whole(self, index)

    monkeypatch.setattr(type(scan), "record", record)
    resumed = run(growing(store).run, 61)

    assert resumed.shared["n"] == 122
    assert min(index for index in decoded if index) == last


def test_a_journal_with_checkpoints_tells_the_same_trace_and_state_as_one_without(monkeypatch: Any) -> None:
    told = run(busy(MemoryStore()).run, 3).trace
    monkeypatch.setattr(society.survival, "LEAST_BYTES", 0)
    store = MemoryStore()

    assert run(busy(store).run, 3).trace == told
    assert sum(isinstance(record, Checkpoint) for record in records(store)) >= 1
