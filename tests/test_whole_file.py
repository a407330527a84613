"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from society.whole_file import write_whole


def test_a_file_is_made_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"one", b"", b"two"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_where_writing_fails_what_was_there_stands_and_the_error_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P59."""
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError) as failed:
        write_whole(path, b"after")
    assert failed.value.filename == str(path)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_of_its_own_is_written_to_and_stays(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(real)
    write_whole(link, b"x")
    assert link.is_symlink() and real.read_bytes() == b"x"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"y")
    assert os.read(reader, 9) == b"y" and pipe.is_fifo()
    os.close(reader)
