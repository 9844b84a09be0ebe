"""Every op of the hub set, by name: `ops.relu(x)`, `ops.OPS["relu"]`.

The themes declare them; nothing is listed twice. Names are those of the Python array
API standard where it has the function; `if` and `while` are `ops.if_` and `ops.while_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from amanda.errors import NamespaceError
from amanda_std.operation import Operation
from amanda_std.ops import (
    activation,
    alignment,
    arithmetic,
    bits,
    blocks,
    casting,
    classical,
    comparison,
    complex_numbers,
    contraction,
    control,
    convolution,
    counters,
    creation,
    cropping,
    detection,
    devices,
    drawing,
    effects,
    elementary,
    encoded,
    factorisations,
    flat_attention,
    flexible_attention,
    fourier,
    functions,
    indexing,
    integer_products,
    least_squares,
    linear_algebra,
    logic,
    losses,
    movement,
    normalization,
    norms,
    optimisers,
    optionals,
    pairs,
    pooling,
    quantisation,
    recurrent,
    recurrent_attention,
    reduction,
    resizing,
    sampling,
    scans,
    sequences,
    shape,
    signal,
    sorting,
    special,
    state,
    strings,
    transformers,
    tuples,
    updates,
    windows,
)

THEMES = (
    arithmetic,
    elementary,
    pairs,
    special,
    comparison,
    logic,
    bits,
    reduction,
    scans,
    contraction,
    linear_algebra,
    factorisations,
    least_squares,
    complex_numbers,
    fourier,
    signal,
    shape,
    movement,
    indexing,
    updates,
    creation,
    sorting,
    convolution,
    pooling,
    windows,
    blocks,
    resizing,
    sampling,
    detection,
    cropping,
    control,
    functions,
    recurrent,
    activation,
    normalization,
    norms,
    transformers,
    flat_attention,
    flexible_attention,
    losses,
    alignment,
    optimisers,
    recurrent_attention,
    casting,
    quantisation,
    integer_products,
    classical,
    counters,
    drawing,
    sequences,
    optionals,
    tuples,
    strings,
    encoded,
    state,
    effects,
    devices,
)


def _collected() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for theme in THEMES:
        for value in vars(theme).values():
            if isinstance(value, Operation):
                assert found.setdefault(value.name, value) is value, value.name
    return found


OPS: Mapping[str, Operation] = MappingProxyType(_collected())


def find(name: str) -> Operation:
    """The op of this name; NamespaceError, with the nearest one, if there is none."""
    if name not in OPS:
        near = get_close_matches(name, OPS, n=1)
        raise NamespaceError(
            f"amanda/std/1 has no op {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    return OPS[name]


def __getattr__(name: str) -> Operation:
    found = OPS.get(name.removesuffix("_"))
    if found is None:
        raise AttributeError(f"amanda/std/1 has no op {name!r}")
    return found


def __dir__() -> list[str]:
    return [*OPS, "OPS", "find"]
