"""Graphs as steps of PyTorch, with shapes computed by NumPy in host memory.

Sizes of tensors, and integers computed from them, are arrays of NumPy: so are the shape
arguments that they become, without a transfer from the device. NumPy also has the
values of types that PyTorch does not have, such as strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import torch

from amanda.backend import OpLabel, Profile, typical_run
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, TensorType, Type, unknown
from amanda_std.backends import (
    BODY,
    NUMPY,
    SHAPE_ARG,
    Kernels,
    RunStep,
    StepRunner,
    Trait,
    UnscheduledStep,
    is_std,
    op_arguments,
    operation_of,
    time_steps,
)
from amanda_torch.backend.arrays import TORCH_DTYPES, to_numpy, to_tensor
from amanda_torch.backend.definitions import expect_no_gradient
from amanda_torch.backend.eager_ops import EagerCall, is_eager
from amanda_torch.backend.kernels import BY_NUMPY, ROWS, TORCH
from amanda_torch.backend.narrow_types import in_wider_type, may_be_narrow
from amanda_torch.backend.packed_weights import (
    bind_packed,
    fuse_into_convolutions,
    is_packed_product,
)

__all__ = ["TorchSteps"]

_SMALL: Final = 64
"""Elements of integer constants that are kept for shapes."""
_PROFILED_RUNS: Final = 5
"""Calls that are timed; the profile is that with the median of the totals."""
_NUMPY_DTYPES: Final = frozenset(map(DType, ("uint64", "string", "bytes")))
"""Element types that PyTorch does not compute with."""


class TorchSteps(StepRunner):
    """The steps of a graph on a device; `outer` are those of the graph around it.

    With `fuses`, convolutions compute sums and ReLUs of theirs, too."""

    def __init__(
        self,
        graph: Graph,
        device: Any,
        outer: TorchSteps | None = None,
        *,
        fuses: bool = True,
    ) -> None:
        self.device = device
        self._fuses = fuses
        known: frozenset[Op] = frozenset() if outer is None else outer.host_ops
        self.host_ops: frozenset[Op] = find_host_ops(graph, known)
        """Ops that NumPy runs, in this graph and around it."""
        self.constant_memory: set[int] = (
            set() if outer is None else outer.constant_memory
        )
        """Where the memory of constants begins, also of those in bodies."""
        self._factors = find_factors(graph) if device.type == "cpu" else frozenset()
        super().__init__(graph, TORCH)

    def body_runner(self, graph: Graph) -> TorchSteps:
        return TorchSteps(graph, self.device, self, fuses=self._fuses)

    def kernels_of(self, op: Op) -> Kernels | None:
        return NUMPY if op in self.host_ops else self.kernels

    def constant_array(self, tensor: Tensor) -> Any:
        array = super().constant_array(tensor)
        with torch.inference_mode(False):  # a later call may need gradients
            value = to_tensor(array, self.device)
            if id(tensor) in self._factors:
                value = value.mT.contiguous().mT
        if isinstance(value, torch.Tensor):
            self.constant_memory.add(value.untyped_storage().data_ptr())
        return array if is_host_constant(tensor) else value

    def bind_kernel(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        call, ins = super().bind_kernel(op)
        if op in self.host_ops:
            reads_shapes = Trait.SHAPE_QUERY in operation_of(op).traits
            return call if reads_shapes else _with_arrays(op, call), ins
        if Trait.CONTAINER in operation_of(op).traits:
            call = self._with_tensor_result(call)  # a length, or whether it is there
        is_narrow = any(may_be_narrow(v.type) for v in op.inputs if v is not None)
        if is_narrow and op.type in ROWS:
            call = in_wider_type(operation_of(op), call)
        if self.device.type == "cpu":
            call = bind_packed(op, call)
        moved = self._move_constants(op, ins)
        return self._with_tensors(call, moved) if moved else call, ins

    def unscheduled_step(self, op: Op, number: int) -> UnscheduledStep | None:
        if not is_eager(op):
            return super().unscheduled_step(op, number)
        eager = EagerCall(op)
        converters = [
            int if is_number else self._as_tensor if value.op in self.host_ops else None
            for value, is_number in zip(eager.values, eager.numbers, strict=True)
        ]
        call = _with_converted(eager, converters) if any(converters) else eager
        many = len(eager.overload._schema.returns) > 1
        return self.add_step(op, number, call, eager.values, many, eager.overload)

    def _as_tensor(self, value: Any) -> Any:
        return to_tensor(value, self.device)

    def schedule(self, rows: Sequence[UnscheduledStep]) -> list[RunStep]:
        if self._fuses:
            rows = fuse_into_convolutions(rows, self._results)
        return super().schedule(rows)

    def _move_constants(self, op: Op, ins: list[int]) -> list[int]:
        """Which arguments are in host memory; constants become tensors right away."""
        args, _ = op_arguments(op, lambda port: port)
        params = operation_of(op).form.params_of(len(args))
        rows = [row for row in zip(params, args, strict=True) if row[0].role != BODY]
        moved = []
        for i, (param, arg) in enumerate(rows):
            if not isinstance(arg, OutputPort) or param.role == SHAPE_ARG:
                continue
            if arg.op not in self.host_ops:
                continue
            if arg.op.is_constant:
                array = super().constant_array(arg.op.attrs["value"])
                ins[i] = self._constant_slot(to_tensor(array, self.device))
            else:
                moved.append(i)
        return moved

    def _with_tensors(
        self, call: Callable[..., Any], places: Sequence[int]
    ) -> Callable[..., Any]:
        """A kernel whose arguments at these places are brought to the device."""
        device = self.device

        def with_tensors(*args: Any) -> Any:
            ready = list(args)
            for i in places:
                ready[i] = to_tensor(ready[i], device)
            return call(*ready)

        return with_tensors

    def _with_tensor_result(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: to_tensor(call(*args), self.device)

    def run(
        self,
        args: Sequence[Any],
        captured: Sequence[Any] = (),
        weights: Mapping[str | int, Any] | None = None,
    ) -> list[Any]:
        device = self.device
        results = super().run([to_tensor(a, device) for a in args], captured, weights)
        return self._as_tensors(results)

    def run_consuming(self, args: list[Any]) -> list[Any]:
        return self._as_tensors(super().run_consuming(args))

    def profile(self, labels: Sequence[OpLabel], args: Sequence[Any]) -> Profile:
        """The time of each step; with side effects, of one call only."""
        call = 0.0
        if not self.effects:
            self.run(args)  # loads the weights
            start = perf_counter()
            self.run(args)
            self._wait()
            call = perf_counter() - start
        runs, values = [], list[Any]()
        for _ in range(1 if self.effects else _PROFILED_RUNS):
            values = self._first_values([to_tensor(a, self.device) for a in args])
            runs.append(time_steps(self.steps, labels, values, self._wait))
        ops = typical_run(runs)
        how = "each op in turn, without ops that calls fuse into convolutions"
        results = self._as_tensors(self._results_in(values))
        return Profile(how, ops, call or sum(op.seconds for op in ops), results)

    def _wait(self, values: Any = None) -> None:
        """Return when the device has finished."""
        del values
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def _as_tensors(self, values: Sequence[Any]) -> list[Any]:
        return [
            value if type(value) is torch.Tensor else to_tensor(value, self.device)
            for value in values
        ]


def _with_converted(
    call: Callable[..., Any], converters: Sequence[Callable[..., Any] | None]
) -> Callable[..., Any]:
    """A function some of whose arguments are converted first."""
    return lambda *args: call(
        *(
            arg if convert is None else convert(arg)
            for arg, convert in zip(args, converters, strict=True)
        )
    )


def _with_arrays(op: Op, call: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of NumPy that may be called with tensors."""
    operation = operation_of(op)
    has_gradient = operation.gradient_rule is not None and operation.effect is None

    def with_arrays(*args: Any) -> Any:
        if has_gradient:
            expect_no_gradient(operation.name, args)
        return call(*map(to_numpy, args))

    return with_arrays


