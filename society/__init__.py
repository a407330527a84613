"""society: agents that live in rounds, effects that are honest, and traces that are the same byte for byte.

Each name here is a promise, and README.md shows it in use. Names are loaded when they are first
asked for, so that `society --help` need not wait for what it does not use.

Floors, from below; imports point down:

    values      values errors limits messages shared policy agent records
    rules       merge state barrier tally story draw judge loop … (no clock, no file, no trio)
    boundaries  host gate slots tick rounds societies stores models … (one outside thing each)
    faces       view cli
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from society.acts import ActResult as ActResult
    from society.acts import act as act
    from society.acts import acting as acting
    from society.acts import as_tool as as_tool
    from society.agent import Agent as Agent
    from society.anthropic_model import AnthropicModel as AnthropicModel
    from society.briefing import Template as Template
    from society.budget import Budget as Budget
    from society.budget import Price as Price
    from society.budget import load_prices as load_prices
    from society.comparing import Comparison as Comparison
    from society.comparing import compare as compare
    from society.errors import ActionDenied as ActionDenied
    from society.errors import ActionError as ActionError
    from society.errors import ActionInDoubt as ActionInDoubt
    from society.errors import AsyncioNeeded as AsyncioNeeded
    from society.errors import AsyncToolRefused as AsyncToolRefused
    from society.errors import CatalogChanged as CatalogChanged
    from society.errors import JournalDamaged as JournalDamaged
    from society.errors import MalformedReply as MalformedReply
    from society.errors import ModelSilent as ModelSilent
    from society.errors import PermitError as PermitError
    from society.errors import ReplayDivergence as ReplayDivergence
    from society.errors import ResumeRefused as ResumeRefused
    from society.errors import RunLocked as RunLocked
    from society.errors import ScenarioError as ScenarioError
    from society.errors import ServerUnavailable as ServerUnavailable
    from society.errors import SharedConflict as SharedConflict
    from society.errors import SharedRefused as SharedRefused
    from society.errors import SocietyError as SocietyError
    from society.errors import ToolFailed as ToolFailed
    from society.errors import TrioNeeded as TrioNeeded
    from society.errors import UnknownRecipient as UnknownRecipient
    from society.errors import ValueRefused as ValueRefused
    from society.file_store import FileStore as FileStore
    from society.host import AsyncHost as AsyncHost
    from society.lattice import grid as grid
    from society.limits import Limits as Limits
    from society.load import load_scenario as load_scenario
    from society.mcp_host import AsyncMCPHost as AsyncMCPHost
    from society.mcp_host import connect_async as connect_async
    from society.memory_store import MemoryStore as MemoryStore
    from society.messages import Message as Message
    from society.messages import Receipt as Receipt
    from society.model_agent import ModelAgent as ModelAgent
    from society.models import ReplayModel as ReplayModel
    from society.models import ScriptedModel as ScriptedModel
    from society.permit import current_action as current_action
    from society.policy import Policy as Policy
    from society.policy import allow as allow
    from society.policy import approve as approve
    from society.policy import deny as deny
    from society.policy import never as never
    from society.reason import field as field
    from society.reruns import fork as fork
    from society.reruns import replay as replay
    from society.reruns import resume as resume
    from society.run_result import RunResult as RunResult
    from society.runtime import AsyncRuntime as AsyncRuntime
    from society.scenario import Scenario as Scenario
    from society.shared import Shared as Shared
    from society.societies import AsyncSociety as AsyncSociety
    from society.societies import Society as Society
    from society.sqlite_store import SqliteStore as SqliteStore
    from society.sweeping import sweep as sweep
    from society.trace import Trace as Trace
    from society.values import NO_ANSWER as NO_ANSWER
    from society.values import NOT_EXECUTED as NOT_EXECUTED
    from society.values import UNKNOWN as UNKNOWN
    from society.values import WAIT as WAIT
    from society.values import plain as plain
    from society.values import unstructure as unstructure

_PLACES = {
    "acts": ("ActResult", "act", "acting", "as_tool"),
    "agent": ("Agent",),
    "anthropic_model": ("AnthropicModel",),
    "briefing": ("Template",),
    "budget": ("Budget", "Price", "load_prices"),
    "comparing": ("Comparison", "compare"),
    "errors": (
        "ActionDenied",
        "ActionError",
        "ActionInDoubt",
        "AsyncToolRefused",
        "AsyncioNeeded",
        "CatalogChanged",
        "JournalDamaged",
        "MalformedReply",
        "ModelSilent",
        "PermitError",
        "ReplayDivergence",
        "ResumeRefused",
        "RunLocked",
        "ScenarioError",
        "ServerUnavailable",
        "SharedConflict",
        "SharedRefused",
        "SocietyError",
        "ToolFailed",
        "TrioNeeded",
        "UnknownRecipient",
        "ValueRefused",
    ),
    "file_store": ("FileStore",),
    "host": ("AsyncHost",),
    "lattice": ("grid",),
    "limits": ("Limits",),
    "load": ("load_scenario",),
    "mcp_host": ("AsyncMCPHost", "connect_async"),
    "memory_store": ("MemoryStore",),
    "messages": ("Message", "Receipt"),
    "model_agent": ("ModelAgent",),
    "models": ("ReplayModel", "ScriptedModel"),
    "permit": ("current_action",),
    "policy": ("Policy", "allow", "approve", "deny", "never"),
    "scenario": ("Scenario",),
    "shared": ("Shared",),
    "reason": ("field",),
    "reruns": ("fork", "replay", "resume"),
    "run_result": ("RunResult",),
    "runtime": ("AsyncRuntime",),
    "societies": ("AsyncSociety", "Society"),
    "sqlite_store": ("SqliteStore",),
    "sweeping": ("sweep",),
    "trace": ("Trace",),
    "values": ("NOT_EXECUTED", "NO_ANSWER", "UNKNOWN", "WAIT", "plain", "unstructure"),
}
_MODULES = ("aio", "sync", "testing")
_NAMES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted([*_NAMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"society.{_NAMES[name]}"), name)
        globals()[name] = value  # asked for once
        return value
    if name in _MODULES:
        return importlib.import_module(f"society.{name}")
    raise AttributeError(f"module 'society' has no name {name!r}")


def __dir__() -> list[str]:
    return __all__
