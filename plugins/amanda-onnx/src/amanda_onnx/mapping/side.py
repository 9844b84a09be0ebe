"""ONNX as one end of mappings: a side for each opset.

Rules call the ops of ONNX's own domain by their types, those of its other domains by
domain and type: `Relu`, `ai.onnx.ml.Scaler`. All of them are read; what is written are
ops of the domains that a graph imports, for a runtime has to know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from amanda import namespace
from amanda.dictionary import (
    PortBinding,
    add_constant,
    bind_ports,
    parse_name,
    type_faults,
)
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline, PlainSide, Signature
from amanda.tensors import Tensor
from amanda.types import SequenceType, TensorType, Type
from amanda_onnx.domains import domain_of, namespace_of
from amanda_onnx.mapping.attribute_checks import fault

_ROUND = (TensorType("int64", []), TensorType("bool", []))

__all__ = ["DOMAINS", "OnnxSide", "onnx_side"]

DOMAINS = {
    "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
}  # fmt: skip
"""Domains beside ONNX's own that rules are for, with the newest version of each."""

_TEXTS = 19
"""The first opset that compares texts."""

_NORMS = ("LpPool", "GlobalLpPool")
"""Ops whose p is a float in opset 1, and an int from then on."""

_UNLISTED = {
    "SimplifiedLayerNormalization": Signature(
        ("X", "scale"), {"axis": -1, "epsilon": 1e-5, "stash_type": 1}, outputs=None
    ),
}
"""Ops of no standard that onnxruntime has in ONNX's own domain; who imports
com.microsoft has them."""


_TELLING = {
    "LabelEncoder": (("keys_tensor", "input", 0), ("values_tensor", "output", 0)),
}
"""Attributes with the element type of an input or output, which is theirs alone."""


class OnnxSide(PlainSide):
    """One opset of ONNX's own domain, and versions of others; all where none are told.

    A domain has what its newest version has, where it is read: an op that changed
    tells by its attributes which one it is.
    """

    def __init__(self, opset: int, domains: Mapping[str, int] | None = None) -> None:
        name = f"amanda/onnx/{opset}"
        dictionary: Any = namespace(name, assume=True)
        found = DOMAINS if domains is None else domains
        super().__init__(name, _signatures(dictionary.signature, found))
        self.opset = opset
        self.domains = found
        self.imports = {"": opset}

    def build(
        self,
        graph: Graph,
        type: str,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        name: str | None = None,
        bodies: Mapping[str, Graph] | None = None,
    ) -> tuple[OutputPort, ...]:
        """The outputs of a new node. Lists stand for the tuples that std keeps.

        An op of another domain is not made of element types that it does not take: a
        runtime would refuse the whole graph.
        """
        kept = {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items()}
        signature: Signature | None = self.signature(type)
        for key in kept:
            if signature is not None and key not in signature.attrs:
                raise Decline(f"{type} of {self.name} has no attribute {key}")
        if type == "Equal" and self.opset < _TEXTS and any(map(_is_text, args)):
            raise Decline(f"Equal takes texts from opset {_TEXTS} on")
        if type in _NORMS and self.opset > 1 and "p" in kept:
            kept["p"] = _whole(type, kept["p"])
        domain, _, own = type.rpartition(".")
        if not domain:
            return super().build(
                graph, type, args, kept, outputs=outputs, name=name, bodies=bodies
            )
        if signature is None:
            raise Decline(f"{domain} is not imported, or has no op {own}")
        values = [
            v
            if v is None or isinstance(v, OutputPort)
            else add_constant(graph, v, args)
            for v in args
        ]
        while values and values[-1] is None:
            values.pop()
        space = namespace_of(domain, self.domains[domain])
        why = _type_fault(space, own, values, kept)
        if why is not None:
            raise Decline(f"{type} {self.domains[domain]}: {why}")
        op = graph.add(own, values, kept, name=name, outputs=outputs, namespace=space)
        return op.outputs

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """Those of a body, of which models may be silent, by what the op is given."""
        if op.type == "Loop":
            return [*_ROUND, *map(_bare, inputs[2:])]
        if op.type == "Scan":
            return _scanned(op, inputs) if self.opset > 8 else []
        return list(map(_element, inputs)) if op.type == "SequenceMap" else []

    def fault(self, op: Op) -> str | None:
        """What is wrong with the attributes of an op of ONNX's own domain."""
        space = op.own_namespace
        return fault(op, self.opset) if space is None or space == self.name else None

    def type_of(self, op: Op) -> str | None:
        """The op type; for ops of the other domains, after the domain."""
        space = op.own_namespace
        if space is None or space == self.name:
            return op.type
        found = domain_of(space)
        if found is None or found[0] not in DOMAINS:
            return None
        return f"{found[0]}.{op.type}"


