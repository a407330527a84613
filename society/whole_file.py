"""Files that are there whole or not at all.

Knows: one file, and the bytes to be in it.
Does not know: what they mean.
"""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, or replace it; where that fails, what was there stands, and nothing half is left.

    Raises:
        OSError: It cannot be written; its `filename` says which, also where the disk is full.
    """
    # What is no file of its own, such as /dev/stdout, is written to, never replaced.
    in_place = path.is_symlink() or (path.exists() and not path.is_file())
    partial = path if in_place else path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(data)
        if not in_place:
            partial.replace(path)
    except OSError as error:
        if not in_place:
            partial.unlink(missing_ok=True)
        error.filename = str(path)
        raise
