"""The layout of weights.safetensors, with the safetensors library as the judge."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amanda.errors import FormatError, LimitError
from amanda.files.binary import safetensors as weights
from amanda.files.binary.safetensors import (
    StoredWeight,
    encode_header,
    parse_header,
    stored_type,
)

safetensors = pytest.importorskip("safetensors", reason="safetensors is not there")
shapes = st.lists(st.integers(0, 9), max_size=3)
tensors = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])).filter("__metadata__".__ne__),
    st.tuples(st.sampled_from(list(weights._NAMES)), shapes),
    max_size=6,
)


def packed(kinds: dict[str, tuple[str, list[int]]]) -> tuple[bytes, dict[str, bytes]]:
    sizes = {
        key: weights.BITS[weights._NAMES[dtype]] // 8 * int(np.prod(shape))
        for key, (dtype, shape) in kinds.items()
    }
    head, order = encode_header({key: (*kinds[key], sizes[key]) for key in kinds})
    data = {key: bytes([i % 251]) * sizes[key] for i, key in enumerate(order)}
    return head + b"".join(data[key] for key in order), data


@given(tensors)
def test_the_library_reads_it(kinds: dict[str, tuple[str, list[int]]]) -> None:
    raw, data = packed(kinds)
    found = dict(safetensors.deserialize(raw))
    assert {key: bytes(told["data"]) for key, told in found.items()} == data
    for key, (dtype, shape) in kinds.items():
        assert found[key]["shape"] == shape
        assert found[key]["dtype"] == weights._NAMES[dtype]


@given(tensors)
def test_we_read_it(kinds: dict[str, tuple[str, list[int]]]) -> None:
    raw, data = packed(kinds)
    found, start = parse_header(memoryview(raw))
    assert start % 64 == 0
    for key, weight in found.items():
        assert raw[start + weight.start : start + weight.stop] == data[key]
        assert (weight.dtype, list(weight.shape)) == (
            weights._NAMES[kinds[key][0]],
            kinds[key][1],
        )
        item = weights.BITS[weight.dtype] // 8
        assert weight.start % item == 0


def test_we_read_what_the_library_writes() -> None:
    given_arrays = {
        "a": np.arange(6, dtype="float32").reshape(2, 3),
        "b": np.array(True),
        "c": np.zeros((0, 4), "int16"),
    }
    from safetensors.numpy import save

    raw = save(given_arrays, {"format": "np"})
    found, start = parse_header(memoryview(raw))
    assert set(found) == set(given_arrays)
    for key, array in given_arrays.items():
        part = raw[start + found[key].start : start + found[key].stop]
        assert part == array.tobytes()


def test_large_weights_are_aligned() -> None:
    kinds = {f"w{i}": ("float32", (64, i), 256 * i) for i in range(1, 9)}
    kinds |= {
        "b": ("float32", (7,), 28),
        "s": ("bool", (3,), 3),
        "e": ("int8", (0,), 0),
    }
    head, order = encode_header(kinds)
    found, start = parse_header(
        memoryview(head + bytes(sum(k[2] for k in kinds.values())))
    )
    assert order[-2:] == ["b", "s"]
    assert all((start + found[f"w{i}"].start) % 64 == 0 for i in range(1, 9))


def test_dtypes_that_the_layout_lacks() -> None:
    assert stored_type("complex128", (2, 2), 64) == ("U8", [64])
    assert stored_type("string", (2,), 19) == ("U8", [19])
    assert stored_type("float8_e4m3fn", (2,), 2) == ("F8_E4M3", [2])


def file(entries: Any, data: bytes = b"") -> memoryview:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return memoryview(len(text).to_bytes(8, "little") + text + data)


def entry(
    dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)
) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_metadata_is_left_alone() -> None:
    found, _ = parse_header(file({"__metadata__": {"x": "y"}, "w": entry()}, b"1234"))
    assert found == {"w": StoredWeight("U8", (4,), 0, 4)}


BAD = {
    "too short for a safetensors header": memoryview(b"1234567"),
    "the safetensors header is not JSON: Expecting": file(b"{"),
    "the safetensors header is not JSON: nested too deep": file(b'{"a":' * 200_000),
    "the safetensors header is not JSON: 'utf-8' codec": file(b'{"\xff": 1}'),
    "the safetensors header is not JSON: Exceeds": file(b'{"a":' + b"9" * 5000 + b"}"),
    "the safetensors header is not a JSON object": file([]),
    "the safetensors header has 'a' twice": file(b'{"a": 1, "a": 1}'),
    "an entry of the safetensors header lacks": file({"a": 1}),
    "an entry of the safetensors header lacks a": file({"a": {"dtype": "U8"}}),
    "unknown safetensors dtype 'X'": file({"a": entry("X")}),
    "unknown safetensors dtype [1]": file({"a": entry([1])}),
    "shape and offsets must be": file({"a": entry(shape=[True])}),
    "shape and offsets must be whole": file({"a": entry(shape=[-1])}),
    "shape and offsets must be whole n": file({"a": entry(shape="1")}),
    "shape and offsets must be whole nu": file({"a": entry(shape=[2**63])}),
    "shape and offsets must be whole num": file({"a": entry(shape=[1] * 65)}),
    "shape and offsets must be whole numb": file({"a": entry(offsets=[0])}),
    "the data of a weight does not have": file({"a": entry(offsets=[0, 5])}, b"12345"),
    "the data of a weight does not have the length": file({"a": entry(offsets=[4, 0])}),
    "the data of a weight does not have the length of": file(
        {"a": entry(shape=[2**62] * 64, offsets=[0, 4])}, b"1234"
    ),
    "the data overlaps another": file({"a": entry(), "b": entry()}, b"1234"),
    "the data leaves a hole before it": file({"a": entry(offsets=[1, 5])}, b"12345"),
    "the weights do not fill their file": file({"a": entry()}, b"12345"),
    "the weights do not fill their": file({"a": entry()}, b"123"),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_headers(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_header(BAD[text], base=100)
    assert caught.value.message.startswith(text)
    assert caught.value.where is not None


def test_absurd_lengths() -> None:
    with pytest.raises(LimitError) as caught:
        parse_header(memoryview((10**10).to_bytes(8, "little") + b"{}"), base=100)
    assert str(caught.value) == (
        "the safetensors header exceeds its limit\n  where:    byte 100\n"
        "  expected: at most 2 bytes\n  got:      10000000000 bytes"
    )
