"""Budgets: reserved before, settled after, and the same sums in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from society.budget import Budget, Price, Purse, Reserved, Usage, load_prices, price_of, used
from society.errors import ScenarioError
from society.replies import reply_of
from society.testing.replies import say

HAIKU = Price(input=1, output=5)


def reserved(
    purse: Purse, price: Price | None = HAIKU, *, characters: int = 200, max_tokens: int = 100
) -> Reserved | str:
    return purse.reserve(price, prompt_characters=characters, max_tokens=max_tokens)


def test_a_call_settles_for_what_it_did_use() -> None:
    purse = Purse(Budget(tokens=1000))
    held = reserved(purse)
    assert isinstance(held, Reserved)
    assert (held.tokens, purse.held_tokens) == (200, 200)

    purse.settle(held, used(reply_of(say("x", usage={"input_tokens": 10, "output_tokens": 5}))), HAIKU)

    assert (purse.usage.tokens, purse.held_tokens, purse.usage.calls) == (15, 0, 1)
    assert purse.cost_usd == pytest.approx(35e-6)


def test_while_anything_is_left_a_call_may_start_and_the_next_may_not() -> None:
    purse = Purse(Budget(tokens=300))
    first, second, third = reserved(purse), reserved(purse), reserved(purse)

    assert (isinstance(first, Reserved), isinstance(second, Reserved)) == (True, True)
    assert third == "300 of 300 tokens are used or reserved"


def test_what_was_reserved_for_nothing_is_given_back() -> None:
    purse = Purse(Budget(usd=0.0001))
    held = reserved(purse)
    assert isinstance(held, Reserved)
    assert isinstance(reserved(purse), str)
    purse.settle(held, None, HAIKU)
    assert isinstance(reserved(purse), Reserved)


def test_a_budget_in_dollars_needs_a_price() -> None:
    assert reserved(Purse(Budget(usd=1)), None) == "the model has no price, and the budget is in dollars"


def test_a_bound_that_is_reached_is_named() -> None:
    assert Budget(tokens=10).spent_by(Usage(output_tokens=10), 0) == "10 of 10 tokens are used"
    assert Budget(usd=0.5).spent_by(Usage(), 500_000_000) == "$0.500000 of $0.500000 are spent"
    assert Budget().spent_by(Usage(output_tokens=10**9), 10**12) is None


@pytest.mark.parametrize("wrong", [{"usd": 0}, {"usd": True}, {"tokens": -1}, {"tokens": 1.5}, {"usd": float("nan")}])
def test_impossible_budgets_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError):
        Budget(**wrong)


COUNTS = st.integers(0, 10**6)
USAGES = st.builds(
    Usage, input_tokens=COUNTS, output_tokens=COUNTS, cache_write_tokens=COUNTS, cache_read_tokens=COUNTS
)


@given(st.lists(USAGES, max_size=6), st.randoms())
def test_sums_do_not_depend_on_order(usages: list[Usage], random: Any) -> None:
    def total(in_order: list[Usage]) -> tuple[Usage, int]:
        return sum(in_order, Usage()), sum(price_of_sonnet().nano_usd(usage) for usage in in_order)

    shuffled = random.sample(usages, len(usages))
    assert total(shuffled) == total(usages)


def price_of_sonnet() -> Price:
    price = price_of("claude-sonnet-4-5-20250929", load_prices())
    assert price is not None
    return price


def test_prices_hold_for_names_that_start_like_them_the_longest_first() -> None:
    prices = load_prices()

    assert price_of("claude-opus-5-5", prices) == Price(input=4, output=20, cache_read=0.2)
    assert price_of("claude-opus-5-20260724", prices) == Price(input=5, output=25)
    assert price_of("claude-opus-50", prices) is None
    assert price_of("llama", prices) is None


def test_every_model_that_the_installed_sdk_names_and_that_is_sold_has_a_price() -> None:
    from typing import get_args

    from anthropic.types import Model

    named = get_args(get_args(Model)[0])
    assert [name for name in named if price_of(name, load_prices()) is None] == ["claude-mythos-preview"]


def test_a_cache_costs_less_to_read_and_more_to_write() -> None:
    price = Price(input=3, output=15)
    assert price.nano_usd(Usage(cache_read_tokens=1000)) == 300_000
    assert price.nano_usd(Usage(cache_write_tokens=1000)) == 3_750_000


def test_a_long_prompt_is_paid_by_its_own_price() -> None:
    price = price_of("claude-haiku-5-5", load_prices())
    assert price is not None
    assert price.nano_usd(Usage(input_tokens=100_000)) == 10_000_000
    assert price.nano_usd(Usage(input_tokens=90_000, cache_read_tokens=10_001)) == 90_000 * 500 + 10_001 * 50


def test_a_price_table_of_ones_own_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("[mine]\ninput = 1\noutput = 2\n")
    assert load_prices(path) == {"mine": Price(input=1, output=2)}
    for text, said in [
        ("[m]\ninput=1", "output is missing"),
        ("[m]\ninptu=1", "inptu"),
        ("[m]\ninput=-1\noutput=1", "-1"),
    ]:
        path.write_text(text)
        with pytest.raises(ScenarioError, match=said):
            load_prices(path)
