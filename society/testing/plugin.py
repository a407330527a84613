"""The pytest plugin: a mark that runs one test under several activations, and crashes at every write.

    @pytest.mark.activations("synchronized", "sequential")
    async def test_everyone_is_told(activation): ...

Without names, `@pytest.mark.activations` stands for `synchronized` and every activation in turn.

    def test_the_market_survives(crash_everywhere):
        crash_everywhere(make_market, max_ticks=5)

`make_market(store)` builds a society; see `society.testing.crashes`.

Knows: pytest's collection.
Does not know: anything of societies until a test with the mark is collected; it is loaded in other projects' runs too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

KNOWN: Final = ("synchronized", "sequential", "shuffled", "random", "partial")
"""As in `society.declaring.ACTIVATIONS`, which is not imported here: that costs more than a test run of others should pay."""

DEFAULT: Final = ("synchronized", "sequential", "shuffled", "random")
"""Those that need nothing besides their name."""


@pytest.fixture
def crash_everywhere() -> Callable[..., Any]:
    """`crash_everywhere(make, max_ticks)` crashes a society at every write, resumes it, and compares."""
    from society.testing.crashes import crash_everywhere

    return crash_everywhere


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "activations(*names): run the test once under each of these activations; it takes the argument `activation`",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("activations")
    if mark is None:
        return
    names = mark.args or DEFAULT
    for name in names:
        if name not in KNOWN:
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: the mark activations: {name!r} is not one of {', '.join(KNOWN)}."
            )
    if mark.kwargs:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: the mark activations takes names only.")
    if "activation" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: a test with the mark activations takes the argument `activation`."
        )
    metafunc.parametrize("activation", list(dict.fromkeys(names)))
