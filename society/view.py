"""The screen: where lines become what a person sees.

On a terminal they are styled and fit its width, and a run in progress is told below them. In a file or a pipe there are
no styles and no cursor movement, and nothing is cut. Whatever is printed is data: it is never read as markup, and what
would control a terminal is written out.

Knows: the streams of the process, their width, and what each style looks like. The one module that imports rich.
Does not know: what is told.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from society.grids import Grid, written
from society.lines import BARS, BOUND, Line, Part, Style, counted, shown, sparkline, text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

STYLES: Final = {
    "": "",
    "title": "bold",
    "agent": "bold cyan",
    "kind": "dim",
    "name": "",
    "value": "green",
    "quiet": "dim",
    "good": "bold green",
    "bad": "bold red",
}

_ASCII: Final = {"→": "->", "…": "...", "·": "-", "─": "-", "×": "x", **dict(zip(BARS, "_.,-~=*#", strict=True))}
PAGE: Final = 100
"""Columns of a page."""
_POLL_SECONDS: Final = 0.1
MOST_CURVES: Final = 6
WIDEST_CURVE: Final = 60
MOST_ROUNDS: Final = 5_000
"""The last of them are drawn; to go through more takes longer than there is between two pictures."""
_PLAIN_SECONDS: Final = 2.0
"""Between two lines about a run in progress, where there is no terminal; each line doubles it, up to a minute."""


class Running(Protocol):
    """What is asked of a society while it runs."""

    @property
    def progress(self) -> tuple[int, int, int]: ...
    @property
    def metrics(self) -> Mapping[str, int]: ...
    @property
    def stats(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def curves(self) -> Mapping[str, Sequence[float | None]]: ...


class Screen:
    """Standard output for what was asked for, standard error for what is said about it."""

    def __init__(self, out: TextIO, err: TextIO, environ: Mapping[str, str], typed: TextIO | None = None) -> None:
        """`typed` is where a person's answers come from, if there is such a stream."""
        for stream in (out, err):
            _forgiving(stream)
        self._out, self._err, self._typed = out, err, typed
        self._environ = environ
        self._is_document = False
        self._consoles: dict[int, Console] = {}
        self.is_live = False
        """Whether a cursor is hidden just now."""
        self._live: Live | None = None
        self._is_asking = False

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is one."""
        return _is_terminal(self._out)

    @property
    def width(self) -> int:
        """Columns of the terminal; 80 where there is none."""
        return self._console(self._out).width if self.is_terminal else 80

    @property
    def bound(self) -> int | None:
        """Characters of a value that are shown unless all are asked for: in a pipe nothing is cut."""
        return BOUND if self.is_terminal else None

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to be asked: what is typed and what is said about a run are both at a terminal."""
        return self._typed is not None and _is_terminal(self._typed) and _is_terminal(self._err)

    async def ask(self, lines: Iterable[Line], prompt: str) -> str | None:
        """Show something and return the line that is typed then; `None` at the end of what is typed.

        What tells of the run stands still meanwhile. Nobody else waits, and cancelling takes the question back.
        """
        assert self._typed is not None
        with self._standing_still():
            self._print(self._err, lines)
            self._guarded(self._err, lambda: self._console(self._err).print(_text((Part(prompt, "title"),)), end=""))
            return await _typed_line(self._typed.fileno())

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        live = self._live
        if live is not None:
            live.stop()
            self.is_live = False
        self._is_asking = True
        try:
            yield
        finally:
            self._is_asking = False
            if live is not None and self._live is live:
                live.start()
                self.is_live = True

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines to standard output. When its reader is gone, the rest is dropped in silence."""
        self._print(self._out, lines)

    def say(self, message: str, style: Style = "") -> None:
        """Print a message, perhaps of several lines, to standard error."""
        self._print(self._err, ((Part(line, style),) for line in message.split("\n")))

    def tell(self, message: str, style: Style = "") -> None:
        """Print a message of one line to standard output, or to standard error after a document."""
        self._print(self._err if self._is_document else self._out, [(Part(message, style),)])

    def grid(self, grid: Grid) -> None:
        """Print a table to standard output."""
        if self.is_terminal:
            self._guarded(self._out, lambda: self._console(self._out).print(_table(grid)))
        else:
            self.print(written(grid))

    def document(self, data: bytes) -> None:
        """Print bytes as they are: a JSON document in UTF-8, whatever the locale. It is all that standard output gets."""

        self._is_document = True

        def write() -> None:
            self._out.flush()
            self._out.buffer.write(data)
            self._out.flush()

        self._guarded(self._out, write)

    def restore(self) -> None:
        """Bring back a hidden cursor; for an exit that unwinds nothing."""
        if self.is_live:
            os.write(self._err.fileno(), b"\x1b[?25h\r\n")

    @asynccontextmanager
    async def watching(self, town: Running, max_ticks: int) -> AsyncIterator[None]:
        """Tell of a run in progress as long as the block lasts: on a terminal live, else a line now and then."""
        import trio

        live = _is_terminal(self._err) and not self._console(self._err).is_dumb_terminal
        tell = self._tell_live if live else self._tell_plainly
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell, town, max_ticks)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async def _tell_live(self, town: Running, max_ticks: int) -> None:
        import trio
        from rich.console import Group
        from rich.live import Live

        console = self._console(self._err)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            self.is_live, self._live = True, live
            try:
                while True:
                    await trio.sleep(_POLL_SECONDS)
                    if self._is_asking:
                        continue
                    picture = Group(*map(_text, [*progress(town, max_ticks), *curves(town, console.width)]))
                    self._guarded(self._err, lambda picture=picture: live.update(picture, refresh=True))
            finally:
                self.is_live, self._live = False, None

    async def _tell_plainly(self, town: Running, max_ticks: int) -> None:
        import trio

        pause = _PLAIN_SECONDS
        while True:
            await trio.sleep(pause)
            pause = min(pause * 2, 60)
            self._print(self._err, [tuple(part for line in progress(town, max_ticks) for part in line)])

    def _print(self, stream: TextIO, lines: Iterable[Line]) -> None:
        def write() -> None:
            if not _is_terminal(stream):
                stream.writelines(shown(text(line)) + "\n" for line in lines)
                stream.flush()
                return
            console = self._console(stream)
            for line in lines:
                console.print(_text(line), soft_wrap=True)

        self._guarded(stream, write)

    def _guarded(self, stream: TextIO, write: Any) -> None:
        if stream.closed:
            return
        try:
            write()
        except BrokenPipeError:
            _sink(stream)

    def _console(self, stream: TextIO) -> Console:
        from rich.console import Console

        if id(stream) not in self._consoles:
            self._consoles[id(stream)] = Console(
                file=stream, markup=False, emoji=False, highlight=False, _environ=dict(self._environ)
            )
        return self._consoles[id(stream)]


def page(lines: Iterable[Line], title: str, format: str) -> bytes:
    """Return lines as they look on a terminal, as a page of HTML or a picture in SVG. Neither refers to anything outside.

    Args:
        title: Shown by an SVG above the lines.
        format: `html` or `svg`.
    """
    from rich.console import Console

    console = Console(file=io.StringIO(), record=True, width=PAGE, color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(_text(line), soft_wrap=True)
    if format == "html":
        return console.export_html(inline_styles=True).encode()
    picture = console.export_svg(title=shown(title), unique_id="trace")
    return _FONTS.sub("", picture).encode()


_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What an SVG of rich would load from elsewhere; without it, it is shown in the reader's own monospaced font."""


