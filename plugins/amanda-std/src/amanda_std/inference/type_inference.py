"""Type inference: dtypes from the op's form, shapes from rules, content from kernels.

Unknown facts stay open and are never guessed: if a rule raises Undecided, the shape
is unknown and the dtype still follows from the form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from amanda.errors import AmandaError, InvalidTypeError, Undecided
from amanda.graph import Graph
from amanda.types import DType, Sym, TensorType, Type, unknown
from amanda_std.engine import diagnostics
from amanda_std.engine.annotations import BODY, SHAPE_ARG, TENSOR, ArgKind, Param
from amanda_std.engine.values import Operators, Typed, bounded_definition, types_only
from amanda_std.inference.shape_arguments import (
    MAX_KNOWN_ELEMENTS,
    UnknownShapeArg,
    is_static,
    may_be_negative,
    unknown_integer,
)

if TYPE_CHECKING:
    from amanda_std.engine.operation import Operation

_MAX_ENTRIES = 1024


class TypeCache(dict[Any, tuple[Type, ...]]):
    """Result types inferred before; inferring a composite runs its whole definition."""

    __slots__ = ()

    def keep(self, key: Any, value: tuple[Type, ...]) -> None:
        """Store a result; clears the cache when it is full."""
        if len(self) >= _MAX_ENTRIES:
            self.clear()
        self[key] = value


def unknown_dtype() -> Undecided:
    """The error for a number whose dtype depends on tensors of unknown dtype."""
    return Undecided(
        "the element type of a number is that of the tensors beside it, not known here"
    )


def result_types(
    operation: Operation, args: Sequence[Any], attrs: Mapping[str, Any], memo: TypeCache
) -> tuple[Type, ...]:
    """The result types of an op for arguments of these types."""
    key = _cache_key(args, attrs)
    known = None if key is None else memo.get(key)
    if known is not None:
        return known
    params = operation.form.params_of(len(args))
    try:
        dtype = shared_dtype(operation, params, args)
        found = _infer(operation, params, args, attrs, dtype)
    except AmandaError as error:
        diagnostics.add_context(error, operation, args)
        raise
    except diagnostics.BARE_ERRORS as error:
        raise diagnostics.explain_error(operation, args, attrs, error) from error
    if key is not None and not introduces_symbols(found, args):
        memo.keep(key, found)
    return found


def _infer(
    operation: Operation,
    params: Sequence[Param],
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    dtype: Any,
) -> tuple[Type, ...]:
    try:
        if operation.type_rule is not None:
            return tuple(operation.type_rule(args, attrs))
        if operation.is_composite:
            return _infer_by_definition(operation, args, attrs)
        if operation.shape_rule is not None:
            shapes = operation.shape_rule(args, attrs)
            if not operation.form.many:
                shapes = [shapes]
            kinds = _result_kinds(operation, len(shapes))
            types = [
                TensorType(_dtype_of(kind, dtype, attrs), shape)
                for kind, shape in zip(kinds, shapes, strict=True)
            ]
            return _add_content(operation, params, args, attrs, types)
    except Undecided:
        if operation.form.varies and not attrs.get("outputs"):
            raise
    count = _result_count(operation, attrs)
    kinds = _result_kinds(operation, count)
    return tuple(kind.open(_dtype_of(kind, dtype, attrs)) for kind in kinds)


def _infer_by_definition(
    operation: Operation, args: Sequence[Any], attrs: Mapping[str, Any]
) -> tuple[Type, ...]:
    """The result types of a composite, through its definition."""
    lifted = [Typed(a) if isinstance(a, TensorType) else a for a in args]
    with types_only(), bounded_definition(), np.errstate(all="ignore"):
        made = operation.function(*lifted, **attrs)
    many = made if isinstance(made, tuple | list) else (made,)
    found: list[Type] = []
    for value in many:
        if isinstance(value, Operators):
            found.append(value.type)
        elif isinstance(value, Type):
            found.append(value)
        else:
            from amanda_std.engine.arrays import array_type

            found.append(array_type(value))
    return tuple(found)


# -- element types -------------------------------------------------------------


def shared_dtype(
    operation: Operation, params: Sequence[Param], args: Sequence[Any]
) -> Any:
    """The common dtype T of an op's tensors; `unknown` if none has one."""
    found: Any = unknown
    first = ""
    for p, a in zip(params, args, strict=True):
        if p.kind.role != TENSOR or not isinstance(a, TensorType):
            continue
        own = a.dtype
        if own is unknown:
            continue
        _check_kind(operation, p, own)
        if not p.kind.shared:
            continue
        if found is unknown:
            found, first = own, p.name
        elif found != own:
            raise _dtype_mismatch(operation, p.name, own, first, found)
    return found


