"""Files to break, and ways to break them."""

from __future__ import annotations

import io
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from amanda.errors import AmandaError
from amanda.files.binary import codec
from amanda.files.binary.messages import CODEC, message_classes
from amanda.files.binary.stored_zip import ArchiveWriter
from amanda.graph import Graph, Provenance
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym, TensorType

ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "500"))

FIELDS = {name: message.fields for name, message in CODEC.schema.messages.items()}


def plain() -> Graph:
    graph = Graph("amanda/std/1", "plain")
    value = graph.parameter(TensorType("float32", [Sym.named("n"), 3]), "x")
    for i in range(12):
        attrs = {"axes": [0, -1], "mode": "same", "alpha": 0.5, "flag": True}
        op = graph.add("f", [value, None, value], attrs, name=f"f{i}")
        value = op.output
        value.type = TensorType("float32", [Sym.unknown(), 3])
    graph.result(value, "y")
    return graph


def rich() -> Graph:
    graph = Graph("amanda/std/1", "rich")
    x = graph.parameter(name="x")
    x.mark("keep")
    weight = graph.constant(Tensor.of(np.arange(6, dtype="int32")), "w").output
    graph.constant(Tensor.strings(["a", "bc", ""]), "texts")
    graph.constant(Tensor.splat("float32", (10, 10), 0.5), "splat")
    body = Graph(name="body", outer=graph)
    y = body.parameter()
    body.result(body.add("g", [y, weight, x], name="g").output, "out")
    held = Graph(name="held", outer=graph)
    held.result(held.add("h", [weight], outputs=2).outputs[1])
    both = graph.add("If", [x], bodies={"then": body, "else": held}, outputs=0)
    sub = Graph("other", "sub", outer=graph)
    p = sub.parameter(name="p")
    last = sub.add("k", [p], name="k")
    sub.control(sub, last)
    sub.control(last, sub, {"why": 1})
    sub.result(last.output)
    graph.add_graph(sub, [weight])
    graph.control(both, sub, {"order": [1, [2, {"a": b"b"}]]})
    merge = graph.add("Merge", [x, None], name="merge")
    back = graph.add("NextIteration", [merge.output], feedback=True)
    merge.input_ports[1].connect(back.output)
    merge.input_ports[1].edge_attrs["loop"] = None
    merge.provenance = Provenance(("a", "b"), "rule 7")
    graph.add_function("fun", Graph(name="fun")).add("call", name="c")
    dims = Shape([Sym.unknown(), Sym.named("n") * 2, 3])
    graph.attrs.update(
        shape=dims, dtype=DType("int4"), big=1 << 100, f=FunctionRef("fun")
    )
    graph.set_entry("serve", {"x": x}, {"w": weight})
    graph.imports["ai.onnx"] = 18
    graph.result(weight)
    return graph


def break_bytes(data: bytes, choose: random.Random) -> bytes:
    """One to four changes that know nothing of the format."""
    out = bytearray(data)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        size = len(out)
        at = choose.randrange(size + 1)
        part = out[at : at + choose.choice([1, 2, 4, 16, 64])]
        match choose.randrange(8):
            case 0:
                del out[at:]
            case 1 if at < size:
                out[at] ^= 1 << choose.randrange(8)
            case 2 if at < size:
                out[at] = choose.choice([0, 1, 127, 128, 255, choose.randrange(256)])
            case 3:
                del out[at : at + len(part)]
            case 4:
                out[at:at] = part
            case 5:
                out[at:at] = choose.randbytes(choose.randrange(1, 9))
            case 6:
                out[at : at + 1] = b"\xff" * choose.randrange(1, 10) + b"\x01"
            case 7:
                other = choose.randrange(size + 1)
                out[at : at + len(part)] = out[other : other + len(part)]
    return bytes(out)


def break_messages(data: bytes, choose: random.Random) -> bytes:
    """One to four changes that leave a valid protobuf file with other content."""
    model = message_classes()["Model"].FromString(data)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        messages = list(walk(model, "Model"))
        message, kind = choose.choice(messages)
        name = choose.choice(list(FIELDS[kind]))
        spec = FIELDS[kind][name]
        if spec.repeated:
            break_list(getattr(message, name), spec.type, choose, messages)
        elif spec.type in FIELDS:
            others = [other for other, its in messages if its == spec.type]
            if others:
                getattr(message, name).CopyFrom(choose.choice(others))
        else:
            setattr(message, name, value_of(spec.type, choose))
    return bytes(model.SerializeToString())


def break_list(
    items: Any, kind: str, choose: random.Random, messages: list[Any]
) -> None:
    at = choose.randrange(len(items)) if items else 0
    what = choose.randrange(4)
    if what == 0 and items:
        del items[at]
    elif kind not in FIELDS:
        if what == 1 and items:
            items[at] = value_of(kind, choose)
        else:
            items.append(value_of(kind, choose))
    elif what == 1 and len(items) > 1:
        items[at].CopyFrom(items[at - 1])
    elif what == 2:
        others = [other for other, its in messages if its == kind]
        if others:
            items.add().CopyFrom(choose.choice(others))
    else:
        items.add()


def break_archive(data: bytes, choose: random.Random) -> bytes:
    """Break the archive, or a member within a sound archive."""
    target = choose.choice(["archive", "directory", *["member"] * 4])
    if target == "archive":
        return break_bytes(data, choose)
    if target == "directory":
        start = data.index(b"PK\1\2")
        return data[:start] + break_bytes(data[start:], choose)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        content = {name: found.read(name) for name in found.namelist()}
    name = choose.choice(list(content))
    change = break_bytes
    if name == "graph.pb" and choose.random() < 0.5:
        change = break_messages
    content[name] = change(content[name], choose)
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        for key, value in content.items():
            writer.add(key, len(value), [value])
    return file.getvalue()


def value_of(kind: str, choose: random.Random) -> Any:
    if kind in ("string", "bytes"):
        words = [
            "",
            "x",
            "f1",
            "float32",
            "[n, 3]",
            "float32[?1]",
            "\0",
            "w",
            "a" * 300,
        ]
        word = choose.choice([*words, "((((" * 50, "9" * 400, "float32[9999999999999]"])
        return word if kind == "string" else word.encode()
    if kind == "double":
        return choose.choice([0.0, float("nan"), 1e308])
    if kind == "bool":
        return choose.random() < 0.5
    return choose.choice([*range(8), 60, 1 << 31, (1 << 63) - 1])


def walk(message: Any, kind: str) -> Iterator[tuple[Any, str]]:
    yield message, kind
    for name, spec in FIELDS[kind].items():
        if spec.type in FIELDS:
            held = getattr(message, name)
            for inner in held if spec.repeated else [held]:
                if spec.repeated or message.HasField(name):
                    yield from walk(inner, spec.type)


def only_errors_of_ours(read: Callable[[bytes], Graph], data: bytes) -> bool:
    """Read broken bytes; what can be read must be a sound graph."""
    try:
        graph = read(data)
    except AmandaError as error:
        return not str(error)
    assert graph.check() == []
    again = codec.dumps(graph)
    assert codec.dumps(codec.loads(again)) == again
    return True
