"""Arguments that ops of nd4j have, and their descriptors do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["UNDECLARED"]

_WEIGHTS: Final = {"wFormat": ("INT64", 10)}

UNDECLARED: Final[Mapping[str, Mapping[str, tuple[str, int]]]] = {
    "conv2d": _WEIGHTS, "depthwise_conv2d": _WEIGHTS, "deconv2d": _WEIGHTS,
    "deconv2d_tf": _WEIGHTS, "conv3dnew": {"wFormat": ("INT64", 14)},
    "cast": {"dst": ("INT64", 0)},
    "non_max_suppression": {
        "outputs.double": ("DOUBLE", 0), "scoreThreshold.double": ("DOUBLE", 1),
    },
    "reduce_logsumexp": {"keepDims.int64": ("INT64", 0)},
}  # fmt: skip
"""By op: the name of each as rule sets call it, its kind and its index."""
