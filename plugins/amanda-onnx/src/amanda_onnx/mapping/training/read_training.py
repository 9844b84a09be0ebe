"""From ONNX: steps of optimisers, of the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_onnx.mapping.static_values import expect
from amanda_std import ops

__all__ = ["READ"]


def _grouped(step: Callable[..., Any], each: int, xs: tuple[Any, ...]) -> Any:
    """One step for every tensor: all parameters, then all gradients, then memories."""
    expect(xs and len(xs) % each == 0, f"{each} inputs for each tensor")
    n = len(xs) // each
    made = [step(*(xs[i + part * n] for part in range(each))) for i in range(n)]
    return tuple(row[out] for out in range(each - 1) for row in made)


def _real(value: Any, like: Any) -> Any:
    return value if value.dtype == like.dtype else ops.astype(value, dtype=like.dtype)


def adagrad(rate: Any, count: Any, *xs: Any, norm_coefficient: float = 0.0,
            decay_factor: float = 0.0, epsilon: float = 1e-6) -> Any:  # fmt: skip
    if decay_factor:
        rate = rate / (_real(count, rate) * decay_factor + 1.0)

    def step(x: Any, g: Any, h: Any) -> Any:
        own = _real(rate, x)
        return ops.adagrad_step(x, g, h, own, epsilon=epsilon, decay=norm_coefficient)

    return _grouped(step, 3, xs)


def adam(rate: Any, count: Any, *xs: Any, alpha: float = 0.9, beta: float = 0.999,
         epsilon: float = 1e-6, norm_coefficient: float = 0.0,
         norm_coefficient_post: float = 0.0) -> Any:  # fmt: skip
    def step(x: Any, g: Any, v: Any, h: Any) -> Any:
        made = ops.adam_step(
            x, g, v, h, _real(rate, x), count, beta1=alpha, beta2=beta,
            epsilon=epsilon, decay=norm_coefficient, corrected=False,
        )  # fmt: skip
        if not norm_coefficient_post:
            return made
        return (made[0] * (1 - norm_coefficient_post), *made[1:])

    return _grouped(step, 4, xs)


def momentum(rate: Any, count: Any, *xs: Any, alpha: float, beta: float,
             norm_coefficient: float, mode: str) -> Any:  # fmt: skip
    """In the first step the gradient counts whole."""
    expect(mode in ("standard", "nesterov"), f"no momentum called {mode!r}")
    whole = None if beta == 1 else ops.greater(count, 0)

    def step(x: Any, g: Any, v: Any) -> Any:
        how: dict[str, Any] = {"momentum": alpha, "decay": norm_coefficient}
        if mode == "nesterov":
            how["nesterov"] = True
        own = _real(rate, x)
        if whole is None:
            return ops.momentum_step(x, g, v, own, **how)
        first = ops.momentum_step(x, g, v, own, **how)
        later = ops.momentum_step(x, g, v, own, share=beta, **how)
        pairs = zip(later, first, strict=True)
        return tuple(ops.where(whole, *pair) for pair in pairs)

    return _grouped(step, 3, xs)


def gradient(o: Any, *inputs: Any, xs: Any, y: str, zs: Any = ()) -> Any:
    """The gradients of a value of the graph that is made before this op.

    The op may also ask for those at other values than the ones that were computed with;
    that would take the graph a second time."""
    from amanda_std.mappings import backpropagate

    names = [value.name for value in o.source.inputs]
    expect(names == [*xs, *(zs or ())], "a Gradient at other values than its graph's")
    ports = (port for op in o.graph for port in op.outputs)
    found = next((port for port in ports if port.name == y), None)
    if found is None:
        raise Decline(f"no value {y} is made before the Gradient")
    at = list(inputs[: len(xs)])
    made = backpropagate(o.graph, {found: ops.ones_like(o.side.value(found))}, at)
    values = map(o.side.value, at)
    return tuple(
        ops.zeros_like(x) if g is None else g for g, x in zip(made, values, strict=True)
    )


READ: dict[str, Any] = {
    "ai.onnx.preview.training.Gradient": gradient,
    "ai.onnx.preview.training.Adagrad": adagrad,
    "ai.onnx.preview.training.Adam": adam,
    "ai.onnx.preview.training.Momentum": momentum,
}
