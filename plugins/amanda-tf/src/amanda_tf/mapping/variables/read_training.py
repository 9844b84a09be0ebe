"""From TensorFlow: training steps, `ResourceApply*` and `ResourceSparseApply*`.

A step is a function from the values of its variables, and its other inputs, to the new
values, as the kernels of TensorFlow compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda_std import ops
from amanda_tf.mapping.variables.read_variables import assign, read_value

__all__ = ["READ"]


def _shrunk(x: Any, rate: Any, l1: Any, l2: Any) -> Any:
    """The proximal step for L1 and L2 penalties."""
    limit = rate * l1
    size = ops.maximum(ops.abs(x) - limit, ops.number_like(x, value=0))
    return ops.sign(x) * size / (rate * l2 + ops.number_like(x, value=1))


def _one(x: Any) -> Any:
    return ops.number_like(x, value=1)


def step_gradient_descent(x: Any, rate: Any, g: Any) -> Any:
    return [x - rate * g]


def step_proximal_gradient_descent(x: Any, rate: Any, l1: Any, l2: Any, g: Any) -> Any:
    return [_shrunk(x - rate * g, rate, l1, l2)]


def step_momentum(
    x: Any, sums: Any, rate: Any, g: Any, momentum: Any, *, use_nesterov: bool = False
) -> Any:
    new = sums * momentum + g
    step = g * rate + new * momentum * rate if use_nesterov else new * rate
    return [x - step, new]


def step_keras_momentum(
    x: Any, sums: Any, rate: Any, g: Any, momentum: Any, *, use_nesterov: bool = False
) -> Any:
    new = sums * momentum - rate * g
    return [x + (new * momentum - rate * g if use_nesterov else new), new]


def step_adagrad(
    x: Any, sums: Any, rate: Any, g: Any, *, update_slots: bool = True
) -> Any:
    new = sums + g * g if update_slots else sums
    return [x - rate * g * ops.rsqrt(new), new]


def step_adagrad_v2(
    x: Any, sums: Any, rate: Any, epsilon: Any, g: Any, *, update_slots: bool = True
) -> Any:
    new = sums + g * g if update_slots else sums
    return [x - rate * g / (ops.sqrt(new) + epsilon), new]


def step_proximal_adagrad(
    x: Any, sums: Any, rate: Any, l1: Any, l2: Any, g: Any
) -> Any:
    new = sums + g * g
    own_rate = rate * ops.rsqrt(new)
    return [_shrunk(x - g * own_rate, own_rate, l1, l2), new]


def step_adagrad_da(
    x: Any, sums: Any, squares: Any, g: Any, rate: Any, l1: Any, l2: Any, step: Any
) -> Any:
    del x
    sums, squares = sums + g, squares + g * g
    count = ops.astype(step, dtype=g.dtype)
    size = ops.maximum(ops.abs(sums) - l1 * count, ops.number_like(g, value=0))
    weight = l2 * count * rate + ops.sqrt(squares)
    return [-(rate * ops.sign(sums) * size) / weight, sums, squares]


def step_adadelta(
    x: Any, squares: Any, updates: Any, rate: Any, rho: Any, epsilon: Any, g: Any
) -> Any:
    rest = _one(g) - rho
    squares = squares * rho + g * g * rest
    update = ops.sqrt(updates + epsilon) * ops.rsqrt(squares + epsilon) * g
    return [x - update * rate, squares, updates * rho + update * update * rest]


def step_adam(
    x: Any, m: Any, v: Any, power1: Any, power2: Any, rate: Any, beta1: Any,
    beta2: Any, epsilon: Any, g: Any, *, use_nesterov: bool = False,
) -> Any:  # fmt: skip
    one = _one(g)
    rate = rate * ops.sqrt(one - power2) / (one - power1)
    m = m + (g - m) * (one - beta1)
    v = v + (g * g - v) * (one - beta2)
    step = g * (one - beta1) + beta1 * m if use_nesterov else m
    return [x - step * rate / (ops.sqrt(v) + epsilon), m, v]


def step_adam_amsgrad(
    x: Any, m: Any, v: Any, most: Any, power1: Any, power2: Any, rate: Any, beta1: Any,
    beta2: Any, epsilon: Any, g: Any,
) -> Any:  # fmt: skip
    one = _one(g)
    rate = rate * ops.sqrt(one - power2) / (one - power1)
    m = m + (g - m) * (one - beta1)
    v = v + (g * g - v) * (one - beta2)
    most = ops.maximum(most, v)
    return [x - m * rate / (ops.sqrt(most) + epsilon), m, v, most]


def step_adamax(
    x: Any, m: Any, v: Any, power1: Any, rate: Any, beta1: Any, beta2: Any,
    epsilon: Any, g: Any,
) -> Any:  # fmt: skip
    one = _one(g)
    m = m + (g - m) * (one - beta1)
    v = ops.maximum(beta2 * v, ops.abs(g))
    return [x - rate / (one - power1) * (m / (v + epsilon)), m, v]


def step_rmsprop(
    x: Any, squares: Any, sums: Any, rate: Any, rho: Any, momentum: Any, epsilon: Any,
    g: Any,
) -> Any:  # fmt: skip
    squares = squares + (g * g - squares) * (_one(g) - rho)
    sums = sums * momentum + g * rate * ops.rsqrt(squares + epsilon)
    return [x - sums, squares, sums]


def step_centered_rmsprop(
    x: Any, means: Any, squares: Any, sums: Any, rate: Any, rho: Any, momentum: Any,
    epsilon: Any, g: Any,
) -> Any:  # fmt: skip
    rest = _one(g) - rho
    squares = squares + (g * g - squares) * rest
    means = means + (g - means) * rest
    spread = squares - means * means + epsilon
    sums = sums * momentum + g * rate * ops.rsqrt(spread)
    return [x - sums, means, squares, sums]


def step_ftrl(
    x: Any, squares: Any, linear: Any, g: Any, rate: Any, l1: Any, l2: Any, power: Any,
    *, multiply_linear_by_lr: bool = False,
) -> Any:  # fmt: skip
    zero = ops.number_like(g, value=0)
    return step_ftrl_v2(
        x, squares, linear, g, rate, l1, l2, zero, power,
        multiply_linear_by_lr=multiply_linear_by_lr,
    )  # fmt: skip


def step_ftrl_v2(
    x: Any, squares: Any, linear: Any, g: Any, rate: Any, l1: Any, l2: Any,
    shrinkage: Any, power: Any, *, multiply_linear_by_lr: bool = False,
) -> Any:  # fmt: skip
    two = ops.number_like(g, value=2)
    new = squares + g * g
    shrunk = g + two * shrinkage * x
    change = (ops.pow(new, -power) - ops.pow(squares, -power)) * x
    if multiply_linear_by_lr:
        linear = linear + shrunk * rate - change
        limit, weight = l1 * rate, ops.pow(new, -power) + two * l2 * rate
    else:
        linear = linear + shrunk - change / rate
        limit, weight = l1, ops.pow(new, -power) / rate + two * l2
    bounded = ops.maximum(ops.minimum(linear, limit), -limit)
    return [(bounded - linear) / weight, new, linear]


def step_add_sign(
    x: Any, m: Any, rate: Any, alpha: Any, decay: Any, beta: Any, g: Any
) -> Any:
    m = m * beta + g * (_one(g) - beta)
    return [x - rate * (alpha + decay * ops.sign(g) * ops.sign(m)) * g, m]


def step_power_sign(
    x: Any, m: Any, rate: Any, base: Any, decay: Any, beta: Any, g: Any
) -> Any:
    m = m * beta + g * (_one(g) - beta)
    return [x - rate * ops.exp(base * decay * ops.sign(g) * ops.sign(m)) * g, m]


def _dense(step: Callable[..., Any], count: int) -> Any:
    """A rule for a step whose first inputs are `count` variables."""

    def read(*inputs: Any, use_locking: bool = False, T: Any = None,  # noqa: N803
             **attrs: Any) -> Any:  # fmt: skip
        del use_locking, T
        handles, rest = inputs[:count], inputs[count:]
        new = step(*map(read_value, handles), *rest, **attrs)
        for handle, value in zip(handles, new, strict=True):
            assign(handle, value)
        return ()

    return read


def _sparse(step: Callable[..., Any], count: int, gradient: int) -> Any:
    """A rule for a step on the rows of variables that an index vector names.

    `gradient` is the place of the gradient among the inputs, and the indices follow it;
    the indices are distinct.
    """

    def read(*inputs: Any, use_locking: bool = False, T: Any = None,  # noqa: N803
             Tindices: Any = None, **attrs: Any) -> Any:  # noqa: N803  # fmt: skip
        del use_locking, T, Tindices
        handles, indices = inputs[:count], inputs[gradient + 1]
        rest = [*inputs[count : gradient + 1], *inputs[gradient + 2 :]]
        values = [read_value(handle) for handle in handles]
        rows = [ops.gather(value, indices, axis=0) for value in values]
        places = ops.expand_dims(indices, [-1])
        new = step(*rows, *rest, **attrs)
        for handle, value, row in zip(handles, values, new, strict=True):
            assign(handle, ops.scatter_nd(value, places, row))
        return ()

    return read


_STEPS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    "GradientDescent": (step_gradient_descent, 1, None),
    "ProximalGradientDescent": (step_proximal_gradient_descent, 1, 4),
    "Momentum": (step_momentum, 2, 3),
    "KerasMomentum": (step_keras_momentum, 2, 3),
    "Adagrad": (step_adagrad, 2, 3),
    "AdagradV2": (step_adagrad_v2, 2, 4),
    "ProximalAdagrad": (step_proximal_adagrad, 2, 5),
    "AdagradDA": (step_adagrad_da, 3, 3),
    "Adadelta": (step_adadelta, 3, 6),
    "Adam": (step_adam, 3, None),
    "AdamWithAmsgrad": (step_adam_amsgrad, 4, None),
    "AdaMax": (step_adamax, 3, None),
    "RMSProp": (step_rmsprop, 3, 7),
    "CenteredRMSProp": (step_centered_rmsprop, 4, 8),
    "Ftrl": (step_ftrl, 3, 3),
    "FtrlV2": (step_ftrl_v2, 3, 3),
    "AddSign": (step_add_sign, 2, None),
    "PowerSign": (step_power_sign, 2, None),
}
"""The function of a step, its number of variables, and the place of the gradient."""

READ: dict[str, Any] = {
    **{
        f"ResourceApply{name}": _dense(step, count)
        for name, (step, count, _) in _STEPS.items()
    },
    **{
        f"ResourceSparseApply{name}": _sparse(step, count, gradient)
        for name, (step, count, gradient) in _STEPS.items()
        if gradient is not None
    },
}
