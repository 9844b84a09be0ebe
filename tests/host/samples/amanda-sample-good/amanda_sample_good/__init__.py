"""A sound plug-in: a backend that negates, and a format that holds one number."""

from amanda.graph import Graph


class Backend:
    name = "sample-good"
    namespace = "sample/good/1"

    def devices(self):
        return ["cpu"]

    def takes(self, op):
        return True if op.type == "negate" else f"there is no {op.type} here"

    def compile(self, graph, device, options):
        def run(feeds, out=None):
            place = dict(zip(graph.parameters, feeds.values(), strict=True))
            for op in graph:
                place[op.output] = -place[op.inputs[0]]
            return [place[value] for value in graph.results]

        return run


class Format:
    def read(self, source):
        graph = Graph(
            "sample/good/1", name=source.read_text().partition(":")[2].strip()
        )
        graph.result(graph.parameter(name="x"), "y")
        return graph

    def write(self, graph, path):
        path.write_text(f"GOOD:{graph.name}")
