"""Control flow within control flow, functions in functions, state read in bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from amanda_tf_conformance.models.table import Model, floats, integers, of_function

__all__ = ["models"]

X, N = floats(3, 4), np.array(3, "int32")
TEXT = np.array(["b", "zz", "a"], object)


def models() -> Iterator[Model]:
    """All models of this theme."""
    for name, function in FUNCTIONS.items():
        for n in (0, 2):
            yield of_function(f"nested_{name}_{n}", function, np.array(n, "int32"), X)
    for name, make in WITH_STATE.items():
        yield Model(f"nested_{name}", make, (N, X))
    for name, make in TABLES.items():
        yield Model(f"table_{name}", make, (TEXT,), freezes=False)
    for name, random in RANDOM.items():
        yield of_function(f"stateless_{name}", random, np.array([3, 7], "int32"))
    for name, gradient in GRADIENTS.items():
        yield of_function(f"gradient_{name}", _gradient_of(gradient), N, X)


# -- control flow ------------------------------------------------------------------


def _repeat(n: Any, x: Any, step: Callable[[Any, Any], Any]) -> Any:
    """A loop over i, x."""
    start = (tf.constant(0), x)
    return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, step(i, a)), start)[1]


def _loop_in_branch(n: Any, x: Any) -> Any:
    return tf.cond(n > 1, lambda: _repeat(n, x, lambda _, a: a * 0.5 + x), lambda: -x)


def _branch_in_loop_in_branch(n: Any, x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        return tf.cond(i % 2 == 0, lambda: a + x, lambda: a * 2.0)

    return tf.cond(n > 1, lambda: _repeat(n * 2, x, step), lambda: tf.zeros_like(x))


def _case_in_loop(n: Any, x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        branches = [lambda: a, lambda: a - 1.0, lambda: tf.nn.relu(a)]
        return tf.switch_case(i % 3, branches)

    return _repeat(n + 4, x, step)


def _loop_in_case(n: Any, x: Any) -> Any:
    def loop(k: int) -> Callable[[], Any]:
        return lambda: _repeat(tf.constant(k), x, lambda _, a: a * 1.1)

    return tf.switch_case(n, [loop(1), loop(2), loop(3)])


def _loops_three_deep(n: Any, x: Any) -> Any:
    def inner(i: Any, a: Any) -> Any:
        return _repeat(i, a, lambda j, b: b + tf.cast(i * j, tf.float32))

    return _repeat(n, x, lambda i, a: _repeat(i + 2, a, inner))


@tf.function
def _halve_until(x: Any, limit: Any) -> Any:
    while tf.reduce_max(tf.abs(x)) > limit:
        x = x * 0.5
    return x


@tf.function
def _choose(n: Any, x: Any) -> Any:
    if n > 1:
        return _halve_until(x, 0.3)
    return _halve_until(x, 0.7) + 1.0


def _functions_of_loops(n: Any, x: Any) -> Any:
    return _choose(n, x) + _choose(n + 1, x * 2.0)


def _early_exit(n: Any, x: Any) -> Any:
    for i in tf.range(5):
        if i == n + 2:
            x = x * tf.cast(i, tf.float32)
            break
        for j in tf.range(i):
            if j > 1:
                break
            x = x + 0.25
    return x


def _array_of_arrays(n: Any, x: Any) -> Any:
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=(4,))
    for i in tf.range(n + 1):
        for j in tf.range(i + 1):
            rows = rows.write(rows.size(), x[j] * tf.cast(i, tf.float32))
    return rows.stack(), rows.size()


def _array_in_branch(n: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=(4,))
    for i in tf.range(3):
        if i < n:  # noqa: SIM108 - autograph
            array = array.write(i, x[i] * 2.0)
        else:
            array = array.write(i, -x[i])
    return array.stack()


def _two_arrays(n: Any, x: Any) -> Any:
    sums = tf.TensorArray(tf.float32, size=n)
    means = tf.TensorArray(tf.float32, size=n)
    for i in tf.range(n):
        sums = sums.write(i, tf.reduce_sum(x, 0) + tf.cast(i, tf.float32))
        means = means.write(i, tf.reduce_mean(x[i]))
    return sums.stack() + 0.0, means.stack()


def _growing_value(n: Any, x: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < n,
        lambda i, a: (i + 1, tf.concat([a, x[i : i + 2]], 0)),
        (tf.constant(0), x[:0]),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 4])),
    )[1]


def _scan_of_scan(n: Any, x: Any) -> Any:
    rows = tf.scan(lambda a, row: a + tf.scan(lambda c, v: c + v, row), x)
    return rows * tf.cast(n, tf.float32)


def _map_of_branch(n: Any, x: Any) -> Any:
    def double_if_positive(row: Any) -> Any:
        return tf.cond(row[0] > 0.0, lambda: row * 2.0, lambda: tf.zeros_like(row))

    return tf.map_fn(double_if_positive, x) + tf.cast(n, tf.float32)


def _partial_gradient_stop(n: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _repeat(tf.constant(3), x, lambda _, a: a * x + tf.stop_gradient(a))
    return tape.gradient(y, x) + tf.cast(n, tf.float32)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "loop_in_branch": _loop_in_branch,
    "branch_in_loop_in_branch": _branch_in_loop_in_branch,
    "case_in_loop": _case_in_loop,
    "loop_in_case": _loop_in_case,
    "loops_three_deep": _loops_three_deep,
    "functions_of_loops": _functions_of_loops,
    "early_exit": _early_exit,
    "array_of_arrays": _array_of_arrays,
    "array_in_branch": _array_in_branch,
    "two_arrays": _two_arrays,
    "growing_value": _growing_value,
    "scan_of_scan": _scan_of_scan,
    "map_of_branch": _map_of_branch,
    "gradient_with_stop": _partial_gradient_stop,
}


# -- state -------------------------------------------------------------------------


def _reads_in_bodies() -> Any:
    w, b = tf.Variable(floats(4, 4)), tf.Variable(floats(4))

    def f(n: Any, x: Any) -> Any:
        y = _repeat(n, x, lambda _, a: tf.tanh(a @ w + b))
        return tf.cond(n > 1, lambda: y + b, lambda: y)

    return f


def _writes_in_nested_bodies() -> Any:
    count, last = tf.Variable(0), tf.Variable(tf.zeros((3, 4)))

    def f(n: Any, x: Any) -> Any:
        for i in tf.range(n):
            if i % 2 == 0:
                count.assign_add(i + 1)
                for j in tf.range(2):
                    last.assign_add(x * tf.cast(j, tf.float32))
        return last.read_value(), count.read_value()

    return f


def _functions_with_variables() -> Any:
    v = tf.Variable(2.0)

    @tf.function
    def scale(x: Any) -> Any:
        return x * v

    @tf.function
    def twice(n: Any, x: Any) -> Any:
        if n > 2:
            v.assign_add(1.0)
        return scale(scale(x))

    return twice


def _batch_norm_step() -> Any:
    layer = keras.layers.BatchNormalization(momentum=0.5)
    layer.build((None, 4))

    def f(n: Any, x: Any) -> Any:
        y = tf.cond(
            n > 1, lambda: layer(x, training=True), lambda: layer(x, training=False)
        )
        return y, layer.moving_mean + 0.0, layer.moving_variance + 0.0

    return f


WITH_STATE: dict[str, Callable[[], Any]] = {
    "reads_in_bodies": _reads_in_bodies,
    "writes_in_bodies": _writes_in_nested_bodies,
    "functions_with_variables": _functions_with_variables,
    "batch_norm_in_branch": _batch_norm_step,
}


# -- tables ------------------------------------------------------------------------


def _table_of(keys: Any, values: Any, default: Any) -> Any:
    content = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(content, default)


class _Module(tf.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A function with the tables that it uses, which are saved with it."""

    def __init__(self, call: Callable[..., Any], *tables: Any) -> None:
        self._call, self._tables = call, tables

    def __call__(self, x: Any) -> Any:
        return self._call(x, *self._tables)


