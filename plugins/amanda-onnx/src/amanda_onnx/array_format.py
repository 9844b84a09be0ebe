"""Files with one tensor, a TensorProto, as in the data sets of ONNX's model tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amanda.formatkit import file_errors

__all__ = ["ArrayFormat"]


class ArrayFormat:
    """Entry `onnx-tensor` of `amanda.arrays`."""

    def read(self, path: Path) -> tuple[str | None, Any]:
        """The name in the file, if it has one, and the array."""
        from amanda_onnx.format.model_file import ModelFile
        from amanda_onnx.format.tensor_reader import read_tensor

        with file_errors(path):
            source = ModelFile.open(path, folder=path.parent)
            record = read_tensor(source, (0, len(source.data)))
            return record.name or None, record.tensor.numpy()
