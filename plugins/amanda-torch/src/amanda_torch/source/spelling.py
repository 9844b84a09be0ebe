"""Ops as the expressions that a person would write for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import Attr, CallLayout
from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_torch.codes import target_of
from amanda_torch.records import positional_names
from amanda_torch.source.bindings import FUNCTIONAL, FUNCTIONS, METHODS
from amanda_torch.source.python_text import (
    ADD,
    AND,
    ANY,
    ATOM,
    COMPARE,
    MUL,
    NAME,
    OR,
    SHIFT,
    UNARY,
    XOR,
    Expression,
    are_equal,
    expression,
    join,
    literal,
)

if TYPE_CHECKING:
    from amanda_torch.source.program import Program

__all__ = ["spell"]

_LAST: Final = (1 << 63) - 1
_USUAL: Final[Mapping[str, Any]] = {
    "device": "cpu", "layout": "strided", "pin_memory": False, "non_blocking": False,
    "cudnn_enable": True, "cudnn_enabled": True,
}  # fmt: skip
_UNUSED: Final = ("cudnn_enable", "cudnn_enabled", "pin_memory", "layout")
_SPREAD: Final = ("view", "reshape", "permute", "expand", "repeat", "flip")
_DIMS: Final = ("dim", "dims")
_EXPLICIT: Final = ("reduction",)
"""Arguments whose default in PyTorch's functions of Python is not that of the op."""
_GENERAL: Final = ("self", "other", "input")

_INFIX: Final[Mapping[str, tuple[str, int]]] = {
    "add": ("+", ADD), "sub": ("-", ADD), "mul": ("*", MUL), "div": ("/", MUL),
    "floor_divide": ("//", MUL), "remainder": ("%", MUL), "matmul": ("@", MUL),
    "bitwise_and": ("&", AND), "__and__": ("&", AND), "bitwise_or": ("|", OR),
    "__or__": ("|", OR), "bitwise_xor": ("^", XOR), "__xor__": ("^", XOR),
    "__lshift__": ("<<", SHIFT), "__rshift__": (">>", SHIFT),
    "eq": ("==", COMPARE), "ne": ("!=", COMPARE), "lt": ("<", COMPARE),
    "le": ("<=", COMPARE), "gt": (">", COMPARE), "ge": (">=", COMPARE),
}  # fmt: skip
_OF_PYTHON: Final[Mapping[str, tuple[str, int]]] = {
    "add": ("+", ADD), "sub": ("-", ADD), "mul": ("*", MUL), "truediv": ("/", MUL),
    "floordiv": ("//", MUL), "mod": ("%", MUL), "and_": ("&", AND), "or_": ("|", OR),
    "lshift": ("<<", SHIFT), "rshift": (">>", SHIFT),
    "eq": ("==", COMPARE), "ne": ("!=", COMPARE), "lt": ("<", COMPARE),
    "le": ("<=", COMPARE), "gt": (">", COMPARE), "ge": (">=", COMPARE),
}  # fmt: skip


def spell(op: Op, program: Program) -> Expression:
    """The expression of an op, with slots for its arguments."""
    arguments = program.arguments[op]
    kind = op.type or ""
    space, _, rest = kind.partition(".")
    base, _, overload = rest.partition(".")
    if space == "aten":
        special = _SPECIAL.get(base)
        found = None if special is None else special(arguments)
        found = found or _infix(base, overload, arguments)
        return found or _call(base, kind, arguments, program)
    if space == "_operator" and base in _OF_PYTHON:
        symbol, level = _OF_PYTHON[base]
        return _binary(symbol, level, *arguments.values())
    if space == "_operator" and base in ("neg", "pow", "not_"):
        return _of_python(base, list(arguments.values()))
    if kind.startswith(("math.", "torch.sym_")) or kind in _BUILTIN:
        items = join(map(literal, arguments.values()))
        return expression(_BUILTIN.get(kind, kind), "(", items, ")")
    return _any_call(kind, arguments, program.layout(op))


