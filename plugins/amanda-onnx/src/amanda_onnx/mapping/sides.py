"""ONNX as one end of mappings: a side for each opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from amanda.api import namespace
from amanda.dictionary import parse_name
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline, PlainSide, Signature

__all__ = ["OnnxSide", "onnx_side"]


class OnnxSide(PlainSide):
    """One opset of ONNX's own domain."""

    def __init__(self, opset: int) -> None:
        name = f"amanda/onnx/{opset}"
        dictionary: Any = namespace(name, assume=True)
        super().__init__(name, dictionary.signature)
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
        signature: Signature | None = self.signature(type)
        for key in kept:
            if signature is not None and key not in signature.attrs:
                raise Decline(f"{type} of {self.name} has no attribute {key}")
        return super().build(
            graph, type, args, kept, outputs=outputs, name=name, bodies=bodies
        )

    def type_of(self, op: Op) -> str | None:
        """The op type, for ops of ONNX's own domain."""
        space = op.own_namespace
        return op.type if space is None or space == self.name else None


@cache
def onnx_side(name: str) -> OnnxSide:
    """The side of a namespace by its full name, `amanda/onnx/18`."""
    return OnnxSide(int(parse_name(name).version or 1))
