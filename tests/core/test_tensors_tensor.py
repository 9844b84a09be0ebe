"""Tensors: every way to hold elements, against numpy and ml_dtypes."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from amanda.errors import FormatError, InvalidTypeError
from amanda.tensors import FileMap, Tensor, blocks_ahead, dedup, hashing
from amanda.types import DType, Quantized, TensorType

pytestmark = pytest.mark.install_independent

NUMERIC = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64", "complex64", "complex128"),
    *("int2", "int4", "uint2", "uint4", "bfloat16", "float4_e2m1fn"),
    *("float6_e2m3fn", "float6_e3m2fn", "float8_e4m3fn", "float8_e8m0fnu", "int1"),
]


def some(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Any bits that an element of this type may have."""
    dtype = DType(name)
    count = int(np.prod(shape))
    random = np.random.default_rng(seed)
    if name == "bool":
        return random.integers(0, 2, shape).astype(bool)
    codes = random.integers(0, 256, count * dtype.numpy.itemsize, np.uint8)
    if dtype.bits < 8:
        codes &= (1 << dtype.bits) - 1
    return codes.view(dtype.numpy).reshape(shape)


def packed(array: np.ndarray[Any, Any], bits: int) -> bytes:
    """The oracle: one big number, the first element in its lowest bits."""
    if bits >= 8:
        return array.tobytes()
    total = 0
    for at, code in enumerate(array.reshape(-1).view(np.uint8).tolist()):
        total |= (code & ((1 << bits) - 1)) << (at * bits)
    return total.to_bytes(-(-array.size * bits // 8), "little")


def bits_of(array: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 3, 5), (3, 0)])
def test_packed_forms(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = some(name, shape)
    data = packed(array, DType(name).bits)
    (tmp_path / "data").write_bytes(b"123" + data + b"x")
    tensors = [
        Tensor.of(array),
        Tensor.from_buffer(data, name, shape),
        Tensor.from_buffer(b"12345" + data, name, shape, offset=5),
        Tensor.from_file(tmp_path / "data", name, shape, offset=3),
        Tensor.lazy(lambda: array, name, shape),
    ]
    for tensor in [*tensors, *(pickle.loads(pickle.dumps(t)) for t in tensors)]:
        assert tensor.nbytes == len(data)
        assert b"".join(tensor.chunks()) == data
        found = tensor.numpy()
        assert found.dtype == array.dtype
        assert found.shape == shape
        assert bits_of(found) == bits_of(array)
        assert not found.flags.writeable
        assert tensor.digest() == tensors[0].digest()
        assert tensor.same_content(tensors[0])
        assert tensor.type == TensorType(name, shape)


@settings(max_examples=examples(60), derandomize=True, deadline=None)
@given(st.sampled_from(NUMERIC), st.integers(0, 400), st.integers(1, 200))
def test_chunks_have_equal_borders(name: str, count: int, size: int) -> None:
    array = some(name, (count,), seed=count)
    other = np.empty((count, 2), array.dtype)
    other[:, 1] = array
    tensors = [
        Tensor.of(array),
        Tensor.of(other[:, 1]),
        Tensor.from_buffer(packed(array, DType(name).bits), name, (count,)),
    ]
    chunks = [[bytes(chunk) for chunk in t.chunks(size)] for t in tensors]
    assert chunks[0] == chunks[1] == chunks[2]
    assert all(0 < len(chunk) <= max(size, 48) for chunk in chunks[0])
    assert tensors[0].digest() == tensors[1].digest() == tensors[2].digest()


def test_left_over_bits_do_not_count() -> None:
    clean = Tensor.from_buffer(b"\x21\x03", "uint4", (3,))
    dirty = Tensor.from_buffer(b"\x21\xf3", "uint4", (3,))
    assert dirty.digest() == clean.digest()
    assert dirty.same_content(clean)
    assert dirty.tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["float32", "int4", "float6_e2m3fn", "bool"])
