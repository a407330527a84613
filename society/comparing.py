"""The same scenario under several activations: results side by side, and the first place where they part.

Knows: what of two runs is compared.
Does not know: scenario files, or what an activation is.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from society.declaring import IN_TURN
from society.errors import ScenarioError
from society.grids import Grid, written
from society.lines import Part, bounded, shown, text
from society.perceived import differing, perceived
from society.showing import Showing, first_parting, seen_differently
from society.trace import AFTER_TICKS, Difference, Trace
from society.values import plain

Make = Callable[[str, int], Any]
"""`make(activation, seed)` builds a society."""

VERDICTS: Final = ("the same", "same outcome, different duration", "different outcome")


@attrs.frozen(kw_only=True)
class Ran:
    """What is compared of one run."""

    activation: str
    seed: int
    outcome: str
    reason: str
    rounds: int
    shared: dict[str, Any]
    """Final values by key."""
    measures: dict[str, Any]
    """End values by name; of one for each agent, a value by agent."""
    metrics: dict[str, int]
    effects: dict[str, list[tuple[str, Any, str]]]
    """By agent, in order: (tool, arguments, ending) of its actions, in whatever round they were."""
    digest: str
    """Of the trace."""


@attrs.frozen(kw_only=True)
class Parting:
    """The first place where two runs with one seed differ, but for the headers of their traces and the order of ticks.

    It is one in their traces, or, of kind `public`, one in what an agent lets others see, which traces do not hold.
    """

    seed: int
    activations: tuple[str, str]
    difference: Difference
    perceived: tuple[tuple[str, str, str], ...] = ()
    """What the agent had to go by, and where that came from, as far as it differs: (what, on one side, on the other)."""

    @property
    def round(self) -> int | None:
        return self.difference.round

    @property
    def agent(self) -> str | None:
        return self.difference.agent

    @property
    def what(self) -> str:
        """What differs: `share b`, `receive`."""
        subject = self.difference.subject
        return self.difference.kind + (f" {subject}" if subject is not None else "")

    @property
    def sides(self) -> tuple[Any, Any]:
        """The values that differ, or all fields of an event that stands on one side only."""
        return self.difference.left, self.difference.right

    def __str__(self) -> str:
        return f"{' | '.join(self.activations)}, seed {self.seed}: {self.difference}"


@attrs.frozen(kw_only=True)
class Comparison:
    activations: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: tuple[Ran, ...]
    """By seed, then by activation, in the order in which these were given."""
    partings: tuple[Parting, ...]
    """For each seed, where the first activation parts from each of the others, if it does."""

    @property
    def same_outcome(self) -> bool:
        return all(self._agree(seed, "outcome") for seed in self.seeds)

    @property
    def same_shared(self) -> bool:
        return all(self._agree(seed, "shared") for seed in self.seeds)

    @property
    def same_effects(self) -> bool:
        """Whether each agent's actions, their arguments and endings are the same, in whatever rounds they were."""
        return all(self._agree(seed, "effects") for seed in self.seeds)

    @property
    def first_difference(self) -> Parting | None:
        return self.partings[0] if self.partings else None

    def verdict(self, seed: int) -> str:
        """Return what a seed says: `the same`, `same outcome, different duration`, or `different outcome`.

        An outcome is how the run ended, the final SHARED, and the end values of the measures, numbers up to a millionth.
        """
        first, *others = self.of(seed)
        if not all(_close(_end(first), _end(other)) for other in others):
            return VERDICTS[2]
        return VERDICTS[0] if all(other.rounds == first.rounds for other in others) else VERDICTS[1]

    def of(self, seed: int) -> tuple[Ran, ...]:
        """Return the runs with one seed."""
        return tuple(run for run in self.runs if run.seed == seed)

    def _agree(self, seed: int, what: str) -> bool:
        first, *others = (getattr(run, what) for run in self.of(seed))
        return all(other == first for other in others)

    def table(self, bound: int | None = None) -> Grid:
        """Return the runs of one seed side by side: of the first with a difference, or of the first of all."""
        seed = self.partings[0].seed if self.partings else self.seeds[0]
        runs = self.of(seed)
        counted = [name for name in runs[0].metrics if name != "rounds" and any(run.metrics.get(name) for run in runs)]
        rows = [
            _row("outcome", [run.outcome for run in runs]),
            _row("rounds", [f"{run.rounds:,}" for run in runs]),
            *(_row(name.replace("_", " "), [f"{run.metrics.get(name, 0):,}" for run in runs]) for name in counted),
        ]
        for key in dict.fromkeys(key for run in runs for key in run.shared):
            values = [bounded(run.shared[key], bound, "--json") if key in run.shared else "" for run in runs]
            rows.append(_row(f"shared.{key}", values))
        for name in runs[0].measures:
            values = [bounded(run.measures.get(name), bound, "--json") for run in runs]
            rows.append(_row(f"measure {name}", values))
        return Grid(f"seed {seed}", ("", *(run.activation for run in runs)), tuple(rows))

    def spread(self) -> Grid:
        """Return what all seeds say together: for each activation the outcomes, and mean ± standard deviation of numbers."""
        columns = [[run for run in self.runs if run.activation == activation] for activation in self.activations]
        rows = [
            _row("outcome", [_counts([run.outcome for run in runs]) for runs in columns]),
            _row("rounds", [spread([run.rounds for run in runs]) for runs in columns]),
            _row("messages sent", [spread([run.metrics.get("messages_sent", 0) for run in runs]) for runs in columns]),
        ]
        first = columns[0][0]
        for what, keys in (("shared", first.shared), ("measures", first.measures)):
            for key in keys:
                numbers = [[_as_number(getattr(run, what).get(key)) for run in runs] for runs in columns]
                known = [[number for number in column if number is not None] for column in numbers]
                if known == numbers:
                    rows.append(
                        _row(
                            f"{what.removesuffix('s')}{'.' if what == 'shared' else ' '}{key}", list(map(spread, known))
                        )
                    )
        return Grid(f"{len(self.seeds):,} seeds, mean ± standard deviation", ("", *self.activations), tuple(rows))

    def findings(self) -> Iterator[str]:
        """Yield what the comparison found, in sentences."""
        for what, name in (
            ("outcome", "the same ending"),
            ("shared", "the same SHARED"),
            ("effects", "the same effects"),
        ):
            same = sum(self._agree(seed, what) for seed in self.seeds)
            if len(self.seeds) == 1:
                yield f"{name}: {'yes' if same else 'no'}"
            else:
                yield f"{name}: with {same:,} of {len(self.seeds):,} seeds"
        if len(self.activations) > 1:
            yield _counts([self.verdict(seed) for seed in self.seeds], "seed")
        if self.first_difference is None:
            yield "first difference: none; the stories are the same but for the order of ticks"
        else:
            yield f"first difference: {self.first_difference}"
            for what, left, right in self.first_difference.perceived:
                yield shown(f"  {self.first_difference.agent} had {what}: {left} | {right}")

    def render(self) -> str:
        """Return all of it as text, nothing cut."""
        lines = [*map(text, written(self.table())), ""]
        if len(self.seeds) > 1:
            lines += [*map(text, written(self.spread())), ""]
        lines += self.findings()
        return "".join(line + "\n" for line in lines)


