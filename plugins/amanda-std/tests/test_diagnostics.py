"""Wrong use of every op: the error names op, operands, what was expected, what got.

What is wrong is made of an op's own samples: another element type, rank or dim, no
tensor at all, an axis or size that cannot be, an attribute of another kind.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from amanda.errors import AmandaError, InvalidTypeError, Undecided, UsageError
from amanda.graph import Graph
from amanda.types import TensorType, parse_type
from amanda_std import grad, ops, trace, tracing
from amanda_std.engine.arrays import array_type
from amanda_std.ops import OPS

DTYPES = ("string", "complex64", "bool", "float32", "int32", "uint8", "float64")
HOSTS = (99, (99,), (0, 0), "abc", (-99, -99), 1.5, (1, 2, 3, 4, 5, 6, 7))
ATTRIBUTES = (99, "no such", (99,), -99, None, 1.5, (1, 2, 3, 4, 5, 6, 7))
SAMPLES = 2


def is_tensor(value):
    return hasattr(value, "shape") and not isinstance(value, TensorType)


def is_of_tensors(op):
    roles = {p.role for p in op.form.params} | {k.role for k in op.form.results}
    return "value" not in roles


TENSORS = [name for name, op in OPS.items() if is_of_tensors(op)]


def chosen(op):
    """Some samples, of element types and shapes that differ."""
    found = {}
    for sample in op.samples_rule():
        key = tuple(str(array_type(a)) if is_tensor(a) else "" for a in sample.args)
        found.setdefault(tuple(part.partition(" ")[0] for part in key), sample)
        if len(found) == SAMPLES:
            break
    return found.values()


def plain(array):
    found = array_type(np.asarray(array))
    return TensorType(found.dtype, found.shape)


def wrong_tensors(param, array):
    """(what is wrong, what is given) in the place of one tensor."""
    own = plain(array)
    dims = own.shape.dims
    for dtype in DTYPES:
        if str(own.dtype) != dtype:
            yield "element type", TensorType(dtype, dims)
    yield "rank", TensorType(own.dtype, (7, *dims))
    yield "rank", TensorType(own.dtype, (7, 5, 3, *dims))
    yield "rank", TensorType(own.dtype, ())
    yield "dims", TensorType(own.dtype, [d + 1 for d in dims])
    if dims:
        yield "dims", TensorType(own.dtype, [*dims[:-1], dims[-1] + 4])
    yield "no tensor", None
    yield "no tensor", "abc"


def wrong_calls(op, sample):
    """(what is wrong, arguments, attributes)"""
    for i, (param, value) in enumerate(
        zip(op.form.params_of(len(sample.args)), sample.args, strict=True)
    ):
        wrong = []
        if param.role == "tensor" and is_tensor(value):
            wrong = list(wrong_tensors(param, value))
        elif param.role == "host":
            wrong = [("shape argument", w) for w in HOSTS if w != value]
        for what, given in wrong:
            yield (
                f"{what} of {param.name}",
                replaced(sample.args, i, given),
                sample.attrs,
            )
    for key, default in op.form.attributes.items():
        for value in ATTRIBUTES:
            if value != sample.attrs.get(key, default):
                yield f"attribute {key}", sample.args, {**sample.attrs, key: value}


def replaced(args, i, value):
    return (*args[:i], value, *args[i + 1 :])


def on_values(op, args, attrs):
    """The op in a graph whose inputs are named after their places."""
    graph = Graph("amanda/std/1")
    given = []
    for i, a in enumerate(args):
        if is_tensor(a):
            a = plain(a)
        is_type = isinstance(a, TensorType)
        given.append(graph.parameter(a, f"x{i}") if is_type else a)
    before = len(graph)
    try:
        with tracing(graph):
            op(*given, **attrs)
    except AmandaError:
        assert len(graph) == before, "the graph is as it was"
        raise


def on_arrays(op, args, attrs):
    ready = [made_of(a) if isinstance(a, TensorType) else a for a in args]
    op(*ready, **attrs)


def made_of(type_):
    if type_.dtype.kind == "string":
        return np.full([int(d) for d in type_.shape], "a", object)
    return np.ones([int(d) for d in type_.shape], type_.dtype.numpy)


@pytest.mark.parametrize("name", TENSORS)
def test_what_is_wrong_is_told(name):
    op = OPS[name]
    for sample in chosen(op):
        for what, args, attrs in wrong_calls(op, sample):
            try:
                on_values(op, args, attrs)
            except Undecided:
                continue  # not wrong: not known
            except AmandaError as error:
                expect_told(op, error, what)


def expect_told(op, error, what):
    assert isinstance(error, UsageError | InvalidTypeError) or error.expected, what
    text = str(error)
    assert op.name in text, f"{what}: {text}"
    assert error.who or op.name in error.message, f"{what}: {text}"
    assert error.expected is not None or error.got is not None, f"{what}: {text}"


REFUSED = {
    "element type": lambda op: any(
        p.role == "tensor" and p.kind.kinds for p in op.form.params
    ),
}


@pytest.mark.parametrize(
    "name", [n for n in TENSORS if REFUSED["element type"](OPS[n])]
)
def test_an_element_type_that_is_not_taken_is_refused(name):
    """Of values and of arrays alike, with the argument's name."""
    op, refused = OPS[name], 0
    for sample in chosen(op):
        params = op.form.params_of(len(sample.args))
        for i, (p, a) in enumerate(zip(params, sample.args, strict=True)):
            if not (is_tensor(a) and p.role == "tensor" and p.kind.kinds):
                continue
            dtype = next(d for d in DTYPES if kind_of(d) not in p.kind.kinds)
            other = replaced(sample.args, i, TensorType(dtype, plain(a).shape))
            for call in (on_values, on_arrays):
                with pytest.raises(InvalidTypeError) as caught:
                    call(op, other, sample.attrs)
                expect_told(op, caught.value, f"{dtype} as {p.name}")
                assert p.name in str(caught.value)
            refused += 1
    assert refused


