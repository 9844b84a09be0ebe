"""The mapping `onnx-opset`: a model at another opset of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amanda.dictionary import OpDef
from amanda.graph import Graph, Op
from amanda.mapping import VersionChange, VersionMapping, version_number
from amanda.types import TensorType
from amanda_onnx.domains import DEFAULT
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.side import drop_ir_version

__all__ = ["MAPPING_OF_OPSETS", "OpsetMapping"]

_HARMLESS: Final = (
    ("DepthToSpace", 11), ("Reshape", 14), ("Shape", 15), ("SpaceToDepth", 28),
)  # fmt: skip
"""Versions that only added an attribute, though rules name them."""

_VALUE_SINCE: Final[Mapping[tuple[str, str], Mapping[str, int]]] = {
    ("Resize", "coordinate_transformation_mode"): {"half_pixel_symmetric": 19},
    ("Pad", "mode"): {"wrap": 19},
    ("ScatterElements", "reduction"): {"max": 18, "min": 18},
    ("ScatterND", "reduction"): {"max": 18, "min": 18},
}
"""Attribute values that came with an opset; signatures do not list them."""

_NEGATIVE_AXES_SINCE: Final = 11
_PER_AXIS_SCALES_SINCE: Final = 13


class OpsetMapping(VersionMapping):
    """ONNX models at other opsets."""

    def is_changed(self, op: Op, change: VersionChange) -> bool:
        if super().is_changed(op, change):
            return True
        attrs = op.attrs if op.has_attrs else {}
        for (op_type, name), since in _VALUE_SINCE.items():
            value = attrs.get(name) if op.type == op_type else None
            if isinstance(value, str) and since.get(value, 0) > change.version:
                return True
        if op.type not in ("QuantizeLinear", "DequantizeLinear"):
            return False
        if change.version >= _PER_AXIS_SCALES_SINCE or len(op.inputs) < 2:
            return False
        scale = change.type_of(op.inputs[1])
        return isinstance(scale, TensorType) and scale.shape.dims not in ((), (1,))

    def adjust(
        self, op: Op, before: OpDef, after: OpDef, change: VersionChange
    ) -> None:
        super().adjust(op, before, after, change)
        if change.version < _NEGATIVE_AXES_SINCE:
            _count_axes_from_front(op, change)

    def adjust_constant(self, op: Op, change: VersionChange) -> None:
        """Write the constant with an attribute of Constant that the opset has."""
        notes = notes_of(op)
        after = change.after.get("Constant")
        if notes.get("node") and after and after.attr(notes["node"]) is None:
            op.attrs[NOTES_KEY] = {**notes, "node": "value"}

    def finish(self, graph: Graph, change: VersionChange) -> None:
        super().finish(graph, change)
        for part in graph.graphs():
            for domain in part.imports:
                if domain in DEFAULT:
                    part.imports[domain] = change.version
        if change.version != version_number(change.source):
            drop_ir_version(graph)


def _count_axes_from_front(op: Op, change: VersionChange) -> None:
    found = change.type_of(op.inputs[0] if op.inputs else None)
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return
    for name in ("axis", "axes"):
        value = op.attrs.get(name) if op.has_attrs else None
        rank = found.shape.rank
        if isinstance(value, int):
            op.attrs[name] = value % rank if value < 0 and rank else value
        elif isinstance(value, list) and all(isinstance(i, int) for i in value):
            rank += len(value) if op.type == "Unsqueeze" else 0
            op.attrs[name] = [i % rank if i < 0 and rank else i for i in value]


MAPPING_OF_OPSETS = OpsetMapping("onnx-opset", MAPPING, harmless=_HARMLESS)
"""The entry `onnx-opset` of `amanda.mappings`."""
