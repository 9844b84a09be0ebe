"""PyTorch as one side of mappings: a side for each version of its ops.

Programs are functionalized before they are read: writes become values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from amanda import namespace
from amanda.graph import Graph, Op
from amanda.mapping import REQUIRED, PlainSide, Signature
from amanda.types import TensorType, Type

__all__ = ["TorchSide", "torch_side"]


class TorchSide(PlainSide):
    """One version of PyTorch's ops, to be written."""

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a body's parameters.

        Loops keep those of their variables but not the content of the first ones; the
        rows of a scan have those that the program records.
        """
        if op.type == "higher_order.cond":
            return inputs[1:]
        if op.type == "higher_order.scan":
            return [port.type for port in op.bodies["combine_fn"].parameters]
        return [_without_content(type) for type in inputs]

    def prepare(self, graph: Graph) -> Graph:
        """A functionalized copy, in which ops that have no effect are left out."""
        from amanda_torch.mapping.functionalization import functionalize

        return functionalize(graph)


def _without_content(type: Type | None) -> Type | None:
    return TensorType(type.dtype, type.shape) if isinstance(type, TensorType) else type


class TorchReadingSide(TorchSide):
    """One version of PyTorch's ops, to be read: an attribute may be an input."""

    def signature(self, type: str, /) -> Signature | None:
        found = super().signature(type)
        if found is None:
            return None
        attrs = {k: None if v is REQUIRED else v for k, v in found.attrs.items()}
        return found._replace(attrs=attrs)


def torch_side(name: str, imports: Mapping[str, int] | None = None) -> TorchSide:
    """The side of `amanda/torch/2.13.0`."""
    return _cached_side(name, imports is None)


@cache
def _cached_side(name: str, is_read: bool) -> TorchSide:
    dictionary: Any = namespace(name, assume=True)
    return (TorchReadingSide if is_read else TorchSide).of(dictionary)