def array_dtype(
    operation: Operation, params: Sequence[Param], args: Sequence[Any]
) -> DType | None:
    """The common dtype T of an op called on arrays, checked as in graphs."""
    found: Any = None
    first = ""
    for p, a in zip(params, args, strict=True):
        if p.kind.role != TENSOR:
            continue
        own = getattr(a, "dtype", None)
        if own is None:
            continue
        dtype = DType.of(own)
        if p.kind.kinds and dtype.kind not in p.kind.kinds:
            _check_kind(operation, p, dtype)
        if not p.kind.shared:
            continue
        if found is None:
            found, first = dtype, p.name
        elif found is not dtype:
            raise _dtype_mismatch(operation, p.name, dtype, first, found)
    return found  # type: ignore[no-any-return]


def _check_kind(operation: Operation, param: Param, dtype: Any) -> None:
    kinds = param.kind.kinds
    if kinds and dtype.kind not in kinds and dtype.kind != "unknown":
        raise InvalidTypeError(
            f"{operation.name} does not take {dtype}",
            where=f"argument {param.name!r}",
            expected=f"an element type of kind {', '.join(kinds)}",
            got=dtype,
            hint="convert it first: ops.astype(x, dtype=...)",
        )


def _dtype_mismatch(
    operation: Operation, name: str, dtype: Any, first: str, other: Any
) -> InvalidTypeError:
    return InvalidTypeError(
        f"{operation.name} takes tensors of one element type",
        where=f"argument {name!r}",
        expected=f"{other}, as {first!r} is",
        got=dtype,
        hint="convert one of them first: ops.astype(x, dtype=...)",
    )


def _dtype_of(kind: ArgKind, shared: Any, attrs: Mapping[str, Any]) -> Any:
    if kind.attribute is not None:
        return attrs[kind.attribute] or unknown
    if kind.dtype is not None:
        return kind.dtype
    if kind.derive is not None:
        return kind.derive(shared)
    return shared if kind.shared else unknown


def _result_kinds(operation: Operation, count: int) -> tuple[ArgKind, ...]:
    kinds = operation.form.results
    return kinds * count if operation.form.varies else kinds


def _result_count(operation: Operation, attrs: Mapping[str, Any]) -> int:
    """How many results there are, if nothing else is known."""
    if not operation.form.varies:
        return len(operation.form.results)
    if attrs.get("outputs"):
        return int(attrs["outputs"])
    raise InvalidTypeError(
        "the number of results is not known", hint="say it: outputs=..."
    )


# -- known content ---------------------------------------------------------------


def _add_content(
    operation: Operation,
    params: Sequence[Param],
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    types: list[TensorType],
) -> tuple[Type, ...]:
    rule = operation.content_rule
    if rule is None or not all(map(_can_have_content, types)):
        return tuple(types)
    try:
        if rule is True:
            values = _content_by_kernel(operation, params, args, attrs)
        else:
            values = rule(args, attrs)
        if values is None:
            return tuple(types)
        if not operation.form.many:
            values = (values,)
        return tuple(
            _type_with_content(t, v) for t, v in zip(types, values, strict=True)
        )
    except (
        Undecided,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ):
        return tuple(types)  # objects are no integers to every kernel


def _can_have_content(type: TensorType) -> bool:
    if type.dtype.kind not in ("int", "uint", "bool") or not type.shape.is_static:
        return False
    return int(type.shape.size) <= MAX_KNOWN_ELEMENTS


