"""Makes SavedModels of Keras applications, with an input and TensorFlow's output.

    python benchmarks/processes/make_applications.py FOLDER NAME ...

Weights are random, statistics of batch normalization too: nothing is fetched.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]


def make(name: str, folder: Path) -> None:
    """Make the SavedModel of an application, `x.npy` and `y.npy`."""
    keras.utils.set_random_seed(1)
    model: Any = getattr(keras.applications, name)(
        weights=None, input_shape=(224, 224, 3)
    )
    rng = np.random.default_rng(1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights(
                [rng.uniform(0.5, 1.5, w.shape) for w in layer.get_weights()]
            )
    shape = (None, *model.input_shape[1:])
    spec = tf.TensorSpec(shape, tf.float32, "x")
    module = tf.Module()
    module.model = model
    module.call = tf.function(
        lambda x: {"y": model(x, training=False)}, input_signature=[spec]
    )
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=module.call)
    x = rng.uniform(0, 255, (2, *shape[1:])).astype("float32")
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", module.call(tf.constant(x))["y"].numpy())


if __name__ == "__main__":
    for each in sys.argv[2:]:
        target = Path(sys.argv[1], each)
        target.mkdir(parents=True, exist_ok=True)
        make(each, target)
