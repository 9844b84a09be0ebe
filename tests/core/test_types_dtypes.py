"""The table of element types, against numpy and ml_dtypes."""

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import amanda.types
from amanda.errors import InvalidTypeError
from amanda.types import DType, Quantized, float32, int4
from amanda.types.dtypes import dtype_names


def test_one_object_per_type() -> None:
    for name in dtype_names():
        dtype = DType(name)
        assert str(dtype) == dtype.name == name
        assert DType(dtype) is DType(name) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype
        constant = name + "_" if name in ("bool", "bytes") else name
        assert getattr(amanda.types, constant) is dtype
    for alias, name in [("f32", "float32"), ("half", "float16"), ("double", "float64")]:
        assert DType(alias) is DType(name)


def test_every_type_of_ml_dtypes_is_there() -> None:
    for name in dir(ml_dtypes):
        scalar = getattr(ml_dtypes, name)
        if isinstance(scalar, type) and name not in ("finfo", "iinfo"):
            dtype = DType(name)
            assert dtype.numpy == np.dtype(scalar)
            assert DType.of(np.dtype(scalar)) is dtype
            if dtype.kind in ("int", "uint"):
                assert ml_dtypes.iinfo(scalar).bits == dtype.bits
            if dtype.kind == "float":
                assert ml_dtypes.finfo(scalar).bits == dtype.bits


@pytest.mark.parametrize("kind", ["bool", *"bhilBHILefdFD"])
def test_types_of_numpy(kind: str) -> None:
    given = np.dtype(kind)
    dtype = DType.of(given)
    assert dtype.numpy == given
    assert dtype.bits == given.itemsize * 8
    assert DType.of(np.zeros(2, given)) is dtype
    assert DType.of(given.newbyteorder(">")) is dtype


def test_texts_and_objects_are_strings() -> None:
    for given in ("U3", "S3", "O"):
        assert DType.of(np.dtype(given)).name == "string"


@pytest.mark.parametrize("given", ["M8[s]", "V3", [("a", "i4")], "g"])
def test_what_stands_for_nothing_is_refused(given: object) -> None:
    with pytest.raises(InvalidTypeError, match="no element type corresponds to"):
        DType.of(np.dtype(given))  # type: ignore[call-overload]


def test_types_without_numpy() -> None:
    for name in ("nf4", "uint3", "unknown", "resource"):
        with pytest.raises(InvalidTypeError, match=f"{name} has no numpy type"):
            _ = DType(name).numpy
    assert DType("qint8").numpy == np.int8
    assert DType.of(np.dtype(np.int8)).name == "int8"


@pytest.mark.parametrize("given", ["float33", "Float32", "", 3, None, np.float32])
def test_unknown_names(given: object) -> None:
    with pytest.raises(InvalidTypeError, match="no such element type"):
        DType(given)


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        int4.bits = 8


def test_quantized() -> None:
    found = Quantized("int8", scale=[0.5, 0.25], zero_point=[0, 1], axis=1)
    assert (found.bits, found.kind, found.expressed) == (8, "quantized", float32)
    assert found.numpy == np.int8
    assert pickle.loads(pickle.dumps(found)) == found
    assert Quantized("int8", scale=1) == Quantized("int8", scale=1.0)
    for bad in (
        {"scale": [0.1, 0.2]},
        {"scale": float("nan")},
        {"zero_point": 0.5},
        {"scale": "x"},
        {"block": 4},
        {"axis": 0, "block": 0},
        {"axis": 1.0},
    ):
        with pytest.raises(InvalidTypeError):
            Quantized("int8", **bad)  # type: ignore[arg-type]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, amanda.types, amanda.tensors as t\n"
        "t.Tensor.from_buffer(bytes(8), 'float32', (2,)).digest()\n"
        "print([m for m in ('numpy', 'ml_dtypes') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
