"""Town hall, market and werewolf: what each shows under every activation, with its script, with rules, and with a server."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from messages_server import Received, serving

from society import AnthropicModel, ScriptedModel, load_scenario
from society.testing import say, use
from tests.publish import ACTIVATIONS, ROOT, told

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


def ran(name: str, activation: str = "synchronized", model: Any = None, **settings: Any) -> Any:
    """Return the society after its run."""
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml", set=settings)
    town = scenario.society(activation=activation, model=model)
    trio.run(town.run, scenario.max_ticks, clock=trio.testing.MockClock(autojump_threshold=0))
    return town


# Town hall.


@every_activation
def test_the_town_decides_the_same_whatever_the_activation(activation: str) -> None:
    town = ran("townhall", activation)
    assert town.shared["decision"] == "closed to cars"
    assert town.shared["ballots"] == {"ada": "yes", "bruno": "yes", "chen": "no", "dara": "abstain", "emil": "yes"}
    assert [speech["speaker"] for speech in town.shared["minutes"]] == ["ada", "bruno", "chen", "dara", "emil"] * 2


def test_a_ballot_that_cannot_be_read_is_an_abstention_and_says_so() -> None:
    (vote,) = told("townhall", "synchronized").where(kind="reason", agent="dara")
    assert (vote.answer["choice"], vote.degraded, vote.missing) == ("abstain", True, ["choice", "because"])


def test_a_silent_model_leaves_the_town_undecided_and_the_run_ends_well() -> None:
    class Silent:
        async def reply(self, request: Any) -> Any:
            raise ConnectionError("refused")

    town = ran("townhall", model=Silent())
    assert town.shared["decision"] == "undecided" and town.metrics.failed_ticks == 0
    assert {speech["text"] for speech in town.shared["minutes"]} == {"(says nothing)"}


@pytest.mark.trio
async def test_the_town_hall_runs_on_any_server_that_speaks_the_messages_api() -> None:
    """The model there ignores schemas and forced calls, as small ones do; twice the same answers give the same trace."""

    def answer(received: Received) -> Any:
        asked = received.body["messages"][-1]["content"]
        return say("YES, of course" if isinstance(asked, str) and asked.endswith("How do you vote?") else "Well. ☂")

    digests = []
    async with serving(answer) as server:
        for _ in range(2):
            scenario = load_scenario(ROOT / "scenarios" / "townhall.toml")
            model = AnthropicModel("m", base_url=server.url)
            town = scenario.society(model=model)
            result = await town.run(scenario.max_ticks)
            await model.aclose()
            digests.append(result.trace.digest)
    assert result.shared["decision"] == "undecided" and len(server.received) == 30
    assert digests[0] == digests[1]


# Market.


@every_activation
@pytest.mark.parametrize("mind", ["model", "rules"])
def test_nobody_trades_at_a_loss_whoever_answers(mind: str, activation: str) -> None:
    town = ran("market", activation, mind=mind)
    deals = {deal["seller"]: deal["price"] for deal in town.shared["deals"]}
    assert deals == ({"sam": 30, "sue": 45} if mind == "model" else {"sam": 23, "sue": 33})
    assert town.shared["closed"] == 3 and town.measures["surplus"][-1] == 50
    assert town.metrics.llm_calls == (8 if mind == "model" else 0)


def test_a_price_out_of_bounds_is_no_offer() -> None:
    trace = told("market", "synchronized")
    (move,) = trace.where(kind="reason", agent="bob")
    assert (move.answer, move.missing) == ({"move": "counter", "price": 0}, ["price"])
    assert trace.where(kind="send", agent="bob")[-1].message_kind == "left"


def test_a_model_that_would_ruin_its_trader_is_held_to_the_rules() -> None:
    greedy = [use("answer_move", move="accept", price=0)] * 9
    town = ran("market", model=ScriptedModel(dict.fromkeys(("sam", "sue", "sid", "ben", "bea", "bob"), greedy)))
    assert all(town.agents[deal["seller"]].state["cost"] <= deal["price"] for deal in town.shared["deals"])
    assert town.shared["closed"] == 3


# Werewolf.


@every_activation
def test_the_village_finds_both_wolves(activation: str) -> None:
    town = ran("werewolf", activation)
    assert town.shared["winner"] == "village"
    assert [(out["name"], out["by"]) for out in town.shared["out"]] == [
        ("anna", "night"),
        ("bela", "vote"),
        ("egon", "night"),
        ("fay", "vote"),
    ]


def test_no_player_is_told_what_it_must_not_know() -> None:
    scenario = load_scenario(ROOT / "scenarios" / "werewolf.toml")
    script = scenario.models["rehearsal"].model()
    town = scenario.society(model=script)
    trio.run(town.run, scenario.max_ticks)

    told_to: dict[str, str] = {}
    for request in script.requests:
        told_to[request.agent] = told_to.get(request.agent, "") + str(request["messages"]) + request["system"]
    assert "secret role is wolf" in told_to["bela"] and "She listens" not in told_to["carl"]
    assert all("wolf is" not in told_to[name] for name in ("carl", "dora", "egon"))
    assert "anna" not in told_to  # never woken before it was too late: it cost nothing
    assert "'role': 'villager'" not in told_to["egon"]
    assert '"role": "villager"' in told_to["dora"]


def test_a_letter_to_nobody_is_told_to_the_model_which_mends_it() -> None:
    trace = told("werewolf", "synchronized")
    calls = [event for event in trace.where(kind="model", agent="carl") if event.calls]
    assert [event.calls[0]["arguments"]["to"] for event in calls] == ["narator", "narrator", "narrator"]
    assert [event.to for event in trace.where(kind="send", agent="carl")] == ["narrator", "narrator"]


def test_players_whose_models_are_silent_abstain_and_the_game_goes_on() -> None:
    town = ran("werewolf", model=ScriptedModel({}), max_ticks=12)
    assert town.metrics.failed_ticks == 0 and town.shared["winner"] == ""
    assert {event.outcome for event in town.trace.where(kind="act")} == {"model_silent"}
    votes = [
        event for event in town.trace.where(kind="send") if event.message_kind == "vote" and event.to == "narrator"
    ]
    assert votes and all(event.body == {"name": None} for event in votes)
