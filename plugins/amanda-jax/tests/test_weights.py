"""Weights on their way to the device: what they take in memory meanwhile."""

from __future__ import annotations

import mmap

import jax
import numpy as np
import pytest

from amanda.tensors import Tensor
from amanda_jax.memory import ALIGNMENT, aligned, let_go
from amanda_jax.weights import Weights

PAGE = mmap.PAGESIZE


@pytest.mark.parametrize("access", [mmap.ACCESS_READ, mmap.ACCESS_COPY])
def test_what_is_let_go_is_read_again_as_it_was(access, tmp_path):
    """A copy that was written to has its pages nowhere else: they have to stay."""
    content = np.random.default_rng(0).integers(0, 256, 5 * PAGE + 7, "uint8")
    (tmp_path / "file").write_bytes(content.tobytes())
    with open(tmp_path / "file", "rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=access)
    if access == mmap.ACCESS_COPY:
        content[2 * PAGE] ^= 255
        held[2 * PAGE] = int(content[2 * PAGE])
    array = np.asarray(memoryview(held)[3:])
    let_go(array)
    np.testing.assert_array_equal(array, content[3:])


def test_arrays_of_no_file_stay():
    for array in (np.arange(9), np.frombuffer(b"12345678", "int64")):
        before = array.copy()
        let_go(array)
        np.testing.assert_array_equal(array, before)


def test_an_aligned_copy_is_not_copied_by_the_device():
    made = aligned(np.arange(1 << 12, dtype="float32").reshape(64, 64).T)
    assert made.ctypes.data % ALIGNMENT == 0
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, np.arange(1 << 12).reshape(64, 64).T)
    device = jax.devices("cpu")[0]
    [there] = Weights(device).moved([Tensor.of(made)])
    assert there.unsafe_buffer_pointer() == made.ctypes.data
