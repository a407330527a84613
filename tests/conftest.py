"""What holds for all tests: a law is not broken because the machine is busy."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples in every run: whether a change is good must not hang on luck. `HYPOTHESIS_PROFILE=exploring` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("exploring", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the real model: it takes longest, and one of two workers would be left alone with it."""
    items.sort(key=lambda item: item.path.name != "test_local_model.py")