def _words_to_numbers() -> Any:
    table = _table_of(["a", "b", "c"], tf.constant([1, 2, 3], tf.int64), -1)
    return _Module(lambda x, t: (t.lookup(x), t.size()), table)


def _words_to_words() -> Any:
    return _Module(
        lambda x, t: tf.strings.join([t.lookup(x), x]), _table_of(["a"], ["first"], "?")
    )


def _two_tables() -> Any:
    first = _table_of(["a", "b"], tf.constant([5, 6], tf.int64), -1)
    second = _table_of(tf.constant([5, 6], tf.int64), [0.5, 0.25], 9.0)
    return _Module(lambda x, s, t: t.lookup(s.lookup(x)), first, second)


def _embedded_words() -> Any:
    rows = floats(4, 3)
    table = _table_of(["a", "b"], tf.constant([1, 2], tf.int64), 0)
    return _Module(lambda x, t: tf.gather(rows, t.lookup(x)), table)


def _table_in_branch() -> Any:
    table = _table_of(["a", "b"], tf.constant([1, 2], tf.int64), 0)

    def call(x: Any, t: Any) -> Any:
        return tf.cond(tf.size(x) > 2, lambda: t.lookup(x), lambda: t.lookup(x[:1]))

    return _Module(call, table)


TABLES: dict[str, Callable[[], Any]] = {
    "of_words": _words_to_numbers,
    "of_words_to_words": _words_to_words,
    "of_two": _two_tables,
    "of_embedding": _embedded_words,
    "in_branch": _table_in_branch,
}


