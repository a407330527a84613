"""What has been published about the scenarios that ship, and what they give: one row for each number.

`tests/test_published.py` holds the rows to their bounds with few seeds; `python -m tests.published` (`make reproduce`)
measures all of them in full, which takes an hour or two, and writes the table with the published numbers beside the
measured ones: to standard output as it goes, and into `runs/reproduced.md`. Standard error says what is being measured, and
for how long. `python -m tests.published dilemma life` measures those of some scenarios.

Knows: scenarios, and where their numbers stand.
Does not know: how a scenario does it.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import log
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from society import load_scenario

SCENARIOS: Final = Path(__file__).parent.parent / "scenarios"
WRITTEN: Final = Path("runs/reproduced.md")
REGIMES: Final = ("synchronized", "sequential", "shuffled", "random")


@attrs.frozen
class Claim:
    """A number that was published, and how it is measured here."""

    scenario: str
    regime: str
    what: str
    published: str
    measure: Callable[[bool], Any]
    """`measure(full)`: with few seeds, or with as many as it takes."""
    least: Any
    most: Any
    """Bounds of what is measured, both included. Where they are the same it is that to the digit."""
    full_only: bool = False
    """It takes too long for every test run."""

    @property
    def name(self) -> str:
        return f"{self.scenario}, {self.regime}: {self.what}"

    def holds(self, measured: Any) -> bool:
        return bool(measured == self.least if self.least == self.most else self.least <= measured <= self.most)


def run(scenario: str, activation: str, ticks: int | None = None, **settings: Any) -> Any:
    """Return the result of a run without a trace."""
    return ran(scenario, activation, ticks, **settings)[1]


def ran(scenario: str, activation: str, ticks: int | None = None, **settings: Any) -> tuple[Any, Any]:
    """Return (society, result)."""
    loaded = load_scenario(SCENARIOS / f"{scenario}.toml", set=settings)
    town = loaded.society(activation=activation, keep_trace=False)
    return town, trio.run(town.run, ticks or loaded.max_ticks)


def mean(measure: Callable[[int], float], seeds: Iterable[int]) -> float:
    return statistics.mean(measure(seed) for seed in seeds)


# ── how each is measured ────────────────────────────────────────────────────────────────────────────────────────────────


def kaleidoscope(full: bool) -> list[int]:
    return list(run("dilemma", "synchronized", 10).measures["defectors"][1:])


def cooperation(activation: str) -> Callable[[bool], float]:
    """The share of cooperators, mean of rounds 61 to 100; of a board where all do alike it stays as it is."""

    def measured(full: bool) -> float:
        def of(seed: int) -> float:
            board = {"width": 100, "height": 100, "torus": True, "defectors": 0.1}
            shares = list(run("dilemma", activation, 100, seed=seed, **board).measures["cooperation"])
            shares += shares[-1:] * (101 - len(shares))
            return statistics.mean(shares[61:])

        return mean(of, range(1, 6) if full else (1,))

    return measured


def outputs(activation: str, firms: int, rounds: int | None = None) -> Callable[[bool], list[list[float]]]:
    """What each firm makes, after the last two rounds."""

    def measured(full: bool) -> list[list[float]]:
        async def last_two(town: Any, ticks: int) -> list[list[float]]:
            found = []
            for round in (ticks - 1, ticks):
                await town.run(round)
                found.append([round_to(agent.public["output"]) for agent in town.agents])
            return found

        loaded = load_scenario(SCENARIOS / "cournot.toml", set={"firms": firms})
        return trio.run(last_two, loaded.society(activation=activation), rounds or loaded.max_ticks)

    return measured


def round_to(number: float, digits: int = 6) -> float:
    return round(number, digits)


def pentomino(rounds: tuple[int, ...], size: int) -> Callable[[bool], list[int]]:
    def measured(full: bool) -> list[int]:
        alive = run("life", "synchronized", max(rounds), width=size, height=size).measures["alive"]
        return [alive[round] for round in rounds]

    return measured


def glider(full: bool) -> list[tuple[int, int]]:
    """By how much the places of a glider's cells differ after four rounds: (down, right)."""

    def living(town: Any) -> list[tuple[int, int]]:
        return [divmod(agent.index, 20) for agent in town.agents if agent.public["alive"]]

    before = living(load_scenario(SCENARIOS / "life.toml", set=(board := GLIDER)).society())
    after = living(ran("life", "synchronized", 4, **board)[0])
    return sorted(
        {(down - down0, right - right0) for (down0, right0), (down, right) in zip(before, after, strict=True)}
    )


