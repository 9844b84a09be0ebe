"""Readers to fuzz: good files of each, how they are mutated, and what is tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mutant", "Reader", "installed_readers", "make_mutant"]


class Mutant(NamedTuple):
    """A file: its suffix and content."""

    suffix: str
    data: bytes


class Reader(NamedTuple):
    """What is fuzzed together: files that one function reads."""

    name: str
    weight: int
    """Its share of the mutations."""
    seeds: Callable[[], Sequence[Mutant]]
    change: Callable[[bytes, Sequence[bytes], random.Random], bytes]
    """A broken file from a good one; it may use parts of the others."""
    attempt: Callable[[Path, Path, random.Random], str]
    """Reads a file and does with it what users do. Returns the outcome; raises anything
    but an AmandaError where a promise is broken. The second path is a folder for files
    that are written."""
    close: Callable[[], object] = lambda: None
    """Ends the processes that it started."""
    warm: bool = True
    """Whether the first process tries good files: not where that starts threads."""


class _Module(NamedTuple):
    """A module of this folder with readers, and what it needs installed."""

    name: str
    needs: tuple[str, ...]


_MODULES = (
    _Module("graph_files", ("onnx", "amanda_onnx", "amanda_std")),
    _Module("tensorflow_files", ("google.protobuf", "amanda_tf")),
    _Module("saved_model_files", ("google.protobuf", "amanda_tf")),
    _Module("keras_files", ("h5py", "amanda_keras")),
    _Module("torch_files", ("amanda_torch", "amanda_std")),
    _Module("rule_files", ()),
    _Module("array_files", ()),
    _Module("nd4j_files", ("amanda_nd4j",)),
    _Module("jax_files", ("amanda_jax",)),
)
"""A module without the packages that it needs is left out."""


@cache
def installed_readers(names: str = "") -> tuple[Reader, ...]:
    """The readers whose packages are installed; only those named, if any are."""
    found = [
        reader
        for module in _MODULES
        if all(find_spec(need) for need in module.needs)
        for reader in import_module(f"fuzz.{module.name}").READERS
    ]
    wanted = names.split(",") if names else [reader.name for reader in found]
    assert set(wanted) <= {r.name for r in found}, f"readers: {[r.name for r in found]}"
    return tuple(reader for reader in found if reader.name in wanted)


@cache
def _contents(reader: Reader) -> tuple[bytes, ...]:
    return tuple(seed.data for seed in reader.seeds())


def make_mutant(
    readers: Sequence[Reader], choose: random.Random
) -> tuple[Reader, Mutant]:
    """A reader by its weight, and a broken file for it."""
    [reader] = choose.choices(readers, [reader.weight for reader in readers])
    seed = choose.choice(reader.seeds())
    data = reader.change(seed.data, _contents(reader), choose)
    return reader, Mutant(seed.suffix, data)
