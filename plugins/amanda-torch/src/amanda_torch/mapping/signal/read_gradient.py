"""From PyTorch: derivatives of samples, by finite differences."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import END, axis_of
from amanda_torch.mapping.shapes.read_shapes import take_slice
from amanda_torch.mapping.type_promotion import is_number, number

__all__ = ["READ"]


def read_gradient(x: Any, *, spacing: Any = None, dim: Any = None,
                  edge_order: int = 1) -> Any:  # fmt: skip
    """Central differences along each axis; `spacing`: distances, or coordinates."""
    expect(x.dtype.kind == "float", "derivatives of integers")
    if dim is None:
        axes = list(range(rank_of(x)))
    else:
        axes = [axis_of(d, x) for d in ([dim] if isinstance(dim, int) else dim)]
    if spacing is None:
        spacing = 1
    steps = spacing if isinstance(spacing, list | tuple) else [spacing] * len(axes)
    rows = zip(axes, steps, strict=True)
    return tuple(_derivative(x, axis, step, edge_order) for axis, step in rows)


def _derivative(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    if is_number(step):
        before = after = number(step, x.dtype)
        gaps = [before] * 4
    else:
        shape = [-1 if i == axis else 1 for i in range(rank_of(x))]
        apart = ops.reshape(take_slice(step, 0, 1, END) - take_slice(step, 0, 0, -1),
                            shape)  # fmt: skip
        before, after = take_slice(apart, axis, 0, -1), take_slice(apart, axis, 1, END)
        gaps = [take_slice(apart, axis, *ends)
                for ends in ((0, 1), (1, 2), (-2, -1), (-1, END))]  # fmt: skip

    def part(start: int, stop: int) -> Any:
        return take_slice(x, axis, start, stop)

    middle = _three_points(part(0, -2), part(1, -1), part(2, END), before, after)
    if edge_order == 1:
        first = (part(1, 2) - part(0, 1)) / gaps[0]
        last = (part(-1, END) - part(-2, -1)) / gaps[3]
    else:
        first = _at_end(part(0, 1), part(1, 2), part(2, 3), gaps[0], gaps[1])
        last = ops.negative(
            _at_end(part(-1, END), part(-2, -1), part(-3, -2), gaps[3], gaps[2])
        )
    return ops.concat(first, middle, last, axis=axis)


def _three_points(a: Any, b: Any, c: Any, before: Any, after: Any) -> Any:
    """The derivative at b of the parabola through three points."""
    left, right = (b - a) / before, (c - b) / after
    return (left * after + right * before) / (before + after)


def _at_end(a: Any, b: Any, c: Any, near: Any, far: Any) -> Any:
    """The derivative at a of the parabola through three points."""
    first, second = (b - a) / near, (c - b) / far
    return first - (second - first) * near / (near + far)


READ = torch_functions(
    {
        "gradient.scalarint gradient.scalararray gradient.array gradient.scalarrayint "
        "gradient.scalarrayarray gradient.tensorarrayint gradient.tensorarray":
            read_gradient,
    }
)  # fmt: skip
