"""Backends with planted faults, for tests of `amanda reduce`.

Each is numpy's, but one op type fails under a condition on what it reads. The file is
also imported by the processes that run models apart: `register()` is called on import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph, Op

Condition = Callable[[Op], bool]


class Planted:
    """A backend of the hub on which one op type is faulty."""

    namespace = "amanda/std/1"

    def __init__(
        self, name: str, fault: str, types: Sequence[str], when: Condition | None = None
    ) -> None:
        self.name, self.fault = name, fault
        self.types, self.when = types, when or (lambda _: True)

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Any:
        if self.fault == "unsupported" and self.has_fault(op):
            return f"there is no kernel for {op.type}"
        return amanda.default_host().get("backends", "numpy").takes(op)

    def has_fault(self, op: Op) -> bool:
        return op.type in self.types and self.when(op)

    def compile(self, graph: Graph, device: Any, options: Mapping[str, Any]) -> Any:
        graph = graph.clone()
        faulty = [op for op in graph.walk() if self.has_fault(op)]
        if faulty and self.fault == "compile":
            raise BackendError(
                f"the layout of {faulty[0].type} is not known", who=faulty[0].label
            )
        if faulty and self.fault == "abort":
            os._exit(77)
        for op in faulty if self.fault == "wrong" else ():
            add_error(op)
        numpy = amanda.default_host().get("backends", "numpy")
        compiled = numpy.compile(graph, device, options)
        return Failing(compiled, self.fault, bool(faulty))


class Failing:
    """An executable that fails when it is called."""

    def __init__(self, inner: Any, fault: str, is_faulty: bool) -> None:
        self.inner, self.fault, self.is_faulty = inner, fault, is_faulty

    def __call__(self, feeds: Mapping[Any, Any], out: object = None) -> Any:
        if self.is_faulty and self.fault == "hang":
            time.sleep(3600)
        if self.is_faulty and self.fault == "segfault":
            os.abort()
        if self.is_faulty and self.fault == "raise":
            raise ValueError("the kernel has 17 arguments, not 3")
        return self.inner(feeds)


def add_error(op: Op) -> None:
    """Let what reads an op read what is 1% larger, or not what it is if it is true."""
    port, graph = op.outputs[0], op.graph
    assert graph is not None
    users = port.users
    kind: Any = port.type
    if kind is not None and kind.dtype.kind == "bool":
        new = graph.add("logical_not", [port]).output
    else:
        dtype = "float32" if kind is None else str(kind.dtype)
        factor = graph.constant(np.asarray(1.01, dtype)).output
        new = graph.add("multiply", [port, factor]).output
    new.type = kind
    for user in users:
        user.connect(new)


class Large(Planted):
    """tanh is wrong where it reads more than 2.5."""

    def compile(self, graph: Graph, device: Any, options: Mapping[str, Any]) -> Any:
        graph = graph.clone()
        for op in [op for op in graph.walk() if self.has_fault(op)]:
            add_error_of_large_inputs(op)
        numpy = amanda.default_host().get("backends", "numpy")
        return numpy.compile(graph, device, options)


def add_error_of_large_inputs(op: Op) -> None:
    (port,), graph, users = op.outputs, op.graph, op.output.users
    assert graph is not None
    limit, factor = (graph.constant(np.float32(x)).output for x in (2.5, 1.5))
    is_large = graph.add("greater", [op.inputs[0], limit]).output
    wrong = graph.add("multiply", [port, factor]).output
    new = graph.add("where", [is_large, wrong, port]).output
    for user in users:
        user.connect(new)


def has_tanh_inside(op: Op) -> bool:
    return any(
        each.type == "tanh" for body in op.bodies.values() for each in body.walk()
    )


def rank(op: Op, i: int = 0) -> int:
    kind: Any = op.inputs[i].type if op.inputs[i] is not None else None
    return len(kind.shape) if kind is not None and kind.shape.has_rank else -1


def has_two_products(op: Op) -> bool:
    """A product of a product: two ops are needed."""
    first = op.inputs[0]
    return first is not None and first.op.type == "matmul"


def reads(kind: str) -> Condition:
    return lambda op: any(v is not None and v.op.type == kind for v in op.inputs)


def register() -> None:
    """Register the backends in the default host."""
    host = amanda.default_host()
    large = Large("wrong-large-tanh", "wrong", ["tanh"])
    host.register_backend("wrong-large-tanh", large, replace=True)
    for name, (fault, types, when) in FAULTS.items():
        backend = Planted(name, fault, types, when)
        host.register_backend(name, backend, replace=True)


FAULTS: dict[str, tuple[str, Sequence[str], Condition | None]] = {
    "wrong-tanh": ("wrong", ["tanh"], None),
    "wrong-softmax": ("wrong", ["softmax"], None),
    "wrong-norm": ("wrong", ["layer_norm", "batch_norm"], None),
    "wrong-pool": ("wrong", ["max_pool"], None),
    "wrong-product": ("wrong", ["matmul"], lambda op: rank(op) == 4),
    "wrong-gelu": ("wrong", ["erf", "gelu", "tanh"], None),
    "raise-conv": ("raise", ["conv"], None),
    "raise-loop": ("raise", ["loop"], has_tanh_inside),
    "raise-relu": ("raise", ["relu"], None),
    "raise-gather": ("raise", ["gather", "take"], None),
    "compile-softmax": ("compile", ["softmax"], None),
    "compile-tanh-exp": ("compile", ["tanh"], reads("exp")),
    "unsupported-pool": ("unsupported", ["max_pool"], None),
    "abort-norm": ("abort", ["layer_norm", "batch_norm"], None),
    "segfault-tanh": ("segfault", ["tanh"], None),
    "segfault-softmax": ("segfault", ["softmax"], None),
    "hang-relu": ("hang", ["relu"], None),
}
register()
