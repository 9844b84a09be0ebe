"""Tests in this process: a model on a backend, against another one or stored results,
and conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import amanda
from amanda.comparison import compare_values
from amanda.graph import Graph
from amanda_inspect.reduction.failures import (
    Failure,
    failure_of_difference,
    failure_of_error,
)
from amanda_inspect.windows import Backend

__all__ = ["ConversionTest", "RunTest"]


@dataclass(frozen=True)
class RunTest:
    """A model fails on a backend: by an error, or by results that another has not."""

    backend: Backend
    reference: Backend | None = None
    """The backend that has the right results."""
    expected: Mapping[str, Any] | None = None
    """Right results by name, instead of a reference."""

    def __call__(self, graph: Graph, feeds: Mapping[str, Any]) -> Failure | None:
        found, failure = _attempt(lambda: _run(graph, feeds, self.backend))
        if failure is not None or (self.reference is None and self.expected is None):
            return failure
        if self.reference is None:
            return _first_difference(found, self.expected or {})
        wanted, failure = _attempt(lambda: _run(graph, feeds, self.reference))
        if failure is not None:
            return Failure("error", f"the reference: {failure.what}", failure.text)
        return _first_difference(found, wanted)


@dataclass(frozen=True)
class ConversionTest:
    """A model cannot be converted to a namespace."""

    target: str

    def __call__(self, graph: Graph, feeds: Mapping[str, Any]) -> Failure | None:  # noqa: ARG002
        return _attempt(lambda: amanda.convert(graph, self.target))[1]


def _attempt(call: Callable[[], Any]) -> tuple[Any, Failure | None]:
    """What a call returns, or how it fails."""
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001  how it fails is what is asked
        return None, failure_of_error(error)


def _run(graph: Graph, feeds: Mapping[str, Any], backend: Backend | None) -> Any:
    assert backend is not None
    compiled = amanda.compile(
        graph, backend.name, keep_executable=False, **{"seed": 0, **backend.options}
    )
    return compiled(feeds)


def _first_difference(
    found: Mapping[Any, Any], wanted: Mapping[Any, Any]
) -> Failure | None:
    for key, value in wanted.items():
        if key not in found:
            continue
        difference = compare_values(found[key], value)
        if not difference.equal:
            return failure_of_difference(key, difference)
    return None
