"""Random programs of views and writes in place, against what PyTorch computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda_torch.aliases import order_writes
from amanda_torch.records import NODE_RECORDS

torch = pytest.importorskip("torch", reason="runs the programs")

NAMESPACE = "amanda/torch/2.13.0"


class Program:
    """A program that runs as it is built: in PyTorch, and as a graph."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = Graph(NAMESPACE)
        self.values: list[tuple[object, torch.Tensor]] = []
        self.lines: list[str] = []
        self.feed = torch.arange(12.0).reshape(3, 4) + seed % 5
        x = self.graph.parameter(amanda.parse_type("float32[3, 4]"), "x")
        self.values.append((x, self.feed.clone()))
        self.call("clone.default", 0)

    def call(self, kind, *places, lists=False, **attrs):
        """Run an op on values, and add it to the graph; False if PyTorch refuses."""
        name, overload = kind.split(".")
        op = getattr(getattr(torch.ops.aten, name), overload)
        tensors = [self.values[i][1] for i in places]
        try:
            found = op([*tensors] if lists else tensors[0], *tensors[1:], **attrs)
        except (RuntimeError, IndexError, ValueError):
            return False
        outputs = list(found) if isinstance(found, list | tuple) else [found]
        if any(t.numel() == 0 for t in outputs):
            return False
        node = self.graph.add(
            f"aten.{kind}", [self.values[i][0] for i in places], attrs,
            outputs=len(outputs),
        )  # fmt: skip
        for port, tensor in zip(node.outputs, outputs, strict=True):
            sizes = ", ".join(map(str, tensor.shape))
            port.type = amanda.parse_type(f"float32[{sizes}]")
            self.values.append((port, tensor))
        NODE_RECORDS.add(node, values=[_entry(t) for t in outputs])
        self.lines.append(f"{kind}({places}, {attrs}) -> {sizes}")
        return True

    def view(self):
        at = self.random.randrange(len(self.values))
        tensor = self.values[at][1]
        rank, pick = tensor.dim(), self.random.choice
        dim = self.random.randrange(rank) if rank else 0
        other = self.random.randrange(rank) if rank else 0
        size = tensor.shape[dim] if rank else 1
        start = self.random.randrange(size)
        dims = list(range(rank))
        self.random.shuffle(dims)
        count = tensor.numel()
        sizes = pick([[count], [-1, 2], [2, -1], [1, count], [3, -1], [2, 3, -1]])
        kind, attrs = pick([
            ("transpose.int", {"dim0": dim, "dim1": other}),
            ("permute.default", {"dims": dims}),
            ("t.default", {}),
            ("select.int", {"dim": dim, "index": start}),
            ("select.int", {"dim": dim, "index": -1}),
            ("slice.Tensor", {"dim": dim, "start": start, "end": size}),
            ("slice.Tensor", {"dim": dim, "start": 0, "end": size, "step": 2}),
            ("narrow.default", {"dim": dim, "start": start, "length": size - start}),
            ("unsqueeze.default", {"dim": pick([0, -1, rank])}),
            ("squeeze.default", {}),
            ("view.default", {"size": sizes}),
            ("reshape.default", {"shape": sizes}),
            ("flatten.using_ints", {}),
            ("ravel.default", {}),
            ("real.default", {}),
            ("tensor_split.sections", {"sections": 2, "dim": dim}),
            ("unsafe_chunk.default", {"chunks": 2, "dim": dim}),
            ("vsplit.int", {"sections": 2}),
            ("diagonal.default", {"dim1": dim, "dim2": other}),
            ("split.Tensor", {"split_size": pick([1, 2]), "dim": dim}),
            ("unbind.int", {"dim": dim}),
            ("chunk.default", {"chunks": 2, "dim": dim}),
            ("contiguous.default", {}),
            ("expand.default", {"size": list(tensor.shape)}),
            ("alias.default", {}),
            ("detach.default", {}),
            ("movedim.int", {"source": dim, "destination": other}),
            ("to.dtype", {"dtype": torch.float32}),
            ("dropout.default", {"p": 0.5, "train": False}),
            ("atleast_2d.default", {}),
        ])  # fmt: skip
        self.call(kind, at, **attrs)

    def change_shape(self):
        """Change how a tensor sees its memory: its values are those of the result."""
        at = self.random.randrange(1, len(self.values))
        tensor = self.values[at][1]
        rank = tensor.dim()
        dim = self.random.randrange(rank) if rank else 0
        kind, attrs = self.random.choice([
            ("t_.default", {}), ("squeeze_.default", {}), ("detach_.default", {}),
            ("unsqueeze_.default", {"dim": dim}),
            ("squeeze_.dim", {"dim": dim}),
            ("transpose_.default", {"dim0": dim, "dim1": -1}),
            ("swapaxes_.default", {"axis0": 0, "axis1": dim}),
            ("swapdims_.default", {"dim0": dim, "dim1": 0}),
        ])  # fmt: skip
        if self.call(kind, at, **attrs):
            port = self.values[-1][0]
            self.values = [
                (port if each is tensor else known, each) for known, each in self.values
            ]

    def write(self):
        at = self.random.randrange(1, len(self.values))
        kind, attrs = self.random.choice([
            ("add_.Scalar", {"other": 1}), ("mul_.Scalar", {"other": 2}),
            ("zero_.default", {}), ("fill_.Scalar", {"value": 5.0}),
            ("sub_.Scalar", {"other": 3}), ("neg_.default", {}), ("abs_.default", {}),
            ("relu_.default", {}), ("clamp_.default", {"min": -4.0, "max": 40.0}),
        ])  # fmt: skip
        self.call(kind, at, **attrs)

    def write_value(self):
        """Write one value into another, or what broadcasts to it.

        What PyTorch computes is not defined where the two share memory.
        """
        at, source = (self.random.randrange(1, len(self.values)) for _ in range(2))
        memory = {self.values[i][1].untyped_storage().data_ptr() for i in (at, source)}
        if len(memory) == 2:
            kind = self.random.choice(["copy_.default", "add_.Tensor"])
            self.call(kind, at, source)

    def compute(self):
        at = self.random.randrange(len(self.values))
        kind = self.random.choice(["clone.default", "neg.default", "tanh.default"])
        self.call(kind, at)

    def finish(self):
        """The graph with results, and what these are in PyTorch."""
        chosen = self.random.sample(range(len(self.values)), min(6, len(self.values)))
        for at in chosen:
            self.graph.result(self.values[at][0])
        order_writes(self.graph, amanda.namespace(NAMESPACE))
        return [self.values[at][1].numpy() for at in chosen]


