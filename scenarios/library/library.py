"""Readers who borrow from a library that they reach as a tool server: `library__search`, `library__lend`, `library__give_back`."""

from typing import Any


async def reader(tick: Any) -> None:
    """Step up to the counter; lend a book there; bring it back in the next round; make room for others."""
    counter, book = tick.shared["counter"], tick.state.get("book")
    if book is not None:
        await tick.call("library__give_back", book=book, reader=tick.agent)
        del tick.state["book"]
        tick.state["read"] = [*tick.state.get("read", []), book]
        tick.share("returned", 1)
        tick.share("counter", "")
    elif counter == tick.agent:
        tick.state["book"] = await lent(tick)
    elif counter == "" and wanted(tick):
        tick.share("counter", tick.agent)


async def lent(tick: Any) -> str:
    """Lend the first wanted book of which there is a copy; return its title."""
    found = await tick.gather(*(tick.call("library__search", title=title) for title in wanted(tick)))
    title = next(book["title"] for book in found if book["copies"])
    slip = await tick.call("library__lend", book=title, reader=tick.agent)
    tick.note(f"reads {slip['book']}; {slip['left']} left")
    return title


def wanted(tick: Any) -> list[str]:
    """Return the titles that are still to be read, in order."""
    read = tick.state.get("read", [])
    return [title for title in (tick.parameters["first"], tick.parameters["second"]) if title not in read]
