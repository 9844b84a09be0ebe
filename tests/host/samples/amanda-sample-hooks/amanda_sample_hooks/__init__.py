"""A plug-in that listens, well and badly."""

heard = []


def note(format, graph):
    heard.append(f"{format}: {graph.name}")


def fail(graph):
    raise ValueError("a listener with a fault")


def ask_too_much(graph, colour):
    heard.append("asked too much")


def faulted(dist, kind, name, fault):
    heard.append(f"{dist} {kind} {name}: {fault}")