async def _typed_line(descriptor: int) -> str | None:
    """Return the next line that is typed at a terminal, without its end; `None` where there will be none."""
    import termios

    import trio

    # What was typed before the question was seen is no answer to it.
    termios.tcflush(descriptor, termios.TCIFLUSH)
    await trio.lowlevel.wait_readable(descriptor)
    try:
        line = os.read(descriptor, 4096)  # a terminal gives whole lines
    except OSError:
        return None  # it was hung up
    return line.decode(errors="replace").strip() if line else None


def progress(town: Running, max_ticks: int) -> list[Line]:
    """Return what there is to say of a run in progress: where it is, and for each boundary in use, its calls."""
    round, done, ticks = town.progress
    metrics = town.metrics
    said = [Part(f"round {round:,} of {max_ticks:,}", "title"), Part(f"  {done:,} of {ticks:,} ticks done")]
    if metrics.get("messages_sent"):
        said.append(Part(f"  {metrics['messages_sent']:,} messages"))
    lines: list[Line] = [tuple(said)]
    for boundary, counts in town.stats.items():
        if counts.get("calls"):
            flying, waiting = counts.get("in_flight", 0), counts.get("waiting", 0)
            busy = f"{flying:,} in flight, {waiting:,} waiting" if flying or waiting else "idle"
            line = [Part(f"  {boundary}: ", "quiet"), Part(busy), Part(f" of {counts['calls']:,} calls", "quiet")]
            if "stray_lines" in counts:  # a server: its calls are in flight as those of tools
                line = [Part(f"  {boundary}: {counted(counts['calls'], 'call')}", "quiet")]
            if counts.get("narrowed"):
                line.append(Part(f"; its service was crowded, {_at_once(counts['width'])} at once now"))
            lines.append(tuple(line))
    return lines


