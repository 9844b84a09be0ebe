"""Every op type that is mapped, against TensorFlow itself."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import amanda
from amanda.mapping.routes.coverage import coverage
from amanda_tf.mapping import MAPPING

pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
sys.path.insert(0, str(Path(__file__).parent))  # its tables stand beside it
op_runs = import_module("op_runs")
TABLES = ("basic", "control", "gradients", "layers", "linalg", "text", "xla")
CASES = [c for name in TABLES for c in import_module(f"op_cases_{name}").CASES]


@cache
def outcome(index):
    """The GraphDef of a case, the names of its inputs, and TensorFlow's results."""
    return op_runs.run_by_tensorflow(CASES[index])


def fault(index, backend):
    case = CASES[index]
    data, names, expected = outcome(index)
    feeds = dict(zip(names, case.feeds, strict=True))
    got = op_runs.run_by_hub(data, feeds, len(expected), backend)
    return op_runs.difference(case, got, expected)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_numpy_gives_what_tensorflow_gives(index):
    assert fault(index, "numpy") is None


@pytest.mark.scale
@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_xla_gives_what_tensorflow_gives(index):
    pytest.importorskip("amanda_jax", reason="needs amanda-jax, which is the backend")
    assert fault(index, "jax") is None


REMOVED = {
    "BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad",
    "Conv3DBackpropFilter", "Conv3DBackpropInput", "QuantizeAndDequantize", "TopK",
}  # fmt: skip
"""Ops that TensorFlow runs in graphs of old versions only."""
WITHOUT_KERNEL = {
    "Conv2DBackpropFilterV2", "Conv2DBackpropInputV2", "FFTND", "IFFTND", "IRFFTND",
    "RFFTND",
}  # fmt: skip
"""Ops that TensorFlow has no kernel for on CPU."""
IN_TEST_FUNCTIONS = {
    "AnonymousHashTable", "AnonymousMutableHashTable", "HashTable",
    "HashTableV2", "LookupTableExport", "LookupTableExportV2", "LookupTableFind",
    "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "MapDefun",
    "MutableHashTable", "MutableHashTableV2", "RaggedGather", "RaggedTensorToSparse",
    "RaggedTensorToTensor", "ReduceJoin", "SparseFillEmptyRows", "SparseSlice",
    "StringSplitV2",
}  # fmt: skip
"""Ops of tables, texts and ragged tensors, in test_functions.py by Python's API."""


def op_types(data):
    from tensorflow.core.framework.graph_pb2 import GraphDef

    graph = GraphDef.FromString(data)
    bodies = (node for f in graph.library.function for node in f.node_def)
    return {node.op for node in (*graph.node, *bodies)}


def test_every_op_that_is_mapped_has_a_case():
    dictionary = amanda.namespace("tensorflow")
    found = coverage(MAPPING, dictionary.name, "amanda/std/1", dictionary, ())
    mapped = {op.op for op in found.ops if op.kind != "gap"}
    run = set().union(*(op_types(outcome(i)[0]) for i in range(len(CASES))))
    stateful = {name for name in mapped if "resource" in str(dictionary[name])}
    left = mapped - run - stateful - IN_TEST_FUNCTIONS
    assert left == REMOVED | WITHOUT_KERNEL
    assert len(mapped) >= 450