# -- random numbers, gradients -----------------------------------------------------

R: Any = tf.random
RANDOM: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda seed: R.stateless_uniform([2, 3], seed),
    "uniform_range": lambda seed: R.stateless_uniform([5], seed, -2.0, 3.0),
    "uniform_double": lambda seed: R.stateless_uniform([4], seed, dtype=tf.float64),
    "uniform_half": lambda seed: R.stateless_uniform([4], seed, dtype=tf.float16),
    "uniform_int": lambda seed: R.stateless_uniform([6], seed, 2, 9, tf.int32),
    "uniform_long": lambda seed: R.stateless_uniform([6], seed, -5, 9, tf.int64),
    "full_int": lambda seed: R.stateless_uniform([6], seed, None, None, tf.int32),
    "normal": lambda seed: R.stateless_normal([2, 3], seed, 1.0, 2.0),
    "normal_double": lambda seed: R.stateless_normal([3], seed, dtype=tf.float64),
    "truncated_normal": lambda seed: R.stateless_truncated_normal([2, 3], seed),
    "shuffle": lambda seed: R.experimental.stateless_shuffle(tf.range(7), seed),
    "split": lambda seed: R.experimental.stateless_split(seed, 3),
    "fold_in": lambda seed: R.experimental.stateless_fold_in(seed, 5),
    "after_split": lambda seed: tf.map_fn(
        lambda s: R.stateless_normal([2], s),
        R.experimental.stateless_split(seed),
        tf.float32,
    ),
    "dropout": lambda seed: tf.nn.experimental.stateless_dropout(X, 0.4, seed),
    "categorical": lambda seed: R.stateless_categorical(X, 4, seed),
}


def _gradient_of(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def f(n: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(n, x)
        return tape.gradient(y, x)

    return f


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "of_branches_that_differ": lambda n, x: tf.cond(
        n > 1, lambda: tf.exp(x * x), lambda: x
    ),
    "of_loop_in_branch": lambda n, x: tf.cond(
        n > 1, lambda: _repeat(n, x, lambda _, a: a * x), lambda: x
    ),
    "of_branch_in_loop": lambda n, x: _repeat(
        n, x, lambda i, a: tf.cond(i > 0, lambda: a * x, lambda: tf.sin(a))
    ),
    "of_scan": lambda _, x: tf.scan(lambda a, b: a * b, x),
    "of_array": lambda _, x: _array_in_branch(tf.constant(2), x) ** 2,
    "of_case": lambda n, x: tf.switch_case(n, [lambda: x, lambda: x**2]),
    "of_gathered_rows": lambda _, x: tf.gather(x, integers(4, below=3)) ** 2,
}