@pytest.mark.parametrize("count", [0, 1, 3, 1000, 786_432 * 2, 786_432 * 8 // 3 + 5])
def test_a_splat_is_what_it_stands_for(name: str, count: int) -> None:
    full = np.full((count,), 1, DType(name).numpy)
    splat = Tensor.splat(name, (count,), 1)
    assert splat.is_splat
    assert splat.stores_one_element
    assert b"".join(splat.chunks()) == packed_fast(full, DType(name).bits)
    assert splat.digest() == Tensor.of(full).digest()
    assert splat.same_content(Tensor.of(full))
    assert splat.numpy().shape == (count,)
    again = pickle.loads(pickle.dumps(splat))
    assert again.stores_one_element
    assert again.same_content(splat)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int4", "bool", "complex64"])
def test_equal_elements_are_a_splat_however_they_are_stored(name: str) -> None:
    dtype = DType(name)
    array = np.full((3, 1001), 1, dtype.numpy)
    stored = b"".join(Tensor.of(array).chunks())
    for equal in (Tensor.of(array), Tensor.from_buffer(stored, dtype, (3, 1001))):
        assert equal.is_splat
        assert not equal.stores_one_element
    array[2, 1000] = 0
    assert not Tensor.of(array).is_splat
    assert not Tensor.of(np.asfortranarray(array)).is_splat


def test_elements_of_a_splat_are_equal_bit_by_bit() -> None:
    nan = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert Tensor.of(nan[[0, 0]]).is_splat
    assert not Tensor.of(nan).is_splat
    assert Tensor.strings([b"a", b"a"], (2,)).is_splat
    assert not Tensor.strings([b"a", b"b"], (2,)).is_splat
    assert Tensor.of(np.zeros((0, 3))).is_splat


def test_a_splat_is_found_without_computing_or_reading_much() -> None:
    made = []

    def make() -> np.ndarray[Any, Any]:
        made.append(1)
        return np.zeros(3)

    assert not Tensor.lazy(make, "float64", (3,)).is_splat
    assert not made
    assert Tensor.of(np.zeros(1 << 16)).is_splat
    assert not Tensor.of(np.zeros((1 << 16) + 1)).is_splat
    assert Tensor.splat("float32", (1 << 40,), 1).is_splat


def packed_fast(array: np.ndarray[Any, Any], bits: int) -> bytes:
    return b"".join(Tensor.of(array).chunks()) if bits < 8 else array.tobytes()


@pytest.mark.parametrize("times", range(9))
@pytest.mark.parametrize("last", [b"", b"tail"])
def test_the_tree_of_equal_blocks(times: int, last: bytes) -> None:
    blocks = [b"block"] * times + [last] * bool(last)
    assert hashing.hash_repeated(b"block", times, last) == hashing.hash_blocks(blocks)


def test_absurd_splats_cost_nothing() -> None:
    huge = Tensor.splat("int4", (2**40, 2**20 - 1), 3)
    assert len(huge.digest()) == 64
    assert huge.numpy()[5, 7] == 3
    assert huge.same_content(Tensor.splat("int4", (2**40, 2**20 - 1), 3))
    assert not huge.same_content(Tensor.splat("int4", (2**40, 2**20 - 1), 4))
    assert len(pickle.dumps(huge)) < 500


def test_different_content_has_another_digest() -> None:
    tensors = [
        Tensor.of(np.zeros(4, np.float32)),
        Tensor.of(np.zeros((2, 2), np.float32)),
        Tensor.of(np.zeros(4, np.int32)),
        Tensor.of(np.array([0, 0, 0, -0.0], np.float32)),
        Tensor.of(np.zeros(16, np.uint8)),
        Tensor.of(np.zeros(4, np.int32), "qint32"),
        Tensor.of(np.zeros(4, np.int32), Quantized("int32", scale=0.5)),
        Tensor.strings(["", "a"]),
        Tensor.strings(["a", ""]),
        Tensor.strings(["", "a"], dtype="bytes"),
        Tensor.of(np.zeros(0, np.int32)),
    ]
    assert len({t.digest() for t in tensors}) == len(tensors)
    for i, a in enumerate(tensors):
        assert [a.same_content(b) for b in tensors] == [
            i == j for j in range(len(tensors))
        ]


def test_arrays_are_shared_and_read_only() -> None:
    array = np.arange(6.0)
    tensor = Tensor.of(array)
    assert np.shares_memory(tensor.numpy(), array)
    assert array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0] = 1
    assert Tensor.of(tensor) is tensor
    assert np.shares_memory(np.asarray(tensor), array)
    assert np.array(tensor, np.float32).dtype == np.float32
    with pytest.raises(AttributeError):
        tensor.dtype = DType("int8")


def test_foreign_byte_order() -> None:
    array = np.array([[1, 2], [3, 4]], ">i4")
    tensor = Tensor.of(array)
    assert tensor.numpy().dtype.isnative
    assert tensor.digest() == Tensor.of(array.astype("i4")).digest()
    assert tensor.tolist() == [[1, 2], [3, 4]]


def test_of_takes_what_numpy_takes() -> None:
    class Like:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(3, np.int16)

    assert Tensor.of(Like()).type == TensorType("int16", [3])
    assert Tensor.of([[1.5, 2]]).type == TensorType("float64", [1, 2])
    assert Tensor.of(3, "int4").item() == 3
    assert Tensor.of(np.float32(2)).item() == 2.0
    assert Tensor.of([1, 2], ml_dtypes_name := "bfloat16").tolist() == [1.0, 2.0]
    assert Tensor.of(np.ones(2, ml_dtypes.bfloat16)).dtype.name == ml_dtypes_name
    assert Tensor.of(np.ones(2, np.int8), "qint8").dtype.name == "qint8"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor.of(np.ones(2), "float32"), "another element type"),
        (lambda: Tensor.of(Tensor.of(np.ones(2)), "float32"), "another element type"),
        (lambda: Tensor.of([1.5], "int32"), "cannot be converted to"),
        (lambda: Tensor.of([9], "int4"), "cannot be converted to"),
        (lambda: Tensor.of([[1], [2, 3]]), "cannot convert to an array"),
        (lambda: Tensor.of([object()]), "a string must be str or bytes"),
        (lambda: Tensor.of(np.zeros(2, "M8[s]")), "no element type"),
        (lambda: Tensor.splat("int8", (2,), 300), "cannot be converted to"),
        (lambda: Tensor.splat("uint4", (2,), -1), "cannot be converted to"),
        (lambda: Tensor.splat("int8", (2,), [1, 2]), "one value"),
        (lambda: Tensor.splat("float32", (2,), "x"), "cannot be converted to"),
        (lambda: Tensor.splat("string", (2,), "x"), "cannot be a splat"),
        (lambda: Tensor.splat("nf4", (2,), 1), "no numpy type"),
        (lambda: Tensor.splat("int8", (-1,), 1), "out of range"),
        (lambda: Tensor.splat("int8", (2**62, 4), 1), "too large"),
        (lambda: Tensor.splat("int8", (2**70,), 1), "out of range"),
        (lambda: Tensor.splat("int8", (1,) * 65, 1), "too many dims"),
        (lambda: Tensor.splat("int8", ("n",), 1), "must be static"),  # type: ignore[arg-type]
        (lambda: Tensor.from_buffer(b"", "string", (0,)), "no fixed width"),
        (lambda: Tensor.from_buffer(b"", "unknown", (0,)), "no fixed width"),
        (lambda: Tensor.from_buffer(3, "int8", (0,)), "not a contiguous buffer"),
        (lambda: Tensor.strings(["a"], (2,)), "does not match the shape"),
        (lambda: Tensor.strings([3]), "must be str or bytes"),  # type: ignore[list-item]
        (lambda: Tensor.strings(["\ud800"]), "not a Unicode string"),
        (lambda: Tensor.strings(["a"], dtype="int8"), "string or bytes"),
        (lambda: Tensor.of(np.ones(2)).item(), "not a single element"),
        (lambda: Tensor.lazy(lambda: np.ones(2), "int8", (2,)).numpy(), "another"),
        (
            lambda: Tensor.lazy(lambda: np.ones(2), "float64", (3,)).numpy(),
            "another type than declared",
        ),
        (lambda: Tensor.from_buffer(b"ab", "nf4", (4,)).numpy(), "no numpy type"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("shape", "offset"),
    [((10**10,), 0), ((5,), 24), ((1,), -1), ((7,), 0), ((0,), 29), ((1,), 2**70)],
)
def test_claims_beyond_the_data_are_refused(
    shape: tuple[int, ...], offset: int, tmp_path: Path
) -> None:
    (tmp_path / "small").write_bytes(bytes(24))
    with pytest.raises(FormatError, match="out of range") as caught:
        Tensor.from_file(tmp_path / "small", "float32", shape, offset)
    assert str(caught.value.who).endswith("small")
    with pytest.raises(FormatError, match="out of range"):
        Tensor.from_buffer(bytes(24), "float32", shape, offset)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_one_map_per_file_gone_when_unused(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(np.arange(8000, dtype=np.float32).tobytes())
    first = Tensor.from_file(path, "float32", (4000,))
    second = Tensor.from_file(str(path), "float32", (4000,), offset=16000)
    file = FileMap.of(path)
    assert file is FileMap.of(os.path.relpath(path))
    assert file._view is None
    assert repr(first) == "Tensor(float32[4000], mapped)"
    assert file._view is None
    array = second.numpy()
    assert array.tolist() == list(range(4000, 8000))
    assert np.shares_memory(array, np.frombuffer(file.view(), np.float32))
    assert Tensor.from_file(file, "float32", ()).item() == 0
    del file, first, second
    gc.collect()
    assert _mapped(path)
    assert array[0] == 4000
    del array
    gc.collect()
    assert not _mapped(path)


def _mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_file_replaced_after_the_first_look_keeps_its_bytes(tmp_path: Path) -> None:
    path, new = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"old!")
    new.write_bytes(b"new!")
    looked = Tensor.from_file(path, "uint8", (4,))
    looked.numpy()
    os.replace(new, path)
    assert bytes(looked.numpy()) == b"old!"
    assert bytes(Tensor.from_file(path, "uint8", (4,)).numpy()) == b"new!"


