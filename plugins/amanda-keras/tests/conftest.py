"""Keras models with random weights, and what Keras computes with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")  # the oracle: NumPy, by Keras
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "torch" in sys.modules and sys.modules["torch"] is None:
    del sys.modules["torch"]  # SciPy looks for torch.Tensor in whatever is there


def randomize(model: Any, seed: int = 0) -> Any:
    """Give a model random weights, also those that start as zeros and ones."""
    rng = np.random.default_rng(seed)
    values = []
    for weight in model.weights:
        shape = tuple(weight.shape)
        value = rng.standard_normal(shape).astype("float32") * 0.4
        if "variance" in weight.path or "gamma" in weight.path:
            value = np.abs(value) + 0.5
        is_count = not str(weight.dtype).startswith(("float", "bfloat"))
        values.append(np.zeros(shape, str(weight.dtype)) if is_count else value)
    model.set_weights(values)
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()
    return model


def model_of(shapes: Sequence[tuple[Any, ...]], build: Callable[..., Any]) -> Any:
    """A Functional model of one or more layers; a dtype may follow the sizes."""
    import keras

    inputs = []
    for i, shape in enumerate(shapes):
        dtype = shape[-1] if isinstance(shape[-1], str) else "float32"
        sizes = tuple(s for s in shape if not isinstance(s, str))
        inputs.append(keras.Input(sizes, dtype=dtype, name=f"x{i}"))
    return randomize(keras.Model(inputs, build(*inputs)))


def feeds_of(model: Any, batch: int = 2, steps: int = 5, seed: int = 1) -> list[Any]:
    """Random arrays for the inputs of a model, for dims that are not static too."""
    rng = np.random.default_rng(seed)
    found = []
    for port in model.inputs:
        shape = [batch, *(steps if n is None else n for n in port.shape[1:])]
        if str(port.dtype).startswith("float"):
            found.append(rng.standard_normal(shape).astype(str(port.dtype)))
        elif str(port.dtype) == "bool":
            found.append(rng.random(shape) > 0.4)
        else:
            found.append(rng.integers(0, 4, shape).astype(str(port.dtype)))
    return found


def expected_outputs(model: Any, feeds: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """What Keras computes in inference."""
    from keras import ops, tree

    given = list(feeds) if len(feeds) > 1 else feeds[0]
    found = model(given, training=False)
    return [np.asarray(ops.convert_to_numpy(v)) for v in tree.flatten(found)]


@pytest.fixture
def models() -> SimpleNamespace:
    """The functions of this module."""
    return SimpleNamespace(
        randomize=randomize, model_of=model_of, feeds_of=feeds_of,
        expected_outputs=expected_outputs,
    )  # fmt: skip
