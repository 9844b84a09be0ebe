"""Live objects of an imported PyTorch, and TorchScript, as exported programs."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from amanda.errors import AmandaError, FormatError, UsageError
from amanda.formatkit import MessageFile
from amanda.tensors import Tensor
from amanda.types import uint8
from amanda_torch.archives import DEFAULT_MODEL, MEMBERS, ProgramParts
from amanda_torch.payloads import read_payloads

__all__ = [
    "LiveArguments", "export_live_object", "export_script", "import_torch",
]  # fmt: skip


class LiveArguments(NamedTuple):
    """What a module is exported with, as `torch.export.export` takes it."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def are_given(self) -> bool:
        return self.args is not None or self.kwargs is not None


def import_torch() -> Any:
    """The module `torch`."""
    try:
        import torch
    except ImportError as error:
        raise FormatError(
            "PyTorch is not installed", hint="pip install 'amanda-torch[torch]'"
        ) from error
    return torch


def export_live_object(source: Any, given: LiveArguments) -> ProgramParts | bytes:
    """The program of an `ExportedProgram`, or of a module exported with arguments."""
    torch = import_torch()
    if isinstance(source, torch.jit.ScriptModule):
        return _parts_of(torch, _convert_script(torch, source, given))
    if isinstance(source, torch.export.ExportedProgram):
        if given.are_given or given.dynamic_shapes is not None:
            raise UsageError("an exported program takes no arguments", who="load")
        return _parts_of(torch, source)
    if not isinstance(source, torch.nn.Module):
        raise FormatError(
            "this is no object that PyTorch exports", got=type(source).__name__,
            expected="an ExportedProgram, or a module with args=",
        )  # fmt: skip
    if not given.are_given:
        raise UsageError(
            "a module is exported with example inputs", who=type(source).__name__,
            expected="args or kwargs", hint="amanda.load(module, args=[x])",
        )  # fmt: skip
    program = _run_torch(
        torch.export.export, source, tuple(given.args or ()), dict(given.kwargs or {}),
        dynamic_shapes=given.dynamic_shapes,
    )  # fmt: skip
    return _parts_of(torch, program)


def export_script(
    path: str | os.PathLike[str], given: LiveArguments
) -> ProgramParts | bytes:
    """The program of a TorchScript file, which PyTorch reads."""
    torch = import_torch()
    module = _run_torch(torch.jit.load, os.fspath(path), map_location="cpu")
    return _parts_of(torch, _convert_script(torch, module, given))


def _convert_script(torch: Any, module: Any, given: LiveArguments) -> Any:
    """The exported program of TorchScript: its graph, inlined, in ops of ATen."""
    if not given.are_given or given.dynamic_shapes is not None:
        raise UsageError(
            "TorchScript is converted with example inputs, of static shape",
            expected="args or kwargs", hint="amanda.load(source, args=[x])",
        )  # fmt: skip
    from torch._export.converter import TS2EPConverter

    arguments = tuple(given.args or ()), dict(given.kwargs or {})
    del torch
    return _run_torch(lambda: TS2EPConverter(module, *arguments).convert())


def _parts_of(torch: Any, program: Any) -> ProgramParts | bytes:
    """The parts of a program, whose tensors stay in memory; its archive if some of
    them are of other classes than those of PyTorch, which archives have as pickles."""
    from amanda_torch.flex_attention import expand_flex_attention

    program = _run_torch(expand_flex_attention, torch, program)
    tensors = [*program.state_dict.values(), *program.constants.values()]
    _refuse_transforms(torch, tensors)
    if not all(_is_plain(torch, each) for each in tensors):
        out = io.BytesIO()
        _run_torch(torch.export.save, program, out)
        return out.getvalue()
    from torch._export.serde import serialize

    storages = _Storages(torch, program)
    weights, constants = (
        read_payloads(storages, "", storages.entries(table), "the program")
        for table in (program.state_dict, program.constants)
    )
    samples = _run_torch(serialize.serialize_torch_artifact, program.example_inputs)
    content = Tensor.from_buffer(samples, uint8, (len(samples),))
    members = {MEMBERS.samples.format(DEFAULT_MODEL): content}
    fields = _run_torch(_program_fields, torch, program)
    return ProgramParts(fields, weights, constants, members)


