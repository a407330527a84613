"""Grids as topologies: who is next to whom on a board of `width` × `height` places.

Knows: places, numbered from 0 in reading order.
Does not know: agents; `neighbors.py` gives places their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from society.errors import ScenarioError


def grid(width: int, height: int, moore: bool = True, torus: bool = False, *, radius: int = 1) -> Lattice:
    """Return a board as a topology: place `row * width + column` is the agent that was declared at that place.

    Neighbors come in reading order of where they lie, from the upper left to the lower right, also over the edge of a
    torus: the first of eight is always the one to the upper left.

    Args:
        width, height: In places.
        moore: Whether those at the corners are neighbors, too (8 of them); without them there are 4 (von Neumann).
        torus: Whether the edges meet. Without it places at the edge have fewer neighbors.
        radius: How many steps away a neighbor may be: 2 gives 24 (or 12).

    Raises:
        ScenarioError: A side or the radius is no number from 1 on.
    """
    return Lattice(width, height, moore, torus, radius)


class Lattice(Mapping[int, tuple[int, ...]]):
    """By place, the places next to it. Made by `grid`."""

    def __init__(self, width: int, height: int, moore: bool, torus: bool, radius: int) -> None:
        for what, size in (("width", width), ("height", height), ("radius", radius)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ScenarioError(f"grid: {what} is {size!r}; it is a number from 1 on.")
        self.width, self.height = width, height
        self._torus = torus
        self._offsets = [
            (down, right)
            for down in range(-radius, radius + 1)
            for right in range(-radius, radius + 1)
            if (down or right) and (moore or abs(down) + abs(right) <= radius)
        ]

    def __getitem__(self, place: int) -> tuple[int, ...]:
        if type(place) is not int or not 0 <= place < len(self):
            raise KeyError(place)
        row, column = divmod(place, self.width)
        found = [(row + down, column + right) for down, right in self._offsets]
        if self._torus:
            found = [(row % self.height, column % self.width) for row, column in found]
        else:
            found = [(row, column) for row, column in found if 0 <= row < self.height and 0 <= column < self.width]
        # On a small torus two ways lead to one place, and some back to where they began.
        places = dict.fromkeys(row * self.width + column for row, column in found)
        places.pop(place, None)
        return tuple(places)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self.width * self.height

    def named(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the topology of agents with these names, one for each place, in reading order.

        Raises:
            ScenarioError: There are more or fewer of them than places.
        """
        if len(names) != len(self):
            raise ScenarioError(
                f"topology: a grid of {self.width} × {self.height} has {len(self):,} places, and there are "
                f"{len(names):,} agents for them; place i is the agent declared at i."
            )
        return {name: tuple([names[other] for other in self[place]]) for place, name in enumerate(names)}
