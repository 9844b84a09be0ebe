"""SavedModels, binary and as text, and MetaGraphs: a mutant has all of their files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from fuzz.graph_files import change_text
from fuzz.messages import change_message
from fuzz.readers import Mutant, Reader
from fuzz.stages import run_stage, try_stages
from proto.proto_mutations import break_bytes

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, TensorType

__all__ = ["READERS"]

_FLOAT = DType("float32")
_SAVED = "variables/variables.index", "variables/variables.data-00000-of-00001"
_ASSET = "assets/words.txt"
_KINDS = (
    ("saved_model.pb", *_SAVED, _ASSET), ("saved_model.pbtxt", *_SAVED, _ASSET),
    ("model.meta", "model.index", "model.data-00000-of-00001"),
)  # fmt: skip
"""The names of the files of a mutant, whose first byte is the place of its row here."""
_WORDS = b"one\ntwo\n"


def _model(width: int) -> Graph:
    """A call of a function on a product with a variable, and a lookup table."""
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
    _add_table(graph)
    return graph


def _add_table(graph: Graph) -> None:
    text, number = DType("string"), DType("int64")
    path = graph.constant(Tensor.strings([b"words.txt"], ()), "path")
    kinds = {"key_dtype": text, "value_dtype": number, "shared_name": "table"}
    table = graph.add("HashTableV2", [], kinds, name="table")
    table.output.type = TensorType("resource")
    attrs = {"key_index": -2, "value_index": -1, "vocab_size": 2, "delimiter": ","}
    inputs = [table.output, path.output]
    start = graph.add(
        "InitializeTableFromTextFileV2", inputs, attrs, name="fill", outputs=0
    )
    word = graph.parameter(TensorType(text, [2]), "word")
    default = graph.constant(Tensor.of(-1, "int64"), "default")
    types = {"Tin": text, "Tout": number}
    inputs = [table.output, word, default.output]
    found = graph.add("LookupTableFindV2", inputs, types, name="found")
    for op in (path, default, found):
        op.output.type = TensorType(text if op is path else number)
    graph.control(start, found)
    graph.result(found.output, "found")


def _name_asset(data: bytes) -> bytes:
    """A SavedModel whose constant `path` is the path of an asset."""
    from amanda_tf.saved_messages import SAVED

    info = SAVED.writer("TensorInfo").put("name", "path:0").done()
    asset = SAVED.writer("AssetFileDef").put("tensor_info", info)
    row = asset.put("filename", "words.txt").done()
    fields = SAVED.read("SavedModel", data)
    [(start, end)] = fields["meta_graphs"]
    meta = SAVED.writer("MetaGraphDef").put("asset_file_def", row).done()
    writer = SAVED.writer("SavedModel").put("saved_model_schema_version", 1)
    return bytes(writer.put("meta_graphs", data[start:end] + meta).done())


def _pack(kind: int, files: Sequence[bytes]) -> bytes:
    parts = [len(each).to_bytes(4, "little") + each for each in files]
    return bytes([kind]) + b"".join(parts)


def _unpack(data: bytes) -> tuple[int, list[bytes]]:
    files, at = [], 1
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        files.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return data[0], files


@cache
def _seeds() -> tuple[Mutant, ...]:
    found = []
    for width in (2, 500):
        with TemporaryDirectory() as name:
            for kind, names in enumerate(_KINDS):
                files = _files_of(_model(width), Path(name, str(kind)), kind, names)
                found.append(Mutant("saved", _pack(kind, files)))
    return tuple(found)


def _files_of(
    graph: Graph, folder: Path, kind: int, names: Sequence[str]
) -> list[bytes]:
    folder.mkdir()
    if names[0].endswith(".meta"):
        amanda.save(graph, folder / names[0])
        return [
            p.read_bytes() if p.exists() else b"" for p in map(folder.joinpath, names)
        ]
    amanda.save(graph, folder / "model")
    paths = [folder / "model" / each for each in ("saved_model.pb", *names[1:3])]
    files = [p.read_bytes() if p.exists() else b"" for p in paths]
    files[0] = _name_asset(files[0])
    if kind == 1:
        from amanda.formatkit import print_text_format
        from amanda_tf.saved_messages import SAVED

        files[0] = print_text_format(SAVED, "SavedModel", files[0]).encode()
    return [*files, _WORDS]


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    from amanda_tf.saved_messages import SAVED

    del good
    kind, files = _unpack(data)
    at = choose.choice([0, 0, 0, 1, 1, len(files) - 1])
    if at == 0 and kind == 1:
        files[0] = change_text(files[0], [files[0]], choose)
    elif at == 0:
        message = "MetaGraphDef" if kind == 2 else "SavedModel"
        files[0] = change_message(SAVED, message, files[0], choose)
    elif at == 1 and choose.random() < 0.7 and files[1]:
        files[1] = _change_index(files[1], choose)
    elif choose.random() < 0.2:
        files[at] = b""  # is missing
    else:
        files[at] = break_bytes(files[at], choose)
    return _pack(kind, files)


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
    kind, files = _unpack(path.read_bytes())
    rmtree(model, ignore_errors=True)
    for name, content in zip(_KINDS[kind], files, strict=True):
        file = model / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content:
            file.write_bytes(content)
    source = model / _KINDS[kind][0] if kind == 2 else model
    run_stage("freeze", _load_frozen, source)
    goals = ["amanda/std/1"] if choose.random() < 0.3 else []
    return try_stages(source, folder, choose, goals=goals)


def _load_frozen(path: Path) -> Graph:
    """The graph with frozen variables; errors name the file."""
    try:
        return amanda.load(path, variables="freeze")
    except AmandaError as error:
        if path.name not in str(error):
            raise AssertionError(f"an error that names no file: {error}") from error
        raise


READERS = [Reader("saved-models", 5, _seeds, _change, _attempt)]
