"""Archives of exported programs, written as PyTorch 2.9 and newer does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from amanda.errors import FormatError
from amanda.files import ArchiveWriter
from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_torch.archives import DEFAULT_MODEL, MEMBERS
from amanda_torch.expressions import SymbolHints
from amanda_torch.node_writer import is_weight
from amanda_torch.payloads import strided_view
from amanda_torch.program_writer import program_json, weight_of
from amanda_torch.records import NODE_RECORDS, PROGRAM_RECORDS
from amanda_torch.value_types import tensor_entry

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["write_archive"]

_ROOT: Final = "program"
_STORED: Final = ("parameter", "buffer")


class _Member(NamedTuple):
    """Bytes of an archive, and their entry in a table."""

    tensor: Tensor
    entry: dict[str, Any]


def write_archive(graph: Graph, file: BinaryIO, dictionary: Dictionary) -> None:
    """Write a program and its weights; their data is copied in blocks."""
    record = PROGRAM_RECORDS.of(graph)
    model = record.get("model") or DEFAULT_MODEL
    fields = program_json(graph, dictionary)
    program = json.dumps(fields, allow_nan=False).encode()
    with ArchiveWriter(file) as archive:
        writer = _Writer(archive)
        ops = [op for op in graph if is_weight(op)]
        more = record.get("payloads", {})

        stored = [op for op in ops if op.attrs.get("kind") in _STORED]
        others = [op for op in ops if op.attrs.get("kind") not in _STORED]
        for ops_of_table, part, table, prefix, wanted in (
            (stored, MEMBERS.weights, MEMBERS.weights_table, "weight_", True),
            (others, MEMBERS.constants, MEMBERS.constants_table, "tensor_", False),
        ):
            rest = {
                n: r for n, r in more.items()
                if bool(r.get("is_constant")) != wanted
            }  # fmt: skip
            members = [*_members(ops_of_table), *_recorded_members(rest)]
            config = writer.add_tensors(part, prefix, members)
            writer.add(table.format(model), json.dumps({"config": config}).encode())
        writer.add(MEMBERS.program.format(model), program)
        samples = MEMBERS.samples.format(model)
        members_of_file = {samples: b"", **record.get("members", {})}
        calls = fields["graph_module"]["module_call_graph"]
        if calls != record.get("module_call_graph", calls):
            members_of_file[samples] = b""  # those of a file were for its own inputs
        for name, content in members_of_file.items():
            writer.add(name, content)
        for name, text in _MARKS.items():
            writer.add(name, text)


_MARKS: Final = {
    "archive_format": b"pt2", "archive_version": b"0", ".data/version": b"6\n",
    "byteorder": b"little",
}  # fmt: skip


class _Writer:
    """Adds members in the folder of an archive."""

    def __init__(self, archive: ArchiveWriter) -> None:
        self.archive = archive

    def add(self, name: str, content: bytes | Tensor) -> None:
        if isinstance(content, Tensor):
            size, chunks = content.nbytes, content.chunks()
            self.archive.add(f"{_ROOT}/{name}", size, chunks)
        else:
            self.archive.add(f"{_ROOT}/{name}", len(content), [content])

    def add_tensors(
        self, folder: str, prefix: str, members: Iterable[tuple[str, _Member]]
    ) -> dict[str, Any]:
        """Add tensors, each once, and return the table of their names."""
        table: dict[str, Any] = {}
        paths: dict[int, str] = {}
        for name, (tensor, entry) in members:
            path = paths.get(id(tensor))
            if path is None:
                path = entry.get("path_name") or _unused_path(prefix, paths.values())
                paths[id(tensor)] = path
                self.add(folder + path, tensor)
            table[name] = {**entry, "path_name": path}
        return table


def _unused_path(prefix: str, paths: Collection[str]) -> str:
    """
    >>> _unused_path("weight_", ["weight_0"])
    'weight_1'
    """
    count = len(paths)
    while f"{prefix}{count}" in paths:
        count += 1
    return f"{prefix}{count}"


def _members(ops: Iterable[Op]) -> Iterator[tuple[str, _Member]]:
    for op in ops:
        target = op.attrs.get("target")
        if not isinstance(target, str):
            raise FormatError("a weight without a target", who=op.label)
        record = NODE_RECORDS.of(op).get("payload", {})
        tensor = weight_of(op)
        if tensor is None and "bytes" not in record:
            raise FormatError(
                "a weight has no value", who=op.label, expected="the note x-value"
            )
        is_param = op.attrs.get("kind") == "parameter"
        yield target, _member(record, tensor, is_param, op.label)


def _recorded_members(
    payloads: Mapping[str, Any],
) -> Iterator[tuple[str, _Member]]:
    """Entries of weights that the program does not use."""
    for name, record in payloads.items():
        tensor = record.get("tensor")
        yield name, _member(record, tensor, bool(record.get("is_param")), name)


def _member(
    record: Mapping[str, Any], tensor: Tensor | None, is_param: bool, who: str
) -> _Member:
    """The bytes of a tensor: its storage where that is recorded, and still is its."""
    if tensor is None:
        pickled = {"path_name": record["path_name"], "is_param": is_param,
                   "use_pickle": True, "tensor_meta": None}  # fmt: skip
        return _Member(record["bytes"], pickled)
    usual = is_param and tensor.dtype.kind == "float"
    requires_grad = record.get("requires_grad", usual)
    meta = tensor_entry(tensor.type, who, SymbolHints(), requires_grad)
    meta["device"] = record.get("device", meta["device"])
    stored, storage = record.get("tensor_meta", {}), record.get("storage")
    if isinstance(storage, Tensor) and _is_view(tensor, storage, stored, meta):
        tensor, meta = storage, stored
    entry = {"is_param": is_param, "use_pickle": False, "tensor_meta": meta}
    return _Member(tensor, entry)


def _is_view(
    tensor: Tensor, storage: Tensor, stored: Mapping[str, Any], meta: Mapping[str, Any]
) -> bool:
    """Whether a tensor still is the view of a storage that the file had."""
    keys = ("dtype", "sizes")
    is_same = all(stored[key] == meta[key] for key in keys)
    return is_same and strided_view(storage, stored).same_content(tensor)
