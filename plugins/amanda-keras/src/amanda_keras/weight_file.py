"""HDF5 files of weights: datasets as tensors whose elements stay in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amanda.errors import FormatError
from amanda.formatkit import MessageFile
from amanda.tensors import Tensor
from amanda.types import DType, parse_element
from amanda_keras.hdf5 import Dataset, Node, open_root

__all__ = ["WeightFile"]


class WeightFile:
    """The groups and datasets of an HDF5 file, by path."""

    def __init__(self, file: MessageFile, start: int = 0, who: str = "") -> None:
        self.file = file
        self.start = start
        self.who = who
        root = open_root(memoryview(file.data)[start:])
        self.datasets: dict[str, Dataset] = {}
        self.groups: dict[str, Node] = {"": root}
        self._visit(root)

    def _visit(self, root: Node) -> None:
        """Collect groups, each of which has one place, and datasets."""
        waiting = [("", root)]
        seen = {root.address}
        while waiting:
            path, group = waiting.pop()
            for name, address in group.links():
                place = f"{path}/{name}" if path else name
                node = Node(root.data, root.heap, address)
                if node.is_group:
                    if address in seen:
                        raise FormatError(
                            "a group with two places in the HDF5 file is not read",
                            who=place,
                        )
                    seen.add(address)
                    self.groups[place] = node
                    waiting.append((place, node))
                else:
                    self.datasets[place] = Dataset(node, place)

    def attribute(self, path: str, name: str) -> Any:
        """An attribute of a group; None where it is missing."""
        attrs = self.groups[path].attributes()
        if name in attrs:
            return attrs[name]
        parts: list[Any] = []
        while f"{name}{len(parts)}" in attrs:  # long ones are written in parts
            parts.append(attrs[f"{name}{len(parts)}"])
        return [item for part in parts for item in part] if parts else None

    def tensors(self) -> Mapping[str, Tensor]:
        """The datasets as tensors, by path."""
        return {path: self.tensor(path) for path in self.datasets}

    def tensor(self, path: str) -> Tensor:
        """A dataset as a tensor. One that is contiguous is not copied."""
        dataset = self.datasets[path]
        dtype = self._dtype(dataset)
        offset = dataset.offset
        is_plain = dataset.dtype.byteorder in "<=|" and dtype.kind != "string"
        if offset is not None and is_plain and dataset.size:
            start = self.start + offset
            return self.file.tensor((start, start + dataset.size), dtype, dataset.shape)
        return Tensor.lazy(lambda: _elements(dataset, dtype), dtype, dataset.shape)

    def _dtype(self, dataset: Dataset) -> DType:
        if dataset.attributes().get("dtype") == "bfloat16":
            return parse_element("bfloat16")  # type: ignore[return-value]
        if dataset.element.is_text:
            return DType("string")
        if dataset.dtype.kind == "V":
            raise FormatError(
                "a dataset of this element type is not read", who=dataset.path,
                expected="numbers or strings", got=dataset.dtype,
            )  # fmt: skip
        return DType.of(dataset.dtype)


def _elements(dataset: Dataset, dtype: DType) -> Any:
    found = dataset.read()
    if dtype.kind == "string":
        return Tensor.strings(found.reshape(-1).tolist(), found.shape)
    if found.dtype.kind == "V":
        return found.view(dtype.numpy)
    return np.asarray(found, found.dtype.newbyteorder("="))