def test_a_file_replaced_before_the_first_look_is_refused(tmp_path: Path) -> None:
    path, new = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"old!" * 2000)
    new.write_bytes(b"new!" * 2000)
    tensor = Tensor.from_file(path, "uint8", (8000,))
    os.replace(new, path)
    with pytest.raises(FormatError, match="has changed since it was opened"):
        tensor.numpy()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", "a\0b", "/dev/zero"):
        with pytest.raises(FormatError, match=r"cannot (read|be a path)"):
            Tensor.from_file(path, "int8", (0,))


def test_an_empty_file_holds_empty_tensors(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert Tensor.from_file(tmp_path / "empty", "float32", (0, 3)).tolist() == []


def test_texts() -> None:
    tensor = Tensor.strings(["a", b"\xff\x00", "é", ""], (2, 2))
    assert tensor.tolist() == [[b"a", b"\xff\x00"], ["é".encode(), b""]]
    assert b"".join(tensor.chunks(50)) == (
        b"".join(n.to_bytes(8, "little") for n in (1, 2, 2, 0)) + b"a\xff\x00\xc3\xa9"
    )
    assert tensor.nbytes == 37
    for other in (
        Tensor.of(tensor.numpy()),
        Tensor.lazy(tensor.numpy, "string", (2, 2)),
        pickle.loads(pickle.dumps(tensor)),
    ):
        assert other.digest() == tensor.digest()
        assert other.same_content(tensor)
        assert other.nbytes == 37
    assert Tensor.of(np.array(["x", "yy"])).tolist() == [b"x", b"yy"]
    assert Tensor.of(["x", "yy"], "bytes").dtype.name == "bytes"
    assert Tensor.strings(["x"], ()).item() == b"x"
    long = Tensor.strings([b"x" * 1000, b"y" * 3])
    assert [len(c) for c in long.chunks(96)] == [96] * 10 + [59]


def test_lazy_ones_are_made_when_asked_and_not_kept() -> None:
    calls = []

    def make() -> Any:
        calls.append(1)
        return np.arange(4)

    tensor = Tensor.lazy(make, "int64", (4,))
    assert tensor.is_lazy
    assert not Tensor.of([1, 2]).is_lazy
    assert (tensor.nbytes, tensor.type, repr(tensor), calls) == (
        32,
        TensorType("int64", [4]),
        "Tensor(int64[4], lazy)",
        [],
    )
    array = tensor.numpy()
    assert tensor.numpy() is array
    tensor.digest()
    assert len(calls) == 1
    del array
    tensor.numpy()
    assert len(calls) == 2


def test_streaming_takes_little_memory(tmp_path: Path) -> None:
    array = np.zeros((64, 1 << 18), np.float32)  # 64 MB
    tensors = [
        Tensor.of(array.T),
        Tensor.splat("float32", (1 << 30,), 1.0),
        Tensor.of(array.view(np.uint8)[:, : 1 << 18].view(ml_dtypes.int4)),
    ]
    tracemalloc.start()
    try:
        for tensor in tensors:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            for _ in tensor.chunks():
                pass
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 24 << 20, tensor
    finally:
        tracemalloc.stop()


def test_lazy_tensors_are_computed_ahead_in_another_thread() -> None:
    seen: list[tuple[int, str]] = []

    def lazy(number: int) -> Tensor:
        def make() -> Any:
            seen.append((number, threading.current_thread().name))
            return np.full(1 << 18, number, "float32")

        return Tensor.lazy(make, "float32", (1 << 18,))

    small = Tensor.of(np.float32([7]))
    tensors = [lazy(0), small, lazy(1), lazy(2), lazy(2)]
    found = []
    for blocks in blocks_ahead(tensors):
        found.append(b"".join(blocks))
    assert found == [b"".join(tensor.chunks()) for tensor in tensors]
    assert [number for number, _ in seen[:4]] == [0, 1, 2, 2]
    assert all(name.startswith("amanda-compute-ahead") for _, name in seen[:4])


def test_an_error_of_a_lazy_tensor_that_is_computed_ahead() -> None:
    def fail() -> Any:
        raise FormatError("no elements", who="w1")

    whole = Tensor.lazy(lambda: np.zeros(1 << 18, "float32"), "float32", (1 << 18,))
    broken = Tensor.lazy(fail, "float32", (1 << 18,))
    blocks = blocks_ahead([whole, broken])
    assert len(b"".join(next(blocks))) == 1 << 20
    with pytest.raises(FormatError, match="no elements"):
        next(blocks)


def test_lazy_tensors_are_computed_at_the_end_of_a_process() -> None:
    program = """
import atexit
import numpy as np
from amanda.tensors import Tensor, blocks_ahead
size = 1 << 18
weights = [Tensor.lazy(lambda: np.ones(size, "float32"), "float32", [size])] * 2
read = lambda: [len(b"".join(blocks)) for blocks in blocks_ahead(weights)]
read()
atexit.register(lambda: print(read()))
"""
    run = [sys.executable, "-c", program]
    assert subprocess.check_output(run, text=True) == "[1048576, 1048576]\n"


def test_content_in_types() -> None:
    assert str(Tensor.of([[1, 2]]).type_with_content()) == "int64[1, 2] = [[1, 2]]"
    assert str(Tensor.of(True).type_with_content()) == "bool[] = true"
    assert str(Tensor.of([1.5]).type_with_content()) == "float64[1]"
    assert str(Tensor.splat("int64", (65,), 1).type_with_content()) == "int64[65]"


def test_copies_are_the_same() -> None:
    tensor = Tensor.of([1, 2])
    assert copy.copy(tensor) is copy.deepcopy(tensor) is tensor


def test_dedup() -> None:
    hashed = []

    def watched(value: int) -> Any:
        def make() -> Any:
            hashed.append(value)
            return np.full(3, value)

        return make

    odd = Tensor.lazy(lambda: 1 / 0, "float64", (7,))
    given = [Tensor.lazy(watched(v), "int64", (3,)) for v in (1, 2, 1)]
    found = dedup([given[0], odd, *given[1:], given[1], Tensor.splat("int64", (3,), 2)])
    assert [found.index(t) for t in found] == [0, 1, 2, 0, 2, 2]
    assert hashed == [1, 2, 1]
    assert dedup([]) == []


def test_large_unsigned_numbers_beside_small_ones() -> None:
    values = [0, 2**63 + 5, 2**64 - 1]
    assert Tensor.of(values, "uint64").tolist() == values
    with pytest.raises(InvalidTypeError, match="cannot be converted to"):
        Tensor.of([0, 2**64], "uint64")


@pytest.mark.parametrize("dtype", ["string", "bytes"])
@pytest.mark.parametrize("values", [[], [[], []], np.zeros((0, 3), object)])
def test_empty_lists_are_tensors_of_strings(values: Any, dtype: str) -> None:
    tensor = Tensor.of(values, dtype)
    assert tensor.type == TensorType(dtype, np.shape(values))
    assert tensor.tolist() == np.asarray(values).tolist()


def test_empty_arrays_of_numbers_are_no_strings() -> None:
    with pytest.raises(InvalidTypeError, match="another element type"):
        Tensor.of(np.zeros(0), "string")
