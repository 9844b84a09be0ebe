"""Random feeds: of the shapes and types of the inputs, in the ranges that their readers
accept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import ceil, floor, prod
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import LimitError, UsageError
from amanda.feeds.ranges import InputRange
from amanda.graph import (
    VALUE_NOTE,
    Graph,
    Parameter,
    sizes_by_symbol,
    state_ports,
)
from amanda.host import host_in_use
from amanda.types import Sym, TensorType, evaluate

if TYPE_CHECKING:
    import numpy as np

__all__ = ["find_input_ranges", "generate_feeds"]

Key = str | int

_MAX_RANK: Final = 64  # of numpy
_DRAWN_BYTES: Final = 8  # of an element, before it is converted


def generate_feeds(
    graph: Graph,
    *,
    seed: int | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Iterable[Key] | None = None,
) -> dict[Key, Any]:
    """Random values for the inputs of a graph, by name or by index.

    `dims` are the sizes of symbolic dims, 1 by default, named as for
    `amanda.graph.set_dims`; `inputs` limits the result to these. Values are in the
    ranges of `find_input_ranges`: indices are within the axis that they index, masks
    have ones first, position ids increase. Floats have a standard normal distribution
    where no op limits them.

    >>> graph = Graph("amanda/std/1")
    >>> x = graph.parameter("float32[batch, 2]", "x")
    >>> generate_feeds(graph, seed=1, dims={"batch": 3})["x"].shape
    (3, 2)
    """
    import numpy as np

    wanted = None if inputs is None else set(inputs)
    ports = {
        key: port
        for key, port in _inputs_by_key(graph).items()
        if (wanted is None and not _has_default(port)) or (wanted and key in wanted)
    }
    sizes = sizes_by_symbol(graph, dims or {})
    shapes = {key: _concrete_shape(port, sizes) for key, port in ports.items()}
    ranges = find_input_ranges(graph, dims=dims) if ports else {}
    numbers = np.random.default_rng(seed)
    return {
        key: _random_array(
            numbers, _tensor_type(port), shapes[key], ranges.get(key, InputRange())
        )
        for key, port in ports.items()
    }


def find_input_ranges(
    graph: Graph, *, dims: Mapping[str, int] | None = None
) -> dict[Key, InputRange]:
    """The values that the inputs of a graph accept, by name or by index.

    Plug-ins that know the ops find them, by the hook `find_input_ranges`; an input that
    is not in the result accepts any value, as far as is known.
    """
    host = host_in_use()
    if not host.listens("find_input_ranges"):
        return {}
    sizes = sizes_by_symbol(graph, dims or {})
    found = host.fire("find_input_ranges", graph=_with_sizes(graph, sizes))
    keys = _inputs_by_key(graph)
    return {key: value for key, value in (found or {}).items() if key in keys}


def _with_sizes(graph: Graph, sizes: Mapping[Sym, int]) -> Graph:
    """A copy in which symbolic dims of inputs have their sizes."""
    sized = graph.clone()
    for port in sized.parameters:
        type_ = port.type
        if isinstance(type_, TensorType) and type_.shape.has_rank:
            symbols = {symbol for dim in type_.shape if isinstance(dim, Sym)
                       for symbol in dim.free}  # fmt: skip
            for symbol in symbols:
                _set_symbol(sized, symbol, sizes.get(symbol, 1))
    return sized


def _set_symbol(graph: Graph, symbol: Sym, size: int) -> None:
    """Give a symbol a size in all types of a graph."""
    for part in graph.graphs():
        ports = (port for op in part for port in op.outputs)
        for port in (*part.parameters, *ports):
            if port.type is not None:
                port.type = port.type.map_dims(
                    lambda dim: dim.substitute({symbol: size})
                )


def _inputs_by_key(graph: Graph) -> dict[Key, Parameter]:
    """The inputs that are fed: variables start with their own values."""
    variables = {port.input for port in state_ports(graph)}
    return {
        port.index if port.name is None else port.name: port
        for port in graph.parameters
        if port.index not in variables
    }


def _has_default(port: Parameter) -> bool:
    return port.has_attrs and VALUE_NOTE in port.attrs


def _concrete_shape(port: Parameter, sizes: Mapping[Sym, int]) -> tuple[int, ...]:
    shape = tuple(_concrete_size(dim, sizes) for dim in _tensor_type(port).shape)
    _expect_possible(port, shape)
    return shape


def _concrete_size(dim: Any, sizes: Mapping[Sym, int]) -> int:
    """The size of a dim: static, given, or 1."""
    if not isinstance(dim, Sym):
        return int(dim)
    free = {symbol: sizes.get(symbol, 1) for symbol in dim.free}
    return evaluate(dim, free)


def _tensor_type(port: Parameter) -> TensorType:
    kind = port.type
    if isinstance(kind, TensorType) and kind.shape.has_rank:
        return kind
    raise UsageError(
        f"there is no random value for {port.name or port.index}",
        expected="a tensor of known rank",
        got=str(kind) if kind is not None else "no type",
        hint="feed it from a file",
    )


def _expect_possible(port: Parameter, shape: tuple[int, ...]) -> None:
    """Raise an error for a shape that no array can have, or not in this memory."""
    name = port.name or port.index
    if len(shape) > _MAX_RANK or min(shape, default=0) < 0:
        raise UsageError(
            f"there is no array of the shape of input {name!r}",
            expected=f"at most {_MAX_RANK} axes of 0 or more elements",
            got=f"{len(shape)} axes" if len(shape) > _MAX_RANK else list(shape),
        )
    needed, there = prod(shape) * _DRAWN_BYTES, _memory_bytes()
    if needed > there:
        raise LimitError(
            f"random values of input {name!r} do not fit the memory",
            expected=f"at most {there:,} bytes",
            got=f"{needed:,} bytes",
            hint="dims={NAME: SIZE} gives symbolic dims a size",
        )


def _memory_bytes() -> int:
    """The memory of this machine; 16 GB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 1 << 34


