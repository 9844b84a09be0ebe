"""Every op by its samples: kernel, inference, graph, lowering, gradient."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.types import Sym, TensorType, accepts
from amanda_std import Operation, grad, lower, ops, trace
from amanda_std.engine import annotations as kinds
from amanda_std.engine.arrays import array_type
from amanda_std.engine.samples import difference
from amanda_std.engine.values import Value, lift, require_tracing
from amanda_std.hub.expansion import is_not_composite
from amanda_std.hub.op_table import missing_declarations
from amanda_std.ops import OPS as EVERY
from amanda_std.passes import drop, fold, infer, share

LARGEST = 64  # symbols stand for dims up to this

_STRAIGHT_THROUGH = "is meant to be another than the slope: test_quantization.py"
_CONSTANT = "it is a constant: there is no argument to nudge"
UNCHECKED = {
    "fake_quantize": _STRAIGHT_THROUGH,
    "fake_quantize_range": _STRAIGHT_THROUGH,
    "zeros": _CONSTANT,
    "zeros_like": _CONSTANT,
    "ones_like": _CONSTANT,
    "number_like": _CONSTANT,
    "allocate": _CONSTANT,
    "schema_note": "its arguments depend on each other: test_stable.py",
}
"""Ops with gradients that finite differences do not check, and why."""

_NO_FORMULA = "it has no known formula"
_INTEGERS = "it holds integers"
UNCHECKED_ARGUMENTS = {
    ("betainc", "a"): _NO_FORMULA,
    ("betainc", "b"): _NO_FORMULA,
    ("gammainc", "a"): _NO_FORMULA,
    ("gammaincc", "a"): _NO_FORMULA,
    ("zeta", "x"): _NO_FORMULA,
    ("polygamma", "n"): _INTEGERS,
    ("one_hot", "indices"): _INTEGERS,
    ("dequantize", "x"): _INTEGERS,
    ("dequantize", "zero_point"): _INTEGERS,
    ("quantized_linear", "w"): _INTEGERS,
    ("quantized_linear", "scales"): "they are rounded to float32",
    ("quantized_linear", "zeros"): _INTEGERS,
    ("roi_pool", "rois"): "its bins have whole numbers as ends",
}
"""Arguments that may be floats of ops that are checked, but not by these."""


def is_of_tensors(op):
    """Tensors of numbers in and out; test_values.py has the others."""
    if op.body_rule is not None:  # what bodies get may be anything: samples tell
        values = [v for s in op.samples_rule() for v in (*s.args, *s.expected)]
        return not any(isinstance(v, list | dict) for v in values)
    kinds = [*(p.kind for p in op.form.params), *op.form.results]
    return all(k.role != "value" and k.kinds != ("string",) for k in kinds)


OPS = {name: op for name, op in EVERY.items() if is_of_tensors(op)}


def wanted(sample):
    return sample.expected if isinstance(sample.expected, list) else [sample.expected]


def is_tensor(value):
    return hasattr(value, "shape")


def expect(got, want, tolerance):
    assert difference(list(got), list(want), tolerance) is None


def test_definitions_are_complete():
    assert missing_declarations() == {}


def test_missing_declarations_are_reported():
    """An op of which nothing is said lacks everything."""

    def bare(x: kinds.Array) -> kinds.Array:
        return x

    def samples():
        yield from ()

    op = Operation(bare, composite=False)
    lacking = ["a doc line", "samples", "inference"]
    why = "a gradient, or the reason why there is none"
    assert missing_declarations([op]) == {"bare": [*lacking, why]}
    op.samples(samples)
    op.not_differentiable("it is bare")
    assert missing_declarations([op]) == {"bare": lacking}


WHY_NEVER_EMPTY = {
    "random_key": "a key has words",
    "random_fold_in": "a key has words",
    "dynamic_quantized_lstm": "a range to quantize by needs an element",
}


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if not op.body_rule])
def test_sample_coverage(name):
    """Several element types, where several are taken, and an operand that is empty."""
    op, samples = OPS[name], list(OPS[name].samples_rule())
    tensors = [p for p in op.form.params if p.role == "tensor"]
    arrays = [a for s in samples for a in s.args if is_tensor(a)]
    results = [a for s in samples for a in wanted(s)]
    if any(p.kind.kinds not in (("bool",), ("uint",)) for p in tensors):
        assert len({a.dtype for a in arrays}) > 1, "one element type only"
    if name not in WHY_NEVER_EMPTY:
        assert any(0 in a.shape for a in [*arrays, *results]), "nothing empty"


@pytest.mark.parametrize("name", OPS)
def test_kernel(name):
    op = OPS[name]
    for sample in op.samples_rule():
        got = op.run(*op.bind(sample.args, sample.attrs))
        expect(got if op.form.many else [got], wanted(sample), sample.tolerance)


# -- inference -----------------------------------------------------------------


def static(array):
    return array_type(array)


def without_content(array):
    return TensorType(array_type(array).dtype, array.shape)


def symbolic(array):
    """Equal dims are one symbol; 0 and 1 stay, as broadcasting asks for them."""
    dims = [Sym.named(f"s{d}") if d > 1 else d for d in np.shape(array)]
    return TensorType(array_type(array).dtype, dims)


def without_rank(array):
    return TensorType(array_type(array).dtype)


TYPINGS = [static, without_content, symbolic, without_rank]


def substituted(dim):
    values = {f"s{n}": n for n in range(2, LARGEST)}
    return dim.substitute(values) if isinstance(dim, Sym) else dim


def is_open(dim):
    return isinstance(substituted(dim), Sym)


@pytest.mark.parametrize("typing", TYPINGS)
@pytest.mark.parametrize("name", OPS)
def test_inferred_types_fit(name, typing):
    op = OPS[name]
    for sample in op.samples_rule():
        empty = any(0 in a.shape for a in sample.args if is_tensor(a))
        if typing is symbolic and empty:
            continue  # a dim of 0 beside a symbol of another size
        args = [typing(np.asarray(a)) if is_tensor(a) else a for a in sample.args]
        bound, attrs = op.bind(args, sample.attrs)
        found = op.types(op.normal(bound), attrs)
        assert len(found) == len(wanted(sample))
        for type_, array in zip(found, wanted(sample), strict=True):
            expect_type(type_, array_type(array))


def expect_type(inferred, real):
    assert inferred.dtype is real.dtype
    if not inferred.shape.has_rank:
        return
    assert inferred.shape.rank == real.shape.rank
    for dim, size in zip(inferred.shape, real.shape, strict=True):
        assert is_open(dim) or substituted(dim) == size
    if inferred.elements is not None:
        for told, number in zip(inferred.elements, real.elements, strict=True):
            assert is_open(told) or substituted(told) == number


DATA_DECIDES = {
    "nonzero", "range", "loop", "nms", "unique", "compress", "grouped_attention",
}  # fmt: skip
UNDECIDED = {"squeeze", "gather_nd"}  # what to do depends on whether a symbol is 1


@pytest.mark.parametrize("name", sorted(set(OPS) - DATA_DECIDES - UNDECIDED))
def test_symbolic_shapes_stay_exact(name):
    """Nothing is lost: known dims in, known dims out."""
    op = OPS[name]
    for sample in op.samples_rule():
        if any(0 in a.shape for a in sample.args if is_tensor(a)):
            continue
        args = [symbolic(np.asarray(a)) if is_tensor(a) else a for a in sample.args]
        bound, attrs = op.bind(args, sample.attrs)
        for type_ in op.types(op.normal(bound), attrs):
            assert not any(map(is_open, type_.shape)), f"{args} -> {type_}"


# -- graphs --------------------------------------------------------------------


def traced(op, sample, typing):
    at = [i for i, a in enumerate(sample.args) if is_tensor(a)]

    def call(*values):
        args = list(sample.args)
        for i, value in zip(at, values, strict=True):
            args[i] = value
        return op(*args, **sample.attrs)

    arrays = [np.asarray(sample.args[i]) for i in at]
    return trace(call, [typing(a) for a in arrays]), arrays


def whole(graph: Graph) -> None: ...


def lowered(graph: Graph) -> None:
    lower(graph, is_not_composite)
    infer(graph)


def passed(graph: Graph) -> None:
    lower(graph, is_not_composite)
    for run_pass in (infer, fold, share, drop, infer):
        run_pass(graph)


@pytest.mark.parametrize("change", [whole, lowered, passed])
@pytest.mark.parametrize("typing", [static, without_content, symbolic, without_rank])
@pytest.mark.parametrize("name", OPS)
def test_graph(name, typing, change, run):
    op = OPS[name]
    for sample in op.samples_rule():
        empty = any(0 in a.shape for a in sample.args if is_tensor(a))
        if typing is symbolic and empty:
            continue  # a dim of 0 beside a symbol of another size
        graph, arrays = traced(op, sample, typing)
        change(graph)
        got = run(graph, *arrays)
        expect(got, wanted(sample), sample.tolerance)
        for value, result in zip(got, graph.results, strict=True):
            if typing is not symbolic:
                plain = TensorType(result.type.dtype, result.type.shape)
                assert accepts(plain, array_type(value)) is True


@pytest.mark.parametrize("typing", [static, symbolic])
@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.is_composite])
def test_composites_decompose(name, typing):
    op = OPS[name]
    for sample in op.samples_rule():
        if typing is symbolic and any(
            0 in a.shape for a in sample.args if is_tensor(a)
        ):
            continue
        graph, _ = traced(op, sample, typing)
        left = lower(graph, is_not_composite)
        if name != "sum_to":  # whether an axis was broadcast is told at run time
            assert [str(op) for op in left] == []


def has_no_decomposition(op):
    """A `takes` of targets that lack every primitive with a decomposition."""
    own = EVERY.get(op.type)
    return own is None or own.is_composite or own.definition is None


@pytest.mark.parametrize("typing", [static, symbolic])
@pytest.mark.parametrize(
    "name", [n for n, op in OPS.items() if op.definition and not op.is_composite]
)
def test_decompositions(name, typing, run):
    """Samples of a primitive, computed by the ops that it is decomposed to."""
    op = OPS[name]
    for sample in op.samples_rule():
        empty = any(0 in a.shape for a in sample.args if is_tensor(a))
        if typing is symbolic and empty:
            continue
        graph, arrays = traced(op, sample, typing)
        assert [str(op) for op in lower(graph, has_no_decomposition)] == []
        expect(run(graph, *arrays), wanted(sample), sample.tolerance)


# -- gradients -----------------------------------------------------------------


def is_real(value):
    return is_tensor(value) and value.dtype in (np.float64, complex) and value.size


def smooth_samples(op):
    for sample in op.samples_rule():
        places = [i for i in range(len(sample.args)) if i not in sample.fixed]
        reals = [i for i in places if is_real(sample.args[i])]
        if sample.smooth and reals and any(map(is_real, wanted(sample))):
            yield sample, reals


DIFFERENTIABLE = sorted(
    name for name, op in OPS.items() if not op.no_gradient and name not in UNCHECKED
)
NEEDS_STATIC = {
    "qr": "it differs for tall and wide matrices",
}
"""Ops whose gradient needs static shapes, and why."""

STATIC_KERNELS = {"conv", "conv_transpose", "deform_conv"}
"""Ops of which only the data may have symbolic shapes, not the kernel."""


def has_shape_args(op):
    return any(p.role == "host" for p in op.form.params)


CONTROL = {"call", "case", "custom_gradient", "if", "loop", "scan"}


def test_every_op_declares_a_gradient():
    """Every op with a gradient is checked below, or told with the reason."""
    have = {name for name, op in EVERY.items() if not op.no_gradient}
    assert have - set(DIFFERENTIABLE) == set(UNCHECKED)
    assert set(DIFFERENTIABLE) >= CONTROL
    assert len(DIFFERENTIABLE) >= 280


def test_gradient_checks_cover_every_argument():
    unchecked = {(n, p) for n in DIFFERENTIABLE for p in never_nudged(OPS[n])}
    assert unchecked == set(UNCHECKED_ARGUMENTS)


def never_nudged(op):
    """Tensors of floats, maybe, that no sample takes differences by."""
    nudged = set()
    for sample, reals in smooth_samples(op):
        params = op.form.params_of(len(sample.args))
        nudged |= {params[i].name for i in reals}
    for p in op.form.params:
        may_be = not p.kind.kinds or {"float", "complex"} & set(p.kind.kinds)
        if p.role == "tensor" and may_be and p.name not in nudged:
            yield p.name


def weighted_loss(op, sample, reals, argument=lambda param, value: value):
    """A scalar function of the real arguments of a sample, and these arrays."""
    weights = [weights_for(w) if is_real(w) else None for w in wanted(sample)]
    params = op.form.params_of(len(sample.args))

    def loss(*values):
        rest = iter(values)
        args = list(map(argument, params, sample.args))
        for i in reals:
            args[i] = next(rest)
            if is_complex(sample.args[i]):
                args[i] = ops.complex(args[i], next(rest))
        made = op(*args, **sample.attrs)
        pairs = zip(made if op.form.many else [made], weights, strict=True)
        terms = [weighed(v, w) for v, w in pairs if w is not None]
        return sum(terms[1:], start=terms[0])

    return loss, [p for i in reals for p in parts(np.asarray(sample.args[i]))]


def run_gradients(run, loss, arrays, typing=static):
    """The loss and its gradients by all arguments."""
    typings = typing if isinstance(typing, list) else [typing] * len(arrays)
    graph = trace(loss, [t(a) for t, a in zip(typings, arrays, strict=True)])
    for value in grad(graph, graph.results[0], graph.parameters):
        graph.result(value)
    return run(graph, *arrays)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient_agrees_with_finite_differences(name, run):
    op, checked = OPS[name], 0
    for sample, reals in smooth_samples(op):
        loss, arrays = weighted_loss(op, sample, reals)
        total, *got = run_gradients(run, loss, arrays)
        noise = 1e-8 + 1e-10 * abs(float(total))  # of differences of the total
        for i, slope in enumerate(got):
            expected = differences(loss, arrays, i)
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=noise)
        checked += 1
    assert checked


def constant_if_shape(param, value):
    """Shape arguments as constants of the graph, which files have."""
    if param.role != "host" or not isinstance(value, tuple | int):
        return value
    return ops.identity(Value(lift(np.asarray(value, "int64"), require_tracing())))


def expect_equal_gradients(run, loss, other, arrays, typing):
    expected = run_gradients(run, loss, arrays)
    got = run_gradients(run, other, arrays, typing)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if has_shape_args(OPS[n])])
def test_gradient_with_constant_shape_arguments(name, run):
    for sample, reals in smooth_samples(OPS[name]):
        loss, arrays = weighted_loss(OPS[name], sample, reals)
        other, _ = weighted_loss(OPS[name], sample, reals, constant_if_shape)
        for typing in (static, symbolic) if name not in NEEDS_STATIC else (static,):
            expect_equal_gradients(run, loss, other, arrays, typing)


@pytest.mark.parametrize("name", sorted(set(DIFFERENTIABLE) - set(NEEDS_STATIC)))
def test_gradient_with_symbolic_shapes(name, run):
    for sample, reals in smooth_samples(OPS[name]):
        loss, arrays = weighted_loss(OPS[name], sample, reals)
        typing = symbolic
        if name in STATIC_KERNELS:
            typing = [symbolic, *[static] * (len(arrays) - 1)]
        expect_equal_gradients(run, loss, loss, arrays, typing)


@pytest.mark.parametrize("name", NEEDS_STATIC)
def test_gradients_that_need_static_shapes_name_the_reason(name, run):
    with pytest.raises(UsageError, match="has no gradient"):
        for sample, reals in smooth_samples(OPS[name]):
            loss, arrays = weighted_loss(OPS[name], sample, reals)
            run_gradients(run, loss, arrays, symbolic)


def is_complex(value):
    return value.dtype.kind == "c"


def parts(array):
    """An array as real ones: gradients are by real numbers."""
    return [array.real.copy(), array.imag.copy()] if is_complex(array) else [array]


def weighed(value, weights):
    """The sum of what is finite: weights are 0 elsewhere."""
    if not is_complex(weights):
        if not weights.all():
            value = ops.where(weights != 0, value, np.float64(0))
        return ops.sum(ops.multiply(value, weights))
    return weighed(ops.real(value), weights.real) + weighed(
        ops.imag(value), weights.imag
    )


def weights_for(array):
    random = np.random.default_rng(7)
    weights = random.uniform(0.5, 1.5, array.shape)
    if not is_complex(array):
        return np.where(np.isfinite(array), weights, 0.0)
    return weights + 1j * random.uniform(0.5, 1.5, array.shape)


def differences(function, arrays, i, step=1e-5):
    """Central differences, the error of their third derivatives taken out."""
    slope = np.zeros_like(arrays[i])
    for at in np.ndindex(slope.shape):
        near, far = (
            (moved(function, arrays, i, at, s) - moved(function, arrays, i, at, -s))
            / (2 * s)
            for s in (step, 2 * step)
        )
        slope[at] = (4 * near - far) / 3
    return slope


def moved(function, arrays, i, at, by):
    nudged = [a.copy() for a in arrays]
    nudged[i][at] += by
    return float(np.asarray(function(*nudged)))
