"""Every op of the hub set as primitives of JAX, and as StableHLO, held to its samples.

`python test_lowered.py` prints the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax._src.lax import lax as lax_internal
from jax.ad_checkpoint import checkpoint_name
from jax.extend.random import threefry_2x32
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import amanda
from amanda.errors import AmandaError, ConversionError, UsageError
from amanda.graph import Graph
from amanda.types import DType, TensorType, parse_type
from amanda_jax.backend import JaxBackend
from amanda_jax.formats.jaxprs.mapping import MAPPING
from amanda_jax.formats.jaxprs.sizes import add_size_inputs
from amanda_std import Operation, ops, trace
from amanda_std.backends import Sample, is_std
from amanda_std.ops import OPS

LOOSE = {2: 3e-2, 4: 2e-5, 8: 1e-6, 16: 1e-6, 1: 0.2}


def samples_of(operation: Operation) -> Iterator[Sample]:
    """Its samples about tensors of numbers, which the backend `jax` takes."""
    rule = operation.samples_rule
    for sample in () if rule is None else rule():
        many = isinstance(sample.expected, list | tuple) and operation.form.many
        wanted = list(sample.expected) if many else [sample.expected]
        params = operation.form.params_of(len(sample.args))
        rows = zip(params, sample.args, strict=True)
        given = [a for p, a in rows if a is not None and p.role in ("tensor", "value")]
        if all(map(is_of_numbers, (*given, *wanted))):
            yield sample


def is_of_numbers(value: object) -> bool:
    if isinstance(value, bool | int | float | complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcV"


def graph_of(operation: Operation, sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    params = operation.form.params_of(len(sample.args))
    is_fed = [
        p.role == "tensor" and a is not None
        for p, a in zip(params, sample.args, strict=True)
    ]
    rows = [*zip(sample.args, is_fed, strict=True)]
    fed = [np.asarray(a) for a, yes in rows if yes]

    def function(*values):
        rest = iter(values)
        return operation(*(next(rest) if f else a for a, f in rows), **sample.attrs)

    return trace(function, [TensorType(DType.of(a), a.shape) for a in fed]), fed


def expect(graph: Graph, fed, sample: Sample, backend: str) -> None:
    made = amanda.run(graph, fed, backend=backend).values()
    many = isinstance(sample.expected, list | tuple)
    wanted = list(sample.expected) if many else [sample.expected]
    for got, want in zip(made, map(np.asarray, wanted), strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        part = want.dtype.itemsize // (2 if want.dtype.kind == "c" else 1)
        loose = max(
            sample.tolerance or 0, LOOSE[part] if want.dtype.kind in "fcV" else 0
        )
        wide = [x.astype("complex128") for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=loose, atol=loose)


def is_taken(graph: Graph) -> bool:
    takes = JaxBackend().takes
    return all(takes(op) is True for op in graph.walk() if is_std(op))


def outcome(operation: Operation, sample: Sample, to: str) -> str:
    graph, fed = graph_of(operation, sample)
    if not is_taken(graph):
        return "not taken"
    try:
        made = amanda.convert(graph, to)
    except UsageError:
        return "no program"
    if to == "stablehlo":
        expect(made, fed, sample, "stablehlo")
        return "right"
    gaps = {gap.op for gap in amanda.plan(made, "std").gaps}
    if gaps:
        assert gaps <= set(NO_WAY_BACK), f"{gaps - set(NO_WAY_BACK)} can be mapped"
        return "no way back"
    expect(amanda.convert(made, "std"), fed, sample, "numpy")
    return "right"


_HYPHEN = "names in rules have no hyphen; the windows could be read as those of scatter"
NO_WAY_BACK = {
    "custom_linear_solve": "a call of functions that are given as parameters",
    "lu": "it returns the pivots, which the hub does not compute",
    "scatter-add": _HYPHEN,
    "scatter-max": _HYPHEN,
    "scatter-min": _HYPHEN,
    "scatter-mul": _HYPHEN,
}
"""Primitives that are not mapped back to the hub, at least in some forms, and why."""

REFUSED = ("nonzero", "unique", "compress", "nms", "soft_nms", "print", "probe",
           "assert", "host_callback", "next_random_key", "range", "loop",
           "ctc_loss", "ctc_beam_search", "grouped_attention", "optional")  # fmt: skip
"""Ops that are no program, at least in a sample: data decides their sizes, or how many
rounds are stacked, they do more than compute, their result is no array, or JAX has
neither a kernel nor a definition (the beam of `ctc_beam_search` is kept in Python)."""


@pytest.mark.parametrize("to", ["jax", "stablehlo"])
@pytest.mark.parametrize("name", OPS)
def test_a_sample(name, to):
    for sample in islice(samples_of(OPS[name]), 1):
        found = outcome(OPS[name], sample, to)
        assert found != "no program" or name in REFUSED


def test_weights_and_names_are_kept():
    weight = np.sin(np.arange(60, dtype="float32")).reshape(3, 20)
    graph = trace(
        lambda rows: {"y": ops.softmax(ops.matmul(rows, weight))},
        [parse_type("float32[2, 3]")],
        names=["rows"],
    )
    for to in ("jax", "stablehlo"):
        made = amanda.convert(graph, to)
        assert [p.name for p in made.parameters] == ["rows"]
        assert [p.name for p in made.outputs] == ["y"]
        held = [op.attrs["value"] for op in made if op.type == "constant"]
        assert any(t.shape == (3, 20) and (t.numpy() == weight).all() for t in held)
        assert amanda.namespace(made.namespace).validate(made) == []


def test_primitives_of_jax_have_sizes():
    graph = trace(ops.tanh, [parse_type("float32[n]")], names=["x"])
    with pytest.raises(ConversionError, match="need static shapes"):
        amanda.convert(graph, "jax")


# -- the rules on the way back ---------------------------------------------------------

X = np.linspace(-2, 3, 24, dtype="float32").reshape(2, 3, 4)
WHOLE = np.arange(24, dtype="int32").reshape(4, 6)
BITS = np.array([[0, 1], [2**31, 3]], "uint32")
WINDOW = ((1, 2, 1), (1, 1, 1), "VALID")
ALONE = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("all",)), PartitionSpec("all"))

KERNEL = np.cos(np.arange(36, dtype="float32")).reshape(3, 3, 2, 2)
IMAGE = np.sin(np.arange(60, dtype="float32")).reshape(1, 3, 4, 5)
PLACES = np.array([[[1, 0], [0, 9]], [[-3, 1], [2, 1]]], "int32")
"""Starts of windows in X's last axes, two for each of its first; some are outside."""
SPECIAL = np.array(
    [-np.nan, -np.inf, -1, -0.0, 0.0, 1e-45, 1, np.inf, np.nan], "float32"
)


