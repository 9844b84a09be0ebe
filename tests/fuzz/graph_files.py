"""Files of graphs: ONNX models, and the lossless forms of these and of std graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.onnx_models import mutate_model, operator_models
from fuzz.readers import Mutant, Reader
from fuzz.stages import FORMS, try_stages
from proto.proto_mutations import break_archive, break_bytes, break_messages
from text.mutations import mutated

import amanda
from amanda.errors import AmandaError

__all__ = ["READERS", "change_text"]

Change = Callable[[bytes, Sequence[bytes], random.Random], bytes]
_GOALS = ("amanda/std/1", "amanda/onnx/21", "amanda/onnx/7")
_GRAPHS = 300
"""Models that are written in each form."""


@cache
def _models() -> tuple[Mutant, ...]:
    return tuple(Mutant("onnx", raw) for raw in operator_models())


@cache
def _form_files(form: str) -> tuple[Mutant, ...]:
    """Models in a lossless form: as ONNX and as converted to std."""
    found = []
    models = list(operator_models())
    random.Random(0).shuffle(models)
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "m.onnx"), Path(folder, f"m.{form}")
        for i, raw in enumerate(models[:_GRAPHS]):
            source.write_bytes(raw)
            try:
                graph = amanda.load(source)
                if i % 4:
                    graph = amanda.convert(graph, "amanda/std/1")
                amanda.save(graph, target)
            except AmandaError:
                continue  # an op without a rule
            found.append(Mutant(form, target.read_bytes()))
    return tuple(found)


def _change_model(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    if choose.random() < 1 / 6:
        return break_bytes(data, choose)
    return mutate_model(data, good, choose)


def change_text(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    return mutated([data, data, data, choose.choice(good)], choose)


def _change_message(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    return choose.choice([break_bytes, break_messages])(data, choose)


def _change_archive(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    return break_archive(data, choose)


_CHANGES: dict[str, Change] = {"ampb": _change_message, "amanda": _change_archive}
_ATTEMPT = partial(try_stages, goals=_GOALS)

READERS = [
    Reader("onnx", 40, _models, _change_model, _ATTEMPT),
    *(
        Reader(
            form,
            7,
            partial(_form_files, form),
            _CHANGES.get(form, change_text),
            _ATTEMPT,
        )
        for form in FORMS
    ),
]
