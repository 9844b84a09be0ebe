"""Sequences, optionals, tuples, maps and strings, by their samples."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import OptionalType, TensorType, parse_type
from amanda_std import ops, trace
from amanda_std.engine.operation import Operation
from amanda_std.ops import OPS
from amanda_std.ops.containers import optionals, sequences, tuples
from amanda_std.ops.control import state
from amanda_std.ops.text import strings
from amanda_std.passes import drop, fold, infer, share
from amanda_std.runtime.containers import join_types, string_array, type_of
from amanda_std.runtime.state import Cell

THEMES = (optionals, sequences, state, strings, tuples)
HERE = sorted(
    v.name
    for t in THEMES
    for v in vars(t).values()
    if isinstance(v, Operation) and v.function.__module__ == t.__name__
)


def expect(got, want):
    """Equal in everything: kind, number of elements, element type, shape, content."""
    assert type(got) is type(want)
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            expect(a, b)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            expect(np.asarray(got[key]), want[key])
    elif isinstance(want, Cell):
        expect(got.read(), want.read())
    elif want is not None:
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype == object:
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_array_equal(got, want)


def wanted(sample):
    return sample.expected if isinstance(sample.expected, list) else [sample.expected]


def is_data(param, value):
    if value is None or param.role in ("host", "body"):
        return False
    return param.role == "value" or hasattr(value, "shape")


def told(value):
    return type_of(value)


def of_any_shape(value):
    found = type_of(value)
    return TensorType(found.dtype) if isinstance(found, TensorType) else found


@pytest.mark.parametrize("name", HERE)
def test_kernel(name):
    op = OPS[name]
    for sample in op.samples_rule():
        got = op.run(*op.bind(sample.args, sample.attrs))
        many = op.form.many
        for a, b in zip(got if many else [got], wanted(sample), strict=True):
            expect(a, b)


def fits(inferred, real):
    """Whether what was inferred leaves room for what came out."""
    if inferred == TensorType() or real == TensorType():
        return True
    if isinstance(inferred, OptionalType) and not isinstance(real, OptionalType):
        return fits(inferred.element, real)
    if isinstance(inferred, TensorType):
        if inferred.dtype is not real.dtype:
            return False
        if not inferred.shape.has_rank:
            return True
        if inferred.shape.rank != real.shape.rank:
            return False
        pairs = zip(inferred.shape, real.shape, strict=True)
        return all(not isinstance(a, int) or a == b for a, b in pairs)
    if type(inferred) is not type(real):
        return False
    if real.parts[-1:] == (TensorType(),):
        return True
    pairs = zip(inferred.parts, real.parts, strict=True)
    return all(fits(a, b) for a, b in pairs)


@pytest.mark.parametrize("typing", [told, of_any_shape])
@pytest.mark.parametrize("change", ["whole", "passed"])
@pytest.mark.parametrize("name", HERE)
def test_graph(name, change, typing, run_values):
    """Traced, typed, and run: with the types that came out."""
    op = OPS[name]
    for sample in op.samples_rule():
        params = op.form.params_of(len(sample.args))
        rows = enumerate(zip(params, sample.args, strict=True))
        at = [i for i, (p, a) in rows if is_data(p, a)]

        def call(*values, sample=sample, at=at):
            args = list(sample.args)
            for i, value in zip(at, values, strict=True):
                args[i] = value
            return op(*args, **sample.attrs)

        data = [sample.args[i] for i in at]
        graph = trace(call, [typing(a) for a in data])
        if change == "passed":
            for run_pass in (infer, fold, share, drop, infer):
                run_pass(graph)
        got = run_values(graph, *data)
        for value, result, want in zip(got, graph.results, wanted(sample), strict=True):
            expect(value, want)
            assert fits(result.type, type_of(value)), (result.type, type_of(value))


# -- what they say when they are used wrongly --------------------------------------


X = np.float32([1, 2])
WRONG = [
    (lambda: ops.sequence_at([X], np.int64(1)), UsageError, "-1 to 0"),
    (lambda: ops.sequence_erase([]), UsageError, "an empty range"),
    (lambda: ops.sequence_insert([X], X, np.int64(-2)), UsageError, "-1 to 1"),
    (lambda: ops.concat_from_sequence([]), UsageError, "an empty sequence"),
    (lambda: ops.split_to_sequence(X, (1, 2)), UsageError, "do not add up"),
    (lambda: ops.split_to_sequence(X, 0), UsageError, "has no size"),
    (lambda: ops.get_element(None), UsageError, "has_element"),
    (lambda: ops.tuple_get((X,), index=1), InvalidTypeError, "-1 to 0"),
    (lambda: ops.map_make(np.int64([1, 1]), X), UsageError, "duplicate key"),
    (lambda: ops.map_get({1: X}, np.int64(2)), UsageError, "otherwise="),
    (lambda: ops.string_lower(X), InvalidTypeError, "kind string"),
    (
        lambda: ops.regex_full_match(string_array(["a"], ()), pattern=r"(a)\1"),
        UsageError,
        "RE2",
    ),
    (
        lambda: ops.regex_full_match(string_array(["a"], ()), pattern="("),
        UsageError,
        "invalid regular expression",
    ),
    (
        lambda: ops.string_to_number(string_array(["x"], ()), dtype="int64"),
        UsageError,
        "cannot parse a string as int64",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_use_is_reported(call, error, text):
    with pytest.raises(error, match=text):
        call()


TYPED_WRONG = [
    (lambda t: ops.sequence_at(t("float32[2]"), t("int64[]")), "this is no sequence"),
    (lambda t: ops.sequence_length(t("tuple<float32[2]>")), "this is no sequence"),
    (lambda t: ops.tuple_get(t("float32[2]"), index=0), "this is no tuple"),
    (lambda t: ops.map_keys(t("float32[2]")), "this is no map"),
    (
        lambda t: ops.sequence_insert(t("sequence<float32[2]>"), t("int64[2]")),
        "one element type",
    ),
    (lambda t: ops.optional(t("optional<float32[2]>")), "cannot be nested"),
    (lambda t: ops.map_make(t("float32[2]"), t("float32[2]")), "int64 or strings"),
]


@pytest.mark.parametrize(("call", "text"), TYPED_WRONG)
def test_wrong_types_are_reported(call, text):
    with pytest.raises(InvalidTypeError, match=text) as told:
        call(parse_type)
    assert told.value.who  # the op, with the types that it was given


def test_sequence_types_are_joined():
    rows = [parse_type(f"float32[{n}, 3]") for n in (2, 5)]
    assert str(join_types(rows)) == "float32[?, 3]"
    found = ops.sequence_construct(*rows)
    assert str(found) == "sequence<float32[?, 3]>"


def test_a_loop_carries_a_sequence(run_values):
    def function(n, x):
        def body(i, go, xs):
            return go, ops.sequence_insert(xs, x * ops.astype(i, dtype="float32"))

        xs = ops.loop(n, None, body, ops.sequence_empty(dtype="float32"))[0]
        return ops.concat_from_sequence(xs)

    graph = trace(function, [parse_type("int64[]"), parse_type("float32[2]")])
    got = run_values(graph, np.int64(3), np.float32([1, 2]))[0]
    assert got.tolist() == [0, 0, 1, 2, 2, 4]
