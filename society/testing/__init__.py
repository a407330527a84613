"""For tests of societies: hosts and models that answer as told, ticks by themselves, traces compared.

Names are loaded when they are first asked for: pytest imports this package in every project that has `society` installed,
through the plugin, and must not pay for what is not used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from society.testing.alone import Contributed as Contributed
    from society.testing.alone import tick_once as tick_once
    from society.testing.crashes import CrashChangedRun as CrashChangedRun
    from society.testing.crashes import Crashes as Crashes
    from society.testing.crashes import crash_everywhere as crash_everywhere
    from society.testing.failing_store import Crash as Crash
    from society.testing.failing_store import FailingStore as FailingStore
    from society.testing.fake_host import Call as Call
    from society.testing.fake_host import FakeHost as FakeHost
    from society.testing.replies import say as say
    from society.testing.replies import use as use
    from society.testing.traces import same_trace as same_trace

_PLACES = {
    "alone": ("Contributed", "tick_once"),
    "crashes": ("CrashChangedRun", "Crashes", "crash_everywhere"),
    "failing_store": ("Crash", "FailingStore"),
    "fake_host": ("Call", "FakeHost"),
    "replies": ("say", "use"),
    "traces": ("same_trace",),
}
_NAMES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"society.testing.{_NAMES[name]}"), name)
        globals()[name] = value  # asked for once
        return value
    raise AttributeError(f"module 'society.testing' has no name {name!r}")


def __dir__() -> list[str]:
    return __all__
