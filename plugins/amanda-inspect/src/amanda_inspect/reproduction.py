"""Reproduction of an error: the op alone, what it reads, and both of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.backend import extract_graph
from amanda.graph import Graph, OutputPort
from amanda_inspect.bisection import OpError
from amanda_inspect.windows import Backend, with_constants

__all__ = ["save_reproduction", "write_script"]

HEAD: Final = '''\
"""{title}"""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

import amanda
from amanda.comparison import compare_values

HERE = Path(__file__).resolve().parent
MODEL = {model!r}
for file in {preload!r}:
    runpy.run_path(file)
graph = amanda.load(HERE / MODEL)
'''

OP_ALONE: Final = """\
# the op alone, on what it reads; its outputs are compared with those of the reference
feeds = dict(np.load(HERE / "inputs.npz"))
wanted = dict(np.load(HERE / "wanted.npz"))
found = amanda.run(graph, feeds, backend={backend!r}, **{options!r})
for name, value in wanted.items():
    print(name, compare_values(np.asarray(found[name]), value))
"""


def write_script(
    folder: Path, title: str, model: str, body: str, preload: Sequence[Path] = ()
) -> None:
    """Write `reproduce.py`, which loads a model as `graph` and continues with a body.

    `preload` are Python files that it runs first.
    """
    files = [str(Path(file).resolve()) for file in preload]
    plain = title.splitlines()[0].replace("\\", "/").replace('"', "'")
    head = HEAD.format(title=plain, model=model, preload=files)
    (folder / "reproduce.py").write_text(head + body, encoding="utf-8")


def save_reproduction(error: OpError, folder: Path, backend: Backend) -> list[str]:
    """Write an op, what it reads, its outputs, those of the reference, and a script.

    Returns the names of the files.
    """
    import numpy as np

    if error.values is None:
        raise ValueError("the op makes no error")
    folder.mkdir(parents=True, exist_ok=True)
    values = error.values
    outputs = list(values.made)
    graph, inputs = _op_graph(error, outputs)
    amanda.save(graph, folder / "op.amanda")
    names = [_key(port.name, f"output {i}") for i, port in enumerate(graph.outputs)]
    arrays: dict[str, dict[str, Any]] = {
        "inputs": inputs,
        "found": dict(zip(names, (values.made[p] for p in outputs), strict=True)),
        "wanted": dict(zip(names, (values.wanted[p] for p in outputs), strict=True)),
    }
    for name, each in arrays.items():
        np.savez(folder / f"{name}.npz", **each)
    body = OP_ALONE.format(backend=backend.name, options=dict(backend.options))
    write_script(folder, str(error), "op.amanda", body)
    return ["op.amanda", *(f"{name}.npz" for name in arrays), "reproduce.py"]


def _op_graph(
    error: OpError, outputs: list[OutputPort]
) -> tuple[Graph, dict[str, Any]]:
    """The op, with those before it that have no counterparts, and what it reads."""
    values = error.values
    if values is None or values.op.graph is None:
        raise ValueError("the op makes no error, or was removed")
    ops = with_constants([*values.unmatched, values.op])
    graph, reads = extract_graph(values.op.graph, ops, outputs)
    inputs = {}
    for i, (port, read) in enumerate(zip(graph.parameters, reads, strict=True)):
        port.name = _key(port.name, f"input {i}")
        inputs[port.name] = values.inputs[read]
    for i, result in enumerate(graph.outputs):
        result.name = f"output {i}"
    return graph, inputs


def _key(name: str | None, default: str) -> str:
    """A name that is one of a file, too."""
    return default if name is None or "/" in name or "\\\\" in name else name
