"""Tensors in files of their own, as onnx writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from amanda.errors import FormatError
from amanda_onnx.array_format import ArrayFormat

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16", "uint8"])
def test_tensors_that_onnx_writes(tmp_path: Path, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    path = tmp_path / "input_0.pb"
    onnx.save_tensor(onnx.numpy_helper.from_array(array, "x"), path)
    name, found = ArrayFormat().read(path)
    assert (name, found.dtype) == ("x", array.dtype)
    np.testing.assert_array_equal(found, array)
    onnx.save_tensor(onnx.numpy_helper.from_array(array), path)
    assert ArrayFormat().read(path)[0] is None


def test_files_that_hold_no_tensor(tmp_path: Path) -> None:
    path = tmp_path / "input_0.pb"
    path.write_bytes(b"\x08\xff\xff no tensor")
    with pytest.raises(FormatError):
        ArrayFormat().read(path)