def _type_fault(
    space: str, type: str, inputs: Sequence[OutputPort | None], attrs: Mapping[str, Any]
) -> str | None:
    """Why an op does not take these element types, as far as they are known."""
    told: Any = namespace(space, assume=True)
    entry = told[type]
    slots = bind_ports(entry.inputs, len(inputs), entry, attrs).slots or ()
    values: list[tuple[str, PortBinding, Type | None]] = [
        ("input", slot, value.type)
        for slot, value in zip(slots, inputs, strict=False)
        if value is not None
    ]
    for name, side, at in _TELLING.get(type, ()):
        tensor = attrs.get(name)
        if isinstance(tensor, Tensor):
            port = (entry.inputs if side == "input" else entry.outputs)[at]
            values.append((side, PortBinding(port, 0), TensorType(tensor.dtype)))
    return next(type_faults(entry, attrs, values), None)


def _whole(type: str, p: Any) -> int:
    if not float(p).is_integer():
        raise Decline(f"{type} takes p as an int, got {p}")
    return int(p)


def _is_text(value: Any) -> bool:
    found = value.type if isinstance(value, OutputPort) else None
    return isinstance(found, TensorType) and str(found.dtype) == "string"


def _row(found: Type | None, axis: int) -> Type | None:
    """What is left of a tensor in each round of a scan."""
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return _bare(found)
    dims = list(found.shape.dims)
    if not -len(dims) <= axis < len(dims):
        return _bare(found)  # the rule of Scan tells of such an axis
    del dims[axis]
    return TensorType(found.dtype, dims)


def _bare(found: Type | None) -> Type | None:
    """What stays in every round: the element type."""
    return TensorType(found.dtype) if isinstance(found, TensorType) else found


def _element(found: Type | None) -> Type | None:
    return found.element if isinstance(found, SequenceType) else found


def _scanned(op: Op, inputs: Sequence[Type | None]) -> list[Type | None]:
    rows = int(op.attrs.get("num_scan_inputs", 0))
    carried = len(inputs) - rows
    axes = list(op.attrs.get("scan_input_axes") or [0] * rows)
    return [
        *map(_bare, inputs[:carried]),
        *(_row(t, a) for t, a in zip(inputs[carried:], axes, strict=False)),
    ]


def _signatures(
    own: Callable[[str], Signature | None], domains: Mapping[str, int]
) -> Any:
    """Of ONNX's own domain and of these."""

    def signature(type: str) -> Signature | None:
        domain, _, name = type.rpartition(".")
        if not domain:
            more = _UNLISTED if "com.microsoft" in domains else {}
            return own(type) or more.get(type)
        if domain not in domains:
            return None
        told: Any = namespace(namespace_of(domain, domains[domain]), assume=True)
        found: Signature | None = told.signature(name)
        return None if found is None else found._replace(since=0)

    return signature


@cache
def onnx_side(name: str) -> OnnxSide:
    """The side of a namespace by its full name, `amanda/onnx/18`, with all domains."""
    return OnnxSide(int(parse_name(name).version or 1))
