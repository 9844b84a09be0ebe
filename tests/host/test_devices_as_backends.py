"""Backends whose devices are backends of their own: the method `select`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.files import dumps_without_weights
from amanda.graph import Graph
from amanda.host import Host
from amanda.session import Session
from amanda.tensors import Tensor

NAMESPACE = "amanda/sample/1"


class OneOp:
    """Takes one op, which adds a number."""

    namespace = NAMESPACE

    def __init__(self, name: str, type: str, amount: float) -> None:
        self.name = name
        self._type = type
        self._amount = amount

    def devices(self) -> Sequence[str]:
        return [self._type]

    def takes(self, op: Any) -> Any:
        return op.type == self._type or f"only {self._type} is taken"

    def compile(self, graph: Graph, device: str | None, options: Any) -> Any:
        del device, options
        count, amount = len(list(graph)), self._amount

        def call(feeds: Mapping[Any, Any], out: Any = None) -> list[Any]:
            del out
            return [np.asarray(value) + count * amount for value in feeds.values()]

        return call


class Family:
    """A backend for each device: `one`, `two`. The option `amount` is what they add."""

    name = "family"
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["one", "two"]

    def takes(self, op: Any) -> Any:
        return f"no device is chosen for {op.type}"

    def select(self, device: str | None, options: Mapping[str, Any]) -> OneOp:
        if device not in self.devices():
            raise BackendError(f"there is no device {device!r}")
        return OneOp(f"family:{device}", device, options.get("amount", 1.0))

    def compile(self, graph: Graph, device: str | None, options: Any) -> Any:
        return self.select(device, options).compile(graph, device, options)


@pytest.fixture
def host() -> Host:
    host = Host(points=())
    host.register_backend("family", Family)
    return host


def chain(*types: str) -> Graph:
    graph = Graph(NAMESPACE)
    value: Any = graph.parameter(name="x")
    for i, type in enumerate(types):
        value = graph.add(type, [value], name=f"{type}_{i}").output
    graph.result(value, "y")
    return graph


def test_the_device_decides_what_is_taken(host: Host) -> None:
    fed = [np.zeros(2)]
    found = amanda.run(chain("one", "one"), fed, backend="family:one", host=host)
    assert found["y"].tolist() == [2, 2]
    with pytest.raises(BackendError) as caught:
        amanda.compile(chain("one"), backend="family:two", host=host)
    assert caught.value.problems == ("one 'one_0': only two is taken",)
    with pytest.raises(BackendError, match="there is no device 'three'"):
        amanda.compile(chain("one"), backend="family", device="three", host=host)


def test_options_select_too(host: Host) -> None:
    found = amanda.run(
        chain("two"), [np.zeros(1)], backend="family:two", amount=5.0, host=host
    )
    assert found["y"].tolist() == [5]


def test_a_fallback_may_be_another_device(host: Host) -> None:
    compiled = amanda.compile(
        chain("one", "two", "one"), backend="family:one", fallback="family:two",
        host=host,
    )  # fmt: skip
    assert compiled([np.zeros(1)])["y"].tolist() == [3]
    executable: Any = compiled.executable
    pieces = executable.report().pieces
    assert [piece.backend for piece in pieces] == ["family", "family:two", "family"]


def test_a_session_runs_on_the_device(host: Host) -> None:
    session = Session(chain("two"), backend="family", device="two", host=host)
    assert session.run(feeds={"x": np.zeros(1)})["y"].tolist() == [1]


def test_json_without_weights_has_their_index() -> None:
    graph = Graph(NAMESPACE)
    tensors = [Tensor.of([1.0] * 100, "float32"), Tensor.of([[7]], "int8")]
    for tensor in tensors:
        graph.result(graph.constant(tensor).output)
    text, weights = dumps_without_weights(graph)
    assert [weight is tensor for weight, tensor in zip(weights, tensors, strict=True)]
    assert '{"dtype": "float32", "shape": [100], "weight": 0}' in text
    assert '{"dtype": "int8", "shape": [1, 1], "weight": 1}' in text
