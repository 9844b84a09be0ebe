"""Live objects of an imported PyTorch, and TorchScript, as exported programs."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from amanda.errors import AmandaError, FormatError, UsageError

__all__ = ["LiveArguments", "export_live_object", "export_script", "import_torch"]


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


def export_live_object(source: Any, given: LiveArguments) -> bytes:
    """The archive of an `ExportedProgram`, or of a module exported with arguments."""
    torch = import_torch()
    if isinstance(source, torch.jit.ScriptModule):
        return _save(torch, _convert_script(torch, source, given))
    if isinstance(source, torch.export.ExportedProgram):
        if given.are_given or given.dynamic_shapes is not None:
            raise UsageError("an exported program takes no arguments", who="load")
        return _save(torch, source)
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
    return _save(torch, program)


def export_script(path: str | os.PathLike[str], given: LiveArguments) -> bytes:
    """The archive of a TorchScript file, which PyTorch reads."""
    torch = import_torch()
    module = _run_torch(torch.jit.load, os.fspath(path), map_location="cpu")
    return _save(torch, _convert_script(torch, module, given))


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


def _save(torch: Any, program: Any) -> bytes:
    from amanda_torch.flex_attention import expand_flex_attention

    out = io.BytesIO()
    program = _run_torch(expand_flex_attention, torch, program)
    _run_torch(torch.export.save, program, out)
    return out.getvalue()


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