# -- values ------------------------------------------------------------------------


def _random_array(
    numbers: np.random.Generator,
    type_: TensorType,
    shape: tuple[int, ...],
    limits: InputRange,
) -> Any:
    """An array of a type, with elements in a range."""
    import numpy as np

    dtype = type_.dtype
    if dtype.kind in ("string", "bytes"):
        return np.full(shape, "a", dtype=object)
    if limits.role == "mask" or dtype.kind == "bool":
        return _mask(numbers, shape, keeps=limits.keeps).astype(dtype.numpy)
    if dtype.kind in ("float", "complex"):
        return np.asarray(_floats(numbers, shape, limits)).astype(dtype.numpy)
    return np.asarray(_integers(numbers, shape, limits)).astype(dtype.numpy)


def _mask(
    numbers: np.random.Generator, shape: tuple[int, ...], *, keeps: bool
) -> np.ndarray[Any, Any]:
    """Ones, then padding along the last axis, as of sequences of different lengths.

    At least half of each batch element is ones, so that no softmax is over nothing."""
    import numpy as np

    if not shape:
        return np.asarray(keeps)
    last = shape[-1]
    batch = shape[:1] if len(shape) > 1 else ()
    lengths = numbers.integers((last + 1) // 2, last + 1, batch)
    used = np.arange(last) < lengths[..., None]
    used = used.reshape((*batch, *(1,) * (len(shape) - len(batch) - 1), last))
    return np.broadcast_to(used if keeps else ~used, shape)


def _floats(
    numbers: np.random.Generator, shape: tuple[int, ...], limits: InputRange
) -> Any:
    low, high = limits.low, limits.high
    if low is None and high is None:
        return numbers.standard_normal(shape)
    if low is None or high is None:
        low = high - 1 if low is None and high is not None else low
        assert low is not None
        high = low + 1 if high is None else high
    return numbers.uniform(low, high, shape)


def _integers(
    numbers: np.random.Generator, shape: tuple[int, ...], limits: InputRange
) -> Any:
    import numpy as np

    low, high = _integer_bounds(limits)
    if limits.role == "position" and shape:
        return np.broadcast_to(low + np.arange(shape[-1]) % (high - low + 1), shape)
    if limits.role == "size":
        return np.full(shape, low)
    if limits.role == "shape":  # the rest is in the last axis
        return np.array([*[1] * (prod(shape) - 1), -1]).reshape(shape)
    found = numbers.integers(low, high + 1, shape)
    return np.sort(found) if limits.role == "ordered" and shape else found


def _integer_bounds(limits: InputRange) -> tuple[int, int]:
    """The least and the greatest integer; 0 and 1 where nothing limits them."""
    low = None if limits.low is None else ceil(limits.low)
    high = None if limits.high is None else floor(limits.high)
    if low is None:
        low = 0 if high is None else min(0, high)
    if limits.role == "position":
        return low, low + (1 << 30) if high is None else max(low, high)
    return low, max(low, low + 1 if high is None else high)
