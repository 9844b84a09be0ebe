"""What every plug-in and every format must do, on this one."""

from __future__ import annotations

from amanda_template.format import NAMESPACE

from amanda.graph import Graph
from amanda.testing import FormatSuite, PluginSuite


def product() -> Graph:
    """(x + x) * y"""
    graph = Graph(NAMESPACE)
    x, y = graph.parameter(name="x"), graph.parameter(name="y")
    total = graph.add("add", [x, x], name="total").output
    graph.result(graph.add("multiply", [total, y], name="product").output, "product")
    return graph


class TestPlugin(PluginSuite):
    dist = "amanda-template"


class TestFormat(FormatSuite):
    format = "template"
    late = ("numpy",)

    def samples(self):
        return {"product": product}
