"""The operators and methods of numpy arrays, for types and graph values.

One Python function then serves arrays, types and values. Two things differ from
numpy, so that nothing is lost silently: `/` accepts no integers, and reductions keep
the dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from amanda.errors import InvalidTypeError, Undecided, UsageError
from amanda.graph import OutputPort
from amanda.types import Sym
from amanda_std.engine.links import find_operation, gradients_here
from amanda_std.engine.literals import is_literal, is_number
from amanda_std.engine.subscripts import subscript

if TYPE_CHECKING:
    from amanda.types import Dim, ElementType

__all__ = ["ArrayLike"]


class ArrayLike:
    """Array operators and methods, as ops."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves `array + value` to us
    __array_priority__ = 1000
    is_of_types = False
    """Whether this stands for a tensor of which only the type is known."""

    @property
    def dtype(self) -> ElementType:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        raise NotImplementedError

    def _op(self, name: str) -> Callable[..., Any]:
        """The op of this name, as it is called on such values."""
        operation: Callable[..., Any] = find_operation(name)
        return operation

    def _content(self) -> Dim:
        """The single number that this is known to hold; Undecided if unknown."""
        raise NotImplementedError

    # -- arithmetic --------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._op("add")(self, other)

    def __radd__(self, other: Any) -> Any:
        return self._op("add")(other, self)

    def __sub__(self, other: Any) -> Any:
        return self._op("subtract")(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._op("subtract")(other, self)

    def __mul__(self, other: Any) -> Any:
        return self._op("multiply")(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._op("multiply")(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _divide(self, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide(self, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._op("floor_divide")(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._op("floor_divide")(other, self)

    def __mod__(self, other: Any) -> Any:
        return self._op("remainder")(self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._op("remainder")(other, self)

    def __pow__(self, other: Any) -> Any:
        return self._op("pow")(self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._op("pow")(other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._op("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._op("matmul")(other, self)

    def __neg__(self) -> Any:
        return self._op("negative")(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._op("abs")(self)

    # -- bits, and truth values --------------------------------------------------------

    def __and__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "and"))(self, other)

    def __rand__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "and"))(other, self)

    def __or__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "or"))(self, other)

    def __ror__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "or"))(other, self)

    def __xor__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "xor"))(self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._op(_bitwise_or_logical(self, "xor"))(other, self)

    def __invert__(self) -> Any:
        is_bool = self.dtype.kind == "bool"
        return self._op("logical_not" if is_bool else "bitwise_invert")(self)

    def __lshift__(self, other: Any) -> Any:
        return self._op("bitwise_left_shift")(self, other)

    def __rshift__(self, other: Any) -> Any:
        return self._op("bitwise_right_shift")(self, other)

    # -- comparisons -------------------------------------------------------------------
    # Numbers that are known are compared now, so that dims decide in Python; all else
    # is an op, and using its result as a condition raises Undecided.

    def __eq__(self, other: object) -> Any:
        return _compare(self, other, "equal", lambda a, b: a == b)

    def __ne__(self, other: object) -> Any:
        return _compare(self, other, "not_equal", lambda a, b: a != b)

    def __lt__(self, other: Any) -> Any:
        return _compare(self, other, "less", lambda a, b: a < b)

    def __le__(self, other: Any) -> Any:
        return _compare(self, other, "less_equal", lambda a, b: a <= b)

    def __gt__(self, other: Any) -> Any:
        return _compare(self, other, "greater", lambda a, b: a > b)

    def __ge__(self, other: Any) -> Any:
        return _compare(self, other, "greater_equal", lambda a, b: a >= b)

    __hash__ = object.__hash__

    # -- parts -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return subscript(self, key)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise UsageError(
            "a value does not change",
            who=repr(self),
            hint="make another one: ops.where(mask, new, x), ops.scatter_nd(x, "
            "places, new), ops.dynamic_update_slice(x, new, starts)",
        )

    # -- shapes and element types ------------------------------------------------------

    @property
    def T(self) -> Any:  # noqa: N802 - numpy's name
        """The axes in reverse order."""
        return self._op("transpose")(self)

    @property
    def mT(self) -> Any:  # noqa: N802 - numpy's name
        """The last two axes exchanged."""
        return self._op("swap_last")(self)

    def astype(self, dtype: Any) -> Any:
        return self._op("astype")(self, dtype=dtype)

    def reshape(self, *shape: Any) -> Any:
        return self._op("reshape")(self, _shape_of_args(shape))

    def transpose(self, *axes: int | Sequence[int]) -> Any:
        """Permute the axes; reverse them if no order is given."""
        order = _shape_of_args(axes)
        if not order:
            return self._op("transpose")(self)
        return self._op("transpose")(self, perm=tuple(i % self.ndim for i in order))

    def swapaxes(self, first: int, second: int) -> Any:
        order = list(range(self.ndim))
        for axis in (first, second):
            if not -self.ndim <= axis < self.ndim:
                raise InvalidTypeError(
                    "there is no such axis",
                    who=str(self),
                    expected=f"{-self.ndim} to {self.ndim - 1}",
                    got=axis,
                )
        order[first], order[second] = order[second], order[first]
        return self._op("transpose")(self, perm=tuple(order))

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Any:
        return self._op("squeeze")(self, axis)

    def flatten(self) -> Any:
        return self._op("reshape")(self, (-1,))

    # -- along axes --------------------------------------------------------------------

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("sum")(self, axis, keepdims=keepdims)

    def prod(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("prod")(self, axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("mean")(self, axis, keepdims=keepdims)

    def var(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("var")(self, axis, keepdims=keepdims)

    def std(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("std")(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("max")(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("min")(self, axis, keepdims=keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("all")(self, axis, keepdims=keepdims)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return self._op("any")(self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        return _find_extreme(self, "argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        return _find_extreme(self, "argmin", axis, keepdims)

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return self._op("clip")(self, low, high)

    # -- gradients ---------------------------------------------------------------------

    def grad(self, wrt: Any) -> Any:
        """Gradients of the sum, with respect to one value or each of a list, as ops."""
        return gradients_here(self, wrt)


def _shape_of_args(numbers: tuple[Any, ...]) -> Any:
    """Accept `f(2, 3)` and `f((2, 3))` alike; a computed shape stays a value."""
    if len(numbers) == 1 and not isinstance(numbers[0], int):
        given = numbers[0]
        is_axis = isinstance(given, ArrayLike) and given.ndim == 0
        return numbers if is_axis else given
    return numbers


def _find_extreme(x: ArrayLike, name: str, axis: int | None, keepdims: bool) -> Any:
    """Indices along an axis; without one, the place among all elements."""
    if axis is not None:
        return x._op(name)(x, axis, keepdims=keepdims)
    found = x._op(name)(x.flatten(), 0)
    return x._op("reshape")(found, (1,) * x.ndim) if keepdims else found


def _divide(own: ArrayLike, a: Any, b: Any) -> Any:
    """`/` refuses integers: their quotient needs a rounding mode."""
    for x in (a, b):
        if isinstance(x, ArrayLike) and _dtype_kind(x) in ("int", "uint"):
            raise InvalidTypeError(
                "integers are not divided by /",
                who=f"{_format_type(a)} / {_format_type(b)}",
                expected="tensors of floats",
                got=x.dtype,
                hint="x // y rounds down, ops.divide(x, y) towards zero; or convert "
                "first: x.astype('float32') / y",
            )
    return own._op("divide")(a, b)


def _dtype_kind(x: ArrayLike) -> str:
    try:
        return x.dtype.kind
    except Undecided:
        return "unknown"


def _format_type(x: Any) -> str:
    return str(x.type) if hasattr(x, "type") else repr(x)


def _bitwise_or_logical(x: ArrayLike, name: str) -> str:
    return f"logical_{name}" if x.dtype.kind == "bool" else f"bitwise_{name}"


# -- comparisons -----------------------------------------------------------------------


def _compare(a: ArrayLike, b: object, name: str, ask: Callable[[Any, Any], Any]) -> Any:
    """The answer if both numbers are known, else an op."""
    if not _is_operand(b):
        return NotImplemented
    try:
        known = a._content(), b._content() if isinstance(b, ArrayLike) else b
    except Undecided:
        known = None
    if known is not None and _is_known_number(known[1]):
        try:
            return bool(ask(*known))
        except Undecided:
            if a.is_of_types:  # raises Undecided with what is unknown
                raise
    if a is b and _is_dim(a):
        return bool(ask(0, 0))
    return a._op(name)(a, b)


def _is_known_number(x: object) -> bool:
    """Whether this is a single known number, possibly symbolic."""
    return is_number(x) or isinstance(x, Sym) or getattr(x, "shape", None) == ()


def _is_operand(x: object) -> bool:
    """Whether a value can be compared with this: a number, a list or a tensor."""
    if isinstance(x, list | tuple):
        return bool(x) and is_literal(x)
    return is_number(x) or isinstance(x, Sym | OutputPort) or hasattr(x, "dtype")


def _is_dim(x: ArrayLike) -> bool:
    """Whether this is a single integer, which equals itself whatever it is."""
    try:
        return x.ndim == 0 and _dtype_kind(x) in ("int", "uint", "bool")
    except Undecided:
        return False
