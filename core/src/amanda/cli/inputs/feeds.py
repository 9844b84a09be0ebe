"""Feeds of `run` and `compare`: from files, or random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.inputs.array_files import read_arrays
from amanda.cli.output.terminal import show_progress
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph, Parameter

__all__ = ["read_feeds", "feed_options", "summarize_value"]

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
    from amanda.feeds import generate_feeds
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
    if missing:
        with show_progress("generating random values"):
            found |= generate_feeds(graph, seed=random, dims=sizes, inputs=missing)
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
