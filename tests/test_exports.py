"""Public names: each is a promise, can be imported, and is loaded only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import society

PROMISED = """
    Agent AsyncHost AsyncRuntime AsyncSociety Society RunResult Limits Shared Message Receipt MemoryStore
    FileStore SqliteStore Trace compare Comparison load_scenario Scenario Policy never deny allow approve
    current_action UNKNOWN NO_ANSWER NOT_EXECUTED WAIT plain unstructure act acting ActResult AnthropicModel
    ScriptedModel ReplayModel ModelAgent Template Budget Price load_prices as_tool field sync MalformedReply ModelSilent
    SocietyError ScenarioError UnknownRecipient ValueRefused SharedRefused ActionError
    ActionDenied ToolFailed ActionInDoubt PermitError SharedConflict ReplayDivergence JournalDamaged RunLocked
    ResumeRefused AsyncToolRefused
"""


@pytest.mark.parametrize("name", PROMISED.split())
def test_every_promised_name_can_be_imported(name: str) -> None:
    assert name in society.__all__ and name in dir(society)
    assert getattr(society, name) is not None


def test_every_name_that_is_offered_is_there() -> None:
    for name in society.__all__:
        assert getattr(society, name) is not None, name


def test_a_name_stays_what_it_is_whatever_module_was_imported_before() -> None:
    """A module of the same name as a function would take its place once it is imported."""
    program = (
        "import importlib, pkgutil, types, society\n"
        "for module in pkgutil.iter_modules(society.__path__):\n"
        "    if module.name != '__main__':\n"
        "        importlib.import_module(f'society.{module.name}')\n"
        "found = [name for name in society.__all__ if isinstance(getattr(society, name), types.ModuleType)]\n"
        "print(found == list(society._MODULES))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "True\n"


def test_a_name_that_is_not_promised_is_refused() -> None:
    with pytest.raises(AttributeError, match="no name 'Agnet'"):
        society.Agnet  # noqa: B018
    with pytest.raises(ImportError):
        exec("from society import Agnet")


def test_every_error_derives_from_one() -> None:
    for name in society.__all__:
        found = getattr(society, name)
        if isinstance(found, type) and issubclass(found, BaseException):
            assert issubclass(found, society.SocietyError), name


def test_importing_the_package_loads_none_of_its_modules() -> None:
    program = "import sys, society; print([name for name in sys.modules if name.startswith('society.')])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert told.stdout == "[]\n"
