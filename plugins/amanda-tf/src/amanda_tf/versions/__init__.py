"""The mapping `tensorflow-versions`: a graph with the ops of another version.

TensorFlow gives a changed op a new name, so an op stays where both versions have it and
its element types and attributes are allowed. Others are replaced by the rules of
`versions.rules`, `READ` and `WRITE`, else through the hub.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from amanda import namespace
from amanda.dictionary import OpDef, Port, parse_name, version_key
from amanda.graph import Graph, Op
from amanda.mapping import Decline, RuleSet, VersionChange, VersionMapping
from amanda.types import TensorType, resource, variant
from amanda_tf.mapping import MAPPING

__all__ = ["MAPPING_OF_VERSIONS", "TensorFlowVersions"]


class TensorFlowVersions(VersionMapping):
    """TensorFlow graphs with the ops of other versions."""

    def version(self, namespace: str) -> Any:
        """The version in a namespace's name, to be compared."""
        return version_key(parse_name(namespace).version or "")

    def is_replaced(self, op: Op, change: VersionChange) -> bool:
        """Whether the target deprecates an op for which there is a rule."""
        after = change.after.get(op.type or "")
        return (
            after is not None and bool(after.deprecated) and op.type in self.old_types
        )

    def adjust(
        self, op: Op, before: OpDef, after: OpDef, change: VersionChange
    ) -> None:
        """Leave out attributes that the target lacks: hints, and those of types where
        its type is theirs."""
        super().adjust(op, before, after, change)
        for key in _HINTS:
            if after.attr(key) is None:
                op.attrs.pop(key, None)
        if op.type == "TensorArrayV3" and after.attr(_SAME_SHAPES) is None:
            op.attrs.pop(_SAME_SHAPES, None)  # a check, which changes no result
        known = {variable.name for variable in after.variables}
        for variable in before.variables:
            value = op.attrs.get(variable.name)
            fixed = {
                new.type
                for old, new in zip(_ports(before), _ports(after), strict=False)
                if old.type == variable.name
            }
            if variable.name not in known and fixed == {value}:
                del op.attrs[variable.name]

    def may_leave(self, op: Op, change: VersionChange) -> bool:
        """Not an op with a handle, which others of its version use."""
        definition: Any = namespace(change.source)[op.type or ""]
        return not any(port.type in _HANDLES for port in _ports(definition))

    def faults(self, piece: Graph) -> list[str]:
        """Faults of the ops that rules built: element types of newer versions, say."""
        dictionary: Any = namespace(piece.namespace or "")
        for op in piece:
            definition = dictionary.get(op.type or "")
            declared = definition.outputs if definition is not None else ()
            for port, of in zip(op.outputs, declared, strict=False):
                if of.type in _HANDLES:  # in the hub it is what the handle stands for
                    port.type = None
        return [str(problem) for problem in dictionary.validate(piece)]

    @cached_property
    def old_types(self) -> frozenset[str]:
        """The op types of older versions that rules replace."""
        return frozenset([*(rule.left.type for rule in _RULES.rows), *READ])


_SAME_SHAPES = "identical_element_shapes"
_HINTS = ("debug_name", "grad_a", "grad_b", "grad_x", "grad_y")
"""Attributes for messages and the choice of kernels, which change no result."""
_HANDLES = (resource, variant)


def _ports(definition: OpDef) -> list[Port]:
    return [*definition.inputs, *definition.outputs]


def _gather(o: Any, params: Any, indices: Any, axis: Any, *, batch_dims: int) -> Any:
    """`Gather`, which has no axis."""
    if batch_dims or _only_number(o, axis) != 0:
        raise Decline("Gather takes rows of the first axis only")
    return o.Gather(params, indices)


def _pad(o: Any, x: Any, paddings: Any, value: Any) -> Any:
    """`Pad`, which pads with zeros."""
    if _only_number(o, value) != 0:
        raise Decline("Pad pads with zeros only")
    return o.Pad(x, paddings)


def _batch_matmul(o: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    """`BatchMatMul`, which does not broadcast."""
    types = [o.type(x), o.type(y)]
    if not all(isinstance(t, TensorType) and t.shape.has_rank for t in types):
        raise Decline("BatchMatMul does not broadcast, and the shapes are unknown")
    batches = [t.shape.dims[:-2] for t in types]
    if batches[0] != batches[1]:
        raise Decline("BatchMatMul does not broadcast")
    return o.BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y)


def _batch_norm(
    o: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *,
    epsilon: float, data_format: str, is_training: bool,
    exponential_avg_factor: float = 1.0,
) -> Any:  # fmt: skip
    """`FusedBatchNorm`, without the last result, which only gradients on GPU read."""
    if exponential_avg_factor != 1.0:
        raise Decline("FusedBatchNorm of this version has no exponential_avg_factor")
    found = o.FusedBatchNorm(
        x, scale, offset, mean, variance, epsilon=epsilon,
        data_format=data_format, is_training=is_training,
    )  # fmt: skip
    return (*found, o.graph.constant(np.zeros(0, np.float32)).output)


def _nothing(o: Any, handle: Any) -> Any:
    """Nothing in place of an op that only changes how variables are copied."""
    del o, handle
    return ()


def _tensor_array_of_text_handle(o: Any, size: Any, **attributes: Any) -> Any:
    """`TensorArrayV3`, whose second result is the flow."""
    return o.TensorArrayV3(size, **attributes)[0]


def _top_k(o: Any, x: Any, *, k: int, sorted: bool) -> Any:
    """`TopKV2`, whose `k` is an input."""
    return o.TopKV2(x, o.graph.constant(np.array(k, np.int32)).output, sorted=sorted)


def _only_number(o: Any, value: Any) -> Any:
    found = o.content(value)
    return None if found is None or np.size(found) != 1 else np.asarray(found).item()


READ: dict[str, Callable[..., Any]] = {
    "TensorArrayV2": _tensor_array_of_text_handle,
    "TopK": _top_k,
}
"""Older ops, deprecated now."""
WRITE: dict[str, Callable[..., Any]] = {
    "GatherV2": _gather,
    "PadV2": _pad,
    "BatchMatMulV2": _batch_matmul,
    "FusedBatchNormV3": _batch_norm,
    "DisableCopyOnRead": _nothing,
}
"""Newer ops of which an older one is a special case."""


def _load_rules() -> RuleSet:
    rules = RuleSet("tensorflow-versions", "amanda/tensorflow", "amanda/tensorflow")
    file = files(__package__ or "") / "versions.rules"
    rules.equations(file.read_text("utf-8"), str(file))
    for type, function in READ.items():
        rules.read(type)(function)
    for type, function in WRITE.items():
        rules.write(type)(function)
    return rules


_RULES = _load_rules()

MAPPING_OF_VERSIONS = TensorFlowVersions("tensorflow-versions", MAPPING, rules=_RULES)
"""The entry `tensorflow-versions` of `amanda.mappings`."""
