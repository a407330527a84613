r"""The journal's bytes, format 1: one record a line, checksummed and chained.

A journal is a sequence of lines, oldest first, and nothing else: no header, no trailer, no padding. The empty journal
is the empty file. It is UTF-8 without a mark; a line ends with one byte 0A, which stands nowhere else (inside texts it
is escaped; U+2028, U+0085 and the like are written as they are, so split at 0A alone). Each line is strict JSON:

    {"size":"0000000169-2e260de3","batch":1,"sum":"ff47…24 hex digits","data":{"record":"start",…}}

All of a line up to and including `"data":` is 80 bytes wide in every line, and is written exactly so: keys in this
order, no blanks, hex digits in lower case. A reader finds, counted from the start of the line,

    byte  9   size    10 decimal digits: bytes of the whole line, its 0A included
    byte 20   check   8 hex digits: CRC-32 (that of zlib and PNG) of the 10 digits before it, as ASCII
    byte 38   batch   1 where the line is the first of a batch, else 0. A batch is what was written with one sync:
                      its lines became durable together, and those of earlier batches before it
    byte 47   sum     24 hex digits: the chain
    byte 80   data    the record: a JSON object whose first key is "record", the record's kind; then `}` and 0A

The chain. `sum` is the first 24 hex digits of SHA-256 over: the 24 digits of the line before (24 zeros for the first
line), then this line without its own 24 digits and without its 0A. A line that was changed, moved, removed or put in
between is found by the first sum that does not fit. Lines removed from the end are not: a journal may end anywhere.

The records, their fields and what they mean are in `records.py`; a field that holds its default is left out. In values
the order of keys means something and is kept; a number with a point or an exponent is a float, any other an integer of
at most 64 bits. NaN and infinities do not occur. The first record is a `start`, whose `format` is the number of this
format (left out: 1). A later format keeps the first line readable by these rules, so that its number can be told.

The end of a journal. A crash leaves the last line *torn*: it is shorter than its size says, and its sum does not fit.
(If it lacks nothing but its 0A the sum fits, and the record is whole.) So little may be left of it that it does not
tell its size; then it is the beginning of a front. One 0A after the fragment does not mend it: an editor or another
program may have put it there. A torn line is no damage, since nobody had been told that it was durable; writers cut it
off before they append. *Anything else* that does not fit is damage, in the last line too when all its bytes are there,
and no record from there on is to be believed.

Knows: bytes ↔ records.
Does not know: files, who writes when, or what records mean for a run.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import attrs
import msgspec

from society.errors import JournalDamaged, ResumeRefused
from society.records import AnyRecord, Record, Start
from society.values import freeze

FORMAT: Final = 1
ORIGIN: Final = b"0" * 24
"""What the first line's sum is chained to."""

_FRONT: Final = re.compile(rb'\{"size":"([0-9]{10})-([0-9a-f]{8})","batch":([01]),"sum":"([0-9a-f]{24})","data":')
_FRONT_OF_ONE: Final = b'{"size":"0000000000-00000000","batch":0,"sum":"000000000000000000000000","data":'
_CHECK, _BATCH, _SUM, _DATA = 20, 38, 47, len(_FRONT_OF_ONE)
_KIND: Final = _DATA + len('{"record":"')
_LATER_BATCH: Final = re.compile(rb'\n\{"size":"[0-9]{10}-[0-9a-f]{8}","batch":1,')

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(AnyRecord)


def encode(record: Record, before: bytes, *, begins_batch: bool) -> bytes:
    """Return the line of a record.

    Args:
        record: Its values are frozen, its texts free of lone surrogates.
        before: The sum of the line before it, `ORIGIN` for the first.
        begins_batch: It is the first of the lines that are written with one sync.
    """
    data = _encoder.encode(record)
    size = b"%010d" % (_DATA + len(data) + 2)
    head = b'{"size":"%b-%08x","batch":%d,"sum":"' % (size, zlib.crc32(size), begins_batch)
    tail = b'","data":%b}' % data
    return b"".join((head, _chained(before, head, tail), tail, b"\n"))


