"""Reproduction of an error: the op alone, what it reads, and both of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import amanda
from amanda.backend import extract_graph
from amanda.graph import Graph, OutputPort
from amanda_inspect.bisection import OpError
from amanda_inspect.windows import Backend, value_or_constant, with_constants

__all__ = ["Reproduction", "save_reproduction", "write_script"]

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


class Reproduction(NamedTuple):
    """An op alone, with those before it that have no counterparts."""

    graph: Graph
    reads: dict[str, OutputPort]
    """The values of the model that its inputs are."""
    inputs: dict[str, Any]
    found: dict[str, Any]
    """Its outputs."""
    wanted: dict[str, Any]
    """Those of the reference."""

    @classmethod
    def of(cls, error: OpError) -> Reproduction:
        """The reproduction of an error, with the weights of the model."""
        values = error.values
        if values is None or values.op.graph is None:
            raise ValueError("the op makes no error, or was removed")
        ops = with_constants([*values.unmatched, values.op])
        outputs = list(values.made)
        graph, reads = extract_graph(values.op.graph, ops, outputs)
        names = []
        for i, port in enumerate(graph.parameters):
            port.name = _key(port.name, f"input {i}")
            names.append(port.name)
        for i, result in enumerate(graph.outputs):
            result.name = f"output {i}"
        found, wanted = (
            {f"output {i}": array for i, array in enumerate(arrays)}
            for arrays in (values.made.values(), (values.wanted[p] for p in outputs))
        )
        ports = dict(zip(names, reads, strict=True))
        inputs = {
            name: value_or_constant(port, values.inputs) for name, port in ports.items()
        }
        return cls(graph, ports, inputs, found, wanted)


def save_reproduction(
    reproduction: Reproduction, folder: Path, backend: Backend, title: str
) -> list[str]:
    """Write an op, what it reads, its outputs, those of the reference, and a script.

    Returns the names of the files.
    """
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    amanda.save(reproduction.graph, folder / "op.amanda")
    arrays = ("inputs", "found", "wanted")
    for name in arrays:
        np.savez(folder / f"{name}.npz", **getattr(reproduction, name))
    body = OP_ALONE.format(backend=backend.name, options=dict(backend.options))
    write_script(folder, title, "op.amanda", body)
    return ["op.amanda", *(f"{name}.npz" for name in arrays), "reproduce.py"]


def _key(name: str | None, default: str) -> str:
    """A name that is one of a file, too."""
    return default if name is None or "/" in name or "\\" in name else name