def gathers(mode):
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(0, 2),
        collapsed_slice_dims=(),
        start_index_map=(1, 2),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )
    return lambda x: lax.gather(x, PLACES, numbers, (1, 2, 3), mode=mode)


def scatters(scatter, mode):
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(0, 2),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=(1, 2),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    updates = np.cos(np.arange(24, dtype="float32")).reshape(2, 2, 3, 2)
    return lambda x: scatter(x, PLACES, updates, numbers, mode=mode)


def diagonal_of(x):
    """`x[i, i]` with negative and outer indices."""
    rows = jnp.array([0, -1, 7, 1])
    return jnp.asarray(x)[0, rows, rows]


def largest(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, *WINDOW)


PROGRAMS = {
    "conv_general_dilated": (
        lambda x: lax.conv_general_dilated(
            x, KERNEL, (1, 2), ((2, -1), (1, 2)), (2, 3), (1, 2)
        ),
        IMAGE,
    ),
    "eq_to": (lambda x: lax_internal.eq_to_p.bind(x, x[::-1]), SPECIAL),
    "gather": (gathers("clip"), X),
    "gather filled": (gathers("fill"), X),
    "gather of points": (diagonal_of, X),
    "le_to": (lambda x: lax_internal.le_to_p.bind(x[:, None], x[None]), SPECIAL),
    "lt_to": (lambda x: lax_internal.lt_to_p.bind(x[:, None], x[None]), SPECIAL),
    "pad": (lambda x: lax.pad(x, 7.0, ((1, 0, 2), (0, -1, 0), (-1, 2, 1))), X),
    "polygamma": (
        lambda x: lax.polygamma(
            jnp.broadcast_to(jnp.array([1.0, 2, 3.5, 4], "f"), x.shape), abs(x) + 0.5
        ),
        X,
    ),
    "scatter": (scatters(lax.scatter, "drop"), X),
    "scatter-add": (scatters(lax.scatter_add, "drop"), X),
    "scatter-sub": (scatters(lax.scatter_sub, "clip"), X),
    "scatter-mul": (scatters(lax.scatter_mul, "drop"), X),
    "scatter-max": (scatters(lax.scatter_max, "clip"), X),
    "scatter-min": (scatters(lax.scatter_min, "drop"), X),
    "select_and_scatter_add": (jax.grad(lambda x: largest(x).sum()), X),
    "select_and_gather_add": (lambda x: jax.jvp(largest, (x,), (x * x,))[1], X),
    "lu": (lambda x: lax.linalg.lu(x.reshape(-1, 4)[:4] + 9 * jnp.eye(4)), X),
    "lu_pivots_to_permutation": (
        lambda x: lax.linalg.lu_pivots_to_permutation(
            jnp.int32([2, 2, 3]) + 0 * x.astype("int32").ravel()[0], 4
        ),
        X,
    ),
    "platform_index": (
        lambda x: lax.platform_dependent(x, cuda=jnp.sin, default=jnp.cos),
        X,
    ),
    "stack": (lambda x: jnp.stack([x, x * 2, -x], 1), X),
    "unstack": (lambda x: jnp.unstack(x, axis=1), X),
    "add_any": (lambda x: jax.vjp(lambda v: v * v + jnp.sin(v), x)[1](x)[0], X),
    "clz": (lax.clz, WHOLE),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), X),
    "cummax": (lambda x: lax.cummax(x, 2, reverse=True), X),
    "cummin": (lambda x: lax.cummin(x, 0), X),
    "device_put": (lambda x: jax.device_put(x) + 1, X),
    "optimization_barrier": (lax.optimization_barrier, X),
    "population_count": (lax.population_count, WHOLE),
    "qr": (lambda x: jnp.abs(lax.linalg.qr(x, full_matrices=False)[1]), X),
    "reduce_window": (lambda x: lax.reduce_window(x, 1.0, lax.mul, *WINDOW), X),
    "reduce_window_max": (lambda x: lax.reduce_window(x, -np.inf, lax.max, *WINDOW), X),
    "reduce_window_min": (lambda x: lax.reduce_window(x, np.inf, lax.min, *WINDOW), X),
    "reduce_window_sum": (lambda x: lax.reduce_window(x, 0.0, lax.add, *WINDOW), X),
    "rsqrt": (lambda x: lax.rsqrt(x + 4), X),
    "sharding_constraint": (lambda x: lax.with_sharding_constraint(x, ALONE) * 2, X),
    "composite": (lambda x: lax.composite(lambda v: v * 2 + 1, name="my.line")(x), X),
    "empty": (lambda x: jnp.zeros_like(lax.empty(x.shape, "float32")) + x, X),
    "empty2": (
        jax.grad(
            lambda x: lax.cond(x.sum() > 0, lambda v: (v * v).sum(), lambda v: 1.0, x)
        ),
        X,
    ),
    "name": (lambda x: checkpoint_name(x, "kept") * 2, X),
    "random_bits": (lambda x: random.bits(random.key(3), x.shape) + x, BITS),
    "random_split": (
        lambda x: random.key_data(
            random.fold_in(random.split(random.clone(random.wrap_key_data(x[0])))[1], 3)
        ),
        BITS,
    ),
    "reduce": (
        lambda x: lax.reduce(
            (x, x),
            (np.float32(1), np.float32(0)),
            lambda a, b: (a[0] * b[0], a[1] + b[1]),
            [1],
        ),
        X,
    ),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 4), X),
    "reduce_xor": (lambda x: lax.reduce(x, np.int32(0), lax.bitwise_xor, [1]), WHOLE),
    "threefry2x32": (lambda x: threefry_2x32(x[0], x[1]), BITS),
    "split": (lambda x: lax.split(x, [1, 3], 2), X),
    "top_k": (lambda x: lax.top_k(x, 2), X),
}
"""Those that no sample of the hub set becomes."""


