"""Cases of gradient ops."""

from __future__ import annotations

from typing import Any

from op_cases import case, i, positive, program, r

SAME = {"strides": [1, 2, 2, 1], "padding": "SAME"}
VALID = {"strides": [1, 1, 1, 1], "padding": "VALID"}
WINDOW = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
OVERLAP = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
CUBE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
VOLUME = {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}


def _batch_norm(op: str, *, training: bool) -> object:
    shape = (2, 3, 4, 3)
    x = r(*shape)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    reserved = (r(3),) if op.endswith("V3") else ()
    return case(
        op, r(*shape), x, positive(3), mean, variance, *reserved,
        epsilon=1e-3, is_training=training, results=3,
    )  # fmt: skip


def _lrn_grad(op: Any, g: Any, x: Any) -> Any:
    attrs = {"depth_radius": 2, "alpha": 0.5, "beta": 0.75, "bias": 1.5}
    return op("LRNGrad", g, x, op("LRN", x, **attrs), **attrs)


def _sum_as_broadcast(op: Any, g: Any, x: Any) -> Any:
    """The gradient of x, from that of what it was broadcast to."""
    sizes = op("Shape", x)
    axes = op("BroadcastGradientArgs", sizes, op("Shape", g))[0]
    return op("Reshape", op("Sum", g, axes), sizes)


def _argmax_grad(op: Any, x: Any, g: Any) -> Any:
    _, places = op("MaxPoolWithArgmax", x, **WINDOW)
    return op("MaxPoolGradWithArgmax", x, g, places, **WINDOW)


def _pool_3d_grad(op: Any, x: Any, g: Any) -> Any:
    return op("MaxPool3DGrad", x, op("MaxPool3D", x, **CUBE), g, **CUBE)


def _pool_grad_grad(op: Any, x: Any, g: Any) -> Any:
    return op("MaxPoolGradGrad", x, op("MaxPool", x, **WINDOW), g, **WINDOW)


CASES = [
    program("MaxPoolGradWithArgmax", _argmax_grad, r(2, 4, 4, 3), r(2, 2, 2, 3)),
    program("MaxPool3DGrad", _pool_3d_grad, r(1, 4, 4, 4, 2), r(1, 2, 2, 2, 2)),
    program("MaxPoolGradGrad", _pool_grad_grad, r(2, 4, 4, 3), r(2, 4, 4, 3)),
    case("ReluGrad", r(2, 3), r(2, 3)),
    case("Relu6Grad", r(2, 9), r(2, 9, high=9)),
    case("LeakyReluGrad", r(2, 3), r(2, 3), alpha=0.3),
    case("EluGrad", r(2, 3), r(2, 3, low=-0.9)),
    case("SeluGrad", r(2, 3), r(2, 3)),
    case("SoftplusGrad", r(2, 3), r(2, 3)),
    case("SoftsignGrad", r(2, 3), r(2, 3)),
    case("SigmoidGrad", positive(2, 3), r(2, 3)),
    case("TanhGrad", r(2, 3, low=-1, high=1), r(2, 3)),
    case("SqrtGrad", positive(2, 3), r(2, 3)),
    case("RsqrtGrad", positive(2, 3), r(2, 3)),
    case("InvGrad", positive(2, 3), r(2, 3)),
    case("ReciprocalGrad", positive(2, 3), r(2, 3)),
    case("BiasAddGrad", r(2, 3, 4, 5)),
    case("BiasAddGrad", r(2, 3, 4, 5), data_format="NCHW"),
    case("Conv2DBackpropFilter", r(2, 5, 6, 2), [3, 3, 2, 4], r(2, 3, 3, 4), **SAME),
    case("Conv2DBackpropFilter", r(2, 5, 6, 2), [3, 2, 2, 4], r(2, 3, 5, 4), **VALID),
    case("Conv3DBackpropFilterV2", r(1, 4, 4, 3, 2), [2, 2, 2, 2, 3], r(1, 4, 4, 3, 3),
         **VOLUME),
    case("DepthwiseConv2dNativeBackpropFilter", r(2, 5, 5, 2), [3, 3, 2, 2],
         r(2, 3, 3, 4), **VALID),
    case("DepthwiseConv2dNativeBackpropInput", [2, 5, 5, 2], r(3, 3, 2, 2),
         r(2, 3, 3, 4), **VALID),
    case("Dilation2DBackpropInput", r(1, 4, 4, 2), r(2, 2, 2), r(1, 3, 3, 2),
         strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID"),
    case("Dilation2DBackpropFilter", r(1, 4, 4, 2), r(2, 2, 2), r(1, 3, 3, 2),
         strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID"),
    case("MaxPoolGrad", r(2, 4, 4, 3), r(2, 2, 2, 3), r(2, 2, 2, 3), **WINDOW),
    case("MaxPoolGradV2", r(2, 4, 4, 3), r(2, 2, 2, 3), r(2, 2, 2, 3), [1, 2, 2, 1],
         [1, 2, 2, 1], padding="VALID"),
    case("AvgPoolGrad", [2, 5, 5, 3], r(2, 3, 3, 3), **OVERLAP),
    case("AvgPool3DGrad", [1, 4, 4, 4, 2], r(1, 2, 2, 2, 2), **CUBE),
    _batch_norm("FusedBatchNormGrad", training=True),
    _batch_norm("FusedBatchNormGradV2", training=True),
    _batch_norm("FusedBatchNormGradV3", training=True),
    _batch_norm("FusedBatchNormGradV3", training=False),
    program("LRNGrad", _lrn_grad, r(1, 2, 3, 6), r(1, 2, 3, 6)),
    case("ResizeBilinearGrad", r(1, 6, 5, 2), r(1, 3, 4, 2), half_pixel_centers=True),
    case("ResizeBilinearGrad", r(1, 6, 5, 2), r(1, 3, 4, 2)),
    case("ResizeBicubicGrad", r(1, 6, 5, 2), r(1, 3, 4, 2), half_pixel_centers=True,
         tolerance=2e-3),  # TensorFlow's weights are in a table of 1,024
    case("ResizeNearestNeighborGrad", r(1, 6, 8, 2), [3, 4]),
    case("CropAndResizeGradImage", r(2, 3, 3, 2),
         r(2, 4, low=0, high=1), i([0, 1]), [2, 5, 5, 2], T="float32"),
    case("CropAndResizeGradBoxes", r(2, 3, 3, 2), r(2, 5, 5, 2),
         r(2, 4, low=0.1, high=0.9), i([0, 1])),
    case("MirrorPadGrad", r(4, 6), [[1, 1], [2, 1]], mode="REFLECT"),
    case("MirrorPadGrad", r(4, 6), [[1, 1], [2, 1]], mode="SYMMETRIC"),
    case("StridedSliceGrad", [4, 5], [1, 0], [3, 5], [1, 2], r(2, 3)),
    case("StridedSliceGrad", [4, 5], [1, 0], [2, 0], [1, 1], r(5), end_mask=2,
         shrink_axis_mask=1),
    case("BroadcastGradientArgs", [2, 3, 1], [3, 4]),
    *(program(f"BroadcastGradientArgs of {shape}", _sum_as_broadcast, r(4, 3),
              r(*shape), dynamic=True)
      for shape in ((4, 3), (1, 3), (4, 1), (3,), (1,), (1, 1))),
]  # fmt: skip
