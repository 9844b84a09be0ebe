"""Names of namespaces."""

from __future__ import annotations

import itertools

import pytest

from amanda.dictionary import (
    Name,
    newest_version,
    parse_name,
    parse_span,
    resolve_name,
    version_key,
)
from amanda.errors import NamespaceError

KNOWN = {
    "amanda/onnx": [str(version) for version in range(1, 29)],
    "amanda/torch": ["2.4", "2.13", "2.14rc1"],
    "acme/dialect": [],
}


@pytest.mark.parametrize(
    ("text", "full", "short"),
    [
        ("amanda/tensorflow/1.13.1", "amanda/tensorflow/1.13.1", "tensorflow@1.13.1"),
        ("tensorflow@1.13.1", "amanda/tensorflow/1.13.1", "tensorflow@1.13.1"),
        ("torch", "amanda/torch", "torch"),
        ("acme/dialect@2", "acme/dialect/2", "acme/dialect@2"),
        ("a/b/c/2.0rc1", "a/b/c/2.0rc1", "a/b/c@2.0rc1"),
    ],
)
def test_names(text, full, short):
    name = parse_name(text)
    assert (str(name), name.short) == (full, short)
    assert parse_name(full) == parse_name(short) == name


@pytest.mark.parametrize(
    "text", ["", "/", "onnx@", "a//b", "@18", "18", "a b", "é/x", "a/1/b"]
)
def test_what_is_no_name(text):
    with pytest.raises(
        NamespaceError, match="is not the name of a namespace"
    ) as caught:
        parse_name(text)
    assert "names are like amanda/onnx/18, onnx@18 or onnx" in str(caught.value)


def test_a_name_says_whose_it_is():
    with pytest.raises(NamespaceError) as caught:
        parse_name("onnx/18")
    assert str(caught.value) == (
        "the namespace name 'onnx/18' has no owner\n"
        "  to do:    write amanda/onnx/18, or onnx@18 for short"
    )


def test_versions_are_ordered():
    ordered = ["0.9", "1.0a1", "1.0rc2", "1.0", "1.0.1", "1.9", "1.13.1", "2", "18"]
    for one, other in itertools.pairwise(ordered):
        assert version_key(one) < version_key(other)
    assert newest_version([]) is None
    assert newest_version(["1rc1"]) == "1rc1"


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ("onnx@7..18", "onnx@13..", "amanda/onnx/13..18"),
        ("onnx@7..18", "onnx@18..20", "amanda/onnx/18"),
        ("onnx@7..18", "onnx@19..20", None),
        ("onnx@*", "onnx@3", "amanda/onnx/3"),
        ("onnx", "onnx", "amanda/onnx/*"),
        ("onnx", "torch", None),
    ],
)
def test_spans_meet(one, other, met):
    found = parse_span(one).meet(parse_span(other))
    assert (None if found is None else str(found)) == met
    again = parse_span(other).meet(parse_span(one))
    assert again == found
    if found is not None:
        assert parse_span(str(found)) == found


def test_spans_contain_names():
    span = parse_span("amanda/tensorflow/1.13..2")
    assert parse_name("tensorflow@1.15") in span
    assert parse_name("tensorflow@2.0.0") in span
    assert parse_name("tensorflow@2.1") not in span
    assert parse_name("torch@1.15") not in span
    with pytest.raises(NamespaceError, match="ends before it begins"):
        parse_span("onnx@18..7")
    with pytest.raises(NamespaceError, match="has no owner"):
        parse_span("onnx/7..18")


def test_resolving():
    assert resolve_name("torch", KNOWN) == Name("amanda/torch", "2.13")
    assert resolve_name("onnx@18.0", KNOWN) == Name("amanda/onnx", "18")
    assert resolve_name("acme/dialect@5", KNOWN) == Name("acme/dialect", "5")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "onnx@99",
            "amanda/onnx has no version 99\n"
            "  expected: one of 1, 2, 3, ..., 26, 27, 28 (28 versions)\n"
            "  to do:    the nearest is onnx@28",
        ),
        (
            "torch@1.0",
            "amanda/torch has no version 1.0\n"
            "  expected: one of 2.4, 2.13, 2.14rc1\n"
            "  to do:    the nearest is torch@2.4",
        ),
        (
            "touch",
            "no dictionary of 'touch' is installed\n"
            "  expected: one of acme/dialect, onnx, torch\n"
            "  to do:    did you mean 'torch'?",
        ),
        (
            "jax",
            "no dictionary of 'jax' is installed\n"
            "  expected: one of acme/dialect, onnx, torch\n"
            "  to do:    pip install amanda-namespaces",
        ),
        (
            "acme",
            "no dictionary of 'acme' is installed\n"
            "  expected: one of acme/dialect, onnx, torch\n"
            "  to do:    `amanda ops` lists the dictionaries",
        ),
    ],
)
def test_what_is_not_there_is_told_with_what_is(text, told, nothing_installed):
    with pytest.raises(NamespaceError) as caught:
        resolve_name(text, KNOWN)
    assert str(caught.value) == told
