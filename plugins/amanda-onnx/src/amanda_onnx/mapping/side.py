"""ONNX as one side of mappings: a side for each opset.

In rules, ops of ONNX's own domain are named by type, those of other domains by domain
and type: `Relu`, `ai.onnx.ml.Scaler`. All of them are read; only ops of domains that a
graph imports are written, since the runtime must support them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from amanda import namespace
from amanda.dictionary import (
    OpDef,
    PortBinding,
    add_constant,
    bind_ports,
    get_checker,
    parse_name,
    type_faults,
)
from amanda.graph import KEEP, Graph, Op, OutputPort, Parameter, ScopeTable
from amanda.mapping import Decline, PlainSide, Signature
from amanda.tensors import Tensor
from amanda.types import SequenceType, TensorType, Type, VoidType, int32, int64
from amanda_onnx.domains import domain_of, namespace_of
from amanda_onnx.format.element_types import CODES
from amanda_onnx.format.model_metadata import MODEL_KEY
from amanda_onnx.format.scope_metadata import scopes_of_nodes
from amanda_onnx.mapping.inlining import inline_local_functions
from amanda_onnx.mapping.op_checks import op_fault
from amanda_onnx.mapping.operands import with_nonnegative_axes

_LOOP_TYPES = (TensorType("int64", []), TensorType("bool", []))

__all__ = ["DOMAINS", "OnnxSide", "onnx_side"]

DOMAINS = {
    "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
}  # fmt: skip
"""Domains other than ONNX's own that have rules, with the newest version of each."""

_STRING_EQUAL_SINCE = 19
"""The first opset whose Equal supports strings."""

_INTEGER_P_OPS = ("LpPool", "GlobalLpPool")
"""Ops whose p is a float in opset 1, and an int since."""

_REDUCTIONS = ("Reduce", "ArgMax", "ArgMin")
"""Prefixes of the ops whose negative axes not every runtime supports."""

_NONSTANDARD = {
    "SimplifiedLayerNormalization": Signature(
        ("X", "scale"), {"axis": -1, "epsilon": 1e-5, "stash_type": 1}, outputs=None
    ),
}
"""Ops that onnxruntime adds to ONNX's own domain, for graphs that import
com.microsoft."""


_TYPED_ATTRIBUTES = {
    "LabelEncoder": (("keys_tensor", "input", 0), ("values_tensor", "output", 0)),
}
"""Attributes that alone determine the element type of an input or output."""


