"""Executables: graphs run by PyTorch op by op, in the order of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import torch

from amanda.backend import (
    Implementation,
    OpLabel,
    Profile,
    implementation_lines,
    op_label,
)
from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda.host import host_in_use
from amanda.types import RefType, TensorType, Type, unknown
from amanda_std import passes
from amanda_std.backends import (
    RunContext,
    State,
    infer,
    is_not_composite,
    lower,
    run_context,
    use_kernels,
)
from amanda_torch.backend.arrays import to_numpy, to_tensor
from amanda_torch.backend.fusion import fuse_layers
from amanda_torch.backend.kernels import ARRAYS, stays_whole
from amanda_torch.backend.steps import TorchSteps

if TYPE_CHECKING:
    from amanda_torch.backend.torch_backend import Settings

__all__ = ["Executable", "Report", "SeparateResults"]

_STATE: Final = frozenset({"holds", "reads", "writes"})
_Tensor: Final = torch.Tensor
_Result = TypeVar("_Result")


class Report(NamedTuple):
    """How an executable runs."""

    device: str
    implementations: tuple[Implementation, ...]
    """What runs each op: a function of PyTorch or of NumPy, or its definition."""

    def __str__(self) -> str:
        return "\n".join(
            [f"on {self.device}", *implementation_lines(self.implementations)]
        )


class Executable:
    """A graph on one device. Several threads may call it at once.

    Calls of an executable with state are serialized. Gradients are PyTorch's: results
    of feeds that require gradients have a `grad_fn`."""

    def __init__(self, graph: Graph, device: Any, settings: Settings) -> None:
        self.device = device
        prepared = prepare_graph(graph)
        self.steps = TorchSteps(prepared, device, fuses=not settings.profile)
        self._labels = _labels(prepared) if settings.profile else None
        self._results = settings.results
        self._converters = [
            _feed_converter(port.type, device) for port in graph.parameters
        ]
        self.state: State | None = None
        """The variables, by key; None if there are none."""
        if self.steps.effects & _STATE:
            self.state = State() if settings.state is None else settings.state
        self._context = RunContext(
            self.state, settings.observe, settings.callbacks or {}, host_in_use()
        )
        self._has_effects = bool(self.steps.effects)
        self._forms: set[Any] = set()
        """Dtypes and shapes of feeds, in the order of the inputs, of earlier calls."""

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Run with checked feeds, in the order of the inputs. `out` is not used."""
        del out
        values = tuple(feeds.values())
        results = self._run(values)
        if not self._has_effects:
            self._forms.add(_form_of(values))
        return results

    def call_again(self, values: tuple[Any, ...]) -> Sequence[Any] | None:
        """Run with feeds of types and shapes that were run before."""
        return self._run(values) if _form_of(values) in self._forms else None

    def call_consuming(self, values: list[Any]) -> Sequence[Any] | None:
        """Run with feeds of types and shapes that were run before, for tensors.

        Each is freed after its last use, and the list is cleared; None if it was not
        run."""
        if self._has_effects or self._results is not None:
            return None
        if not _has_tensor(values) or _form_of(values) not in self._forms:
            return None
        known = self.steps.constant_memory
        separated = SeparateResults(values, known, are_feeds_freed=True)
        rows = zip(self._converters, values, strict=True)
        args = [convert(value) for convert, value in rows]
        values.clear()
        with use_kernels(ARRAYS):
            results: Sequence[Any]
            results = separated.separate(self.steps.run_consuming(args))
            return results

    def _run(self, values: Sequence[Any]) -> Sequence[Any]:
        as_tensors = self._results == "torch" or (
            self._results is None and _has_tensor(values)
        )
        args = [
            convert(value)
            for convert, value in zip(self._converters, values, strict=True)
        ]
        mode = nullcontext() if as_tensors else torch.inference_mode()
        with mode, use_kernels(ARRAYS):
            results = self._call_inside(lambda: self.steps.run(args))
            separated = SeparateResults(args, self.steps.constant_memory)
            kept: Sequence[Any] = separated.separate(results)
            if as_tensors:
                return kept
            return [to_numpy(value, is_row_major=True) for value in kept]

    def _call_inside(self, call: Callable[[], _Result]) -> _Result:
        """Call with the variables, if there are any."""
        if not self._has_effects:
            return call()
        lock = self.state.lock if self.state else nullcontext()
        with run_context(self._context), lock:
            return call()

    def profile(self, feeds: Mapping[str | int, Any]) -> Profile:
        """The time of each op; on a GPU, until it has finished."""
        labels = self._labels
        if labels is None:
            raise BackendError(
                "ops are timed only where the option `profile` was given",
                hint="compile with profile=True",
            )
        rows = zip(self._converters, feeds.values(), strict=True)
        args = [convert(value) for convert, value in rows]
        with torch.inference_mode(), use_kernels(ARRAYS):
            found = self._call_inside(lambda: self.steps.profile(labels, args))
            separated = SeparateResults(args, self.steps.constant_memory)
            kept = separated.separate(found.results)
            results = [to_numpy(value, is_row_major=True) for value in kept]
        return found._replace(results=results)

    def report(self) -> Report:
        """What runs each op."""
        return Report(str(self.device), tuple(self.steps.implementations()))

    def __repr__(self) -> str:
        return f"<executable on {self.device}>"


