"""Ops on lists of tensors, `_foreach_add` and the like, as an op for each of them."""

from __future__ import annotations

from typing import Any, Final

from amanda import namespace
from amanda.dictionary import CallLayout, Dictionary
from amanda.graph import Graph, Op, OutputPort

__all__ = ["expand_foreach"]

_PREFIX: Final = "aten._foreach_"
_TYPES: Final = {
    "norm.Scalar": "linalg_vector_norm.default",
    "maximum.List": "maximum.default",
    "maximum.Scalar": "clamp_min.default",
    "maximum.ScalarList": "clamp_min.default",
    "minimum.List": "minimum.default",
    "minimum.Scalar": "clamp_max.default",
    "minimum.ScalarList": "clamp_max.default",
    "pow.List": "pow.Tensor_Tensor",
    "pow.Scalar": "pow.Tensor_Scalar",
    "pow.ScalarList": "pow.Tensor_Scalar",
    "pow.ScalarAndTensor": "pow.Scalar",
}
"""The ops of one tensor whose names do not follow from those of lists."""
_OVERLOADS: Final = {
    "List": ("Tensor", "default"), "Tensor": ("Tensor", "default"),
    "Scalar": ("Scalar", "default"), "ScalarList": ("Scalar", "default"),
    "default": ("default",),
}  # fmt: skip


def expand_foreach(graph: Graph) -> None:
    """Replace ops on lists of tensors by those on one tensor that are known."""
    dictionary: Any = namespace(graph.namespace or "torch", assume=True)
    for part in graph.graphs():
        for op in list(part):
            type = _type_of_one(op.type or "", dictionary)
            if type is not None:
                _expand(part, op, dictionary[type])


def _type_of_one(type: str, dictionary: Dictionary) -> str | None:
    if not type.startswith(_PREFIX):
        return None
    name, _, overload = type.removeprefix(_PREFIX).partition(".")
    base, written = name.rstrip("_"), "_" * name.endswith("_")
    if f"{base}.{overload}" in _TYPES:
        known = _TYPES[f"{base}.{overload}"]
        names = [known.replace(".", f"{written}.", 1)]
    else:
        names = [f"{base}{written}.{o}" for o in _OVERLOADS.get(overload, ())]
    return next((f"aten.{n}" for n in names if f"aten.{n}" in dictionary), None)


def _expand(graph: Graph, op: Op, definition: Any) -> None:
    arguments = CallLayout(op.definition).arguments(op)
    layout = CallLayout(definition)
    count = max(
        len(value) for value in arguments.values()
        if isinstance(value, list) and any(isinstance(v, OutputPort) for v in value)
    )  # fmt: skip
    for i in range(count):
        # Arguments differ in name, not in order: `scalar` is `other` of one tensor.
        own = [v[i] if isinstance(v, list) else v for v in arguments.values()]
        names = _names(list(arguments), layout)
        found = layout.inputs(dict(zip(names, own, strict=True)))
        with graph.before(op):
            one = graph.add(definition.name, found.values, found.attrs)
        for place, label in found.names.items():
            one.input_ports[place].set_name(label)
        if i < len(op.outputs):
            one.output.type = op.outputs[i].type
            graph.replace_uses(op.outputs[i], one.output)
    graph.remove(op)


def _names(given: list[str], layout: CallLayout) -> list[str]:
    every = [
        *layout.positional,
        *(n for n in layout.attrs if n not in layout.positional),
    ]
    places = iter(n for n in every if n not in given)
    return [n if n in every else next(places) for n in given]
