"""Names of the weights of recurrent layers in `torch.nn`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["recurrent_names"]


def recurrent_names(arguments: Mapping[str, Any], count: int) -> list[str]:
    """The names of so many weights of an `aten.lstm` and the like, in their order.

    >>> recurrent_names({"has_biases": False, "bidirectional": True}, 4)
    ['weight_ih_l0', 'weight_hh_l0', 'weight_ih_l0_reverse', 'weight_hh_l0_reverse']
    """
    kinds = ["weight_ih", "weight_hh"]
    kinds += ["bias_ih", "bias_hh"] if arguments.get("has_biases") else []
    ends = ["", "_reverse"] if arguments.get("bidirectional") else [""]
    per_layer = len(kinds) * len(ends)
    return [
        f"{kind}_l{layer}{end}" for layer in range(count // per_layer)
        for end in ends for kind in kinds
    ]  # fmt: skip
