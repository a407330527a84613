"""Tokens and money: what was used, what it cost, and how much may be used.

A call reserves what it may cost at most before it starts, and settles for what it did cost after. While anything is
left a call may start, and it reserves no more than what is left: a budget is overdrawn by at most one call, however
many start at once.

Money is counted in whole nano-dollars, so that sums are the same in any order.

Knows: prices as a table, and arithmetic.
Does not know: models, agents, or what happens when a budget is used up. What agents share is judged at the barrier
(L6).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from society.errors import ScenarioError
from society.values import Value

NANO: Final = 1_000_000_000


class Counted(Protocol):
    """Anything that tells a number of tokens."""

    @property
    def tokens(self) -> int: ...


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens that were used. Values add up."""

    input_tokens: int = 0
    """Not read from a cache and not written to one."""
    output_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    calls: int = 0
    """Replies that were counted."""

    @property
    def tokens(self) -> int:
        """All of them, what a budget of tokens counts."""
        return self.input_tokens + self.output_tokens + self.cache_write_tokens + self.cache_read_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            calls=self.calls + other.calls,
        )


def used(reply: Value) -> Usage:
    """Return what one reply (`replies.py`) used."""
    counts = reply["usage"]
    return Usage(
        input_tokens=counts["input_tokens"],
        output_tokens=counts["output_tokens"],
        cache_write_tokens=counts["cache_creation_input_tokens"],
        cache_read_tokens=counts["cache_read_input_tokens"],
        calls=1,
    )


@attrs.frozen(kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_write: float | None = None
    """One and a quarter of `input` where None."""
    cache_read: float | None = None
    """A tenth of `input` where None."""
    above: int | None = None
    """A prompt of more tokens than this is paid by `beyond`, all of it."""
    beyond: Price | None = None

    def nano_usd(self, usage: Usage) -> int:
        """Return what the tokens of one reply cost, in nano-dollars."""
        prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
        if self.above is not None and self.beyond is not None and prompt > self.above:
            return self.beyond.nano_usd(usage)
        write = self.input * 1.25 if self.cache_write is None else self.cache_write
        read = self.input * 0.1 if self.cache_read is None else self.cache_read
        # A dollar for a million tokens is 1,000 nano-dollars for one.
        return (
            usage.input_tokens * round(self.input * 1000)
            + usage.output_tokens * round(self.output * 1000)
            + usage.cache_write_tokens * round(write * 1000)
            + usage.cache_read_tokens * round(read * 1000)
        )


FREE: Final = Price(input=0, output=0)


@attrs.frozen
class Budget:
    """How much may be used; `None` for no bound."""

    usd: float | None = attrs.field(default=None, kw_only=True)
    tokens: int | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, bound in (("usd", self.usd), ("tokens", self.tokens)):
            if bound is not None and (
                isinstance(bound, bool) or not isinstance(bound, (int, float)) or not 0 < bound < float("inf")
            ):
                raise ScenarioError(f"budget.{name}: {bound!r} is not a number above 0, or None for no bound.")
        if isinstance(self.tokens, float):
            raise ScenarioError(f"budget.tokens: {self.tokens!r} is not a whole number.")

    def spent_by(self, usage: Counted, nano_usd: int) -> str | None:
        """Return which bound is reached, as a sentence, or None."""
        if self.tokens is not None and usage.tokens >= self.tokens:
            return f"{usage.tokens:,} of {self.tokens:,} tokens are used"
        if self.usd is not None and nano_usd >= round(self.usd * NANO):
            return f"${nano_usd / NANO:.6f} of ${self.usd:.6f} are spent"
        return None


@attrs.frozen(kw_only=True)
class Reserved:
    """What one call holds of a purse until it is settled."""

    tokens: int
    nano_usd: int


@attrs.define
class Purse:
    """What was used of a budget so far, and what is held by calls in flight. It changes."""

    budget: Budget = attrs.field(factory=Budget)
    usage: Usage = attrs.field(factory=Usage)
    nano_usd: int = 0
    held_tokens: int = 0
    held_nano_usd: int = 0

    @property
    def cost_usd(self) -> float:
        return self.nano_usd / NANO

    def reserve(self, price: Price | None, *, prompt_characters: int, max_tokens: int) -> Reserved | str:
        """Hold what a call may use at most, or return which bound leaves nothing for it, as a sentence.

        Args:
            price: Of the model; `None` where unknown.
            prompt_characters: Of all that is sent. A token is taken as two of them: the service counts, this only
            bounds. max_tokens: Room for the answer.
        """
        prompt = prompt_characters // 2
        worst = Usage(input_tokens=prompt, output_tokens=max_tokens)
        tokens = worst.tokens
        nano_usd = price.nano_usd(worst) if price is not None else 0
        if self.budget.tokens is not None:
            left = self.budget.tokens - self.usage.tokens - self.held_tokens
            if left <= 0:
                return f"{self.usage.tokens + self.held_tokens:,} of {self.budget.tokens:,} tokens are used or reserved"
            tokens = min(tokens, left)
        if self.budget.usd is not None:
            if price is None:
                return "the model has no price, and the budget is in dollars"
            left = round(self.budget.usd * NANO) - self.nano_usd - self.held_nano_usd
            if left <= 0:
                gone = (self.nano_usd + self.held_nano_usd) / NANO
                return f"${gone:.6f} of ${self.budget.usd:.6f} are spent or reserved"
            nano_usd = min(nano_usd, left)
        self.held_tokens += tokens
        self.held_nano_usd += nano_usd
        return Reserved(tokens=tokens, nano_usd=nano_usd)

    def settle(self, reserved: Reserved, usage: Usage | None, price: Price | None) -> None:
        """Give back what a call held, and count what it used: nothing where no reply came that tells."""
        self.held_tokens -= reserved.tokens
        self.held_nano_usd -= reserved.nano_usd
        if usage is not None:
            self.usage += usage
            self.nano_usd += price.nano_usd(usage) if price is not None else 0


def load_prices(path: str | Path | None = None) -> dict[str, Price]:
    """Return a price table: prices by the model names, or beginnings of names, that they hold for.

    Args:
        path: A TOML file in the shape of `prices.toml` beside this module, which is read where None.

    Raises:
        ScenarioError: The file cannot be read, or a price in it is none.
    """
    path = Path(path) if path is not None else Path(__file__).with_name("prices.toml")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: the price table cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    return {name: _price(table, f"{path}: {name}") for name, table in tables.items()}


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model: of the longest entry that its name starts with, at a `-` or its end."""
    fits = [name for name in prices if model == name or model.startswith(name + "-")]
    return prices[max(fits, key=len)] if fits else None


def _price(table: Any, where: str) -> Price:
    known = ("input", "output", "cache_write", "cache_read", "above", "beyond")
    if not isinstance(table, dict) or (strange := set(table) - set(known)):
        found = sorted(strange) if isinstance(table, dict) else table
        raise ScenarioError(f"{where}: {found!r}: a price has {', '.join(known)}.")
    for name in ("input", "output"):
        if name not in table:
            raise ScenarioError(f"{where}: {name} is missing, in US dollars for a million tokens.")
    for name, number in table.items():
        if name != "beyond" and (
            isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < float("inf")
        ):
            raise ScenarioError(f"{where}.{name}: {number!r} is not a number of at least 0.")
    beyond = _price(table["beyond"], f"{where}.beyond") if "beyond" in table else None
    return Price(**{**table, "beyond": beyond})
