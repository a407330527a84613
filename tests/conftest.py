"""What holds for all tests: a law is not broken because the machine is busy."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the real model: it takes longest, and one of two workers would be left alone with it."""
    items.sort(key=lambda item: item.path.name != "test_local_model.py")
