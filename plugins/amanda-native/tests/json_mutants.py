"""Graphs for the reference backend, and texts that are nearly their JSON."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import amanda
from amanda.graph import Graph
from amanda_native.graph_text import graph_text

__all__ = ["good_texts", "mutants"]

FED = ("float32[8, 8]", "int32[4, 16]", "int64[2]", "bool[4]")
"""The tensors that the driver feeds."""
UNARY: dict[str, dict[str, Any]] = {
    "exp": {}, "sqrt": {}, "sigmoid": {}, "erf": {}, "abs": {}, "negative": {},
    "floor": {},
}  # fmt: skip
ONE_INPUT: dict[str, dict[str, Any]] = {
    **UNARY,
    "astype": {"dtype": amanda.types.int64},
    "sum": {"axes": [1], "keepdims": True},
    "max": {"axes": [0, -1]},
    "prod": {},
    "argmax": {"axis": 1, "last": True},
    "reshape": {"shape": [2, -1, 4]},
    "squeeze": {},
    "expand_dims": {"axes": [0, -1]},
    "transpose": {"perm": [1, 0]},
    "broadcast_to": {"shape": [3, 8, 8]},
    "slice": {"starts": [1, -1], "stops": [7, -9], "axes": [0, 1], "steps": [2, -3]},
    "flip": {"axes": [1]},
    "pad": {"pads": [[1, -2], [-3, 4]]},
    "stack": {"axis": 1},
    "clip": {},
    "dim": {"axis": -1},
    "size": {},
    "shape_of": {},
    "isnan": {},
}
TWO_INPUTS: dict[str, dict[str, Any]] = {
    "add": {}, "divide": {}, "maximum": {}, "pow": {}, "matmul": {}, "less": {},
    "equal": {}, "concat": {"axis": -1},
}  # fmt: skip


def _unary(name: str, attrs: dict[str, Any]) -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(FED[0]))
    y = graph.add(name, [x], attrs).output
    graph.result(graph.add(name, [y], attrs).output if name in UNARY else y)
    return graph


def _binary(name: str, attrs: dict[str, Any]) -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(FED[0]))
    y = graph.add(name, [x, x], attrs).output
    graph.result(graph.add(name, [x, y], attrs).output if name == "add" else y)
    return graph


def _windows() -> Graph:
    """Convolution and pooling of three axes, made of the rows of a matrix."""
    graph = Graph("amanda/std/1")
    fed = graph.parameter(amanda.parse_type(FED[0]))
    x = graph.add("reshape", [fed], {"shape": [1, 4, 4, 4]}).output
    w = graph.add("reshape", [x], {"shape": [8, 2, 2, 2]}).output
    attrs = {"strides": [2, 1], "padding": [[1, 1], [0, 1]], "groups": 2}
    y = graph.add("conv", [x, w], {**attrs, "dilations": [1, 2]}).output
    y = graph.add("max_pool", [y], {"window": [2, 2], "ceil": True}).output
    same = {"window": [1, 2], "padding": "same_upper", "count_pads": True}
    graph.result(graph.add("avg_pool", [y], same).output)
    return graph


def _parts() -> Graph:
    """Parts of a split, computed numbers and a filled tensor."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(FED[0]))
    attrs = {"axis": 1, "sizes": [3, 4, 1]}
    parts = graph.add("split", [x], attrs, outputs=3).outputs
    low, high = (graph.add("slice", [p], CORNER).output for p in parts[:2])
    low, high = (graph.add("squeeze", [v]).output for v in (low, high))
    graph.result(graph.add("clip", [x, low, high]).output)
    numbers = graph.add("arange", [], {"start": -1, "stop": 9, "step": 3}).output
    sizes = graph.add("concat", [numbers, numbers], {"axis": 0}).output
    few = graph.add("slice", [sizes], {"starts": [1], "stops": [3]}).output
    graph.result(graph.add("full", [few, low]).output)
    return graph


CORNER: dict[str, Any] = {"starts": [0, 0], "stops": [1, 1]}