def prepare_graph(graph: Graph) -> Graph:
    """The graph of the ops that have kernels, with constants folded."""
    typed = graph.clone()
    infer(typed)
    passes.fuse(typed)
    fuse_layers(typed)
    lower(typed, _is_supported)
    for improve in (passes.fold, passes.share, passes.drop):
        improve(typed)
    return typed


def _labels(graph: Graph) -> list[OpLabel]:
    """The labels of the steps: all ops but the constants."""
    return [op_label(op, i) for i, op in enumerate(graph) if not op.is_constant]


def _is_supported(op: Op) -> bool:
    return is_not_composite(op) or stays_whole(op)


def _has_tensor(values: Sequence[Any]) -> bool:
    return any(isinstance(value, _Tensor) for value in values)


def _form_of(values: Sequence[Any]) -> Any:
    try:
        return tuple([(type(v), v.dtype, v.shape) for v in values])
    except AttributeError:  # no array
        return None


def _feed_converter(type_: Type | None, device: Any) -> Callable[[Any], Any]:
    """A function that converts a feed to a tensor, without a copy where possible."""
    if isinstance(type_, RefType):
        return lambda cell: cell
    is_tensor = type_ is None or isinstance(type_, TensorType)
    dtype: Any = getattr(type_, "dtype", unknown)
    wanted = None if dtype is unknown else dtype.numpy

    def convert(feed: Any) -> Any:
        if type(feed) is _Tensor and feed.device == device:
            return feed
        if isinstance(feed, _Tensor | np.ndarray) or feed is None:
            return to_tensor(feed, device)
        if isinstance(feed, list | tuple | dict) and not is_tensor:
            return _container_of_tensors(feed, device)
        if hasattr(feed, "__dlpack__") and not isinstance(feed, np.generic):
            return to_tensor(torch.from_dlpack(feed), device)
        return to_tensor(np.asarray(feed, wanted), device)

    return convert


def _container_of_tensors(feed: Any, device: Any) -> Any:
    """A feed of a container input, with tensors as its items."""
    if isinstance(feed, dict):
        return {k: _container_of_tensors(each, device) for k, each in feed.items()}
    if isinstance(feed, list | tuple):
        return type(feed)([_container_of_tensors(each, device) for each in feed])
    if feed is None or isinstance(feed, _Tensor):
        return to_tensor(feed, device)
    return to_tensor(np.asarray(feed), device)


class SeparateResults:
    """Results that share no memory with feeds, weights or each other.

    `are_feeds_freed`: feeds may be freed in the call, and results get their memory."""

    def __init__(
        self, feeds: Sequence[Any], memory: set[int], *, are_feeds_freed: bool = False
    ) -> None:
        tensors = [feed for feed in feeds if isinstance(feed, _Tensor)]
        self._taken = {*map(_address, tensors)}
        self._objects = {*map(id, tensors)} if are_feeds_freed else None
        self._constants = memory

    def separate(self, value: Any) -> Any:
        if isinstance(value, _Tensor):
            at = _address(value)
            is_taken = at in self._taken or at in self._constants
            if at and is_taken and self._is_shared(value):
                value = value.clone(memory_format=torch.contiguous_format)
                at = _address(value)
            self._taken.add(at)
            if self._objects is not None:
                self._objects.add(id(value))
            return value
        if isinstance(value, list | tuple):
            return type(value)([self.separate(each) for each in value])
        return value

    def _is_shared(self, value: Any) -> bool:
        """Whether the memory at a known address is still that of another value."""
        if self._objects is None or id(value) in self._objects:
            return True
        return _is_held_twice(value)


_use_count: Final = getattr(torch._C, "_storage_Use_Count", None)
_OWN_USES: Final = 2
"""Uses of memory that one tensor has, and the object that they are counted by."""


def _is_held_twice(tensor: Any) -> bool:
    """Whether another tensor has the same memory."""
    memory = tensor.untyped_storage()
    return _use_count is None or _use_count(memory._cdata) > _OWN_USES


def _address(tensor: Any) -> int:
    """Where the memory of a tensor begins; views of one tensor have the same."""
    return int(tensor.untyped_storage().data_ptr())
