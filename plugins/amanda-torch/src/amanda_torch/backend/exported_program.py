"""Exported programs as executables: graphs of PyTorch's ops, run by PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree

from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, TensorType
from amanda_torch.backend.arrays import to_numpy, to_tensor
from amanda_torch.backend.executable import SeparateResults
from amanda_torch.modules import to_exported_program
from amanda_torch.records import INPUT_RECORDS

__all__ = ["ProgramExecutable"]


class ProgramExecutable:
    """An `ExportedProgram` on one device. Several threads may call it at once.

    A program that writes to its buffers or inputs gets copies of them in each call:
    calls are independent. Results are tensors if any feed is one."""

    mapped_files = ()
    """The program holds copies of all weights."""

    def __init__(self, graph: Graph, device: Any) -> None:
        self.device = device
        self._graph = graph
        self._loaded: dict[Any, LoadedProgram] = {}
        self._untyped = [not _is_known(port.type) for port in graph.parameters]
        self.draws = True
        """Whether a call draws random numbers, from the generators of PyTorch."""
        if any(self._untyped):  # the feeds of a call decide the types
            self._graph = graph.clone()
        else:
            self._loaded[()] = LoadedProgram(graph, device)
            self.draws = self._loaded[()].draws

    @property
    def program(self) -> Any:
        """The `ExportedProgram`; that of the first call where inputs have no types."""
        for loaded in self._loaded.values():
            return loaded.program
        raise BackendError("there is no program before the first call")

    def __call__(
        self, feeds: Mapping[Any, Any], out: Mapping[Any, Any] | None = None
    ) -> Sequence[Any]:
        """Run with checked feeds in the order of the inputs; results in their order."""
        del out
        values = list(feeds.values())
        as_tensors = any(isinstance(value, torch.Tensor) for value in values)
        with nullcontext() if as_tensors else torch.no_grad():
            found = self._program_for(values).run(values)
        if as_tensors:
            return found
        return [to_numpy(value, is_row_major=True) for value in found]

    def _program_for(self, values: Sequence[Any]) -> LoadedProgram:
        types = [_type_of(v) for v, untyped in zip(values, self._untyped, strict=True)
                 if untyped]  # fmt: skip
        key = tuple(map(str, types))
        if key not in self._loaded:
            graph = self._graph.clone()
            rest = iter(types)
            for port, untyped in zip(graph.parameters, self._untyped, strict=True):
                if untyped:
                    port.type = next(rest)
            self._loaded[key] = LoadedProgram(graph, self.device)
        return self._loaded[key]


def _is_known(type_: Any) -> bool:
    is_tensor = isinstance(type_, TensorType)
    return is_tensor and type_.shape.has_rank and isinstance(type_.dtype, DType)


def _type_of(value: Any) -> TensorType:
    """The type of a feed."""
    array = to_numpy(value) if _is_tensor(value) else np.asarray(value)
    return TensorType(DType.of(array), array.shape)


class LoadedProgram:
    """A program that PyTorch has loaded."""

    def __init__(self, graph: Graph, device: Any) -> None:
        self.device = device
        self.program = _load_program(graph, device)
        self.module = self.program.module()
        self.draws = _has_tag(self.program, torch.Tag.nondeterministic_seeded)
        self._result_types = [port.type for port in graph.outputs]
        self._sources = list(graph.results)
        self._writes = _writes(self.program)
        self._lock: Any = Lock() if self._writes else nullcontext()
        buffers = self.module.named_buffers() if self._writes else ()
        self._buffers = {name: buffer.clone() for name, buffer in buffers}

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results as tensors."""
        with self._lock:
            args, kwargs = self._arguments(values)
            try:
                results = self.module(*args, **kwargs)
            except (RuntimeError, AssertionError, NotImplementedError) as error:
                raise BackendError(
                    f"PyTorch {torch.__version__} cannot run the program",
                    got=f"{type(error).__name__}: {_first_line(error)}",
                ) from error
            return self._results(_pytree.tree_leaves(results), args, kwargs)

    def _arguments(self, values: Sequence[Any]) -> Any:
        """The positional and keyword arguments of the module, which takes trees."""
        for name, buffer in self.module.named_buffers() if self._buffers else ():
            buffer.copy_(self._buffers[name])
        rest = iter(values)
        leaves = [
            spec.arg.value if isinstance(spec.arg, ConstantArgument)
            else self._argument(next(rest), spec.arg)
            for spec in self.program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        ]  # fmt: skip
        return _pytree.tree_unflatten(leaves, self.program.call_spec.in_spec)

    def _argument(self, value: Any, argument: Any) -> Any:
        """A feed as a tensor, or as the number that a symbolic number is."""
        if type(argument).__name__.startswith("Sym"):
            return value.item() if hasattr(value, "item") else value
        if not isinstance(value, torch.Tensor):
            value = to_tensor(np.asarray(value), self.device)
        return value.clone() if self._writes else value.to(self.device)

    def _results(self, leaves: Sequence[Any], args: Any, kwargs: Any) -> list[Any]:
        """The results as tensors that share no memory with others."""
        feeds = [x for x in _pytree.tree_leaves((args, kwargs)) if _is_tensor(x)]
        weights = [*self.module.state_dict().values(), *_constants(self.program)]
        held = {each.untyped_storage().data_ptr() for each in weights}
        separate = SeparateResults(feeds, held).separate
        return [
            separate(value if source is None else _as_tensor(value, type_))
            for value, source, type_ in zip(
                leaves, self._sources, self._result_types, strict=True
            )
        ]


def _load_program(graph: Graph, device: Any) -> Any:
    """The program of a graph, whose results are all outputs of the user's.

    Those that are new values of buffers would not be returned."""
    if any(INPUT_RECORDS.of(port).get("spec") for port in graph.outputs):
        graph = graph.clone()
        for port in graph.outputs:
            record = dict(INPUT_RECORDS.of(port))
            record.pop("spec", None)
            port.attrs[INPUT_RECORDS.key] = record
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = to_exported_program(graph)
            if device.type != "cpu":
                from torch.export.passes import move_to_device_pass

                program = move_to_device_pass(program, device)
    except (RuntimeError, AssertionError, TypeError, ValueError, KeyError) as error:
        raise BackendError(
            f"PyTorch {torch.__version__} does not load the program",
            got=f"{type(error).__name__}: {_first_line(error)}",
        ) from error
    return program


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:300]


def _nodes(program: Any) -> Any:
    for module in program.graph_module.modules():
        yield from module.graph.nodes if hasattr(module, "graph") else ()


def _writes(program: Any) -> bool:
    """Whether ops of a program write to their arguments."""
    schemas = (getattr(node.target, "_schema", None) for node in _nodes(program))
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _has_tag(program: Any, tag: Any) -> bool:
    return any(tag in getattr(node.target, "tags", ()) for node in _nodes(program))


def _constants(program: Any) -> list[Any]:
    return [value for value in program.constants.values() if _is_tensor(value)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _as_tensor(value: Any, type_: Any) -> Any:
    """A result; the number of a symbolic one as a tensor of its element type."""
    if not isinstance(value, bool | int | float):
        return value
    dtype = type_.dtype if isinstance(type_, TensorType) else DType("int64")
    return to_tensor(np.asarray(value, dtype.numpy), torch.device("cpu"))
