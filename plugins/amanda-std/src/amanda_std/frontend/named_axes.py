"""Ops by axis names, in any order: `x * scale` where both have an axis `C`.

    x, w, b = named.tensors(x, w, b)         x: float32[N=batch, T=time, C=64]
    y = named.tanh(x @ w + b)                w: float32[C=64, K=8], b: float32[K=8]
    y.mean("T").values("K", "N")             positional again, in this order of axes

A tensor with named axes holds an array, a type or a graph value. Operands are
aligned by axis names: one that lacks an axis is broadcast along it, and axes of one
name have equal dims. Transposes and new axes are inserted only where needed. Unnamed
axes align from the right, as in numpy; so with the names `sample` and `recurrent`
alone, the rest of a model is written for one element of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from string import ascii_letters
from typing import Any, Final, NoReturn

from amanda.errors import InvalidTypeError, NamespaceError, Undecided, UsageError
from amanda.types import Dim, DType, ElementType, TensorType, Type, dims_equal
from amanda_std import ops
from amanda_std.engine.annotations import TENSOR
from amanda_std.engine.array_methods import ArrayLike
from amanda_std.engine.literals import is_number
from amanda_std.engine.operation import Operation
from amanda_std.engine.values import Operators, Typed, Value
from amanda_std.inference import shapes

__all__ = [
    "RECURRENT",
    "SAMPLE",
    "Named",
    "concat",
    "contract",
    "axis_order",
    "simple",
    "strict",
    "tensor",
    "tensors",
]

SAMPLE: Final = "sample"
RECURRENT: Final = "recurrent"
"""The two axes that simple models name: the example and the time step."""

Axes = tuple[str | None, ...]

_strict: ContextVar[bool] = ContextVar("amanda_std_named_strict", default=False)
_leading_axes: ContextVar[tuple[str, ...]] = ContextVar(
    "amanda_std_named_first", default=()
)


@contextmanager
def strict() -> Iterator[None]:
    """Context that refuses unnamed axes beside named ones."""
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)


@contextmanager
def axis_order(*names: str) -> Iterator[None]:
    """Context in which results have these axes first, in this order."""
    token = _leading_axes.set(names)
    try:
        yield
    finally:
        _leading_axes.reset(token)


# -- tensors ---------------------------------------------------------------------------


class Named(ArrayLike):
    """A tensor with named axes. Created by `tensor`.

    - `data`: the array, type or value that it holds
    - `axes`: a name, or None, for each axis"""

    __slots__ = ("axes", "data")

    def __init__(self, data: Any, axes: Axes) -> None:
        self.data = data
        self.axes = axes

    @property
    def type(self) -> TensorType:
        found = self.data.type if isinstance(self.data, Operators) else None
        if found is None:
            return TensorType(self.dtype, self.data.shape, self.axes)
        return TensorType(found.dtype, found.shape, self.axes)

    @property
    def dtype(self) -> ElementType:
        own = self.data.dtype
        return own if isinstance(self.data, Operators) else DType.of(own)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    def size(self, name: str) -> Dim:
        """The size of an axis."""
        return self.type.shape.dims[self.place(name)]

    def place(self, name: str) -> int:
        """The position of an axis."""
        if name not in self.axes:
            raise InvalidTypeError(
                f"there is no axis {name!r}",
                who=str(self),
                expected=_format_axes(self.axes),
            )
        return self.axes.index(name)

    def order(self, *names: str) -> Named:
        """Transpose to this order of axes; all must be given."""
        if sorted(names) != sorted(map(str, self.axes)):
            raise InvalidTypeError(
                "an order names every axis once",
                who=str(self),
                expected=_format_axes(self.axes),
                got=_format_axes(names),
            )
        return _with_names(_transpose_named(self.data, self.axes, names), names)

    def values(self, *names: str) -> Any:
        """The data without names, transposed to this order of axes."""
        return self.order(*names).data if names else self.data

    def rename(self, **names: str) -> Named:
        """Rename axes: `x.rename(T="S")`."""
        for name in names:
            self.place(name)
        found = tuple(names.get(n, n) if n is not None else None for n in self.axes)
        return _with_names(self.data, found)

    def part(self, **places: Any) -> Named:
        """Index along axes: `x.part(T=0, N=slice(1, None))`; integers remove the
        axis."""
        key: list[Any] = [slice(None)] * self.ndim
        for name, place in places.items():
            key[self.place(name)] = place
        kept = [a for a, k in zip(self.axes, key, strict=True) if isinstance(k, slice)]
        return _with_names(self.data[tuple(key)], tuple(kept))

    def grad(self, wrt: Any) -> Any:
        """Gradients of the sum; each has the axes of the value differentiated by."""
        many = isinstance(wrt, list | tuple)
        targets = tensors(*wrt) if many else (tensor(wrt),)
        gradients = self.data.grad([each.data for each in targets])
        found = [
            _with_names(g, x.axes) for g, x in zip(gradients, targets, strict=True)
        ]
        return found if many else found[0]

    def __matmul__(self, other: Any) -> Named:
        return _matmul_by_name(self, other)

    def __rmatmul__(self, other: Any) -> Named:
        return _matmul_by_name(other, self)

    def __getitem__(self, key: Any) -> NoReturn:
        raise self._by_place(f"[{key!r}]", "x.part(T=0)")

    def reshape(self, *shape: Any) -> NoReturn:
        raise self._by_place(f"reshape{shape}", "x.values('N', 'T').reshape(...)")

    def transpose(self, *axes: Any) -> NoReturn:
        raise self._by_place(f"transpose{axes}", "x.order('T', 'N')")

    def __array_namespace__(self, **_: Any) -> NoReturn:
        raise self._by_place("an op of axes by place", "named.tanh(x), or x.values()")

    def __iter__(self) -> NoReturn:
        raise self._by_place("for", "x.part(T=0)")

    def _by_place(self, what: str, instead: str) -> UsageError:
        return UsageError(
            "axes with names have no places", who=f"{what} of {self}", hint=instead
        )

    def _op(self, name: str) -> Callable[..., Any]:
        return _function(name)

    def _content(self) -> NoReturn:
        raise Undecided("the content of a tensor with named axes does not decide")

    def __bool__(self) -> NoReturn:
        self._content()

    def __repr__(self) -> str:
        return f"Named({self})"

    def __str__(self) -> str:
        return str(self.type)


def tensor(data: Any, *names: str | None) -> Named:
    """An array, type or value with axis names; by default those of its type."""
    if isinstance(data, Named):
        return data.order(*map(str, names)) if names else data
    if isinstance(data, Type):
        data = Typed(data)  # type: ignore[arg-type]
    if not isinstance(data, Operators) and not hasattr(data, "shape"):
        raise UsageError(
            "only tensors have axes with names",
            got=repr(data),
            hint="make a list an array: named.tensor(np.array(...), 'N', 'C')",
        )
    type_ = data.type if isinstance(data, Operators) else None
    rank = data.ndim if type_ is None else type_.shape.rank
    own = None if type_ is None else type_.axes
    axes = names or own or (None,) * rank
    names_given = [name for name in axes if name is not None]
    if len(axes) != rank or len(set(names_given)) != len(names_given):
        raise InvalidTypeError(
            "names do not fit the axes",
            who=str(type_ or tuple(data.shape)),
            expected=f"{rank} names, each once, or None", got=_format_axes(axes),
        )  # fmt: skip
    return _with_names(data, tuple(axes))


def tensors(*data: Any) -> tuple[Named, ...]:
    """Values with the axis names of their types."""
    return tuple(tensor(each) for each in data)


def simple(
    data: Any, *, sample: int | None = None, recurrent: int | None = None
) -> Named:
    """A tensor with an axis of examples, one of steps, and unnamed others."""
    shape = data.type.shape if isinstance(data, Operators) else data.shape
    axes: list[str | None] = [None] * len(shape)
    for name, place in ((SAMPLE, sample), (RECURRENT, recurrent)):
        if place is not None:
            axes[place] = name
    return tensor(data, *axes)


def _with_names(data: Any, axes: Axes) -> Named:
    """A tensor with names; a graph value stores them in its type."""
    if isinstance(data, Value) and data.type.axes != axes:
        if data.type.axes is not None:
            data = ops.identity(data)  # who has the old names keeps them
        old = data.port.type
        if isinstance(old, TensorType) and old.shape.has_rank:
            data.port.type = TensorType(old.dtype, old.shape, axes, old.value)
    elif isinstance(data, Typed):
        data = Typed(TensorType(data.type.dtype, data.type.shape, axes))
    return Named(data, axes)


def _format_axes(axes: Sequence[str | None]) -> str:
    return f"[{', '.join('no name' if a is None else a for a in axes)}]"


# -- operands meet ---------------------------------------------------------------------


def _align(name: str, operands: Sequence[Any]) -> tuple[list[Any], Axes]:
    """Operands aligned for broadcasting, and the axis names of the result."""
    rows = [a if is_number(a) or a is None else tensor(a) for a in operands]
    given = [a for a in rows if isinstance(a, Named)]
    _expect_fit(name, given)
    axes = _result_axes(given)
    ready = [_align_operand(a, axes) if isinstance(a, Named) else a for a in rows]
    return ready, axes


def _expect_fit(name: str, given: Sequence[Named]) -> None:
    """Check that equal names have equal dims, and names exist in strict mode."""
    who = f"{name}({', '.join(map(str, given))})"
    if _strict.get() and any(None in a.axes for a in given):
        raise UsageError(
            "axes without names are refused here, where names are strict",
            who=who, expected="a name for every axis",
            hint="give them names: named.tensor(x, 'N', 'C')",
        )  # fmt: skip
    known: dict[str, Dim] = {}
    for operand in given:
        for axis, dim in zip(operand.axes, operand.type.shape, strict=True):
            if (
                axis is not None
                and dims_equal(known.setdefault(axis, dim), dim) is False
            ):
                raise InvalidTypeError(
                    "axes of one name have one extent",
                    who=who, where=f"axis {axis!r}", expected=known[axis], got=dim,
                    hint="rename one of them: x.rename(T='S'); or drop an axis of 1",
                )  # fmt: skip


def _result_axes(given: Sequence[Named]) -> Axes:
    """The axes of the result: those of the operand with most axes, then the others."""
    found: list[str | None] = list(max(given, key=lambda a: a.ndim).axes)
    for operand in given:
        for axis in operand.axes:
            if axis is not None and axis not in found:
                names = [i for i, a in enumerate(found) if a is not None]
                found.insert(names[-1] + 1 if names else 0, axis)
    most = max(operand.axes.count(None) for operand in given)
    while found.count(None) < most:
        found.insert(found.index(None) if None in found else len(found), None)
    return _apply_axis_order(found)


def _apply_axis_order(axes: Sequence[str | None]) -> Axes:
    first = [name for name in _leading_axes.get() if name in axes]
    return (*first, *(a for a in axes if a is None or a not in first))


def _align_operand(operand: Named, axes: Axes) -> Any:
    """The data of an operand, transposed and expanded to these axes."""
    missing = axes.count(None) - operand.axes.count(None)
    present: list[bool] = []
    for axis in axes:
        skipped = axis is None and missing > 0
        missing -= skipped
        present.append(not skipped and (axis is None or axis in operand.axes))
    order = [axis for axis, there in zip(axes, present, strict=True) if there]
    data = _transpose_named(operand.data, operand.axes, order)
    new = tuple(i for i, there in enumerate(present) if not there)
    leading = next((i for i, there in enumerate(present) if there), len(present))
    if all(i < leading for i in new):
        return data  # numpy puts axes in front by itself
    return ops.expand_dims(data, tuple(i - leading for i in new if i >= leading))


def _transpose_named(
    data: Any, axes: Sequence[str | None], order: Sequence[Any]
) -> Any:
    """The data with named axes transposed; unnamed ones stay in order."""
    unnamed = iter([i for i, a in enumerate(axes) if a is None])
    perm = tuple(next(unnamed) if a is None else list(axes).index(a) for a in order)
    return data if perm == tuple(range(len(perm))) else ops.transpose(data, perm=perm)


# -- products --------------------------------------------------------------------------


def contract(a: Any, b: Any, *, over: str | Sequence[str]) -> Named:
    """The sum of products along axes; other common axes are batch axes."""
    left, right = tensor(a), tensor(b)
    names = [over] if isinstance(over, str) else list(over)
    _expect_fit("contract", [left, right])
    for name in names:
        left.place(name), right.place(name)
    if None in (*left.axes, *right.axes):
        raise UsageError(
            "a contraction goes by names",
            who=f"contract({left}, {right})", expected="a name for every axis",
        )  # fmt: skip
    out = [n for n in dict.fromkeys((*left.axes, *right.axes)) if n not in names]
    axes = _apply_axis_order(out)
    known = dict.fromkeys((*left.axes, *right.axes))
    letters = dict(zip(known, ascii_letters, strict=False))
    terms = ["".join(letters[n] for n in row) for row in (left.axes, right.axes, axes)]
    equation = f"{terms[0]},{terms[1]}->{terms[2]}"
    return _with_names(ops.einsum(left.data, right.data, equation=equation), axes)


def _matmul_by_name(a: Any, b: Any) -> Named:
    """Matrix product over the single common name; positional for unnamed axes."""
    left, right = tensor(a), tensor(b)
    if None in (*left.axes, *right.axes):
        return _batched_matmul(left, right)
    common = [name for name in left.axes if name in right.axes]
    if len(common) != 1:
        raise UsageError(
            "the product @ is over the one axis that both have",
            who=f"{left} @ {right}", got=_format_axes(common) if common else "no axis",
            hint="say it: named.contract(a, b, over='C')",
        )  # fmt: skip
    return contract(left, right, over=str(common[0]))


def _batched_matmul(left: Named, right: Named) -> Named:
    """Matrix product of the unnamed axes, batched over the named ones."""
    _expect_fit("matmul", [left, right])
    counts = [t.axes.count(None) for t in (left, right)]
    if not all(1 <= count <= 2 for count in counts):
        raise UsageError(
            "a product is of vectors and matrices",
            who=f"{left} @ {right}", expected="one axis or two without a name",
        )  # fmt: skip
    names = _apply_axis_order([a for a in _result_axes([left, right]) if a is not None])
    plain = not any(a is not None for a in right.axes)
    ready = []
    for operand, count, place in zip((left, right), counts, (-2, -1), strict=True):
        own = [name for name in names if name in operand.axes]
        data = _align_operand(operand, (*(own if plain else names), *[None] * count))
        is_row = count == 1 and not plain
        ready.append(ops.expand_dims(data, (place,)) if is_row else data)
    made = ops.matmul(*ready)
    if not plain:
        gone = tuple(p for p, c in zip((-2, -1), counts, strict=True) if c == 1)
        made = ops.squeeze(made, gone) if gone else made
    rest = sum(counts) - 2
    return _with_names(made, (*names, *[None] * rest))


def concat(*xs: Any, over: str) -> Named:
    """Concatenate tensors along an axis; their other axes are the same."""
    given = [tensor(x) for x in xs]
    first = given[0]
    at = first.place(over)
    for other in given[1:]:
        if None in other.axes or set(other.axes) != set(first.axes):
            raise InvalidTypeError(
                "tensors with the same axes are joined",
                who=str(other),
                expected=_format_axes(first.axes),
                got=_format_axes(other.axes),
            )
    names = [str(a) for a in first.axes]
    rows = [x.order(*names).data for x in given]
    return _with_names(ops.concat(*rows, axis=at), first.axes)


# -- all other ops ---------------------------------------------------------------------

_ELEMENTWISE_THEMES = ("nn.activation", "math.binary_special", "math.bits")
"""Themes whose composites are elementwise unless they have axes."""
_AXES_THEMES = (
    "math.reduction", "math.cumulative", "math.norms", "math.sorting",
    "nn.activation", "nn.local_response_norm", "nn.fused_layers",
)  # fmt: skip
"""Themes whose unary ops work along given axes."""


def is_elementwise(operation: Operation) -> bool:
    """Whether each element of the result depends on that position only."""
    if _axis_of(operation) or operation.form.many:
        return False
    if operation.is_composite:
        return _is_declared_in(operation, _ELEMENTWISE_THEMES)
    rule = operation.shape_rule
    of = getattr(rule, "function", None)
    return of in (shapes.elementwise, shapes.pointwise)


def is_along_axes(operation: Operation) -> bool:
    """Whether the op works along given axes and is independent over the others."""
    if not _axis_of(operation) or operation.form.many:
        return False
    tensors = [p for p in operation.form.params if p.role == TENSOR]
    return len(tensors) == 1 and _is_declared_in(operation, _AXES_THEMES)


def _is_declared_in(operation: Operation, themes: Sequence[str]) -> bool:
    return operation.function.__module__.removeprefix("amanda_std.ops.") in themes


def _axis_of(operation: Operation) -> str | None:
    form = operation.form
    known = {p.name for p in form.params} | set(form.attributes)
    return next((name for name in ("axes", "axis") if name in known), None)


def _function(name: str) -> Callable[..., Any]:
    operation = ops.find(name)
    if is_elementwise(operation):
        return _Elementwise(operation)
    if is_along_axes(operation):
        return _Along(operation)
    raise UsageError(
        f"names of axes do not tell what {operation.name} is of them",
        expected="an op of each place, or along axes",
        hint=f"ops.{operation.name}(x.values('N', 'C'), ...), and names for what it "
        "gives: named.tensor(y, 'N', 'C')",
    )


class _Elementwise:
    """An elementwise op of operands that are aligned by name."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def __call__(self, *args: Any, **attrs: Any) -> Named:
        params = self.operation.form.params[len(args) :]
        while params and params[0].name in attrs:
            args, params = (*args, attrs.pop(params[0].name)), params[1:]
        count = sum(p.role == TENSOR for p in self.operation.form.params_of(len(args)))
        ready, axes = _align(self.operation.name, args[:count])
        return _with_names(self.operation(*ready, *args[count:], **attrs), axes)


