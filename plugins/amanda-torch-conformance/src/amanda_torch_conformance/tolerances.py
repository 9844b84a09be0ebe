"""How far outputs of the op database may be from PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["LARGER_LIMITS", "LargerLimit", "limits_of"]

_TOLERANCES: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""Those of `torch.testing`: relative and absolute."""
_DYNAMIC: Final = 10
"""How many times as much is tolerated of inputs of a second size: these repeat elements
of the sample, and matrices of nearly equal rows are ill-conditioned."""


class LargerLimit(NamedTuple):
    """What is tolerated of an entry beyond the tolerances of `torch.testing`."""

    reason: str
    """With the errors of PyTorch and of Amanda, measured against float64."""
    backends: tuple[str, ...] = ()
    """Where it is tolerated; everywhere if there are none."""
    rtol: float = 0.0
    atol: float = 0.0
    ulps: int = 0
    """Units in the last place of the largest element."""

    @property
    def text(self) -> str:
        """
        >>> LargerLimit("", rtol=3e-5, ulps=8).text
        'rtol 3e-05, 8 ulps of the largest element'
        """
        parts = [
            f"rtol {self.rtol:g}" if self.rtol else "",
            f"atol {self.atol:g}" if self.atol else "",
            f"{self.ulps} ulps of the largest element" if self.ulps else "",
        ]
        where = f" on {', '.join(self.backends)}" if self.backends else ""
        return ", ".join(filter(None, parts)) + where


_POLYGAMMA: Final = LargerLimit(
    "of 413, trigamma of a negative number: PyTorch 8.4e-3, Amanda 9e-6", rtol=3e-5
)
_PSEUDO_INVERSE: Final = LargerLimit(
    "with symbolic sizes, of elements up to 55 and condition 262: PyTorch 9.8e-4 (MKL "
    "on an AMD EPYC), Amanda 1.9e-6", ulps=264,
)  # fmt: skip
_TRANSFORM: Final = LargerLimit(
    "onnxruntime's DFT in float32, of elements up to 86: 6.6e-5, PyTorch 7.8e-6",
    ulps=24, backends=("onnxruntime",),
)  # fmt: skip
_TRANSFORMS: Final = (
    "fft.fft2", "fft.fftn", "fft.hfft2", "fft.hfftn", "fft.irfft2", "fft.irfftn",
    "fft.rfft2", "stft",
)  # fmt: skip

LARGER_LIMITS: Final[Mapping[str, LargerLimit]] = {
    "polygamma": _POLYGAMMA,
    "special.polygamma": _POLYGAMMA,
    "addbmm": LargerLimit(
        "of sums up to 367: PyTorch 5.4e-5 (MKL on an AMD EPYC), Amanda 2.6e-5", ulps=2
    ),
    "_upsample_bilinear2d_aa": LargerLimit(
        "of elements up to 8.6: PyTorch 2.1e-5, Amanda 9e-7", atol=2.5e-5
    ),
    "matrix_exp": LargerLimit(
        "of elements up to 9.3e4: PyTorch 0.050, Amanda 0.016", ulps=8
    ),
    "pinverse": _PSEUDO_INVERSE,
    "linalg.pinv": _PSEUDO_INVERSE,
    "linalg.tensorinv": LargerLimit(
        "of condition 3840: PyTorch is 227 units off", ulps=512
    ),
    **dict.fromkeys(_TRANSFORMS, _TRANSFORM),
}
"""By the name of an entry, without its variant."""
_NONE: Final = LargerLimit("")


def limits_of(
    name: str, expected: Sequence[Any], backend: str, *, is_dynamic: bool = False
) -> dict[str, Any]:
    """The tolerances of the outputs of an entry, as fields of a `DataSet`."""
    pairs = [_TOLERANCES.get(str(y.dtype), (0.0, 0.0)) for y in expected]
    factor = _DYNAMIC if is_dynamic else 1
    rtol = factor * max((r for r, _ in pairs), default=0.0)
    atol = factor * max((a for _, a in pairs), default=0.0)
    larger = LARGER_LIMITS.get(name, _NONE)
    if larger.backends and backend not in larger.backends:
        larger = _NONE
    return {
        "rtol": max(rtol, larger.rtol),
        "atol": max(atol, larger.atol),
        "ulps": larger.ulps,
    }
