"""A library as a tool server: books in SQLite, lent and brought back.

python library_server.py                     speaks over its standard input and output
python library_server.py --http 8000         listens at http://127.0.0.1:8000/mcp
python library_server.py --books FILE        keeps the books in a file, not in memory
"""

import argparse
import sqlite3
from typing import TypedDict

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

BOOKS = {"Emma": 1, "Persuasion": 1, "Codex Leicester": 1}

server = MCPServer("library")
connection = sqlite3.connect(":memory:")


class Book(TypedDict):
    title: str
    copies: int


class Slip(TypedDict):
    book: str
    reader: str
    left: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def search(title: str) -> Book:
    """Tell how many copies of a book are in."""
    return Book(title=title, copies=_copies(title))


@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
async def lend(book: str, reader: str) -> Slip:
    """Lend a copy of a book to a reader. Who has one already keeps it."""
    with connection:
        if (book, reader) not in connection.execute("SELECT book, reader FROM lent"):
            if not _copies(book):
                raise ValueError(f"there is no copy of {book} in")
            connection.execute("INSERT INTO lent VALUES (?, ?)", (book, reader))
    return Slip(book=book, reader=reader, left=_copies(book))


@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
async def give_back(book: str, reader: str) -> Slip:
    """Take a book back from a reader."""
    with connection:
        connection.execute("DELETE FROM lent WHERE book = ? AND reader = ?", (book, reader))
    return Slip(book=book, reader=reader, left=_copies(book))


def _copies(title: str) -> int:
    owned = connection.execute("SELECT copies FROM books WHERE title = ?", (title,)).fetchone()
    lent = connection.execute("SELECT count(*) FROM lent WHERE book = ?", (title,)).fetchone()
    return owned[0] - lent[0] if owned else 0


def main() -> None:
    global connection
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--books", default=":memory:")
    given = parser.parse_args()
    connection = sqlite3.connect(given.books)
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS books (title TEXT PRIMARY KEY, copies INTEGER)")
        connection.execute("CREATE TABLE IF NOT EXISTS lent (book TEXT, reader TEXT, PRIMARY KEY (book, reader))")
        connection.executemany("INSERT OR IGNORE INTO books VALUES (?, ?)", BOOKS.items())
    if given.http is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=given.http)


if __name__ == "__main__":
    main()
