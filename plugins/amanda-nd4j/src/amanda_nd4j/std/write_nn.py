"""To nd4j: convolutions, pooling, normalization, products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amanda.mapping import Decline
from amanda_nd4j.std.write_ops import as_input
from amanda_std.mappings import rank_of

__all__ = ["WRITE"]

_AXES: Final = {1: "W", 2: "HW", 3: "DHW"}
_TO_IO: Final[Mapping[str, Callable[[int], list[int]]]] = {
    "*IO": lambda n: list(range(n)),
    "OI*": lambda n: [*range(2, n), 1, 0],
    "O*I": lambda n: [*range(1, n - 1), n - 1, 0],
    "IO*": lambda n: [*range(2, n), 0, 1],
    "*OI": lambda n: [*range(n - 2), n - 1, n - 2],
}
"""The permutation that brings a kernel to [*window, in, out]."""


def _arguments(
    layout: str, window: Sequence[int] | None, strides: Any, padding: Any,
    dilations: Any, n: int, *, mode: str = "isSameMode", last: str = "isNCHW",
) -> dict[str, Any]:  # fmt: skip
    """The numbers of a window by axis: kH, sH, pH, dH ..."""
    found: dict[str, Any] = {last: int(layout == "N*C"), mode: 0}
    pairs = [(0, 0)] * n
    if padding == "same_upper":
        found[mode] = 1
    elif isinstance(padding, str) and padding != "valid":
        raise Decline(f"padding of the mode {padding}")
    elif padding not in (None, "valid"):
        pairs = [(int(low), int(high)) for low, high in padding]
    if any(low != high or low < 0 for low, high in pairs):
        raise Decline("padding that differs before and after an axis")
    for i, axis in enumerate(_AXES[n]):
        found[f"k{axis}"] = -1 if window is None else int(window[i])
        found[f"s{axis}"] = int(strides[i]) if strides else 1
        found[f"p{axis}"] = pairs[i][0]
        found[f"d{axis}"] = int(dilations[i]) if dilations else 1
    return found


def _permute(o: Any, x: Any, order: Sequence[int]) -> Any:
    if list(order) == list(range(len(order))):
        return x
    return o.transpose(x, as_input(list(order)))


def _pad_before(o: Any, x: Any, layout: str, padding: Any) -> tuple[Any, Any]:
    """Data with the padding that differs before and after an axis, and what is left."""
    if padding is None or isinstance(padding, str):
        return x, padding
    pairs = [(int(low), int(high)) for low, high in padding]
    if all(low == high for low, high in pairs):
        return x, padding
    if any(n < 0 for pair in pairs for n in pair):
        raise Decline("negative padding")
    around = [(0, 0)] * 2 if layout == "NC*" else [(0, 0)]
    rows = [*around, *pairs, *([] if layout == "NC*" else [(0, 0)])]
    return o.pad(x, as_input(rows), mode=0, padValue=0.0), "valid"


def write_conv(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    n = rank_of(x) - 2
    if n not in _AXES:
        raise Decline(f"nd4j has no convolution of data of rank {n + 2}")
    kernel = _permute(o, w, _TO_IO[kernel_layout](n + 2))
    x, padding = _pad_before(o, x, layout, padding)
    bias = () if b is None else (b,)
    if groups == 1:
        more = {} if n == 2 else {"mode": "paddingMode", "last": _LAST[n]}
        attrs = _arguments(layout, None, strides, padding, dilations, n, **more)
        return o.op(_CONVS[n], x, kernel, *bias, **attrs)
    dims = w.type.shape.dims
    order = _TO_IO[kernel_layout](n + 2)
    inner, outer = (dims[order[i]] for i in (-2, -1))
    if n != 2 or inner != 1 or not isinstance(outer, int):
        raise Decline("groups of several channels")
    shape = [*(dims[i] for i in order[:2]), groups, outer // groups]
    kernel = o.reshape(kernel, as_input(shape))
    attrs = _arguments(layout, None, strides, padding, dilations, n)
    return o.depthwise_conv2d(x, kernel, *bias, **attrs)


_CONVS: Final = {1: "conv1d", 2: "conv2d", 3: "conv3dnew"}
_LAST: Final = {1: "isNCW", 3: "isNCDHW"}


def _pool(kind: str) -> Any:
    def write(
        o: Any, x: Any, *, window: Any, strides: Any = None, padding: Any = None,
        dilations: Any = None, ceil: bool = False, layout: str = "NC*",
        count_pads: bool = False,
    ) -> Any:  # fmt: skip
        n = len(window)
        if ceil or n not in (2, 3):
            raise Decline("sizes that are rounded up, or other data than images")
        if n == 3:
            kind_of, last = f"{kind}3dnew", "isNCDHW"
        else:
            kind_of, last = f"{kind}2d", "isNCHW"
        attrs = _arguments(layout, window, strides, padding, dilations, n, last=last)
        return o.op(kind_of, x, extraParam0=int(count_pads), **attrs)

    return write


def write_matmul(o: Any, a: Any, b: Any) -> Any:
    if min(rank_of(a), rank_of(b)) < 2:
        raise Decline("products of vectors")
    return o.matmul(a, b, alpha=1.0, beta=0.0, transX=0, transY=0, transZ=0)


def write_softmax(o: Any, x: Any, *, axes: Any) -> Any:
    return _along(o, "softmax", x, axes)


def write_log_softmax(o: Any, x: Any, *, axes: Any) -> Any:
    return _along(o, "log_softmax", x, axes)


def _along(o: Any, type: str, x: Any, axes: Any) -> Any:
    if axes is None or len(axes) != 1:
        raise Decline("several axes")
    return o.op(type, x, dimension=int(axes[0]) % rank_of(x))


def write_batch_norm(
    o: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *,
    axis: int = 1, epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    return o.batchnorm(
        x, mean, variance, scale, offset, applyGamma=True, applyBeta=True,
        epsilon=epsilon, dimensions=axis % rank_of(x),
    )  # fmt: skip


WRITE: dict[str, Any] = {
    "conv": write_conv,
    "max_pool": _pool("maxpool"),
    "avg_pool": _pool("avgpool"),
    "matmul": write_matmul,
    "softmax": write_softmax,
    "log_softmax": write_log_softmax,
    "batch_norm": write_batch_norm,
}