def spread(numbers: Sequence[float]) -> str:
    """Return mean ± standard deviation, or the one number that all are."""
    if all(number == numbers[0] for number in numbers):
        return f"{numbers[0]:,.10g}"
    return f"{statistics.mean(numbers):,.4g} ± {statistics.stdev(numbers):,.3g}"


def _as_number(value: Any) -> float | None:
    """Return a value as a number: a list by its length, one for each agent by their mean; None where it is none."""
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        inside = [number for number in map(_as_number, value.values()) if number is not None]
        return statistics.mean(inside) if inside and len(inside) == len(value) else None
    return value if isinstance(value, (int, float)) else None


def _counts(said: Sequence[str], unit: str = "") -> str:
    """Return what was said, with how often where it was not always the same."""
    counts = Counter(said)
    if len(counts) == 1 and (not unit or len(said) == 1):
        return said[0]
    times = [
        f"{what}: {f'with {count:,} of {len(said):,} {unit}s' if unit else count}" for what, count in counts.items()
    ]
    return "; ".join(times)


def _end(run: Ran) -> list[Any]:
    return [run.outcome, run.shared, run.measures]


def _close(one: Any, other: Any) -> bool:
    """Tell whether two values are the same up to a millionth: the last digits of a sum hang on its order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
        return numbers and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return bool(one == other)


def _row(name: str, values: Sequence[str]) -> tuple[Part, ...]:
    alike = len(set(values)) == 1
    return (Part(shown(name), "name"), *(Part(shown(value), "" if alike else "bad") for value in values))


async def compare(
    make: Make,
    activations: Iterable[str] = ("synchronized", "sequential"),
    seeds: Iterable[int] = (0,),
    *,
    max_ticks: int = 10,
) -> Comparison:
    """Run a society under each activation and with each seed, one run after another, and compare them.

    Args:
        make: `make(activation, seed)` builds a society that nobody has run.
        activations: At least one.
        seeds: At least one.
        max_ticks: How far each run goes, in rounds.

    Raises:
        ScenarioError: There is nothing to compare: no activation, no seed, or no trace.
    """
    activations, seeds = tuple(dict.fromkeys(activations)), tuple(dict.fromkeys(seeds))
    if not activations or not seeds:
        raise ScenarioError("compare: at least one activation and one seed are needed.")
    runs: list[Ran] = []
    partings: list[Parting] = []
    for seed in seeds:
        first: tuple[Trace, Showing] | None = None
        for activation in activations:
            society = make(activation, seed)
            showing = Showing()
            society.follower = showing.take
            result = await society.run(max_ticks)
            runs.append(_ran(activation, seed, result))
            showing.in_turn = result.trace.header["activation"] in IN_TURN
            this = result.trace, showing
            if first is None:
                first = this
            elif (found := _parted(seed, (activations[0], activation), first, this)) is not None:
                partings.append(found)
    return Comparison(activations=activations, seeds=seeds, runs=tuple(runs), partings=tuple(partings))


def _ran(activation: str, seed: int, result: Any) -> Ran:
    if result.trace is None:
        raise ScenarioError("compare: traces are compared, and this society keeps none; leave `keep_trace` on.")
    effects: dict[str, list[tuple[str, Any, str]]] = {}
    for event in result.trace.where(kind="action"):
        effects.setdefault(event.agent, []).append((event.tool, event.arguments, event.ending))
    return Ran(
        activation=activation,
        seed=seed,
        outcome=result.outcome,
        reason=result.reason,
        rounds=result.rounds,
        shared={key: plain(value) for key, value in result.shared.items()},
        measures={name: plain(values[-1]) for name, values in result.measures.items() if values},
        metrics=dict(result.metrics),
        effects=effects,
        digest=result.trace.digest,
    )


def _parted(
    seed: int, activations: tuple[str, str], left: tuple[Trace, Showing], right: tuple[Trace, Showing]
) -> Parting | None:
    """Return where two runs part, with what the agent there had to go by on each side."""
    (story, shown), (other_story, other_shown) = left, right
    difference = _parting(story, other_story)
    found = first_parting(shown, other_shown)
    # Of one round, what is measured or merged comes after the ticks, and so after what agents showed in them.
    if found is not None and (difference is None or _when(difference) > (found[0], False)):
        round, agent, key, one, other = found
        difference = Difference(round, agent, "public", key, None, one, other)
    if difference is None:
        return None
    told: tuple[tuple[str, str, str], ...] = ()
    if difference.agent is not None and difference.round:
        at = difference.round, difference.agent
        told = tuple(differing(perceived(story, *at), perceived(other_story, *at)))
        told += seen_differently(shown, other_shown, *at)
    return Parting(seed=seed, activations=activations, difference=difference, perceived=told)


def _when(difference: Difference) -> tuple[float, bool]:
    """Return (round, whether after its ticks)."""
    assert difference.round is not None
    return difference.round, difference.kind in AFTER_TICKS


def _parting(left: Trace, right: Trace) -> Difference | None:
    for difference in left.diff(right):
        # That the activations differ was the question, and that ticks then stand in another order is no answer.
        if difference.kind not in ("header", "order"):
            return difference
    return None
