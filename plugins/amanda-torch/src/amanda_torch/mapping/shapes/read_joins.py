"""From PyTorch: joins, splits and padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import Value, cast_to, expect, known_content, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import (
    axis_of,
    count_up,
    dims_of,
    integer,
    larger,
    shape_argument,
    smaller,
)
from amanda_torch.mapping.shapes.read_shapes import read_at_least, take_slice
from amanda_torch.mapping.type_promotion import number, promote, result_type

__all__ = ["READ", "concat", "pad"]


def concat(xs: Sequence[Any], dim: int = 0) -> Any:
    """Joined along an axis; vectors of no elements are left out."""
    dtype = result_type(*xs)
    kept = [x for x in xs if not _is_empty_vector(x)] or list(xs[:1])
    parts = [cast_to(x, dtype) for x in kept]
    return ops.concat(*parts, axis=axis_of(dim, parts[0]))


def _is_empty_vector(x: Any) -> bool:
    size = x.type.shape.dims[0] if rank_of(x) == 1 else None
    return isinstance(size, int) and size == 0


def read_stack(xs: Sequence[Any], dim: int = 0) -> Any:
    return ops.stack(*promote(*xs), axis=axis_of(dim, xs[0], 1))


def _join_at_rank(rank: int, axis: int) -> Any:
    """A join of tensors that get a rank first."""

    def read(xs: Sequence[Any]) -> Any:
        return concat([read_at_least(rank)(x) for x in xs], axis)

    return read


def read_hstack(xs: Sequence[Any]) -> Any:
    parts = [read_at_least(1)(x) for x in xs]
    return concat(parts, 0 if rank_of(parts[0]) == 1 else 1)


def read_column_stack(xs: Sequence[Any]) -> Any:
    return concat([ops.reshape(x, [-1, 1]) if rank_of(x) < 2 else x for x in xs], 1)


def read_split(x: Any, split_size: Any, dim: int = 0, *, context: Any) -> Any:
    """Parts of a size, the last one smaller, or of several sizes."""
    axis = axis_of(dim, x)
    if isinstance(split_size, list | tuple):
        sizes = list(split_size)
    else:
        sizes = _equal_sizes(dims_of(x)[axis], split_size, len(context.source.outputs))
    return tuple(ops.split(x, shape_argument(sizes), axis=axis, outputs=len(sizes)))


def _equal_sizes(whole: Any, part: Any, count: int) -> list[Any]:
    """The sizes of the parts of an axis: the program determines how many there are."""
    return [*[part] * (count - 1), whole - part * (count - 1)]


def read_chunk(x: Any, chunks: int, dim: int = 0, *, context: Any) -> Any:
    part = larger(-(-dims_of(x)[axis_of(dim, x)] // chunks), 1)
    return read_split(x, part, dim, context=context)


def read_tensor_split(x: Any, sections: Any, dim: int = 0) -> Any:
    """Nearly equal parts by number, or parts between indices; either as a tensor."""
    if isinstance(sections, Value):
        sections = _split_points(sections)
    axis = axis_of(dim, x)
    whole = dims_of(x)[axis]
    if isinstance(sections, int):
        small, more = whole // sections, whole % sections
        ends = [small * i + smaller(more, i) for i in range(sections + 1)]
    else:
        ends = [0, *sections, whole]
    return tuple(take_slice(x, axis, a, b) for a, b in pairwise(ends))


def _split_points(sections: Value) -> Any:
    """Sections or indices that are given as a tensor."""
    content = known_content(sections)
    if content is not None:
        return content.tolist()
    expect(rank_of(sections) == 1, "a number of sections that is computed")
    count = integer(sections.type.shape.dims[0], "the number of indices")
    return [ops.gather(sections, np.asarray(i), 0) for i in range(count)]


def _split_along(axis: int) -> Any:
    def read(x: Any, sections: Any) -> Any:
        return read_tensor_split(x, sections, 0 if rank_of(x) == 1 else axis)

    return read


def read_unbind(x: Any, dim: int = 0) -> Any:
    axis = axis_of(dim, x)
    count = integer(x.type.shape.dims[axis], "the size of an unbound axis")
    parts = ops.split(x, [1] * count, axis=axis, outputs=count) if count else ()
    return tuple(ops.squeeze(part, [axis]) for part in parts)


def read_chunk_cat(xs: Sequence[Any], dim: int, num_chunks: int) -> Any:
    """Each tensor, padded to equal parts, with these as rows."""
    rows = []
    dim = axis_of(dim, xs[0])
    for x in xs:
        outer, whole = dims_of(x)[:dim], dims_of(x)[dim]
        missing = -(-whole // num_chunks) * num_chunks - whole
        y = pad(x, [0, 0] * (rank_of(x) - 1 - dim) + [0, missing])
        rows.append(ops.reshape(y, shape_argument([*outer, num_chunks, -1])))
    return concat(rows, dim + 1)


def read_meshgrid(xs: Sequence[Any], *, indexing: str = "ij") -> Any:
    xs = [ops.reshape(x, [-1]) for x in xs]
    return tuple(ops.meshgrid(*xs, indexing=indexing))


def read_cartesian_product(xs: Sequence[Any]) -> Any:
    if len(xs) == 1:
        return ops.identity(xs[0])
    grids = ops.meshgrid(*xs, indexing="ij")
    return ops.stack(*[ops.reshape(g, [-1]) for g in grids], axis=1)


def read_combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of r elements, in order, each a row."""
    size = integer(x.type.shape.dims[0], "the number of elements")
    choose = combinations_with_replacement if with_replacement else combinations
    rows = np.array([*choose(range(size), r)], "int64").reshape(-1, r)
    return ops.gather(x, rows, 0)


