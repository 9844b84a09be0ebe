"""What every plug-in must do, and what the dictionary says."""

from __future__ import annotations

import pytest

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda.testing import PluginSuite
from amanda.types import parse_type


class TestPlugin(PluginSuite):
    dist = "amanda-template"


def test_a_version() -> None:
    dictionary = amanda.namespace("template@1")
    assert sorted(dictionary) == ["Add", "Clamp", "Dense", "Relu"]
    assert amanda.namespace("template").name == "amanda/template/2"


def test_the_builder_checks_arguments() -> None:
    graph = Graph("amanda/template/2")
    x = graph.parameter(parse_type("float32[2]"), name="x")
    o = amanda.namespace("template").build(graph)
    assert o.Clamp(x, low=0.0, high=1.0).op.attrs == {"low": 0.0, "high": 1.0}
    with pytest.raises(AmandaError, match="high"):
        o.Clamp(x, low=0.0)
