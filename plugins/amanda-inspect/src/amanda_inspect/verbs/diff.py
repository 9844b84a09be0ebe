"""`amanda diff`: how two models differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amanda.cli import Answer, load_option, open_model, show_progress, verb
from amanda_inspect.common import common_namespace
from amanda_inspect.difference import ChangedWeight, GraphDifference, diff
from amanda_inspect.viewer import view

__all__ = ["command"]


@verb("diff", "how two models differ: structure, attributes, types, weights")
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
@click.option(
    "--all", "everything", is_flag=True, help="List everything, not the first 20."
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page: the differences beside the graph of SECOND.",
)
def command(
    first: str, second: str, *, form: str | None, everything: bool, page: Path | None
) -> Answer:
    """How the model SECOND differs from FIRST.

    Ops correspond by what they read, not by their order or names. Models of different
    frameworks are compared in the hub, optimized for inference. Exit code 1 means that
    there are differences.

    Examples:
        amanda diff digits.onnx digits.onnx
        amanda diff digits.onnx digits.onnx --html differences.html
    """
    graphs = [open_model(file, form)[0] for file in (first, second)]
    with show_progress(f"comparing {first} and {second}"):
        both = common_namespace(*graphs, are_run=False)
        found = diff(both.a, both.b)
    lines = list(found.lines(None if everything else 20))
    text = lines or [f"{first} and {second} are the same graph"]
    if page is not None:
        title = f"{Path(second).name} against {Path(first).name}"
        view(both.b, title=title, difference=found).save(page)
        text.append(f"saved {page}")
    return Answer(_data(found), text, exit_code=int(not found.is_empty))


def _data(found: GraphDifference) -> dict[str, Any]:
    return {
        "head": found.head_lines,
        "changed": [
            {
                "op": each.op.name,
                "type": each.op.type,
                "counterpart": each.counterpart.name,
                "differences": list(each.texts),
            }
            for each in found.changed
        ],
        "weights": [_weight_data(each) for each in found.weights],
        "removed": [op.label for op in found.removed],
        "added": [op.label for op in found.added],
    }


def _weight_data(weight: ChangedWeight) -> dict[str, Any]:
    difference = weight.difference
    return {
        "weight": weight.place,
        "why": difference.why,
        "unequal": difference.unequal,
        "elements": difference.size,
        "max_abs": difference.max_abs,
        "max_rel": difference.max_rel,
        "snr": difference.snr,
        "norms": list(weight.norms),
        "hashes": [tensor.digest() for tensor in weight.tensors],
    }