def program(name):
    function, x = PROGRAMS[name]
    return amanda.load(jax.make_jaxpr(function)(x)), function, x


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name):
    graph, function, x = program(name)
    assert name.partition(" ")[0] in {op.type for op in graph.walk()}
    made = amanda.run(amanda.convert(graph, "std"), [x], backend="numpy").values()
    for got, want in zip(made, jax.tree.leaves(function(x)), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def program_of_any_size():
    return amanda.load(
        lambda x: jnp.full(x.shape, x.shape[0]) * x, "jax", args=("float32[n, 2]",)
    )


def test_a_size_as_a_value():
    x = np.float32([[1, 2], [3, 4], [5, 6]])
    graph = amanda.convert(program_of_any_size(), "std")
    [found] = amanda.run(graph, [x], backend="numpy").values()
    np.testing.assert_array_equal(found, 3 * x)


def types_proved(
    operation: Operation, sample: Sample, missing: Collection[str]
) -> set[str]:
    """Those of the missing primitives that the sample becomes, and that are right."""
    graph, _ = graph_of(operation, sample)
    if not is_taken(graph):
        return set()
    try:
        found = {op.type for op in amanda.convert(graph, "jax").walk()} & {*missing}
    except UsageError:
        return set()
    return found if found and outcome(operation, sample, "jax") == "right" else set()


def test_every_rule_is_proved():
    """Programs hold its op, or a sample that is right after conversion."""
    seen = {op.type for name in PROGRAMS for op in program(name)[0].walk()}
    seen |= {op.type for op in add_size_inputs(program_of_any_size()).walk()}
    missing = {rule.term.type for rule in MAPPING.rules.functions} - seen
    for operation in OPS.values():
        for sample in islice(samples_of(operation), 2):
            if not missing:
                return
            missing -= types_proved(operation, sample, missing)
    assert missing == set()


def main() -> None:
    for to in ("jax", "stablehlo"):
        counts: Counter[str] = Counter()
        for name, operation in OPS.items():
            for sample in samples_of(operation):
                try:
                    found = outcome(operation, sample, to)
                except (AmandaError, AssertionError) as error:
                    found = "wrong"
                    print(to, name, str(error).strip()[:120].replace("\n", " "))
                counts[found] += 1
        print(to, counts)


if __name__ == "__main__":
    sys.exit(main())
