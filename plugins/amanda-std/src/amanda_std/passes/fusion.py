"""Formulas replaced by the one op that they define; results change by rounding.

Frameworks without an op for GELU, hard swish or layer normalization write them out; a
target with such an op computes it in one step. What targets lack is expanded again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op
from amanda.mapping import Decline, RuleSet
from amanda.passes import Rewriting
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value, constant_of
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.op_access import (
    has_trait,
    is_std,
    op_arguments,
    traced_arguments,
)
from amanda_std.ops.nn.convolution import to_channels_first

__all__ = ["fuse"]

_DEPTH: Final = 4
"""Nested products that are multiplied out."""
_DIFFERENCES: Final = frozenset({"subtract"})


def fuse(graph: Graph) -> int:
    """Replace formulas by the op that they define; returns how many.

    Results change by rounding."""
    types = {op.type for part in graph.graphs() for op in part}
    heads = tuple(
        (head, formula.call)
        for head, formulas in _RULES.items()
        for formula in formulas
        if not types.isdisjoint(formula.parts)
    )
    return _fusion_rules(heads)(graph) if heads else 0


class _Formula(NamedTuple):
    """What replaces a formula, which has an op of one of the types `parts` in it."""

    call: Callable[..., Any]
    parts: frozenset[str]


@lru_cache(64)
def _fusion_rules(heads: tuple[tuple[str, Callable[..., Any]], ...]) -> Rewriting:
    rules = RuleSet("fuse", "amanda/std", "amanda/std")
    for head, call in heads:
        rules.read(head)(call)
    return Rewriting(rules, STD_SIDE)


# -- reading of formulas ---------------------------------------------------------------


def _made_by(value: Any, *types: str) -> Op | None:
    """The op that computes a value, if it is of one of these types."""
    op: Op = value.port.op
    inside = value.port.graph is op.graph
    return op if inside and op.type in types and is_std(op) else None


def _operands(op: Op) -> list[Any]:
    return [Value(port) for port in op.inputs if port is not None]


def _number(value: Any) -> float | None:
    """The number of a constant with one element."""
    tensor = constant_of(value.port)
    if tensor is None or tensor.size != 1 or tensor.dtype.kind != "float":
        return None
    return float(tensor.item())


def _is_near(a: float | None, b: float) -> bool:
    return a is not None and math.isclose(a, b, rel_tol=1e-6)


class _Product(NamedTuple):
    """A number times values."""

    number: float
    values: tuple[Any, ...]


def _product(*values: Any, depth: int = _DEPTH) -> _Product:
    """Factors multiplied out through products, quotients by numbers and negations."""
    number, found = 1.0, []
    for value in values:
        inner = _factors(value) if depth else None
        constant = _number(value)
        if constant is not None:
            number *= constant
        elif inner is None:
            found.append(value)
        else:
            part = _product(*inner.values, depth=depth - 1)
            number *= inner.number * part.number
            found += part.values
    return _Product(number, tuple(found))


def _factors(value: Any) -> _Product | None:
    """The number and the values whose product a value is, one op deep."""
    op = value.port.op
    found = _FACTORS.get(op.type) if _made_by(value, op.type) is not None else None
    return None if found is None else found(*_operands(op))


def _factors_of_quotient(x: Any, divisor: Any) -> _Product | None:
    number = _number(divisor)
    return _Product(1.0 / number, (x,)) if number else None


_FACTORS: Final[dict[str, Callable[..., _Product | None]]] = {
    "multiply": lambda a, b: _Product(1.0, (a, b)),
    "divide": _factors_of_quotient,
    "negative": lambda x: _Product(-1.0, (x,)),
}


def _plus_number(value: Any) -> Iterator[tuple[Any, float]]:
    """The other term of a sum with a number, and the number."""
    op = _made_by(value, "add")
    if op is not None:
        a, b = _operands(op)
        for term, number in ((a, _number(b)), (b, _number(a))):
            if number is not None:
                yield term, number


def _same(a: Any, b: Any) -> bool:
    return a.port is b.port


def _pairs(values: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    if len(values) == 2:
        yield values
        yield values[::-1]


# -- activation functions --------------------------------------------------------------


def _gelu(a: Any, b: Any) -> Any:
    """x * 0.5 * (1 + erf(x / sqrt(2))), or with erfc(-x / sqrt(2))."""
    product = _product(a, b)
    if _is_near(product.number, 0.5):
        for x, probability in _pairs(product.values):
            if _is_scaled(_argument(probability, "erfc"), x, -math.sqrt(0.5)):
                return ops.gelu(x)
            for term, one in _plus_number(probability):
                is_erf = _is_scaled(_argument(term, "erf"), x, math.sqrt(0.5))
                if is_erf and _is_near(one, 1.0):
                    return ops.gelu(x)
    raise Decline("it is no GELU")


def _gelu_by_tanh(a: Any, b: Any) -> Any:
    """x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * sqrt(2 / pi)))."""
    product = _product(a, b)
    if _is_near(product.number, 0.5):
        for x, rest in _pairs(product.values):
            for term, one in _plus_number(rest):
                argument = _argument(term, "tanh")
                if _is_near(one, 1.0) and _is_cubic_of_gelu(argument, x):
                    return ops.gelu(x, approximate=True)
    raise Decline("it is no GELU by tanh")


def _is_cubic_of_gelu(value: Any, x: Any) -> bool:
    """Whether a value is (x + x**3 * 0.044715) * sqrt(2 / pi)."""
    product = _product(*([] if value is None else [value]))
    if not _is_near(product.number, math.sqrt(2 / math.pi)) or len(product.values) != 1:
        return False
    op = _made_by(product.values[0], "add")
    for term, rest in _pairs(tuple(_operands(op))) if op is not None else ():
        cubic = _product(rest)
        if _same(term, x) and _is_near(cubic.number, 0.044715):
            return _is_cube(cubic.values, x)
    return False


def _is_cube(values: tuple[Any, ...], x: Any) -> bool:
    """Whether the product of these is x**3."""
    power = _made_by(values[0], "pow") if len(values) == 1 else None
    if power is not None:
        base, exponent = _operands(power)
        return _same(base, x) and _number(exponent) == 3.0
    return len(values) == 3 and all(_same(value, x) for value in values)


def _argument(value: Any, type: str) -> Any:
    """The operand of the op of this type that computes a value, or None."""
    op = _made_by(value, type)
    return None if op is None else _operands(op)[0]


def _is_scaled(value: Any, x: Any, number: float) -> bool:
    """Whether a value is x times a number."""
    if value is None:
        return False
    product = _product(value)
    is_x = len(product.values) == 1 and _same(product.values[0], x)
    return is_x and _is_near(product.number, number)


def _hard_sigmoid(a: Any, b: Any) -> Any:
    """clip(x + 3, 0, 6) / 6."""
    number = _number(b)
    if _made_by(a, "clip") is None or number is None:
        raise Decline("it is no hard sigmoid")
    return ops.hardsigmoid(_shifted_relu6(a))


def _shifted_relu6(value: Any) -> Any:
    """x of clip(x + 3, 0, 6)."""
    op = _made_by(value, "clip")
    x, *bounds = _operands(op) if op is not None else [value]
    if [_number(each) for each in bounds] == [0.0, 6.0]:
        for term, three in _plus_number(x):
            if three == 3.0:
                return term
    raise Decline("it is not clip(x + 3, 0, 6)")


def _hard_sigmoid_product(a: Any, b: Any) -> Any:
    if not _is_near(_number(b), 1 / 6):
        raise Decline("it is not divided by 6")
    return _hard_sigmoid(a, b)


def _hard_sigmoid_quotient(a: Any, b: Any) -> Any:
    if _number(b) != 6.0:
        raise Decline("it is not divided by 6")
    return _hard_sigmoid(a, b)


def _hard_swish(a: Any, b: Any) -> Any:
    """x * hardsigmoid(x)."""
    for x, gate in ((a, b), (b, a)):
        op = _made_by(gate, "hardsigmoid")
        if op is not None and _same(_operands(op)[0], x):
            attrs = op_arguments(op, Value)[1]
            if _is_near(attrs["alpha"], 1 / 6) and attrs["beta"] == 0.5:
                return ops.hardswish(x)
    raise Decline("it is no hard swish")


# -- normalization ---------------------------------------------------------------------


def _layer_norm(a: Any, b: Any) -> Any:
    """x * s + (bias - mean * s), with s = scale / sqrt(variance + epsilon)."""
    for product, rest in ((a, b), (b, a)):
        x_and_s, offset = (
            _made_by(product, "multiply"),
            _made_by(rest, "add", "subtract"),
        )
        if x_and_s is None or offset is None:
            continue
        for x, s in _pairs(tuple(_operands(x_and_s))):
            found = _parts_of_scale(x, s)
            if found is not None:
                scale, mean, epsilon = found
                bias = _bias_of(offset, mean, s)
                if bias is not None:
                    return _as_layer_norm(x, scale, bias, epsilon)
    raise Decline("it is no layer norm")


class _ScaleParts(NamedTuple):
    scale: Any
    mean: Any
    epsilon: float


def _parts_of_scale(x: Any, s: Any) -> _ScaleParts | None:
    """What `rsqrt(variance of x + epsilon) * scale` is made of."""
    op = _made_by(s, "multiply")
    for inverse, scale in _pairs(tuple(_operands(op))) if op is not None else ():
        root = _argument(inverse, "rsqrt")
        for variance, epsilon in _plus_number(root) if root is not None else ():
            mean = _mean_of_variance(x, variance)
            if mean is not None and constant_of(scale.port) is not None:
                return _ScaleParts(scale, mean, epsilon)
    return None


def _mean_of_variance(x: Any, variance: Any) -> Any:
    """The mean of x over its last axis, if this is the variance."""
    squares = _mean_over_last(variance)
    op = None if squares is None else _made_by(squares, "squared_difference")
    if op is None:
        return None
    first, second = _operands(op)
    center = _without_barrier(second)
    is_mean = _same(first, x) and _mean_over_last(center) is not None
    return center if is_mean and _same(_mean_over_last(center), x) else None


def _without_barrier(value: Any) -> Any:
    op = value.port.op
    return Value(op.inputs[0]) if has_trait(op, Trait.BLOCKS_GRADIENT) else value


def _mean_over_last(value: Any) -> Any:
    """What a value is the mean of, over the last axis, with the axis kept."""
    op = _made_by(value, "mean")
    if op is None:
        return None
    (x, axes, *_), attrs = op_arguments(op, Value)
    if not isinstance(axes, list | tuple) or not attrs["keepdims"]:
        return None
    return x if [axis % x.ndim for axis in axes] == [x.ndim - 1] else None


def _bias_of(offset: Op, mean: Any, s: Any) -> Any:
    """The constant of `bias - mean * s`, also of `-mean * s + bias`."""
    a, b = _operands(offset)
    is_difference = offset.type in _DIFFERENCES
    for bias, rest in ((a, b),) if is_difference else ((a, b), (b, a)):
        product = _product(rest, depth=2)
        others = [value for value in product.values if not _same(value, mean)]
        parts = _product(s, depth=1).values
        if (
            constant_of(bias.port) is not None
            and len(others) == len(product.values) - 1 == len(parts)
            and all(map(_same, others, parts))
            and product.number == (1.0 if is_difference else -1.0)
        ):
            return bias
    return None


def _layer_norm_of_difference(a: Any, b: Any) -> Any:
    """d / sqrt(mean(d**2) + epsilon) * scale + bias, with d = x - mean(x)."""
    for product, bias in _pairs((a, b)):
        op = _made_by(product, "multiply")
        if op is None or constant_of(bias.port) is None:
            continue
        for normal, scale in _pairs(tuple(_operands(op))):
            found = (
                _parts_of_normalized(normal)
                if constant_of(scale.port) is not None
                else None
            )
            if found is not None:
                return _as_layer_norm(found[0], scale, bias, found[1])
    raise Decline("it is no layer norm")


def _parts_of_normalized(value: Any) -> tuple[Any, float] | None:
    """The x and the epsilon of `(x - mean) / sqrt(variance + epsilon)`."""
    for difference, total in _quotients_by_root(value):
        op = _made_by(difference, "subtract")
        x, mean = _operands(op) if op is not None else (difference, difference)
        source = _mean_over_last(mean)
        if source is None or not _same(source, x):
            continue
        for variance, epsilon in _plus_number(total):
            squares = _mean_over_last(variance)
            if squares is not None and _is_square(squares, difference):
                return x, epsilon
    return None


def _quotients_by_root(value: Any) -> Iterator[tuple[Any, Any]]:
    """The y and z of which a value is y / sqrt(z)."""
    quotient, product = _made_by(value, "divide"), _made_by(value, "multiply")
    if quotient is not None:
        y, root = _operands(quotient)
        total = _argument(root, "sqrt")
        if total is not None:
            yield y, total
    for y, inverse in _pairs(tuple(_operands(product))) if product is not None else ():
        total = _argument(inverse, "rsqrt")
        if total is not None:
            yield y, total


def _is_square(value: Any, x: Any) -> bool:
    """Whether a value is x squared: by a power, a square or a product."""
    power = _made_by(value, "pow")
    if power is not None:
        base, exponent = _operands(power)
        return _same(base, x) and _number(exponent) == 2
    op = _made_by(value, "square", "multiply")
    return op is not None and all(_same(each, x) for each in _operands(op))


def _as_layer_norm(x: Any, scale: Any, bias: Any, epsilon: float) -> Any:
    for each in (scale, bias):
        shape = each.type.shape
        if each.ndim == 0 or any(size != 1 for size in shape[:-1]):
            raise Decline("its scale is not along the last axis")
    scale, bias = (ops.reshape(each, [-1]) for each in (scale, bias))
    return ops.layer_norm(x, scale, bias, axis=-1, epsilon=epsilon)


# -- layers ----------------------------------------------------------------------------


def _padded_conv(x: Any, *rest: Any, **attrs: Any) -> Any:
    """A convolution of data with zeros around them, which it pads itself."""
    op = _made_by(x, "pad")
    if op is None:
        raise Decline("its input is not padded")
    own = attrs["padding"] or "valid"
    if isinstance(own, str) and own != "valid":
        raise Decline("its padding depends on the size")
    spatial = to_channels_first(attrs["layout"], x.ndim)[2:]
    data, added = _zeros_around(op, x.ndim)
    if any(pair != (0, 0) for axis, pair in added.items() if axis not in spatial):
        raise Decline("it is padded along other axes than the spatial ones")
    inner = [(0, 0)] * len(spatial) if own == "valid" else own
    padding = [
        (low + added.get(axis, (0, 0))[0], high + added.get(axis, (0, 0))[1])
        for axis, (low, high) in zip(spatial, inner, strict=True)
    ]
    return ops.conv(data, *rest, **{**attrs, "padding": padding})


def _zeros_around(op: Op, rank: int) -> tuple[Any, dict[int, tuple[int, int]]]:
    """What is padded with zeros, and by how many, by axis."""
    (data, pads, value, axes), attrs = traced_arguments(op)
    is_zero = value is None or _number(value) == 0.0
    known = isinstance(pads, list | tuple) and not isinstance(axes, Value)
    if attrs["mode"] != "constant" or not is_zero or not known:
        raise Decline("it is not padded with a known number of zeros")
    at = range(rank) if axes is None else [axis % rank for axis in axes]
    found = {axis: (low, high) for axis, (low, high) in zip(at, pads, strict=True)}
    if not all(type(n) is int and n >= 0 for pair in found.values() for n in pair):
        raise Decline("it is cropped, or by computed numbers")
    return data, found


def _product_of_rows(x: Any, *_: Any, **_attrs: Any) -> Any:
    """A product of data whose leading axes were merged for it, and are divided again.

    The rule is applied only if the shape of the result is the same."""
    product = _made_by(x, "matmul")
    rows, w = _operands(product) if product is not None else (x, x)
    merged = _made_by(rows, "reshape")
    if merged is None or w.ndim != 2 or rows.ndim != 2 or len(x.port.users) != 1:
        raise Decline("it is not the product of rows")
    return ops.matmul(Value(merged.inputs[0]), w)  # type: ignore[arg-type]


_RULES: Final[dict[str, tuple[_Formula, ...]]] = {
    "multiply": (
        _Formula(_gelu, frozenset({"erf", "erfc"})),
        _Formula(_gelu_by_tanh, frozenset({"tanh"})),
        _Formula(_hard_sigmoid_product, frozenset({"clip"})),
        _Formula(_hard_swish, frozenset({"hardsigmoid", "clip"})),
    ),
    "divide": (_Formula(_hard_sigmoid_quotient, frozenset({"clip"})),),
    "add": (
        _Formula(_layer_norm, frozenset({"rsqrt"})),
        _Formula(_layer_norm_of_difference, frozenset({"sqrt", "rsqrt"})),
    ),
    "conv": (_Formula(_padded_conv, frozenset({"pad"})),),
    "reshape": (_Formula(_product_of_rows, frozenset({"matmul"})),),
}