GLIDER: Final = {"width": 20, "height": 20, "start": "glider"}


def labyrinth(full: bool) -> float:
    board = {"width": 128, "height": 128, "torus": True, "density": 0.5}
    return float(run("life", "shuffled", 100 if full else 12, **board).measures["alive"][-1]) / 128**2


def rounds_of(scenario: str, activation: str, few: int, many: int, **settings: Any) -> Callable[[bool], float]:
    return lambda full: mean(
        lambda seed: run(scenario, activation, seed=seed, **settings).rounds, range(many if full else few)
    )


def end_of(
    scenario: str, activation: str, measure: str, few: int, many: int, **settings: Any
) -> Callable[[bool], float]:
    return lambda full: mean(
        lambda seed: run(scenario, activation, seed=seed, **settings).measures[measure][-1],
        range(many if full else few),
    )


def exactly(scenario: str, activation: str, measure: str, **settings: Any) -> Callable[[bool], Any]:
    return lambda full: run(scenario, activation, **settings).measures[measure][-1]


def opinions(activation: str, first: str) -> Callable[[bool], Any]:
    """The opinions of A and B after each of four rounds; the last one stays where nobody changes anything."""

    def measured(full: bool) -> list[tuple[float, float]]:
        found = [(one["A"], one["B"]) for one in run("degroot", activation, 4, first=first).measures["opinion"]]
        return (found + found[-1:] * 5)[:5]

    return measured


def longest_cycle(activation: str) -> Callable[[bool], int]:
    """The longest cycle that a random network of a dozen people ends in; 1 is a rest."""
    return lambda full: max(
        cycle(activation, seed, people, ties)
        for seed in range(60 if full else 12)
        for people, ties in ((9, 0.3), (12, 0.2), (12, 0.5))
    )


def cycle(activation: str, seed: int, people: int, ties: float) -> int:
    """Return after how many rounds the opinions on a random network come back, once they do."""

    async def until_seen(town: Any) -> int:
        seen: dict[tuple[int, ...], int] = {}
        while True:
            opinions = tuple(agent.public["aye"] for agent in town.agents)
            if opinions in seen:
                return int(town.round) - seen[opinions]
            seen[opinions] = town.round
            if (await town.run(town.round + 1)).outcome == "quiet":
                return 1

    settings = {"seed": seed, "people": people, "ties": ties}
    return trio.run(until_seen, load_scenario(SCENARIOS / "majority.toml", set=settings).society(activation=activation))


def taken(activation: str, each: int, month: int) -> Callable[[bool], tuple[int, int]]:
    """(fish left, fish caught so far) after a month."""

    def measured(full: bool) -> tuple[int, int]:
        measures = run("commons", activation, each=each).measures
        return measures["left"][month], measures["caught"][month]

    return measured


def final_sizes(activation: str, size: str) -> Callable[[bool], float]:
    return lambda full: exactly("epidemic", activation, size, households=20_000 if full else 2_000)(full)


# ── what was published ──────────────────────────────────────────────────────────────────────────────────────────────────


