"""Bits read as other numbers: all pairs of types, against the bytes that are there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amanda
from amanda.types import DType, TensorType, parse_type
from amanda_jax.kernels import bitcast
from amanda_std import ops, trace

TYPES = ["bool", "uint8", "int8", "int16", "float16", "bfloat16", "int32", "uint32",
         "float32", "int64", "float64", "complex64", "complex128"]  # fmt: skip


def filled(old: DType, new: DType) -> np.ndarray:
    """As many elements along the last axis as make one wider element."""
    last = max(1, new.bits // old.bits)
    numbers = np.random.default_rng(0).integers(0, 100, (2, 3, last))
    if old.kind == "bool":
        return numbers > 50
    made = numbers.astype(old.numpy)
    return made - made.dtype.type(7j) if old.kind == "complex" else made


@pytest.mark.parametrize("new", TYPES)
@pytest.mark.parametrize("old", TYPES)
def test_the_bytes_stay(old, new):
    """All that fits: bytes of which a bool is made are 0 or 1."""
    old, new = DType(old), DType(new)
    x = filled(old, new)
    if new.kind == "bool" and old.kind != "bool":
        x = np.frombuffer((x != 0).tobytes() * old.numpy.itemsize, old.numpy)
        x = x.reshape(2, 3, 1)
    shape = {True: (*x.shape, old.bits // new.bits), False: x.shape[:-1]}
    wanted = np.frombuffer(x.tobytes(), new.numpy).reshape(
        x.shape if old.bits == new.bits else shape[old.bits > new.bits]
    )
    with jax.enable_x64(True):
        got = np.asarray(bitcast.bitcast(jnp.asarray(x), dtype=new))
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("shape", "old", "new", "wanted"),
    [
        ((0, 2), "complex64", "float32", (0, 2, 2)),
        ((0, 2), "float32", "complex64", (0,)),
        ((0,), "complex128", "complex64", (0, 2)),
        ((), "complex64", "int64", ()),
        ((), "bool", "int8", ()),
        ((2,), "float64", "complex128", ()),
    ],
)
def test_of_nothing_and_of_one(shape, old, new, wanted):
    with jax.enable_x64(True):
        x = jnp.zeros(shape, DType(old).numpy)
        got = bitcast.bitcast(x, dtype=DType(new))
    assert (got.shape, got.dtype) == (wanted, new)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize(("narrow", "width"), [("uint4", 4), ("int4", 4), ("uint2", 2)])
@pytest.mark.parametrize("wide", ["uint8", "int16", "float32"])
def test_less_than_a_byte(wide, narrow, width, backend):
    """The lowest bits come first, there and back."""
    x = np.array([[0x12, 0xF4], [0x9B, 0x03]], "uint8")
    raw = np.resize(x, (2, 2 * np.dtype(wide).itemsize)).copy()
    count = 8 * np.dtype(wide).itemsize // width
    numbers = [int.from_bytes(v.tobytes(), "little") for v in raw.view(wide).flat]
    parts = [v >> width * i & (1 << width) - 1 for v in numbers for i in range(count)]
    wanted = np.array(parts, "uint8").view(DType(narrow).numpy).reshape(2, 2, count)
    wide_type = TensorType(DType(wide), (2, 2))
    there = trace(lambda x: ops.bitcast(x, dtype=narrow), [wide_type])
    [got] = amanda.run(there, [raw.view(wide)], backend=backend).values()
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got.astype("int8"), wanted.astype("int8"))
    narrow_type = TensorType(DType(narrow), wanted.shape)
    back = trace(lambda x: ops.bitcast(x, dtype=wide), [narrow_type])
    [again] = amanda.run(back, [got], backend=backend).values()
    assert again.tobytes() == raw.tobytes()


def test_a_size_that_nobody_knows():
    graph = trace(
        lambda x: ops.bitcast(x, dtype="float32"), [parse_type("complex64[n, 3]")]
    )
    x = np.array([[1 + 2j, 3 + 4j, -5j]], "complex64")
    [got] = amanda.run(graph, [x], backend="jax").values()
    assert got.tolist() == [[[1, 2], [3, 4], [0, -5]]]
