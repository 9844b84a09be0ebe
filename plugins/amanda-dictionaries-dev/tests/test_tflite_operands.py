"""The ports of operators beside the models that TensorFlow's own converter writes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from amanda.dictionary import OpDef, Port
from amanda_dictionaries_dev.tflite.extractor import TFLiteExtractor

tf = pytest.importorskip("tensorflow")

ONES = np.ones
Inputs = tuple[Any, Any, Any, Any]  # a matrix, an image, two ints, a bool


def elementwise(inputs: Inputs) -> list[Any]:
    x, _, ids, _ = inputs
    y = x[::-1]
    one = [tf.abs, tf.exp, tf.sin, tf.cos, tf.tanh, tf.sigmoid, tf.floor, tf.round]
    one += [tf.math.ceil, tf.sign, tf.square, tf.negative, tf.nn.elu, tf.nn.gelu]
    one += [tf.nn.leaky_relu, tf.zeros_like, tf.nn.softmax, tf.nn.log_softmax]
    of_positive = [tf.sqrt, tf.math.rsqrt, tf.math.log]
    two = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.greater]
    two += [tf.math.squared_difference, tf.less, tf.equal, tf.less_equal]
    of_divisor = [tf.divide, tf.math.floordiv, tf.math.floormod, tf.atan2]
    return [
        *(function(x) for function in one),
        *(function(tf.abs(x) + 1) for function in of_positive),
        *(function(x, y) for function in two),
        *(function(x, y + 9) for function in of_divisor),
        tf.pow(tf.abs(x), 2.5),
        tf.logical_and(x > 0, y > 0),
        tf.where(x > 0, x, x * 3),
        tf.math.add_n([x, x, x]),
        tf.bitwise.bitwise_xor(ids, ids + 1),
    ]


def reductions(inputs: Inputs) -> list[Any]:
    x, _, ids, _ = inputs
    rows = tf.constant([0, 0, 1, 1])
    reduce = [tf.reduce_sum, tf.reduce_max, tf.reduce_mean, tf.reduce_prod]
    return [
        *(function(x, 1) for function in (*reduce, tf.argmax, tf.argmin, tf.cumsum)),
        tf.reduce_any(x > 0, 1),
        tf.reduce_all(x > 0, 1),
        tf.nn.l2_normalize(x, 1),
        tf.math.segment_sum(x, rows),
        tf.math.unsorted_segment_max(x, rows, 2),
        tf.where(x > 0),
        *tf.math.top_k(x, 2),
        *tf.unique(ids),
    ]


def shapes(inputs: Inputs) -> list[Any]:
    x, _, ids, _ = inputs
    return [
        tf.gather(x, ids, axis=1),
        tf.gather_nd(x, ids[:, None]),
        tf.scatter_nd(ids[:, None], tf.ones((2, 3)), [5, 3]),
        tf.one_hot(ids, 5),
        tf.concat([x, x], 1),
        tf.stack([x, x]),
        *tf.unstack(x),
        *tf.split(x, 2, 1),
        *tf.split(x, [1, 5], 1),
        tf.tile(x, ids + 1),
        tf.shape(tf.tile(x, ids + 1)),
        tf.pad(x, [[1, 1], [0, 0]]),
        tf.pad(x, [[1, 1], [0, 0]], constant_values=2.0),
        tf.pad(x, [[1, 1], [0, 0]], "REFLECT"),
        tf.transpose(x),
        tf.strided_slice(x, [0, 0], [2, 4], [1, 2]),
        tf.slice(x, ids, [1, 1]),
        tf.reverse(x, [0]),
        tf.reverse_sequence(x, tf.constant([1, 2, 3, 4]), 1),
        tf.broadcast_to(x, [2, 4, 6]),
        tf.fill(ids + 1, 2.0),
        tf.range(ids[0], ids[1] + 9, 1),
        tf.linalg.diag(x),
    ]


def images(inputs: Inputs) -> list[Any]:
    x, image, _, _ = inputs
    halves = tf.reshape(x, [2, 2, 6])
    volume = tf.reshape(image, [1, 4, 8, 2, 4])
    return [
        tf.nn.conv2d(image, ONES((3, 3, 4, 8), "f"), 1, "SAME"),
        tf.nn.conv3d(volume, ONES((1, 1, 1, 4, 2), "f"), [1] * 5, "SAME"),
        tf.nn.depthwise_conv2d(image, ONES((3, 3, 4, 1), "f"), [1] * 4, "VALID"),
        tf.nn.conv2d_transpose(image, ONES((3, 3, 2, 4), "f"), [1, 16, 16, 2], 2),
        tf.linalg.matmul(x, ONES((6, 3), "f")),
        tf.linalg.matmul(halves[..., :2], halves[..., 2:4]),
        tf.nn.max_pool2d(image, 2, 2, "SAME"),
        tf.nn.avg_pool2d(image, 2, 2, "SAME"),
        tf.image.resize(image, [16, 16]),
        tf.image.resize(image, [16, 16], "nearest"),
        tf.nn.space_to_depth(image, 2),
        tf.nn.depth_to_space(image, 2),
        tf.nn.local_response_normalization(image),
        tf.space_to_batch_nd(image, [2, 2], [[0, 0], [0, 0]]),
        tf.batch_to_space(tf.tile(image, [4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]]),
    ]


def control(inputs: Inputs) -> list[Any]:
    x, _, _, flag = inputs
    start = [tf.constant(0), x]
    return [
        tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2.0), start)[1],
        tf.cond(flag, lambda: x * 2.0, lambda: x + 1.0),
    ]


@pytest.fixture(scope="module")
def schema() -> ModuleType:
    file = Path(tf.__file__).parent / "lite" / "python" / "schema_py_generated.py"
    spec = importlib.util.spec_from_file_location("schema_py_generated", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def entries() -> dict[str, OpDef]:
    (found,) = TFLiteExtractor().installed_ops().versions.values()
    return {entry.name: entry for entry in found}


def converted(make: Callable[[Inputs], list[Any]]) -> bytes:
    specs = [tf.TensorSpec([4, 6]), tf.TensorSpec([1, 8, 8, 4])]
    specs += [tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.bool)]
    function = tf.function(lambda *given: make(given), input_signature=specs)
    concrete = function.get_concrete_function()
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()


def fits(ports: Sequence[Port], count: int) -> bool:
    least = sum(p.least if p.repeats else p.form == "one" for p in ports)
    return least <= count and (count <= len(ports) or any(p.repeats for p in ports))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "kinds"),
    [(elementwise, 35), (reductions, 15), (shapes, 20), (images, 12), (control, 2)],
)
def test_models_of_the_converter_fit(
    schema: ModuleType,
    entries: dict[str, OpDef],
    make: Callable[[Inputs], list[Any]],
    kinds: int,
) -> None:
    numbers = {int(entry.tag("code") or ""): entry for entry in entries.values()}
    model = schema.ModelT.InitFromPackedBuf(converted(make), 0)
    seen = set()
    for graph in model.subgraphs:
        for op in graph.operators:
            code = model.operatorCodes[op.opcodeIndex]
            entry = numbers[max(code.builtinCode, code.deprecatedBuiltinCode)]
            seen.add(entry.name)
            assert fits(entry.inputs, len(op.inputs)), (entry, len(op.inputs))
            assert fits(entry.outputs, len(op.outputs)), (entry, len(op.outputs))
            missing = [i for i, at in enumerate(op.inputs) if at < 0]
            assert all(entry.inputs[i].form == "optional" for i in missing), entry
    assert len(seen) >= kinds