def claims() -> Iterator[Claim]:
    """Yield all of them, by scenario."""
    board = [9, 25, 41, 81, 81, 109, 185, 289, 257, 253]
    yield Claim(
        "dilemma", "synchronized", "defectors after rounds 1 to 10", str(board)[1:-1], kaleidoscope, board, board
    )
    yield Claim(
        "dilemma",
        "synchronized",
        "cooperators, rounds 61 to 100",
        f"12 ln 2 - 8 = {12 * log(2) - 8:.4f}",
        cooperation("synchronized"),
        0.30,
        0.33,
    )
    yield Claim(
        "dilemma", "shuffled", "cooperators, rounds 61 to 100", "they die out", cooperation("shuffled"), 0, 0.01
    )

    for firms in (2, 3, 5):
        best = round_to(90 / (firms + 1))
        rest = [[best] * firms] * 2
        if firms == 2:
            yield Claim("cournot", "synchronized", "2 firms", "30 each", outputs("synchronized", 2), rest, rest)
        else:
            swing = [[45.0] * firms, [0.0] * firms]
            yield Claim(
                "cournot",
                "synchronized",
                f"{firms} firms, in two rounds",
                "between 45 and 0 for ever",
                outputs("synchronized", firms),
                swing,
                swing,
            )
        yield Claim(
            "cournot",
            "sequential",
            f"{firms} firms",
            f"{90 / (firms + 1):g} each",
            outputs("sequential", firms),
            rest,
            rest,
        )

    yield Claim(
        "life",
        "synchronized",
        "R-pentomino after rounds 1, 10, 100",
        "6, 11, 121",
        pentomino((1, 10, 100), 128),
        [6, 11, 121],
        [6, 11, 121],
    )
    yield Claim(
        "life",
        "synchronized",
        "R-pentomino after rounds 1,000, 1,103 (600 × 600)",
        "156, 116",
        pentomino((1_000, 1_103), 600),
        [156, 116],
        [156, 116],
        full_only=True,
    )
    yield Claim("life", "synchronized", "a glider in four rounds", "moves by (1, 1)", glider, [(1, 1)], [(1, 1)])
    yield Claim("life", "shuffled", "density from 0.5", "a labyrinth", labyrinth, 0.35, 0.5)

    n = 100
    yield Claim(
        "voter",
        "synchronized",
        "rounds to consensus",
        f"2 N ln 2 = {2 * n * log(2):.1f}",
        rounds_of("voter", "synchronized", 30, 400),
        100,
        190,
    )
    yield Claim(
        "voter",
        "random",
        "rounds to consensus",
        f"N ln 2 = {n * log(2):.1f}",
        rounds_of("voter", "random", 30, 400),
        50,
        97,
    )

    swap, one, zero = (
        ([(0.0, 1.0), (1.0, 0.0)] * 3)[:5],
        [(0.0, 1.0)] + [(1.0, 1.0)] * 4,
        [(0.0, 1.0)] + [(0.0, 0.0)] * 4,
    )
    yield Claim("degroot", "synchronized", "both", "swap for ever", opinions("synchronized", "A"), swap, swap)
    yield Claim("degroot", "sequential", "A first", "(1, 1)", opinions("sequential", "A"), one, one)
    yield Claim("degroot", "sequential", "B first", "(0, 0)", opinions("sequential", "B"), zero, zero)

    yield Claim("majority", "synchronized", "longest cycle", "2", longest_cycle("synchronized"), 2, 2)
    for regime in ("sequential", "shuffled"):
        yield Claim("majority", regime, "longest cycle", "1, a rest", longest_cycle(regime), 1, 1)

    p = 0.7
    right = p * (p + 1) / (2 * (1 - p + p * p))
    yield Claim(
        "cascade",
        "sequential",
        "the majority is right",
        f"{right:.3f}",
        end_of("cascade", "sequential", "majority", 400, 4_000),
        right - 0.06,
        right + 0.06,
    )
    yield Claim(
        "cascade",
        "synchronized",
        "the majority is right",
        "above 0.99",
        end_of("cascade", "synchronized", "majority", 100, 1_000),
        0.99,
        1,
    )

    for seeks, share, who in ((False, 0.2032, "any pair may meet"), (True, 0.2847, "a spreader is drawn first")):
        yield Claim(
            "gossip",
            "random",
            f"never hear, {who}",
            f"{share}",
            end_of("gossip", "random", "unaware", 6, 100, seeks=seeks),
            share - 0.03,
            share + 0.03,
        )

    for regime in REGIMES:
        yield Claim("threshold", regime, "take part", "100", exactly("threshold", regime, "joined"), 100, 100)
        yield Claim(
            "threshold",
            regime,
            "take part, the threshold 1 a 2",
            "1",
            exactly("threshold", regime, "joined", second=2),
            1,
            1,
        )
    for regime, rounds in (("synchronized", 100), ("sequential", 1)):
        yield Claim("threshold", regime, "rounds", str(rounds), rounds_of("threshold", regime, 1, 1), rounds, rounds)

    for regime in REGIMES:
        yield Claim(
            "segregation",
            regime,
            "similar neighbors",
            "about 0.75",
            end_of("segregation", regime, "similar", 1, 10),
            0.72,
            0.78,
        )

    for regime in REGIMES:
        for size, share in (("none", 0.25), ("one", 0.25), ("both", 0.5)):
            yield Claim(
                "epidemic",
                regime,
                f"households with {size} more ill",
                str(share),
                final_sizes(regime, size),
                share - 0.04,
                share + 0.04,
            )

    for regime in REGIMES:
        yield Claim(
            "commons",
            regime,
            "10 each: left and caught, 12 months",
            "50, 600",
            taken(regime, 10, 12),
            (50, 600),
            (50, 600),
        )
        yield Claim(
            "commons", regime, "20 each: left and caught, 1 month", "0, 100", taken(regime, 20, 1), (0, 100), (0, 100)
        )

    for regime in REGIMES:
        wins = 16 / 35
        yield Claim(
            "werewolf_random",
            regime,
            "wolves win, 1 of 7, random votes",
            f"16/35 = {wins:.4f}",
            end_of("werewolf_random", regime, "wolves", 200, 4_000),
            wins - 0.075,
            wins + 0.075,
        )


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def main(wanted: list[str], to: Path = WRITTEN) -> int:
    """Measure in full, write the table, and return 1 where a number is out of its bounds, 2 where a scenario has none."""
    known = dict.fromkeys(claim.scenario for claim in claims())
    if unknown := [name for name in wanted if name not in known]:
        print(f"nothing was published about {', '.join(unknown)}; there is {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [claim for claim in claims() if not wanted or claim.scenario in wanted]
    to.parent.mkdir(parents=True, exist_ok=True)
    missed = 0
    with to.open("w", encoding="utf-8") as table:

        def write(line: str) -> None:
            for file in (sys.stdout, table):
                print(line, file=file, flush=True)

        write("| scenario | regime | what | published | measured | bounds | seconds |\n|---|---|---|---|---|---|---|")
        for number, claim in enumerate(chosen, 1):
            began = time.monotonic()
            with under_way(f"{number} of {len(chosen)}: {claim.name}"):
                measured = claim.measure(True)
            missed += not claim.holds(measured)
            write(row(claim, measured, time.monotonic() - began))
        write(f"\n{missed} out of their bounds" if missed else "\nall within their bounds")
    print(f"written to {to}", file=sys.stderr)
    return 1 if missed else 0


def row(claim: Claim, measured: Any, seconds: float) -> str:
    bounds = "the same" if claim.least == claim.most else f"{claim.least:.4g} to {claim.most:.4g}"
    found = told(measured) + ("" if claim.holds(measured) else " **NO**")
    cells = (claim.scenario, claim.regime, claim.what, claim.published, found, bounds, f"{seconds:.0f}")
    return f"| {' | '.join(cells)} |"


@contextmanager
def under_way(what: str) -> Iterator[None]:
    """Say on standard error what is being measured: on a terminal in one line, with the seconds since it began."""
    if not sys.stderr.isatty():
        print(what, file=sys.stderr, flush=True)
        yield
        return
    done = threading.Event()

    def count() -> None:
        began = time.monotonic()
        while True:
            print(f"\r{what} · {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
            if done.wait(1):
                print("\r\033[K", end="", file=sys.stderr, flush=True)
                return

    counting = threading.Thread(target=count)
    counting.start()
    try:
        yield
    finally:
        done.set()
        counting.join()


def told(measured: Any) -> str:
    if isinstance(measured, (list, tuple)):
        return ", ".join(f"({told(item)})" if isinstance(item, (list, tuple)) else told(item) for item in measured)
    return f"{measured:.4f}" if isinstance(measured, float) else f"{measured:,}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
