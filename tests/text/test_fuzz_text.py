"""Broken input: a reader answers with an AmandaError, soon, or with a sound graph."""

from __future__ import annotations

import os
import random
import time
from types import ModuleType

import pytest
from text.graphs import everything
from text.mutations import mutated
from text.published import DOCUMENTS

from amanda.errors import AmandaError, InternalError
from amanda.files.text import json_form, readable, yaml_form
from amanda.files.text.document.schema import EdgeDocument
from amanda.graph import Graph

pytestmark = pytest.mark.install_independent

ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "500"))
SLOW = 5.0  # seconds that no text of this size may take


def good_texts(form: ModuleType) -> list[bytes]:
    graphs = [everything()] * len(DOCUMENTS)  # half of all rounds
    for text in DOCUMENTS.values():
        graph = yaml_form.loads(text)
        if isinstance(graph, Graph):
            graphs.append(graph)
    texts = [form.dumps(graph).encode() for graph in graphs]
    if form is yaml_form:
        texts += [text.encode() for text in DOCUMENTS.values()]
    return texts


@pytest.mark.fuzz
@pytest.mark.parametrize("form", [yaml_form, json_form, readable])
def test_no_foreign_exception(form: ModuleType) -> None:
    good, dice = good_texts(form), random.Random(20)
    for i in range(ROUNDS):
        data = mutated(good, dice)
        start = time.process_time()
        fault = fault_of(form, data)
        assert fault is None, (i, fault, data)
        assert time.process_time() - start < SLOW, (i, data)


def fault_of(form: ModuleType, data: bytes) -> str | None:
    """What is wrong with the answer to a text; None where nothing is."""
    try:
        made = form.loads(data, "fuzz")
    except AmandaError as error:
        if isinstance(error, InternalError):
            return f"a bug in Amanda: {error}"
        if error.where is None or not error.where.startswith("fuzz"):
            return f"an error without its place: {error!r}"
        return "a very long message" if len(str(error)) > 3000 else None
    if not isinstance(made, EdgeDocument):
        check_sound(form, made)
    return None


def check_sound(form: ModuleType, graph: Graph) -> None:
    """What was read from a broken text is a graph like any other."""
    assert graph.check() == []
    text = form.dumps(graph)
    assert form.dumps(form.loads(text)) == text
