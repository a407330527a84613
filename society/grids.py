"""Tables as values: a title, columns, rows of cells.

Knows: how a table is written where nothing may be cut: in a file, in a pipe.
Does not know: boxes, colors, or what a row is about.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from society.lines import Line, Part, columns


@attrs.frozen
class Grid:
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Part, ...], ...]
    """As many cells each as there are heads."""


def written(grid: Grid) -> Iterator[Line]:
    """Yield a table as aligned lines, however wide."""
    heads = tuple(Part(head, "quiet") for head in grid.heads)
    widths = [max(columns(row[at].text) for row in (heads, *grid.rows)) for at in range(len(heads))]
    yield (Part(grid.title, "title"),)
    for row in (heads, *grid.rows):
        cells: list[Part] = []
        for cell, width in zip(row, widths, strict=True):
            cells += [Part("  "), cell, Part(" " * (width - columns(cell.text)))]
        while cells and not cells[-1].text.strip():
            cells.pop()
        if cells:
            yield tuple(cells)
