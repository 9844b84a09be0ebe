"""From TensorFlow: strings that are joined, split, replaced and formatted."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import expect, known_content, rank_of
from amanda_tf.mapping.strings.read_strings import constant_text, read_string_join

__all__ = ["READ"]


def read_reduce_join(
    x: Any, axes: Any, *, keep_dims: bool = False, separator: str = ""
) -> Any:
    """ReduceJoin to `string_join` along each axis."""
    rank = rank_of(x)
    found = known_content(axes)
    expect(found is not None, "the axes are not constant")
    at = [int(a) % rank for a in np.atleast_1d(found)] if rank else []
    if not at:
        return ops.identity(x)
    if sorted(at) == list(range(rank)) and at == sorted(at) and not keep_dims:
        return ops.string_join(x, separator=separator)
    expect(len(at) == 1, "strings are joined along one axis, or all")
    size = x.type.shape[at[0]]
    expect(isinstance(size, int) and size, "the number of strings is not static")
    parts = [ops.gather(x, np.int64(i), axis=at[0]) for i in range(size)]
    joined = read_string_join(*parts, separator=separator)
    return ops.expand_dims(joined, [at[0]]) if keep_dims else joined


def read_as_string(
    x: Any, *, precision: int = -1, scientific: bool = False, shortest: bool = False,
    width: int = -1, fill: str = "",
) -> Any:  # fmt: skip
    """AsString to `string_format`; plain integers to `string_from_number`."""
    kind = x.dtype.kind
    if kind == "bool":
        texts = Tensor.strings(["false", "true"], (2,))
        return ops.gather(texts, ops.astype(x, dtype="int64"))
    size = "" if width < 0 else str(width)
    if kind in ("int", "uint"):
        if not size and not fill:
            return ops.string_from_number(x)
        return ops.string_format(x, conversion=f"%{fill}{size}d")
    expect(kind in ("float", "complex"), f"{x.dtype} is no number")
    digits = "" if precision < 0 else f".{precision}"
    letter = "e" if scientific else "g" if shortest else "f"
    return ops.string_format(x, conversion=f"%{fill}{size}{digits}{letter}")


def read_split(x: Any, separator: Any, *, maxsplit: int = -1) -> Any:
    """Indices, values and shape of a sparse tensor of the parts."""
    by = constant_text(separator, "the separator")
    most = None if maxsplit < 0 else maxsplit
    parts, counts = ops.string_split(x, delimiter=by, most=most)
    shape = ops.shape_of(parts)
    width = ops.gather(shape, np.int64(1), axis=0)
    column = ops.arange(0, width)
    is_part = ops.less(ops.expand_dims(column, [0]), ops.expand_dims(counts, [1]))
    values = ops.compress(ops.reshape(parts, [-1]), ops.reshape(is_part, [-1]))
    return ops.transpose(ops.nonzero(is_part), perm=(1, 0)), values, shape


READ: dict[str, Any] = {
    "ReduceJoin": read_reduce_join,
    "AsString": read_as_string,
    "StringSplitV2": read_split,
}
