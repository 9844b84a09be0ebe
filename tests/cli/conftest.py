"""The command line called in this process, with nothing installed beside the core."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import amanda
from amanda import cli


class Ended(NamedTuple):
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Ended]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`call("info", file)`: exit code, standard output, standard error."""

    def called(*arguments: object) -> Ended:
        capsys.readouterr()
        code = cli.run_command_line([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return called


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> amanda.Host:
    """A host of this test's own, in place of the default one."""
    made = amanda.Host(points=())
    monkeypatch.setattr("amanda.host._default", made)
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small file with everything that `info` counts."""
    graph = amanda.Graph("amanda/onnx/18", name="small")
    x = graph.parameter(amanda.parse_type("float32[batch, 4]"), name="x")
    ones = amanda.Tensor.splat(amanda.types.float32, (4, 2), 1.0)
    weight = graph.constant(ones, name="weight")
    product = graph.add("MatMul", [x, weight.output], name="product")
    graph.imports["ai.onnx"] = 18
    graph.add_function("twice", amanda.Graph(name="twice"))
    bodies = {}
    for key, kind in (("then", "Relu"), ("else", "Neg")):
        body = amanda.Graph(outer=graph)
        body.result(body.add(kind, [product.output]).output)
        bodies[key] = body
    chosen = graph.add("If", [x], name="chosen", bodies=bodies)
    graph.result(chosen.output, name="y")
    graph.set_entry("serve", {"input": x}, {"scores": chosen.output})
    file = tmp_path / "small.yaml"
    amanda.save(graph, file)
    return file