class OnnxSide(PlainSide):
    """One opset of ONNX's own domain, and versions of other domains.

    For reading, a domain has the ops of its newest version: those that changed are
    distinguished by their attributes.
    """

    def __init__(self, opset: int, domains: Mapping[str, int]) -> None:
        name = f"amanda/onnx/{opset}"
        dictionary: Any = namespace(name, assume=True)
        super().__init__(name, _signatures_of_domains(dictionary.signature, domains))
        self.opset = opset
        self.domains = domains
        self.imports = {"": opset}
        self._dictionaries = {name: dictionary}
        self._places: dict[str, list[list[int]]] = {}

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
        """The outputs of a new node. Tuples of attributes become lists.

        Declines element types that an op of another domain does not support: a runtime
        would reject the whole graph.
        """
        kept: Mapping[str, Any] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items()
        }
        signature: Signature | None = self.signature(type)
        for key in kept:
            if signature is not None and key not in signature.attrs:
                raise Decline(f"{type} of {self.name} has no attribute {key}")
        if (
            type == "Equal"
            and self.opset < _STRING_EQUAL_SINCE
            and any(map(_is_string, args))
        ):
            raise Decline(
                f"Equal supports strings since opset {_STRING_EQUAL_SINCE} on"
            )
        if type in _INTEGER_P_OPS and self.opset > 1 and "p" in kept:
            kept = {**kept, "p": _to_int(type, kept["p"])}
        domain, _, own = type.rpartition(".")
        if not domain:
            if type.startswith(_REDUCTIONS):
                args, kept = with_nonnegative_axes(args, kept)
            operands = self._with_int64(graph, type, args)
            return super().build(
                graph, type, operands, kept, outputs=outputs, name=name, bodies=bodies
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

    def _with_int64(
        self, graph: Graph, type: str, args: Sequence[Any]
    ) -> Sequence[Any]:
        """Operands cast to int64, where they are shapes or indices of int32.

        That is where the dictionary has int64 only, or one type for several operands,
        one of which is of int64.
        """
        found = list(args)
        for places in self._int64_operands(type):
            own = {i: _integer_type(found[i]) for i in places if i < len(found)}
            dtypes = set(own.values()) - {None}
            if len(places) > 1 and dtypes != {int32, int64}:
                continue
            for i in (i for i, dtype in own.items() if dtype == int32):
                found[i] = _cast_to_int64(graph, found[i])
        return found

    def _int64_operands(self, type: str) -> list[list[int]]:
        """The places of operands that are int64, or share int32 or int64."""
        if type not in self._places:
            entry = self._dictionaries[self.name].get(type) if self.opset >= 6 else None
            self._places[type] = [] if entry is None else _int64_places(entry)
        return self._places[type]

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a body's parameters, which models may omit, by its inputs."""
        if self.fault(op) is not None:
            return []
        if op.type == "Loop":
            return [*_LOOP_TYPES, *map(_dtype_only, inputs[2:])]
        if op.type == "Scan":
            return _scan_parameter_types(op, inputs) if self.opset > 8 else []
        return list(map(_element_type, inputs)) if op.type == "SequenceMap" else []

    def check(self, op: Op) -> str | None:
        """What the dictionary refuses about an op that was built."""
        space = op.own_namespace or self.name
        if space not in self._dictionaries:
            self._dictionaries[space] = namespace(space, assume=True)
        checker = get_checker(self._dictionaries[space], op.type)
        if checker is None or checker.passes(op):
            return None
        return next((fault.message for fault in checker.faults(op, ())), None)

    def holds(self, namespace: str) -> bool:
        """Whether a namespace is a domain that is no part of ONNX."""
        domain = domain_of(namespace) if namespace else None
        return domain is not None and domain[0] not in ("", *DOMAINS)

    def fault(self, op: Op) -> str | None:
        """What is invalid about an op, by the dictionary of its domain."""
        space = op.own_namespace
        if space is None or space == self.name:
            return op_fault(op, self.name)
        domain = domain_of(space)
        if domain is None or domain[0] not in self.domains:
            return None
        return op_fault(op, namespace_of(domain[0], self.domains[domain[0]]))

    def prepare(self, graph: Graph) -> Graph:
        """A model to be read: local functions are inlined."""
        return inline_local_functions(graph)

    def scopes(self, graph: Graph) -> ScopeTable:
        """The scopes that nodes of a model have as properties."""
        return scopes_of_nodes(graph)

    def finish(self, graph: Graph, source: Graph) -> None:
        """Complete a written model with what no rule decides."""
        for part in graph.graphs():
            _omit_unused_outputs(part)
            _drop_order(part)
            _copy_returned_inputs(part)
        for op in graph.walk():
            if op.name is None and op.provenance is not None and op.graph is not None:
                op.graph.rename(op, _name_by_source(op))
            if op.type == "STFT" and op.own_namespace is None:
                # onnx's checker reads a missing value as 0, against the schema
                op.attrs.setdefault("onesided", 1)
        if source.imports.get("") != graph.imports.get(""):
            drop_ir_version(graph)

    def type_of(self, op: Op) -> str | None:
        """The op type, with the domain in front for ops of other domains."""
        space = op.own_namespace
        if space is None or space == self.name:
            return op.type
        found = domain_of(space)
        if found is None or found[0] not in DOMAINS:
            return None
        return f"{found[0]}.{op.type}"


def _name_by_source(op: Op) -> str:
    """A name for a node: the type behind the name of the op that it was made from."""
    assert op.provenance is not None
    assert op.graph is not None
    source = next(iter(op.provenance.sources), "")
    return op.graph.fresh_name(f"{source}/{op.type}" if source else str(op.type))


def _int64_places(entry: OpDef) -> list[list[int]]:
    variables = {v.name: set(v.allowed) for v in entry.variables}
    outputs = {port.type for port in entry.outputs}
    groups: dict[str, list[int]] = {}
    alone = []
    for i, port in enumerate(entry.inputs):
        allowed = variables.get(str(port.type), {port.type})
        if allowed == {int64}:
            alone.append([i])
        elif allowed == {int32, int64} and port.type not in outputs:
            groups.setdefault(str(port.type), []).append(i)
    return alone + [places for places in groups.values() if len(places) > 1]


def _integer_type(value: Any) -> Any:
    """The element type of an operand, where it is known; numbers become int64."""
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, list | tuple | int):
        return int64
    type = value.type if isinstance(value, OutputPort) else None
    return type.dtype if isinstance(type, TensorType) else None


