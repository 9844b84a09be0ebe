"""The dictionary of the hub set: every entry reads back, and no sample is at fault."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.dictionary import decode_op_def, encode_op_def, parse_signature
from amanda_std import trace
from amanda_std.engine.arrays import array_type
from amanda_std.hub.dictionary import HISTORY, entry
from amanda_std.ops import OPS

STD = HISTORY.at("1")


@pytest.mark.parametrize("name", OPS)
def test_every_entry_reads_back(name):
    made = entry(OPS[name])
    assert parse_signature(str(made)).signature == str(made)
    assert decode_op_def(encode_op_def(made)) == made
    assert STD[name] is made


def test_control_flow():
    assert str(STD["while"]) == (
        "while(*init: any >= 0, *, condition: graph, body: graph, max_trips?: int?)"
        " -> (*y: any >= 0)  #composite"
    )
    assert STD["case"].attr("branches").kind == "graph[]"


def test_it_does_what_a_dictionary_does():
    std = amanda.namespace("std")
    assert "relu" in [found.name for found in std.search("relu")]
    graph = amanda.Graph(std.name)
    std.build(graph).relu(graph.parameter(amanda.parse_type("float32[2]")))
    assert std.validate(graph) == []
    with pytest.raises(amanda.AmandaError, match="did you mean 'relu'"):
        std.build(graph).rellu()


def test_kinds_of_attributes():
    assert STD["matrix_norm"].attr("kind").kind == "any"
    assert STD["concat"].attr("axis").kind == "int"


def plain(op):
    """Are its samples of tensors alone?"""
    kinds = [p.kind for p in op.form.params]
    return all(kind.role == "tensor" for kind in (*kinds, *op.form.results))


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if plain(op)])
def test_samples_have_no_fault(name):
    """What an op is called with in its own samples is what its entry says."""
    op = OPS[name]
    for sample in op.samples_rule():
        arrays = [arg for arg in sample.args if isinstance(arg, np.ndarray)]

        def call(*values, sample=sample):
            given = iter(values)
            args = [
                next(given) if isinstance(arg, np.ndarray) else arg
                for arg in sample.args
            ]
            return op(*args, **sample.attrs)

        graph = trace(call, [array_type(array) for array in arrays])
        assert [str(problem) for problem in STD.validate(graph)] == []
