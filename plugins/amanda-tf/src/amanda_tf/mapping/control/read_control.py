"""From TensorFlow: control flow by bodies, and effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from amanda.mapping import constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std import ops
from amanda_std.dataflow import with_known_elements
from amanda_std.mappings import expect, inline_body, known_content

__all__ = ["READ"]


def read_identity_n(*xs: Any) -> Any:
    """IdentityN to `identity` of each input."""
    return tuple(ops.identity(x) for x in xs)


def read_assert(condition: Any, *shown: Any, summarize: int = 3) -> Any:
    """Strings that are constant become the message."""
    del summarize
    texts, values = [], []
    for value in shown:
        tensor = constant_of(value.port)
        if tensor is not None and str(tensor.dtype) == "string":
            found = known_content(value)
            texts += [_text(t) for t in (found if isinstance(found, list) else [found])]
        else:
            values.append(value)
    ops.assert_(condition, *values, message=" ".join(texts))  # noqa: PT009
    return ()


def _text(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def read_if(
    condition: Any, *xs: Any, then_branch: Any, else_branch: Any, Tout: Any = None,  # noqa: N803
    output_shapes: Any = None, context: Any,
) -> Any:  # fmt: skip
    """If and StatelessIf to `if`."""
    del Tout, output_shapes
    bodies = {"then_branch": then_branch, "else_branch": else_branch}
    return tuple(ops.if_(_truth(condition), *_branches(bodies, context), *xs))


def _branches(bodies: Mapping[str, Any], context: Any) -> list[Callable[..., Any]]:
    """The branches as functions; an optional without a value is zeros in one."""
    sources = context.source.bodies

    def call(name: str, body: Any) -> Callable[..., Any]:
        def branch(*values: Any) -> Any:
            results = list(inline_body(body, values))
            for i, value in enumerate(sources[name].results):
                if value is not None and _is_nothing(value):
                    others = [b.results[i] for k, b in bodies.items() if k != name
                              and not _is_nothing(sources[k].results[i])]  # fmt: skip
                    results[i] = _zeros_like_any(others, value=results[i])
            return tuple(results)

        return branch

    return [call(name, body) for name, body in bodies.items()]


def _is_nothing(value: Any) -> bool:
    """Whether a value of TensorFlow is an optional without a value."""
    while value.op.type == "Identity" and value.op.inputs[0] is not None:
        value = value.op.inputs[0]
    return bool(value.op.type == "OptionalNone")


def _zeros_like_any(values: list[Any], value: Any) -> Any:
    """Zeros of the first type with a rank, symbolic dims as 0; else a given value."""
    for each in values:
        type = None if each is None else each.type
        if isinstance(type, TensorType) and type.shape.has_rank:
            dims = [d if isinstance(d, int) else 0 for d in type.shape.dims]
            return ops.zeros(dims, dtype=type.dtype)
    return value


def _truth(condition: Any) -> Any:
    """Whether a scalar is not zero, or a tensor not empty."""
    if condition.dtype.kind == "bool":
        return ops.reshape(condition, [])
    if condition.type.shape.rank:
        return ops.greater(ops.size(condition), np.int64(0))
    return ops.not_equal(condition, ops.number_like(condition, value=0))


def read_while(
    *xs: Any, cond: Any, body: Any, output_shapes: Any = None,
    parallel_iterations: int = 10,
) -> Any:  # fmt: skip
    """While and StatelessWhile to `while`."""
    del output_shapes, parallel_iterations
    xs = with_known_elements(xs, body)
    return tuple(
        ops.while_(
            lambda *v: _truth(inline_body(cond, v)[0]),
            lambda *v: inline_body(body, v),
            *xs,
        )
    )


def read_case(
    index: Any, *xs: Any, branches: Any, Tout: Any = None,  # noqa: N803
    output_shapes: Any = None, context: Any, **bodies: Any,
) -> Any:  # fmt: skip
    """The last branch, if the index is out of range."""
    del branches, Tout, output_shapes
    parts = {f"branches{i}": bodies[f"branches{i}"] for i in range(len(bodies))}
    calls = _branches(parts, context)
    return tuple(ops.case(ops.astype(index, dtype="int64"), calls, *xs))


def read_print(x: Any, *shown: Any, message: str = "", first_n: int = -1,
               summarize: int = 3) -> Any:  # fmt: skip
    """The message is shown with the tensor itself, not with others."""
    del shown, first_n, summarize
    return ops.print(x, text=message)


def read_string_format(
    *xs: Any, template: str, placeholder: str = "%s", summarize: int = 3, context: Any
) -> Any:
    """Values that are printed, each after the text before it; else it is declined."""
    del summarize
    users = context.source.output.user_ops
    expect(
        all(op.type == "PrintV2" for op in users), "texts are formatted to be printed"
    )
    texts = template.split(placeholder)
    for text, x in zip(texts, xs, strict=False):
        ops.print(x, text=text.strip())
    return Tensor.strings([template], ())


def read_print_text(text: Any, *, context: Any, **_stream: Any) -> Any:
    """Prints a text, unless its parts are printed where it is formatted."""
    source = context.source.inputs[0]
    if source is None or source.op.type != "StringFormat":
        ops.print(text)
    return ()


def read_optional(x: Any, *, Toutput_types: Any = None) -> Any:  # noqa: N803
    """An optional that has a value is this value."""
    del Toutput_types
    return ops.identity(x)


def read_no_value() -> Any:
    """Any value: branches have another one in its place."""
    return ops.zeros([0], dtype="float32")


def read_optional_value(
    x: Any, *, output_types: Any = None, output_shapes: Any = None
) -> Any:
    """OptionalGetValue to the values themselves."""
    del output_types, output_shapes
    return ops.identity(x)


READ: dict[str, Any] = {
    "StringFormat": read_string_format,
    "PrintV2": read_print_text,
    "OptionalFromValue": read_optional,
    "OptionalNone": read_no_value,
    "OptionalGetValue": read_optional_value,
    "ToBool": _truth,
    "Case": read_case,
    "StatelessCase": read_case,
    "Print": read_print,
    "IdentityN": read_identity_n,
    "Assert": read_assert,
    "If": read_if,
    "StatelessIf": read_if,
    "While": read_while,
    "StatelessWhile": read_while,
}