def curves(town: Running, width: int) -> list[Line]:
    """Return a line for each measure of a run in progress: its curve, as wide as there is room for, and its last number."""
    found = town.curves
    shown_ones = list(found.items())[:MOST_CURVES]
    head = max((len(name) for name, _ in shown_ones), default=0)
    lines: list[Line] = []
    for name, numbers in shown_ones:
        last = next((number for number in reversed(numbers) if number is not None), None)
        said = "nothing yet" if last is None else f"{last:.6g}"
        room = width - head - len(said) - 5
        curve = f"{sparkline(numbers[-MOST_ROUNDS:], min(room, WIDEST_CURVE))}  " if room >= 4 else ""
        lines.append((Part(f"  {name:<{head}} ", "quiet"), Part(curve, "value"), Part(said)))
    if len(found) > len(shown_ones):
        lines.append((Part(f"  and {len(found) - len(shown_ones)} more measures", "quiet"),))
    return lines


def _at_once(width: float) -> str:
    return "any number" if width == float("inf") else f"{width:,}"


def _text(line: Line) -> Text:
    from rich.text import Text

    found = Text()
    for part in line:
        found.append(shown(part.text), STYLES[part.style])
    return found


def _table(grid: Grid) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(shown(grid.title), STYLES["title"]),
        title_justify="left",
        box=box.SIMPLE_HEAD if any(grid.heads) else None,
        show_header=any(grid.heads),
        pad_edge=True,
    )
    for head in grid.heads:
        # Folding and not cutting: what is shown can be copied, at 20 columns too.
        table.add_column(Text(shown(head), STYLES["quiet"]), overflow="fold")
    for row in grid.rows:
        table.add_row(*(_text((cell,)) for cell in row))
    return table


def _is_terminal(stream: TextIO) -> bool:
    return not stream.closed and stream.isatty()


def _sink(stream: TextIO) -> None:
    """Let what is still written to a stream whose reader has gone fall into nothing, also at the end of the process."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        # Not a stream with a file behind it, as in a test; closing it has the same effect for us.
        stream.close()


def _forgiving(stream: TextIO) -> None:
    """Let a stream whose encoding lacks a letter write it in another way; by default it would raise."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="society_ascii")


def _in_other_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_ASCII.get(each) or each.encode("ascii", "backslashreplace").decode() for each in letters), error.end


codecs.register_error("society_ascii", _in_other_letters)
