"""SavedModels: folders of a graph, variables and an asset, in one mutant each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.messages import change_message
from fuzz.readers import Mutant, Reader
from fuzz.stages import try_stages
from proto.proto_mutations import break_bytes

import amanda
from amanda.graph import Graph
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, TensorType

__all__ = ["READERS"]

_FLOAT = DType("float32")
_INDEX = "variables/variables.index"
_DATA = "variables/variables.data-00000-of-00001"
_NAMES = ("saved_model.pb", _INDEX, _DATA, "assets/words.txt")


def _model(width: int) -> Graph:
    """A call of a function on a product with a variable."""
    graph = Graph(amanda.namespace("tensorflow").name)
    x = graph.parameter(TensorType(_FLOAT, [2, 3]), "x")
    weight = graph.constant(Tensor.splat("float32", (3, width), 0.5), "w")
    weight.output.type = weight.attrs["value"].type
    attrs = {"transpose_a": False, "transpose_b": False, "T": _FLOAT}
    product = graph.add("MatMul", [x, weight.output], attrs, name="product")
    body = graph.add_function("twice", Graph(graph.namespace, "twice"))
    inner = body.parameter(TensorType(_FLOAT), "x")
    add = body.add("AddV2", [inner, inner], {"T": _FLOAT}, name="add")
    body.result(add.output, "y")
    call = {"Tin": [_FLOAT], "Tout": [_FLOAT], "f": FunctionRef("twice")}
    call |= dict.fromkeys(("config", "config_proto", "executor_type"), "")
    y = graph.add("PartitionedCall", [product.output], call, name="call")
    for op in (product, y, add):
        op.output.type = TensorType(_FLOAT)
    graph.result(y.output, "y")
    return graph


def _pack(files: Sequence[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "little") + each for each in files)


def _unpack(data: bytes) -> list[bytes]:
    files, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        files.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return files


@cache
def _seeds() -> tuple[Mutant, ...]:
    found = []
    for width in (2, 500):
        with TemporaryDirectory() as name:
            folder = Path(name, "model")
            amanda.save(_model(width), folder)
            paths = [folder / each for each in _NAMES]
            files = [p.read_bytes() if p.exists() else b"" for p in paths]
            files[-1] = b"one\ntwo\n"
            found.append(Mutant("saved", _pack(files)))
    return tuple(found)


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    from amanda_tf.saved_messages import SAVED

    del good
    files = _unpack(data)
    at = choose.choice([0, 0, 0, 1, 1, 2])
    if at == 0:
        files[0] = change_message(SAVED, "SavedModel", files[0], choose)
    elif at == 1 and choose.random() < 0.7 and files[1]:
        files[1] = _change_index(files[1], choose)
    elif choose.random() < 0.2:
        files[at] = b""  # is missing
    else:
        files[at] = break_bytes(files[at], choose)
    return _pack(files)


def _change_index(data: bytes, choose: random.Random) -> bytes:
    """An index whose checksums are right, with another entry."""
    from amanda_tf.checkpoints.table import Table, table_bytes
    from amanda_tf.saved_messages import SAVED

    rows = [(key, bytes(value)) for key, value in Table(memoryview(data), "")]
    place = choose.randrange(len(rows))
    key, value = rows[place]
    kind = "BundleEntryProto" if key else "BundleHeaderProto"
    rows[place] = key, change_message(SAVED, kind, value, choose)
    return table_bytes(rows)


def _attempt(path: Path, folder: Path, choose: random.Random) -> str:
    model = folder / "model"
    for name, content in zip(_NAMES, _unpack(path.read_bytes()), strict=True):
        file = model / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if content:
            file.write_bytes(content)
    return try_stages(model, folder, choose)


READERS = [Reader("saved-models", 5, _seeds, _change, _attempt)]
