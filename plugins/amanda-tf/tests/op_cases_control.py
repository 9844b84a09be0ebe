"""Cases of arrays of tensors, and of control flow by functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import i, program, r


def functions(*bodies: Any) -> Any:
    """Concrete functions of a float vector, added to the graph that is built."""
    import tensorflow as tf

    found = []
    for body in bodies:
        spec = [tf.TensorSpec([3], "float32")]
        concrete = tf.function(body, autograph=False).get_concrete_function(*spec)
        concrete.add_to_graph()
        found.append(concrete)
    return found


def conditional(name: str) -> Any:
    def build(op: Any, condition: Any, x: Any) -> Any:
        yes, no = functions(lambda x: x * 2.0, lambda x: x - 1.0)
        return op(name, condition, [x], Tout=["float32"], then_branch=yes,
                  else_branch=no)  # fmt: skip

    return program(name, build, i(1, dtype="bool").reshape(()), r(3))


def optionals(op: Any, condition: Any, x: Any) -> Any:
    """A branch whose optional has no value, and one whose value is used."""
    import tensorflow as tf

    raw, variant = tf.raw_ops, tf.TensorSpec([], tf.variant)
    spec = [tf.TensorSpec([3])]
    yes = tf.function(lambda x: raw.OptionalFromValue(components=[x * 2.0]))
    no = tf.function(lambda x: raw.OptionalNone() if x is not None else x)
    made = [f.get_concrete_function(*spec) for f in (yes, no)]
    held = op("If", condition, [x], Tout=[variant.dtype], then_branch=made[0],
              else_branch=made[1])  # fmt: skip
    return op("OptionalGetValue", held[0], output_types=["float32"],
              output_shapes=[[3]])  # fmt: skip


def printed(op: Any, x: Any) -> Any:
    import tensorflow as tf

    text = op("StringFormat", [x], template="x: %s")
    with tf.control_dependencies([op("PrintV2", text, output_stream="log(info)")]):
        return op("Identity", x)


def cases(name: str) -> Any:
    def build(op: Any, index: Any, x: Any) -> Any:
        branches = functions(lambda x: x * 2.0, lambda x: x - 1.0, lambda x: -x)
        return op(name, index, [x], Tout=["float32"], branches=branches)

    return program(name, build, np.int32(1).reshape(()), r(3))


def loop(name: str) -> Any:
    def build(op: Any, x: Any) -> Any:
        import tensorflow as tf

        go, body = functions(lambda x: tf.reduce_sum(x) < 100.0, lambda x: x * 2.0)
        return op(name, [x], cond=go, body=body)

    return program(name, build, np.float32([1, 2, 3]), jit="Xla" in name)


def checked(op: Any, condition: Any, x: Any) -> Any:
    import tensorflow as tf

    with tf.control_dependencies([op("Assert", condition, [x])]):
        return op("Identity", x)


def array(op: Any, *, size: int = 2) -> Any:
    return op("TensorArrayV3", size, dtype="float32", element_shape=[3],
              clear_after_read=False)  # fmt: skip


def array_writes(op: Any, x: Any, y: Any) -> Any:
    handle, flow = array(op)
    flow = op("TensorArrayWriteV3", handle, 0, x, flow)
    flow = op("TensorArrayWriteV3", handle, 1, y, flow)
    every = op("TensorArrayGatherV3", handle, [1, 0], flow, dtype="float32",
               element_shape=[3])  # fmt: skip
    one = op("TensorArrayReadV3", handle, 1, flow, dtype="float32")
    return [every, one, op("TensorArraySizeV3", handle, flow)]


def array_parts(op: Any, x: Any) -> Any:
    handle, flow = op("TensorArrayV3", 2, dtype="float32")
    flow = op("TensorArraySplitV3", handle, x, np.int64([2, 2]), flow)
    return list(op("TensorArrayConcatV3", handle, flow, dtype="float32"))


def array_rows(op: Any, x: Any) -> Any:
    handle, flow = array(op)
    flow = op("TensorArrayScatterV3", handle, [1, 0], x, flow)
    rows = op("TensorArrayGatherV3", handle, [0, 1], flow, dtype="float32")
    op("TensorArrayCloseV3", handle)
    return rows


def stacked(op: Any, items: Any) -> Any:
    return op("TensorListStack", items, [3], element_dtype="float32")


def list_sets(op: Any, x: Any, y: Any) -> Any:
    items = op("TensorListReserve", [3], 2, element_dtype="float32")
    items = op("TensorListSetItem", items, 0, x)
    items = op("TensorListSetItem", items, 1, y)
    one = op("TensorListGetItem", items, 1, [3], element_dtype="float32")
    some = op("TensorListGather", items, [1, 1], [3], element_dtype="float32")
    return [stacked(op, items), one, some, op("TensorListLength", items)]


def list_pushes(op: Any, x: Any, y: Any) -> Any:
    items = op("EmptyTensorList", [3], -1, element_dtype="float32")
    for each in (x, y, x):
        items = op("TensorListPushBack", items, each)
    items, last = op("TensorListPopBack", items, [3], element_dtype="float32")
    shape = op("TensorListElementShape", items, shape_type="int32")
    return [stacked(op, items), last, shape]


def list_of_rows(op: Any, x: Any) -> Any:
    items = op("TensorListFromTensor", x, [3])
    longer = op("TensorListResize", items, 5)
    both = op("TensorListConcatLists", items, items, element_dtype="float32")
    return [stacked(op, longer), stacked(op, both)]


def list_of_scattered(op: Any, x: Any) -> Any:
    items = op("TensorListScatter", x, [1, 0], [3])
    more = op("TensorListScatterV2", x, [1, 0], [3], 2)
    into = op("TensorListScatterIntoExistingList", more, x, [0, 1])
    return [stacked(op, each) for each in (items, more, into)]


def list_of_parts(op: Any, x: Any) -> Any:
    items = op("TensorListSplit", x, [-1, 3], np.int64([2, 2]))
    first = op("TensorListConcat", items, element_dtype="float32")
    second = op("TensorListConcatV2", items, [-1, 3], np.zeros(0, "int64"),
                element_dtype="float32")  # fmt: skip
    return [*first, *second]


CASES = [
    *(conditional(name) for name in ("If", "StatelessIf")),
    *(cases(name) for name in ("Case", "StatelessCase")),
    *(loop(name) for name in ("While", "StatelessWhile", "XlaWhile")),
    program("Optional", optionals, i(1, dtype="bool").reshape(()), r(3)),
    program("PrintV2", printed, r(3)),
    program("Assert", checked, np.bool_([True]).reshape(()), r(3)),
    program("TensorArrayWrite", array_writes, r(3), r(3)),
    program("TensorArrayConcat", array_parts, r(4, 3)),
    program("TensorArrayScatter", array_rows, r(2, 3)),
    program("TensorListSetItem", list_sets, r(3), r(3)),
    program("TensorListPushBack", list_pushes, r(3), r(3)),
    program("TensorListFromTensor", list_of_rows, r(4, 3)),
    program("TensorListScatter", list_of_scattered, r(2, 3)),
    program("TensorListConcat", list_of_parts, r(4, 3)),
]