def kind_of(dtype):
    return TensorType(dtype).dtype.kind


@pytest.mark.parametrize("name", [n for n in TENSORS if not OPS[n].effect])
def test_arrays_are_told_as_values_are(name):
    """Nothing of numpy's or Python's own comes out of a call that is wrong."""
    op = OPS[name]
    for sample in list(chosen(op))[:1]:
        for what, args, attrs in wrong_calls(op, sample):
            if not what.startswith(("rank", "dims", "no tensor")):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # ones are singular matrices
                    on_arrays(op, args, attrs)
            except Undecided:
                continue
            except AmandaError as error:
                expect_told(op, error, what)


# -- texts -----------------------------------------------------------------------------


def text_of(call):
    with pytest.raises(AmandaError) as caught:
        call()
    return str(caught.value).splitlines()


def values(*types):
    graph = Graph("amanda/std/1")
    return [
        graph.parameter(parse_type(t), n) for t, n in zip(types, "xyz", strict=False)
    ]


def test_shapes_that_do_not_fit():
    x, y = values("float32[2, 3]", "float32[4, 5]")
    assert text_of(lambda: ops.matmul(x, y)) == [
        "columns and rows differ",
        "  who:      matmul(x: float32[2, 3], y: float32[4, 5])",
        "  expected: 3",
        "  got:      4",
    ]


def test_what_fails_inside_a_composite_is_told_with_the_composite():
    x, y = values("float32[2, 3]", "float32[4]")
    assert text_of(lambda: ops.squared_difference(x, y))[:2] == [
        "the shapes do not broadcast",
        "  who:      squared_difference(x: float32[2, 3], y: float32[4]), "
        "in subtract(float32[2, 3], float32[4])",
    ]


def test_element_types_that_differ_say_what_to_do():
    x, y = values("float32[2]", "int32[2]")
    assert text_of(lambda: ops.add(x, y)) == [
        "add takes tensors of one element type",
        "  who:      add(x: float32[2], y: int32[2])",
        "  where:    argument 'b'",
        "  expected: float32, as 'a' is",
        "  got:      int32",
        "  to do:    convert one of them first: ops.astype(x, dtype=...)",
    ]


def test_an_axis_that_is_not_there():
    (x,) = values("float32[2, 3]")
    lines = text_of(lambda: ops.sum(x, (2,)))
    assert lines[0] == "there is no such axis"
    assert lines[1:] == [
        "  who:      sum(x: float32[2, 3], [2])",
        "  expected: -2 to 1",
        "  got:      2",
    ]


def test_an_attribute_of_another_kind():
    (x,) = values("float32[2, 3]")
    lines = text_of(lambda: ops.softmax(x, axes="last"))
    assert lines[0] == "softmax has another kind of axes"
    assert lines[2:] == [
        "  where:    attribute 'axes'",
        "  expected: a list of int",
        "  got:      'last'",
        "  to do:    call it as softmax(x, *, axes=(-1,))",
    ]


def test_a_condition_that_is_none():
    (x,) = values("float32[2]")
    lines = text_of(lambda: ops.if_(x, ops.relu, ops.tanh, x))
    assert lines[0] == "if does not take float32"
    assert "argument 'condition'" in lines[2]


def test_arrays_that_do_not_fit():
    a, b = np.ones((2, 3), "float32"), np.ones((4, 5), "float32")
    assert text_of(lambda: ops.matmul(a, b))[:2] == [
        "columns and rows differ",
        "  who:      matmul(float32[2, 3], float32[4, 5])",
    ]


# -- gradients -------------------------------------------------------------------------


def loses_slopes(op):
    """Is there a sample of floats, of which the op makes floats?"""
    if not op.no_gradient or not is_of_tensors(op) or op.effect or op.body_rule:
        return False
    return next(float_samples(op), None) is not None


def float_samples(op):
    for sample in op.samples_rule():
        many = (
            sample.expected if isinstance(sample.expected, list) else [sample.expected]
        )
        if is_float(many[0]) and any(map(is_float, sample.args)):
            yield sample


def is_float(value):
    return is_tensor(value) and value.dtype == np.float64


# Gradients stop here, or go past: that is what these are for.
ASKED_TO_STOP = {"stop_gradient", "nan_to_num"}


@pytest.mark.parametrize(
    "name", sorted(n for n in set(TENSORS) - ASKED_TO_STOP if loses_slopes(OPS[n]))
)
def test_an_op_without_a_gradient_says_why(name):
    op = OPS[name]
    sample = next(float_samples(op))
    at = [i for i, a in enumerate(sample.args) if is_float(a)]

    def loss(*given):
        args = list(sample.args)
        for i, value in zip(at, given, strict=True):
            args[i] = value
        made = op(*args, **sample.attrs)
        return ops.sum(made[0] if op.form.many else made)

    graph = trace(loss, [plain(sample.args[i]) for i in at])
    with pytest.raises(UsageError) as caught:
        grad(graph, graph.results[0], graph.parameters)
    text = str(caught.value)
    assert name in text
    assert op.no_gradient in text
    assert "stop_gradient" in text
