"""Several optimizer steps against PyTorch and Keras."""

from __future__ import annotations

import numpy as np
import pytest

from amanda_std import ops

X = np.array([1.5, -2.0, 0.25, 3.0])
GRADIENTS = np.random.default_rng(5).normal(size=(4, 4))
RATE = np.asarray(0.05)


def steps(op, memories, *, counted=False, **attrs):
    x, state = X, [np.full_like(X, m) for m in memories]
    for t, g in enumerate(GRADIENTS, 1):
        count = (np.asarray(t, "int64"),) if counted else ()
        x, *state = op(x, g, *state, RATE, *count, **attrs)
    return x


TORCH = [
    ("SGD", {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}, ops.momentum_step,
     (0,), {"momentum": 0.8, "nesterov": True, "decay": 0.1}),
    ("Adam", {"weight_decay": 0.1}, ops.adam_step, (0, 0),
     {"decay": 0.1, "counted": True}),
    ("AdamW", {"weight_decay": 0.1}, ops.adam_step, (0, 0),
     {"weight_decay": 0.1, "counted": True}),
    ("Adagrad", {"eps": 1e-3}, ops.adagrad_step, (0,), {"epsilon": 1e-3}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "alpha": 0.9, "eps": 1e-3},
     ops.rmsprop_step, (0, 0, 0),
     {"momentum": 0.5, "centered": True, "epsilon": 1e-3, "inside": False}),
    ("Adadelta", {"rho": 0.95, "eps": 1e-7}, ops.adadelta_step, (0, 0), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "told", "op", "memories", "attrs"), TORCH)
def test_steps_match_torch(name, told, op, memories, attrs):
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    x = torch.tensor(X, requires_grad=True)
    optimiser = getattr(torch.optim, name)([x], lr=float(RATE), **told)
    for g in GRADIENTS:
        x.grad = torch.tensor(g)
        optimiser.step()
    got = steps(op, memories, **attrs)
    np.testing.assert_allclose(got, x.detach().numpy(), rtol=1e-6)


KERAS = [
    ("SGD", {"momentum": 0.8, "nesterov": True}, ops.momentum_step, (0,),
     {"momentum": 0.8, "nesterov": True, "scaled": True}),
    ("Adam", {"epsilon": 1e-3}, ops.adam_step, (0, 0),
     {"epsilon": 1e-3, "corrected": False, "counted": True}),
    ("AdamW", {"weight_decay": 0.1, "epsilon": 1e-3}, ops.adam_step, (0, 0),
     {"weight_decay": 0.1, "epsilon": 1e-3, "corrected": False, "counted": True}),
    ("Adamax", {"epsilon": 1e-3}, ops.adamax_step, (0, 0),
     {"epsilon": 1e-3, "counted": True}),
    ("Adagrad", {"epsilon": 1e-3}, ops.adagrad_step, (0.1,),
     {"epsilon": 1e-3, "inside": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "epsilon": 1e-3},
     ops.rmsprop_step, (0, 0, 0),
     {"momentum": 0.5, "centered": True, "epsilon": 1e-3}),
    ("Adadelta", {}, ops.adadelta_step, (0, 0), {}),
    ("Lion", {}, ops.lion_step, (0,), {}),
    ("Ftrl", {"l1_regularization_strength": 0.01}, ops.ftrl_step, (0.1, 0),
     {"l1": 0.01}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "told", "op", "memories", "attrs"), KERAS)
def test_steps_match_keras(name, told, op, memories, attrs):
    keras = pytest.importorskip("keras", reason="the oracle is Keras")
    x = keras.Variable(X, dtype="float32")
    optimiser = getattr(keras.optimizers, name)(learning_rate=float(RATE), **told)
    optimiser.build([x])
    for g in GRADIENTS:
        optimiser.apply([keras.ops.convert_to_tensor(g, dtype="float32")], [x])
    got = steps(op, memories, **attrs)
    np.testing.assert_allclose(got, np.asarray(x), rtol=2e-5, atol=1e-6)
