"""A plug-in of which each entry but one is broken in a way of its own."""


class Shapeless:
    name = "sample-shapeless"


class Unmade:
    def __init__(self):
        raise RuntimeError("no licence found")


def sound(graph):
    return graph
