"""ONNX as one end of mappings: a side for each opset.

Rules call the ops of ONNX's own domain by their types, those of its other domains by
domain and type: `Relu`, `ai.onnx.ml.Scaler`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from amanda.api import namespace
from amanda.dictionary import parse_name
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline, PlainSide, Signature
from amanda.types import SequenceType, TensorType, Type
from amanda_onnx.domains import domain_of, namespace_of

_ROUND = (TensorType("int64", []), TensorType("bool", []))

__all__ = ["DOMAINS", "OnnxSide", "onnx_side"]

DOMAINS = {
    "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
}  # fmt: skip
"""Domains beside ONNX's own that rules are for, with the version that is written."""

_UNLISTED = {
    "SimplifiedLayerNormalization": Signature(
        ("X", "scale"), {"axis": -1, "epsilon": 1e-5, "stash_type": 1}, outputs=None
    ),
}
"""Ops of no standard that onnxruntime has in ONNX's own domain."""


class OnnxSide(PlainSide):
    """One opset of ONNX's own domain."""

    def __init__(self, opset: int) -> None:
        name = f"amanda/onnx/{opset}"
        dictionary: Any = namespace(name, assume=True)
        super().__init__(name, _signatures(dictionary.signature))
        self.opset = opset
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
        """The outputs of a new node. Lists stand for the tuples that std keeps."""
        kept = {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items()}
        if "." in type:
            raise Decline(f"{type} is read only")
        signature: Signature | None = self.signature(type)
        for key in kept:
            if signature is not None and key not in signature.attrs:
                raise Decline(f"{type} of {self.name} has no attribute {key}")
        return super().build(
            graph, type, args, kept, outputs=outputs, name=name, bodies=bodies
        )

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """Those of a body, of which models may be silent, by what the op is given."""
        if op.type == "Loop":
            return [*_ROUND, *map(_bare, inputs[2:])]
        if op.type == "Scan":
            return _scanned(op, inputs) if self.opset > 8 else []
        return list(map(_element, inputs)) if op.type == "SequenceMap" else []

    def type_of(self, op: Op) -> str | None:
        """The op type; for ops of the other domains, after the domain."""
        space = op.own_namespace
        if space is None or space == self.name:
            return op.type
        found = domain_of(space)
        if found is None or found[0] not in DOMAINS:
            return None
        return f"{found[0]}.{op.type}"


def _row(found: Type | None, axis: int) -> Type | None:
    """What is left of a tensor in each round of a scan."""
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return _bare(found)
    dims = list(found.shape.dims)
    if dims:
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


def _signatures(own: Callable[[str], Signature | None]) -> Any:
    """Of all domains. What a domain has is what its newest version has."""

    def signature(type: str) -> Signature | None:
        domain, _, name = type.rpartition(".")
        if not domain:
            return own(type) or _UNLISTED.get(type)
        if domain not in DOMAINS:
            return None
        told: Any = namespace(namespace_of(domain, DOMAINS[domain]), assume=True)
        found: Signature | None = told.signature(name)
        return None if found is None else found._replace(since=0)

    return signature


@cache
def onnx_side(name: str) -> OnnxSide:
    """The side of a namespace by its full name, `amanda/onnx/18`."""
    return OnnxSide(int(parse_name(name).version or 1))
