"""The weights and constants of a program, which stay in their file or memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import Archive, MessageFile
from amanda.tensors import Tensor
from amanda.types import uint8
from amanda_torch.codes import DTYPES
from amanda_torch.value_types import contiguous_strides

__all__ = [
    "NO_PAYLOADS", "Payload", "Payloads", "Storages", "member_tensor", "read_payloads",
    "read_table", "strided_view",
]  # fmt: skip


class Payload(NamedTuple):
    """An entry of a table of weights: its tensor, and what else the file says of it.

    `tensor` is None for what is pickled, which is not opened.
    """

    tensor: Tensor | None
    record: dict[str, Any]
    is_param: bool


Payloads = Mapping[str, Payload]
NO_PAYLOADS: Final[Payloads] = {}


class Storages(Protocol):
    """The bytes of tensors by name: an archive, or storages of PyTorch."""

    def file_of(self, name: str, /) -> tuple[MessageFile, int]:
        """The file that has the bytes, up to its end, and where they begin."""
        ...


def member_tensor(files: Storages, name: str) -> Tensor:
    """The bytes of a member, which stay in the file if it is stored."""
    file, start = files.file_of(name)
    return file.tensor((start, len(file.data)), uint8, (len(file.data) - start,))


def read_table(archive: Archive, folder: str, config: str) -> dict[str, Payload]:
    """The tensors that a table of an archive lists."""
    entries = archive.read_json(config).get("config")
    if not isinstance(entries, dict):
        raise FormatError("the table has no entries", who=config, expected="config")
    return read_payloads(archive, folder, entries, config)


def read_payloads(
    files: Storages, folder: str, entries: Mapping[str, Any], config: str
) -> dict[str, Payload]:
    """The tensors of entries of a table; equal entries share a tensor."""
    found: dict[str, Payload] = {}
    tensors: dict[Any, Payload] = {}
    storages: dict[Any, Tensor] = {}
    for name, entry in entries.items():
        try:
            meta = entry["tensor_meta"]
            key = (entry["path_name"], entry["is_param"], repr(meta))
            if key not in tensors:
                tensors[key] = _read_payload(files, folder, entry, storages)
            found[name] = tensors[key]
        except AmandaError as error:
            error.where = error.where or f"{config}, {name}"
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                "an entry of weights is malformed", where=f"{config}, {name}",
                got=f"{entry!r:.80} ({error!r:.60})",
            ) from error  # fmt: skip
    return found


def _read_payload(
    files: Storages, folder: str, entry: dict[str, Any], storages: dict[Any, Tensor]
) -> Payload:
    member = f"{folder}{entry['path_name']}"
    is_param = bool(entry.get("is_param"))
    if entry.get("use_pickle"):
        content = member_tensor(files, member)
        pickled = {"path_name": entry["path_name"], "bytes": content}
        return Payload(None, pickled, is_param)
    meta = entry["tensor_meta"]
    record: dict[str, Any] = {}
    dtype = DTYPES.dtype(meta["dtype"])
    shape = tuple(int(size["as_int"]) for size in meta["sizes"])
    strides = [int(stride["as_int"]) for stride in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    file, start = files.file_of(member)
    size = len(file.data) - start
    tensor_size = dtype.bits // 8
    for each in shape:
        tensor_size *= each
    if meta["requires_grad"] is not (is_param and dtype.kind == "float"):
        record["requires_grad"] = meta["requires_grad"]
    if meta["device"] != {"type": "cpu", "index": None}:
        record["device"] = meta["device"]
    is_plain = offset == 0 and (size == tensor_size or not tensor_size)
    if is_plain and strides == contiguous_strides(shape):
        tensor = file.tensor((start, start + size), dtype, shape)
        return Payload(tensor, record, is_param)
    record["tensor_meta"] = meta
    key = (member, dtype)
    if key not in storages:
        count = size * 8 // dtype.bits
        storages[key] = file.tensor((start, start + size), dtype, (count,))
    record["storage"] = storages[key]
    if strides == contiguous_strides(shape):
        begin = start + offset * dtype.bits // 8
        _expect_room(storages[key], shape, strides, offset)
        tensor = file.tensor((begin, len(file.data)), dtype, shape)
        return Payload(tensor, record, is_param)
    return Payload(strided_view(storages[key], meta), record, is_param)


def strided_view(storage: Tensor, meta: Mapping[str, Any]) -> Tensor:
    """A view of a storage, computed when it is used."""
    shape = tuple(int(size["as_int"]) for size in meta["sizes"])
    strides = [int(stride["as_int"]) for stride in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    _expect_room(storage, shape, strides, offset)

    def view() -> Any:
        import numpy as np

        flat = storage.numpy()
        steps = [step * flat.itemsize for step in strides]
        return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)

    return Tensor.lazy(view, storage.dtype, shape)


def _expect_room(
    storage: Tensor, shape: tuple[int, ...], strides: list[int], offset: int
) -> None:
    if len(shape) != len(strides):
        raise FormatError("a tensor has not one stride for each size", got=strides)
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if min([offset, *shape, *strides]) < 0 or (0 not in shape and last >= storage.size):
        raise FormatError(
            "a tensor is larger than its storage",
            expected=f"at most {storage.size} elements", got=last + 1,
        )  # fmt: skip
