"""Good files of every reader, and how they are mutated."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from proto.proto_mutations import break_bytes
from text.mutations import mutated

import amanda
from amanda.errors import AmandaError

__all__ = ["FORMS", "Mutant", "mutate", "prepare_seeds"]

Change = Callable[[bytes, list[bytes], random.Random], bytes]
FORMS = ("yaml", "json", "amtxt", "ampb", "amanda")
"""The lossless forms, whose files are made from ONNX models and their conversions."""

_STD_SEEDS = 300


class Mutant(NamedTuple):
    """A broken file: its suffix and content."""

    suffix: str
    data: bytes


def _any_bytes(data: bytes, good: list[bytes], choose: random.Random) -> bytes:
    return break_bytes(data, choose)


def _any_text(data: bytes, good: list[bytes], choose: random.Random) -> bytes:
    return mutated([data, data, data, choose.choice(good)], choose)


@cache
def _onnx_files() -> tuple[bytes, ...]:
    from fuzz.onnx_models import operator_models

    return operator_models()


@cache
def _form_files(form: str) -> tuple[bytes, ...]:
    """Models in a lossless form: as ONNX and as converted to std."""
    found = []
    models = list(_onnx_files())
    random.Random(0).shuffle(models)
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "m.onnx"), Path(folder, f"m.{form}")
        for i, raw in enumerate(models[:_STD_SEEDS]):
            source.write_bytes(raw)
            try:
                graph = amanda.load(source)
                if i % 4:
                    graph = amanda.convert(graph, "amanda/std/1")
                amanda.save(graph, target)
            except AmandaError:
                continue  # an op without a rule
            found.append(target.read_bytes())
    return tuple(found)


def mutate(choose: random.Random) -> Mutant:
    """The next broken file."""
    from fuzz.onnx_models import mutate_model

    suffix = choose.choice(["onnx", "onnx", "onnx", *FORMS])
    if suffix == "onnx":
        good = list(_onnx_files())
        change: Change = choose.choice([mutate_model] * 5 + [_any_bytes])
    else:
        good = list(_form_files(suffix))
        change = _any_bytes if suffix in ("ampb", "amanda") else _any_text
    return Mutant(suffix, change(choose.choice(good), good, choose))


def prepare_seeds() -> None:
    """Make all good files, so that forked processes share them."""
    _onnx_files()
    for form in FORMS:
        _form_files(form)
