"""The Python file beside a scenario: run once for each society, under a name that is the same in every process.

Knows: how a code file and the modules beside it are imported, and which line of it a failure comes from.
Does not know: what the scenario takes from it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs

from society.errors import RAISED, Fault, nearest
from society.files import Files
from society.host import AsyncHost

PREFIX: Final = "society_code_"


def unread(*_: Any) -> Any:
    """Stands for a function that could not be found, while the other faults are looked for."""
    raise AssertionError("a scenario with faults is never run")


@attrs.frozen
class CodeFile:
    module: ModuleType
    beside: tuple[Path, ...] = ()
    """The files beside it that it imported."""
    whole: bool = True
    """False where it could not be run to its end: any name may have been in the rest."""

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return what the file calls `name`, if it can be called."""
        found = vars(self.module).get(name)
        if found is None and not self.whole:
            return unread
        return found if callable(found) else None

    def functions(self) -> list[str]:
        """Return the names of the functions that are written in the file, in order."""
        return [
            name
            for name, found in vars(self.module).items()
            if callable(found)
            and getattr(found, "__module__", None) == self.module.__name__
            and not name.startswith("_")
        ]

    def hosts(self) -> dict[str, AsyncHost]:
        """Return the file's hosts by the names of their variables, in order."""
        return {name: found for name, found in vars(self.module).items() if isinstance(found, AsyncHost)}

    def distinct_hosts(self) -> list[AsyncHost]:
        """Return each of the file's hosts once, however many variables hold it."""
        return list({id(host): host for host in self.hosts().values()}.values())


class CodeFailed(Exception):
    """The file could not be run to its end."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def run_code(path: Path, shown: str) -> CodeFile:
    """Run a code file, afresh: nothing of an earlier run is in its globals.

    Its module is called after the file alone, so that a function is found again by its qualified name in another
    process and another folder. Modules beside it can be imported by it; they are run afresh too.

    Args:
        path: The file.
        shown: What to call it in a fault.

    Raises:
        CodeFailed: It is no Python, or it raised.
        OSError: It cannot be read.
    """
    source = path.read_bytes()
    module = ModuleType(PREFIX + re.sub(r"\W", "_", path.stem))
    module.__file__ = str(path)
    try:
        compiled = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line, column = getattr(error, "lineno", None), getattr(error, "offset", None)
        said = getattr(error, "msg", None) or str(error)
        raise CodeFailed(Fault(file=shown, line=line, column=column, message=f"no Python: {said}")) from error
    with _beside(path) as found:
        sys.modules[module.__name__] = module
        try:
            exec(compiled, vars(module))
        except RAISED as error:  # the author's code: whatever it raises is a fault of the scenario
            raise CodeFailed(_fault(error, path, shown)) from error
    return CodeFile(module, tuple(found))


def fault_of(error: BaseException, code: CodeFile, files: Files) -> Fault:
    """Return the fault for what a function of the code file raised, with the line of the file that it came from."""
    path = Path(str(code.module.__file__))
    return _fault(error, path, files.as_shown(os.path.relpath(path, files.folder)))


def unknown(name: str, code: CodeFile | None, kinds: str) -> tuple[str, str | None]:
    """Return (message, nearest name) for a function that is not in the file."""
    if code is None:
        return f"{kinds} {name!r} is a function of the code file, and the scenario names none (code = …)", None
    near = nearest(name, code.functions())
    there = vars(code.module).get(name)
    if there is not None:
        return f"{name!r} in the code file is of type {type(there).__name__}, which cannot be called", None
    few = ", ".join(code.functions())
    known = f"; the code file has {few}" if not near and few and len(code.functions()) <= 8 else ""
    return f"the code file has no function {name!r}{known}", near[0] if near else None


def _fault(error: BaseException, path: Path, shown: str) -> Fault:
    """Return where in the file it happened: the innermost line of it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    last = traceback.extract_tb(error.__traceback__)[-1]
    elsewhere = "" if last.filename == str(path) else f" (raised in {Path(last.filename).name}:{last.lineno})"
    return Fault(
        file=shown,
        line=lines[-1] if lines else None,
        message=f"{type(error).__name__}: {error}{elsewhere}".rstrip(": "),
    )


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[list[Path]]:
    """Let a file import the modules beside it; yield a list that then holds their files.

    Those of another scenario, which may have the same names, are forgotten first.
    """
    for name, module in list(sys.modules.items()):
        if "__society_beside__" in getattr(module, "__dict__", {}):
            del sys.modules[name]
    folder = str(path.parent)
    before = set(sys.modules)
    found: list[Path] = []
    sys.path.insert(0, folder)
    try:
        yield found
    finally:
        sys.path.remove(folder)
        for name in sorted(sys.modules.keys() - before):
            module = sys.modules[name]
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and name != PREFIX + path.stem and Path(file).is_relative_to(path.parent):
                vars(module)["__society_beside__"] = folder
                found.append(Path(file))