def find_factors(graph: Graph) -> frozenset[int]:
    """Weights that are only second factors of products, by the identity of tensors.

    On a CPU they are stored by columns, as `torch.nn.Linear` does: the product of a few
    rows is up to twice as fast, that of many as fast. Those that are packed are not."""
    products = [
        op for op in graph
        if op.type in ("linear", "matmul") and not is_packed_product(op)
    ]  # fmt: skip
    values = {op.inputs[1] for op in products}
    return frozenset(
        id(value.op.attrs["value"])
        for value in values
        if value is not None and value.op.is_constant and _is_factor(value)
    )


def _is_factor(value: OutputPort) -> bool:
    tensor = value.op.attrs["value"]
    if len(tensor.shape) != 2 or tensor.dtype.kind != "float":
        return False
    return all(
        user.op.type in ("linear", "matmul") and user.index == 1 for user in value.users
    )


def find_host_ops(graph: Graph, known: frozenset[Op]) -> frozenset[Op]:
    """The ops of a graph that NumPy runs in host memory, and those known before."""
    found = set(known)
    for op in graph:
        if op.is_constant:
            if is_host_constant(op.attrs["value"]):
                found.add(op)
        elif is_std(op) and _runs_on_host(op, found):
            found.add(op)
    return frozenset(found)


def is_host_constant(tensor: Tensor) -> bool:
    """Whether a constant may become a shape argument, or is none of PyTorch's."""
    if not _has_torch_type(tensor.dtype):
        return True
    few = len(tensor.shape) <= 1 and sum(tensor.shape) <= _SMALL
    return few and tensor.dtype.kind in ("int", "uint", "bool")


def _runs_on_host(op: Op, host_ops: set[Op]) -> bool:
    operation = operation_of(op)
    if any(p.role == BODY for p in operation.form.params):
        return False
    if Trait.CONTAINER in operation.traits:
        return False
    if Trait.SHAPE_QUERY in operation.traits or op.type in BY_NUMPY:
        return True
    inputs = [value for value in op.inputs if value is not None]
    ports: Iterable[OutputPort] = (*inputs, *op.outputs)
    if not all(_has_torch_elements(port.type) for port in ports):
        return True
    if not all(value.op in host_ops for value in inputs):
        return False
    return not inputs or all(_is_integer_row(port.type) for port in op.outputs)


def _has_torch_type(dtype: Any) -> bool:
    return dtype is unknown or (dtype in TORCH_DTYPES and dtype not in _NUMPY_DTYPES)


def _has_torch_elements(type_: Type | None) -> bool:
    """Whether PyTorch computes with values of a type, as far as that is known."""
    return not isinstance(type_, TensorType) or _has_torch_type(type_.dtype)


def _is_integer_row(type_: Type | None) -> bool:
    """Whether values of a type are integers, at most one row of them."""
    if not isinstance(type_, TensorType) or not type_.shape.has_rank:
        return False
    return type_.dtype.kind in ("int", "uint", "bool") and type_.shape.rank <= 1