def _entry(tensor):
    return {
        "sizes": [{"as_int": n} for n in tensor.shape],
        "strides": [{"as_int": n} for n in tensor.stride()],
    }


def _dtypes(graph):
    """Element types of arguments as in graphs."""
    for op in graph:
        if "dtype" in op.attrs:
            op.attrs["dtype"] = amanda.DType("float32")


def run_program(seed):
    """The steps of a program, its results, and what PyTorch has for them."""
    program = Program(seed)
    for _ in range(program.random.randint(3, 14)):
        step = program.random.choices(
            [
                program.view, program.write, program.write_value, program.compute,
                program.change_shape,
            ],
            [5, 3, 2, 1, 2],
        )[0]  # fmt: skip
        step()
    expected = program.finish()
    _dtypes(program.graph)
    fed = program.feed.numpy()
    found = list(amanda.run(program.graph, {"x": fed}, backend="numpy").values())
    return program.lines, found, expected


def expect_equal(seeds):
    wrong = []
    for seed in seeds:
        lines, found, expected = run_program(seed)
        for have, want in zip(found, expected, strict=True):
            if have.shape != want.shape or not np.allclose(have, want, 1e-5, 1e-5):
                wrong.append((seed, lines))
                break
    assert not wrong, f"{len(wrong)} programs differ; the first: {wrong[0]}"


def test_random_programs():
    expect_equal(range(60))


@pytest.mark.scale
def test_many_random_programs():
    expect_equal(range(1000, 4000))
