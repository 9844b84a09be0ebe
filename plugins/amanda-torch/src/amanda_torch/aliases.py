"""Control edges between ops that touch one storage, where one of them writes it.

The definitions of ops say what shares storage: `tensor(a)` is a view of another
`tensor(a)`, and `tensor(a!)` is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef, Port

__all__ = ["order_writes", "returns_argument", "written_inputs"]

_STATISTICS: Final = (3, 4)
_WRITES_STATISTICS: Final = {
    "aten.batch_norm.default": "training",
    "aten.native_batch_norm.default": "training",
    "aten._batch_norm_impl_index.default": "training",
    "aten.instance_norm.default": "use_input_stats",
}
"""Ops that write running statistics, which their schemas do not say, and the attribute
that decides it."""
_DROPOUTS: Final = frozenset(
    f"aten.{name}.default"
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
)
_VIEWS: Final = frozenset(
    [f"aten.atleast_{rank}d.default" for rank in (1, 2, 3)]
    + ["aten.broadcast_tensors.default", "aten.meshgrid.default",
       "aten.meshgrid.indexing", "aten.unsafe_chunk.default",
       "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default"]
)  # fmt: skip
"""Ops that return views, which their schemas do not say."""
_CASTS: Final = frozenset(["aten.type_as.default", "aten.conj_physical.default"])
"""Ops that return their argument where they do not change it."""


def written_inputs(op: Op, definition: OpDef | None) -> list[int]:
    """The inputs that an op writes."""
    if definition is None:
        return []
    inputs = op.inputs
    decides = _WRITES_STATISTICS.get(op.type or "")
    if decides is not None:
        written = bool(op.attrs.get(decides)) and len(inputs) > _STATISTICS[1]
        return [i for i in _STATISTICS if written and inputs[i] is not None]
    return [
        i for i, port in enumerate(definition.inputs)
        if port.is_written and i < len(inputs) and inputs[i] is not None
    ]  # fmt: skip


def returns_argument(op: Op) -> bool:
    """Whether an op returns an argument, or views of its arguments, without an alias
    in its schema."""
    if op.type in _DROPOUTS:
        return not op.attrs.get("train") or op.attrs.get("p") == 0
    if op.type in _CASTS:
        return _keeps_elements(op)
    return op.type in _VIEWS


def _keeps_elements(op: Op) -> bool:
    """Whether a cast or a conjugate has the elements of its argument."""
    source = op.inputs[0]
    types = [None if source is None else source.type, op.outputs[0].type]
    known = [type.dtype for type in types if isinstance(type, TensorType)]
    if len(known) != len(types):
        return False
    return known[0] == known[1] and (
        op.type == "aten.type_as.default" or known[0].kind != "complex"
    )


def order_writes(graph: Graph, dictionary: Dictionary) -> None:
    """Add control edges so that every order of the ops computes the same.

    An op runs after the last op that wrote what it touches; an op that writes, after
    all that have read it since.
    """
    effects = _Effects(dictionary)
    for part in graph.graphs():
        if any(effects.writes(op) for op in part):
            _Order(effects, part).add_edges()


class _Effects:
    """Which ops write into their inputs."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self._written: dict[str, bool] = {}

    def definition(self, op: Op) -> OpDef | None:
        return self.dictionary.get(op.type)

    def writes(self, op: Op) -> bool:
        """Whether an op, or one in its bodies, writes into an input."""
        if op.bodies:
            inner = [each for body in op.bodies.values() for each in body]
            return any(map(self.writes, inner))
        kind = op.type or ""
        if kind in _WRITES_STATISTICS:
            return bool(written_inputs(op, self.definition(op)))
        found = self._written.get(kind)
        if found is None:
            op_def = self.definition(op)
            ports = () if op_def is None else op_def.inputs
            found = self._written[kind] = any(port.is_written for port in ports)
        return found


class _Order:
    """The order of accesses to the storages of one graph."""

    def __init__(self, effects: _Effects, graph: Graph) -> None:
        self.effects = effects
        self.graph = graph
        self.storages: dict[OutputPort, frozenset[OutputPort]] = {}
        self.writer: dict[OutputPort, Op] = {}
        self.readers: dict[OutputPort, list[Op]] = {}

    def add_edges(self) -> None:
        for op in list(self.graph):
            written = self._find_written(op)
            before: dict[Op, None] = {}
            touched = {s for v in op.inputs if v is not None for s in self._storages(v)}
            for storage in sorted(touched, key=lambda s: (s.op.short, s.index)):
                if storage in self.writer:
                    before[self.writer[storage]] = None
                if storage in written:
                    before.update(dict.fromkeys(self.readers.pop(storage, ())))
                    self.writer[storage] = op
                else:
                    self.readers.setdefault(storage, []).append(op)
            direct = {value.op for value in op.inputs if value is not None}
            for first in before:
                if first is not op and first not in direct:
                    self.graph.control(first, op)
            self._share(op)

    def _storages(self, value: OutputPort) -> frozenset[OutputPort]:
        return self.storages.get(value) or frozenset([value])

    def _find_written(self, op: Op) -> set[OutputPort]:
        """The storages that an op writes."""
        if not self.effects.writes(op):
            return set()
        values = [v for v in op.inputs if v is not None]
        if op.type in _WRITES_STATISTICS:
            at = written_inputs(op, self.effects.definition(op))
            values = [v for i, v in enumerate(op.inputs) if i in at and v is not None]
        elif not op.bodies:
            values = [v for p, v in self._ports(op) if p.is_written and v is not None]
        return {storage for value in values for storage in self._storages(value)}

    def _ports(self, op: Op) -> list[tuple[Port, OutputPort | None]]:
        """The inputs of an op with the ports of its definition."""
        op_def = self.effects.definition(op)
        found: list[tuple[Port, OutputPort | None]] = []
        if op_def is None:
            return found
        values = [p.source for p in op.input_ports if "." not in (p.name or "")]
        singles = sum(not port.repeats for port in op_def.inputs)
        at = 0
        for port in op_def.inputs:
            count = max(len(values) - singles, 0) if port.repeats else 1
            found += [(port, value) for value in values[at : at + count]]
            at += count
        return found

    def _share(self, op: Op) -> None:
        """Record the storages that the outputs of an op share with its inputs."""
        if op.bodies or returns_argument(op):
            every = [v for v in op.inputs if v is not None]
            self._join(op.outputs, every)
            return
        op_def = self.effects.definition(op)
        if op_def is None or not any(port.alias for port in op_def.outputs):
            return
        letters: dict[str, list[OutputPort]] = {}
        for port, value in self._ports(op):
            if port.alias and value is not None:
                letters.setdefault(_letter(port.alias), []).append(value)
        for i, output in enumerate(op.outputs):
            declared = op_def.outputs[min(i, len(op_def.outputs) - 1)]
            if declared.alias:
                self._join([output], letters.get(_letter(declared.alias), []))

    def _join(self, outputs: object, values: list[OutputPort]) -> None:
        shared = frozenset(s for value in values for s in self._storages(value))
        if shared:
            for output in outputs:  # type: ignore[attr-defined]
                self.storages[output] = shared


def _letter(alias: str) -> str:
    """
    >>> _letter("a!"), _letter("a -> *")
    ('a', 'a')
    """
    return alias.partition(" ")[0].rstrip("!")
