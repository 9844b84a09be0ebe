"""From ONNX: optimizer steps and Gradient, of the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import cast_to, expect

__all__ = ["READ"]


def _step_each(step: Callable[..., Any], each: int, xs: tuple[Any, ...]) -> Any:
    """One step per tensor; inputs are all parameters, all gradients, all states."""
    expect(xs and len(xs) % each == 0, f"{each} inputs for each tensor expected")
    n = len(xs) // each
    rows = [step(*(xs[i + part * n] for part in range(each))) for i in range(n)]
    return tuple(row[out] for out in range(each - 1) for row in rows)


def read_adagrad(
    rate: Any, count: Any, *xs: Any, norm_coefficient: float = 0.0,
    decay_factor: float = 0.0, epsilon: float = 1e-6,
) -> Any:  # fmt: skip
    if decay_factor:
        rate = rate / (cast_to(count, rate.dtype) * decay_factor + 1.0)

    def step(x: Any, g: Any, h: Any) -> Any:
        own = cast_to(rate, x.dtype)
        return ops.adagrad_step(x, g, h, own, epsilon=epsilon, decay=norm_coefficient)

    return _step_each(step, 3, xs)


def read_adam(
    rate: Any, count: Any, *xs: Any, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    def step(x: Any, g: Any, v: Any, h: Any) -> Any:
        moved, *states = ops.adam_step(
            x, g, v, h, cast_to(rate, x.dtype), count, beta1=alpha, beta2=beta,
            epsilon=epsilon, decay=norm_coefficient, corrected=False,
        )  # fmt: skip
        if norm_coefficient_post:
            moved = moved * (1 - norm_coefficient_post)
        return (moved, *states)

    return _step_each(step, 4, xs)


def read_momentum(rate: Any, count: Any, *xs: Any, alpha: float, beta: float,
                  norm_coefficient: float, mode: str) -> Any:  # fmt: skip
    """In the first step, `beta` does not scale the gradient."""
    expect(mode in ("standard", "nesterov"), f"unknown mode {mode!r}")
    is_later = None if beta == 1 else ops.greater(count, 0)

    def step(x: Any, g: Any, v: Any) -> Any:
        attrs: dict[str, Any] = {"momentum": alpha, "decay": norm_coefficient}
        if mode == "nesterov":
            attrs["nesterov"] = True
        own = cast_to(rate, x.dtype)
        first = ops.momentum_step(x, g, v, own, **attrs)
        if is_later is None:
            return first
        later = ops.momentum_step(x, g, v, own, share=beta, **attrs)
        pairs = zip(later, first, strict=True)
        return tuple(ops.where(is_later, *pair) for pair in pairs)

    return _step_each(step, 3, xs)


def read_gradient(o: Any, *inputs: Any, xs: Any, y: str, zs: Any = ()) -> Any:
    """The gradients of a value that the graph computes before this op.

    Gradients at other values than the graph's own would need a second copy of it.
    """
    from amanda_std.mappings import backpropagate

    names = [value.name for value in o.source.inputs]
    expect(names == [*xs, *(zs or ())], "Gradient at other values than the graph's own")
    ports = (port for op in o.graph for port in op.outputs)
    target = next((port for port in ports if port.name == y), None)
    if target is None:
        raise Decline(f"no value {y} is computed before the Gradient")
    at = list(inputs[: len(xs)])
    gradients = backpropagate(
        o.graph, {target: ops.ones_like(o.side.value(target))}, at
    )
    pairs = zip(gradients, map(o.side.value, at), strict=True)
    return tuple(ops.zeros_like(x) if g is None else g for g, x in pairs)


READ: dict[str, Any] = {
    "ai.onnx.preview.training.Gradient": read_gradient,
    "ai.onnx.preview.training.Adagrad": read_adagrad,
    "ai.onnx.preview.training.Adam": read_adam,
    "ai.onnx.preview.training.Momentum": read_momentum,
}
