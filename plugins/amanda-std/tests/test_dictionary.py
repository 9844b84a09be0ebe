"""The dictionary that follows from the operations, on graphs that these make."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.dictionary import Dictionary, parse_signature
from amanda.graph import Graph
from amanda.types import DType, Sym, TensorType
from amanda_std import trace
from amanda_std.engine.samples import Sample
from amanda_std.hub.argument_docs import sections
from amanda_std.ops import OPS


@pytest.fixture(scope="module")
def std() -> Dictionary:
    made = Dictionary.of(amanda.namespace("std@1"))
    assert made is not None
    return made


def test_every_operation_has_an_entry_that_reads_back(std: Dictionary) -> None:
    assert set(std) == OPS.keys()
    for entry in std.values():
        assert parse_signature(str(entry)) == entry
        assert entry.doc == OPS[entry.name].doc


def test_every_port_and_attribute_is_documented(std: Dictionary) -> None:
    for entry in std.values():
        attrs = [a.name for a in entry.attrs if not entry.docs.get(f"attr {a.name}")]
        assert attrs == [], entry.name
        ports = (*entry.inputs, *entry.outputs)
        assert [p.name for p in ports if not p.doc] == [], entry.name
    assert std["softmax"].outputs[0].doc == OPS["softmax"].doc
    assert std["topk"].docs["in k"] == "How many elements"
    assert std["tril"].docs["in k"].startswith("The number of the diagonal")
    assert std["attention"].docs["in k"] == "The keys"


def test_documentation_of_arguments_names_only_arguments(std: Dictionary) -> None:
    """Each line is used by an op of its section; no more specific one hides it."""
    themes: dict[str, list[str]] = {"all": list(OPS)}
    for op in OPS.values():
        theme = ".".join(op.function.__module__.split(".")[1:3])
        themes.setdefault(theme, []).append(op.name)
        themes.setdefault(op.name, [op.name])
    for section, lines in sections().items():
        shown = {doc for name in themes[section] for doc in std[name].docs.values()}
        assert set(lines.values()) <= shown, section


def test_primitives_are_tagged(std: Dictionary) -> None:
    primitives = {entry.name for entry in std.with_tag("primitive")}
    composites = {entry.name for entry in std.with_tag("composite")}
    assert composites == {name for name, op in OPS.items() if op.is_composite}
    assert primitives == OPS.keys() - composites


def graph_of(name: str, sample: Sample, dims_known: bool) -> Graph:
    """The op with every tensor of a sample fed."""
    operation = OPS[name]
    params = operation.form.params_of(len(sample.args))
    fed = [
        param.kind.role == "tensor" and argument is not None
        for param, argument in zip(params, sample.args, strict=True)
    ]

    def function(*values: Any) -> Any:
        rest = iter(values)
        pairs = zip(sample.args, fed, strict=True)
        given = [next(rest) if yes else argument for argument, yes in pairs]
        return operation(*given, **sample.attrs)

    types = []
    for argument, yes in zip(sample.args, fed, strict=True):
        if yes:
            array = np.asarray(argument)
            shape = array.shape if dims_known else [Sym.unknown() for _ in array.shape]
            types.append(TensorType(DType.of(array), shape))
    return trace(function, types)


def samples_of(name: str) -> list[Sample]:
    """A few samples all of whose values are tensors."""
    operation = OPS[name]
    found = islice(operation.samples_rule() if operation.samples_rule else (), 4)
    plain = (np.ndarray, np.generic, bool, int, float, complex, type(None))
    kept = []
    for sample in found:
        params = operation.form.params_of(len(sample.args))
        values = zip(params, sample.args, strict=True)
        if all(
            p.kind.role in ("host", "body") or isinstance(a, plain) for p, a in values
        ):
            kept.append(sample)
    return kept


CASES = sorted(OPS)


@pytest.mark.parametrize("name", CASES)
def test_graphs_of_samples_have_no_fault(name: str, std: Dictionary) -> None:
    samples = samples_of(name)
    if not samples:
        pytest.skip("no sample of it has tensors alone")
    for sample in samples:
        for dims_known in (True, False):
            graph = graph_of(name, sample, dims_known)
            assert [str(problem) for problem in std.validate(graph)] == []


def test_most_operations_are_in_a_graph() -> None:
    assert sum(bool(samples_of(name)) for name in CASES) > 350


@pytest.mark.parametrize("name", CASES)
def test_faults_in_them_are_found(name: str, std: Dictionary) -> None:
    samples = samples_of(name)
    graph = graph_of(name, samples[0], True) if samples else Graph(std.name)
    op = next((op for op in graph.walk() if op.type == name), None)
    if op is None:
        pytest.skip("it is made of other ops, or has no sample of tensors alone")
    op.attrs["no_such_attribute"] = 1
    assert [p.kind for p in std.validate(graph)] == ["unknown attribute"]
    del op.attrs["no_such_attribute"]
    op.type = f"{name}_"
    assert {p.kind for p in std.validate(graph)} == {"unknown op"}
