"""Variables and their order, gradients, and training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from amanda_tf_conformance.models.layers import IMAGE, ROWS, STEPS
from amanda_tf_conformance.models.table import Model, floats, integers, of_function

__all__ = ["OPTIMIZERS", "VARIABLES", "models"]

L: Any = keras.layers
X = floats(3, 4)


def models() -> Iterator[Model]:
    """All models of this theme."""
    yield from _variables()
    yield from _gradients()
    yield from _steps()


# -- variables ---------------------------------------------------------------------


def _assign() -> Any:
    v = tf.Variable(floats(3, 4))

    def f(x: Any) -> Any:
        before = v + 0.0
        v.assign(x)
        return before, v * 2.0

    return f


def _count() -> Any:
    n = tf.Variable(0)

    def f(x: Any) -> Any:
        n.assign_add(1)
        n.assign_add(2)
        return x * tf.cast(n, tf.float32), n.read_value()

    return f


def _assign_in_branch() -> Any:
    v = tf.Variable(1.0)

    def f(x: Any) -> Any:
        if tf.reduce_sum(x) > -1000.0:
            v.assign_add(2.0)
        else:
            v.assign(0.0)
        return x * v

    return f


def _assign_in_loop() -> Any:
    v = tf.Variable(tf.zeros(4))

    def f(x: Any) -> Any:
        for i in tf.range(3):
            v.assign_add(x[i])
        return v.read_value()

    return f


def _scatter() -> Any:
    v = tf.Variable(floats(5, 4))

    def f(x: Any) -> Any:
        v.scatter_nd_update([[0], [3]], x[:2])
        v.scatter_nd_add([[1]], x[2:])
        return v.read_value(), tf.gather(v, [3, 1])

    return f


def _slice_assign() -> Any:
    v = tf.Variable(floats(5, 4))

    def f(x: Any) -> Any:
        v[1:4].assign(x)
        return v.read_value()

    return f


def _through_functions() -> Any:
    v = tf.Variable(2.0)

    @tf.function
    def add(x: Any) -> Any:
        v.assign_add(1.0)
        return x + v

    return lambda x: add(x) * add(x)


def _moving_average() -> Any:
    layer = L.BatchNormalization()
    layer.build((None, 4))
    return lambda x: (layer(x, training=True), layer.moving_mean + 0.0)


VARIABLES: dict[str, Callable[[], Any]] = {
    "assigned": _assign,
    "counted": _count,
    "assigned_in_branch": _assign_in_branch,
    "assigned_in_loop": _assign_in_loop,
    "scattered": _scatter,
    "slice_assigned": _slice_assign,
    "through_functions": _through_functions,
    "moving_average": _moving_average,
}


def _variables() -> Iterator[Model]:
    for name, make in VARIABLES.items():
        yield Model(f"variable_{name}", make, (X,))


# -- gradients ---------------------------------------------------------------------


def _gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return f


def _of_layer(make: Callable[[], Any]) -> Callable[[], Any]:
    """The gradients of a layer's result by its input and all its weights."""

    def make_function() -> Any:
        layer = make()

        def f(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(layer(x) ** 2)
            return tape.gradient(y, [x, *layer.trainable_variables])

        return f

    return make_function


def _gradients() -> Iterator[Model]:
    functions: dict[str, Callable[[Any], Any]] = {
        "elementwise": lambda x: tf.tanh(x) * tf.sigmoid(x) + tf.exp(-x * x),
        "softmax": lambda x: tf.nn.softmax(x) ** 2,
        "log_softmax": tf.nn.log_softmax,
        "relu": lambda x: tf.nn.relu6(x * 4) ** 2,
        "selu": lambda x: tf.nn.selu(x) + tf.nn.elu(x) + tf.nn.softplus(x),
        "matmul": lambda x: x @ tf.transpose(x),
        "max": lambda x: tf.reduce_max(x, 1),
        "gather": lambda x: tf.gather(x, [0, 2, 0]) ** 2,
        "norm": tf.norm,
        "slices": lambda x: x[1:, ::2] ** 3,
        "einsum": lambda x: tf.einsum("ij,kj->ik", x, x),
        "concat": lambda x: tf.concat([x, x * x], 1),
        "where": lambda x: tf.where(x > 0, x, x**2),
        "cumsum": lambda x: tf.cumsum(x, 1) ** 2,
        "prod": lambda x: tf.reduce_prod(x, 1),
        "loop": lambda x: tf.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a * x), (tf.constant(0), x)
        )[1],
        "branch": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x**2, lambda: x**3),
        "segment_sum": lambda x: tf.math.segment_sum(x, [0, 0, 1]) ** 2,
    }
    for name, function in functions.items():
        yield of_function(f"gradient_{name}", _gradient(function), X)
    layers: dict[str, tuple[Callable[[], Any], Any]] = {
        "dense": (lambda: L.Dense(3, "gelu"), ROWS),
        "conv2d": (lambda: L.Conv2D(4, 3, padding="same"), IMAGE),
        "conv2d_strided": (lambda: L.Conv2D(4, 3, 2), IMAGE),
        "depthwise": (lambda: L.DepthwiseConv2D(3), IMAGE),
        "conv2d_transposed": (lambda: L.Conv2DTranspose(4, 3, 2), IMAGE),
        "max_pool2d": (lambda: L.MaxPooling2D(2), IMAGE),
        "average_pool2d": (lambda: L.AveragePooling2D(2, padding="same"), IMAGE),
        "layer_normalization": (L.LayerNormalization, ROWS),
        "embedding": (lambda: _Embedded(), STEPS),
        "lstm": (lambda: L.LSTM(3), STEPS),
        "gru": (lambda: L.GRU(3), STEPS),
        "up_sampling": (lambda: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    }
    for name, (make, x) in layers.items():
        freezes = name not in ("lstm", "gru")
        yield Model(f"gradient_of_{name}", _of_layer(make), (x,), freezes=freezes)
    yield of_function(
        "gradient_second", _gradient(_gradient(lambda x: tf.sin(x) * x)), X
    )


class _Embedded:
    """Scales its input by rows of a table."""

    def __init__(self) -> None:
        self._table = tf.Variable(floats(10, 4))
        self.trainable_variables = [self._table]

    def __call__(self, x: Any) -> Any:
        return x * tf.nn.embedding_lookup(self._table, integers(5))


# -- training ----------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
}


def _step(make_optimizer: Callable[[], Any]) -> Callable[[], Any]:
    """One step of gradient descent: the loss before, and the weights after it."""

    def make() -> Any:
        model = keras.Sequential([L.Dense(5, "relu"), L.Dense(1)])
        model.build((None, 4))
        optimizer = make_optimizer()
        optimizer.build(model.trainable_variables)

        def f(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - x[:, :1]) ** 2)
            weights = model.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
            return loss, [w.value + 0.0 for w in weights]

        return f

    return make


def _raw_updates() -> Any:
    ops, v, m = tf.raw_ops, tf.Variable(floats(3, 4)), tf.Variable(tf.zeros((3, 4)))

    def f(x: Any) -> Any:
        ops.ResourceApplyMomentum(
            var=v.handle,
            accum=m.handle,
            lr=0.1,
            grad=x,
            momentum=0.9,
            use_nesterov=True,
        )
        ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.1, delta=x)
        return v.read_value(), m.read_value()

    return f


def _steps() -> Iterator[Model]:
    for name, make in OPTIMIZERS.items():
        yield Model(f"training_step_{name}", _step(make), (X,))
    yield Model("training_step_of_raw_ops", _raw_updates, (X,))
