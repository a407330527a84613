from __future__ import annotations

import hashlib
import json
import re
import zlib
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import intent, lines_of, result, started, ten_records

from society.codec import ORIGIN, Scan, beginning_of_last_batch, encode, salvaged, scan, sum_of
from society.errors import JournalDamaged, ResumeRefused
from society.records import Barrier, Intent, Read, Result
from society.values import FrozenDict, FrozenList, freeze

GOLDEN = Path(__file__).parent / "golden" / "journal.jsonl"
LINES = lines_of(ten_records())
JOURNAL = b"".join(LINES)
BEGINNINGS = [0, *accumulate(map(len, LINES))]


def damage_of(data: bytes) -> JournalDamaged:
    with pytest.raises(JournalDamaged) as caught:
        scan(data, "j")
    return caught.value


def test_what_was_encoded_is_decoded():
    found = scan(JOURNAL)

    assert list(found.records()) == ten_records()
    assert found.kinds[:4] == ["start", "opening", "read", "read"]
    assert found.torn is None and not found.lacks_newline
    assert (found.end, found.sum) == (len(JOURNAL), sum_of(LINES[-1]))


def test_format_1_is_what_the_golden_file_holds():
    assert GOLDEN.read_bytes() == JOURNAL
    assert list(scan(GOLDEN.read_bytes()).records()) == ten_records()


def test_a_reader_can_be_written_from_the_prose():
    """Nothing of the codec is used here; only what its docstring says."""
    data, at, before, kinds = JOURNAL, 0, "0" * 24, []
    while at < len(data):
        size, check = int(data[at + 9 : at + 19]), data[at + 20 : at + 28].decode()
        assert check == f"{zlib.crc32(data[at + 9 : at + 19]):08x}"
        line = data[at : at + size]
        assert line[-1] == 0x0A and b"\n" not in line[:-1]
        content = json.loads(line.decode("utf-8"))
        assert list(content) == ["size", "batch", "sum", "data"]
        assert content["batch"] == int(line[38:39]) and content["sum"] == line[47:71].decode()
        digest = hashlib.sha256(before.encode() + line[:47] + line[71:-1]).hexdigest()
        assert content["sum"] == digest[:24]
        kinds.append(content["data"]["record"])
        at, before = at + size, content["sum"]

    assert kinds == scan(data).kinds


def test_every_line_is_strict_json_even_with_separators_of_other_kinds_in_its_texts():
    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert "\u2028".encode() in JOURNAL
    for line in JOURNAL.split(b"\n")[:-1]:
        json.loads(line, parse_constant=refuse)


def test_a_journal_cut_at_any_byte_reopens_with_the_longest_whole_prefix():
    """J6, P49: also in the middle of a character; and a record that lacks only its newline is whole."""
    for cut in range(len(JOURNAL) + 1):
        found = scan(JOURNAL[:cut])

        whole = sum(1 for end in BEGINNINGS[1:] if end - 1 <= cut)
        assert len(found) == whole, cut
        assert found.end == min(BEGINNINGS[whole], cut)
        assert found.lacks_newline == (cut + 1 in BEGINNINGS)
        if found.torn is None:
            assert found.end == cut
        else:
            assert (found.torn.offset, found.torn.size) == (BEGINNINGS[whole], cut - BEGINNINGS[whole])
        assert list(found.lines()) == LINES[:whole]


def test_any_flipped_byte_is_damage_with_record_number_and_offset():
    for at in range(len(JOURNAL)):
        for change in (0x01, 0x20, 0x80):
            flipped = bytearray(JOURNAL)
            flipped[at] ^= change

            damage = damage_of(bytes(flipped))

            record = sum(1 for begins in BEGINNINGS if begins <= at)
            assert (damage.record, damage.offset) == (record, BEGINNINGS[record - 1]), (at, change)


def test_any_byte_replaced_by_a_newline_is_damage():
    for at in range(len(JOURNAL)):
        if JOURNAL[at] != 0x0A:
            damage_of(JOURNAL[:at] + b"\n" + JOURNAL[at + 1 :])


@pytest.mark.parametrize("name, index", [("a record removed", 4), ("two exchanged", 5), ("one repeated", 6)])
def test_moved_and_removed_records_are_damage(name: str, index: int):
    """J1: each is sound by itself; the chain is not."""
    lines = list(LINES)
    if name == "a record removed":
        del lines[4]
    elif name == "two exchanged":
        lines[5], lines[6] = lines[6], lines[5]
        index = 5
    else:
        lines.insert(6, lines[5])

    damage = damage_of(b"".join(lines))

    assert damage.record == index + 1
    assert "checksum" in str(damage) and f"byte {damage.offset}" in str(damage)


def test_a_complete_last_record_with_a_wrong_checksum_is_damage_and_not_torn():
    assert damage_of(JOURNAL[:-4] + b"~" + JOURNAL[-3:]).record == 10


def test_a_newline_after_the_fragment_does_not_mend_it():
    """P49."""
    for missing in range(2, len(LINES[-1])):
        found = scan(JOURNAL[:-missing] + b"\n")
        assert len(found) == 9 and found.torn is not None and found.torn.offset == BEGINNINGS[9]


