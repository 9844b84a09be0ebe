"""Arguments of ops of PyTorch that are written: operands, numbers and sizes.

A size that is known at run time only is a symbolic number of PyTorch. It is computed
from the dims of a tensor that is at hand where the dim follows from one, so that it
stays an expression of symbols; else from an element of a tensor:

    write_call(o, "reshape", x, shape=write_sizes(o, shape))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from amanda.graph import Graph, OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType, Sym, TensorType
from amanda_std.mappings import rank_of, static_value, tensor_type_of

__all__ = [
    "INT",
    "broadcasts_to",
    "dims_of",
    "dtype_of",
    "number_or_value",
    "required_static",
    "result_dims",
    "write_call",
    "write_constant",
    "write_size",
    "write_sizes",
]

INT: Final = DType("int64")


def write_call(o: Any, name: str, *args: Any, **attrs: Any) -> Any:
    """Build an op of ATen: `default` where no overload is named."""
    return o.op(f"aten.{name if '.' in name else f'{name}.default'}", *args, **attrs)


def dims_of(value: Any) -> tuple[Any, ...]:
    """The dims of a value; Undecided where its rank is unknown."""
    return tuple(tensor_type_of(value).shape.dims)


def dtype_of(value: Any) -> DType:
    """The element type of a value."""
    dtype = tensor_type_of(value).dtype
    if not isinstance(dtype, DType) or dtype.kind == "unknown":
        raise Decline(f"the element type of {value} is unknown")
    return dtype


def result_dims(o: Any, index: int = 0) -> tuple[Any, ...]:
    """The dims of a result of the op that is mapped."""
    return dims_of(o.source.outputs[index])


def broadcasts_to(x: Any, dims: Sequence[Any]) -> bool:
    """Whether a value has exactly these dims."""
    return [_key(d) for d in dims_of(x)] == [_key(d) for d in dims]


def required_static(value: Any, what: str) -> Any:
    """A shape argument as numbers; Decline where it is computed."""
    found = static_value(value)
    if found is None and isinstance(value, OutputPort):
        elements = tensor_type_of(value).elements
        if elements is not None and all(isinstance(n, int) for n in elements):
            shape = [int(n) for n in dims_of(value)]
            found = np.array(elements).reshape(shape).tolist()
    if found is None:
        raise Decline(f"{what} is known at run time only")
    return found


def number_or_value(value: Any) -> Any:
    """A scalar constant as the number of Python that it is; another value itself."""
    tensor = constant_of(value) if isinstance(value, OutputPort) else None
    if tensor is None or tensor.shape != () or value.marks:
        return value
    number = tensor.numpy().item()
    return number if isinstance(number, bool | int | float) else value


def write_constant(o: Any, array: Any) -> Any:
    """A constant, of a NumPy array."""
    tensor = Tensor.of(np.asarray(array))
    port = o.graph.constant(tensor).output
    port.type = tensor.type_with_content()
    return port


# -- sizes -------------------------------------------------------------------------


def write_sizes(o: Any, value: Any) -> list[Any]:
    """A shape argument as numbers and symbolic numbers."""
    known = static_value(value)
    if known is not None:
        return [int(n) for n in np.ravel(known)]
    elements = tensor_type_of(value).elements
    if elements is None:
        (count,) = dims_of(value) or (1,)
        if not isinstance(count, int):
            raise Decline("the number of sizes is known at run time only")
        elements = (None,) * count
    return [write_size(o, dim, value, i) for i, dim in enumerate(elements)]


def write_size(o: Any, dim: Any, value: Any = None, index: int = 0) -> Any:
    """A dim as a number, or as a symbolic number: of the dims of tensors, or else of
    an element of `value`, a tensor of sizes."""
    if isinstance(dim, int):
        return dim
    found = None if dim is None else _from_dims(o, dim)
    if found is None:
        found = _from_expression(o, dim)
    if found is not None:
        return found
    if value is None:
        raise Decline(f"the size {dim} follows from no dim of a tensor")
    if rank_of(value):
        item = write_call(o, "select.int", value, dim=0, index=index)
        item.type = TensorType(dtype_of(value), [])
        value = item
    size = write_call(o, "item", value)
    size.type = TensorType(INT, [])
    return size


def _key(dim: Any) -> Any:
    return dim.key if isinstance(dim, Sym) else dim


def _from_dims(o: Any, dim: Sym) -> OutputPort | None:
    """The size of an axis that has this dim."""
    for port in _tensors(o):
        type = port.type
        if not isinstance(type, TensorType) or not type.shape.has_rank:
            continue
        for axis, each in enumerate(type.shape.dims):
            if isinstance(each, Sym) and each.key == dim.key:
                return _size_of_axis(o, port, axis, dim)
    return None


def _tensors(o: Any) -> Iterator[OutputPort]:
    """Values that sizes may be of: first the inputs of the graph."""
    graph: Graph | None = o.graph
    while graph is not None:
        yield from graph.parameters
        for op in graph:
            yield from op.outputs
        graph = graph.outer


def _size_of_axis(o: Any, port: OutputPort, axis: int, dim: Any) -> OutputPort:
    for user in port.user_ops:
        is_size = user.type == "aten.sym_size.int" and user.attrs.get("dim") == axis
        if is_size and user.graph is o.graph:
            return user.output
    size = write_call(o, "sym_size.int", port, dim=axis)
    size.type = TensorType(INT, [], value=dim)
    return size  # type: ignore[no-any-return]


_OPERATORS: Final = {
    ast.Add: "_operator.add", ast.Sub: "_operator.sub", ast.Mult: "_operator.mul",
    ast.FloorDiv: "_operator.floordiv", ast.Mod: "_operator.mod",
}  # fmt: skip
_FUNCTIONS: Final = {"min": "torch.sym_min", "max": "torch.sym_max"}


def _from_expression(o: Any, dim: Any) -> Any:
    """A dim by arithmetic of the sizes that it is an expression of; None if one of
    them is not at hand."""
    if not isinstance(dim, Sym) or dim.is_anonymous or dim.name is not None:
        return None
    sizes = {}
    for i, symbol in enumerate(sorted(dim.free, key=str)):
        size = _from_dims(o, symbol)
        if size is None:
            return None
        sizes[f"x{i}"] = (Sym.named(f"x{i}"), symbol, size)
    plain = dim.substitute({symbol: new for new, symbol, _ in sizes.values()})
    tree = ast.parse(str(plain), mode="eval").body
    found = _compute(o, tree, {name: size for name, (_, _, size) in sizes.items()})
    if isinstance(found, OutputPort):
        found.type = TensorType(INT, [], value=dim)
    return found


def _compute(o: Any, node: ast.expr, sizes: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp):
        return _arithmetic(o, "_operator.mul", _compute(o, node.operand, sizes), -1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        first, *rest = (_compute(o, each, sizes) for each in node.args)
        for each in rest:
            first = _arithmetic(o, _FUNCTIONS[node.func.id], first, each)
        return first
    assert isinstance(node, ast.BinOp)
    operands = (_compute(o, each, sizes) for each in (node.left, node.right))
    return _arithmetic(o, _OPERATORS[type(node.op)], *operands)


def _arithmetic(o: Any, type: str, a: Any, b: Any) -> Any:
    found = o.op(type, a, b)
    found.type = TensorType(INT, [])
    return found
