"""The files of a scenario: found from the scenario's own folder, wherever the program was started.

Knows: where they lie, and which of them were read.
Does not know: what is in them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import attrs

from society.locate import Path as KeyPath
from society.report import Report


@attrs.frozen(kw_only=True)
class Input:
    """A file that a scenario was made of."""

    name: str
    """Its path from the folder that the scenario's paths are relative to, with `/`."""
    path: Path
    """Absolute."""
    sha256: str


@attrs.define
class Files:
    shown: Path
    """The scenario's path as the caller wrote it."""
    path: Path = attrs.field(init=False)
    """The scenario's path from the root. Symbolic links stay: what it names lies where the author sees the file."""
    within: str = attrs.field(init=False, default=".")
    """Where the files lie that the scenario names, from its own folder. Elsewhere only in a run's folder."""
    inputs: list[Input] = attrs.field(init=False, factory=list)
    absolute: dict[KeyPath, Path] = attrs.field(init=False, factory=dict)
    """What the scenario names by a path from the root, by setting."""

    def __attrs_post_init__(self) -> None:
        self.path = Path(os.path.abspath(self.shown))

    @property
    def folder(self) -> Path:
        """What the paths in the scenario are relative to."""
        return Path(os.path.normpath(self.path.parent / self.within))

    def named(self, name: str) -> Path:
        """Return the path from the root of a file that the scenario names."""
        return Path(os.path.normpath(self.folder / name))

    def as_shown(self, name: str) -> str:
        """Return how to tell the caller of a file that the scenario names: as the scenario's own path was written."""
        return str(self.shown.parent / self.within / name)

    def read(self, name: str, setting: KeyPath, report: Report) -> bytes | None:
        """Return what is in a file that a setting names; `None` if it cannot be read, which is then reported."""
        path = self.named(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            report.add(setting, f"there is no file {path}; paths are relative to the scenario's folder")
        except OSError as error:
            report.add(setting, f"{path} cannot be read: {error.strerror}")
        else:
            self.note(path, content)
            if os.path.isabs(name):
                self.absolute[setting] = path
            return content
        return None

    def note(self, path: Path, content: bytes) -> None:
        """Add a file to those that the scenario was made of, once."""
        if all(known.path != path for known in self.inputs):
            name = Path(os.path.relpath(path, self.folder)).as_posix()
            self.inputs.append(Input(name=name, path=path, sha256=hashlib.sha256(content).hexdigest()))
