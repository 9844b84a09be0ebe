"""The mapping `onnx-opset`: a model at another opset of ONNX, as close as can be.

An op stays as it is where both opsets have one definition of it, or where what changed
does not concern it: other element types, attributes that came and that it does not
give, defaults that are then written out. Where its meaning changed is told by the rules
to the hub set, which name only versions in which it did. What cannot stay goes to the
hub set and back, each op by itself, so that nothing around it is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import Dictionary, OpDef, get_checker, parse_name
from amanda.errors import ConversionError
from amanda.graph import CORE, Graph, Op, OutputPort, bulk, copy_ops
from amanda.mapping import Conversion, Gap, GapMet, Report, constant_of, unmapped
from amanda.mapping.engine.conversion_run import Run
from amanda.mapping.routes.report import place
from amanda.types import TensorType, Type
from amanda_onnx.domains import DEFAULT, domain_of
from amanda_onnx.format.model_metadata import MODEL_KEY, NOTES_KEY, notes_of
from amanda_onnx.mapping import MAPPING

__all__ = ["MAPPING_OF_OPSETS", "OnnxOpset", "cuts_of"]

_HUB: Final = "amanda/std/1"
_BY: Final = "onnx-opset"
_THROUGH: Final = "through amanda/std"

_ADDED: Final = frozenset({
    ("DepthToSpace", 11), ("Reshape", 14), ("Shape", 15), ("SpaceToDepth", 28),
})  # fmt: skip
"""Versions that only added an attribute, though rules name them."""

_VALUES: Final[Mapping[tuple[str, str], Mapping[str, int]]] = {
    ("Resize", "coordinate_transformation_mode"): {"half_pixel_symmetric": 19},
    ("Pad", "mode"): {"wrap": 19},
    ("ScatterElements", "reduction"): {"max": 18, "min": 18},
    ("ScatterND", "reduction"): {"max": 18, "min": 18},
}
"""Words that an attribute takes from some opset on, of which no signature tells."""

_FROM_THE_END: Final = 11  # the first opset that counts axes from the end, everywhere
_PER_AXIS: Final = 13  # the first with scales for each place of an axis


class OnnxOpset:
    """The entry `onnx-opset` of `amanda.mappings`."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
    ) -> Graph:
        """The graph at the opset of `to`; ConversionError with every gap."""
        done = self.conversion(graph, to, keep_foreign=keep_foreign, gap_met=gap_met)
        if done.report.gaps and not keep_foreign:
            raise unmapped(done.report.gaps, done.report.source, done.report.target)
        return done.graph

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
    ) -> Conversion:
        """The same with its report; gaps are in there, and not raised."""
        start, goal = (domain_of(name or "") for name in (graph.namespace, to))
        if start is None or goal is None or start[0] or goal[0]:
            raise ConversionError(
                f"{_BY} does not map from {graph.namespace or 'nothing'} to {to}",
                expected="two opsets of amanda/onnx",
            )
        with bulk():
            return _Move(graph, to, keep_foreign, gap_met).done()


MAPPING_OF_OPSETS = OnnxOpset()


@cache
def cuts_of(type: str) -> tuple[int, ...]:
    """The opsets at which the meaning of an op changed.

    >>> cuts_of("Softmax"), cuts_of("Relu"), cuts_of("MatMul")
    ((13,), (6,), ())
    """
    found: set[int] = set()
    for rule in MAPPING.rules.of_type(type, forward=True):
        term: Any = getattr(rule, "left", None) or getattr(rule, "term", None)
        if term.low is not None:
            found.add(term.low)
        if term.high is not None:
            found.add(term.high + 1)
    return tuple(sorted(cut for cut in found if (type, cut) not in _ADDED))


def _dictionary(name: str) -> Dictionary:
    found: Any = namespace(name, assume=True)
    assert isinstance(found, Dictionary)
    return found


