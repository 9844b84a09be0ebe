"""What every plug-in, backend and format must do, on this one."""

from __future__ import annotations

from amanda.graph import Graph
from amanda.testing import BackendSuite, FormatSuite, PluginSuite, Sample
from amanda_template.backend import NAMESPACE


def product() -> Graph:
    """(x + x) * y"""
    graph = Graph(NAMESPACE)
    x, y = graph.parameter(name="x"), graph.parameter(name="y")
    total = graph.add("add", [x, x], name="total").output
    graph.result(graph.add("multiply", [total, y], name="product").output, "product")
    return graph


class TestPlugin(PluginSuite):
    dist = "amanda-template"


class TestBackend(BackendSuite):
    backend = "template"
    late = ("numpy",)

    def samples(self):
        return {"product": lambda: Sample(product(), [3.0, 7.0], [42.0])}


class TestFormat(FormatSuite):
    format = "template"
    late = ("numpy",)

    def samples(self):
        return {"product": product}
