"""One of two plug-ins that claim the same name."""


def same(graph):
    return "one"
