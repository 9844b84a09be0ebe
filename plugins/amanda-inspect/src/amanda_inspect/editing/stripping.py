"""What a model does not need to run: documentation, parts for training, names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from amanda.errors import UsageError
from amanda.graph import SCOPES_RECORD, Graph, is_record
from amanda_inspect.editing.rewriting import remove_ops

__all__ = ["STRIPPED", "strip"]

STRIPPED: Final = ("docs", "training", "names")
_DOCS: Final = {"doc_string", "metadata_props", "description", "stack_trace"}
"""Keys of the records of formats that only people read."""
_TRAINING: Final = {"training_info"}


def strip(graph: Graph, *parts: str) -> int:
    """Remove `docs`, parts for `training` and `names` inside; returns how many.

    Documentation is that of the file and of each op, with source lines. For training
    are its records and Dropout without an effect. Names of inputs and outputs stay.
    """
    unknown = [part for part in parts if part not in STRIPPED]
    if unknown or not parts:
        raise UsageError(
            "it is not clear what to strip", expected=", ".join(STRIPPED),
            got=", ".join(parts) or "nothing",
        )  # fmt: skip
    count = 0
    if "docs" in parts:
        count += _strip_records(graph, _DOCS) + _strip_scopes(graph)
    if "training" in parts:
        count += _strip_records(graph, _TRAINING) + _remove_dropout(graph)
    if "names" in parts:
        count += _strip_names(graph)
    return count


def _attributes(graph: Graph) -> list[dict[str, Any]]:
    """The attributes of the graph, of its ops at any depth and of their ports."""
    found = []
    for part in graph.graphs():
        for holder in (part, *part):
            found += [holder.attrs] if holder.has_attrs else []
            ports = (*holder.outputs, *getattr(holder, "parameters", ()))
            found += [port.attrs for port in ports if port.has_attrs]
    return found


def _strip_records(graph: Graph, keys: Collection[str]) -> int:
    count = 0
    for attrs in _attributes(graph):
        for record in [key for key in attrs if is_record(key)]:
            value = attrs[record]
            if isinstance(value, dict) and keys & value.keys():
                kept = {k: v for k, v in value.items() if k not in keys}
                count += len(value) - len(kept)
                attrs[record] = kept
                if not kept:
                    del attrs[record]
    return count


def _strip_scopes(graph: Graph) -> int:
    """Remove the table of modules and source lines."""
    if not graph.has_attrs or SCOPES_RECORD not in graph.attrs:
        return 0
    del graph.attrs[SCOPES_RECORD]
    return 1


def _remove_dropout(graph: Graph) -> int:
    """Remove Dropout of ONNX that is not in training mode and has no mask."""
    found = [op for op in graph if op.type == "Dropout" and _is_identity(op)]
    return remove_ops(graph, found) if found else 0


def _is_identity(op: Any) -> bool:
    mode = op.inputs[2] if len(op.inputs) > 2 else None
    if any(port.is_used for port in op.outputs[1:]):
        return False
    is_off = mode is None or (
        mode.op.is_constant and not mode.op.attrs["value"].numpy().any()
    )
    return bool(is_off)


def _strip_names(graph: Graph) -> int:
    count = 0
    for part in graph.graphs():
        for op in part:
            count += op.name is not None
            op.name = None
            for port in op.outputs:
                if port not in part.results:
                    port.name = None
    return count
