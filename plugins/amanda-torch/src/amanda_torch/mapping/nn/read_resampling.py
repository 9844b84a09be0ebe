"""From PyTorch: interpolation, and sampling at grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import dims_of, shape_argument

__all__ = ["READ"]

_EXACT = 1 << 20
"""Factors with denominators up to this one have exact products with sizes."""


def _resize(x: Any, axes: int, size: Any, scales: Any, **attrs: Any) -> Any:
    """To a size, or by factors; where these are given, they decide positions."""
    places = list(range(2, 2 + axes))
    factors = [s for s in scales or () if s is not None]
    if size is None:
        dims = dims_of(x)[2:]
        size = [_scale_size(d, float(s)) for d, s in zip(dims, factors, strict=True)]
    if len(factors) == axes and attrs["coordinates"] != "align_corners":
        scale = np.asarray([float(s) for s in factors], "float64")
        return ops.resize(x, shape_argument(size), scale, axes=places, **attrs)
    return ops.resize(x, shape_argument(size), axes=places, **attrs)


def _scale_size(dim: Any, factor: float) -> Any:
    """A size times a factor, rounded down: a number or a value as the size is.

    Fractions of small numbers are computed by integers, which keep symbolic sizes;
    others as PyTorch does, with its rounding."""
    if isinstance(dim, int):
        return int(dim * factor)
    above, below = factor.as_integer_ratio()
    if below <= _EXACT:
        return dim * np.int64(above) // np.int64(below)
    return cast_to(cast_to(dim, DType("float64")) * np.float64(factor), DType("int64"))


def _nearest(axes: int, *, exact: bool) -> Callable[..., Any]:
    attrs = {"mode": "nearest", "coordinates": "half_pixel" if exact else "asymmetric",
             "rounding": "round_prefer_ceil" if exact else "floor"}  # fmt: skip

    def read(x: Any, size: Any = None, *scales: Any) -> Any:
        return _resize(x, axes, size, _factors(scales, axes), **attrs)

    return read


def _factors(scales: tuple[Any, ...], axes: int) -> Any:
    """Factors as one list, or one argument each."""
    if len(scales) == 1 and isinstance(scales[0], list | tuple):
        return scales[0]
    return list(scales) if len(scales) == axes else None


def _smooth(axes: int, mode: str, *, antialias: bool = False) -> Callable[..., Any]:
    def read(
        x: Any, size: Any = None, align_corners: bool = False, *scales: Any
    ) -> Any:
        how = "align_corners" if align_corners else "half_pixel"
        attrs = {"mode": mode, "coordinates": how, "antialias": antialias,
                 "cubic": -0.5 if antialias else -0.75,
                 "exclude_outside": antialias}  # fmt: skip
        return _resize(x, axes, size, _factors(scales, axes), **attrs)

    return read


_GRID_MODES = ("linear", "nearest", "cubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


def read_grid_sampler(x: Any, grid: Any, mode: int, padding: int,
                      align_corners: bool) -> Any:  # fmt: skip
    return ops.grid_sample(
        x, grid, mode=_GRID_MODES[mode], padding=_GRID_PADDINGS[padding],
        align_corners=bool(align_corners),
    )  # fmt: skip


def read_affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    return ops.affine_grid(theta, shape_argument(size), align_corners=align_corners)


def _with_vec(name: str) -> str:
    return f"{name} {name}.vec"


READ = torch_functions(
    {
        **{_with_vec(f"upsample_nearest{n}d"): _nearest(n, exact=False)
           for n in (1, 2, 3)},
        **{_with_vec(f"_upsample_nearest_exact{n}d"): _nearest(n, exact=True)
           for n in (1, 2, 3)},
        _with_vec("upsample_linear1d"): _smooth(1, "linear"),
        _with_vec("upsample_bilinear2d"): _smooth(2, "linear"),
        _with_vec("upsample_trilinear3d"): _smooth(3, "linear"),
        _with_vec("upsample_bicubic2d"): _smooth(2, "cubic"),
        _with_vec("_upsample_bilinear2d_aa"): _smooth(2, "linear", antialias=True),
        _with_vec("_upsample_bicubic2d_aa"): _smooth(2, "cubic", antialias=True),
        "grid_sampler grid_sampler_2d grid_sampler_3d": read_grid_sampler,
        "affine_grid_generator": read_affine_grid,
    }
)  # fmt: skip
