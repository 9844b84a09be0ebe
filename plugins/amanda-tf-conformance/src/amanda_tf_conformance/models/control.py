"""Functions, conditionals and loops of TensorFlow 2, and arrays in loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from amanda_tf_conformance.models.table import Model, floats, integers, of_function

__all__ = ["models"]

X = floats(3, 4)
N = np.array(3, "int32")
YES, NO = np.array(True), np.array(False)


def models() -> Iterator[Model]:
    """All models of this theme."""
    yield from _functions()
    yield from _conditionals()
    yield from _loops()
    yield from _arrays()
    yield from _orders()


# -- functions ---------------------------------------------------------------------


@tf.function
def _square(x: Any) -> Any:
    return x * x


@tf.function
def _sum_and_difference(x: Any, y: Any) -> Any:
    return x + y, x - y


@tf.function
def _nest_calls(x: Any) -> Any:
    first, second = _sum_and_difference(_square(x), x)
    return _square(first) - second


@tf.function
def _with_default(x: Any, scale: float = 2.0) -> Any:
    return x * scale


def _call_twice(x: Any) -> Any:
    return _square(_square(x) + 1.0)


def _call_in_loop(x: Any) -> Any:
    for _ in tf.range(3):
        x = _square(x) * 0.5
    return x


def _stateful_call(x: Any) -> Any:
    @tf.function
    def check(x: Any) -> Any:
        tf.debugging.assert_greater(x, -100.0)
        return x + 1.0

    return check(x) * 2.0


def _functions() -> Iterator[Model]:
    yield of_function("function_called_twice", _call_twice, X)
    yield of_function(
        "function_of_two_results", lambda x, y: _sum_and_difference(x, y), X, X * 2
    )
    yield of_function("function_nested", _nest_calls, X)
    yield of_function("function_with_default", _with_default, X)
    yield of_function("function_called_in_loop", _call_in_loop, X)
    yield of_function("function_with_assertion", _stateful_call, X)
    yield of_function(
        "function_by_two_types", lambda x, n: (_square(x), _square(n)), X, N
    )
    yield of_function("function_of_any_batch", _nest_calls, X, any_batch=True)
    yield of_function(
        "function_without_gradient", lambda x: tf.stop_gradient(_square(x)), X
    )
    yield of_function("function_with_custom_gradient", _custom_gradient, X)
    yield of_function(
        "function_results_in_a_tuple", lambda x: (x, (x + 1.0, [x * 2.0])), X
    )


@tf.custom_gradient
def _custom_gradient(x: Any) -> Any:
    return tf.math.log1p(tf.exp(x)), lambda g: g


# -- conditionals ------------------------------------------------------------------


def _if(flag: Any, x: Any) -> Any:
    if flag:  # noqa: SIM108 - autograph
        y = x * 2.0
    else:
        y = x - 1.0
    return y


def _if_without_else(flag: Any, x: Any) -> Any:
    if flag:
        x = tf.reduce_sum(x, 1, keepdims=True) + x
    return x


def _if_nested(a: Any, b: Any, x: Any) -> Any:
    if a:
        x = (x + 1.0) if not b else tf.where(b, x * 3.0, x)
    elif b:
        x = tf.exp(x)
    return x


def _if_shapes(flag: Any, x: Any) -> Any:
    return tf.cond(flag, lambda: x[:2], lambda: tf.concat([x, x], 0))


def _if_two_results(flag: Any, x: Any) -> Any:
    a, b = tf.cond(flag, lambda: (x, x + 1.0), lambda: (x * 2.0, -x))
    return a, b


def _if_of_value(x: Any) -> Any:
    if tf.reduce_sum(x) > 0.0:
        return x / tf.reduce_sum(x)
    return x - tf.reduce_min(x)


def _case(i: Any, x: Any) -> Any:
    return tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: tf.nn.relu(x)])


def _case_default(i: Any, x: Any) -> Any:
    return tf.switch_case(i, {0: lambda: x, 1: lambda: -x}, lambda: x * 10.0)


def _case_pairs(x: Any) -> Any:
    total = tf.reduce_sum(x)
    pairs = [(total > 100.0, lambda: x), (total < 100.0, lambda: x + 5.0)]
    return tf.case(pairs, lambda: x * 0.0)


def _conditionals() -> Iterator[Model]:
    for name, flag in (("true", YES), ("false", NO)):
        yield of_function(f"if_{name}", _if, flag, X)
        yield of_function(f"if_without_else_{name}", _if_without_else, flag, X)
        yield of_function(f"if_of_other_shapes_{name}", _if_shapes, flag, X)
        yield of_function(f"if_two_results_{name}", _if_two_results, flag, X)
        yield of_function(f"if_nested_{name}", _if_nested, flag, YES, X)
        yield of_function(f"if_nested_else_{name}", _if_nested, NO, flag, X)
    yield of_function("if_of_computed_value", _if_of_value, X)
    yield of_function("if_of_any_batch", _if, YES, X, any_batch=False)
    for i in (0, 1, 2, -1, 9):
        index = np.array(i, "int32")
        yield of_function(f"case_{i}", _case, index, X)
        yield of_function(f"case_with_default_{i}", _case_default, index, X)
    yield of_function("case_of_pairs", _case_pairs, X)


# -- loops -------------------------------------------------------------------------


def _count(n: Any, x: Any) -> Any:
    i = tf.constant(0)
    while i < n:
        x = x * 1.5 + 1.0
        i += 1
    return x, i


def _break(n: Any, x: Any) -> Any:
    for i in tf.range(n * 10):
        if i == n:
            break
        x += tf.cast(i, tf.float32)
    return x


def _continue(n: Any, x: Any) -> Any:
    for i in tf.range(n * 2):
        if i % 2 == 0:
            continue
        x += tf.cast(i, tf.float32)
    return x


def _while_nested(n: Any, x: Any) -> Any:
    for i in tf.range(n):
        for j in tf.range(i):
            x += tf.cast(j, tf.float32) * 0.1
    return x


def _while_with_if(n: Any, x: Any) -> Any:
    for _ in tf.range(n):
        if tf.reduce_mean(x) > 0.2:  # noqa: SIM108 - autograph
            x = x * 0.5
        else:
            x = x + 0.75
    return x


def _while_captures(n: Any, x: Any, y: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < n, lambda i, a: (i + 1, a @ y), (tf.constant(0), x)
    )[1]


def _while_growing(n: Any, x: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < n,
        lambda i, a: (i + 1, tf.concat([a, x], 0)),
        (tf.constant(0), x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 4])),
    )[1]


def _while_value(x: Any) -> Any:
    return tf.while_loop(
        lambda a: tf.reduce_max(tf.abs(a)) > 0.5, lambda a: (a * 0.5,), (x,)
    )


def _collatz(n: Any) -> Any:
    steps = tf.zeros_like(n)
    while n > 1:
        n = tf.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    return steps


def _fibonacci(n: Any) -> Any:
    a, b = tf.constant(0), tf.constant(1)
    for _ in tf.range(n):
        a, b = b, a + b
    return a


def _rows_of(x: Any) -> Any:
    total = tf.zeros((4,))
    for row in x:
        total += tf.nn.softmax(row)
    return total


def _loop_with_limit(x: Any) -> Any:
    return tf.while_loop(
        lambda _: True, lambda a: (a + 1.0,), (x,), maximum_iterations=4
    )


def _loops() -> Iterator[Model]:
    for n in (0, 1, 3):
        count = np.array(n, "int32")
        yield of_function(f"while_{n}_times", _count, count, X)
        yield of_function(f"while_break_{n}", _break, count, X)
        yield of_function(f"while_growing_{n}_times", _while_growing, count, X)
    yield of_function("while_continue", _continue, N, X)
    yield of_function("while_nested", _while_nested, np.array(4, "int32"), X)
    yield of_function("while_with_if", _while_with_if, np.array(6, "int32"), X)
    yield of_function("while_with_captures", _while_captures, N, X, floats(4, 4))
    yield of_function("while_of_value", _while_value, X)
    yield of_function("while_collatz", _collatz, np.array(27, "int32"))
    yield of_function("while_fibonacci", _fibonacci, np.array(12, "int32"))
    yield of_function("while_over_rows", _rows_of, X)
    yield of_function("while_over_rows_of_any_batch", _rows_of, X, any_batch=True)
    yield of_function("while_limited", _loop_with_limit, X)


# -- arrays in loops ---------------------------------------------------------------


def _array_stack(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=(4,))
    for i in tf.range(3):
        array = array.write(i, x[i] * tf.cast(i, tf.float32))
    return array.stack()


def _array_of_length(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=tf.shape(x)[0])
    for i in tf.range(tf.shape(x)[0]):
        array = array.write(i, tf.reduce_sum(x[i]))
    return array.stack()


def _array_grows(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=(4,))
    for i in tf.range(5):
        array = array.write(i, x[0] + tf.cast(i, tf.float32))
    return array.stack(), array.size()


def _array_unstack(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(x)
    return array.read(0) + array.read(2), array.gather([2, 1])


def _array_concat(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=2, infer_shape=False)
    return array.write(0, x[:1]).write(1, x).concat()


def _array_scatter(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=(4,))
    return array.scatter([2, 0, 1], x).stack()


def _list_of_rows(x: Any) -> Any:
    rows = []
    for i in range(3):
        rows.append(x[i] * float(i))  # noqa: PERF401 - autograph
    return tf.stack(rows)


def _scan_two(x: Any) -> Any:
    start = (tf.zeros(4), tf.ones(4))
    return tf.scan(lambda s, row: (s[0] + row, s[1] * 0.5 + s[0]), x, start)


def _cumulative(x: Any) -> Any:
    return tf.scan(lambda a, b: a + b, x)


def _map_two(x: Any, y: Any) -> Any:
    return tf.map_fn(
        lambda pair: (pair[0] + pair[1], tf.reduce_sum(pair[0])),
        (x, y),
        fn_output_signature=(tf.float32, tf.float32),
    )


def _arrays() -> Iterator[Model]:
    yield of_function("array_stack", _array_stack, X)
    yield of_function("array_of_length", _array_of_length, X)
    yield of_function("array_of_any_length", _array_of_length, X, any_batch=True)
    yield of_function("array_grows", _array_grows, X)
    yield of_function("array_unstack", _array_unstack, X)
    yield of_function("array_concat", _array_concat, X)
    yield of_function("array_scatter", _array_scatter, X)
    yield of_function("list_of_rows", _list_of_rows, X)
    yield of_function("map_fn", lambda x: tf.map_fn(tf.reduce_max, x), X)
    yield of_function(
        "map_fn_of_any_batch", lambda x: tf.map_fn(tf.nn.softmax, x), X, any_batch=True
    )
    yield of_function("map_fn_of_two", _map_two, X, X + 1)
    yield of_function(
        "map_fn_of_integers", lambda n: tf.map_fn(lambda i: i * i, n), integers(5)
    )
    yield of_function(
        "vectorized_map", lambda x: tf.vectorized_map(lambda r: r / tf.norm(r), x), X
    )
    yield of_function("scan", _cumulative, X)
    yield of_function(
        "scan_reversed", lambda x: tf.scan(lambda a, b: a * 0.5 + b, x, reverse=True), X
    )
    yield of_function("scan_of_two", _scan_two, X)
    yield of_function("foldl", lambda x: tf.foldl(lambda a, b: a + b * b, x), X)
    yield of_function("foldr", lambda x: tf.foldr(lambda a, b: a - b, x), X)


# -- control dependencies ----------------------------------------------------------


def _assertion(x: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
        return tf.identity(x) * 2.0


def _assertion_shapes(x: Any) -> Any:
    tf.debugging.assert_equal(tf.shape(x)[1], 4, message="four columns")
    tf.debugging.assert_rank(x, 2)
    return tf.transpose(x)


def _print(x: Any) -> Any:
    tf.print("sum", tf.reduce_sum(x), output_stream="file:///dev/null")
    return x + 1.0


def _group(x: Any) -> Any:
    checks = tf.group(tf.debugging.assert_all_finite(x, "finite"), tf.no_op())
    with tf.control_dependencies([checks]):
        return tf.identity_n([x, x * 3.0])


def _orders() -> Iterator[Model]:
    yield of_function("order_after_assertion", _assertion, X)
    yield of_function(
        "order_after_shape_assertions", _assertion_shapes, X, any_batch=True
    )
    yield of_function("order_after_print", _print, X)
    yield of_function("order_after_group", _group, X)
    yield of_function("check_numerics", lambda x: tf.debugging.check_numerics(x, ""), X)
