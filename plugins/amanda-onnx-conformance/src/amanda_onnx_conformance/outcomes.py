"""Run one case of the suite on a backend.

With a second data set, the program compiled for the first one also runs the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from amanda.scoreboard import DataSet, Outcome, difference, run_data_sets
from amanda_onnx_conformance.cases import cases, data_sets, load_model, to_array
from amanda_onnx_conformance.second_data import (
    EXCLUDED,
    SecondDataSet,
    second_data_set,
)

__all__ = ["draws_random_numbers", "run_case"]

_SECOND_DATA_ULPS: Final = 2
"""Tolerance on second inputs, in units in the last place of the largest element: they
may cancel, unlike the inputs that the suite's tolerances were chosen for."""

_CANCELLING_OPS: Final = frozenset({"DFT", "STFT"})
"""Ops some of whose results are 0 by cancellation: sums of large numbers, rounded."""

_RANDOM_OPS: Final = frozenset({"Bernoulli", "Multinomial", "RandomNormal",
                                "RandomNormalLike", "RandomUniform",
                                "RandomUniformLike"})  # fmt: skip


def run_case(
    kind: str, case: Any, backend: str = "numpy", *, second: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run one case; `second`: with its second data set, too.

    `fallback` is a backend for ops that this one does not support. `options` are
    options of `backend`.
    """
    import amanda

    try:
        model = load_model(case)
        more: list[DataSet] = []
        if second:
            found = _second_data_of(kind, case)
            if found.why:
                return Outcome(case.name, kind, "excluded", EXCLUDED[found.why])
            model = found.model
            more = [_data_set(case, found.feeds, found.expected, _SECOND_DATA_ULPS)]
    except Exception as error:  # noqa: BLE001 - a bug in any part is one case's failure
        return Outcome(case.name, kind, "fail", f"{type(error).__name__}: {error}")
    return run_data_sets(
        case.name, kind, lambda: amanda.load(model), _data_sets(case, more),
        backend, {**(options or {}), "fallback": fallback},
        leaves_values_open=draws_random_numbers,
    )  # fmt: skip


def _data_sets(case: Any, more: Sequence[DataSet]) -> Iterator[DataSet]:
    for feeds, expected in data_sets(case):
        yield _data_set(case, feeds, expected)
    yield from more


def _data_set(
    case: Any, feeds: Sequence[Any], expected: Sequence[Any], ulps: int = 0
) -> DataSet:
    if not ulps and _cancels(case):
        ulps = 1
    arrays = [[to_array(value) for value in values] for values in (feeds, expected)]
    return DataSet(arrays[0], arrays[1], case.rtol, case.atol, ulps)


def _cancels(case: Any) -> bool:
    nodes = case.model.graph.node if case.model is not None else ()
    return any(node.op_type in _CANCELLING_OPS for node in nodes)


def draws_random_numbers(graph: Any) -> bool:
    """Whether a graph draws random numbers; ONNX leaves open which ones."""
    return any(
        op.type in _RANDOM_OPS or (op.type == "Dropout" and len(op.inputs) > 2)
        for op in graph.walk()
    )


# -- the second data set -----------------------------------------------------------


@cache
def _node_models() -> dict[str, Any]:
    return {case.name: case.model for _, case in cases(["node"])}


def _second_data_of(kind: str, case: Any) -> SecondDataSet:
    """The second data set of a case, derived from its first one."""
    import onnx

    model = load_model(case)
    if isinstance(model, Path):
        model = onnx.load(model)
    if kind == "real":
        return SecondDataSet(model, why="real")
    feeds, expected = next(iter(data_sets(case)))

    def differs(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
        return difference(found, wanted, case.rtol, case.atol)

    # An expanded case holds the body of a function: the one-op model has its inputs.
    one_op = _node_models().get(case.name.partition("_expanded")[0], model)
    return second_data_set(
        case.name, model, one_op, [to_array(f) for f in feeds],
        [to_array(e) for e in expected], differs,
    )  # fmt: skip
