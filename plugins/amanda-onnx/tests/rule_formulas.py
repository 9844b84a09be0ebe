"""Expected results, by formulas, of ops of ONNX that have no other samples.

`test_rule_proofs` compares them: opsets before 7, ops of onnxruntime that run on other
devices only, ops of ai.onnx.ml that work with maps, and a few that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import erf
from typing import Any, NamedTuple

import numpy as np

ML, HOUSE = "ai.onnx.ml", "com.microsoft"

X = np.linspace(-2, 3, 24, dtype="float32").reshape(2, 3, 4)
COLUMN = np.float32([1, -2, 3])
LONG = COLUMN[:, None]
IMAGE = np.sin(np.arange(48, dtype="f")).reshape(1, 3, 4, 4)
BITS = np.arange(24).reshape(2, 3, 4) % 3 > 0
YES = np.array([True, False, True])


class By(NamedTuple):
    """An op, its inputs and attributes, and what a formula makes of them."""

    type: str
    opset: int
    inputs: list[Any]
    attrs: dict[str, Any]
    want: list[Any]
    domain: str = ""
    version: int = 1


ALONG: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "Less": np.less, "Greater": np.greater,
}  # fmt: skip
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
EACH: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Floor": np.floor,
    "Ceil": np.ceil, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0),
    "Reciprocal": lambda x: 1 / x, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
MANY: dict[str, Callable[[Any, Any], Any]] = {
    "Max": np.maximum, "Min": np.minimum, "Sum": np.add,
    "Mean": lambda a, b: (a + b) / np.float32(2),
}  # fmt: skip
HINT = {"consumed_inputs": [0]}


def first_opsets() -> Iterator[By]:
    """What opsets before 7 say otherwise."""
    lies = {"broadcast": 1, "axis": 1}
    for type, rule in ALONG.items():
        yield By(type, 6, [X, COLUMN], lies, [rule(X, LONG)])
    for type, rule in LOGIC.items():
        yield By(type, 6, [BITS, YES], lies, [rule(BITS, YES[:, None])])
    power = np.float32([1, 2, 3])
    yield By("Pow", 6, [abs(X), power], lies, [abs(X) ** power[:, None]])
    whole = np.arange(24).reshape(2, 3, 4) % 3
    same = np.arange(3)
    yield By("Equal", 6, [whole, same], lies, [whole == same[:, None]])
    for type, each in EACH.items():
        yield By(type, 5, [X], HINT, [each(X)])
    for type, each in (("Log", np.log), ("Sqrt", np.sqrt)):
        yield By(type, 5, [abs(X)], HINT, [each(abs(X))])
    for type, rule in MANY.items():
        yield By(type, 5, [X, X[::-1]], {"consumed_inputs": [0, 0]}, [rule(X, X[::-1])])
    yield from first_shapes()


def first_shapes() -> Iterator[By]:
    grown = np.where(X < 0, np.expm1(X) * 2, X)
    yield By("Elu", 5, [X], {**HINT, "alpha": 2.0}, [grown])
    leaky = np.where(X < 0, X * np.float32(0.25), X)
    yield By("LeakyRelu", 5, [X], {**HINT, "alpha": 0.25}, [leaky])
    selu = np.where(X <= 0, 1.5 * (2 * np.exp(X) - 2), 1.5 * X).astype("f")
    yield By("Selu", 5, [X], {**HINT, "alpha": 2.0, "gamma": 1.5}, [selu])
    hard = np.clip(X * 0.5 + 0.25, 0, 1).astype("f")
    yield By("HardSigmoid", 5, [X], {**HINT, "alpha": 0.5, "beta": 0.25}, [hard])
    clipped = np.clip(X, np.float32(-0.5), np.float32(0.75))
    yield By("Clip", 5, [X], {**HINT, "min": -0.5, "max": 0.75}, [clipped])
    yield By("Reshape", 4, [X], {**HINT, "shape": [0, -1]}, [X.reshape(2, 12)])
    yield By("Concat", 3, [X, X], {}, [np.concatenate([X, X], 1)])
    padded = np.pad(X, ((0, 1), (0, 0), (2, 0)), constant_values=0.5)
    yield By("Pad", 1, [X], {"paddings": [0, 0, 2, 1, 0, 0], "value": 0.5}, [padded])
    yield By("Cast", 5, [X], {"to": "INT64"}, [X.astype("int64")])
    numbers = [np.float32([v]) for v in (3, 1)]
    yield By("Tile", 5, [X, *numbers], {}, [np.tile(X, (1, 3, 1))])
    twice = IMAGE.repeat(2, 2).repeat(3, 3)
    yield By("Upsample", 6, [IMAGE], {"height_scale": 2.0, "width_scale": 3.0}, [twice])
    mean, spread = (f(IMAGE, axis=(2, 3), keepdims=True) for f in (np.mean, np.var))
    turn = COLUMN[:, None, None]
    normed = (IMAGE - mean) / np.sqrt(spread + 1e-3) * turn + turn
    yield By("InstanceNormalization", 5, [IMAGE, COLUMN, COLUMN],
             {**HINT, "epsilon": 1e-3}, [normed.astype("f")])  # fmt: skip
    yield By("Dropout", 6, [X], {"is_test": 1, "ratio": 0.3}, [X])


def later_opsets() -> Iterator[By]:
    """What later ones say otherwise, and what is not of floats."""
    twice = IMAGE.repeat(2, 2).repeat(3, 3)
    scales = [1.0, 1.0, 2.0, 3.0]
    yield By("Upsample", 7, [IMAGE], {"scales": scales}, [twice])
    yield By("Resize", 10, [IMAGE, np.float32(scales)], {}, [twice])
    rows = X.reshape(2, 12)
    places = np.eye(12, dtype="f")[rows.argmax(1)].reshape(X.shape)
    yield By("Hardmax", 11, [X], {"axis": 1}, [places])
    four = np.concatenate([IMAGE, IMAGE[:, :1] * 3], 1)
    groups = four.reshape(1, 2, 2, 4, 4)
    mean, spread = (f(groups, (2, 3, 4), keepdims=True) for f in (np.mean, np.var))
    two = np.float32([2, -1]).reshape(1, 2, 1, 1, 1)
    normed = ((groups - mean) / np.sqrt(spread + 1e-5) * two + two).reshape(four.shape)
    yield By("GroupNormalization", 18, [four, two.ravel(), two.ravel()],
             {"num_groups": 2}, [normed.astype("f")])  # fmt: skip
    whole, slopes = np.array([[-3, 2, 0], [5, -7, 1]]), np.array([2, 3, 4])
    sloped = np.where(whole < 0, whole * slopes, whole)
    yield By("PRelu", 16, [whole, slopes], {}, [sloped])
    shrunk = np.where(whole < -2, whole + 1, np.where(whole > 2, whole - 1, 0))
    yield By("Shrink", 9, [whole], {"lambd": 2.0, "bias": 1.0}, [shrunk])
    square = X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5)
    scale = np.float32([1, 2, 3, 4])
    yield By("SimplifiedLayerNormalization", 17, [X, scale], {"axis": -1},
             [(square * scale).astype("f")])  # fmt: skip


# -- ops of onnxruntime that its own cases leave out -----------------------------------


def gelu(x: Any) -> Any:
    return x * (1 + np.vectorize(erf)(x.astype("f8") / np.sqrt(2))) / 2


def of_the_house() -> Iterator[By]:
    """What runs on other devices only, or nowhere any more: by what it says it does."""

    def by(type: str, inputs: list[Any], attrs: dict[str, Any], *want: Any) -> By:
        return By(type, 17, inputs, attrs, [*want], HOUSE)

    row = np.float32([0.5, -1, 2, 0.25])
    shares = np.exp(X + row - (X + row).max(-1, keepdims=True))
    shares = shares / shares.sum(-1, keepdims=True)
    more = np.broadcast_to(row, X.shape).copy()
    yield by("BiasSoftmax", [X, more], {"axis": 2, "is_inner_broadcast": 1},
             shares.astype("f"))  # fmt: skip
    left, right = np.split(X + row, 2, -1)
    yield by("BiasSplitGelu", [X, row], {}, (left * gelu(right)).astype("f"))
    product = np.matmul(X, X.transpose(0, 2, 1)) * 0.5
    yield by("TransposeMatMul", [X, X], {"transB": 1, "alpha": 0.5}, product)
    yield by("ExpandDims", [X, (np.int32(1),)], {}, X[:, None])
    yield by("BiasAdd", [X, row, X[::-1]], {}, X + row + X[::-1])
    a, b = np.uint8([[1, 200], [3, 4]]), np.uint8([[9, 8], [7, 255]])
    n, m = np.uint8(3), np.uint8(100)
    wide = (a.astype("i4") - 3) * (b.astype("i4") - 100)
    yield by("MulInteger", [a, n, b, m], {}, wide)
    yield by("Trilu", [X, np.array(1)], {"upper": 1}, np.triu(X, 1))
    packed = np.sin(np.arange(144, dtype="f")).reshape(2, 3, 2, 3, 4)
    q, k, v = (packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))
    shares = np.exp(q @ k.transpose(0, 1, 3, 2) / 2)
    seen = shares / shares.sum(-1, keepdims=True) @ v
    flat = seen.transpose(0, 2, 1, 3).reshape(2, 3, 8)
    yield by("MultiHeadAttention", [packed], {"num_heads": 2}, flat)


# -- ops of ai.onnx.ml -----------------------------------------------------------------


def of_tables() -> Iterator[By]:
    def by(type: str, inputs: list[Any], attrs: dict[str, Any], *want: Any) -> By:
        return By(type, 18, inputs, attrs, [*want], ML, 3)

    words = np.array(["b", "a", "?"], object)
    pairs = {"cats_int64s": [5, 6], "cats_strings": ["a", "b"]}
    yield by("CategoryMapper", [words], pairs, np.array([6, 5, -1]))
    wide = np.concatenate([X[0, :, :2], X[1, :, :1], np.zeros((3, 2), "f")], 1)
    yield by(
        "FeatureVectorizer", [X[0], X[1, :, :1]], {"inputdimensions": [2, 3]}, wide
    )
    rows = [{"a": a, "b": b} for a, b in X[0, :, :2]]
    yield by("ZipMap", [X[0, :, :2]], {"classlabels_strings": ["a", "b"]}, rows)
    held = {2: np.float32(0.5), 0: np.float32(-1)}
    row = np.float32([[-1, 0, 0.5]])
    yield by("DictVectorizer", [held], {"int64_vocabulary": [0, 1, 2]}, row)
    sparse = {"map_form": "SPARSE", "max_map": 3, "cast_to": "TO_FLOAT"}
    yield by("CastMap", [held], sparse, row)
    yield by("CastMap", [held], {}, np.float32([[-1, 0.5]]))


def of_training() -> Iterator[By]:
    """A step with momentum, whose first gradient counts like the others."""
    x, g, v = np.float32([1, 2]), np.float32([0.5, -1]), np.float32([0.25, 4])
    left = v * np.float32(0.5) + g
    attrs = {"alpha": 0.5, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}
    want = [x - np.float32(0.1) * left, left]
    inputs = [np.float32(0.1), np.array(3), x, g, v]
    yield By("Momentum", 18, inputs, attrs, want, "ai.onnx.preview.training")


TABLES = (first_opsets, later_opsets, of_the_house, of_tables, of_training)
