"""Small graphs of one op each, made from its entry: every attribute as it may be.

The first specimen of an op has every attribute at its default; each of the others has
one at another value. Nothing here knows a mapping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from amanda.dictionary import Attr, Dictionary, OpDef
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, RefType, Shape, TensorType

__all__ = ["Specimen", "specimens"]

LISTED = {"MaxPoolV2": {"ksize": [1, 2, 3, 1], "strides": [1, 3, 2, 1]}}
"""Constant inputs that are lists of a certain form."""


class Specimen(NamedTuple):
    """A graph of one op; `varied` is what of it is not as by default."""

    graph: Graph
    op: Op
    varied: str


def specimens(
    dictionary: Dictionary, entry: OpDef, constant: Collection[int]
) -> Iterator[Specimen]:
    """The specimens of an op; `constant` are the inputs that have to be so."""
    usual = {a.name: _usual(entry, a) for a in (*entry.attrs, *entry.variables)}
    yield _made(dictionary, entry, constant, usual, "")
    for attr in (*entry.attrs, *entry.variables):
        if attr.kind == "int" and attr in entry.variables:
            continue  # how many inputs there are
        for value in _others(entry, attr, usual[attr.name]):
            varied = {**usual, attr.name: value}
            if attr.name == "data_format" and str(value).startswith("NC"):
                varied = {k: _channels_first(v) for k, v in varied.items()}
            yield _made(dictionary, entry, constant, varied, f"{attr.name}={value}")


def _made(
    dictionary: Dictionary,
    entry: OpDef,
    constant: Collection[int],
    attrs: dict[str, Any],
    varied: str,
) -> Specimen:
    graph = Graph(dictionary.name)
    values: list[OutputPort] = []
    for i, port in enumerate(entry.inputs):
        told = attrs[port.type] if isinstance(port.type, str) else port.type
        times = attrs[port.number] if port.number else 1
        for dtype in (told if isinstance(told, list) else [told]) * times:
            if i in constant:
                content = LISTED.get(entry.name, {}).get(port.name, 1)
                values.append(graph.constant(_tensor(content, dtype)).output)
            else:
                type = TensorType(dtype)
                values.append(graph.parameter(RefType(type) if port.ref else type))
    given = {k: v for k, v in attrs.items() if v is not None}
    outputs = sum(1 for _ in _outputs(entry, attrs))
    op = graph.add(entry.name, values, given, name="the_op", outputs=outputs,
                   feedback=entry.feedback)  # fmt: skip
    for port in op.outputs:
        graph.result(port)
    return Specimen(graph, op, varied)


def _tensor(content: Any, dtype: DType) -> Tensor:
    if dtype.kind == "string":
        return Tensor.strings(["1"], ())
    return Tensor.of(content, dtype)


def _outputs(entry: OpDef, attrs: dict[str, Any]) -> Iterator[int]:
    for port in entry.outputs:
        told = attrs.get(port.type) if isinstance(port.type, str) else None
        times = attrs[port.number] if port.number else 1
        yield from range((len(told) if isinstance(told, list) else 1) * times)


# -- values of attributes --------------------------------------------------------------


def _usual(entry: OpDef, attr: Attr) -> Any:
    if attr.default is not None:
        return list(attr.default) if isinstance(attr.default, tuple) else attr.default
    if attr.base in ("type", "dtype"):
        one = DType("float32")
        if attr.allowed and one not in attr.allowed:
            one = next(
                (t for t in attr.allowed if t is DType("int32")), attr.allowed[0]
            )
        return [one, one] if attr.is_list else one
    if attr.is_list:
        return _listed(entry, attr)
    if attr.allowed:
        return attr.allowed[0]
    return {
        "bool": False, "float": 0.5, "int": max(2, attr.minimum or 0), "string": "text",
        "shape": Shape([2]), "function": FunctionRef("f"),
        "tensor": Tensor.of([1.0], "float32"),
    }[attr.base]  # fmt: skip


def _listed(entry: OpDef, attr: Attr) -> list[Any]:
    if attr.base == "int":
        return [1, 2, 3, 4, 1] if "3D" in entry.name else [1, 2, 3, 1]
    return {"shape": [Shape([2]), Shape([3])], "string": ["a"], "float": [0.5]}[
        attr.base
    ]


def _others(entry: OpDef, attr: Attr, usual: Any) -> list[Any]:
    """Values that an attribute may have besides."""
    if attr.allowed:
        wanted = [value for value in attr.allowed if value != usual]
        return wanted[:1] if attr.base in ("type", "dtype") else wanted
    if attr.is_list:
        if attr.base == "int":
            return [[1, 3, 2, 1] if len(usual) == 4 else [*usual[:1], 5, 3, 2, 1][:5]]
        return []
    match usual:
        case bool():
            return [not usual]
        case int():
            return [usual + 1]
        case float():
            return [usual + 0.25]
        case str():
            return [f"{usual}_2"]
        case DType():
            return [DType("int32")]
        case Shape():
            return [Shape([3, 4])]
    return []


def _channels_first(value: Any) -> Any:
    if isinstance(value, list) and len(value) in (4, 5) and isinstance(value[0], int):
        return [value[0], value[-1], *value[1:-1]]
    return value
