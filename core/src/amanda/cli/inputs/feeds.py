"""Feeds of `run` and `compare`: from files, or random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.inputs.feed_files import parse_pairs, read_feed_files
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
            metavar="[NAME=]FILE",
            help="A file for an input: .npy, .pb of ONNX, or an image, several with "
            "commas for a batch; or a .npz file, or a folder, with all of them.",
        ),
        click.option(
            "--image",
            "images",
            multiple=True,
            metavar="NAME=VALUE",
            help="How images are fed: size=224x224, layout=NCHW or NHWC, channels=RGB, "
            "BGR, L or RGBA, scale=, mean=, std=. Default: by the shape of the input, "
            "and for floats scale=1/255.",
        ),
        click.option(
            "--text",
            "texts",
            multiple=True,
            metavar="TEXT",
            help="A text that is fed as token ids, @FILE that of a file; repeated for "
            "a batch.",
        ),
        click.option(
            "--tokenizer",
            metavar="FILE",
            help="The tokenizer.json that encodes --text.",
        ),
        click.option(
            "--random",
            type=int,
            metavar="SEED",
            help="Random values for the other inputs, determined by the seed, in the "
            "ranges that the ops reading them accept.",
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
    graph: Graph,
    feeds: Sequence[str],
    random: int | None,
    dims: Sequence[str],
    images: Sequence[str] = (),
    texts: Sequence[str] = (),
    tokenizer: str | None = None,
) -> dict[str | int, Any]:
    """A value for each input, by name or index; variables start with their own."""
    from amanda.feeds import generate_feeds
    from amanda.graph import sizes_by_symbol, state_ports

    sizes = {name: _parse_size(text) for name, text in parse_pairs(dims, "--dim")}
    sizes_by_symbol(graph, sizes)  # an error for a dim that no input has
    variables = {port.input for port in state_ports(graph)}
    inputs = [port for port in graph.parameters if port.index not in variables]
    keys = {_key(port): port for port in inputs}
    found = _read_texts(texts, tokenizer, keys)
    found |= read_feed_files(feeds, keys, images)
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


def _read_texts(
    texts: Sequence[str], tokenizer: str | None, keys: dict[str | int, Parameter]
) -> dict[str | int, Any]:
    if bool(texts) != bool(tokenizer):
        raise UsageError(
            "--text and --tokenizer are given together",
            got="--text alone" if texts else "--tokenizer alone",
        )
    if tokenizer is None:
        return {}
    from amanda.cli.inputs.texts import read_texts

    with show_progress(f"reading {tokenizer}"):
        return read_texts(texts, tokenizer, keys)


def _has_default(port: Parameter) -> bool:
    from amanda.graph import VALUE_NOTE

    return port.has_attrs and VALUE_NOTE in port.attrs


def _key(port: Parameter) -> str | int:
    return port.index if port.name is None else port.name


def _parse_size(text: str) -> int:
    if not text.isdecimal():
        raise UsageError("the size of a dim is a number", got=text)
    return int(text)


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