def _others() -> Graph:
    """Selection, gathering, computed shape arguments, and a weight."""
    graph = Graph("amanda/std/1")
    x, y, n, f = (graph.parameter(amanda.parse_type(text)) for text in FED)
    weight = graph.constant(amanda.Tensor.of([[1.0] * 8] * 8, "float32")).output
    low = graph.add("less", [x, weight]).output
    z = graph.add("where", [low, x, weight]).output
    rows = graph.add("gather", [z, y], {"axis": 1}).output
    held = graph.add("slice", [x], {"starts": [0], "stops": [4]}).output
    places = graph.add("slice", [y], {"starts": [0, 0], "stops": [4, 8]}).output
    places = graph.add("floor_divide", [places, places]).output
    few = graph.add("gather_elements", [held, places], {"axis": 1}).output
    rows = graph.add("add", [rows, graph.add("sum", [few]).output]).output
    sizes = graph.add("shape_of", [rows]).output
    graph.result(graph.add("reshape", [rows, sizes]).output)
    ends = graph.add("shape_of", [x]).output
    part = graph.add("slice", [x, n, ends], {"axes": [0, 1]}).output
    flag = graph.add("all", [f]).output
    graph.result(graph.add("where", [flag, part, part]).output)
    return graph


@cache
def good_texts() -> tuple[str, ...]:
    """The JSON of graphs that the library runs."""
    graphs = [_unary(name, attrs) for name, attrs in ONE_INPUT.items()]
    graphs += [_binary(name, attrs) for name, attrs in TWO_INPUTS.items()]
    graphs += [_windows(), _parts(), _others()]
    return tuple(graph_text(graph)[0] for graph in graphs)


NUMBERS = (
    "0", "-1", "1", "3", "7", "8", "64", "255", "4096", "2147483647", "-2147483648",
    "4294967296", "9223372036854775807", "-9223372036854775808", "1e300",
    "18446744073709551616",
)  # fmt: skip
WORDS = (
    "null", "true", "[]", "{}", '"N*C"', '"*IO"', '"same_lower"', '"float32"',
    '"int32[4, 16]"', '{"$dtype": "bool"}', '"../0.0 -> 0.0"', "[[0, 1], [2]]",
    "[1, 1, 1, 1, 1, 1, 1, 1]",
)  # fmt: skip
STRANGE = '{}[]",:\\-. 0a\0\xff'
_NUMBER = re.compile(r"-?\d+")
_STRING = re.compile(r'"[^"]*"')


def mutants(count: int, first: int = 0) -> Iterator[str]:
    """Texts, each a good one with a few changes; a number determines its text."""
    good = good_texts()
    for number in range(first, first + count):
        rng = random.Random(number)
        text = rng.choice(good)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            text = rng.choice(CHANGES)(text, rng)
        yield text


def _replace(pattern: re.Pattern[str], words: tuple[str, ...]) -> Any:
    def change(text: str, rng: random.Random) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        match = rng.choice(found)
        return text[: match.start()] + rng.choice(words) + text[match.end() :]

    return change


def _swap_strings(text: str, rng: random.Random) -> str:
    found = list(_STRING.finditer(text))
    if not found:
        return text
    match, other = rng.choice(found), rng.choice(found)
    return text[: match.start()] + other[0] + text[match.end() :]


def _cut(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.choice((1, 1, 2, 9, 80)) :]


def _flip_character(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(STRANGE) + text[at + rng.randrange(2) :]


def _repeat(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    part = text[start : start + rng.choice((1, 4, 20, 100))]
    return text[:start] + part * rng.choice((2, 3, 100)) + text[start:]


CHANGES = (
    _replace(_NUMBER, NUMBERS),
    _replace(_NUMBER, NUMBERS),
    _replace(_NUMBER, WORDS),
    _replace(_STRING, WORDS),
    _swap_strings,
    _swap_strings,
    _cut,
    _flip_character,
    _repeat,
)
