"""Scalars of YAML and JSON: what is read as what, and that writing keeps it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files.text import json_form, yaml_form
from amanda.files.text.syntax import json_parser, yaml_parser
from amanda.files.text.syntax.layout import JsonStyle, YamlStyle, format_document
from amanda.files.text.syntax.plain_data import Block, Rows, Tagged
from amanda.tensors import same_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("y", "y"),
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("FALSE", False),
        ("12", 12),
        ("-0", 0),
        ("010", 10),
        ("0o17", 15),
        ("0xfF", 255),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e5", 100000.0),
        ("-1E-2", -0.01),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        (".NaN", math.nan),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        ("=", "="),
        ("<<", "<<"),
        ("'12'", "12"),
        ('"~"', "~"),
        ("!!str 12", "12"),
        ("!!float 12", 12.0),
        ("!!int 0x10", 16),
        ("! 12", "12"),
        ("!!binary AAE=", Tagged("bytes", "AAE=")),
        ("!dtype float32", Tagged("dtype", "float32")),
        ("!shape [n, 3]", Tagged("shape", ["n", 3])),
    ],
)
def test_yaml_reads(text: str, value: Any) -> None:
    made = yaml_parser.parse(f"a: {text}", "x")["a"]
    assert type(made) is type(value)
    assert made == value or (made != made and value != value)


def test_keys_are_text() -> None:
    assert list(yaml_parser.parse("{1: a, true: b, 1.5: c, no: d}", "x")) == [
        "1", "true", "1.5", "no",
    ]  # fmt: skip


def test_untagged_values_stay_as_read_and_tagged_ones_get_their_kind() -> None:
    text = (
        "graph: {attrs: {a: float32, b: !dtype float32, c: [1, 2], d: !shape [1, 2]}}"
    )
    attrs = yaml_form.loads(text).attrs
    assert [type(value).__name__ for value in attrs.values()] == [
        "str", "DType", "list", "Shape",
    ]  # fmt: skip


TRICKY = [
    "", " ", "a ", " a", "a: b", "a #b", "#a", "- a", "-", "--", "---", "...", "?",
    "? a", "no", "Null", "~", "1e5", "0x1", "1_0", "1:30", "2020-01-01", ".5", "+.inf",
    "=", "<<", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">", "{a", "[a", ",", "a,b",
    "a]", "'", '"', "a:", ":a", "://", "\n", "a\nb", "\t", "\x00", "\x7f", "\x85",
    "\xa0", "\u2028", "\ufeff", "\ufffe", "\U0001f600", "é", "n", "y", "x" * 2000,
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(TRICKY)
    | st.text("ab0:?#&*!|>%@`,[]{}()-+._ \n\"'~=<$/^\\", max_size=6)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(Rows)
        | st.dictionaries(st.sampled_from(TRICKY) | st.text("ab$:"), inner, max_size=4)
        | st.dictionaries(st.text("ab"), inner, max_size=2).map(Block)
        | st.builds(Tagged, st.just("kind"), st.lists(inner, max_size=2))
    ),
    max_leaves=20,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tagged) and isinstance(b, Tagged):
        return a.tag == b.tag and same(a.value, b.value)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, float) and isinstance(a, Tagged):  # JSON has no nan
        a = float(a.value)
    return same_value(a, b)


@given(plain)
def test_yaml_is_read_as_it_was_written(data: Any) -> None:
    text = format_document(YamlStyle(), data)
    assert same(yaml_parser.parse(text, "x"), data)


@given(plain)
def test_pure_python_reads_it_too(data: Any) -> None:
    text = format_document(YamlStyle(), data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_parser, "_LOADER", yaml.SafeLoader)
        assert same(yaml_parser.parse(text, "x"), data)


untagged = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(TRICKY) | st.text("ab$:"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(untagged)
def test_readers_of_yaml_1_1_read_the_same(data: Any) -> None:
    assert same(yaml.safe_load(format_document(YamlStyle(), data)), data)


@given(plain)
def test_json_is_read_as_it_was_written(data: Any) -> None:
    text = format_document(JsonStyle(), data)
    assert same(json_parser.parse(text, "x"), data)
    assert same(json_parser._compose(text, "x"), data)


@given(st.text('[]{}:,"\\ae1.-0$tn u\n', max_size=20))
def test_both_ways_of_reading_json_agree(text: str) -> None:
    try:
        made = json_parser.parse(text, "x")
    except FormatError:
        with pytest.raises(FormatError):
            json_parser._compose(text, "x")
    else:
        assert same(json_parser._compose(text, "x"), made)


@pytest.mark.parametrize("depth", [300, 512])
def test_json_nested_too_deeply_for_the_fast_way(depth: int) -> None:
    made = json_parser.parse("[" * depth + "]" * depth, "x")
    for _ in range(depth - 1):
        (made,) = made
    assert made == []


def test_keys_that_look_like_tags() -> None:
    graph = yaml_form.loads("graph: {attrs: {$a: {$dtype: 1, $$b: 2}}}")
    text = json_form.dumps(graph)
    assert '{"$$a": {"$$dtype": 1, "$$$b": 2}}' in text
    assert json_form.loads(text).attrs == graph.attrs


def test_absurd_ints_are_refused_by_reader_and_writer() -> None:
    with pytest.raises(LimitError, match="an int that is too large"):
        yaml_form.loads("graph: {attrs: {a: " + "9" * 100 + "}}")
    graph = yaml_form.loads("graph: {}")
    graph.attrs["a"] = -(2**256)
    with pytest.raises(AmandaError, match="an int that is too large"):
        yaml_form.dumps(graph)