_BUILTIN: Final = {
    "torch.sym_max": "torch.sym_max", "_operator.abs": "abs", "#float": "float",
}  # fmt: skip


def _of_python(base: str, values: list[Any]) -> Expression:
    if base == "pow":
        return expression("pow(", join(map(literal, values)), ")")
    if base == "neg":
        return expression("-", literal(values[0], UNARY), level=UNARY)
    return expression("not ", literal(values[0], ATOM), level=ANY)


def _binary(symbol: str, level: int, a: Any, b: Any) -> Expression:
    left = level + (level == COMPARE)
    name = {ADD: "offset", MUL: "scale"}.get(level, "value")
    return expression(
        literal(a, left, name), f" {symbol} ", literal(b, level + 1, name), level=level
    )


def _infix(base: str, overload: str, arguments: Mapping[str, Any]) -> Expression | None:
    """An operator of Python, where the op has no further arguments."""
    given = list(arguments.items())
    if base == "rsub" and len(given) == 2:
        return _binary("-", ADD, given[1][1], given[0][1])
    if base in ("neg", "bitwise_not", "logical_not") and len(given) == 1:
        symbol = "-" if base == "neg" else "~"
        is_bool = _is_bool(given[0][1])
        if base == "logical_not" and not is_bool:
            return None
        return expression(symbol, literal(given[0][1], UNARY), level=UNARY)
    if base not in _INFIX or len(given) != 2 or overload.endswith("_mode"):
        return None
    symbol, level = _INFIX[base]
    a, b = given[0][1], given[1][1]
    if not any(isinstance(v, OutputPort) and not _is_number(v) for v in (a, b)):
        return None
    return _binary(symbol, level, a, b)


def _is_bool(value: Any) -> bool:
    type = value.type if isinstance(value, OutputPort) else None
    return isinstance(type, TensorType) and type.dtype.kind == "bool"


def _is_number(value: OutputPort) -> bool:
    """Whether a value is a symbolic number of Python."""
    return (value.op.type or "").startswith(("_operator", "aten.sym_", "torch.sym_"))


# -- calls ---------------------------------------------------------------------------


def _call(
    base: str, kind: str, arguments: dict[str, Any], program: Program
) -> Expression:
    """A function of PyTorch or a method of tensors, or else the overload itself."""
    layout = program.layouts[kind]
    arguments = {**arguments, **_explicit_defaults(layout, arguments)}
    given = {
        name: value for name, value in arguments.items()
        if not (name in _USUAL and name in layout.optional
                and (name in _UNUSED or value == _USUAL[name]))
    }  # fmt: skip
    if any(map(_has_gaps, given.values())):
        return _any_call(kind, arguments, layout)
    first = next(iter(given.values()), None)
    is_tensor = isinstance(first, OutputPort) and not _is_number(first)
    is_pointwise = "pointwise" in getattr(layout.op_def, "tags", ())
    if base in FUNCTIONAL:
        return _head_call(f"F.{base}", given, layout)
    if is_tensor and base in METHODS and (not is_pointwise or base.endswith("_")):
        name = next(iter(given))
        rest = {key: value for key, value in given.items() if key != name}
        head = expression(literal(first, ATOM), f".{base}")
        return _head_call(head, rest, layout, base in _SPREAD, name)
    if base in FUNCTIONS or base in METHODS:
        return _head_call(f"torch.{base}", given, layout)
    return _any_call(kind, arguments, layout)


def _has_gaps(value: Any) -> bool:
    """Whether an argument is a list with nulls, which only ops take: of indices."""
    return isinstance(value, list | tuple) and any(item is None for item in value)


