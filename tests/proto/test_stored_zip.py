"""Stored, aligned archives: written for everybody, read with suspicion."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amanda.errors import FormatError, LimitError
from amanda.files.binary import stored_zip
from amanda.files.binary.stored_zip import ALIGNMENT, ArchiveWriter, read_members

CONTENT = {"a.json": b"{}", "b/c.bin": bytes(range(256)) * 40, "ünï": b"", "d": b"x"}


def archive(content: dict[str, bytes] = CONTENT) -> bytes:
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        for name, data in content.items():
            writer.add(name, len(data), [data[:1000], data[1000:]])
    return file.getvalue()


def by_stdlib(content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, data in content.items():
            made.writestr(name, data)
    return file.getvalue()


def read(data: bytes) -> dict[str, bytes]:
    view = memoryview(data)
    found = read_members(view)
    for member in found.values():
        stored_zip.verify_checksum(view, member)
    return {name: data[m.start : m.stop] for name, m in found.items()}


def test_others_read_what_we_write() -> None:
    data = archive()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        assert {name: found.read(name) for name in found.namelist()} == CONTENT


def test_we_read_what_others_write() -> None:
    assert read(by_stdlib(CONTENT)) == CONTENT
    assert read(archive()) == CONTENT
    assert read(by_stdlib({})) == {}


def test_members_are_aligned_and_bytes_the_same() -> None:
    data = archive()
    assert data == archive()
    starts = [member.start for member in read_members(memoryview(data)).values()]
    assert all(start % ALIGNMENT == 0 for start in starts)
    assert data[30:36] == b"a.json"  # where magic bytes look for it
    assert data[ALIGNMENT : ALIGNMENT + 2] == b"{}"


def test_long_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 64-bit records, without 4 GB of data."""
    monkeypatch.setattr(stored_zip, "_ZIP64_FROM", 5000)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 4000)
    data = archive()
    assert b"PK\6\6" in data
    assert read(data) == CONTENT
    starts = [member.start for member in read_members(memoryview(data)).values()]
    assert all(start % ALIGNMENT == 0 for start in starts)
    monkeypatch.undo()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        assert found.read("b/c.bin") == CONTENT["b/c.bin"]


def test_sizes_are_checked_while_writing(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught, ArchiveWriter(io.BytesIO()) as writer:
        writer.add("w", 5, [b"abc"])
    assert str(caught.value) == (
        "the data does not have the announced length\n  where:    w\n"
        "  expected: 5 bytes\n  got:      3 bytes"
    )


def refused(data: bytes, text: str, kind: type[FormatError] = FormatError) -> None:
    with pytest.raises(kind) as caught:
        read_members(memoryview(data))
    assert str(caught.value).startswith(text), str(caught.value)
    assert caught.value.where is not None


@pytest.mark.parametrize(
    "name", ["../x", "a/../x", "/x", "a//b", "//", ".", "c:x", "a\\b", "a\nb", "./a"]
)
def test_unsafe_names(name: str) -> None:
    plain = "n" * len(name)
    data = by_stdlib({plain: b"x"}).replace(plain.encode(), name.encode())
    refused(data, "a member of the archive has an unsafe name")


def test_names_that_are_no_text() -> None:
    refused(
        by_stdlib({"nnn": b""}).replace(b"nnn", b"\xff\xfe\xfd"), "the name b'\\xff"
    )


def test_compressed_members_are_refused() -> None:
    bomb = by_stdlib({"a": bytes(10_000_000)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 20_000
    refused(bomb, "the member a is compressed\n  where:    byte ")


def test_two_of_one_name() -> None:
    data = by_stdlib({"one": b"1", "two": b"2"}).replace(b"two", b"one")
    refused(data, "the archive has two members 'one'")


def change(data: bytes, signature: bytes, at: int, form: str, *values: int) -> bytes:
    place = data.rindex(signature) + at
    out = bytearray(data)
    struct.pack_into("<" + form, out, place, *values)
    return bytes(out)


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "not a whole zip archive": lambda data: data[:-30],
    "not a whole zip archive: it has no directory": lambda data: b"",
    "the archive does not end where it says": lambda data: data + b"?",
    "archives in several parts": lambda data: change(data, END, 4, "H", 1),
    "the directory of the archive is not where it should be": lambda data: change(
        data, END, 16, "I", 5
    ),
    "the directory of the archive is broken": lambda data: change(
        data, END, 8, "HH", 7, 7
    ),
    "the directory of the archive has something after": lambda data: change(
        data, END, 8, "HH", 2, 2
    ),
    "the archive lacks its 64-bit directory": lambda data: change(
        data, END, 16, "I", 0xFFFFFFFF
    ),
    "the member d is encrypted": lambda data: change(data, CENTRAL, 8, "H", 1),
    "an entry of the archive reaches beyond": lambda data: change(
        data, CENTRAL, 32, "H", 50_000
    ),
    "a member of the archive lacks its 64-bit size": lambda data: change(
        data, CENTRAL, 20, "II", 0xFFFFFFFF, 0xFFFFFFFF
    ),
    "the member d reaches beyond": lambda data: change(
        data, CENTRAL, 20, "II", 0xFFFFFFF0, 0xFFFFFFF0
    ),
    "the member d has no header": lambda data: change(data, CENTRAL, 42, "I", 9),
    "the two headers of the member d differ": lambda data: change(
        data, CENTRAL, 42, "I", 0
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_broken_archives(text: str) -> None:
    refused(FAULTS[text](archive()), text)


def test_overlapping_members() -> None:
    """How a small archive pretends to hold much: many members in the same bytes."""
    data = bytearray(by_stdlib({"same": b"x" * 100, "name": b"x" * 100}))
    second = bytes(data).index(b"name") - 30
    data = data.replace(b"name", b"samf").replace(b"same", b"samf", 1)
    place = bytes(data).rindex(CENTRAL)
    struct.pack_into("<I", data, place + 42, 0)
    first = bytes(data).index(CENTRAL)
    data[first + 46 : first + 50] = b"same"
    assert second
    with pytest.raises(FormatError):
        read_members(memoryview(bytes(data)))
    inside = by_stdlib({"b": b"yy"})
    outer = by_stdlib({"a": inside[: inside.index(CENTRAL)], "b": b"yy"})
    start = outer.index(inside[:20])
    refused(change(outer, CENTRAL, 42, "I", start), "the member b overlaps another")


def test_too_many_members() -> None:
    many = by_stdlib({f"{i}": b"" for i in range(10_001)})
    refused(many, "the archive has a larger directory than any of ours", LimitError)


def test_damaged_members() -> None:
    data = bytearray(archive())
    member = read_members(memoryview(bytes(data)))["b/c.bin"]
    data[member.start + 77] ^= 1
    with pytest.raises(FormatError) as caught:
        stored_zip.verify_checksum(memoryview(bytes(data)), member)
    assert str(caught.value).startswith("the member b/c.bin is damaged\n  where:    by")
