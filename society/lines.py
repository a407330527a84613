"""Lines of styled parts: how text is made safe to show, bounded, and broken into columns.

Texts of agents and tools are data: `shown` writes out what would control a terminal or turn the direction of writing.
Names and ids are looked for and copied; they are never broken or cut, even where a line grows too long by it.

Knows: columns, and the names of styles.
Does not know: colors, terminals, or what a line is about.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

BOUND: Final = 240
"""Characters of a value that are shown, unless all of them are asked for."""

Style: TypeAlias = Literal["", "title", "agent", "kind", "name", "value", "quiet", "good", "bad"]


class Part(NamedTuple):
    text: str
    style: Style = ""


Line: TypeAlias = tuple[Part, ...]

_SOLID: Final = frozenset({"agent", "name", "kind"})
"""Styles of parts that are never broken."""

_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, separators of lines, marks that turn the direction of writing, and what is invisible."""


def shown(text: str) -> str:
    """Return the text with everything written out that would not be seen as it is: `\\x1b`, `\\u202e`."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def bounded(value: Any, bound: int | None, way: str = "--full") -> str:
    """Return a value as JSON that is safe to show, cut after `bound` characters; `None` cuts nothing.

    `way` is the option that shows all.
    """
    written = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    return shown(written) if bound is None or len(written) <= bound else cut(shown(written), bound, way)


BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(numbers: Sequence[float | None], width: int) -> str:
    """Return a curve of at most `width` characters, between its least and its greatest number; a blank for None.

    Of more numbers than that each character stands for the mean of as many.
    """
    if len(numbers) > width:
        bounds = [len(numbers) * place // width for place in range(width + 1)]
        numbers = [_mean(numbers[start:end]) for start, end in itertools.pairwise(bounds)]
    there = [number for number in numbers if number is not None]
    if not there:
        return " " * len(numbers)
    least, span = min(there), max(there) - min(there)
    return "".join(
        " " if number is None else BARS[0 if not span else min(int((number - least) / span * len(BARS)), len(BARS) - 1)]
        for number in numbers
    )


def _mean(numbers: Sequence[float | None]) -> float | None:
    there = [number for number in numbers if number is not None]
    return sum(there) / len(there) if there else None


def cut(written: str, bound: int | None, way: str = "--full") -> str:
    """Return a text with at most `bound` of its characters, and how many more there are."""
    if bound is None or len(written) <= bound:
        return written
    return f"{written[:bound]}… +{len(written) - bound:,} characters, {way} shows all"


def counted(number: int, noun: str) -> str:
    """Return `1 round`, `2 rounds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def text(line: Iterable[Part]) -> str:
    """Return a line without its styles."""
    return "".join(part.text for part in line)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) != 0 for letter in text)


class Layout:
    """Where lines break, for one width."""

    def __init__(self, width: int) -> None:
        self.width = max(width, 8)
        roomy = self.width >= 60
        self._kind = 12 if roomy else 0
        """Columns for the kind of an event; where lines are short it takes what it needs."""
        self._indent = 4 if roomy else 2

    def heading(self, parts: Iterable[Part]) -> Iterator[Line]:
        """Yield what stands above events: an agent's name."""
        yield from self.wrapped([Part(" " * (self._indent - 2)), *parts], self._indent)

    def ruled(self, title: str) -> Line:
        """Return a title on a rule as wide as the layout."""
        return (Part(f"── {title} ", "title"), Part("─" * (self.width - len(title) - 4), "quiet"))

    def event(self, kind: str, parts: Iterable[Part]) -> Iterator[Line]:
        """Yield an event as lines: its kind in a column of its own, the rest beside it."""
        name = shown(kind)
        gap = " " * max(self._kind - columns(name), 1)
        yield from self.wrapped(
            [Part(" " * self._indent), Part(name, "kind"), Part(gap), *parts], self._indent + self._kind or 4
        )

    def wrapped(self, parts: Iterable[Part], hang: int) -> Iterator[Line]:
        """Yield lines of at most `width` columns; those after the first are indented by `hang`."""
        line: list[Part] = []
        used = 0
        for word in _words(parts):
            size = sum(columns(part.text) for part in word)
            pieces = [word] if hang + size <= self.width else [[part] for part in _pieces(word, self.width - hang)]
            for piece in pieces:
                size = sum(columns(part.text) for part in piece)
                if used + size > self.width and any(not part.text.isspace() for part in line):
                    yield _trimmed(line)
                    line, used = ([Part(" " * hang)], hang) if hang else ([], 0)
                    if piece[0].text.isspace():
                        continue
                line += piece
                used += size
        yield _trimmed(line)


def _words(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield what stands between blanks, whatever styles it has, and the blanks; a name is part of one word."""
    word: list[Part] = []
    for part in parts:
        texts = [part.text] if part.style in _SOLID else re.findall(r" +|[^ ]+", part.text)
        for text in texts:
            if text.isspace():
                if word:
                    yield word
                    word = []
                yield [Part(text, part.style)]
            else:
                word.append(Part(text, part.style))
    if word:
        yield word


def _pieces(word: Iterable[Part], room: int) -> Iterator[Part]:
    """Yield a word that is wider than a line in parts that fit, names whole."""
    for part in word:
        if part.style in _SOLID:
            yield part
            continue
        start = end = 0
        while start < len(part.text):
            end = start + max(room, 1)
            while end > start + 1 and columns(part.text[start:end]) > room:
                end -= 1
            yield Part(part.text[start:end], part.style)
            start = end


def _trimmed(line: list[Part]) -> Line:
    """Return the line without blanks at its end, neighbors of one style joined."""
    while line and line[-1].text.isspace():
        line.pop()
    joined: list[Part] = []
    for part in line:
        if joined and joined[-1].style == part.style:
            joined[-1] = Part(joined[-1].text + part.text, part.style)
        else:
            joined.append(part)
    if joined:
        joined[-1] = joined[-1]._replace(text=joined[-1].text.rstrip(" "))
    return tuple(joined)
