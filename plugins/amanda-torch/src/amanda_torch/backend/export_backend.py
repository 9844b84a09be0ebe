"""The backend `torch-export`: programs that PyTorch loads as `.pt2`, and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

from amanda.errors import BackendError
from amanda.graph import CORE, Graph, Op
from amanda.types import DType, OpaqueType, TensorType, VoidType
from amanda_torch.codes import DTYPES

if TYPE_CHECKING:
    from amanda_torch.backend.exported_program import ProgramExecutable

__all__ = ["ExportBackend"]


class ExportBackend:
    """Entry `torch-export` of `amanda.backends`.

    A graph is mapped to the ops of the installed PyTorch, written as the archive that
    `amanda.save` writes, and loaded by `torch.export.load`.
    """

    name = "torch-export"

    @property
    def namespace(self) -> str:
        """All versions up to the installed one, which loads archives of older ones."""
        try:
            return f"amanda/torch/2.0..{version('torch').partition('+')[0]}"
        except PackageNotFoundError:
            return "amanda/torch/*"

    def devices(self) -> Sequence[str]:
        """The names of the devices that can be used, the default one first."""
        from amanda_torch.backend.devices import usable_devices

        return usable_devices()

    def prepare(self, graph: Graph) -> Graph:
        """With parameters of PyTorch in place of constants, and types of all values."""
        from amanda_torch.mapping.written_programs import finish_program

        if not any(op.own_namespace == CORE for op in graph.walk()):
            return graph
        copy = graph.clone()
        finish_program(copy)
        return copy

    def takes(self, op: Op) -> Literal[True] | str:
        """True for ops that the dictionary or an imported library has."""
        if isinstance(op, Graph):
            return "a program of PyTorch has no nested graphs as ops"
        if op.definition is not None or _is_registered(op.type or ""):
            return True
        return f"PyTorch has no op {op.type}"

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> ProgramExecutable:
        from amanda_torch.backend.devices import find_device
        from amanda_torch.backend.exported_program import ProgramExecutable

        if options:
            raise BackendError(f"backend {self.name!r} has no option {min(options)!r}")
        for port in (*graph.parameters, *graph.outputs):
            _expect_tensor(port)
        return ProgramExecutable(graph, find_device(device))


def _expect_tensor(port: Any) -> None:
    """Raise BackendError for an input or result of a type that PyTorch lacks."""
    dtype = getattr(port.type, "dtype", None)
    is_known = isinstance(port.type, TensorType | OpaqueType | VoidType | None)
    if not is_known or (isinstance(dtype, DType) and dtype not in DTYPES.codes):
        raise BackendError(
            f"PyTorch has no values of type {port.type if not is_known else dtype}",
            who=port.name or "an input or a result",
        )


def _is_registered(type: str) -> bool:
    """Whether `torch.library` has an op, of this process."""
    import torch

    place: Any = torch.ops
    for part in type.split("."):
        place = getattr(place, part, None)
    return hasattr(place, "overloads") or hasattr(place, "_schema")
