"""Broken files in protobuf form: a sound graph or an error of ours, nothing else."""

from __future__ import annotations

import random

import pytest
from proto_mutations import (
    ROUNDS,
    break_bytes,
    break_messages,
    only_errors_of_ours,
    plain,
    rich,
)

from amanda.files.binary import codec

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("change", [break_bytes, break_messages])
@pytest.mark.parametrize("make", [plain, rich])
def test_broken(change, make) -> None:
    data = codec.dumps(make())
    read = 0
    for i in range(ROUNDS // 2):
        broken = change(data, random.Random(i))
        try:
            read += only_errors_of_ours(codec.loads, broken)
        except Exception as error:
            error.add_note(f"round {i}")
            raise
    assert read < ROUNDS // 2, "nothing was broken"