def _explicit_defaults(
    layout: CallLayout, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The defaults of an op that PyTorch's functions of Python do not have."""
    omitted = [name for name in _EXPLICIT if name not in arguments]
    attrs = [layout.attrs[name] for name in omitted if name in layout.attrs]
    return {attr.name: attr.default for attr in attrs if not attr.required}


def _any_call(
    kind: str, arguments: Mapping[str, Any], layout: CallLayout
) -> Expression:
    """The call of an overload, or of a higher-order op."""
    if any(isinstance(value, Graph) for value in arguments.values()):
        raise FormatError("an op with bodies that source code cannot have", who=kind)
    return _head_call(target_of(kind), arguments, layout)


def _head_call(
    head: str | Expression, given: Mapping[str, Any], layout: CallLayout,
    spreads: bool = False, own: str = "",
) -> Expression:  # fmt: skip
    """A call: required arguments by position, others by name unless at a default."""
    items: list[Expression] = []
    by_name = False
    positional = positional_names(layout, given)
    for name in [*positional, *(n for n in given if n not in positional)]:
        attr = layout.attrs.get(name)
        if name not in given:
            if name in layout.ports and name not in layout.optional and name != own:
                items.append(literal(None))
            by_name = by_name or name in layout.optional
            continue
        value = given[name]
        is_default = (
            attr is not None
            and _is_default(value, attr)
            and name not in _EXPLICIT
            and not iskeyword(name)
        )
        if name in layout.optional and (is_default or value is None):
            by_name = True
            continue
        if spreads and isinstance(value, list | tuple) and value:
            items.append(join(literal(item) for item in value))
            continue
        text = _argument(name, value)
        is_optional = name in layout.optional and name not in layout.ports
        is_optional = is_optional and not any(map(iskeyword, positional))
        by_name = by_name or is_optional or name not in positional
        is_named = by_name and name != "self"
        items.append(expression(f"{name}=", text) if is_named else text)
    return expression(head, "(", join(items), ")")


def _is_default(value: Any, attr: Attr) -> bool:
    """Whether an argument is at its default: of floats, -0.0 is not 0.0."""
    default = attr.default
    if attr.required:
        return False
    if type(value) is float and type(default) in (int, float):
        return are_equal(value, float(default))
    return bool(value == default)


def _argument(name: str, value: Any) -> Expression:
    if isinstance(value, list) and len(value) == 1 and name in _DIMS:
        return literal(value[0], name="dim")
    if name == "memory_format" and isinstance(value, str):
        return expression(f"torch.{value}")
    return literal(value, name="value" if name in _GENERAL else name)


# -- ops with a form of their own ----------------------------------------------------


def _size(arguments: Mapping[str, Any]) -> Expression:
    shape = expression(literal(arguments["self"], ATOM), ".shape")
    return expression(shape, "[", literal(arguments["dim"]), "]")


def _slice(arguments: Mapping[str, Any]) -> Expression | None:
    start, end = arguments.get("start"), arguments.get("end")
    step = arguments.get("step", 1)
    bounds = [
        None if start in (None, 0) and not isinstance(start, OutputPort) else start,
        None if end == _LAST else end,
    ]
    first, last = ("" if b is None else literal(b, NAME) for b in bounds)
    text = expression(first, ":", last)
    if step != 1:
        text = expression(text, ":", literal(step, NAME))
    return _subscript(arguments["self"], arguments.get("dim", 0), text)


def _select(arguments: Mapping[str, Any]) -> Expression | None:
    return _subscript(arguments["self"], arguments["dim"], literal(arguments["index"]))


def _subscript(value: OutputPort, dim: int, item: Expression) -> Expression | None:
    """`x[:, item]`; None where the place of the dimension is not known."""
    rank = value.type.shape.rank if isinstance(value.type, TensorType) else None
    if dim == -1 and rank != 1:
        before = "..., "
    elif dim < 0 and rank is None:
        return None
    else:
        before = ":, " * (dim % rank if rank else dim)
    return expression(literal(value, ATOM), "[", before, item, "]")


def _index(arguments: Mapping[str, Any]) -> Expression:
    items = [
        expression(":") if item is None else literal(item)
        for item in arguments["indices"]
    ]
    return expression(literal(arguments["self"], ATOM), "[", join(items), "]")


def _to(arguments: Mapping[str, Any]) -> Expression | None:
    """`x.to(dtype)`, as of `_to_copy`."""
    kept = {
        k: v for k, v in arguments.items()
        if v not in (None, False) and k not in ("layout", "pin_memory")
        and (k, v) not in (("device", "cpu"), ("memory_format", "preserve_format"))
    }  # fmt: skip
    value, other = kept.pop("self"), kept.pop("other", None)
    items = [literal(other)] if other is not None else []
    if "dtype" in kept and "device" not in kept:
        items.append(literal(kept.pop("dtype")))
    items += [expression(f"{k}=", _argument(k, v)) for k, v in kept.items()]
    return expression(literal(value, ATOM), ".to(", join(items), ")")


def _split(arguments: Mapping[str, Any]) -> Expression:
    sizes = arguments.get("split_size", arguments.get("split_sizes"))
    items = [literal(sizes, name="split_size")]
    if arguments.get("dim", 0) != 0:
        items.append(expression("dim=", literal(arguments["dim"])))
    return expression(literal(arguments["self"], ATOM), ".split(", join(items), ")")


def _embedding(arguments: Mapping[str, Any]) -> Expression:
    items = [literal(arguments["indices"]), literal(arguments["weight"])]
    padding = arguments.get("padding_idx", -1)
    if padding != -1:
        items.append(expression("padding_idx=", literal(padding)))
    return expression("F.embedding(", join(items), ")")


def _einsum(arguments: Mapping[str, Any]) -> Expression | None:
    if arguments.get("path") is not None:
        return None
    items = [literal(arguments["equation"]), *map(literal, arguments["tensors"])]
    return expression("torch.einsum(", join(items), ")")


def _softmax(arguments: Mapping[str, Any], name: str = "softmax") -> Expression:
    items = [literal(arguments["self"]), expression("dim=", literal(arguments["dim"]))]
    if arguments.get("dtype") is not None:
        items.append(expression("dtype=", literal(arguments["dtype"])))
    return expression(f"F.{name}(", join(items), ")")


def _log_softmax(arguments: Mapping[str, Any]) -> Expression:
    return _softmax(arguments, "log_softmax")


def _batch_norm(arguments: Mapping[str, Any]) -> Expression:
    order = ["input", "running_mean", "running_var", "weight", "bias", "training"]
    items = [literal(arguments.get(name)) for name in order]
    items += [
        expression(f"{name}=", literal(arguments[name], name=name))
        for name in ("momentum", "eps")
    ]
    return expression("F.batch_norm(", join(items), ")")


def _dropout(arguments: Mapping[str, Any]) -> Expression:
    items = [literal(value, name=name) for name, value in arguments.items()]
    return expression("F.dropout(", join(items), ")")


def _elu(arguments: Mapping[str, Any]) -> Expression | None:
    if {"scale", "input_scale"} & arguments.keys():
        return None
    return expression("F.elu(", join(map(literal, arguments.values())), ")")


def _scalar(arguments: Mapping[str, Any]) -> Expression:
    return expression(literal(arguments["self"], ATOM), ".item()")


_SPECIAL: Final[Mapping[str, Callable[..., Expression | None]]] = {
    "_local_scalar_dense": _scalar,
    "_log_softmax": lambda a: None if a["half_to_float"] else _log_softmax(a),
    "_softmax": lambda a: None if a["half_to_float"] else _softmax(a),
    "_to_copy": _to,
    "batch_norm": _batch_norm,
    "dropout": _dropout,
    "einsum": _einsum,
    "elu": _elu,
    "embedding": lambda a: (
        None if a.get("sparse") or a.get("scale_grad_by_freq") else _embedding(a)
    ),
    "index": _index,
    "log_softmax": _log_softmax,
    "select": _select,
    "slice": _slice,
    "softmax": _softmax,
    "split": _split,
    "split_with_sizes": _split,
    "sym_size": _size,
    "to": _to,
    "_unsafe_view": lambda a: expression(
        literal(a["self"], ATOM), ".reshape(", join(map(literal, a["size"])), ")"
    ),
}  # fmt: skip
