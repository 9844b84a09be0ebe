"""Broken archives: a sound graph or an error of ours, nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from proto_mutations import (
    ROUNDS,
    break_archive,
    only_errors_of_ours,
    plain,
    rich,
)

from amanda.errors import AmandaError
from amanda.files.binary import archive, stored_zip

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("make", [plain, rich])
def test_broken(tmp_path: Path, make) -> None:
    path = tmp_path / "a.amanda"
    archive.save(make(), path)
    data = path.read_bytes()
    read = 0
    for i in range(ROUNDS // 2):
        broken = break_archive(data, random.Random(i))
        try:
            read += only_errors_of_ours(archive.loads, broken)
        except Exception as error:
            error.add_note(f"round {i}")
            raise
    assert read < ROUNDS // 2, "nothing was broken"


def test_any_bytes_as_directory() -> None:
    """Archives that are nothing but noise with the right signatures."""
    refused = 0
    for i in range(ROUNDS):
        choose = random.Random(i)
        marks = [b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"\xff" * 4]
        parts = [
            choose.choice([*marks, choose.randbytes(18), bytes(12)]) for _ in range(20)
        ]
        data = b"".join(parts) + b"PK\5\6" + bytes(18)
        try:
            stored_zip.read_members(memoryview(data))
        except AmandaError:
            refused += 1
    assert refused > ROUNDS // 2