def _cast_to_int64(graph: Graph, value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor.of(value.numpy().astype("int64"))
    made = graph.add("Cast", [value], {"to": CODES[int64]}).output
    made.type = TensorType(int64, value.type.shape)
    return made


def drop_ir_version(graph: Graph) -> None:
    """Forget the IR version of a model's file, which belongs to its old opset."""
    metadata = graph.attrs.get(MODEL_KEY)
    if isinstance(metadata, dict):
        kept = {k: v for k, v in metadata.items() if k != "ir_version"}
        graph.attrs[MODEL_KEY] = kept


def _drop_order(graph: Graph) -> None:
    """Remove control edges without attributes: ops of ONNX have no effects to order."""
    for edge in [each for each in graph.control_edges if not each.has_attrs]:
        graph.uncontrol(edge.output_port.op, edge.input_port.op)


def _copy_returned_inputs(body: Graph) -> None:
    """Let bodies of loops return copies of their inputs.

    onnxruntime keeps both in one buffer, which the next iteration overwrites."""
    holder = body.holder
    if holder is None or holder.type not in ("Loop", "Scan"):
        return
    for port in body.result_ports:
        value = port.source
        if isinstance(value, Parameter) and value.op is body:
            copy = body.add("Identity", [value]).output
            copy.type = value.type
            port.connect(copy)


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
    """Why an op does not support these element types, as far as they are known."""
    told: Any = namespace(space, assume=True)
    entry = told[type]
    bindings = bind_ports(entry.inputs, len(inputs), entry, attrs).bindings or ()
    values: list[tuple[str, PortBinding, Type | None]] = [
        ("input", binding, value.type)
        for binding, value in zip(bindings, inputs, strict=False)
        if value is not None
    ]
    for name, side, at in _TYPED_ATTRIBUTES.get(type, ()):
        tensor = attrs.get(name)
        if isinstance(tensor, Tensor):
            port = (entry.inputs if side == "input" else entry.outputs)[at]
            values.append((side, PortBinding(port, 0), TensorType(tensor.dtype)))
    return next(type_faults(entry, attrs, values), None)


def _to_int(type: str, p: Any) -> int:
    if not float(p).is_integer():
        raise Decline(f"{type} needs an integer p, got {p}")
    return int(p)


def _is_string(value: Any) -> bool:
    found = value.type if isinstance(value, OutputPort) else None
    return isinstance(found, TensorType) and str(found.dtype) == "string"


def _row_type(found: Type | None, axis: int) -> Type | None:
    """The type of one slice of a scanned tensor."""
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return _dtype_only(found)
    dims = list(found.shape.dims)
    if not -len(dims) <= axis < len(dims):
        return _dtype_only(found)  # the rule for Scan reports the axis
    del dims[axis]
    return TensorType(found.dtype, dims)


def _dtype_only(found: Type | None) -> Type | None:
    """The element type, which is the same in every iteration."""
    return TensorType(found.dtype) if isinstance(found, TensorType) else found


def _element_type(found: Type | None) -> Type | None:
    return found.element if isinstance(found, SequenceType) else found


def _scan_parameter_types(op: Op, inputs: Sequence[Type | None]) -> list[Type | None]:
    rows = min(int(op.attrs.get("num_scan_inputs", 0)), len(inputs))
    carried = len(inputs) - rows
    axes = list(op.attrs.get("scan_input_axes") or [0] * rows)
    return [
        *map(_dtype_only, inputs[:carried]),
        *(_row_type(t, a) for t, a in zip(inputs[carried:], axes, strict=False)),
    ]


def _signatures_of_domains(
    own: Callable[[str], Signature | None], domains: Mapping[str, int]
) -> Any:
    """A function that returns signatures of ONNX's own domain and of these."""

    def signature(type: str) -> Signature | None:
        domain, _, name = type.rpartition(".")
        if not domain:
            more = _NONSTANDARD if "com.microsoft" in domains else {}
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
    return _cached_side(parse_name(name).number, known)


@cache
def _cached_side(opset: int, domains: tuple[tuple[str, int], ...]) -> OnnxSide:
    return OnnxSide(opset, dict(domains))
