"""Graphs as live objects of PyTorch: exported programs, and modules that train."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from amanda.backend import consumes
from amanda.errors import UsageError
from amanda_torch.format import Format
from amanda_torch.live_objects import import_torch

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["to_exported_program", "to_module"]

_NAMESPACE: Final = "amanda/torch/*"
_LOADING: Final = Lock()
"""PyTorch loads one program at a time."""
_QUANTIZED: Final = "quantized_decomposed."
_QUANTIZED_OPS: Final = "torch.ao.quantization.fx._decomposed"
"""The module that registers these ops; PyTorch itself does not import it."""


def to_exported_program(graph: Graph) -> Any:
    """The `ExportedProgram` of a graph of PyTorch's ops.

    Weights are copied. Parameters that share a tensor are one `nn.Parameter`, as they
    are in a module with tied weights.
    """
    torch = import_torch()
    if graph.namespace is None or not consumes(graph.namespace, _NAMESPACE):
        raise UsageError(
            "the graph has no ops of PyTorch", who="to_exported_program",
            expected=_NAMESPACE, got=graph.namespace or "no namespace",
            hint='amanda.convert(graph, "torch") first',
        )  # fmt: skip
    if any((op.type or "").startswith(_QUANTIZED) for op in graph.walk()):
        import_module(_QUANTIZED_OPS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        Format().write(graph, path)
        with _LOADING:
            program = torch.export.load(path)
    _join_tied_weights(program)
    return program


def to_module(graph: Graph) -> Any:
    """The `fx.GraphModule` of a graph of PyTorch's ops, called as the model was.

    Its parameters and buffers have the names of the model and train; it can be copied,
    exported and compiled. Layers that behave otherwise in training do what the graph
    says, so `train()` and `eval()` are refused by PyTorch.
    """
    return to_exported_program(graph).module()


def _join_tied_weights(program: Any) -> None:
    """Make parameters of a program that share all of their memory one parameter."""
    first: dict[Any, Any] = {}
    state = program.state_dict
    for name, tensor in state.items():
        key = (
            tensor.untyped_storage().data_ptr(), tensor.storage_offset(),
            tensor.shape, tensor.stride(), type(tensor), tensor.dtype,
        )  # fmt: skip
        if tensor.numel():
            state[name] = first.setdefault(key, tensor)
