"""Programs that show how primitives are used: each is traced, and what it says is seen.

What a primitive takes is written nowhere but in the programs that JAX itself makes, so
each row here is a call of public functions, with the arguments that they are traced
with. A primitive without a program is in the dictionary too; of its parameters nothing
is known then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["Program", "programs"]

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
    "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right_arithmetic",
    "shift_right_logical",
)  # fmt: skip
_CUMULATIVE = ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")
_SCATTERS = ("scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul")
_REDUCED = ("and", "or", "xor", "max", "min", "prod", "sum")


class Program(NamedTuple):
    """A function, what it is traced with, and axes that it runs along in parallel."""

    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    axes: tuple[tuple[str, int], ...] = ()


def programs() -> Iterator[Program]:
    """All of them; JAX is imported when they are asked for."""
    yield from _elementwise()
    yield from _shapes()
    yield from _reductions()
    yield from _indexing()
    yield from _linear_algebra()
    yield from _control()
    yield from _random()
    yield from _parallel()


def _libraries() -> tuple[Any, Any, Any]:
    """`jax`, `jax.lax` and `jax.numpy`, which say little of types."""
    jax, lax, numpy = map(import_module, ("jax", "jax.lax", "jax.numpy"))
    return jax, lax, numpy


def _of(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    jax, _, _ = _libraries()
    return jax.ShapeDtypeStruct(shape, dtype)


def _elementwise() -> Iterator[Program]:
    _, lax, numpy = _libraries()
    x, i, z = _of((2, 3)), _of((2, 3), "int32"), _of((2, 3), "complex64")
    for name in _REAL:
        yield Program(getattr(lax, name), (x,))
    for name in _REALS:
        yield Program(getattr(lax, name), (x, x))
    for name in _INTS:
        yield Program(getattr(lax, name), (i, i))
    for unary in (lax.bitwise_not, lax.clz, lax.population_count):
        yield Program(unary, (i,))
    for unary in (lax.conj, lax.imag, lax.real):
        yield Program(unary, (z,))
    yield Program(lambda a: lax.integer_pow(a, 3), (x,))
    yield Program(lax.clamp, (x, x, x))
    yield Program(lambda p, a: lax.select_n(p, a, a), (_of((2, 3), "bool"), x))
    yield Program(lambda a: lax.convert_element_type(a, "float16"), (x,))
    yield Program(lambda a: lax.bitcast_convert_type(a, "int32"), (x,))
    yield Program(lambda a: lax.reduce_precision(a, 8, 7), (x,))
    yield Program(lax.betainc, (x, x, x))
    yield Program(lax.random_gamma_grad, (x, x))
    yield Program(numpy.copy, (x,))


def _shapes() -> Iterator[Program]:
    _, lax, _ = _libraries()
    x = _of((2, 3))
    yield Program(lambda a: lax.broadcast_in_dim(a, (4, 2, 3), (1, 2)), (x,))
    yield Program(lambda a: lax.reshape(a, (6,)), (x,))
    yield Program(lambda a: lax.squeeze(a, (0,)), (_of((1, 3)),))
    yield Program(lambda a: lax.transpose(a, (1, 0)), (x,))
    yield Program(lambda a: lax.rev(a, (0,)), (x,))
    yield Program(lambda a: lax.pad(a, 0.0, ((1, 1, 0), (0, 0, 1))), (x,))
    yield Program(lambda a, b: lax.concatenate([a, b], 0), (x, x))
    yield Program(lambda a: lax.split(a, (1, 2), axis=1), (x,))
    yield Program(lambda a: lax.tile(a, (2, 1)), (x,))
    yield Program(lambda: lax.iota("int32", 5), ())
    yield Program(lambda: lax.broadcasted_iota("int32", (2, 3), 1), ())
    yield Program(lambda: lax.empty((2,), "float32"), ())


def _reductions() -> Iterator[Program]:
    _, lax, numpy = _libraries()
    x, b, i = _of((4, 6)), _of((4, 6), "bool"), _of((4, 6), "int32")
    for name in _REDUCED:
        of = b if name in ("and", "or", "xor") else x
        reduced = getattr(lax, f"reduce_{name}")
        yield Program(lambda a, reduced=reduced: reduced(a, (0,)), (of,))
    yield Program(lambda a: lax.reduce(a, 0.0, lambda p, q: p + q * 2, (0,)), (x,))
    yield Program(lambda a: lax.argmax(a, 1, "int32"), (x,))
    yield Program(lambda a: lax.argmin(a, 1, "int32"), (x,))
    for name in _CUMULATIVE:
        yield Program(lambda a, name=name: getattr(lax, name)(a, axis=1), (x,))
    yield Program(lambda a: lax.sort([a, a], num_keys=1), (x,))
    yield Program(lambda a: lax.top_k(a, 2), (x,))
    yield Program(lambda a: lax.approx_max_k(a, 2), (x,))
    for start, of in ((0.0, lax.add), (-numpy.inf, lax.max), (numpy.inf, lax.min)):
        yield Program(_windows(start, of), (x,))
    yield Program(_windows(0.0, lambda p, q: p + q * 2), (x,))
    yield Program(_windows(0, lax.add), (i,))
    yield from _selections(x)


def _windows(start: Any, combine: Callable[..., Any]) -> Callable[..., Any]:
    _, lax, _ = _libraries()
    return lambda a: lax.reduce_window(a, start, combine, (2, 2), (1, 1), "VALID")


def _selections(x: Any) -> Iterator[Program]:
    """Pooling taken back and forth, which selects and scatters."""
    jax, lax, _ = _libraries()
    pooled = _windows(-float("inf"), lax.max)
    tangent = _of((4, 6))
    yield Program(lambda a: jax.grad(lambda y: pooled(y).sum())(a), (x,))
    yield Program(lambda a, t: jax.jvp(pooled, (a,), (t,)), (x, tangent))


def _indexing() -> Iterator[Program]:
    _, lax, _ = _libraries()
    x, at = _of((5, 6)), _of((), "int32")
    yield Program(lambda a: lax.slice(a, (0, 1), (2, 5), (1, 2)), (x,))
    yield Program(lambda a: lax.slice(a, (0, 1), (2, 5)), (x,))
    yield Program(lambda a, i: lax.dynamic_slice(a, (i, i), (2, 2)), (x, at))
    part = _of((2, 2))
    yield Program(lambda a, u, i: lax.dynamic_update_slice(a, u, (i, i)), (x, part, at))
    places, rows = _of((3, 1), "int32"), _of((3, 6))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    for mode in ("clip", "fill", "promise_in_bounds"):
        yield Program(
            lambda a, i, mode=mode: lax.gather(a, i, numbers, (1, 6), mode=mode),
            (x, places),
        )
    taken = lax.ScatterDimensionNumbers(
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    for name in _SCATTERS:
        yield Program(
            lambda a, i, u, name=name: getattr(lax, name)(a, i, u, taken),
            (x, places, rows),
        )


def _linear_algebra() -> Iterator[Program]:
    jax, lax, _ = _libraries()
    scipy = import_module("jax.scipy.linalg")

    x, square, batch = _of((2, 3)), _of((3, 3)), _of((2, 3, 3))
    dims = (((1,), (0,)), ((), ()))
    yield Program(lambda a, b: lax.dot_general(a, b, dims), (x, square))
    yield Program(
        lambda a, b: lax.dot_general(
            a, b, dims, precision="highest", preferred_element_type="float32"
        ),
        (x, square),
    )
    image, kernel = _of((1, 3, 8, 8)), _of((4, 3, 3, 3))
    yield Program(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME"), (image, kernel)
    )
    yield Program(
        lambda a, b: lax.conv_general_dilated(
            a, b, (1, 1), "VALID", precision="high", preferred_element_type="float32"
        ),
        (image, kernel),
    )
    yield Program(
        lambda a, b, n: lax.ragged_dot(a, b, n),
        (_of((4, 3)), _of((2, 3, 5)), _of((2,), "int32")),
    )
    yield Program(lambda a: lax.fft(a, "FFT", (3,)), (_of((2, 3), "complex64"),))
    yield Program(lax.linalg.cholesky, (square,))
    yield Program(lax.linalg.eig, (square,))
    yield Program(lax.linalg.eigh, (square,))
    yield Program(lax.linalg.hessenberg, (square,))
    yield Program(lax.linalg.householder_product, (square, _of((3,))))
    yield Program(lax.linalg.lu, (square,))
    yield Program(lax.linalg.qr, (square,))
    yield Program(lax.linalg.schur, (square,))
    yield Program(lax.linalg.svd, (square,))
    yield Program(lax.linalg.tridiagonal, (square,))
    diagonal = _of((3,))
    yield Program(
        lax.linalg.tridiagonal_solve, (diagonal, diagonal, diagonal, _of((3, 1)))
    )
    yield Program(lax.linalg.triangular_solve, (square, square))
    yield Program(scipy.solve, (square, square))
    yield Program(jax.vmap(lax.linalg.cholesky), (batch,))


def _control() -> Iterator[Program]:
    jax, lax, numpy = _libraries()
    checkpoint_name = import_module("jax.ad_checkpoint").checkpoint_name

    x, n, flag = _of((3,)), _of((), "int32"), _of((), "bool")
    yield Program(lambda p, a: lax.cond(p, numpy.sin, numpy.cos, a), (flag, x))
    yield Program(lambda i, a: lax.switch(i, [numpy.sin, numpy.cos], a), (n, x))
    yield Program(
        lambda a: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, a), (x,)
    )
    yield Program(lambda a: lax.fori_loop(0, 3, lambda i, c: c + i, a), (x,))
    yield Program(lambda a: lax.scan(lambda c, y: (c + y, c), a.sum(), a), (x,))
    choice = lax.cond  # branches keep what the other one does not have, which is empty
    yield Program(
        jax.grad(lambda a: choice(a.sum() > 0, numpy.tanh, lambda y: 2 * y, a).sum()),
        (x,),
    )
    yield Program(jax.jit(numpy.sin), (x,))
    yield Program(jax.checkpoint(numpy.sin), (x,))
    yield Program(jax.nn.relu, (x,))
    yield Program(jax.nn.silu, (x,))
    yield Program(_with_own_gradient(), (x,))
    yield Program(lambda a: jax.linearize(_with_own_gradient(), a)[0], (x,))
    yield Program(lambda a: lax.optimization_barrier(a), (x,))
    yield Program(lambda a: checkpoint_name(a, "kept"), (x,))
    yield Program(lambda a: lax.custom_linear_solve(lambda y: 2 * y, a, _halved), (x,))
    yield Program(lambda a: jax.device_put(a), (x,))
    yield Program(jax.grad(lambda a: (numpy.sin(a) * a).sum()), (x,))
    yield Program(lambda: lax.after_all(lax.create_token()), ())
    yield Program(_constrained, (x,))
    yield Program(_with_reference, (x,))
    yield Program(jax.closure_convert(numpy.sin, 1.0)[0], (_of(()),))


def _halved(_: Any, b: Any) -> Any:
    return b / 2


def _with_own_gradient() -> Any:
    jax, _, numpy = _libraries()
    own = jax.custom_vjp(numpy.sin)
    own.defvjp(lambda a: (numpy.sin(a), a), lambda a, g: (g * numpy.cos(a),))
    return own


def _constrained(a: Any) -> Any:
    jax, _, _ = _libraries()
    places = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.lax.with_sharding_constraint(a, places)


def _with_reference(a: Any) -> Any:
    jax, _, _ = _libraries()
    place = jax.new_ref(a)
    place[0] = place[1] * 2
    place[2] += 1.0
    return place[...]


def _random() -> Iterator[Program]:
    jax, lax, _ = _libraries()
    random = jax.random

    seed, key = _of((), "int32"), jax.eval_shape(lambda: random.key(0))
    yield Program(random.key, (seed,))
    yield Program(lambda k: random.bits(k, (3,)), (key,))
    yield Program(random.split, (key,))
    yield Program(lambda k: random.fold_in(k, 1), (key,))
    yield Program(lambda k: random.gamma(k, 2.0), (key,))
    yield Program(random.key_data, (key,))
    yield Program(random.wrap_key_data, (_of((2,), "uint32"),))
    yield Program(lambda k: random.bits(k, (3,)), (_of((2,), "uint32"),))
    yield Program(lambda k: lax.rng_bit_generator(k, (3,)), (_of((4,), "uint32"),))
    yield Program(lambda a, b: lax.rng_uniform(a, b, (3,)), (_of(()), _of(())))


def _parallel() -> Iterator[Program]:
    _, lax, _ = _libraries()
    x, axes = _of((4, 6)), (("i", 2),)
    for reduced in (lax.psum, lax.pmax, lax.pmin, lax.all_gather, lax.psum_scatter):
        yield Program(lambda a, of=reduced: of(a, "i"), (_of((2, 6)),), axes)
    yield Program(lambda a: lax.ppermute(a, "i", [(0, 1), (1, 0)]), (x,), axes)
    yield Program(lambda a: lax.all_to_all(a, "i", 0, 1), (_of((2, 6)),), axes)
    yield Program(lambda: lax.axis_index("i"), (), axes)
    two = _of((2,), "int32")
    yield Program(
        lambda a, n: lax.ragged_all_to_all(a, a, n, n, n, n, axis_name="i"),
        (x, two),
        axes,
    )
