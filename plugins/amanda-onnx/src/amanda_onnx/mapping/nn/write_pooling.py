"""To ONNX: MaxPool with indices and Col2Im."""

from __future__ import annotations

from typing import Any

from amanda_onnx.mapping.operands import int64_tensor, padding_attributes

__all__ = ["WRITE"]

_END = 2**63 - 1


def _window_attributes(strides: Any, padding: Any, dilations: Any) -> dict[str, Any]:
    attrs = padding_attributes(padding)
    if strides is not None:
        attrs["strides"] = list(strides)
    if dilations is not None and any(d != 1 for d in dilations):
        attrs["dilations"] = list(dilations)
    return attrs


def write_max_pool_with_indices(
    o: Any, x: Any, *, window: Any, strides: Any = None, padding: Any = None,
    dilations: Any = None, ceil: bool = False, whole_tensor: bool = False,
    column_major: bool = False,
) -> Any:  # fmt: skip
    """ONNX's indices count within the whole tensor, or else within each channel."""
    attrs: dict[str, Any] = {"kernel_shape": list(window)}
    attrs |= _window_attributes(strides, padding, dilations)
    attrs |= {"ceil_mode": 1} if ceil else {}
    attrs |= {"storage_order": 1} if column_major else {}
    y, indices = o.MaxPool(x, outputs=2, **attrs)
    if whole_tensor:
        return y, indices
    shape = o.Shape(x)
    spatial = o.Slice(shape, int64_tensor([2]), int64_tensor([_END]))
    return y, o.Mod(indices, o.ReduceProd(spatial, keepdims=0))


def write_fold(o: Any, x: Any, size: Any, window: Any, *, strides: Any = None,
               padding: Any = None, dilations: Any = None) -> Any:  # fmt: skip
    attrs = _window_attributes(strides, padding, dilations)
    sizes = (int64_tensor(v) if isinstance(v, list | tuple) else v
             for v in (size, window))  # fmt: skip
    return o.Col2Im(x, *sizes, **attrs)


WRITE: dict[str, Any] = {
    "max_pool_with_indices": write_max_pool_with_indices,
    "fold": write_fold,
}
