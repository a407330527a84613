"""Resuming, forking, and answering as Python calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from schedules import run
from societies import drawn_plan, planned

from society import (
    NO_ANSWER,
    WAIT,
    Agent,
    AsyncHost,
    AsyncSociety,
    FileStore,
    MemoryStore,
    Policy,
    ResumeRefused,
    ScenarioError,
    Shared,
    Society,
    SqliteStore,
    approve,
)
from society.records import Answer, Approval, Barrier, Cut, Intent, Override, Result
from society.reruns import answer, fork, replay, resume, standing

# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def counting(*, store: Any = None, forced: bool = False) -> AsyncSociety:
    host = AsyncHost()
    host.sensor("weather", thread=False)(lambda: "rain")

    async def ada(tick: Any) -> None:
        await tick.read("weather")
        tick.share("n", 1)
        tick.send("bob", "n", n=tick.shared["n"], r=tick.rng.random())

    def bob(tick: Any) -> None:
        tick.state["heard"] = [message.body["n"] for message in tick.inbox]
        if tick.shared["n"] >= 100:
            tick.note("many")

    return AsyncSociety(
        [Agent("ada", ada), Agent("bob", bob)],
        hosts=host,
        shared={"n": Shared(0, "sum"), "flag": False},
        measures={"n": lambda view: view.shared["n"]},
        store=store,
    )


def whole(rounds: int = 5) -> tuple[MemoryStore, Any]:
    store = MemoryStore()
    return store, run(counting(store=store).run, rounds)


def lines(trace: Any, before_round: int) -> list[bytes]:
    return [
        line
        for line, event in zip(trace.data.split(b"\n")[1:], trace.events, strict=False)
        if event.round < before_round and event.kind != "end"
    ]


@pytest.mark.parametrize("at", range(6))
def test_a_fork_without_a_change_is_the_original(at: int) -> None:
    store, told = whole()

    forked = fork(store, at)

    assert len([record for record in forked.read().records() if isinstance(record, Barrier)]) == at
    assert run(counting(store=forked).run, 5).trace == told.trace


@pytest.mark.parametrize("at", range(5))
def test_a_fork_with_a_change_is_equal_before_it_byte_for_byte(at: int) -> None:
    store, told = whole()

    other = run(counting(store=fork(store, at, set={"shared.n": 100})).run, 5)

    assert lines(other.trace, at + 1) == lines(told.trace, at + 1)
    assert other.shared["n"] == 100 + 5 - at
    (event,) = other.trace.where(kind="event")
    assert (event.round, event.fields["set"]) == (at + 1, {"n": 100})
    assert other.trace.where(kind="note")


def test_a_fork_of_a_random_society_without_a_change_is_the_original() -> None:
    plan = drawn_plan(77)
    for turns in (None, "shuffled"):
        store, town = MemoryStore(), planned(plan, 3, turns=turns)
        town.store = store
        told = run(town.run, 3).trace
        for at in range(3):
            again = planned(plan, 4, turns=turns)
            again.store = fork(store, at)
            assert run(again.run, 3).trace == told


def test_a_fork_has_a_run_of_its_own_and_the_old_one_is_as_it_was() -> None:
    store, _ = whole()
    before = store.read().data

    forked = fork(store, 2, set={"flag": True})
    run(counting(store=forked).run, 5)

    assert store.read().data == before
    assert next(iter(forked.read().records())).run_id != next(iter(store.read().records())).run_id


def test_a_forked_run_is_resumed_replayed_and_forked_again() -> None:
    store, _ = whole()
    forked = fork(store, 2, set={"n": 100})
    run(counting(store=forked).run, 4)

    went_on = run(counting(store=forked).run, 6)
    assert replay(forked, counting).trace == went_on.trace

    again = fork(forked, 4, set={"n": 500})
    assert run(counting(store=again).run, 6).shared["n"] == 502
    assert replay(again, counting).rounds == 6


def test_a_fork_into_a_folder_or_a_database_is_a_run_there(tmp_path: Path) -> None:
    store, told = whole()
    for into in (tmp_path / "fork", SqliteStore(tmp_path / "fork.sqlite")):
        forked = fork(store, 3, into=into)
        assert trio.run(counting(store=forked).run, 5).trace == told.trace
        with pytest.raises(ResumeRefused, match="holds a run already"):
            fork(store, 3, into=into)


def test_a_conflict_is_forked_before_it() -> None:
    def made(*, store: Any, forced: bool = False) -> AsyncSociety:
        def writing(tick: Any) -> None:
            if tick.round == 2 and not tick.shared["calm"]:
                tick.share("k", tick.agent)

        shared = {"k": Shared("", "error"), "calm": False}
        return AsyncSociety([Agent("ada", writing), Agent("bob", writing)], shared=shared, store=store)

    store = MemoryStore()
    assert run(made(store=store).run, 3).outcome == "conflict"
    with pytest.raises(ScenarioError, match="it has 0 to 1"):
        fork(store, 2)
    assert run(made(store=fork(store, 1, set={"calm": True})).run, 3).outcome == "finished"


@pytest.mark.parametrize("at", [-1, 6, True, "2", 1.0])
def test_a_round_that_is_not_there_is_refused(at: Any) -> None:
    with pytest.raises(ScenarioError, match="it has 0 to 5"):
        fork(whole()[0], at)


def test_a_key_that_is_not_declared_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ScenarioError, match=r"shared\.flug is not declared.*flag"):
        fork(whole()[0], 2, set={"flug": True})


# ── people in another process ───────────────────────────────────────────────────────────────────────────────────────────


def asking(*, store: Any, forced: bool = False, arguments: int = 5, turns: bool = False) -> AsyncSociety:
    host = AsyncHost(approver=WAIT, asker=WAIT)
    host.tool("pay", thread=False)(lambda n: {"paid": n})

    async def ada(tick: Any) -> None:
        try:
            tick.note(str(await tick.call("pay", n=arguments)))
        except Exception as error:  # what it is, the note tells
            tick.note(f"{type(error).__name__}")

    async def bob(tick: Any) -> None:
        said = await tick.ask_human({"how": "much"})
        tick.note("nobody" if said is NO_ANSWER else str(said))

    async def cyd(tick: Any) -> None:
        tick.share("seen", tick.round)

    return (Society if turns else AsyncSociety)(
        [Agent("ada", ada), Agent("bob", bob), Agent("cyd", cyd)],
        hosts=host,
        policy=Policy(approve("pay")),
        shared={"seen": Shared([], "append")},
        run_id="asking",
        store=store,
    )


def notes(result: Any) -> dict[str, str]:
    return {event.agent: event.text for event in result.trace.where(kind="note")}


def test_questions_stand_are_answered_in_another_process_and_the_round_goes_on(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    waiting = trio.run(asking(store=store).run, 1)
    assert (waiting.outcome, waiting.rounds) == ("waiting", 0)

    asked = standing(FileStore(tmp_path))
    assert [(one.agent, one.round, one.tool, one.arguments) for one in asked] == [
        ("ada", 1, "pay", {"n": 5}),
        ("bob", 1, None, {"how": "much"}),
    ]
    assert asked[0].rule == "approve pay"

    assert trio.run(answer, tmp_path, asked[0].id[:8], True).agent == "ada"
    assert [one.agent for one in standing(tmp_path)] == ["bob"]
    assert trio.run(resume, tmp_path, asking_at(1)).outcome == "waiting"
    trio.run(answer, tmp_path, asked[1].id, 12)

    done = trio.run(lambda: resume(tmp_path, asking, max_ticks=1))
    assert (done.outcome, notes(done)) == ("finished", {"ada": "{'paid': 5}", "bob": "12"})
    assert standing(tmp_path) == []
    assert replay(store, asking).trace == done.trace


def asking_at(rounds: int) -> Any:
    """Return a maker whose society runs so many rounds, where `resume` is given none."""

    def make(*, store: Any, forced: bool) -> Any:
        town = asking(store=store, forced=forced)
        whole_run = town.run
        town.run = lambda _: whole_run(rounds)  # type: ignore[method-assign]
        return town

    return make


@pytest.mark.parametrize("turns", [False, True])
def test_a_question_is_put_once_however_often_the_run_is_resumed(turns: bool) -> None:
    store = MemoryStore()
    for _ in range(3):
        assert run(asking(store=store, turns=turns).run, 1).outcome == "waiting"
    questions = [record for record in store.read().records() if isinstance(record, (Approval, Answer))]
    assert len(questions) == (1 if turns else 2)


@pytest.mark.parametrize("said", [False, None, 1, "yes"])
def test_only_true_approves(said: Any) -> None:
    """K5."""
    store = MemoryStore()
    run(asking(store=store).run, 1)
    ada, bob = standing(store)
    run(lambda: answer(store, ada.id, said))
    run(lambda: answer(store, bob.id, "no"))

    assert notes(run(asking(store=store).run, 1)) == {"ada": "ActionDenied", "bob": "no"}


def test_a_yes_for_other_arguments_is_void() -> None:
    """K5: the changed code asks again, for exactly what it will send."""
    store = MemoryStore()
    run(asking(store=store).run, 1)
    run(lambda: answer(store, standing(store)[0].id, True))

    assert run(asking(store=store, arguments=6).run, 1).outcome == "waiting"

    asked = [one for one in standing(store) if one.tool]
    assert [one.arguments for one in asked] == [{"n": 6}]
    assert not [record for record in store.read().records() if isinstance(record, Intent)]
    run(lambda: answer(store, asked[0].id, True))
    run(lambda: answer(store, standing(store)[0].id, "x"))
    assert notes(run(asking(store=store, arguments=6).run, 1))["ada"] == "{'paid': 6}"


@pytest.mark.parametrize("id", ["", "zzz", "bob"])
def test_an_answer_to_what_nobody_asked_is_refused_and_tells_what_was(id: str) -> None:
    store = MemoryStore()
    run(asking(store=store).run, 1)
    if id == "bob":  # short, and the only one
        assert run(lambda: answer(store, id, "x")).agent == "bob"
        return
    with pytest.raises(ScenarioError, match="bob-1-1"):
        run(lambda: answer(store, id, True))


# ── resuming by the call ────────────────────────────────────────────────────────────────────────────────────────────────


def test_resume_goes_on_with_a_store_or_a_path(tmp_path: Path) -> None:
    told = whole(3)[1]
    trio.run(counting(store=FileStore(tmp_path)).run, 1)

    assert trio.run(lambda: resume(tmp_path, counting, max_ticks=2)).rounds == 2
    assert trio.run(lambda: resume(FileStore(tmp_path), counting, max_ticks=3)).trace == told.trace


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResumeRefused, match="holds no run"):
        trio.run(lambda: resume(tmp_path, counting, max_ticks=2))
    assert list(tmp_path.iterdir()) == []


def test_a_forced_resume_is_recorded() -> None:
    store, _ = whole(2)

    def seeded(*, store: Any, forced: bool) -> AsyncSociety:
        town = counting(store=store)
        town.seed, town.forced = 9, forced
        return town

    with pytest.raises(ResumeRefused, match="seed"):
        run(lambda: resume(store, seeded, max_ticks=3))
    run(lambda: resume(store, seeded, max_ticks=3, force=True))
    assert [record.forced for record in store.read().records() if isinstance(record, Override)] == [True]


def paying(*, store: Any, forced: bool = False) -> AsyncSociety:
    host = AsyncHost()
    host.tool("pay", thread=False)(lambda n: n)

    async def ada(tick: Any) -> None:
        try:
            tick.share("paid", await tick.call("pay", n=tick.round))
        except Exception as error:  # in doubt
            tick.share("paid", str(type(error).__name__))

    return AsyncSociety([Agent("ada", ada)], hosts=host, shared={"paid": Shared([], "append")}, store=store)


def test_cut_sets_a_damaged_last_batch_aside_and_takes_its_actions_as_in_doubt(tmp_path: Path) -> None:
    """J6."""
    trio.run(paying(store=FileStore(tmp_path)).run, 2)
    journal = tmp_path / "journal.jsonl"
    scan = FileStore(tmp_path).read()
    place = max(index for index, kind in enumerate(scan.kinds) if kind == "intent")
    data = bytearray(scan.data[: scan.starts[place + 1]])
    data[scan.starts[place] + 100] ^= 0x01
    journal.write_bytes(data)
    with pytest.raises(Exception, match=f"byte {scan.starts[place]}"):
        trio.run(lambda: resume(tmp_path, paying, max_ticks=2))

    resumed = trio.run(lambda: resume(tmp_path, paying, max_ticks=2, cut=True))

    records = list(FileStore(tmp_path).read().records())
    assert [record.offset for record in records if isinstance(record, Cut)] == [scan.starts[place]]
    assert resumed.outcome == "finished"
    assert list(tmp_path.glob("journal.damaged-*"))
    assert not [
        r
        for r in records
        if isinstance(r, Result)
        and r.round == 2
        and r.ending == "done"
        and r.id in {action.id for action in resumed.in_doubt}
    ]
