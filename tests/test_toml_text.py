"""Data as TOML: what is read back is what was written, in the same order."""

from __future__ import annotations

import datetime
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from society.toml_text import toml_text

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.datetimes(),
    st.dates(),
)
values = st.recursive(
    leaves, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)), max_leaves=8
)


def ordered(value: Any) -> Any:
    """Return a value in which the order of keys counts."""
    if isinstance(value, dict):
        return [(key, ordered(item)) for key, item in value.items()]
    return [ordered(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(keys, values, max_size=5))
def test_what_is_read_back_is_what_was_written(data: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(data)) == data


@given(values)
def test_the_order_of_keys_in_a_table_stays(value: Any) -> None:
    assert ordered(tomllib.loads(toml_text({"table": {"of": value, "and": 1}}))["table"]) == ordered(
        {"of": value, "and": 1}
    )


def test_a_document_has_its_tables_under_headings() -> None:
    data = {"run": {"file": "a.toml", "set": {"x.y": 1}}, "seed": 7, "agents": [{"name": "ada"}, {"name": "bob"}]}

    assert toml_text(data) == (
        'seed = 7\n\n[run]\nfile = "a.toml"\nset = { "x.y" = 1 }\n\n[[agents]]\nname = "ada"\n\n[[agents]]\nname = "bob"\n'
    )


def test_times_are_written_too() -> None:
    assert toml_text({"at": datetime.time(12, 30)}) == "at = 12:30:00\n"
