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
from amanda.graph import KEEP, Graph, Op, OutputPort
from amanda.mapping import Decline, PlainSide, Signature
from amanda.tensors import Tensor
from amanda.types import SequenceType, TensorType, Type, VoidType
from amanda_onnx.domains import domain_of, namespace_of
from amanda_onnx.format.model_metadata import MODEL_KEY
from amanda_onnx.mapping.attribute_checks import fault
from amanda_onnx.mapping.inlining import inline_local_functions

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

    def __init__(self, opset: int, domains: Mapping[str, int]) -> None:
        name = f"amanda/onnx/{opset}"
        dictionary: Any = namespace(name, assume=True)
        super().__init__(name, _signatures(dictionary.signature, domains))
        self.opset = opset
        self.domains = domains
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

    def prepare(self, graph: Graph) -> Graph:
        """A model to be read: local functions are inlined."""
        return inline_local_functions(graph)

    def finish(self, graph: Graph, source: Graph) -> None:
        """Complete a written model with what no rule decides."""
        for part in graph.graphs():
            _omit_unused_outputs(part)
        for op in graph.walk():
            if op.type == "STFT" and op.own_namespace is None:
                # onnx's checker reads a missing value as 0, against the schema
                op.attrs.setdefault("onesided", 1)
        if source.imports.get("") != graph.imports.get(""):
            drop_ir_version(graph)

    def type_of(self, op: Op) -> str | None:
        """The op type; for ops of the other domains, after the domain."""
        space = op.own_namespace
        if space is None or space == self.name:
            return op.type
        found = domain_of(space)
        if found is None or found[0] not in DOMAINS:
            return None
        return f"{found[0]}.{op.type}"


def drop_ir_version(graph: Graph) -> None:
    """Forget the IR version of a model's file, which belongs to its old opset."""
    metadata = graph.attrs.get(MODEL_KEY)
    if isinstance(metadata, dict):
        kept = {k: v for k, v in metadata.items() if k != "ir_version"}
        graph.attrs[MODEL_KEY] = kept


def _omit_unused_outputs(graph: Graph) -> None:
    """Mark unused outputs of ops of other domains as absent.

    A runtime that computes them may choose a slower kernel, or refuse the op.
    """
    named = {v for e in graph.entries.values() for side in e for v in side.values()}
    for op in graph:
        domain = None if op.own_namespace is None else domain_of(op.own_namespace)
        if domain is None or not domain[0] or op.provenance is None:
            continue
        for port in op.outputs[1:]:
            if not port.users and port not in named and KEEP not in port.marks:
                port.type = VoidType()


def _type_fault(
    space: str, type: str, inputs: Sequence[OutputPort | None], attrs: Mapping[str, Any]
) -> str | None:
    """Why an op does not take these element types, as far as they are known."""
    told: Any = namespace(space, assume=True)
    entry = told[type]
    bindings = bind_ports(entry.inputs, len(inputs), entry, attrs).bindings or ()
    values: list[tuple[str, PortBinding, Type | None]] = [
        ("input", binding, value.type)
        for binding, value in zip(bindings, inputs, strict=False)
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


def onnx_side(name: str, imports: Mapping[str, int] | None = None) -> OnnxSide:
    """The side of `amanda/onnx/18`: with all domains to read, with those in `imports`
    to write."""
    found = DOMAINS if imports is None else imports
    known = tuple(sorted((d, v) for d, v in found.items() if d in DOMAINS))
    return _cached_side(int(parse_name(name).version or 1), known)


@cache
def _cached_side(opset: int, domains: tuple[tuple[str, int], ...]) -> OnnxSide:
    return OnnxSide(opset, dict(domains))