def sum_of(line: bytes) -> bytes:
    """Return the sum that stands in a line: what the line after it is chained to."""
    return line[_SUM : _SUM + 24]


def _chained(before: bytes, head: bytes, tail: bytes) -> bytes:
    return hashlib.sha256(b"".join((before, head, tail))).hexdigest()[:24].encode()


@attrs.frozen
class Torn:
    """A last line that a crash left unfinished."""

    offset: int
    """Bytes before it."""
    size: int
    """Bytes left of it."""

    def __str__(self) -> str:
        return f"the last record was torn: {self.size} bytes at byte {self.offset}"


@attrs.frozen(eq=False)
class Scan:
    """A journal whose chain was checked, its records not yet decoded. `len(scan)` is the number of whole records."""

    data: bytes = attrs.field(repr=False)
    path: str
    """What to call the journal in errors."""
    starts: array[int] = attrs.field(repr=False)
    """Where each whole record begins; bytes."""
    kinds: list[str] = attrs.field(repr=False)
    """The kind of each whole record: `start`, `read`, …"""
    end: int
    """Bytes of whole records: where the next one belongs."""
    sum: bytes
    """The sum of the last whole record: what the next one is chained to."""
    torn: Torn | None = None
    lacks_newline: bool = False
    """The last record is whole but for its final byte, which belongs at `end`."""

    def __len__(self) -> int:
        return len(self.starts)

    def last(self, kind: str) -> int | None:
        """Return the index of the last record of a kind, from 0."""
        for index in range(len(self.kinds) - 1, -1, -1):
            if self.kinds[index] == kind:
                return index
        return None

    def records(self, first: int = 0) -> Iterator[AnyRecord]:
        """Yield the records from index `first` on, decoded, their values frozen.

        Raises:
            JournalDamaged: A record's bytes are those that were written, but it is none that this version knows.
            ResumeRefused: The journal is of a later format.
        """
        for index in range(first, len(self)):
            yield self.record(index)

    def record(self, index: int) -> AnyRecord:
        """Return one record, decoded, its values frozen. Raises like `records`."""
        start = self.starts[index]
        try:
            record = _decoded(self.line(index)[_DATA:-2])
        except msgspec.DecodeError as error:
            raise JournalDamaged(self.path, index + 1, start, f"written by another version? {error}") from error
        if isinstance(record, Start) and record.format != FORMAT:
            raise ResumeRefused(f"{self.path} is of format {record.format}, and this version reads format {FORMAT}")
        return record

    def lines(self) -> Iterator[bytes]:
        """Yield the whole records' lines, each with its newline."""
        return map(self.line, range(len(self)))

    def line(self, index: int) -> bytes:
        """Return one line, with its newline."""
        end = self.starts[index + 1] if index + 1 < len(self) else self.end
        line = self.data[self.starts[index] : end]
        return line if line.endswith(b"\n") else line + b"\n"


def scan(data: bytes, path: str = "journal") -> Scan:
    """Return where the records of a journal begin, and of which kind they are, after one pass over its bytes.

    Nothing is decoded. A torn last line is told, not refused.

    Raises:
        JournalDamaged: Something else does not fit.
    """
    starts = array("Q")
    kinds: list[str] = []
    at, total, before = 0, len(data), ORIGIN
    while at < total:
        front = _FRONT.match(data, at)
        if front is None or zlib.crc32(front[1]) != int(front[2], 16):
            if (fault := _fault_of_front(data[at:])) is None:
                return Scan(data, path, starts, kinds, at, before, Torn(at, total - at))
            raise JournalDamaged(path, len(starts) + 1, at, fault)
        end = at + int(front[1])
        body = data[at + _SUM + 24 : min(end - 1, total)]
        fits = _chained(before, data[at : at + _SUM], body) == front[4]
        if not fits or (end <= total and data[end - 1] != 0x0A):
            if end > total and b"\n" not in body[:-1]:
                return Scan(data, path, starts, kinds, at, before, Torn(at, total - at))
            fault = "its last byte is not a newline" if fits else "its checksum does not fit"
            raise JournalDamaged(path, len(starts) + 1, at, fault)
        starts.append(at)
        kinds.append(data[at + _KIND : data.index(b'"', at + _KIND)].decode())
        at, before = end, front[4]
    return Scan(data, path, starts, kinds, min(at, total), before, lacks_newline=at > total)


