"""Where each key path of a TOML text stands."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from society.locate import Twice, assembled, locate, path_of, path_text

TEXT = """\
name = "a # not a comment"
text = '''
two
lines'''  # a comment
limits.tool_timeout = 1.0
[shared]
status = "open"
"a.b" = { initial = [1,
  2], merge = "append" }

[[agents]]
name = "one"
  [agents.state]
  mood = 1e3
[[agents]]
name = "two"
observe = [
  "x",  # the first
  "y",
]
"""


def test_every_key_path_has_the_line_it_is_written_on() -> None:
    places = locate(TEXT)

    def line(path: str) -> int | None:
        return places.line(tuple(int(key) if key.isdecimal() else key for key in path.split("/")))

    assert places.stopped is None
    assert [line(path) for path in ("name", "text", "limits/tool_timeout", "shared", "shared/status")] == [
        1,
        2,
        5,
        6,
        7,
    ]
    assert [line(path) for path in ("shared/a.b/initial", "shared/a.b/initial/1", "shared/a.b/merge")] == [8, 9, 9]
    assert [line(path) for path in ("agents/0", "agents/0/name", "agents/0/state/mood")] == [11, 12, 14]
    assert [line(path) for path in ("agents/1/name", "agents/1/observe", "agents/1/observe/1")] == [16, 17, 19]


def test_a_path_that_is_not_there_has_the_line_of_the_table_around_it() -> None:
    places = locate(TEXT)

    assert places.line(("agents", 1, "behavior")) == 15
    assert places.line(("nothing",)) is None


def test_a_value_is_also_known_as_it_is_written() -> None:
    assert locate(TEXT).raw(("agents", 0, "state", "mood")) == "1e3"


def test_repeated_keys_and_tables_are_told_with_both_lines_and_the_scanner_goes_on() -> None:
    places = locate("a = 1\n[t]\nx = {y = 1, y = 2}\nz = 1\n[u]\n[t]\nz = [3]\nnew = 1\n")

    assert places.twice == (
        Twice(("t", "x", "y"), 3, 3),
        Twice(("t",), 2, 6),
        Twice(("t", "z"), 4, 7),
    )
    assert assembled(places) == {"a": 1, "t": {"x": {"y": 1}, "z": 1, "new": 1}, "u": {}}


def test_what_is_no_toml_stops_the_scanner_at_its_line() -> None:
    assert locate("a = 1\nb = [1, 2\nc = 3\n").stopped == 3


@pytest.mark.parametrize(
    ("path", "text"),
    [(("agents", 2, "count"), "agents[2].count"), (("shared", "a.b"), 'shared."a.b"'), (("東京",), '"東京"')],
)
def test_paths_are_written_as_people_write_them(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


def test_a_dotted_path_may_have_quoted_keys() -> None:
    assert path_of('agents."a.b".count') == ("agents", "a.b", "count")
    for wrong in ("", "a..b", "a b", "a.", '"a'):
        with pytest.raises(ValueError, match="dotted path"):
            path_of(wrong)


_keys = st.text(alphabet="ab.-é ", min_size=1, max_size=3)
_scalars = st.one_of(
    st.integers(-5, 5), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)
)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3), max_leaves=8
)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() else f"\\U{ord(c):08X}" for c in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return repr(value)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the machine may be busy
@given(st.dictionaries(_keys, _values, max_size=4), st.sampled_from(["\n", "\r\n", "\n# note\n\n"]))
def test_assembled_from_its_places_a_text_means_what_tomllib_says(data: dict[str, Any], between: str) -> None:
    text = between.join(f"{_toml(key)} = {_toml(value)}" for key, value in data.items())

    assert assembled(locate(text)) == tomllib.loads(text) == data
