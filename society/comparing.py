"""The same scenario under several activations: results side by side, and the first place where they part.

Knows: what of two runs is compared.
Does not know: scenario files, or what an activation is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs

from society.errors import ScenarioError
from society.grids import Grid, written
from society.lines import Part, bounded, shown, text
from society.trace import Difference, Trace
from society.values import plain

Make = Callable[[str, int], Any]
"""`make(activation, seed)` builds a society."""


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
    metrics: dict[str, int]
    effects: dict[str, list[tuple[str, Any, str]]]
    """By agent, in order: (tool, arguments, ending) of its actions, in whatever round they were."""
    digest: str
    """Of the trace."""


@attrs.frozen(kw_only=True)
class Parting:
    """The first place where the traces of two runs with one seed differ, but for their headers and the order of ticks."""

    seed: int
    activations: tuple[str, str]
    difference: Difference

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
        return Grid(f"seed {seed}", ("", *(run.activation for run in runs)), tuple(rows))

    def findings(self) -> Iterator[str]:
        """Yield what the comparison found, in sentences."""
        for what, name in (
            ("outcome", "the same outcome"),
            ("shared", "the same SHARED"),
            ("effects", "the same effects"),
        ):
            same = sum(self._agree(seed, what) for seed in self.seeds)
            if len(self.seeds) == 1:
                yield f"{name}: {'yes' if same else 'no'}"
            else:
                yield f"{name}: with {same:,} of {len(self.seeds):,} seeds"
        if self.first_difference is None:
            yield "first difference: none; the stories are the same but for the order of ticks"
        else:
            yield f"first difference: {self.first_difference}"

    def render(self) -> str:
        """Return all of it as text, nothing cut."""
        lines = [*map(text, written(self.table())), "", *self.findings()]
        return "".join(line + "\n" for line in lines)


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
        first: Trace | None = None
        for activation in activations:
            result = await make(activation, seed).run(max_ticks)
            runs.append(_ran(activation, seed, result))
            if first is None:
                first = result.trace
            elif (difference := _parting(first, result.trace)) is not None:
                partings.append(Parting(seed=seed, activations=(activations[0], activation), difference=difference))
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
        metrics=dict(result.metrics),
        effects=effects,
        digest=result.trace.digest,
    )


def _parting(left: Trace, right: Trace) -> Difference | None:
    for difference in left.diff(right):
        # That the activations differ was the question, and that ticks then stand in another order is no answer.
        if difference.kind not in ("header", "order"):
            return difference
    return None
