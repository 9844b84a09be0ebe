"""Exported programs of PyTorch: archives, and the JSON in them, broken."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Sequence
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.readers import Mutant, Reader
from fuzz.stages import try_stages
from proto.proto_mutations import break_archive

import amanda
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor

__all__ = ["READERS"]

_VERSION = "amanda/torch/2.13.0"


def _weight(graph: Graph, name: str, kind: str, shape: tuple[int, ...]) -> OutputPort:
    value = Tensor.splat("float32", shape, 0.5)
    attrs = {"target": name, "kind": kind, "x-value": value}
    port = graph.add("get_attr", [], attrs, name=f"w_{name}").output
    port.type = value.type
    return port


def _program() -> Graph:
    """Symbolic sizes, a branch, lists of values, a buffer that is written."""
    graph = Graph(_VERSION)
    ops: Any = amanda.namespace("torch@2.13.0")
    ops = ops.build(graph)
    x = graph.parameter("float32[n, 4]", "x")
    weight = _weight(graph, "weight", "parameter", (3, 4))
    count = _weight(graph, "count", "buffer", ())
    added = ops["aten.add_.Tensor"](count, 1)
    added.type = count.type
    y = ops["aten.linear.default"](x, weight)
    y.type = "float32[n, 3]"
    n = ops["aten.sym_size.int"](x, 0)
    n.type = "int64[] = n"
    size = ops["_operator.mul"](n, 3)
    size.type = "int64[] = 3*n"
    flat = ops["aten.view.default"](y, [size])
    flat.type = "float32[3*n]"
    total = ops["aten.sum.default"](y)
    total.type = "float32[]"
    graph.control(added.op, total.op)
    wanted = ops["aten.gt.Scalar"](total, 0)
    wanted.type = "bool[]"
    bodies = {"true_fn": _branch("aten.relu.default", "true_graph"),
              "false_fn": _branch("aten.neg.default", "false_graph")}  # fmt: skip
    branch = graph.add("higher_order.cond", [wanted, y], name="cond", bodies=bodies)
    branch.output.type = "float32[n, 3]"
    parts = ops["aten.split.Tensor"](y, 2, 1, outputs=2)
    joined = ops["aten.cat.default"](list(parts), 1)
    for port, columns in zip((*parts, joined), (2, 1, 3), strict=True):
        port.type = f"float32[n, {columns}]"
    for value in (flat, branch.output, joined, n):
        graph.result(value)
    return graph


def _branch(type: str, name: str) -> Graph:
    body = Graph(_VERSION, name)
    x = body.parameter("float32[n, 3]", "x")
    y = body.add(type, [x], name="y").output
    y.type = "float32[n, 3]"
    body.result(y, "y")
    return body


@cache
def _seeds() -> tuple[Mutant, ...]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        amanda.save(_program(), path)
        return (Mutant("pt2", path.read_bytes()),)


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    del good
    if choose.random() < 1 / 3:
        return break_archive(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        members = {name: found.read(name) for name in found.namelist()}
    name = choose.choice([n for n in members if n.endswith(".json")] * 2 + _PROGRAMS)
    value = json.loads(members[name])
    for _ in range(choose.randint(1, 3)):
        _change_value(value, choose)
    members[name] = json.dumps(value).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return out.getvalue()


_PROGRAMS = ["program/models/model.json"] * 6
_OTHERS = (
    None, True, -1, 0, 1 << 70, 1e300, "", "x", "as_int", [], {}, [[]], {"as_int": 0},
    {"as_tensor": {"name": "x"}}, "Pow(Symbol('s'), Symbol('s'))", "Mul(" * 60,
)  # fmt: skip


def _change_value(value: Any, choose: random.Random) -> None:
    """Replace, remove, repeat or rename something at a random place."""
    holder, places = value, _places(value)
    while places:
        place = choose.choice(places)
        inner = _places(holder[place])
        if not inner or choose.random() < 0.15:
            break
        holder, places = holder[place], inner
    else:
        return
    way = choose.randrange(4)
    if way == 0:
        del holder[place]
    elif way == 1 and isinstance(holder, list):
        holder.insert(choose.choice(places), holder[place])
    elif way == 2 and isinstance(holder, dict):
        holder[choose.choice(["name", "as_ints", "arg", str(place) + "_"])] = (
            holder.pop(place)
        )
    else:
        holder[place] = deepcopy(choose.choice(_OTHERS))


def _places(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else (
        list(range(len(value))) if isinstance(value, list) else []
    )  # fmt: skip


_ATTEMPT = partial(try_stages, goals=("amanda/std/1",))

READERS = [Reader("torch", 10, _seeds, _change, _ATTEMPT)]
