"""The lattice of tensor types: comparison, join and meet."""

from __future__ import annotations

from amanda.errors import InvalidTypeError, Undecided
from amanda.types.dims import Dim, Sym
from amanda.types.dtypes import ElementType, unknown
from amanda.types.model import TensorType, Type
from amanda.types.shapes import Shape

__all__ = ["accepts", "join", "meet", "dims_equal"]


def dims_equal(a: Dim, b: Dim) -> bool | None:
    """Whether two dims are equal; None if undecided.

    >>> n = Sym.named("n")
    >>> dims_equal(n + n, 2 * n), dims_equal(n, n + 1), dims_equal(n, 4)
    (True, False, None)
    """
    try:
        return a == b
    except Undecided:
        return None


def accepts(wanted: TensorType, got: TensorType) -> bool | None:
    """Whether every tensor of type `got` has type `wanted`; None if undecided.

    Unknown parts of `wanted` (rank, dims, dtype, content) accept anything. Names of
    axes are not compared.

    >>> row = TensorType("float32", [Sym.unknown(), 3])
    >>> accepts(row, TensorType("float32", [5, 3]))
    True
    >>> print(accepts(row, TensorType("float32")))
    None
    """
    answers = [_accepts_dtype(wanted.dtype, got.dtype)]
    if wanted.shape.has_rank:
        if not got.shape.has_rank:
            answers.append(None)
        elif wanted.shape.rank != got.shape.rank:
            answers.append(False)
        else:
            pairs = zip(wanted.shape, got.shape, strict=True)
            answers += [_is_open(a) or dims_equal(a, b) for a, b in pairs]
    if wanted.value is not None and False not in answers:
        answers += _same_content(wanted, got)
    if False in answers:
        return False
    return None if None in answers else True


def join(a: TensorType, b: TensorType) -> TensorType:
    """The most specific type that includes both; parts that differ become unknown.

    >>> join(TensorType("float32", [2, 3]), TensorType("float32", [2, 4]))
    float32[2, ?]
    """
    if a == b:
        return a
    shape = Shape(None)
    if a.shape.has_rank and b.shape.has_rank and a.shape.rank == b.shape.rank:
        pairs = zip(a.shape, b.shape, strict=True)
        shape = Shape([x if dims_equal(x, y) else Sym.unknown() for x, y in pairs])
    axes = a.axes if a.axes == b.axes and shape.has_rank else None
    return TensorType(a.dtype if a.dtype == b.dtype else unknown, shape, axes)


def meet(a: TensorType, b: TensorType) -> TensorType:
    """The type of a tensor that has both types; InvalidTypeError if none can.

    Numbers take precedence over symbols, named symbols over anonymous ones, then `a`
    over `b`.

    >>> meet(TensorType("float32", [Sym.named("n"), 3]), TensorType("unknown", [2, 3]))
    float32[2, 3]
    """
    if a.dtype is not unknown and b.dtype is not unknown and a.dtype != b.dtype:
        raise _type_conflict(a, b)
    shape = a.shape if a.shape.has_rank else b.shape
    if a.shape.has_rank and b.shape.has_rank:
        if a.shape.rank != b.shape.rank:
            raise _type_conflict(a, b)
        pairs = zip(a.shape, b.shape, strict=True)
        if any(dims_equal(x, y) is False for x, y in pairs):
            raise _type_conflict(a, b)
        pairs = zip(a.shape, b.shape, strict=True)
        shape = Shape([min(x, y, key=_openness) for x, y in pairs])
    if a.value is not None and b.value is not None and False in _same_content(a, b):
        raise _type_conflict(a, b)
    axes = a.axes if a.axes is not None else b.axes
    value = a.value if a.value is not None else b.value
    return TensorType(b.dtype if a.dtype is unknown else a.dtype, shape, axes, value)


def _same_content(a: TensorType, b: TensorType) -> list[bool | None]:
    if a.elements is None or b.elements is None:
        return [None]
    return [dims_equal(x, y) for x, y in zip(a.elements, b.elements, strict=True)]


def _accepts_dtype(wanted: ElementType, got: ElementType) -> bool | None:
    if wanted is unknown or wanted == got:
        return True
    return None if got is unknown else False


def _is_open(dim: Dim) -> bool:
    return isinstance(dim, Sym) and dim.is_anonymous


def _openness(dim: Dim) -> int:
    return 2 if _is_open(dim) else int(isinstance(dim, Sym))


def _type_conflict(a: Type, b: Type) -> InvalidTypeError:
    return InvalidTypeError("no tensor has both types", expected=a, got=b)
