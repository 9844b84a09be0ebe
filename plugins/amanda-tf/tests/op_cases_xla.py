"""Cases of XLA's ops, compiled by XLA, with computations that are functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import OpCase, case, i, program, r


def numbers(**fields: Any) -> bytes:
    """Dimension numbers, encoded by TensorFlow's own protobuf classes."""
    from tensorflow.compiler.xla import xla_data_pb2

    (kind,) = {key.partition("__")[0] for key in fields}
    message = getattr(xla_data_pb2, kind)()
    for key, value in fields.items():
        name = key.partition("__")[2]
        if isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return message.SerializeToString()


def packed(rows: dict[int, Any]) -> bytes:
    """A message of small numbers (a number, or a list) by field."""
    data = b""
    for field, value in rows.items():
        if isinstance(value, list):
            data += bytes([field << 3 | 2, len(value), *value])
        else:
            data += bytes([field << 3, value])
    return data


def function(op: str, dtype: str = "float32") -> Any:
    """A function of two scalars that is one op."""
    import tensorflow as tf

    spec = tf.TensorSpec([], dtype)

    @tf.function(autograph=False)
    def combine(a: Any, b: Any) -> Any:
        return b if op == "second" else getattr(tf.raw_ops, op)(x=a, y=b)

    return combine.get_concrete_function(spec, spec)


def reduction(name: str, op: str, *feeds: Any, **attrs: Any) -> OpCase:
    """An op of XLA with a computation."""
    key = {"XlaReduceWindow": "computation", "XlaScatter": "update_computation"}

    def build(apply: Any, *xs: Any) -> Any:
        body = function(op)
        body.add_to_graph()
        values = {**attrs, key.get(name, "reducer"): body}
        inputs = values.pop("inputs")(*xs)
        return apply(name, *inputs, **values)

    return program(f"{name}-{op}", build, *feeds, jit=True)


CONV_NHWC = packed({7: 0, 8: 3, 11: [1, 2], 3: 2, 4: 3, 6: [0, 1], 9: 0, 10: 3,
                    12: [1, 2]})  # fmt: skip
DOT = packed({1: [2], 2: [1], 3: [0], 4: [0]})
ROWS = packed({1: [1], 2: [0], 3: [0], 4: 1})
WINDOWS = packed({1: [1, 2], 3: [0, 1], 4: 1})
SCATTER = packed({1: [1], 2: [0], 3: [0], 4: 1})


def select_and_scatter(apply: Any, x: Any, source: Any) -> Any:
    select, scatter = function("GreaterEqual"), function("AddV2")
    select.add_to_graph()
    scatter.add_to_graph()
    return apply(
        "XlaSelectAndScatter", x, [2, 2], [2, 2], [[0, 0], [0, 0]], source,
        np.float32(0), select=select, scatter=scatter,
    )  # fmt: skip


def to_absolute(got: Any, expected: Any) -> bool:
    """Whether results are equal up to the signs of vectors."""
    return bool(np.allclose(np.abs(got), np.abs(expected), atol=1e-3))


