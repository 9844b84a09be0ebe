"""Runs cases of ops: by TensorFlow, and through the hub by a backend."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from op_cases import OpCase

import amanda


def run_by_tensorflow(case: OpCase) -> tuple[bytes, list[str], list[Any]]:
    """The GraphDef of a case, the names of its inputs, and TensorFlow's results."""
    import tensorflow as tf

    specs = [
        tf.TensorSpec([None] * x.ndim if case.dynamic else x.shape, x.dtype)
        for x in case.feeds
    ]

    def named(*xs: Any) -> list[Any]:
        rows = tf.nest.flatten(case.build(*xs))[: case.results]
        return [tf.identity(row, f"result_{n}") for n, row in enumerate(rows)]

    function = tf.function(named, jit_compile=case.jit or None, autograph=False)
    concrete = function.get_concrete_function(*specs)
    data = concrete.graph.as_graph_def()
    for node in [*data.node, *(n for f in data.library.function for n in f.node_def)]:
        if node.op in case.renamed:
            _rename(node, case.renamed[node.op])
    names = [port.op.name for port in concrete.inputs][: len(case.feeds)]
    results = concrete(*[tf.constant(x) for x in case.feeds])
    return data.SerializeToString(), names, [np.asarray(y) for y in results]


def _rename(node: Any, op: str) -> None:
    """Make a node one of another op, with the attributes that this has."""
    from tensorflow.python.framework import op_def_registry

    node.op = op
    known = {attr.name for attr in op_def_registry.get(op).attr}
    for key in list(node.attr):
        if key not in known and not key.startswith("_"):
            del node.attr[key]


def run_by_hub(data: bytes, feeds: dict[str, Any], count: int, backend: str) -> Any:
    """The results of a graph that is mapped to the hub."""
    graph = amanda.load(data, format="tensorflow")
    for n in range(count):
        graph.result(graph.ops[f"result_{n}"].output, f"r{n}")
    hub = amanda.convert(graph, "std")
    fallback = None if backend == "numpy" else ["numpy"]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run = amanda.compile(hub, backend=backend, fallback=fallback)
        given = {p.name: feeds[p.name] for p in hub.parameters if p.name in feeds}
        results = run(given)
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, list | tuple) else [results]


def difference(case: OpCase, got: list[Any], expected: list[Any]) -> str | None:
    """How the results of a case differ from TensorFlow's; None where they do not."""
    for n, (value, wanted) in enumerate(zip(got, expected, strict=True)):
        value = np.asarray(value)
        if value.shape != wanted.shape:
            return f"result {n}: shape {value.shape}, expected {wanted.shape}"
        if case.agrees is not None:
            if not case.agrees(value, wanted):
                return f"result {n}: {value}, expected {wanted}"
        elif wanted.dtype.kind in "OSU":
            rows = [
                [t.decode() if isinstance(t, bytes) else t for t in v.ravel().tolist()]
                for v in (value, wanted)
            ]
            if rows[0] != rows[1]:
                return f"result {n}: {rows[0]}, expected {rows[1]}"
        elif str(value.dtype) != str(wanted.dtype):
            return f"result {n}: {value.dtype}, expected {wanted.dtype}"
        elif not _close(value, wanted, case.tolerance):
            return f"result {n}: {value}, expected {wanted}"
    return None


def _close(value: Any, wanted: Any, tolerance: float) -> bool:
    if wanted.dtype.kind in "biu":
        return bool(np.array_equal(value, wanted))
    if wanted.dtype.kind not in "fc":  # bfloat16
        value, wanted = value.astype("float32"), wanted.astype("float32")
        tolerance = 2e-2
    if wanted.dtype == np.float16:
        tolerance = 1e-2
    return bool(
        np.allclose(value, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    )
