"""Boolean logic and bitwise operations."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from amanda_std.engine.annotations import Bits, Integer, Logical
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import BinaryOperation, primitive
from amanda_std.engine.samples import Sample, Samples, array, elementwise_by_loop
from amanda_std.inference import shapes

_NO_GRADIENT = "its results are discrete"
_ROW, _COLUMN = array([True, False, True], "bool"), array([[True], [False]], "bool")


def _logical(name: str, doc: str, oracle: Callable[[Any, Any], Any]) -> BinaryOperation:
    def kernel(a: Logical, b: Logical) -> Logical:
        return getattr(xp(a, b), name)(a, b)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.elementwise, name=name, content=True, commutative=True)(
        kernel
    )
    op.not_differentiable(_NO_GRADIENT)

    @op.samples
    def _() -> Samples:
        for a, b in ((_ROW, _COLUMN), (_ROW, _ROW), (_ROW[:0], _ROW[:0])):
            yield Sample((a, b), elementwise_by_loop(oracle, a, b))
        yield Sample((_ROW[0], _ROW[1]), elementwise_by_loop(oracle, _ROW[0], _ROW[1]))

    return op


logical_and = _logical("logical_and", "Logical and", operator.and_)
logical_or = _logical("logical_or", "Logical or", operator.or_)
logical_xor = _logical("logical_xor", "Logical exclusive or", operator.xor)


@primitive(shape=shapes.pointwise)
def logical_not(x: Logical) -> Logical:
    """Logical not"""
    return xp(x).logical_not(x)


logical_not.not_differentiable(_NO_GRADIENT)


@logical_not.samples
def _() -> Samples:
    for x in (_ROW, _COLUMN, _ROW[0], _ROW[:0]):
        yield Sample((x,), elementwise_by_loop(operator.not_, x))


def _bitwise(name: str, doc: str, oracle: Callable[[Any, Any], Any]) -> BinaryOperation:
    def kernel(a: Bits, b: Bits) -> Bits:
        return getattr(xp(a, b), name)(a, b)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.elementwise, name=name, commutative=True)(kernel)
    op.not_differentiable(_NO_GRADIENT)

    @op.samples
    def _() -> Samples:
        for dtype in ("int32", "uint8", "int64"):
            a, b = array([1, 6, 12], dtype), array([[3], [10]], dtype)
            yield Sample((a, b), elementwise_by_loop(oracle, a, b))
        yield Sample((array(-1, "int8"), array(6, "int8")),
                     array(oracle(-1, 6), "int8"))  # fmt: skip
        yield Sample((array([], "int8"), array(6, "int8")), array([], "int8"))

    return op


bitwise_and = _bitwise("bitwise_and", "Bitwise and", operator.and_)
bitwise_or = _bitwise("bitwise_or", "Bitwise or", operator.or_)
bitwise_xor = _bitwise("bitwise_xor", "Bitwise exclusive or", operator.xor)


@primitive(shape=shapes.pointwise)
def bitwise_invert(x: Bits) -> Bits:
    """Bitwise not (invert)"""
    return xp(x).bitwise_invert(x)


bitwise_invert.not_differentiable(_NO_GRADIENT)


@bitwise_invert.samples
def _() -> Samples:
    for dtype in ("int8", "int64"):
        x = array([0, 5, -3], dtype)
        yield Sample((x,), elementwise_by_loop(lambda v: -v - 1, x))
    yield Sample((array(5, "uint8"),), array(250, "uint8"))
    yield Sample((array([True, False], "bool"),), array([False, True], "bool"))
    yield Sample((array([], "uint8"),), array([], "uint8"))


def _shift(name: str, doc: str, oracle: Callable[[Any, Any], Any]) -> BinaryOperation:
    def kernel(a: Integer, b: Integer) -> Integer:
        return getattr(xp(a, b), name)(a, b)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.elementwise, name=name)(kernel)
    op.not_differentiable(_NO_GRADIENT)

    @op.samples
    def _() -> Samples:
        for dtype in ("uint8", "int32", "uint64"):
            a, b = array([1, 6, 12], dtype), array([[0], [3]], dtype)
            yield Sample((a, b), elementwise_by_loop(oracle, a, b))
        yield Sample((array(9, "int64"), array(1, "int64")),
                     array(oracle(9, 1), "int64"))  # fmt: skip
        yield Sample((array([], "uint8"), array([], "uint8")), array([], "uint8"))

    return op


bitwise_left_shift = _shift("bitwise_left_shift", "a * 2**b", operator.lshift)
bitwise_right_shift = _shift("bitwise_right_shift", "a // 2**b", operator.rshift)