def _refuse_transforms(torch: Any, tensors: Sequence[Any]) -> None:
    """Raise a FormatError if tensors are those that a transform was computing with.

    PyTorch exports `torch.func.grad` and the like as a program with such constants,
    which it can neither run nor save.
    """
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if any(isinstance(each, torch.Tensor) and is_wrapped(each) for each in tensors):
        raise FormatError(
            "PyTorch cannot export transforms of torch.func that a module calls",
            expected="no grad, jacrev or hessian in forward",
            hint="load the function that is differentiated, and use amanda.grad",
        )  # fmt: skip


def _is_plain(torch: Any, value: Any) -> bool:
    is_tensor = isinstance(value, torch.Tensor) and type(value.data) is torch.Tensor
    return is_tensor and value.layout is torch.strided


def _program_fields(torch: Any, program: Any) -> dict[str, Any]:
    """What `torch.export.save` writes of a program, other than its tensors."""
    from torch._export.serde import schema, serialize

    from amanda_torch.fx_graphs import json_fields, serialize_module

    version = dict(zip(("major", "minor"), schema.SCHEMA_VERSION, strict=True))
    with serialize._enable_graph_inputs_of_type_nn_module(program.example_inputs):
        module = serialize_module(
            program.graph_module, program.graph_signature, program.module_call_graph
        )
    ranges = serialize.serialize_range_constraints(program.range_constraints)
    return {
        "graph_module": module,
        "opset_version": {"aten": torch._C._get_max_operator_version()},
        "range_constraints": json_fields(ranges),
        "schema_version": version,
        "verifiers": [each.dialect for each in program.verifiers],
        "torch_version": str(torch.__version__),
        "guards_code": list(program._guards_code),
    }


def _writes(program: Any) -> bool:
    """Whether a program has results that are new values of buffers, or ops that write
    to their arguments."""
    schemas = [
        getattr(node.target, "_schema", None)
        for module in program.graph_module.modules() if hasattr(module, "graph")
        for node in module.graph.nodes
    ]  # fmt: skip
    is_written = any(schema is not None and schema.is_mutable for schema in schemas)
    return is_written or bool(program.graph_signature.buffers_to_mutate)


class _Storages:
    """The storages of tensors in memory, as `Storages`; by name, their address.

    Those of buffers are copied where running the program may change them.
    """

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch = torch
        buffers = program.graph_signature.inputs_to_buffers.values()
        self.changed = set(buffers) if _writes(program) else set()
        self.known: dict[str, Any] = {}
        self.copied: set[str] = set()

    def entries(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The table that archives have of tensors."""
        return {name: self._entry(name, value) for name, value in tensors.items()}

    def _entry(self, name: str, tensor: Any) -> dict[str, Any]:
        from amanda_torch.fx_graphs import tensor_fields

        storage = tensor.untyped_storage()
        path = str(storage.data_ptr())
        self.known[path] = storage
        if name in self.changed:
            self.copied.add(path)
        return {
            "path_name": path,
            "is_param": isinstance(tensor, self.torch.nn.Parameter),
            "tensor_meta": tensor_fields(tensor),
        }

    def file_of(self, name: str, /) -> tuple[MessageFile, int]:
        """The bytes of a storage."""
        storage = self.known[name].cpu()
        data = self.torch.empty(0, dtype=self.torch.uint8).set_(storage).numpy()
        is_copied = name in self.copied or not data.size
        return MessageFile.open(data.tobytes() if is_copied else data.data), 0


def _run_torch(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of PyTorch; any error of it is a FormatError with its text."""
    try:
        return function(*args, **kwargs)
    except AmandaError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise FormatError(
            "PyTorch cannot export this", got=f"{type(error).__name__}: {lines[0]:.200}"
        ) from error
