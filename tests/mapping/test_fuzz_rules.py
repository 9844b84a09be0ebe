"""Broken files of rules: rules or an error of ours with its place, soon."""

from __future__ import annotations

import os
import random
import time

import pytest
from mapping.broken_rules import (
    TEXTS,
    binary_file,
    change_row,
    read_binary,
    read_text,
    read_yaml,
)
from mapping.files import EVERYTHING, TABLES
from text.mutations import mutated

from amanda.errors import AmandaError, InternalError
from amanda.files.binary import mapping_messages
from amanda.mapping.rules import protobuf

pytestmark = pytest.mark.fuzz
ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "500"))
SLOW = 5.0  # seconds that no file of this size may take


def fault_of(read, *args):
    """What is wrong with the answer; None where nothing is."""
    start = time.perf_counter()
    try:
        read(*args)
    except AmandaError as error:
        if isinstance(error, InternalError):
            return f"a bug in Amanda: {error}"
        if error.where is None and error.who is None:
            return f"an error without its place: {error!r}"
    if time.perf_counter() - start > SLOW:
        return "it took too long"
    return None


@pytest.mark.parametrize(
    ("read", "good"),
    [(read_text, TEXTS), (read_yaml, [EVERYTHING.encode(), TABLES.encode()])],
    ids=["text", "yaml"],
)
def test_texts(read, good):
    dice, bad = random.Random(7), 0
    for i in range(ROUNDS):
        data = mutated(good, dice)
        fault = fault_of(read, data)
        assert fault is None, (i, fault, data)
        bad += 1
    assert bad == ROUNDS


def test_bytes():
    dice, good = random.Random(8), [binary_file()]
    for i in range(ROUNDS):
        data = mutated(good, dice)
        fault = fault_of(read_binary, data)
        assert fault is None, (i, fault, data)


def test_messages():
    dice, good = random.Random(9), binary_file()
    for i in range(ROUNDS):
        file = protobuf.decode_file(good)
        for _ in range(dice.choice([1, 1, 2, 4])):
            change_row(file if dice.random() < 0.1 else dice.choice(file.rules), dice)
        data = mapping_messages.write(file)
        fault = fault_of(read_binary, data)
        assert fault is None, (i, fault, file)
