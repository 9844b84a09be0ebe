"""Variables and the ops that save and restore them, for graphs of no SavedModel.

Large constants become variables, so that a model may have more than 2 GB, the most
that a GraphDef can hold, and so that it can be trained further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amanda.graph import Graph, Op, OutputPort, unused_name
from amanda.tensors import Tensor
from amanda.types import DType, Shape, TensorType, resource, string
from amanda_tf.derived_attributes import add_derived_attributes
from amanda_tf.loading.interface import parameter_node
from amanda_tf.messages import NODE_RECORDS, SAVED_RECORDS
from amanda_tf.nodes.names import node_names
from amanda_tf.notes import CONTROL_OUTPUT, TABLE_KEYS, TABLE_VALUES, VALUE
from amanda_tf.saved_messages import SAVED

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["with_saver"]

_LARGE: Final = 4096
"""Bytes from which on a constant becomes a variable."""
_SERVE: Final = "serve"


def with_saver(root: Graph, dictionary: Dictionary) -> Graph:
    """The graph itself where its file has ops that restore all of its variables; else
    a copy with such ops."""
    variables = [op for op in root if VALUE in op.attrs]
    facts = SAVED_RECORDS.of(root)
    if "meta" in facts and all("key" in NODE_RECORDS.of(op) for op in variables):
        return root
    copy = root.clone()
    copy.attrs.pop(SAVED_RECORDS.key, None)
    for op in list(copy):
        if op.is_constant and _becomes_variable(op):
            _make_variable(copy, op)
    variables = [op for op in copy if VALUE in op.attrs]
    tables = [op for op in copy if TABLE_KEYS in op.attrs and TABLE_VALUES in op.attrs]
    _name_nodes(copy, [*variables, *tables])
    _wait_for_effects(copy)
    for op in variables:
        facts = {k: v for k, v in NODE_RECORDS.of(op).items() if k not in _KEYS}
        op.attrs.pop(NODE_RECORDS.key, None)
        NODE_RECORDS.add(op, **facts, key=op.name)
    meta = SAVED.writer("MetaGraphDef").put("meta_info_def", _meta_info(dictionary))
    if variables:
        saver, collection = _add_saver(copy, variables)
        meta.put("saver_def", saver)
        for name in _COLLECTIONS:
            row = SAVED.writer("MetaGraphDef.CollectionDefEntry").put("key", name)
            meta.put("collection_def", row.put("value", collection).done())
    if tables:
        row = SAVED.writer("MetaGraphDef.CollectionDefEntry").put("key", _MAIN_OP)
        row.put("value", _add_initializers(copy, tables))
        meta.put("collection_def", row.done())
    add_derived_attributes(copy, dictionary)
    SAVED_RECORDS.add(copy, meta=meta.done())
    return copy


_KEYS: Final = ("key", "slice")
_COLLECTIONS: Final = ("variables", "trainable_variables")
"""Where users of a SavedModel find its variables."""
_MAIN_OP: Final = "saved_model_main_op"
"""The collection with the op that TensorFlow runs after it has loaded a model."""


def _wait_for_effects(graph: Graph) -> None:
    """Let results wait for the ops that run in every call: of a signature, TensorFlow
    runs what its results need."""
    values = [port.source for port in graph.result_ports if port.source is not None]
    needed = set(graph.upstream(*values))
    effects = [
        op for op in graph
        if op.has_attrs and op.attrs.get(CONTROL_OUTPUT) and op not in needed
    ]  # fmt: skip
    for port in graph.result_ports if effects else ():
        value = port.source
        if value is not None:
            name = f"{value.op.name or 'result'}/after"
            waiting = _add(graph, "Identity", [value], {}, name)
            waiting.output.type = value.type
            for op in effects:
                graph.control(op, waiting)
            port.connect(waiting.output)


def _name_nodes(graph: Graph, ops: list[Op]) -> None:
    """Give ops the names that their nodes will have, which keys and messages contain:
    those of the variables that they stand for, where they have none."""
    for op in ops:
        shared = op.attrs.get("shared_name")
        if not op.name and shared:
            graph.rename(op, graph.fresh_name(str(shared)))
    names = node_names(graph, results=True)
    for op in ops:
        if op.name != names[op]:
            graph.rename(op, names[op])
    _distinguish_in_lower_case(graph, ops)


def _distinguish_in_lower_case(graph: Graph, first: list[Op]) -> None:
    """Rename ops whose names differ from others in case only: TensorFlow renames them
    where it loads a model, and then misses those of results. The first ones, of which
    the names are keys, are the last to be renamed."""
    names = {op.name.lower() for op in graph if op.name}
    taken = {parameter_node(port).lower() for port in graph.parameters}
    for op in dict.fromkeys((*first, *graph)):
        if op.name and op.name.lower() in taken:
            graph.rename(op, unused_name(op.name, lambda n: n.lower() in names))
        if op.name:
            taken.add(op.name.lower())
            names.add(op.name.lower())


def _becomes_variable(op: Op) -> bool:
    value = op.attrs.get("value")
    return (
        isinstance(value, Tensor)
        and isinstance(value.dtype, DType)
        and value.dtype.kind != "string"
        and value.nbytes >= _LARGE
    )


def _make_variable(graph: Graph, op: Op) -> None:
    """Replace a constant by a variable and an op that reads it, of the same name."""
    value: Tensor = op.attrs["value"]
    name = op.name or graph.fresh_name("weight")
    op.name = None
    attrs: dict[str, Any] = {
        "container": "", "shared_name": f"{name}/variable", "dtype": value.dtype,
        "shape": Shape(value.shape), "allowed_devices": [], "debug_name": "",
    }  # fmt: skip
    with graph.before(op):
        handle = _add(graph, "VarHandleOp", [], attrs, f"{name}/variable", resource)
        handle.attrs[VALUE] = value
        read = _add(
            graph, "ReadVariableOp", [handle.output], {"dtype": value.dtype}, name
        )
    read.output.type = TensorType(value.dtype, value.shape)
    graph.replace_uses(op.output, read.output)
    graph.remove(op, "variable", [read.output])


def _add(
    graph: Graph,
    type: str,
    inputs: list[OutputPort],
    attrs: dict[str, Any],
    name: str,
    dtype: DType | None = None,
    outputs: int = 1,
) -> Op:
    """Add an op under this name, or one like it."""
    free = name if name not in graph else graph.fresh_name(name)
    made = graph.add(type, inputs, attrs, name=free, outputs=outputs)
    for port in made.outputs:
        port.type = None if dtype is None else TensorType(dtype)
    return made


def _add_saver(graph: Graph, variables: list[Op]) -> tuple[bytes, bytes]:
    """Add the ops that save and restore variables.

    Returns their SaverDef, and a CollectionDef that lists the variables.
    """
    keys = [op.name or "" for op in variables]
    dtypes = [op.attrs["dtype"] for op in variables]
    text = _constant(graph, Tensor.strings(["model"], ()), "save/filename/input")
    file = _add(
        graph, "PlaceholderWithDefault", [text],
        {"dtype": string, "shape": Shape([])}, "save/filename", string,
    ).output  # fmt: skip
    rows = [(keys, "tensor_names"), ([""] * len(keys), "shape_and_slices")]
    names, slices = (
        _constant(graph, Tensor.strings(items), f"save/RestoreV2/{label}")
        for items, label in rows
    )
    values = [_read(graph, op) for op in variables]
    saved = _add(
        graph, "SaveV2", [file, names, slices, *values],
        {"dtypes": dtypes, "has_manual_control_dependencies": False},
        "save/SaveV2", None, 0,
    )  # fmt: skip
    done = _add(
        graph, "Identity", [file], {"T": string}, "save/control_dependency", string
    )
    graph.control(saved, done)
    restored = _add(
        graph, "RestoreV2", [file, names, slices], {"dtypes": dtypes},
        "save/RestoreV2", None, len(keys),
    )  # fmt: skip
    end = _add(graph, "NoOp", [], {}, "save/restore_all", None, 0)
    listed = SAVED.writer("CollectionDef.BytesList")
    for op, value, read in zip(variables, restored.outputs, values, strict=True):
        value.type = TensorType(op.attrs["dtype"])
        assigned = _assign(graph, op, value)
        graph.control(assigned, end)
        listed.put("value", _variable_def(op, assigned, read))
    writer = SAVED.writer("SaverDef").put("filename_tensor_name", f"{file.op.name}:0")
    writer.put("save_tensor_name", f"{done.name}:0")
    writer.put("restore_op_name", end.name).put("max_to_keep", 5)
    collection = SAVED.writer("CollectionDef").put("bytes_list", listed.done())
    return writer.put("version", 2).done(), collection.done()


def _add_initializers(graph: Graph, tables: list[Op]) -> bytes:
    """Add ops that fill lookup tables; returns the CollectionDef that lists them."""
    end = _add(graph, "NoOp", [], {}, "save/init_tables", None, 0)
    for op in tables:
        name = f"save/{op.name}"
        content = [
            _constant(graph, op.attrs[key], f"{name}/{label}")
            for key, label in ((TABLE_KEYS, "keys"), (TABLE_VALUES, "values"))
        ]
        kind = (
            "LookupTableImport" if "Mutable" in (op.type or "") else "InitializeTable"
        )
        kind += "" if op.type in ("HashTable", "MutableHashTable") else "V2"
        filled = _add(graph, kind, [op.output, *content], {}, f"{name}/init", None, 0)
        graph.control(filled, end)
    listed = SAVED.writer("CollectionDef.NodeList").put("value", end.name)
    return SAVED.writer("CollectionDef").put("node_list", listed.done()).done()


def _variable_def(op: Op, assigned: Op, read: OutputPort) -> bytes:
    """The VariableDef of a variable."""
    writer = SAVED.writer("VariableDef").put("variable_name", f"{op.name}:0")
    writer.put("initializer_name", assigned.name)
    writer.put("snapshot_name", f"{read.op.name}:0")
    writer.put("is_resource", op.type == "VarHandleOp")
    return writer.put("trainable", True).done()


def _constant(graph: Graph, value: Tensor, name: str) -> OutputPort:
    free = name if name not in graph else graph.fresh_name(name)
    made = graph.constant(value, free)
    made.output.type = value.type
    return made.output


def _read(graph: Graph, op: Op) -> OutputPort:
    """The value of a variable."""
    if op.type != "VarHandleOp":  # a reference
        return op.output
    attrs = {"dtype": op.attrs["dtype"]}
    name = f"save/{op.name}/Read"
    return _add(
        graph, "ReadVariableOp", [op.output], attrs, name, op.attrs["dtype"]
    ).output


def _assign(graph: Graph, op: Op, value: OutputPort) -> Op:
    dtype = op.attrs["dtype"]
    if op.type == "VarHandleOp":
        attrs = {"dtype": dtype, "validate_shape": False}
        name = f"save/{op.name}/AssignVariableOp"
        return _add(graph, "AssignVariableOp", [op.output, value], attrs, name, None, 0)
    attrs = {"T": dtype, "validate_shape": True, "use_locking": True}
    return _add(
        graph, "Assign", [op.output, value], attrs, f"save/{op.name}/Assign", dtype
    )


def _meta_info(dictionary: Dictionary) -> bytes:
    writer = SAVED.writer("MetaGraphDef.MetaInfoDef").put_all("tags", [_SERVE])
    version = dictionary.name.rpartition("/")[2]
    return bytes(writer.put("tensorflow_version", version).done())