def test_a_record_glued_to_a_fragment_is_damage():
    """P49: an earlier program appended without cutting."""
    fragment = lines_of([*ten_records(), intent(9, text="x" * 1000)])[-1][:-500]

    assert damage_of(JOURNAL + fragment + LINES[8]).record == 11
    assert damage_of(JOURNAL + fragment + LINES[0] + LINES[1]).record == 11
    assert damage_of(JOURNAL + LINES[3][:20] + LINES[-1]).record == 11


def test_zeros_and_other_text_at_the_end_are_damage():
    assert damage_of(JOURNAL + b"\0" * 10).offset == len(JOURNAL)
    assert damage_of(JOURNAL + b"hello\n").record == 11
    assert damage_of(b"\xef\xbb\xbf" + JOURNAL).record == 1


def test_an_empty_file_is_an_empty_journal():
    found = scan(b"")

    assert len(found) == 0 and found.torn is None
    assert (found.end, found.sum) == (0, ORIGIN)


def test_decoding_starts_at_any_record():
    found = scan(JOURNAL)

    assert found.last("barrier") == 8 and found.last("cut") is None
    assert list(found.records(8)) == ten_records()[8:]


def test_decoded_values_are_frozen_at_every_depth_and_records_keep_their_shape():
    read, barrier = scan(JOURNAL).record(2), scan(JOURNAL).record(8)

    assert isinstance(read, Read) and isinstance(barrier, Barrier)
    assert type(read.value) is FrozenDict
    ada = barrier.ticks[0]
    assert type(ada.did[0]) is tuple and type(ada.did[0][4]) is FrozenDict and type(ada.did[0][4]["tags"]) is FrozenList
    assert type(ada.state) is dict and type(ada.state["seen"]["a"]) is FrozenList
    assert type(barrier.merged["risk"]) is FrozenDict and type(barrier.settled[0].result) is FrozenList
    assert type(barrier.measures[1]) is tuple and type(barrier.measures[1][2]) is FrozenList
    assert type(barrier.events[0]["share"]) is FrozenDict


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def shape(value: Any) -> Any:
    """A value with its types and the order of its keys, which equality does not see."""
    if isinstance(value, dict):
        return type(value), [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return type(value), [shape(item) for item in value]
    return type(value), repr(value)


@given(st.lists(VALUES.map(freeze), max_size=5))
def test_values_come_back_with_their_types_and_order(values: list[Any]):
    """P56: 1.0 stays 1.0, True stays True, keys keep their order."""
    found = scan(b"".join(lines_of([result(value=value) for value in values])))

    back = [record.value for record in found.records() if isinstance(record, Result)]
    assert shape(back) == shape(values)


@given(st.data())
def test_any_cut_of_any_journal_is_torn_at_most(data: st.DataObject):
    records = data.draw(st.lists(VALUES.map(freeze).map(lambda value: result(value=value)), max_size=4))
    journal = b"".join(lines_of(records))
    found = scan(journal[: data.draw(st.integers(0, len(journal)))])

    assert list(found.records()) == records[: len(found)]


def test_nesting_of_two_hundred_survives():
    value: Any = 1
    for _ in range(200):
        value = [value]

    [record] = scan(b"".join(lines_of([result(value=value)]))).records()

    assert isinstance(record, Result) and record.value == value


def test_a_journal_of_a_later_format_is_refused_by_its_number():
    """P54."""
    with pytest.raises(ResumeRefused, match="format 2"):
        scan(b"".join(lines_of([started(format=2)]))).record(0)


def test_a_sound_record_of_an_unknown_kind_is_told_with_its_place():
    unknown = encode(intent(), ORIGIN, begins_batch=True).replace(b'"intent"', b'"vision"')
    rest = hashlib.sha256(ORIGIN + unknown[:47] + unknown[71:-1]).hexdigest()[:24].encode()
    found: Scan = scan(unknown[:47] + rest + unknown[71:])

    with pytest.raises(JournalDamaged, match=re.escape("record 1 at byte 0: written by another version?")):
        found.record(0)


def test_only_the_last_batch_can_be_set_aside():
    """J6: batches are records 1-3, 4-6, 7-9 and 10."""
    data = b"".join(LINES[:9])
    in_the_last = data[: BEGINNINGS[8] + 100] + b"\0" + data[BEGINNINGS[8] + 101 :]
    in_an_earlier = data[: BEGINNINGS[4] + 100] + b"\0" + data[BEGINNINGS[4] + 101 :]

    assert beginning_of_last_batch(in_the_last, damage_of(in_the_last)) == BEGINNINGS[6]
    with pytest.raises(ResumeRefused, match="not in the last batch"):
        beginning_of_last_batch(in_an_earlier, damage_of(in_an_earlier))


def test_damage_in_the_first_record_of_the_last_batch_gives_up_nothing_before_it():
    data = b"".join(LINES[:9])
    marked = data[: BEGINNINGS[6] + 100] + b"\0" + data[BEGINNINGS[6] + 101 :]
    unreadable = data[: BEGINNINGS[6]] + b"\0" * 60 + data[BEGINNINGS[6] + 60 :]

    assert beginning_of_last_batch(marked, damage_of(marked)) == BEGINNINGS[6]
    assert beginning_of_last_batch(unreadable, damage_of(unreadable)) == BEGINNINGS[6]


def test_what_can_be_read_of_a_damaged_batch_is_salvaged():
    batch = LINES[6] + b"\0" * 50 + LINES[7][50:100] + b"\n" + LINES[7]

    kinds = [type(record) for record in salvaged(batch)]

    assert len(kinds) == 2 and kinds[1] is Intent
