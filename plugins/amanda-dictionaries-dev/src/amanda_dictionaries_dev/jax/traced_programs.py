"""Example programs that use JAX's primitives; tracing them shows their parameters.

JAX documents the parameters of primitives nowhere, so each row here calls public
functions, with abstract arguments. A primitive without an example is in the dictionary
without parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["ExampleProgram", "example_programs"]

_REAL = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e",
    "bessel_i1e", "cbrt", "ceil", "cos", "cosh", "digamma", "erf", "erf_inv", "erfc",
    "exp", "exp2", "expm1", "floor", "is_finite", "lgamma", "log", "log1p", "logistic",
    "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "tan", "tanh",
)  # fmt: skip
_REALS = (
    "add", "atan2", "complex", "div", "eq", "ge", "gt", "igamma", "igamma_grad_a",
    "igammac", "le", "lt", "max", "min", "mul", "ne", "nextafter", "polygamma", "pow",
    "rem", "sub", "zeta",
)  # fmt: skip
_INTS = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "mulhi", "shift_left",
    "shift_right_arithmetic", "shift_right_logical",
)  # fmt: skip
_CUMULATIVE = ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")
_SCATTERS = (
    "scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_sub",
)  # fmt: skip
_REDUCED = ("and", "or", "xor", "max", "min", "prod", "sum")


class ExampleProgram(NamedTuple):
    """A function, abstract arguments to trace it with, and named parallel axes."""

    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    axes: tuple[tuple[str, int], ...] = ()


def example_programs() -> Iterator[ExampleProgram]:
    """All example programs; imports JAX."""
    yield from _elementwise()
    yield from _shapes()
    yield from _reductions()
    yield from _indexing()
    yield from _products()
    yield from _linear_algebra()
    yield from _control()
    yield from _random()
    yield from _parallel()


def _import_jax() -> tuple[Any, Any, Any]:
    """`jax`, `jax.lax` and `jax.numpy`, untyped."""
    jax, lax, numpy = map(import_module, ("jax", "jax.lax", "jax.numpy"))
    return jax, lax, numpy


def _abstract_array(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    jax, _, _ = _import_jax()
    return jax.ShapeDtypeStruct(shape, dtype)


def _elementwise() -> Iterator[ExampleProgram]:
    _, lax, numpy = _import_jax()
    x, i, z = (
        _abstract_array((2, 3)),
        _abstract_array((2, 3), "int32"),
        _abstract_array((2, 3), "complex64"),
    )
    for name in _REAL:
        yield ExampleProgram(getattr(lax, name), (x,))
    for name in _REALS:
        yield ExampleProgram(getattr(lax, name), (x, x))
    for name in _INTS:
        yield ExampleProgram(getattr(lax, name), (i, i))
    for unary in (lax.bitwise_not, lax.clz, lax.population_count):
        yield ExampleProgram(unary, (i,))
    for unary in (lax.conj, lax.imag, lax.real):
        yield ExampleProgram(unary, (z,))
    yield ExampleProgram(lambda a: lax.integer_pow(a, 3), (x,))
    yield ExampleProgram(lax.clamp, (x, x, x))
    yield ExampleProgram(
        lambda p, a: lax.select_n(p, a, a), (_abstract_array((2, 3), "bool"), x)
    )
    yield ExampleProgram(lambda a: lax.convert_element_type(a, "float16"), (x,))
    yield ExampleProgram(lambda a: lax.bitcast_convert_type(a, "int32"), (x,))
    yield ExampleProgram(lambda a: lax.reduce_precision(a, 8, 7), (x,))
    yield ExampleProgram(lax.betainc, (x, x, x))
    yield ExampleProgram(lax.random_gamma_grad, (x, x))
    yield ExampleProgram(numpy.copy, (x,))


def _shapes() -> Iterator[ExampleProgram]:
    _, lax, numpy = _import_jax()
    x = _abstract_array((2, 3))
    yield ExampleProgram(lambda a, b: numpy.stack([a, b], axis=1), (x, x))
    yield ExampleProgram(lambda a: numpy.unstack(a, axis=1), (x,))
    yield ExampleProgram(lambda a: lax.broadcast_in_dim(a, (4, 2, 3), (1, 2)), (x,))
    yield ExampleProgram(lambda a: lax.reshape(a, (6,)), (x,))
    yield ExampleProgram(lambda a: lax.squeeze(a, (0,)), (_abstract_array((1, 3)),))
    yield ExampleProgram(lambda a: lax.transpose(a, (1, 0)), (x,))
    yield ExampleProgram(lambda a: lax.rev(a, (0,)), (x,))
    yield ExampleProgram(lambda a: lax.pad(a, 0.0, ((1, 1, 0), (0, 0, 1))), (x,))
    yield ExampleProgram(lambda a, b: lax.concatenate([a, b], 0), (x, x))
    yield ExampleProgram(lambda a: lax.split(a, (1, 2), axis=1), (x,))
    yield ExampleProgram(lambda a: lax.tile(a, (2, 1)), (x,))
    yield ExampleProgram(lambda: lax.iota("int32", 5), ())
    yield ExampleProgram(lambda: lax.broadcasted_iota("int32", (2, 3), 1), ())
    yield ExampleProgram(lambda: lax.empty((2,), "float32"), ())


def _reductions() -> Iterator[ExampleProgram]:
    _, lax, numpy = _import_jax()
    x, b, i = (
        _abstract_array((4, 6)),
        _abstract_array((4, 6), "bool"),
        _abstract_array((4, 6), "int32"),
    )
    for name in _REDUCED:
        of = b if name in ("and", "or", "xor") else x
        reduced = getattr(lax, f"reduce_{name}")
        yield ExampleProgram(lambda a, reduced=reduced: reduced(a, (0,)), (of,))
    yield ExampleProgram(
        lambda a: lax.reduce(a, 0.0, lambda p, q: p + q * 2, (0,)), (x,)
    )
    yield ExampleProgram(lambda a: lax.argmax(a, 1, "int32"), (x,))
    yield ExampleProgram(lambda a: lax.argmin(a, 1, "int32"), (x,))
    for name in _CUMULATIVE:
        yield ExampleProgram(lambda a, name=name: getattr(lax, name)(a, axis=1), (x,))
    yield ExampleProgram(lambda a: lax.sort([a, a], num_keys=1), (x,))
    yield ExampleProgram(lambda a: lax.top_k(a, 2), (x,))
    yield ExampleProgram(lambda a: lax.approx_max_k(a, 2), (x,))
    for start, of in ((0.0, lax.add), (-numpy.inf, lax.max), (numpy.inf, lax.min)):
        yield ExampleProgram(_windows(start, of), (x,))
    yield ExampleProgram(_windows(0.0, lambda p, q: p + q * 2), (x,))
    yield ExampleProgram(_windows(0, lax.add), (i,))
    yield from _selections(x)


def _windows(start: Any, combine: Callable[..., Any]) -> Callable[..., Any]:
    _, lax, _ = _import_jax()
    return lambda a: lax.reduce_window(a, start, combine, (2, 2), (1, 1), "VALID")


def _selections(x: Any) -> Iterator[ExampleProgram]:
    """Derivatives of pooling, which use select-and-scatter."""
    jax, lax, _ = _import_jax()
    pooled = _windows(-float("inf"), lax.max)
    tangent = _abstract_array((4, 6))
    yield ExampleProgram(lambda a: jax.grad(lambda y: pooled(y).sum())(a), (x,))
    yield ExampleProgram(lambda a, t: jax.jvp(pooled, (a,), (t,)), (x, tangent))


def _indexing() -> Iterator[ExampleProgram]:
    _, lax, _ = _import_jax()
    x, at = _abstract_array((5, 6)), _abstract_array((), "int32")
    yield ExampleProgram(lambda a: lax.slice(a, (0, 1), (2, 5), (1, 2)), (x,))
    yield ExampleProgram(lambda a: lax.slice(a, (0, 1), (2, 5)), (x,))
    yield ExampleProgram(lambda a, i: lax.dynamic_slice(a, (i, i), (2, 2)), (x, at))
    part = _abstract_array((2, 2))
    yield ExampleProgram(
        lambda a, u, i: lax.dynamic_update_slice(a, u, (i, i)), (x, part, at)
    )
    places, rows = _abstract_array((3, 1), "int32"), _abstract_array((3, 6))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    for mode in ("clip", "fill", "promise_in_bounds"):
        yield ExampleProgram(
            lambda a, i, mode=mode: lax.gather(a, i, numbers, (1, 6), mode=mode),
            (x, places),
        )
    taken = lax.ScatterDimensionNumbers(
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    for name in _SCATTERS:
        yield ExampleProgram(
            lambda a, i, u, name=name: getattr(lax, name)(a, i, u, taken),
            (x, places, rows),
        )


def _products() -> Iterator[ExampleProgram]:
    _, lax, _ = _import_jax()
    x, square = _abstract_array((2, 3)), _abstract_array((3, 3))
    dims = (((1,), (0,)), ((), ()))
    yield ExampleProgram(lambda a, b: lax.dot_general(a, b, dims), (x, square))
    yield ExampleProgram(
        lambda a, b: lax.dot_general(
            a, b, dims, precision="highest", preferred_element_type="float32"
        ),
        (x, square),
    )
    image, kernel = _abstract_array((1, 3, 8, 8)), _abstract_array((4, 3, 3, 3))
    yield ExampleProgram(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME"), (image, kernel)
    )
    yield ExampleProgram(
        lambda a, b: lax.conv_general_dilated(
            a, b, (1, 1), "VALID", precision="high", preferred_element_type="float32"
        ),
        (image, kernel),
    )
    yield ExampleProgram(
        lambda a, b, n: lax.ragged_dot(a, b, n),
        (
            _abstract_array((4, 3)),
            _abstract_array((2, 3, 5)),
            _abstract_array((2,), "int32"),
        ),
    )
    yield ExampleProgram(
        lambda a: lax.fft(a, "FFT", (3,)), (_abstract_array((2, 3), "complex64"),)
    )


def _linear_algebra() -> Iterator[ExampleProgram]:
    jax, lax, _ = _import_jax()
    scipy = import_module("jax.scipy.linalg")

    square, batch = _abstract_array((3, 3)), _abstract_array((2, 3, 3))
    yield ExampleProgram(lax.linalg.cholesky, (square,))
    yield ExampleProgram(lax.linalg.eig, (square,))
    yield ExampleProgram(lax.linalg.eigh, (square,))
    yield ExampleProgram(lax.linalg.hessenberg, (square,))
    yield ExampleProgram(
        lax.linalg.householder_product, (square, _abstract_array((3,)))
    )
    yield ExampleProgram(lax.linalg.lu, (square,))
    yield ExampleProgram(
        lambda p: lax.linalg.lu_pivots_to_permutation(p, 3),
        (_abstract_array((3,), "int32"),),
    )
    yield ExampleProgram(lax.linalg.symmetric_product, (square, square))
    yield ExampleProgram(lax.linalg.qr, (square,))
    yield ExampleProgram(lax.linalg.schur, (square,))
    yield ExampleProgram(lax.linalg.svd, (square,))
    yield ExampleProgram(lax.linalg.tridiagonal, (square,))
    diagonal = _abstract_array((3,))
    yield ExampleProgram(
        lax.linalg.tridiagonal_solve,
        (diagonal, diagonal, diagonal, _abstract_array((3, 1))),
    )
    yield ExampleProgram(lax.linalg.triangular_solve, (square, square))
    yield ExampleProgram(scipy.solve, (square, square))
    yield ExampleProgram(jax.vmap(lax.linalg.cholesky), (batch,))


def _control() -> Iterator[ExampleProgram]:
    jax, lax, numpy = _import_jax()
    checkpoint_name = import_module("jax.ad_checkpoint").checkpoint_name

    x, n, flag = (
        _abstract_array((3,)),
        _abstract_array((), "int32"),
        _abstract_array((), "bool"),
    )
    yield ExampleProgram(lambda p, a: lax.cond(p, numpy.sin, numpy.cos, a), (flag, x))
    yield ExampleProgram(lambda i, a: lax.switch(i, [numpy.sin, numpy.cos], a), (n, x))
    yield ExampleProgram(
        lambda a: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, a), (x,)
    )
    yield ExampleProgram(lambda a: lax.fori_loop(0, 3, lambda i, c: c + i, a), (x,))
    yield ExampleProgram(lambda a: lax.scan(lambda c, y: (c + y, c), a.sum(), a), (x,))
    choice = lax.cond  # branches save residuals, empty ones for the other branch
    yield ExampleProgram(
        jax.grad(lambda a: choice(a.sum() > 0, numpy.tanh, lambda y: 2 * y, a).sum()),
        (x,),
    )
    yield ExampleProgram(jax.jit(numpy.sin), (x,))
    yield ExampleProgram(jax.checkpoint(numpy.sin), (x,))
    yield ExampleProgram(jax.nn.relu, (x,))
    yield ExampleProgram(jax.nn.silu, (x,))
    yield ExampleProgram(_custom_gradient(), (x,))
    yield ExampleProgram(lambda a: jax.linearize(_custom_gradient(), a)[0], (x,))
    yield ExampleProgram(lambda a: lax.optimization_barrier(a), (x,))
    yield ExampleProgram(lambda a: checkpoint_name(a, "kept"), (x,))
    yield ExampleProgram(
        lambda a: lax.custom_linear_solve(lambda y: 2 * y, a, _halve), (x,)
    )
    yield ExampleProgram(lambda a: jax.device_put(a), (x,))
    yield ExampleProgram(jax.grad(lambda a: (numpy.sin(a) * a).sum()), (x,))
    yield ExampleProgram(lambda: lax.after_all(lax.create_token()), ())
    yield ExampleProgram(_constrain_sharding, (x,))
    yield ExampleProgram(_use_reference, (x,))
    yield ExampleProgram(jax.closure_convert(numpy.sin, 1.0)[0], (_abstract_array(()),))


def _halve(_: Any, b: Any) -> Any:
    return b / 2


def _custom_gradient() -> Any:
    jax, _, numpy = _import_jax()
    own = jax.custom_vjp(numpy.sin)
    own.defvjp(lambda a: (numpy.sin(a), a), lambda a, g: (g * numpy.cos(a),))
    return own


def _constrain_sharding(a: Any) -> Any:
    jax, _, _ = _import_jax()
    places = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.lax.with_sharding_constraint(a, places)


def _use_reference(a: Any) -> Any:
    jax, _, _ = _import_jax()
    place = jax.new_ref(a)
    place[0] = place[1] * 2
    place[2] += 1.0
    return place[...]


def _random() -> Iterator[ExampleProgram]:
    jax, lax, _ = _import_jax()
    random = jax.random

    seed, key = _abstract_array((), "int32"), jax.eval_shape(lambda: random.key(0))
    yield ExampleProgram(random.key, (seed,))
    yield ExampleProgram(lambda k: random.bits(k, (3,)), (key,))
    yield ExampleProgram(random.split, (key,))
    yield ExampleProgram(lambda k: random.fold_in(k, 1), (key,))
    yield ExampleProgram(lambda k: random.gamma(k, 2.0), (key,))
    yield ExampleProgram(random.key_data, (key,))
    yield ExampleProgram(random.wrap_key_data, (_abstract_array((2,), "uint32"),))
    yield ExampleProgram(
        lambda k: random.bits(k, (3,)), (_abstract_array((2,), "uint32"),)
    )
    yield ExampleProgram(
        lambda k: lax.rng_bit_generator(k, (3,)), (_abstract_array((4,), "uint32"),)
    )
    yield ExampleProgram(
        lambda a, b: lax.rng_uniform(a, b, (3,)),
        (_abstract_array(()), _abstract_array(())),
    )


def _parallel() -> Iterator[ExampleProgram]:
    _, lax, _ = _import_jax()
    x, axes = _abstract_array((4, 6)), (("i", 2),)
    for reduced in (lax.psum, lax.pmax, lax.pmin, lax.all_gather, lax.psum_scatter):
        yield ExampleProgram(
            lambda a, of=reduced: of(a, "i"), (_abstract_array((2, 6)),), axes
        )
    yield ExampleProgram(lambda a: lax.ppermute(a, "i", [(0, 1), (1, 0)]), (x,), axes)
    yield ExampleProgram(
        lambda a: lax.all_to_all(a, "i", 0, 1), (_abstract_array((2, 6)),), axes
    )
    yield ExampleProgram(lambda: lax.axis_index("i"), (), axes)
    two = _abstract_array((2,), "int32")
    yield ExampleProgram(
        lambda a, n: lax.ragged_all_to_all(a, a, n, n, n, n, axis_name="i"),
        (x, two),
        axes,
    )
