"""A save that fails leaves the old file, and nothing beside it."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import amanda
import amanda_jax
from amanda.errors import FormatError


def tanh() -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), name="x")
    graph.result(graph.add("tanh", [x]).output, name="y")
    return graph


def save_program(graph, path):
    compiled = amanda.compile(graph, "jax")
    compiled([np.zeros(3, "f")])
    compiled.executable.save(path)


def save_module(graph, path):
    amanda.save(amanda.convert(graph, "stablehlo"), path)


@pytest.mark.parametrize(
    ("name", "save"),
    [("a.mlir", save_module), ("a.stablehlo", save_module), ("a", save_program)],
)
def test_a_full_disk(name, save, tmp_path, monkeypatch):
    path = tmp_path / name
    save(tanh(), path)
    old = path.read_bytes()
    foreign = tmp_path / f"{name}.part"
    foreign.write_bytes(b"of another program")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match="the disk is full"):
        save(tanh(), path)
    assert path.read_bytes() == old
    assert sorted(tmp_path.iterdir()) == [path, foreign]
    assert foreign.read_bytes() == b"of another program"
    monkeypatch.undo()
    save(tanh(), path)
    if save is save_program:
        assert amanda_jax.load_saved_program(path)([np.zeros(3, "f")])[
            "y"
        ].tolist() == [0, 0, 0]