def _content_by_kernel(
    operation: Operation,
    params: Sequence[Param],
    args: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    """Known content by calling the kernel on object arrays of dims."""
    ready: list[Any] = []
    known = 0
    for p, a in zip(params, args, strict=True):
        if p.kind.role == BODY:
            return None
        if p.kind.role == SHAPE_ARG or a is None:
            if isinstance(a, UnknownShapeArg) or not is_static(a):
                return None
            ready.append(a)
        elif not isinstance(a, TensorType):
            return None
        elif a.value is not None:
            known += 1
            ready.append(object_array(a.value, a))
        elif params[-1].variadic and _can_have_content(a):
            ready.append(_unknown_array(a))
        else:
            return None
    return operation.function(*ready, **attrs) if known else None


def object_array(value: Any, type: TensorType) -> Any:
    """Known content as a numpy array of Python objects."""
    import numpy as np

    array = np.empty([int(d) for d in type.shape], object)
    if array.size:
        array[...] = value
    return array


def _unknown_array(type: TensorType) -> Any:
    import numpy as np

    array = np.empty([int(d) for d in type.shape], object)
    for at in np.ndindex(array.shape):
        array[at] = unknown_integer()
    return array


def _type_with_content(type: TensorType, value: Any) -> TensorType:
    import numpy as np

    array = np.asarray(value, object)
    items = array.reshape(-1).tolist()
    if array.shape != type.shape.dims or not _in_range(items, type.dtype):
        return type
    if items and all(isinstance(d, Sym) and may_be_negative(d) for d in items):
        return type
    kind = bool if type.dtype.kind == "bool" else int
    exact = [d if isinstance(d, Sym) else kind(d) for d in items]
    flat = np.empty(len(exact), object)
    flat[:] = exact
    return TensorType(
        type.dtype, type.shape, type.axes, flat.reshape(array.shape).tolist()
    )


def _in_range(items: Sequence[Any], dtype: Any) -> bool:
    """Whether all numbers are in range for the dtype, so that none wraps."""
    numbers = [d for d in items if not isinstance(d, Sym)]
    if dtype.kind == "bool":
        return all(d in (0, 1) for d in numbers)
    signed = dtype.kind == "int"
    low = -(1 << (dtype.bits - 1)) if signed else 0
    high = 1 << (dtype.bits - signed)
    return all(low <= d < high for d in numbers)


# -- the memo ----------------------------------------------------------------------


def _cache_key(args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    try:
        parts = tuple(_key_part(a) for a in args)
        named = tuple((k, type(v), v) for k, v in attrs.items())
        hash((parts, named))
    except TypeError:
        return None
    return parts, named


def _key_part(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_key_part, value))
    if isinstance(value, Sym):
        return ("dim", value.key)
    if isinstance(value, UnknownShapeArg | Graph):
        raise TypeError
    return value


def introduces_symbols(found: Sequence[Type], args: Sequence[Any]) -> bool:
    """Whether the types hold a new anonymous symbol, so that the next call needs
    another one."""
    if all(map(_is_surely_static, found)):
        return False
    new = {symbol.key for symbol in _free_symbols(found) if symbol.is_anonymous}
    return bool(new) and not new <= {symbol.key for symbol in _free_symbols(args)}


def _is_surely_static(type: Type) -> bool:
    if not isinstance(type, TensorType):
        return False
    return type.value is None and type.shape.is_static


def _free_symbols(values: Iterable[Any]) -> list[Sym]:
    """The symbols in dims of types, in values and in tuples of them."""
    found: list[Sym] = []
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        kind = value.__class__
        if kind is TensorType:
            shape = value.shape
            if shape.has_rank and not shape.is_static:
                waiting += [dim for dim in shape.dims if dim.__class__ is not int]
            if value.value is not None:
                waiting.append(value.value)
        elif kind is Sym:
            found += (value,) if value.is_anonymous else value.free
        elif isinstance(value, tuple):
            waiting += [item for item in value if item.__class__ is not int]
    return found
