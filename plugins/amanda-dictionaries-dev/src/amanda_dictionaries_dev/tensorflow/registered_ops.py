"""Query the op list of the installed TensorFlow. Runs as a separate process.

    python -m ...tensorflow.registered_ops list FOLDER    op list of the library, bytes
    python -m ...tensorflow.registered_ops all FOLDER     version, ops and docs, as JSON

FOLDER is TensorFlow's. The process that loads the library does not import TensorFlow,
since its Python modules register ops of its tests, and other packages theirs, in the
same list.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PARTS = ("libtensorflow_framework", "libtensorflow_cc")


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("free", ctypes.c_void_p),
    )


def serialized_op_list(folder: Path) -> bytes:
    """The op list, serialized by the library itself."""
    mode = os.RTLD_LAZY | os.RTLD_GLOBAL
    libraries = []
    for part in _PARTS:
        (file,) = (f for f in folder.glob(f"{part}*") if f.suffix in (".2", ".dylib"))
        libraries.append(ctypes.CDLL(str(file), mode=mode))
    function = libraries[-1].TF_GetAllOpList
    function.restype = ctypes.POINTER(_Buffer)
    buffer = function().contents
    return ctypes.string_at(buffer.data, buffer.length)


def parse_op_list(content: bytes) -> dict[str, Any]:
    """Parse a serialized op list into rows of raw data."""
    from tensorflow.core.framework import op_def_pb2

    return {op.name: _op(op) for op in op_def_pb2.OpList.FromString(content).op}


def _op(op: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "inputs": [_port(port) for port in op.input_arg],
        "outputs": [_port(port) for port in op.output_arg],
        "attrs": [[attr.name, _attr(attr)] for attr in op.attr],
        "aggregate": op.is_aggregate,
        "commutative": op.is_commutative,
        "distributed": op.is_distributed_communication,
        "stateful": op.is_stateful,
        "uninitialized_input": op.allows_uninitialized_input,
    }
    if op.HasField("deprecation"):
        row["deprecation"] = {
            "version": op.deprecation.version,
            "explanation": op.deprecation.explanation,
        }
    return row


def _port(port: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": port.name, "ref": port.is_ref}
    for key in ("type_attr", "number_attr", "type_list_attr"):
        if getattr(port, key):
            row[key] = getattr(port, key)
    if port.type:
        row["type"] = _dtype(port.type)
    return row


def _attr(attr: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"type": attr.type}
    if attr.HasField("default_value"):
        row["default"] = _value(attr.default_value)
    if attr.HasField("allowed_values"):
        row["allowed"] = _value(attr.allowed_values)
    if attr.has_minimum:
        row["min"] = attr.minimum
    return row


def _value(value: Any) -> Any:
    """Convert an AttrValue to raw data."""
    kind = value.WhichOneof("value")
    if kind != "list":
        return _TO_JSON[kind](getattr(value, kind))
    fields = [(field.name, items) for field, items in value.list.ListFields()]
    return [_TO_JSON[name](item) for name, items in fields for item in items]


def _dtype(number: int) -> str:
    from tensorflow.python.framework.dtypes import as_dtype

    return str(as_dtype(number).name)


def _shape(shape: Any) -> dict[str, Any]:
    return {"shape": None if shape.unknown_rank else [dim.size for dim in shape.dim]}


_TO_JSON: Mapping[str, Callable[[Any], Any]] = {
    "b": bool,
    "f": float,
    "func": lambda value: {"func": value.name},
    "i": int,
    "s": bytes.decode,
    "shape": _shape,
    "tensor": lambda value: {"tensor": value.SerializeToString().hex()},
    "type": _dtype,
}


def read_docs() -> dict[str, str]:
    """Docstrings of the public ops, from `tf.raw_ops`."""
    from tensorflow import raw_ops

    found = {name: getattr(raw_ops, name).__doc__ or "" for name in dir(raw_ops)}
    return {name: text for name, text in found.items() if text and name[0] != "_"}


def query(folder: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "amanda_dictionaries_dev.tensorflow.registered_ops",
        "list",
        folder,
    ]
    content = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    import tensorflow as tf

    return {
        "version": tf.__version__,
        "ops": parse_op_list(content),
        "docs": read_docs(),
    }


def main(what: str, folder: str) -> None:
    if what == "list":
        sys.stdout.buffer.write(serialized_op_list(Path(folder)))
    else:
        sys.stdout.write(json.dumps(query(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
