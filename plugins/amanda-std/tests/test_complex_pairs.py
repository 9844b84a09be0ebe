"""The pass `complex_as_pairs`, against numpy's complex arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amanda
from amanda.graph import Graph
from amanda.types import TensorType, parse_type
from amanda_std import ops, trace
from amanda_std.backends import Trait
from amanda_std.ops import OPS
from amanda_std.passes import complex_as_pairs, infer

RNG = np.random.default_rng(7)


def numbers(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


Z, W, M = numbers(3, 4), numbers(3, 4), numbers(4, 4)
ON_AXES = np.array([2, -2, 0.5, -0.5, 1j, -2j, 0.25j, 3 + 0j])
"""Real and imaginary numbers; those beside branch cuts are above them."""
V = numbers(4)
REPEATED = np.stack([Z[0], Z[1], Z[0], Z[1].conj()])
REAL = RNG.normal(size=(3, 4))
INDEX = np.array([2, 0])
YES = REAL > 0


def elementwise(name, oracle=None):
    oracle = oracle or getattr(np, name)
    return {
        name: (lambda z: getattr(ops, name)(z), [Z], oracle(Z)),
        f"{name} on axes": (
            lambda z: getattr(ops, name)(z), [ON_AXES], oracle(ON_AXES),
        ),
    }  # fmt: skip


def windows_of(x, w):
    """A convolution of [1, c, n] and [o, c, k] by its definition."""
    count = x.shape[2] - w.shape[2] + 1
    parts = [np.einsum("ck,ock->o", x[0, :, i : i + w.shape[2]], w)
             for i in range(count)]  # fmt: skip
    return np.stack(parts, -1)[None]


X3, K3 = numbers(1, 2, 5), numbers(3, 2, 2)
B3 = numbers(3)
UPDATES = numbers(2, 4)


def scattered(reduction):
    y = Z.copy()
    y[INDEX] = UPDATES if reduction == "none" else y[INDEX] + UPDATES
    return y


CASES = {
    **elementwise("exp"), **elementwise("sqrt"), **elementwise("sin"),
    **elementwise("cos"), **elementwise("tan"), **elementwise("sinh"),
    **elementwise("cosh"), **elementwise("tanh"), **elementwise("expm1"),
    **elementwise("exp2"), **elementwise("conj"), **elementwise("negative"),
    **elementwise("log"), **elementwise("log2"), **elementwise("log10"),
    **elementwise("log1p"), **elementwise("reciprocal"),
    **elementwise("asin", np.arcsin), **elementwise("acos", np.arccos),
    **elementwise("asinh", np.arcsinh), **elementwise("acosh", np.arccosh),
    "atan": (ops.atan, [Z], np.arctan(Z)),
    "cbrt": (ops.cbrt, [Z], Z ** (1 / 3)),
    "unique": (lambda z: ops.unique(z)[0], [REPEATED], np.unique(REPEATED)),
    "places of unique": (
        lambda z: ops.unique(z)[2], [REPEATED],
        np.unique(REPEATED, return_inverse=True)[1].ravel(),
    ),
    "unique rows": (
        lambda z: ops.unique(z, axis=-2)[0], [REPEATED], np.unique(REPEATED, axis=0),
    ),
    "atanh": (ops.atanh, [Z], np.arctanh(Z)),
    "modulus": (ops.modulus, [Z], np.abs(Z)),
    "angle": (ops.angle, [Z], np.angle(Z)),
    "real": (ops.real, [Z], Z.real),
    "imag": (ops.imag, [Z], Z.imag),
    "complex": (lambda x: ops.complex(x, x * 2.0), [REAL], REAL * (1 + 2j)),
    "complex, broadcast": (
        lambda x, y: ops.complex(x, y), [REAL, REAL[0]], REAL + 1j * REAL[0],
    ),
    "pairs": (lambda z: ops.from_pairs(ops.as_pairs(z) * 2.0), [Z], Z * 2),
    "add": (ops.add, [Z, W], Z + W),
    "subtract": (ops.subtract, [Z, V], Z - V),
    "multiply": (ops.multiply, [Z, W], Z * W),
    "multiply by a constant": (lambda z: z * (2 - 1j), [Z], Z * (2 - 1j)),
    "multiply by real numbers": (
        lambda z, x: z * ops.astype(x, dtype="complex128"), [Z, REAL], Z * REAL,
    ),
    "divide": (ops.divide, [Z, W], Z / W),
    "divide large": (ops.divide, [Z * 1e200, W * 1e200], Z / W),
    "divide real numbers": (
        lambda z, x: ops.astype(x, dtype="complex128") / z, [Z, REAL], REAL / Z,
    ),
    "pow": (ops.pow, [Z, W], Z**W),
    "pow of zero": (
        ops.pow, [np.zeros(2, complex), np.array([0, 2 + 0j])], np.array([1, 0j]),
    ),
    "equal": (ops.equal, [Z, np.where(YES, Z, Z.conj())], YES),
    "not_equal": (ops.not_equal, [Z, np.where(YES, Z, Z.conj())], ~YES),
    "where": (ops.where, [YES, Z, W], np.where(YES, Z, W)),
    "to bool": (lambda z: ops.astype(z, dtype="bool"), [ON_AXES], ON_AXES != 0),
    "to real": (lambda z: ops.astype(z, dtype="float32"), [Z], Z.real),
    "to complex64": (
        lambda z: ops.astype(z, dtype="complex64"), [Z], Z.astype("complex64"),
    ),
    "nonzero": (
        ops.nonzero, [np.array([0, 1j, 2, 0])], np.array([[1, 2]]),
    ),
    "sum": (lambda z: ops.sum(z, (0,)), [Z], Z.sum(0)),
    "mean": (lambda z: ops.mean(z, (-1,), keepdims=True), [Z],
             Z.mean(-1, keepdims=True)),
    "prod": (lambda z: ops.prod(z, (1,)), [Z], Z.prod(1)),
    "prod with zero": (ops.prod, [np.array([1j, 0, 2])], np.array(0j)),
    "cumulative_sum": (lambda z: ops.cumulative_sum(z, 1), [Z], Z.cumsum(1)),
    "cumulative_prod": (lambda z: ops.cumulative_prod(z, 1), [Z], Z.cumprod(1)),
    "matmul": (ops.matmul, [Z, M], Z @ M),
    "matmul with a real matrix": (
        lambda z, x: ops.matmul(z, ops.astype(ops.transpose(x), dtype="complex128")),
        [Z, REAL], Z @ REAL.T,
    ),
    "einsum": (lambda z, w: ops.einsum(z, w, equation="ij,kj->ik"), [Z, W], Z @ W.T),
    "einsum of three": (
        lambda z, w, v: ops.einsum(z, w, v, equation="ij,ij,j->i"), [Z, W, V],
        np.einsum("ij,ij,j->i", Z, W, V),
    ),
    "det": (ops.det, [M], np.linalg.det(M)),
    "solve": (ops.solve, [M, Z.T], np.linalg.solve(M, Z.T)),
    "inverse": (ops.inverse, [M], np.linalg.inv(M)),
    "conv": (ops.conv, [X3, K3], windows_of(X3, K3)),
    "conv with bias": (
        ops.conv, [X3, K3, B3], windows_of(X3, K3) + B3[:, None],
    ),
    "trace": (ops.trace, [M], np.trace(M)),
    "reshape": (lambda z: ops.reshape(z, (2, -1)), [Z], Z.reshape(2, 6)),
    "transpose": (ops.transpose, [Z], Z.T),
    "expand_dims": (lambda z: ops.expand_dims(z, (-1,)), [Z], Z[..., None]),
    "squeeze": (lambda z: ops.squeeze(z, (-1,)), [Z[..., None]], Z),
    "concat": (lambda z, w: ops.concat(z, w, axis=-1), [Z, W],
               np.concatenate([Z, W], -1)),
    "stack": (lambda z, w: ops.stack(z, w, axis=-1), [Z, W], np.stack([Z, W], -1)),
    "split": (lambda z: ops.split(z, (1, 3), axis=-1)[1], [Z], Z[:, 1:]),
    "slice": (lambda z: z[:, -1:0:-2], [Z], Z[:, -1:0:-2]),
    "gather": (lambda z: ops.gather(z, INDEX), [Z], Z[INDEX]),
    "scatter_nd": (
        lambda z, u: ops.scatter_nd(z, INDEX[:, None], u), [Z, UPDATES],
        scattered("none"),
    ),
    "scatter_nd, add": (
        lambda z, u: ops.scatter_nd(z, INDEX[:, None], u, reduction="add"),
        [Z, UPDATES], scattered("add"),
    ),
    "pad": (lambda z: ops.pad(z, [(1, 0), (0, 2)]), [Z], np.pad(Z, [(1, 0), (0, 2)])),
    "pad with a value": (
        lambda z: ops.pad(z, [(1, 0), (0, 2)], 1 + 2j), [Z],
        np.pad(Z, [(1, 0), (0, 2)], constant_values=1 + 2j),
    ),
    "broadcast_to": (lambda z: ops.broadcast_to(z, (3, 4)), [V],
                     np.broadcast_to(V, (3, 4))),
    "tile": (lambda z: ops.tile(z, (2, 1)), [Z], np.tile(Z, (2, 1))),
    "flip": (lambda z: ops.flip(z, (-1,)), [Z], Z[:, ::-1]),
    "diagonal": (ops.diagonal, [M], np.diagonal(M)),
    "tril": (ops.tril, [M], np.tril(M)),
    "triu": (ops.triu, [M], np.triu(M)),
    "full": (lambda v: ops.full((2, 3), v), [np.array(2j)], np.full((2, 3), 2j)),
    "eye": (lambda z: z + ops.eye(4, dtype="complex128"), [M], M + np.eye(4)),
    "size": (lambda z: ops.shape_of(z), [Z], np.array([3, 4])),
    "a constant": (lambda z: ops.matmul(z, M), [Z], Z @ M),
    "if": (
        lambda c, z: ops.if_(c, lambda: (z * 2,), lambda: (ops.conj(z),))[0],
        [np.array(False), Z], Z.conj(),
    ),
    "while": (
        lambda z: ops.while_(
            lambda i, y: ops.less(i, 3), lambda i, y: (i + 1, y * z), np.int64(0), z
        )[1],
        [Z], Z**4,
    ),
    "scan of the last axis": (
        lambda z: ops.scan(
            lambda c, x: (c + x, c * x), None, ops.sum(z * 0.0, (1,)), z,
            carried=1, axes=(-1,), out_axes=(-1,),
        )[1],
        [Z], np.stack([Z[:, :i].sum(1) * Z[:, i] for i in range(4)], -1),
    ),
    "concatenated sequence": (
        lambda z, w: ops.concat_from_sequence(ops.sequence_construct(z, w), axis=-1),
        [Z, W], np.concatenate([Z, W], -1),
    ),
    "stacked sequence": (
        lambda z, w: ops.concat_from_sequence(
            ops.sequence_construct(z, w), axis=-1, new_axis=True
        ),
        [Z, W], np.stack([Z, W], -1),
    ),
    "parts of a sequence": (
        lambda z: ops.sequence_at(
            ops.split_to_sequence(z, axis=-1, keepdims=False), np.int64(1)
        ),
        [Z], Z[:, 1],
    ),
    "sequence": (
        lambda z, w: ops.sequence_at(ops.sequence_construct(z, w), np.int64(-1)) * 2.0,
        [Z, W], W * 2,
    ),
}  # fmt: skip


def _transforms():
    for norm in ("backward", "ortho", "forward"):
        for name in ("fft", "ifft"):
            for sizes, axes in ((None, (-1,)), (None, (0, 1)), ((5, 2), (1, 0))):
                oracle = getattr(np.fft, f"{name}n")
                yield f"{name} {norm} {sizes} {axes}", (
                    lambda z, s=sizes, a=axes, n=norm, f=name: getattr(ops, f)(
                        z, s, a, norm=n
                    ),
                    [Z], oracle(Z, sizes, axes, norm),
                )  # fmt: skip
        for sizes, axes in ((None, (-1,)), (None, (1, 0)), ((5, 7), (0, 1))):
            settings_ = {"sizes": sizes, "axes": axes, "norm": norm}
            yield f"rfft {norm} {sizes} {axes}", (
                lambda x, k=settings_: ops.rfft(x, **k), [REAL],
                np.fft.rfftn(REAL, sizes, axes, norm),
            )  # fmt: skip
            yield f"irfft {norm} {sizes} {axes}", (
                lambda z, k=settings_: ops.irfft(z, **k), [Z],
                np.fft.irfftn(Z, sizes, axes, norm),
            )  # fmt: skip


CASES |= dict(_transforms())


def typed(function, arrays, dynamic=False):
    types = []
    for i, a in enumerate(arrays):
        dims = [f"d{i}{j}" for j in range(a.ndim)] if dynamic else a.shape
        types.append(parse_type(f"{a.dtype}[{', '.join(map(str, dims))}]"))
    return trace(function, types)


def lowered(graph, **options):
    copy = graph.clone()
    infer(copy)
    complex_as_pairs(copy, **options)
    infer(copy)
    return copy


def values_of(graph):
    for part in graph.graphs():
        yield from part.parameters
        yield from (port for op in part for port in op.outputs)


def run_pairs(graph, arrays):
    """The results of a graph with pairs in the place of complex numbers."""
    feeds = [as_pairs(a) if a.dtype.kind == "c" else a for a in arrays]
    return list(amanda.run(graph, feeds, backend="numpy").values())


def as_pairs(a):
    return np.stack([a.real, a.imag], -1)


def is_complex(port):
    return isinstance(port.type, TensorType) and port.type.dtype.kind == "complex"


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_complex_arithmetic(name):
    function, arrays, expected = CASES[name]
    graph = lowered(typed(function, arrays))
    assert not any(map(is_complex, values_of(graph)))
    found = run_pairs(graph, arrays)[0]
    wanted = as_pairs(expected) if expected.dtype.kind == "c" else expected
    assert found.shape == wanted.shape
    if expected.dtype == "complex64" or found.dtype == "float32":
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


SYMBOLIC = [
    "multiply", "pow", "matmul", "concat", "fft backward None (0, 1)",
    "rfft ortho None (1, 0)", "irfft forward (5, 7) (0, 1)", "ifft ortho (5, 2) (1, 0)",
]  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_dims_stay_symbolic(name):
    function, arrays, expected = CASES[name]
    if name == "matmul":
        arrays = [Z.T, Z]
        expected = Z.T @ Z
    graph = lowered(typed(function, arrays, dynamic=True))
    assert not any(map(is_complex, values_of(graph)))
    found = run_pairs(graph, arrays)[0]
    wanted = as_pairs(expected) if expected.dtype.kind == "c" else expected
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


# -- declarations --------------------------------------------------------------------

EXEMPT = {
    "assign": "variables", "assign_add": "variables", "assign_subtract": "variables",
    "map_make": "maps hold numbers", "map_rows": "maps hold numbers",
    "print": "shows values", "probe": "shows values",
    "string_format": "numbers as text",
}  # fmt: skip


def test_every_primitive_of_complex_numbers_declares_what_it_does_with_parts():
    missing = []
    for name, op in OPS.items():
        kinds = [p.kind for p in op.form.params if p.role == "tensor"]
        takes = any("complex" in k.kinds or (k.shared and not k.kinds) for k in kinds)
        known = op.complex_rule or op.definition or op.body_rule or op.unrolled
        traits = {Trait.PARTWISE, Trait.SHAPE_QUERY, Trait.CONTAINER} & op.traits
        if takes and not known and not traits:
            missing.append(name)
    assert sorted(missing) == sorted(EXEMPT), set(missing) ^ set(EXEMPT)


# -- programs ------------------------------------------------------------------------

UNARY = (ops.exp, ops.sin, ops.tanh, ops.conj, ops.sqrt, ops.negative, ops.transpose)
BINARY = (ops.add, ops.subtract, ops.multiply, ops.matmul)


@st.composite
def programs(draw):
    """Steps: an op, and the indices of earlier values that it reads."""
    steps = []
    for i in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 2))
        op = draw(st.sampled_from(UNARY if count == 1 else BINARY))
        places = [draw(st.integers(0, 2 + i)) for _ in range(count)]
        steps.append((op, places))
    return steps


@given(programs())
@settings(max_examples=40, deadline=None)
def test_random_programs(steps):
    inputs = [M * 0.1, M.T * 0.2, np.eye(4) + 0j]

    def program(*values):
        values = list(values)
        for op, places in steps:
            values.append(op(*(values[i] for i in places)))
        return tuple(values[3:])

    graph = typed(program, inputs)
    wanted = list(amanda.run(graph, inputs, backend="numpy").values())
    found = run_pairs(lowered(graph), inputs)
    for a, b in zip(found, wanted, strict=True):
        scale = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / scale, as_pairs(b) / scale, atol=1e-11)


# -- graphs --------------------------------------------------------------------------


def test_inputs_and_results_keep_their_names():
    @amanda.function
    def product(z):
        return {"y": ops.multiply(z, z, name="square")}

    graph = lowered(product.graph("complex64[n, 3]"))
    types = [(p.name, str(p.type)) for p in (*graph.parameters, *graph.outputs)]
    assert types == [("z", "float32[n, 3, 2]"), ("y", "float32[n, 3, 2]")]
    assert graph.results[0].op.name == "square"
    assert graph.results[0].op.provenance.by == "complex_as_pairs"
    assert graph.check() == []


def test_a_graph_of_real_numbers_is_left_alone():
    graph = typed(lambda x: ops.exp(x), [REAL])
    ops_before = list(graph)
    assert complex_as_pairs(graph) == 0
    assert list(graph) == ops_before


def test_pairs_that_are_viewed_as_complex_and_back_cost_nothing():
    graph = lowered(typed(lambda x: ops.as_pairs(ops.from_pairs(x)), [as_pairs(Z)]))
    assert list(graph) == []


def test_products_with_real_numbers_have_two_products():
    graph = lowered(
        typed(lambda z, x: z * ops.astype(x, dtype="complex128"), [Z, REAL])
    )
    assert sum(op.type == "multiply" for op in graph) == 2


def test_large_constants_are_loaded_on_demand():
    loads = []

    def load():
        loads.append(1)
        return np.ones((100, 100), complex)

    graph = typed(lambda z: ops.matmul(z, M), [numbers(2, 4)])
    weight = next(op for op in graph if op.is_constant)
    tensor = amanda.Tensor.lazy(load, "complex128", (100, 100))
    with graph.before(weight):
        large = graph.constant(tensor, "w")
    graph.result(large.output)
    made = lowered(graph)
    assert not loads
    assert made["w"].output.type == parse_type("float64[100, 100, 2]")
    assert loads == []


def test_an_op_without_a_rule_reads_complex_numbers():
    graph = lowered(typed(lambda z: ops.probe(z * 2.0, label="seen") * 3.0, [V]))
    kinds = {op.type: op for op in graph if not op.is_constant}
    assert is_complex(kinds["probe"].inputs[0])
    assert kinds["probe"].inputs[0].op.type == "complex"
    np.testing.assert_allclose(run_pairs(graph, [V])[0], as_pairs(V * 6), rtol=1e-12)


def test_ops_of_a_pattern_stay_where_no_other_op_has_their_values():
    kept = ("stft", "as_pairs")

    def program(x, z):
        pairs = ops.as_pairs(ops.stft(x, 4, 2))
        return pairs, ops.modulus(ops.stft(x, 4, 4)), ops.as_pairs(z)

    graph = typed(program, [numbers(1, 8).real, Z])
    made = lowered(graph, keeps=lambda op: op.type in kept)
    assert [op.type for op in made if op.type in kept] == ["stft", "as_pairs"]
    assert sum(map(is_complex, values_of(made))) == 1


def test_values_of_outer_graphs_in_both_branches():
    def program(c, z):
        y = ops.if_(c, lambda: (ops.exp(z) * z,), lambda: (z * ops.conj(z),))[0]
        return y + z

    graph = typed(program, [np.array(True), Z])
    made = lowered(graph)
    assert made.check() == []
    for flag, wanted in ((True, np.exp(Z) * Z + Z), (False, Z * Z.conj() + Z)):
        found = run_pairs(made, [np.array(flag), Z])[0]
        np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-12)


def test_nested_graphs_have_pairs():
    inner = typed(lambda z: ops.multiply(z, z), [Z])
    graph = Graph("amanda/std/1")
    z = graph.parameter(parse_type("complex128[3, 4]"), "z")
    block = graph.paste(inner, [z])
    graph.result(block[0], "y")
    graph.outline([block[0].op], name="square")
    made = lowered(graph)
    assert any(isinstance(op, Graph) for op in made)
    np.testing.assert_allclose(run_pairs(made, [Z])[0], as_pairs(Z * Z), rtol=1e-12)
