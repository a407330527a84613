"""`society compare`: the same scenario under several activations."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from cyclopts import Parameter

from society.commands.options import Activation, Json, OnScreen, Settings, numbers, settings
from society.exit_codes import DIFFERENCE, DONE, FAILED, Verdict, worst


def compare(
    scenario: str,
    *,
    activations: str = "synchronized,sequential",
    seeds: str | None = None,
    ticks: int | None = None,
    set_: Settings = (),
    fail: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    screen: OnScreen,
) -> Verdict:
    """Run a scenario under several activations and show where they part.

    Args:
        scenario: A scenario file, or the name of one that ships with the project.
        activations: Names with commas between them: synchronized, sequential, shuffled, random, partial.
        seeds: 7, or 1,2,5, or 0:20 for 0 to 19. The scenario's own when not given.
        ticks: How many rounds at most, instead of the scenario's own.
        fail: Exit with 4 when they differ.
    """
    from society.comparing import compare as compared
    from society.load import load_scenario
    from society.mentions import check_read
    from society.shelf import scenario_path
    from society.signals import cancelled_by_signal

    rules = known(activations)
    given = settings(set_)
    loaded = load_scenario(scenario_path(scenario), set=given | settings((), max_ticks=ticks))
    check_read(given, loaded, "--set")
    chosen = (loaded.seed,) if seeds is None else numbers(seeds, "--seeds")

    def make(activation: str, seed: int) -> Any:
        return loaded.society(activation=activation, seed=seed)

    async def main() -> Any:
        return await compared(make, rules, chosen, max_ticks=loaded.max_ticks)

    found = cancelled_by_signal(main)
    if json:
        screen.document(document(loaded.name, found))
    else:
        screen.grid(found.table(screen.bound))
        screen.print([()])
        if len(found.seeds) > 1:
            screen.grid(found.spread())
            screen.print([()])
        for sentence in found.findings():
            screen.tell(sentence)
    return verdict(found, fail)


def known(activations: str) -> tuple[str, ...]:
    """Return the activations that were named.

    Raises:
        ScenarioError: One of them is not known.
    """
    from society.errors import ScenarioError, suggestion

    names = tuple(name.strip() for name in activations.split(","))
    for name in names:
        if name not in get_args(Activation):
            raise ScenarioError(f"--activations: {name!r} is not known.{suggestion(name, get_args(Activation))}")
    return names


def verdict(found: Any, fail: bool) -> Verdict:
    """Return what a comparison means for the process. To differ is what it is asked about, and no failure by itself."""
    differ = found.first_difference is not None
    said = Verdict(DIFFERENCE if differ and fail else DONE, "they differ" if differ else "no difference")
    failed = [run for run in found.runs if run.outcome not in ("finished", "satisfied", "quiet")]
    if not failed:
        return said
    one = failed[0]
    return worst([said, Verdict(FAILED, f"{one.activation}, seed {one.seed}: {one.outcome}: {one.reason}")])


def document(name: str, found: Any) -> bytes:
    """Return a comparison as one JSON document."""
    import attrs
    import msgspec

    first = found.first_difference
    facts = {
        "scenario": name,
        "same_outcome": found.same_outcome,
        "same_shared": found.same_shared,
        "same_effects": found.same_effects,
        "verdicts": {str(seed): found.verdict(seed) for seed in found.seeds},
        "first_difference": None
        if first is None
        else {
            "seed": first.seed,
            "activations": first.activations,
            **attrs.asdict(first.difference),
            "perceived": first.perceived,
        },
        "runs": [attrs.asdict(run) for run in found.runs],
    }
    return msgspec.json.encode(facts) + b"\n"
