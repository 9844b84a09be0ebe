"""Training steps of small models: five steps, by TensorFlow and through the hub.

onnxruntime has variables as inputs and results.

The parameters and the state of the optimizer are compared after them.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
keras = tf.keras
layers = keras.layers


def random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("f")


def dense():
    return [layers.Dense(8, activation="tanh"), layers.Dense(3)]


def normalized():
    return [layers.Dense(8, activation="gelu"), layers.BatchNormalization(),
            layers.Dense(3)]  # fmt: skip


def convolutional():
    return [layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(),
            layers.DepthwiseConv2D(3, padding="same"), layers.Flatten(),
            layers.LayerNormalization(), layers.Dense(3)]  # fmt: skip


def embedding():
    return [layers.Embedding(10, 4), layers.GlobalAveragePooling1D(), layers.Dense(3)]


MODELS = {
    "sparse RMSprop": (embedding, lambda: keras.optimizers.RMSprop(0.01), (6, 5)),
    "momentum": (dense, lambda: keras.optimizers.SGD(0.1, momentum=0.9), (6, 4)),
    "Adam": (normalized, lambda: keras.optimizers.Adam(0.01), (6, 4)),
    "AdamW": (convolutional, lambda: keras.optimizers.AdamW(0.01), (2, 8, 8, 3)),
    **{
        name: (dense, lambda name=name: getattr(keras.optimizers, name)(0.01), (6, 4))
        for name in ("Adagrad", "Adamax", "Adadelta", "Ftrl", "Lion", "Nadam",
                     "RMSprop")
    },
}  # fmt: skip


ON_ALL = ("sparse RMSprop", "momentum", "Adam", "AdamW")


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", MODELS)
def test_five_steps(name):
    keras.utils.set_random_seed(1)
    build, make_optimizer, shape = MODELS[name]
    model, optimizer = keras.Sequential(build()), make_optimizer()
    loss_of = keras.losses.MeanSquaredError()
    x, y = random(*shape), random(shape[0], 3)
    if build is embedding:
        x = (np.abs(x) * 3).astype("int32")
    model(x[:1])
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )
        return {"loss": loss}

    specs = tf.TensorSpec(x.shape, x.dtype), tf.TensorSpec(y.shape, y.dtype)
    concrete = tf.function(step).get_concrete_function(*specs)
    hub = amanda.convert(amanda.load(concrete), "std")
    backends = ("numpy", "jax", "onnxruntime") if name in ON_ALL else ("numpy",)
    runs = [amanda.compile(hub, backend) for backend in backends]
    for _ in range(5):
        expected = concrete(tf.constant(x), tf.constant(y))["loss"].numpy()
        for run in runs:
            np.testing.assert_allclose(run([x, y])["loss"], expected, rtol=1e-4)
    now = {op.attrs["shared_name"]: op.attrs["x-value"].numpy()
           for op in amanda.load(concrete) if op.type == "VarHandleOp"}  # fmt: skip
    for run in runs:
        assert len(run.state) >= 2 * len(model.trainable_variables)
        for key in run.state:
            np.testing.assert_allclose(run.state[key], now[key], rtol=1e-3, atol=2e-5)


def test_training_by_the_backend_tensorflow():
    w = tf.Variable(random(4, 3), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    concrete = tf.function(step).get_concrete_function(tf.TensorSpec([6, 4]))
    hub = amanda.convert(amanda.load(concrete), "std")
    run = amanda.compile(hub, "tensorflow")
    for _ in range(5):
        run([random(6, 4)])
        concrete(tf.constant(random(6, 4)))
    np.testing.assert_allclose(run.state["w"], w.numpy(), rtol=1e-5)
