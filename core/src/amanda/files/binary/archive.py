"""`.amanda`: a graph and its weights in one file, which is mapped.

A zip archive with uncompressed members: `amanda.json`, which identifies it, `graph.pb`,
the graph in protobuf form, and `weights.safetensors`. Opening reads the graph only; the
weights are slices of the mapped file, aligned so that runtimes can use them in place.
Saving streams them, and stores equal ones once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Final

from amanda.errors import AmandaError, FormatError
from amanda.files.atomic import Path, map_file, replace_file
from amanda.files.binary import safetensors, stored_zip
from amanda.files.binary.decoder import decode
from amanda.files.binary.encoder import ByteChunk, EncodedModel, encode, is_splat
from amanda.graph import Graph
from amanda.tensors import blocks_ahead

__all__ = ["load", "loads", "save"]

ABOUT: Final = "amanda.json"
GRAPH: Final = "graph.pb"
WEIGHTS: Final = "weights.safetensors"

MAJOR, MINOR = 1, 0
_MOST_ABOUT = 1 << 16


def save(graph: Graph, path: Path) -> None:
    """Write the graph and its weights; an old file is replaced at the end."""
    encoded = encode(graph)
    keys = _weight_keys(encoded)
    tensors = {
        key: (str(tensor.dtype), tensor.shape, tensor.nbytes)
        for key, tensor in ((key, encoded.tensors[i]) for i, key in keys.items())
    }
    head, order = safetensors.encode_header(tensors)
    places = {key: place for place, key in keys.items()}
    data = blocks_ahead(encoded.tensors[places[key]] for key in order)
    size = len(head) + sum(item[2] for item in tensors.values())
    with replace_file(path) as file, stored_zip.ArchiveWriter(file) as archive:
        _add_member(archive, ABOUT, [_encode_about()])
        _add_member(archive, GRAPH, list(encoded.with_keys(keys)))
        archive.add(WEIGHTS, size, chain([head], chain.from_iterable(data)))


def load(path: Path, *, verify: bool = False) -> Graph:
    """The graph in a file; its weights are read when they are used.

    `verify` compares all checksums first, which reads the whole file.
    """
    return loads(map_file(path), verify=verify, who=str(path))


def loads(
    data: bytes | bytearray | memoryview, *, verify: bool = False, who: str = "<bytes>"
) -> Graph:
    """The graph in the bytes of an archive; its weights share them."""
    view = memoryview(data).cast("B").toreadonly()
    try:
        return _Archive(view, verify).read()
    except AmandaError as error:
        error.who = error.who or who
        raise


# -- writing -----------------------------------------------------------------------


def _encode_about() -> bytes:
    about = {"format": "amanda", "version": [MAJOR, MINOR]}
    return json.dumps(about, separators=(",", ":")).encode() + b"\n"


def _add_member(
    archive: stored_zip.ArchiveWriter, name: str, pieces: Sequence[ByteChunk]
) -> None:
    archive.add(name, sum(map(len, pieces)), pieces)


def _weight_keys(encoded: EncodedModel) -> dict[int, str]:
    """A unique name for each tensor, after the op that holds it."""
    keys: dict[int, str] = {}
    used: set[str] = {"__metadata__"}  # reserved by the safetensors layout
    serial: dict[str, int] = {}
    for place, (tensor, wish) in enumerate(
        zip(encoded.tensors, encoded.wishes, strict=True)
    ):
        if is_splat(tensor):
            continue
        name = stem = wish or "tensor"
        while name in used:
            serial[stem] = serial.get(stem, 0) + 1
            name = f"{stem}_{serial[stem]}"
        used.add(name)
        keys[place] = name
    return keys


# -- reading -----------------------------------------------------------------------


class _Archive:
    """The checked members of an archive."""

    def __init__(self, data: memoryview, verify: bool) -> None:
        self._data = data
        self._members = stored_zip.read_members(data)
        if verify:
            for member in self._members.values():
                stored_zip.verify_checksum(data, member)
        self._check_about()
        self._weights: dict[str, safetensors.StoredWeight] = {}
        self._start = 0
        if WEIGHTS in self._members:
            start = self._members[WEIGHTS].start
            with _member_errors(WEIGHTS):
                found = safetensors.parse_header(self._member(WEIGHTS))
            self._weights, self._start = found[0], start + found[1]

    def read(self) -> Graph:
        with _member_errors(GRAPH):
            return decode(self._member(GRAPH), self._weight_data)

    def _member(self, name: str) -> memoryview:
        member = self._members.get(name)
        if member is None:
            raise FormatError(
                f"the archive has no {name}",
                expected=f"{ABOUT}, {GRAPH} and {WEIGHTS}",
                got=", ".join(list(self._members)[:10]) or "nothing",
            )
        return self._data[member.start : member.stop]

    def _check_about(self) -> None:
        raw = bytes(self._member(ABOUT)[:_MOST_ABOUT])
        try:
            about = json.loads(raw)
            known = about["format"] == "amanda"
            major, minor = about["version"]
        except (ValueError, LookupError, TypeError, RecursionError):
            known = False
        if not known:
            raise FormatError("not an archive of Amanda", where=ABOUT)
        if major != MAJOR:
            raise FormatError(
                "an archive of another version of the format",
                where=ABOUT,
                expected=f"version {MAJOR}",
                got=f"version {major}.{minor}",
                hint="a newer Amanda may read it",
            )

    def _weight_data(self, key: str, dtype: str, shape: list[int]) -> memoryview:
        """The data of a weight; FormatError unless its type is the graph's."""
        weight = self._weights.get(key)
        if weight is None:
            raise FormatError(f"{WEIGHTS} has no weight {key!r}")
        size = weight.stop - weight.start
        expected = safetensors.stored_type(dtype, shape, size)
        if (weight.dtype, list(weight.shape)) != expected:
            raise FormatError(
                f"the weight {key!r} is not what the graph states",
                expected=f"{expected[0]}{expected[1]}",
                got=f"{weight.dtype}{list(weight.shape)}",
            )
        start = self._start + weight.start
        return self._data[start : start + size]


class _member_errors:  # noqa: N801  (used as a statement)
    """Errors in the block name the member."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, AmandaError):
            where = error.where
            error.where = self._name if where is None else f"{self._name}, {where}"
