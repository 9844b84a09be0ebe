"""The wire format, against the protobuf library."""

from __future__ import annotations

import pytest
from google.protobuf.internal import decoder, encoder, wire_format
from hypothesis import given
from hypothesis import strategies as st

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files.text.syntax import plain_data
from amanda.formatkit import wire
from amanda.formatkit.wire import BYTES, FIXED32, FIXED64, VARINT

unsigned = st.integers(0, 2**64 - 1) | st.integers(0, 300)
signed = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@given(unsigned)
def test_varints(value: int) -> None:
    raw = wire.encode_varint(value)
    assert raw == encoder._VarintBytes(value)
    assert wire.decode_varint(b"?" + raw + b"\xff", 1, len(raw) + 1) == (
        value,
        len(raw) + 1,
    )
    assert decoder._DecodeVarint(raw, 0) == (value, len(raw))


@given(signed)
def test_zigzag(value: int) -> None:
    assert wire.zigzag(value) == wire_format.ZigZagEncode(value)
    assert wire.unzigzag(wire.zigzag(value)) == value


@given(st.lists(unsigned))
def test_packed_numbers(values: list[int]) -> None:
    raw = wire.pack_varints(values)
    assert raw == b"".join(map(wire.encode_varint, values))
    assert wire.unpack_varints(raw, 0, len(raw)) == values
    assert wire.unpack_varints(memoryview(b"??" + raw), 2, len(raw) + 2) == values


def test_keys() -> None:
    for number in (1, 15, 16, 2047, 2048, (1 << 29) - 1):
        for kind in (VARINT, FIXED64, BYTES, FIXED32):
            tag = wire_format.PackTag(number, kind)
            assert wire.encode_key(number, kind) == encoder._VarintBytes(tag)


FIELDS = st.lists(
    st.tuples(
        st.integers(1, (1 << 29) - 1),
        st.one_of(
            st.tuples(st.just(VARINT), unsigned.map(wire.encode_varint)),
            st.tuples(st.just(FIXED64), st.binary(min_size=8, max_size=8)),
            st.tuples(st.just(FIXED32), st.binary(min_size=4, max_size=4)),
            st.tuples(st.just(BYTES), st.binary(max_size=300)),
        ),
    ),
    max_size=8,
)


@given(FIELDS, st.binary(max_size=5))
def test_fields(
    given_fields: list[tuple[int, tuple[int, bytes]]], before: bytes
) -> None:
    data = before
    expected = []
    for number, (kind, raw) in given_fields:
        size = wire.encode_varint(len(raw)) if kind == BYTES else b""
        data += wire.encode_key(number, kind) + size + raw
        expected.append((number, kind, raw))
    found = wire.iter_fields(memoryview(data + b"after"), len(before), len(data))
    assert [(n, k, data[start:end]) for n, k, start, end in found] == expected


@given(FIELDS, st.integers(0, 400))
def test_cut_short(given_fields: list[tuple[int, tuple[int, bytes]]], at: int) -> None:
    data = b"".join(
        wire.encode_key(n, kind)
        + (wire.encode_varint(len(raw)) if kind == BYTES else b"")
        + raw
        for n, (kind, raw) in given_fields
    )[:at]
    spans, place = looked_at(data)
    assert all(start <= end <= len(data) for start, end in spans)
    assert 0 <= place <= len(data)


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    spans, place = looked_at(data, base=1000)
    assert all(start <= end <= len(data) for start, end in spans)
    assert 1000 <= place <= 1000 + len(data)


def looked_at(data: bytes, base: int = 0) -> tuple[list[tuple[int, int]], int]:
    """The values of all fields that can be read, and where the reading ended."""
    spans = []
    try:
        for _, _, start, end in wire.iter_fields(data, base=base):
            spans.append((start, end))
    except FormatError as error:
        return spans, int(str(error.where).removeprefix("byte "))
    return spans, base + len(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0a", "it ends inside a number\n  where:    byte 8"),
        (b"\x80", "it ends inside a number\n  where:    byte 7"),
        (b"\x80" * 11, "a number of more than 10 bytes\n  where:    byte 7"),
        (
            b"\xff" * 9 + b"\x7f",
            "a number of more than 64 bits\n  where:    byte 7",
        ),
        (b"\x00\x01", "no field can have the number 0\n  where:    byte 7"),
        (b"\x0b", "field 1 has the unknown kind 3\n  where:    byte 7"),
        (
            b"\x0a\x80\xe4\x97\xd0\x12ab",
            "field 1 reaches beyond the end of what holds it\n  where:    byte 7\n"
            "  expected: 5000000000 bytes\n  got:      2 bytes",
        ),
        (
            b"\x09abc",
            "field 1 reaches beyond the end of what holds it\n  where:    byte 7\n"
            "  expected: 8 bytes\n  got:      3 bytes",
        ),
    ],
)
def test_messages(data: bytes, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        list(wire.iter_fields(data, base=7))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "error",
    [
        FormatError("short", where="byte 3"),
        FormatError("short", where="elsewhere"),
        LimitError("long"),
        IndexError(),
    ],
)
def test_no_error_is_its_own_cause(error: Exception) -> None:
    """Who walks along the causes of an error comes to an end."""
    for locate in (wire.locate_error, plain_data.locate_error):
        if locate is wire.locate_error or isinstance(error, AmandaError):
            assert locate(error, "here") is not error  # type: ignore[operator]
    found = wire.locate_error(error, "here")
    own = getattr(error, "where", None)
    assert found.where in (own, "here", f"here, {own}")
