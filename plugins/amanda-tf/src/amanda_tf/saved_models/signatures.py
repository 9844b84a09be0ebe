"""Signatures as entries of graphs.

A sparse or composite tensor is one tensor for each component: `x.values`, `x.0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amanda.errors import FormatError, UsageError
from amanda.graph import Entry, Graph, OutputPort, unused_name
from amanda.types import Shape, TensorType
from amanda_tf.derived_attributes import element_type
from amanda_tf.loading.interface import value_of
from amanda_tf.messages import ELEMENT_TYPES
from amanda_tf.nodes.references import Spelling
from amanda_tf.saved_messages import SAVED
from amanda_tf.tensors import encode_shape

__all__ = ["DEFAULT", "add_entries", "default_signature", "signature_fields"]

DEFAULT = "serving_default"
_SIDES = ("inputs", "outputs")
_COMPONENTS = ("values", "indices", "dense_shape")
_DEPTH = 20


def add_entries(graph: Graph, signatures: Mapping[str, bytes]) -> None:
    """Add an entry for every signature whose inputs and outputs are tensors."""
    for name, raw in signatures.items():
        inputs, outputs = (_tensor_names(raw, side) for side in _SIDES)
        if not _can_be_entry(graph, outputs):
            continue
        try:
            graph.set_entry(
                name,
                {key: value_of(graph, text) for key, text in inputs.items()},
                {key: value_of(graph, text) for key, text in outputs.items()},
            )
        except UsageError as error:
            raise FormatError(error.message, who=f"signature {name!r}") from error


def _can_be_entry(graph: Graph, outputs: Mapping[str, str]) -> bool:
    """Whether a signature has results; that of an initializer names an op without."""
    names = [text.partition(":")[0] for text in outputs.values()]
    return bool(names) and all(
        not (name in graph and not graph[name].outputs) for name in names
    )


def _tensor_names(raw: bytes, side: str) -> dict[str, str]:
    """The tensor of every input or output, by its key."""
    data = memoryview(raw)
    kind = f"SignatureDef.{side.capitalize()}Entry"
    found: dict[str, str] = {}
    for span in SAVED.read("SignatureDef", data).get(side, ()):
        entry = SAVED.read(kind, data, *span)
        info = entry.get("value", (0, 0))
        found.update(_names_of(data, info, entry.get("key", ""), 0))
    return found


def _names_of(
    data: memoryview, span: tuple[int, int], key: str, depth: int
) -> Iterator[tuple[str, str]]:
    if depth > _DEPTH:
        raise FormatError("a signature is nested too deeply", who=key)
    fields = SAVED.read("TensorInfo", data, *span)
    if "coo_sparse" in fields:
        sparse = SAVED.read("TensorInfo.CooSparse", data, *fields["coo_sparse"])
        for part in _COMPONENTS:
            yield f"{key}.{part}", sparse.get(f"{part}_tensor_name", "")
    elif "composite_tensor" in fields:
        at = fields["composite_tensor"]
        parts = SAVED.read("TensorInfo.CompositeTensor", data, *at)
        for i, each in enumerate(parts.get("components", ())):
            yield from _names_of(data, each, f"{key}.{i}", depth + 1)
    else:
        yield key, fields.get("name", "")


def default_signature(graph: Graph) -> str | None:
    """The entry that is called when none is named."""
    if DEFAULT in graph.entries:
        return DEFAULT
    return next(iter(graph.entries)) if len(graph.entries) == 1 else None


# -- writing -----------------------------------------------------------------------


def signature_fields(
    graph: Graph, recorded: Mapping[str, bytes], spelling: Spelling
) -> bytes:
    """The signatures of a MetaGraphDef; as recorded, where they still hold."""
    whole = _whole_graph(graph)
    entries = dict(graph.entries) or ({DEFAULT: whole} if whole.outputs else {})
    found = {
        name: raw
        for name, raw in recorded.items()
        if not _can_be_entry(graph, _tensor_names(raw, "outputs"))
    }
    for name, entry in entries.items():
        old = recorded.get(name)
        is_same = old is not None and all(
            {k: _full(t) for k, t in _tensor_names(old, side).items()}
            == {k: _reference(v, graph, spelling) for k, v in values.items()}
            for side, values in zip(_SIDES, entry, strict=True)
        )
        found[name] = old if is_same and old else _encode(entry, graph, spelling)
    writer = SAVED.writer("MetaGraphDef")
    for name, raw in found.items():
        each = SAVED.writer("MetaGraphDef.SignatureDefEntry").put("key", name)
        writer.put("signature_def", each.put("value", raw).done())
    return writer.done()


def _whole_graph(graph: Graph) -> Entry:
    """The inputs and results of a graph, by name."""
    inputs = {
        port.name or f"input_{i}": port for i, port in enumerate(graph.parameters)
    }
    outputs: dict[str, OutputPort] = {}
    for i, (port, value) in enumerate(zip(graph.outputs, graph.results, strict=True)):
        if value is not None:
            name = unused_name(port.name or f"output_{i}", outputs.__contains__)
            outputs[name] = value
    return Entry(inputs, outputs)


def _full(text: str) -> str:
    return text if ":" in text else f"{text}:0"


def _reference(value: OutputPort, graph: Graph, spelling: Spelling) -> str:
    return _full(spelling.value(value, graph))


def _encode(entry: Entry, graph: Graph, spelling: Spelling) -> bytes:
    writer: Any = SAVED.writer("SignatureDef")
    for side, values in zip(_SIDES, entry, strict=True):
        kind = f"SignatureDef.{side.capitalize()}Entry"
        for key, value in values.items():
            info = SAVED.writer("TensorInfo")
            info.put("name", _reference(value, graph, spelling))
            dtype = element_type(value.type)
            if dtype is None:
                raise FormatError(
                    "an input or output of a signature without an element type",
                    who=key,
                )
            type = value.type
            shape = type.shape if isinstance(type, TensorType) else Shape(None)
            info.put("dtype", ELEMENT_TYPES.code(dtype))
            info.put("tensor_shape", encode_shape(shape))
            each = SAVED.writer(kind).put("key", key).put("value", info.done())
            writer.put(side, each.done())
    return bytes(writer.put("method_name", "tensorflow/serving/predict").done())
