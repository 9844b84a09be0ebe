"""Cases of layers, images, quantization and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import case, i, positive, program, r

ONES = {"strides": [1, 1, 1, 1], "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
CUBE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}


def dequantized(
    mode: str, type: str = "quint8", low: Any = -1.5, high: Any = 2.5, **more: Any
) -> Any:
    def build(op: Any, x: Any) -> Any:
        import tensorflow as tf

        quantized = op("Bitcast", x, type=tf.as_dtype(type))
        return op("Dequantize", quantized, low, high, mode=mode, **more)

    bits, start = type.lstrip("quint"), type.startswith("qint") * -100
    kind = f"int{bits}" if start else f"uint{bits}"
    return program("Dequantize", build, r(2, 3, low=start, high=100, dtype=kind))


def norm(op: str, **attrs: Any) -> Any:
    """Batch normalization; of the other outputs, those that every version has."""
    return case(op, r(2, 3, 4, 3), positive(3), r(3), r(3), positive(3), results=3,
                epsilon=1e-3, **attrs)  # fmt: skip


def lstm(op: str, *lead: Any) -> Any:
    """A cell, or a layer, of two features and three units."""
    x = r(4, 2, 2) if lead else r(2, 2)
    return case(op, *lead, x, r(2, 3), r(2, 3), r(5, 12), r(3), r(3), r(3), r(12))


def deconvolved(padding: str, stride: int) -> Any:
    """A transposed convolution whose batch size is computed at run time."""

    def build(op: Any, y: Any) -> Any:
        import tensorflow as tf

        sizes = tf.stack([tf.shape(y)[0], 12, 13, 2])
        strides = [1, stride, stride, 1]
        return op("Conv2DBackpropInput", sizes, r(3, 2, 2, 4), y, strides=strides,
                  padding=padding)  # fmt: skip

    kernel = (3, 2) if padding == "VALID" else (1, 1)
    shape = [(n - k) // stride + 1 for n, k in zip((12, 13), kernel, strict=True)]
    return program("Conv2DBackpropInput", build, r(2, *shape, 4), dynamic=True)


NN = [
    deconvolved("SAME", 2),
    deconvolved("VALID", 3),
    case(
        "_FusedBatchNormEx",
        r(2, 3, 4, 4),
        positive(4),
        r(4),
        r(4),
        positive(4),
        (),
        epsilon=1e-3,
        is_training=False,
        activation_mode="Relu",
        results=1,
    ),
    case(
        "_FusedDepthwiseConv2dNative",
        r(2, 5, 6, 2),
        r(3, 3, 2, 2),
        (r(4),),
        fused_ops=["BiasAdd", "Relu"],
        **ONES,
    ),
    case("MatMul", r(3, 4), r(4, 5)),
    case("MatMul", r(4, 3), r(5, 4), transpose_a=True, transpose_b=True),
    case("BatchMatMul", r(2, 3, 4), r(2, 4, 5)),
    case("BatchMatMulV2", r(2, 3, 4), r(4, 5)),
    case("BatchMatMulV2", r(2, 4, 3), r(2, 5, 4), adj_x=True, adj_y=True),
    case("BatchMatMulV3", r(2, 3, 4), r(4, 5), Tout="float32"),
    case("SparseMatMul", r(3, 4), r(4, 5)),
    case("BiasAdd", r(2, 3), r(3)),
    case("BiasAddV1", r(2, 3), r(3)),
    case("Einsum", (r(2, 3), r(3, 4)), equation="ij,jk->ki"),
    case("SoftmaxCrossEntropyWithLogits", r(2, 3), positive(2, 3)),
    case("SparseSoftmaxCrossEntropyWithLogits", r(2, 3), i([2, 0])),
    case("_FusedMatMul", r(3, 4), r(4, 5), (r(5),), fused_ops=["BiasAdd", "Relu"]),
    case("Conv2D", r(2, 5, 6, 2), r(3, 3, 2, 4), **ONES),
    case(
        "Conv2D",
        r(2, 5, 6, 4),
        r(3, 3, 2, 4),
        strides=[1, 2, 2, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 0, 2, 0, 0],
    ),
    case("Conv", r(2, 5, 6, 2), r(3, 3, 2, 4), **ONES),
    case(
        "_FusedConv2D",
        r(2, 5, 6, 2),
        r(3, 3, 2, 4),
        (r(4),),
        (),
        num_args=1,
        fused_ops=["BiasAdd", "Relu6"],
        **ONES,
    ),
    case(
        "Conv3D",
        r(1, 4, 5, 3, 2),
        r(2, 2, 2, 2, 3),
        strides=[1, 1, 1, 1, 1],
        padding="VALID",
    ),
    case("DepthwiseConv2dNative", r(2, 5, 6, 2), r(3, 3, 2, 2), **ONES),
    case("Conv2DBackpropInput", [2, 5, 6, 2], r(3, 3, 2, 4), r(2, 5, 6, 4), **ONES),
    case(
        "Conv3DBackpropInputV2",
        [1, 4, 5, 3, 2],
        r(2, 2, 2, 2, 3),
        r(1, 3, 4, 2, 3),
        strides=[1, 1, 1, 1, 1],
        padding="VALID",
    ),
    case(
        "Dilation2D",
        r(1, 4, 4, 2),
        r(2, 2, 2),
        strides=[1, 1, 1, 1],
        rates=[1, 2, 2, 1],
        padding="SAME",
    ),
    case(
        "FusedPadConv2D",
        r(1, 5, 5, 2),
        [[0, 0], [1, 1], [2, 2], [0, 0]],
        r(3, 3, 2, 4),
        mode="REFLECT",
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    case(
        "FusedResizeAndPadConv2D",
        r(1, 3, 3, 2),
        [5, 6],
        [[0, 0], [1, 1], [2, 2], [0, 0]],
        r(3, 3, 2, 4),
        mode="REFLECT",
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    case("MaxPool", r(2, 5, 4, 3), **POOL),
    case("AvgPool", r(2, 5, 4, 3), **POOL),
    case("MaxPoolV2", r(2, 5, 4, 3), [1, 2, 2, 1], [1, 1, 1, 1], padding="VALID"),
    *(
        case("MaxPoolV2", r(2, 5, 4, 3), i(1, 3, 2, 1), i(1, 2, 1, 1), padding=p)
        for p in ("SAME", "VALID")
    ),
    case("MaxPool3D", r(1, 4, 4, 4, 2), **CUBE),
    case("AvgPool3D", r(1, 4, 4, 4, 2), **CUBE),
    case("MaxPoolWithArgmax", r(2, 4, 4, 3), **{**POOL, "padding": "VALID"}),
    norm("FusedBatchNorm", is_training=False),
    norm("FusedBatchNormV2", is_training=False),
    norm("FusedBatchNormV3", is_training=False),
    norm("FusedBatchNormV3"),
    case("LRN", r(1, 2, 3, 6), depth_radius=2, alpha=0.5, beta=0.75, bias=1.5),
    lstm("LSTMBlockCell"),
    lstm("BlockLSTM", 4),
    lstm("BlockLSTMV2", 4),
    case("GRUBlockCell", r(2, 2), r(2, 3), r(5, 6), r(5, 3), r(6), r(3)),
]

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]], "float32")
SCORES = np.array([0.9, 0.75, 0.6], "float32")
SPIN = np.array([[0.9, 0.3, 0.2, -0.2, 1.1, 0.4, 0.01, 0.02]], "float32")
HALF_PIXELS = np.array([[0.5, 0, -1.5, 0, 1, -2.5, 0, 0]], "float32")
IMAGES = [
    *(
        case(
            f"Resize{name}",
            r(1, 4, 5, 2),
            [6, 8],
            half_pixel_centers=half,
            tolerance=2e-3,
        )
        for name in ("Bilinear", "Bicubic", "NearestNeighbor")
        for half in (False, True)
    ),
    case("ResizeBilinear", r(1, 4, 5, 2), [6, 8], align_corners=True),
    case("ResizeArea", r(1, 4, 6, 2), [2, 3]),
    case("CropAndResize", r(2, 5, 5, 2), r(2, 4, low=0, high=1), i([1, 0]), [3, 3]),
    case("DepthToSpace", r(1, 2, 3, 8), block_size=2),
    case("SpaceToDepth", r(1, 4, 6, 2), block_size=2),
    case("SpaceToBatchND", r(1, 3, 4, 2), [2, 2], [[1, 0], [0, 0]]),
    case("SpaceToBatchND", r(2, 3, 4, 2), i(2, 4), i([1, 0], [0, 0])),
    case("BatchToSpaceND", r(8, 3, 4, 2), i(2, 2), i([1, 0], [0, 3])),
    case("BatchToSpaceND", r(4, 2, 2, 2), [2, 2], [[1, 0], [0, 0]]),
    case("SpaceToBatch", r(1, 3, 4, 2), [[1, 0], [0, 0]], block_size=2),
    case("BatchToSpace", r(4, 2, 2, 2), [[1, 0], [0, 0]], block_size=2),
    case(
        "ExtractImagePatches",
        r(1, 4, 5, 2, dtype="complex64"),
        ksizes=[1, 2, 2, 1],
        strides=[1, 2, 1, 1],
        rates=[1, 1, 1, 1],
        padding="SAME",
    ),
    case(
        "ExtractImagePatches",
        r(1, 5, 5, 2),
        ksizes=[1, 2, 2, 1],
        strides=[1, 1, 1, 1],
        rates=[1, 2, 2, 1],
        padding="VALID",
    ),
    case(
        "ExtractVolumePatches",
        r(1, 4, 4, 4, 2),
        ksizes=[1, 2, 2, 2, 1],
        strides=[1, 2, 1, 1, 1],
        padding="VALID",
    ),
    case("RGBToHSV", r(2, 3, 3, low=0, high=1)),
    case("HSVToRGB", r(2, 3, 3, low=0, high=1)),
    case("AdjustContrastv2", r(1, 3, 3, 3), np.float32(1.5)),
    case("AdjustHue", r(1, 3, 3, 3, low=0, high=1), np.float32(0.3)),
    case("AdjustSaturation", r(1, 3, 3, 3, low=0, high=1), np.float32(0.5)),
    case("NonMaxSuppression", BOXES, SCORES, 3),
    case("NonMaxSuppressionV2", BOXES, SCORES, 3, 0.5),
    case("NonMaxSuppressionWithOverlaps", r(6, 6, low=0, high=1), r(6), 4, 0.6, -1.0),
    *(
        case(
            "CombinedNonMaxSuppression",
            r(2, 6, q, 4, low=0, high=1.2),
            r(2, 6, 3, low=0, high=1),
            3,
            n,
            0.3,
            0.2,
            **more,
        )
        for q, n, more in (
            (1, 5, {}),
            (3, 5, {"clip_boxes": False}),
            (3, 40, {"pad_per_class": True}),
            (1, 40, {}),
        )
    ),
    *(
        case("DrawBoundingBoxes", r(2, 6, 7, d), r(2, 12, 4, low=-0.3, high=1.3))
        for d in (1, 3, 4)
    ),
    case(
        "DrawBoundingBoxesV2",
        r(2, 6, 7, 3),
        r(2, 4, 4, low=-0.3, high=1.3),
        r(2, 4, low=0, high=1),
    ),
    *(
        case(
            "ResizeBicubic", r(1, 5, 4, 2, low=0, high=255, dtype="uint8"), [3, 7], **h
        )
        for h in ({}, {"align_corners": True}, {"half_pixel_centers": True})
    ),
    case("NonMaxSuppressionV3", BOXES, SCORES, 3, 0.5, 0.1),
    case(
        "NonMaxSuppressionV4", BOXES, SCORES, 3, 0.5, 0.1, pad_to_max_output_size=True
    ),
    case("NonMaxSuppressionV5", BOXES, SCORES, 3, 0.5, 0.1, 0.0),
    *(
        case(
            "ScaleAndTranslate",
            r(1, 5, 6, 2),
            [8, 4],
            [1.6, 0.7],
            [0.3, -0.2],
            kernel_type=kernel,
        )
        for kernel in (
            "lanczos1",
            "lanczos3",
            "lanczos5",
            "gaussian",
            "box",
            "triangle",
            "keyscubic",
            "mitchellcubic",
        )
    ),
    case(
        "ScaleAndTranslate",
        r(1, 5, 6, 2),
        [3, 3],
        [0.6, 0.5],
        [0.0, 0.0],
        antialias=False,
    ),
    *(
        case(
            "ImageProjectiveTransformV3",
            r(2, 5, 6, 2),
            SPIN,
            [5, 6],
            0.5,
            interpolation=how,
            fill_mode=fill,
        )
        for how in ("NEAREST", "BILINEAR")
        for fill in ("CONSTANT", "NEAREST", "REFLECT", "WRAP")
    ),
    *(
        program(
            f"pixels beside halves, {fill}",
            lambda op, x, t, fill=fill: op(
                "ImageProjectiveTransformV3",
                x,
                t,
                [9, 9],
                0.5,
                interpolation="NEAREST",
                fill_mode=fill,
            ),
            np.arange(42, dtype="float32").reshape(1, 6, 7, 1),
            HALF_PIXELS,
        )
        for fill in ("CONSTANT", "REFLECT", "WRAP")
    ),
    case(
        "ImageProjectiveTransformV2",
        r(2, 5, 6, 2),
        SPIN,
        [5, 6],
        interpolation="BILINEAR",
    ),
    case("FakeQuantWithMinMaxArgs", r(3, 4), min=-1.0, max=1.5),
    case("FakeQuantWithMinMaxVars", r(3, 4), np.float32(-1), np.float32(1.5)),
    case(
        "FakeQuantWithMinMaxVarsPerChannel",
        r(3, 2),
        i([-1, -2]).astype("float32"),
        positive(2),
    ),
    case("FakeQuantWithMinMaxArgsGradient", r(3, 4), r(3, 4), min=-1.0, max=1.5),
    case(
        "FakeQuantWithMinMaxVarsGradient",
        r(3, 4),
        r(3, 4),
        np.float32(-1),
        np.float32(1.5),
    ),
    case(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        r(3, 2),
        r(3, 2),
        i([-1, -2]).astype("float32"),
        positive(2),
    ),
    case("QuantizeAndDequantizeV2", r(3, 4), 0.0, 0.0),
    case("QuantizeAndDequantizeV4", r(3, 4), -1.0, 1.5, range_given=True),
    case(
        "QuantizeAndDequantizeV2",
        r(3, 4),
        -1.0,
        1.5,
        range_given=True,
        narrow_range=True,
        num_bits=4,
        round_mode="HALF_UP",
    ),
    case(
        "QuantizeAndDequantizeV2",
        positive(3, 4),
        0.0,
        1.5,
        range_given=True,
        signed_input=False,
    ),
    case(
        "QuantizeAndDequantizeV3",
        r(3, 4),
        r(4, low=-2, high=-1),
        positive(4),
        8,
        axis=1,
    ),
    case("QuantizeAndDequantizeV3", r(3, 4), -1.0, 1.5, 8),
    *(dequantized(mode) for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")),
    dequantized(
        "SCALED", "qint8", low=[-1.0, -2.0, -3.0], high=[1.0, 0.5, 5.0], axis=1
    ),
    dequantized("MIN_COMBINED", "qint16", narrow_range=True),
    case(
        "QuantizeAndDequantizeV2",
        r(3, 4),
        0.0,
        0.0,
        instead_of="QuantizeAndDequantizeV4",
    ),
]


def same_type(got: Any, expected: Any) -> bool:
    """Whether numbers of another stream have the same form."""
    return bool(got.dtype == expected.dtype and got.shape == expected.shape)


SEED = [3, 4]


def by_key(op: str, *more: Any, **attrs: Any) -> Any:
    """An op of random numbers that takes the key and counter of a seed."""

    def build(apply: Any) -> Any:
        key, counter, algorithm = apply("StatelessRandomGetKeyCounterAlg", SEED)
        return apply(op, [3, 5], key, counter, algorithm, *more, **attrs)

    return program(op, build)


def gamma_by_key(apply: Any, alpha: Any) -> Any:
    given = apply("StatelessRandomGetKeyCounterAlg", SEED)
    return apply("StatelessRandomGammaV3", [3, 2], *given, alpha)


def gamma_by_counter(apply: Any, alpha: Any) -> Any:
    """A counter that is not 0, whose first half carries into the second word."""
    key = np.array([5], "uint64"), np.array([2**32 - 300, 8], "uint64")
    return apply("StatelessRandomGammaV3", [3, 2], *key, np.int32(1), alpha)


def shuffled(apply: Any, x: Any) -> Any:
    key, counter, algorithm = apply("StatelessRandomGetKeyCounterAlg", SEED)
    return apply("StatelessShuffle", x, key, counter, algorithm)


RANDOM = [
    program("StatelessShuffle", shuffled, r(7, 2)),
    case("NonDeterministicInts", [3, 2], agrees=same_type),
    case("RandomGamma", [3, 2], i(0.25, 1.0, 3.0, dtype="float32"), seed=5, seed2=6),
    case("RandomGamma", [4], i(0.5, 9.0, dtype="float16"), seed=1, seed2=2),
    case("RandomPoissonV2", [9], i(0.5, 4.0, 30.0, dtype="float64"), seed=5, seed2=6),
    case("RandomPoissonV2", [2], i(7.0, 300.0, dtype="float32"), seed=3, dtype="int32"),
    case("RandomPoissonV2", [0, 2], i(7.0, 300.0, dtype="float32"), seed=3),
    case("StatelessRandomGammaV2", [3, 2], SEED, i(0.5, 2.0, dtype="float32")),
    case(
        "StatelessRandomPoisson",
        [5, 2],
        SEED,
        i(3.0, 50.0, dtype="float32"),
        dtype="int64",
    ),
    program("StatelessRandomGammaV3", gamma_by_key, i(0.5, 2.0, dtype="float32")),
    program("StatelessRandomGammaV3", gamma_by_counter, i(0.5, 2.0, dtype="float32")),
    *(
        case(op, [3, 5], SEED)
        for op in (
            "StatelessRandomUniform",
            "StatelessRandomNormal",
            "StatelessTruncatedNormal",
        )
    ),
    *(
        by_key(op)
        for op in (
            "StatelessRandomUniformV2",
            "StatelessRandomNormalV2",
            "StatelessTruncatedNormalV2",
        )
    ),
    case("StatelessRandomUniformInt", [3, 5], SEED, 2, 9),
    by_key("StatelessRandomUniformIntV2", 2, 9),
    *(
        case("StatelessRandomUniformFullInt", [3, 5], SEED, dtype=d)
        for d in ("int32", "uint32", "int64", "uint64")
    ),
    by_key("StatelessRandomUniformFullIntV2", dtype="int32"),
    case("StatelessMultinomial", r(2, 3), 7, SEED),
    program(
        "StatelessRandomGetKeyCounter",
        lambda op: [
            *op("StatelessRandomGetKeyCounter", SEED),
            op("StatelessRandomGetAlg"),
        ][:2],
    ),
    *(
        case(op, [3, 5], seed=5, seed2=6, dtype=dtype)
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
        for dtype in ("float16", "float32", "float64")
    ),
    case("RandomUniformInt", [3, 5], 2, 9, seed=5, seed2=6),
    case("RandomShuffle", r(7), seed=5, seed2=6),
    case("Multinomial", r(2, 3), 7, seed=5, seed2=6),
]


CASES = [*NN, *IMAGES, *RANDOM]
