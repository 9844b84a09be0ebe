"""Feeds of `run` and `compare`: from files, or random."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.inputs.array_files import read_arrays
from amanda.errors import LimitError, UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph, Parameter
    from amanda.types import TensorType

__all__ = ["read_feeds", "feed_options", "summarize_value"]

_MAX_RANK = 64  # of numpy
_DRAWN_BYTES = 8  # of an element, before it is converted
_SHOWN = 4  # elements of a result that are printed


def feed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for feeds to a verb."""
    added = [
        click.option(
            "--feed",
            "feeds",
            multiple=True,
            metavar="NAME=FILE",
            help="A .npy file for an input, or one .npz file with all of them.",
        ),
        click.option(
            "--random",
            type=int,
            metavar="SEED",
            help="Random values, determined by the seed, for inputs without a file.",
        ),
        click.option(
            "--dim",
            "dims",
            multiple=True,
            metavar="NAME=SIZE",
            help="The size of a symbolic dim of random values; the default is 1.",
        ),
    ]
    for option in reversed(added):
        command = option(command)
    return command


def read_feeds(
    graph: Graph, feeds: Sequence[str], random: int | None, dims: Sequence[str]
) -> dict[str | int, Any]:
    """A value for each input, by name or index; variables start with their own."""
    from amanda.graph import state_ports

    found = _read_files(feeds)
    sizes = {name: _parse_size(text) for name, text in _parse_pairs(dims, "--dim")}
    variables = {port.input for port in state_ports(graph)}
    inputs = [port for port in graph.parameters if port.index not in variables]
    keys = {_key(port): port for port in inputs}
    unknown = [name for name in found if name not in keys]
    if unknown:
        raise UsageError(
            f"the model has no input {unknown[0]!r}",
            expected=f"one of {', '.join(map(str, keys))}" if keys else "no feeds",
        )
    missing = [key for key in keys if key not in found and not _has_default(keys[key])]
    if missing and random is None:
        raise UsageError(
            f"there is no feed for {', '.join(map(str, missing))}",
            hint="--feed NAME=FILE.npy for each, or --random SEED for random values",
        )
    random_array = _random_arrays(random)
    for key in missing:
        found[key] = random_array(keys[key], sizes)
    return {key: found[key] for key in keys if key in found}


def _has_default(port: Parameter) -> bool:
    from amanda.graph import VALUE_NOTE

    return port.has_attrs and VALUE_NOTE in port.attrs


def _key(port: Parameter) -> str | int:
    return port.index if port.name is None else port.name


def _parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for name, mark, value in pairs:
        if not mark or not name or not value:
            raise UsageError(f"{option} takes NAME=VALUE", got=f"{name}{mark}{value}")
    return [(name, value) for name, _, value in pairs]


def _parse_size(text: str) -> int:
    if not text.isdecimal():
        raise UsageError("the size of a dim is a number", got=text)
    return int(text)


def _read_files(feeds: Sequence[str]) -> dict[str | int, Any]:
    found: dict[str | int, Any] = {}
    for text in feeds:
        if text.endswith(".npz") and "=" not in text:
            arrays = read_arrays(text)
            if not isinstance(arrays, dict):
                raise UsageError("this file has one array without a name", who=text)
            found.update(arrays)
    rest = [text for text in feeds if not text.endswith(".npz") or "=" in text]
    for name, file in _parse_pairs(rest, "--feed"):
        found[name] = read_arrays(file)
    return found


def _random_arrays(seed: int | None) -> Callable[[Parameter, Mapping[str, int]], Any]:
    import numpy as np

    numbers = np.random.default_rng(seed)

    def random_array(port: Parameter, sizes: Mapping[str, int]) -> Any:
        kind = _tensor_type(port)
        shape = tuple(_concrete_size(dim, sizes) for dim in kind.shape)
        _expect_possible(port, shape)
        if kind.dtype.kind in ("string", "bytes"):
            return np.full(shape, "a", dtype=object)
        dtype = kind.dtype.numpy
        if kind.dtype.kind in ("float", "complex"):
            return np.asarray(numbers.standard_normal(shape)).astype(dtype)
        return np.asarray(numbers.integers(0, 2, shape)).astype(dtype)

    return random_array


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
            hint="--dim NAME=SIZE gives symbolic dims a size",
        )


def _memory_bytes() -> int:
    """The memory of this machine; 16 GB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 1 << 34


def _tensor_type(port: Parameter) -> TensorType:
    from amanda.types import TensorType

    kind = port.type
    if isinstance(kind, TensorType) and kind.shape.has_rank:
        return kind
    raise UsageError(
        f"there is no random value for {port.name or port.index}",
        expected="a tensor of known rank",
        got=str(kind) if kind is not None else "no type",
        hint="feed it from a file",
    )


def _concrete_size(dim: Any, sizes: Mapping[str, int]) -> int:
    """The size of a dim: static, given, or 1."""
    from amanda.types import Sym, evaluate

    if not isinstance(dim, Sym):
        return int(dim)
    free = {symbol: sizes.get(symbol.name or "", 1) for symbol in dim.free}
    return evaluate(dim, free)


def summarize_value(value: Any) -> tuple[str, str]:
    """A summary of a result: its type, and its first elements or its range."""
    import numpy as np

    if isinstance(value, list | tuple):
        return f"sequence of {len(value)}", ", ".join(
            summarize_value(v)[0] for v in value[:3]
        )
    array = np.asarray(value)
    kind = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    if array.size <= _SHOWN or array.dtype.kind not in "fiu":
        text = " ".join(f"{item:.6g}" if isinstance(item, float) else str(item)
                        for item in array.reshape(-1)[:_SHOWN].tolist())  # fmt: skip
        return kind, text + (" ..." if array.size > _SHOWN else "")
    low, high, mean = (float(f(array)) for f in (np.min, np.max, np.mean))
    return kind, f"{low:.6g} to {high:.6g}, mean {mean:.6g}"
