"""Programs with symbolic sizes, and inputs of another size for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from amanda_torch_conformance.making.op_database import (
    Program,
    SampleCall,
    first_dtype,
    is_random,
)

__all__ = ["dynamic_program"]

_STEPS = (1, 2, 3, -1)
"""How much larger the symbolic sizes of the second inputs are, the first that fits."""


def dynamic_program(op: Any) -> tuple[Program, Program]:
    """The first sample of an entry and one of other sizes, by the same program.

    Raises what PyTorch raises where it cannot export it, or has no such sample.
    """
    torch.manual_seed(1)
    dtype = first_dtype(op)
    call = SampleCall(op, next(iter(op.sample_inputs("cpu", dtype))))
    inputs = call.tensors()
    automatic = torch.export.Dim.AUTO  # type: ignore[attr-defined,unused-ignore]
    dims = tuple(
        {i: automatic for i, size in enumerate(x.shape) if size > 1} for x in inputs
    )
    exported = torch.export.export(
        call, inputs, dynamic_shapes={"tensors": dims}, strict=False
    )
    if any(is_random(node) for node in exported.graph.nodes):
        raise ValueError("random values")
    first = Program(exported, inputs, call(*call.tensors()))
    return first, _second(exported, call)


def _second(exported: torch.export.ExportedProgram, call: SampleCall) -> Program:
    """Inputs that the program takes, with outputs on which PyTorch agrees with it."""
    reason: Exception = ValueError("no symbolic sizes")
    for shapes in _other_shapes(exported):
        for noise in (0.1, 0.0):
            pairs = zip(call.tensors(), shapes, strict=True)
            inputs = tuple(_resize(x, shape, noise) for x, shape in pairs)
            try:
                outputs = call(*(x.clone() for x in inputs))
                found = exported.module()(*(x.clone() for x in inputs))
                torch.testing.assert_close(
                    tuple(found), tuple(outputs), equal_nan=True, rtol=1e-3, atol=1e-3
                )
            except Exception as error:  # noqa: BLE001 - other sizes may fit
                reason = error
                continue
            return Program(exported, inputs, outputs)
    raise reason


def _other_shapes(
    exported: torch.export.ExportedProgram,
) -> Iterator[Sequence[Sequence[int]]]:
    """Shapes of inputs by other values of the symbols, within their ranges."""
    names = set(exported.graph_signature.user_inputs)
    shapes = [
        node.meta["val"].shape
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in names
    ]
    hints = {
        symbol: size.node.shape_env.var_to_val[symbol]
        for shape in shapes
        for size in shape
        if isinstance(size, torch.SymInt)
        for symbol in size.node.expr.free_symbols
    }
    for step in _STEPS if hints else ():
        values = {symbol: int(hint) + step for symbol, hint in hints.items()}
        ranges = exported.range_constraints
        if all(s not in ranges or n in ranges[s] for s, n in values.items()):
            yield [[_size(size, values) for size in shape] for shape in shapes]


def _size(size: Any, values: Mapping[Any, int]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.expr.subs(values))


def _resize(x: torch.Tensor, shape: Sequence[int], noise: float) -> torch.Tensor:
    """The elements of a tensor repeated along its axes, floats a little smaller."""
    for axis, size in enumerate(shape):
        if size != x.shape[axis]:
            x = x.index_select(axis, torch.arange(size) % x.shape[axis])
    x = x.clone().contiguous()
    return x * (1 - noise * torch.rand(x.shape)) if x.is_floating_point() else x