def _fault_of_front(rest: bytes) -> str | None:
    """Return what is wrong with a line that has no sound front, or `None` if it is the beginning of one."""
    fragment = rest.removesuffix(b"\n")
    front = _FRONT.match(fragment + _FRONT_OF_ONE[len(fragment) :])
    if front is None:
        return "it does not begin like a record"
    if len(fragment) >= _CHECK + 8 and zlib.crc32(front[1]) != int(front[2], 16):
        return "the check of its size does not fit"
    return None


def beginning_of_last_batch(data: bytes, damage: JournalDamaged) -> int:
    """Return where the damaged batch begins, in bytes: the journal before it is sound.

    A damaged line whose mark cannot be read counts as a batch of its own, so that no sound record is given up.

    Raises:
        ResumeRefused: A later batch follows. What was durable after the damage may have been acted on.
    """
    if _LATER_BATCH.search(data, damage.offset):
        raise ResumeRefused(
            f"{damage.path}: the damage at byte {damage.offset} is not in the last batch, and what follows it "
            "was relied on. Only the last batch can be set aside"
        )
    if data[damage.offset + _BATCH - 8 : damage.offset + _BATCH + 2] != b'"batch":0,':
        return damage.offset
    sound = scan(data[: damage.offset], damage.path)
    marks = (start for start in reversed(sound.starts) if data[start + _BATCH] == ord("1"))
    return next(marks, damage.offset)


def salvaged(fragment: bytes) -> list[AnyRecord]:
    """Return the records of a damaged batch that can still be read, in order, whether or not their sums fit."""
    found = []
    for line in fragment.split(b"\n"):
        try:
            found.append(_decoded(line[_DATA:-1]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the damage itself
    return found


def _decoded(data: bytes) -> AnyRecord:
    record: AnyRecord = _decoder.decode(data)
    freezer = _freezer(type(record))
    if freezer is not None:
        freezer(record)
    return record


_Freezer = Callable[[Any], Any]


@cache
def _freezer(annotation: Any) -> _Freezer | None:
    """Return what freezes a decoded field of this type again, or `None` where the type holds no values.

    Only what is annotated as a value is frozen: lists and dicts of the records themselves stay plain, as in a live run.
    """
    if annotation is Any:
        return freeze
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _freezer_of_struct(annotation)
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is UnionType and inside[1:] == (NoneType,):
        return _freezer(inside[0])  # None itself is left as it is
    if origin in (list, dict) and (inner := _freezer(inside[-1])) is not None:
        return _freezer_of_list(inner) if origin is list else _freezer_of_dict(inner)
    if origin is tuple and any(_freezer(item) for item in inside if item is not ...):
        return _freezer_of_tuple(inside)
    return None


def _freezer_of_struct(struct: type[msgspec.Struct]) -> _Freezer | None:
    hints = get_type_hints(struct)
    fields = [(name, inner) for name in struct.__struct_fields__ if (inner := _freezer(hints[name])) is not None]

    def frozen(record: msgspec.Struct) -> msgspec.Struct:
        for name, inner in fields:
            value = getattr(record, name)
            if value is not None:
                msgspec.structs.force_setattr(record, name, inner(value))
        return record

    return frozen if fields else None


def _freezer_of_list(inner: _Freezer) -> _Freezer:
    return lambda items: [inner(item) for item in items]


def _freezer_of_dict(inner: _Freezer) -> _Freezer:
    return lambda items: {key: inner(item) for key, item in items.items()}


def _freezer_of_tuple(inside: tuple[Any, ...]) -> _Freezer:
    if inside[-1] is ...:
        every = _freezer(inside[0]) or _unchanged
        return lambda items: tuple(every(item) for item in items)
    each = [_freezer(item) or _unchanged for item in inside]
    return lambda items: tuple(inner(item) for inner, item in zip(each, items, strict=True))


def _unchanged(value: Any) -> Any:
    return value
