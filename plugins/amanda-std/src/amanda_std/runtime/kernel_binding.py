"""Kernels with the arguments of an op: arrays remain, all else is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from amanda.errors import BackendError
from amanda.graph import Op, OutputPort
from amanda_std.engine.annotations import BODY, SHAPE_ARG
from amanda_std.hub.op_access import op_arguments, operation_of
from amanda_std.inference.shape_arguments import to_integers


class BoundKernel(NamedTuple):
    """A kernel that needs only the arrays of an op's inputs."""

    call: Callable[..., Any]
    inputs: tuple[OutputPort, ...]
    """The values whose arrays it is called with, in order."""


def bind_kernel(op: Op, kernel: Callable[..., Any]) -> BoundKernel:
    """Bind the arguments of an op, for a kernel with the signature of its definition.

    The kernel gets tensors as arrays, omitted ones as None, and every attribute by
    name, defaults included. It gets shape arguments as integers in tuples, whether they
    are attributes of the op or computed in the graph."""
    operation = operation_of(op)
    args, attrs = op_arguments(op, lambda port: port)
    params = operation.form.params_of(len(args))
    if any(param.role == BODY for param in params):
        raise BackendError(
            f"{op.label} has bodies, which a single kernel cannot run",
            hint="run graphs with amanda_std.backends.StepRunner",
        )
    inputs = tuple(arg for arg in args if isinstance(arg, OutputPort))
    computed = [
        i
        for i, (param, arg) in enumerate(zip(params, args, strict=True))
        if param.role == SHAPE_ARG and isinstance(arg, OutputPort)
    ]
    call = partial(kernel, **attrs)
    if computed:
        call = partial(call_with_integers, call, computed)
    if len(inputs) < len(args):
        rest = [None if isinstance(arg, OutputPort) else (arg,) for arg in args]
        call = partial(_call_with_rest, call, rest)
    return BoundKernel(call, inputs)


def call_with_integers(
    call: Callable[..., Any], computed: Sequence[int], *args: Any
) -> Any:
    """Call a kernel; the arguments at these positions become integers in tuples."""
    ready = list(args)
    for i in computed:
        ready[i] = to_integers(ready[i])
    return call(*ready)


def _call_with_rest(
    call: Callable[..., Any], rest: Sequence[tuple[Any] | None], *arrays: Any
) -> Any:
    """Call a kernel with arrays where `rest` has no argument."""
    given = iter(arrays)
    return call(*(next(given) if each is None else each[0] for each in rest))
