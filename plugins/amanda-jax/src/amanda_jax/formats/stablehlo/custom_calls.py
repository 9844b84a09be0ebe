"""Custom calls that programs of unknown origin may make.

A custom call executes native code of a library. Some targets take addresses or programs
from the file itself: callbacks of Python have an index into the memory of the process
that wrote it, and kernels of Mosaic, Triton and TensorFlow are code. Allowed are those
whose arguments are arrays, and which JAX guarantees to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from amanda.errors import BackendError
from amanda.graph import Graph, Op

__all__ = [
    "CustomCall",
    "check_custom_calls",
    "custom_call_refusal",
    "refuse_custom_calls",
]

_ALLOWED: Final = re.compile(
    r"""
    lapack_[sdcz][a-z]+_ffi
    | (cu|hip)(solver|sparse|blas)_[a-z0-9]+_ffi
    | (cu|hip)_(threefry2x32_ffi|lu_pivots_to_permutation)
    | stablehlo\.dynamic_(approx_top_k|reduce_window|rng_bit_generator|top_k)
    | AllocateBuffer | ApproxTopK | Eigh | LuDecomposition | Qr
    | ProductOfElementaryHouseholderReflectors
    | Sharding | SPMDFullToShardShape | SPMDShardToFullShape
    | annotate_device_placement | shape_assertion
    """,
    re.VERBOSE,
)
_NAME: Final = "call_target_name"


_ONE_ARGUMENT: Final = frozenset(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
    )
)
"""Targets that XLA itself replaces; it ends the process if they have more arguments."""


class CustomCall(NamedTuple):
    """The target of a custom call, and the numbers of its inputs and outputs."""

    target: str
    inputs: int
    outputs: int

    @property
    def refusal(self) -> str | None:
        """Why the call may not be made, or None."""
        if _ALLOWED.fullmatch(self.target) is None:
            return f"it calls {self.target!r}, which is not an allowed custom call"
        if self.target in _ONE_ARGUMENT and (self.inputs, self.outputs) != (1, 1):
            return f"the custom call {self.target!r} has one input and one output"
        return None


def custom_call_refusal(op: Op) -> str | None:
    """Why a custom call may not be made; None for all other ops."""
    if op.type != "custom_call":
        return None
    target = str(op.attrs.get(_NAME)) if op.has_attrs else "None"
    return CustomCall(target, len(op.inputs), len(op.outputs)).refusal


def refuse_custom_calls(graph: Graph) -> None:
    """Raise BackendError if a graph, or a function of it, makes another custom call."""
    refusals = ((op, custom_call_refusal(op)) for op in graph.walk())
    _refuse([f"{op.label}: {why}" for op, why in refusals if why is not None])


def check_custom_calls(calls: Iterable[CustomCall]) -> None:
    """Raise BackendError for calls that may not be made."""
    refusals = (call.refusal for call in calls)
    _refuse([why for why in refusals if why is not None])


def _refuse(problems: list[str]) -> None:
    if problems:
        raise BackendError(
            "the program makes custom calls that are not allowed",
            hint="callbacks and embedded kernels run only in the process that made "
            "them; run the original function",
            problems=problems,
        )