def read_block_diagonal(xs: Sequence[Any]) -> Any:
    xs = [read_at_least(2)(x) for x in promote(*xs)]
    widths = [dims_of(x)[1] for x in xs]
    total, left, rows = sum(widths), 0, []
    for x, width in zip(xs, widths, strict=True):
        rows.append(pad(x, [left, total - left - width]))
        left += width
    return ops.concat(*rows, axis=0)


def pad(x: Any, pads: Sequence[Any], value: Any = 0) -> Any:
    """Padding in the order of PyTorch: pairs from the last axis on."""
    rows = _rows(x, pads)
    fill = number(0 if value is None else value, x.dtype)
    return ops.pad(x, rows, fill)


def _rows(x: Any, pads: Sequence[Any]) -> Any:
    pairs = [list(pads[i : i + 2]) for i in range(0, len(pads), 2)][::-1]
    rows = [[0, 0]] * (rank_of(x) - len(pairs)) + pairs
    if all(isinstance(n, int) for row in rows for n in row):
        return rows
    return ops.stack(*[shape_argument(row) if not all(isinstance(n, int) for n in row)
                       else np.asarray(row) for row in rows])  # fmt: skip


def read_pad(x: Any, pads: Sequence[Any], mode: str = "constant",
             value: Any = None) -> Any:  # fmt: skip
    if mode == "constant":
        return pad(x, pads, value)
    if mode == "circular":
        return _pad_circular(x, pads)
    if mode in ("replicate", "edge"):
        return _pad_edge(x, pads)
    return ops.pad(x, _rows(x, pads), mode=mode)


def _pad_edge(x: Any, pads: Sequence[Any]) -> Any:
    """The element nearest to each place; a negative number removes elements."""
    if not any(isinstance(n, int) and n < 0 for n in pads):
        return ops.pad(x, _rows(x, pads), mode="edge")
    return _gather_padded(x, pads, lambda at, size: at.clip(0, size - 1))


def _pad_circular(x: Any, pads: Sequence[Any]) -> Any:
    return _gather_padded(x, pads, lambda at, size: at % size)


def _gather_padded(
    x: Any, pads: Sequence[Any], source: Callable[[Any, Any], Any]
) -> Any:
    """Padding whose elements are those of the data at `source(index, size)`."""
    for i in range(0, len(pads), 2):
        axis = rank_of(x) - 1 - i // 2
        size = dims_of(x)[axis]
        low, high = pads[i : i + 2]
        x = ops.gather(x, source(count_up(-low, size + high), size), axis)
    return x


def _pad_mode(mode: str) -> Any:
    def read(x: Any, pads: Sequence[Any]) -> Any:
        return read_pad(x, pads, mode)

    return read


def read_pad_sequence(xs: Sequence[Any], batch_first: bool = False,
                      padding_value: float = 0.0,
                      padding_side: str = "right") -> Any:  # fmt: skip
    """Sequences of unlike lengths as one tensor."""
    lengths = [dims_of(x)[0] for x in xs]
    longest = reduce(larger, lengths)
    rows = []
    for x, length in zip(xs, lengths, strict=True):
        ends = (0, longest - length)
        first = ends if padding_side == "right" else ends[::-1]
        pairs = [*first, *([0, 0] * (rank_of(x) - 1))]
        sizes = ops.reshape(shape_argument(pairs), [-1, 2])
        rows.append(ops.pad(x, sizes, number(padding_value, x.dtype)))
    return ops.stack(*rows, axis=0 if batch_first else 1)


READ = torch_functions(
    {
        "cat concat concatenate": concat,
        "stack": read_stack,
        "hstack": read_hstack,
        "vstack row_stack": _join_at_rank(2, 0),
        "dstack": _join_at_rank(3, 2),
        "column_stack": read_column_stack,
        "split.Tensor split.sizes split_with_sizes split_with_sizes_copy "
        "split_copy.Tensor unsafe_split.Tensor unsafe_split_with_sizes": read_split,
        "chunk unsafe_chunk": read_chunk,
        "tensor_split.sections tensor_split.indices "
        "tensor_split.tensor_indices_or_sections": read_tensor_split,
        "hsplit.int hsplit.array": _split_along(1),
        "vsplit.int vsplit.array": _split_along(0),
        "dsplit.int dsplit.array": _split_along(2),
        "unbind.int unbind_copy.int": read_unbind,
        "_chunk_cat": read_chunk_cat,
        "meshgrid meshgrid.indexing": read_meshgrid,
        "cartesian_prod": read_cartesian_product,
        "combinations": read_combinations,
        "block_diag": read_block_diagonal,
        "pad_sequence": read_pad_sequence,
        "constant_pad_nd": pad,
        "pad": read_pad,
        "reflection_pad1d reflection_pad2d reflection_pad3d": _pad_mode("reflect"),
        "replication_pad1d replication_pad2d replication_pad3d": _pad_mode("edge"),
    }
)