class _Along:
    """An op along axes: `named.softmax(x, "K")`; along all by default where
    supported."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def __call__(self, x: Any, *names: Any, **attrs: Any) -> Named:
        operand = tensor(x)
        names_given = [n for each in names for n in _names(each)]
        key = _axis_of(self.operation)
        assert key is not None
        places = tuple(operand.place(name) for name in names_given)
        if not names_given and operand.ndim > 1 and self._default(key) is not None:
            raise UsageError(
                f"{self.operation.name} goes along an axis that is named",
                who=str(operand), expected=_format_axes(operand.axes),
                hint=f"named.{self.operation.name}(x, {operand.axes[-1]!r})",
            )  # fmt: skip
        if key == "axis" and len(places) > 1:
            raise UsageError(
                f"{self.operation.name} works along one axis",
                got=_format_axes(names_given),
            )
        if names_given:
            attrs[key] = places if key == "axes" else places[0]
        made = self.operation(operand.data, **attrs)
        rank = made.type.shape.rank if isinstance(made, Operators) else made.ndim
        if rank == operand.ndim:
            return _with_names(made, operand.axes)
        gone = names_given or operand.axes
        return _with_names(made, tuple(a for a in operand.axes if a not in gone))

    def _default(self, key: str) -> Any:
        form = self.operation.form
        params = {p.name: p.default for p in form.params}
        return params[key] if key in params else form.attributes[key]


def _names(names_given: Any) -> Sequence[Any]:
    if names_given is None:
        return ()
    return names_given if isinstance(names_given, list | tuple) else (names_given,)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return _function(name.removesuffix("_"))
    except NamespaceError as error:
        raise AttributeError(error.message) from error
