"""What runs the ops of a session: ops of onnxruntime, of a domain and an opset."""

from __future__ import annotations

from collections.abc import Iterator

from amanda.backend import Implementation, input_dtypes
from amanda.errors import FormatError
from amanda.graph import Graph, Op
from amanda_onnxruntime.onnx_format import onnx_format
from amanda_onnxruntime.runtime_info import op_schemas

__all__ = ["implementation_name", "implementations_of"]


def implementations_of(graph: Graph) -> Iterator[Implementation]:
    """The op of onnxruntime that runs each op of a graph of ONNX."""
    for i, op in enumerate(graph.walk()):
        if op.is_constant:
            continue
        label = op.label if op.name else f"{op.type} #{i}"
        yield Implementation(label, op.type or "?", input_dtypes(op), _name(op))


def _name(op: Op) -> str:
    codec = onnx_format()
    if codec.called_function(op) is not None:
        return "a function of the model"
    try:
        domain, opset = codec.domain(op)
    except FormatError as error:
        return error.message
    return implementation_name(domain, op.type or "?", opset)


def implementation_name(domain: str, op_type: str, opset: int) -> str:
    """An op with its domain, and the opset that defined it as it is in `opset`."""
    since = [v for v in op_schemas().get((domain, op_type), ()) if v <= opset]
    defined = f" of opset {max(since)}" if since else ""
    return f"{domain or 'ai.onnx'} {op_type}{defined}"