class _Move:
    """One graph on its way from its opset to another."""

    def __init__(
        self, graph: Graph, goal: str, keep_foreign: bool, gap_met: GapMet | None
    ) -> None:
        self._twins: dict[Any, Any] = {}
        self._origin = graph
        self.made = graph.clone(memo=self._twins)
        self.start = graph.namespace or ""
        self.goal = goal
        self.report = Report(self.start, goal)
        self._keep_foreign = keep_foreign
        self._gap_met = gap_met
        self._gaps: list[Gap] = []
        self._losses: dict[str, None] = {}
        self._types: dict[OutputPort, Type] | None = None
        self._after = _dictionary(goal)
        self._version = _version(goal)

    def done(self) -> Conversion:
        gone: set[Graph] = set()
        parts = list(self.made.graphs())
        for part in parts:
            if part in gone:
                continue
            start = part.namespace or self.start
            for op in list(part):
                if op.__class__ is Op and not self._stays(op, start):
                    for body in op.bodies.values():
                        gone.update(body.graphs())
                    self._brought(op, part, start)
        for part in parts:
            if part not in gone:
                self._named(part)
        if self._version != _version(self.start):
            self._without_ir()
        self.report.gaps = tuple(self._gaps)
        self.report.losses = tuple(self._losses)
        return Conversion(self.made, self.report)

    def _named(self, part: Graph) -> None:
        """Say of which opset a graph is."""
        own = part.own_namespace
        found = domain_of(own or "")
        if found is not None and not found[0]:
            part.namespace = self.goal
        for domain in part.imports:
            if domain in DEFAULT:
                part.imports[domain] = self._version

    def _without_ir(self) -> None:
        """The IR version that a file had goes with its opset, and with no other one."""
        notes = self.made.attrs.get(MODEL_KEY)
        if isinstance(notes, dict):
            kept = {key: value for key, value in notes.items() if key != "ir_version"}
            self.made.attrs[MODEL_KEY] = kept

    # -- what stays ------------------------------------------------------------------

    def _stays(self, op: Op, start: str) -> bool:
        own = op.own_namespace
        if own == CORE:
            self._constant(op)
            return True
        if own is not None and own != start:
            return True  # of another domain, which goes by versions of its own
        old = _dictionary(start)
        before, after = old.get(op.type), self._after.get(op.type)
        if before is None or before is after:  # none: a function of the model's own
            self.report.carried += before is not None
            return True
        if after is None or self._changed(op, start):
            return False
        self._given(op, before, after)
        with self._typed(op):
            faults = get_checker(self._after, op.type).faults(  # type: ignore[union-attr]
                op, frozenset(self.made.functions)
            )
        self.report.carried += not faults
        return not faults

    def _constant(self, op: Op) -> None:
        """One that was a node is written with an attribute that the opset has."""
        notes = notes_of(op)
        after = self._after.get("Constant")
        if notes.get("node") and after and after.attr(notes["node"]) is None:
            op.attrs[NOTES_KEY] = {**notes, "node": "value"}

    def _changed(self, op: Op, start: str) -> bool:
        """Does the op mean something else at the other opset, though it looks alike?"""
        low, high = sorted((_version(start), self._version))
        if any(low < cut <= high for cut in cuts_of(op.type or "")):
            return True
        for (type, name), since in _VALUES.items():
            if op.type == type and since.get(_word(op, name), 0) > self._version:
                return True
        scaled = op.type in ("QuantizeLinear", "DequantizeLinear")
        if scaled and self._version < _PER_AXIS and len(op.inputs) > 1:
            found = self._type(op.inputs[1])
            return isinstance(found, TensorType) and found.shape.dims not in ((), (1,))
        return False

    def _given(self, op: Op, before: OpDef, after: OpDef) -> None:
        """Say what the older definition leaves to defaults that are others now."""
        for attr in before.attrs:
            there = after.attr(attr.name)
            default = attr.default
            if attr.name in op.attrs:
                if there is None and _plain(op.attrs[attr.name]) == _plain(default):
                    del op.attrs[attr.name]
            elif there is not None and default is not None and there.default != default:
                op.attrs[attr.name] = _plain(default)
        if self._version < _FROM_THE_END:
            self._from_the_front(op)

    def _from_the_front(self, op: Op) -> None:
        """Older opsets count axes from the front only."""
        value = op.inputs[0] if op.inputs else None
        found = self._type(value)
        if not isinstance(found, TensorType) or not found.shape.has_rank:
            return
        for name in ("axis", "axes"):
            given = op.attrs.get(name) if op.has_attrs else None
            rank = found.shape.rank
            if isinstance(given, int):
                op.attrs[name] = given % rank if given < 0 and rank else given
            elif isinstance(given, list):
                rank += len(given) if op.type == "Unsqueeze" else 0
                op.attrs[name] = [i % rank if i < 0 and rank else i for i in given]

    # -- types -----------------------------------------------------------------------

    def _type(self, value: OutputPort | None) -> Type | None:
        """The type of a value, which the hub set knows where the model is silent."""
        if value is None or value.type is not None:
            return None if value is None else value.type
        if self._types is None:
            self._types = self._told()
        return self._types.get(value)

    def _told(self) -> dict[OutputPort, Type]:
        """Types by what the graph that was given means in the hub set."""
        run = Run(
            MAPPING.program(self.start, _HUB),
            keep_foreign=True,
            gap_met=lambda **_event: None,
            trace=False,
        )
        run.convert(self._origin)
        return {
            self._twins[value]: there.type
            for value, there in run.made.items()
            if value in self._twins and there.type is not None
        }

    @contextmanager
    def _typed(self, op: Op) -> Iterator[None]:
        """While it is open, what the op reads and makes has types."""
        bare = [
            v for v in (*op.inputs, *op.outputs) if v is not None and v.type is None
        ]
        for value in bare:
            value.type = self._type(value)
        try:
            yield
        finally:
            for value in bare:
                value.type = None

    # -- what does not ---------------------------------------------------------------

    def _brought(self, op: Op, part: Graph, start: str) -> None:
        """The op goes to the hub set and back, and what comes takes its place."""
        piece, reads = self._piece(op, part, start)
        there = MAPPING.conversion(piece, _HUB, gap_met=self._gap_met)
        gaps, back = there.report.gaps, None
        if not gaps:
            back = MAPPING.conversion(there.graph, self.goal, gap_met=self._gap_met)
            gaps = back.report.gaps
        if back is None or gaps:
            why = tuple(dict.fromkeys(line for gap in gaps for line in _reasons(gap)))
            self._gaps.append(Gap(op.type or "op", _place(op), why))
            if self._keep_foreign:
                op.namespace = start
                self.report.kept += 1
            return
        self.report.rules[f"{op.type}: {_THROUGH}"] += 1
        self._losses.update(dict.fromkeys((*there.report.losses, *back.report.losses)))
        self._put(op, part, back.graph, reads)

    def _piece(self, op: Op, part: Graph, start: str) -> tuple[Graph, list[OutputPort]]:
        """The op as a model of its own, constants in it; and what it has to be fed."""
        piece = Graph(start, "piece")
        piece.imports[""] = _version(start)
        memo: dict[Any, Any] = {}
        reads = []
        inside = {g for body in op.bodies.values() for g in body.graphs()}
        captured = [v for g in inside for v in g.captures if v.graph not in inside]
        for value in (*op.inputs, *captured):
            if value is None or value in memo:
                continue
            tensor = constant_of(value)
            if tensor is not None:
                memo[value] = piece.constant(tensor).output
            else:
                memo[value] = piece.parameter(_bare(self._type(value)))
                reads.append(value)
        copy_ops(part, piece, [op], memo)
        for port in op.outputs:
            twin = memo[port]
            twin.type = twin.type or _bare(self._type(port))
            if not _is_void(port):
                piece.result(twin)
        for name, function in self.made.functions.items():
            piece.add_function(name, function.clone())
        return piece, reads

    def _put(self, op: Op, part: Graph, made: Graph, reads: list[OutputPort]) -> None:
        for inner in made.graphs():
            for each in list(inner):
                if each.name is not None:
                    inner.rename(each, None)
                for port in each.outputs:
                    port.name = None
        before = set(part)
        with part.before(op):
            found = iter(part.paste(made, reads))
        values = [None if _is_void(port) else next(found) for port in op.outputs]
        name = op.name
        for old, new in zip(op.outputs, values, strict=True):
            is_own = new is not None and new.op not in before and new.op is not part
            told = self._type(old)
            if new is not None and self._types is not None and told is not None:
                self._types.setdefault(new, told)
            if new is not None and is_own and new.name is None:
                new.name, new.type = old.name, old.type
                if old.has_attrs:
                    new.attrs.update(old.attrs)
        part.replace(op, values, _BY)
        first = next((v.op for v in values if v is not None), None)
        is_new = first is not None and first not in before and first is not part
        if name and first is not None and is_new and first.name is None:
            part.rename(first, name)


def _version(name: str) -> int:
    return int(parse_name(name).version or 1)


def _word(op: Op, name: str) -> str:
    value = op.attrs.get(name) if op.has_attrs else None
    return value if isinstance(value, str) else ""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


def _is_void(port: OutputPort) -> bool:
    from amanda.types import VoidType

    return isinstance(port.type, VoidType) and not port.users


def _bare(found: Type | None) -> Type | None:
    """Element type and shape, and nothing that is known of the elements."""
    if isinstance(found, TensorType):
        return TensorType(found.dtype, found.shape)
    return found


def _reasons(gap: Gap) -> Iterator[str]:
    yield from gap.why or (f"no rule maps {gap.op}",)


def _place(op: Op) -> str:
    return place(op, op.index if op.name is None else None)