SYMMETRIC = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], "float32")
CASES = [
    program("XlaSelectAndScatter", select_and_scatter, r(4, 6), r(2, 3), jit=True),
    case(
        "XlaSelfAdjointEig",
        SYMMETRIC,
        lower=True,
        max_iter=100,
        epsilon=1e-6,
        jit=True,
        agrees=to_absolute,
    ),
    case(
        "XlaSvd",
        r(3, 3),
        max_iter=100,
        epsilon=1e-6,
        precision_config="",
        jit=True,
        agrees=to_absolute,
    ),
    case(
        "XlaDot",
        r(2, 3, 4),
        r(2, 4, 5),
        dimension_numbers=DOT,
        precision_config="",
        jit=True,
    ),
    case(
        "XlaDotV2",
        r(2, 3, 4),
        r(2, 4, 5),
        dimension_numbers=DOT,
        precision_config="",
        preferred_element_type="float32",
        jit=True,
    ),
    case("XlaPad", r(3, 4), np.float32(7), [1, -1], [0, 2], [0, 0], jit=True),
    case("XlaPad", r(3, 4), np.float32(7), [1, 0], [0, 2], [2, 1], jit=True),
    case(
        "XlaConv",
        r(1, 5, 6, 2),
        r(3, 2, 2, 4),
        [1, 2],
        [[1, 1], [0, 1]],
        [1, 1],
        [1, 1],
        1,
        dimension_numbers=CONV_NHWC,
        precision_config="",
        jit=True,
    ),
    case(
        "XlaConvV2",
        r(1, 5, 6, 2),
        r(3, 2, 1, 4),
        [1, 1],
        [[1, 1], [0, 1]],
        [2, 1],
        [1, 2],
        2,
        dimension_numbers=CONV_NHWC,
        precision_config="",
        preferred_element_type="float32",
        jit=True,
    ),
    case("XlaDynamicSlice", r(4, 5), i([1, 2]), [2, 3], jit=True),
    case("XlaDynamicSlice", r(4, 5), i([9, -3]), [2, 3], jit=True),
    case("XlaDynamicUpdateSlice", r(4, 5), r(2, 2), i([1, 9]), jit=True),
    case(
        "XlaGather",
        r(5, 3),
        i([[1], [9], [0], [1]]),
        [1, 3],
        dimension_numbers=ROWS,
        indices_are_sorted=False,
        jit=True,
    ),
    case(
        "XlaGather",
        r(5, 6),
        i([[1, 2], [4, 5]]),
        [2, 3],
        dimension_numbers=WINDOWS,
        indices_are_sorted=False,
        jit=True,
    ),
    case("XlaSort", r(3, 7), jit=True),
    case("XlaKeyValueSort", r(7), r(7), jit=True),
    case("XlaEinsum", r(3, 4), r(4, 5), equation="ab,bc->ac", jit=True),
    case("XlaSharding", r(3), jit=True),
    case("XlaBroadcastHelper", r(3), r(3, 4), [0], jit=True),
    case(
        "XlaConcatND",
        (r(2, 3), r(2, 3), r(2, 3), r(2, 3)),
        num_concats=[2, 2],
        jit=True,
    ),
    case("XlaSplitND", r(4, 6), N=4, num_splits=[2, 2], jit=True),
    case("XlaSplitND", r(3, 5), N=4, num_splits=[2, 2], paddings=[1, 1], jit=True),
    reduction(
        "XlaReduce",
        "AddV2",
        r(3, 4),
        dimensions_to_reduce=[1],
        inputs=lambda x: (x, np.float32(2)),
    ),
    reduction(
        "XlaReduce",
        "Maximum",
        r(3, 4),
        dimensions_to_reduce=[0, 1],
        inputs=lambda x: (x, np.float32(0)),
    ),
    reduction(
        "XlaVariadicReduceV2",
        "Minimum",
        r(3, 4),
        dimensions_to_reduce=[0],
        inputs=lambda x: ([x], [np.float32(9)]),
    ),
    reduction(
        "XlaReduceWindow",
        "Maximum",
        r(5, 6),
        inputs=lambda x: (
            x,
            np.float32(-9),
            [2, 3],
            [1, 2],
            [1, 1],
            [1, 1],
            [[0, 1], [1, 0]],
        ),
    ),
    reduction(
        "XlaReduceWindow",
        "AddV2",
        r(5, 6),
        inputs=lambda x: (
            x,
            np.float32(0),
            [2, 3],
            [1, 2],
            [1, 1],
            [1, 1],
            [[0, 1], [1, 0]],
        ),
    ),
    *(
        reduction(
            "XlaScatter",
            op,
            r(5, 3),
            r(3, 3),
            indices_are_sorted=False,
            dimension_numbers=SCATTER,
            inputs=lambda x, u: (x, np.int32([[1], [4], [9]]), u),
        )
        for op in ("AddV2", "Maximum", "second")
    ),
]
