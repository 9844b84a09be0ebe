"""Following the elements that matter from a result back to the inputs, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from amanda import run
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.layouts import expand_layout
from amanda_tools.paths.contributions import CHUNK, largest_terms

__all__ = ["PathTracer"]

_MOVERS: Final = frozenset({"concat", "split", "stack", "pad", "tril", "triu",
                            "diagonal", "transfer", "view"})  # fmt: skip
"""Ops that move elements, beside those whose traits say it."""
Array = np.ndarray[Any, Any]


class PathTracer:
    """The elements of each value that an output is made of, for a share of it.

    Values are those of one run of a graph of primitives. `links` is the number of
    connections that were chosen; `unknown` the types of ops of which all elements
    count, since how they depend on each other is not known."""

    def __init__(
        self, graph: Graph, values: Mapping[OutputPort, Array], threshold: float
    ) -> None:
        self.graph = graph
        self.values = values
        self.threshold = threshold
        self.masks: dict[OutputPort, Array] = {}
        self.links = 0
        self.unknown: set[str] = set()

    def trace(self, result: OutputPort, mask: Array) -> None:
        """Follow some elements of a value to the inputs of the graph."""
        self._mark(result, mask)
        for op in reversed(list(self.graph)):
            if not op.is_constant and any(port in self.masks for port in op.outputs):
                self._visit(op)

    def is_followed(self, port: OutputPort | None) -> bool:
        """Whether a value is of floats, and depends on the inputs."""
        if port is None or port.op.is_constant:
            return False
        type_ = port.type
        return isinstance(type_, TensorType) and type_.dtype.kind == "float"

    def _visit(self, op: Op) -> None:
        rule = _RULES.get(op.type or "")
        if rule is None and (op.type in _MOVERS or has_trait(op, Trait.MOVES_ELEMENTS)):
            rule = PathTracer._follow_movement
        if rule is None and has_trait(op, Trait.POINTWISE):
            rule = PathTracer._follow_pointwise
        if op.bodies or rule is None:
            self.unknown.add(str(op.type))
            for port in op.inputs:
                if self.is_followed(port):
                    assert port is not None
                    self._mark(port, np.ones(self._value(port).shape, bool))
            return
        rule(self, op)

    def _value(self, port: OutputPort) -> Array:
        if port.op.is_constant:
            found: Array = port.op.attrs["value"].numpy()
            return found
        return self.values[port]

    def _mark(self, port: OutputPort, mask: Array) -> None:
        known = self.masks.get(port)
        self.masks[port] = mask if known is None else known | mask

    def _mark_elements(self, port: OutputPort, elements: Array) -> None:
        mask = np.zeros(self._value(port).shape, bool)
        mask.reshape(-1)[elements] = True
        self._mark(port, mask)

    def _choose_terms(self, terms: Array) -> Array:
        found = largest_terms(terms.astype("float64"), self.threshold)
        self.links += int(found.sum())
        return found

    # -- ops on single elements --------------------------------------------------------

    def _sources(self, op: Op, mask: Array) -> dict[OutputPort, Array]:
        """For each followed operand, its element for each chosen one of the result."""
        found = {}
        for port in op.inputs:
            if self.is_followed(port):
                assert port is not None
                shape = self._value(port).shape
                places = np.arange(self._value(port).size).reshape(shape)
                found[port] = np.broadcast_to(places, mask.shape)[mask]
        return found

    def _follow_pointwise(self, op: Op) -> None:
        """An element of the result depends on one of each operand."""
        for port, elements in self._sources(op, self.masks[op.outputs[0]]).items():
            self._mark_elements(port, elements)
            self.links += elements.size

    def _follow_sum(self, op: Op) -> None:
        sources = self._sources(op, self.masks[op.outputs[0]])
        ports = list(sources)
        signs = [1, -1 if op.type == "subtract" else 1]
        if len(ports) < 2:
            self._follow_pointwise(op)
            return
        terms = np.stack(
            [
                sign * self._value(port).reshape(-1)[sources[port]]
                for port, sign in zip(ports, signs, strict=True)
            ],
            1,
        )
        chosen = self._choose_terms(terms)
        for index, port in enumerate(ports):
            self._mark_elements(port, sources[port][chosen[:, index]])

    def _follow_extreme(self, op: Op) -> None:
        """The operand that the result equals: nothing where that is a constant."""
        mask = self.masks[op.outputs[0]]
        result = self._value(op.outputs[0])[mask]
        for port, elements in self._sources(op, mask).items():
            is_same = self._value(port).reshape(-1)[elements] == result
            self._mark_elements(port, elements[is_same])
            self.links += int(is_same.sum())

    def _follow_selection(self, op: Op) -> None:
        """`where`: the operand that the condition chooses."""
        mask = self.masks[op.outputs[0]]
        condition, first, second = op.inputs
        assert condition is not None
        held = np.broadcast_to(self._value(condition), mask.shape)[mask]
        for port, is_taken in ((first, held), (second, ~held)):
            if port is not None and self.is_followed(port):
                places = np.arange(self._value(port).size)
                places = places.reshape(self._value(port).shape)
                elements = np.broadcast_to(places, mask.shape)[mask][is_taken]
                self._mark_elements(port, elements)
                self.links += elements.size

    # -- ops that move elements --------------------------------------------------------

    def _follow_movement(self, op: Op) -> None:
        """The op itself, run on the numbers of elements, says where each is from."""
        feeds: list[Array] = []
        starts: dict[OutputPort, int] = {}
        count = 1
        for port in op.inputs:
            value = None if port is None else self._value(port)
            if value is None:
                continue
            assert port is not None
            if self.is_followed(port):
                starts[port] = count
                value = np.arange(count, count + value.size).reshape(value.shape)
                count += value.size
            elif value.dtype.kind == "f":
                value = np.zeros(value.shape, "int64")
            feeds.append(value)
        for port, places in zip(op.outputs, _run_alone(op, feeds), strict=True):
            if port in self.masks:
                self._mark_sources(places[self.masks[port]], starts)

    def _mark_sources(self, places: Array, starts: Mapping[OutputPort, int]) -> None:
        for port, start in starts.items():
            size = self._value(port).size
            own = places[(places >= start) & (places < start + size)] - start
            self._mark_elements(port, own)
            self.links += own.size

    # -- sums and products -------------------------------------------------------------

    def _follow_reduction(self, op: Op) -> None:
        """Sums choose terms; maxima and minima the element that they are."""
        port = op.inputs[0]
        if port is None or not self.is_followed(port):
            return
        value = self._value(port)
        axes = op.attrs.get("axes")
        axes = range(value.ndim) if axes is None else [int(a) for a in axes]
        reduced = sorted(axis % value.ndim for axis in axes)
        kept = [axis for axis in range(value.ndim) if axis not in reduced]
        places = np.arange(value.size).reshape(value.shape)
        count = int(np.prod([value.shape[axis] for axis in reduced], dtype=int))
        rows = places.transpose(*kept, *reduced).reshape(-1, max(count, 1))
        self._choose(port, rows[self.masks[op.outputs[0]].reshape(-1)], op)

    def _choose(self, port: OutputPort, rows: Array, op: Op) -> None:
        """Choose among the elements of each row; one that is negative is no element."""
        terms = self._value(port).reshape(-1)[np.maximum(rows, 0)]
        if op.type in ("max", "min", "max_pool"):
            terms = np.where(rows < 0, -np.inf, terms if op.type != "min" else -terms)
            best = terms.argmax(1)
            found = rows[np.arange(len(rows)), best]
            self.links += len(found)
        else:
            found = rows[self._choose_terms(np.where(rows < 0, 0, terms))]
        self._mark_elements(port, found)

    def _follow_pool(self, op: Op) -> None:
        port = op.inputs[0]
        if port is None or not self.is_followed(port):
            return
        window = [int(size) for size in op.attrs["window"]]
        order = _channels_first(op, len(window) + 2)
        value = self._value(port).transpose(order)
        mask = self.masks[op.outputs[0]].transpose(order)
        places = _window_places(op, window, value.shape[2:], mask.shape[2:])
        spatial = int(np.prod(value.shape[2:], dtype=int))
        elements = np.arange(value.size).reshape(self._value(port).shape)
        flat = elements.transpose(order).reshape(-1, spatial)
        padded = np.concatenate([np.full((len(flat), 1), -1), flat], 1)
        images, spots = np.nonzero(mask.reshape(len(flat), -1))
        rows = padded[images[:, None], places[:, spots].T]
        self._choose(port, rows, op)

    def _follow_matmul(self, op: Op) -> None:
        """Each element is the sum of products of a row and a column."""
        a, b = op.inputs
        assert a is not None
        assert b is not None
        left, right = self._value(a), self._value(b)
        mask = self.masks[op.outputs[0]]
        if left.ndim < 2 or right.ndim < 2:
            self._mark_whole(op)
            return
        batch = mask.shape[:-2]
        rows = _element_numbers(left, batch)
        columns = np.swapaxes(_element_numbers(right, batch), -1, -2)
        *at, row, column = np.nonzero(mask)
        step = max(CHUNK // max(left.shape[-1], 1), 1)
        for start in range(0, row.size, step):
            part = slice(start, start + step)
            where = tuple(each[part] for each in at)
            own = rows[(*where, row[part])]
            other = columns[(*where, column[part])]
            products = left.reshape(-1)[own] * right.reshape(-1)[other]
            chosen = self._choose_terms(products)
            for port, elements in ((a, own), (b, other)):
                if self.is_followed(port):
                    self._mark_elements(port, elements[chosen])

    def _mark_whole(self, op: Op) -> None:
        for port in op.inputs:
            if self.is_followed(port):
                assert port is not None
                self._mark(port, np.ones(self._value(port).shape, bool))

    def _follow_conv(self, op: Op) -> None:
        """Each element is the sum of products of a window and a kernel."""
        port, kernel = op.inputs[0], op.inputs[1]
        assert kernel is not None
        if port is None or not self.is_followed(port):
            return
        order = _channels_first(op, self._value(port).ndim)
        layout = expand_layout(op.attrs.get("kernel_layout", "OI*"), len(order))
        first = [layout.index("O"), layout.index("I")]
        rest = [axis for axis in range(len(order)) if axis not in first]
        weight = self._value(kernel).transpose(*first, *rest)
        x = self._value(port).transpose(order)
        mask = self.masks[op.outputs[0]].transpose(order)
        places = _window_places(op, weight.shape[2:], x.shape[2:], mask.shape[2:])
        found = self._windows(x, weight, mask, places, int(op.attrs.get("groups", 1)))
        self._mark(port, found.transpose(np.argsort(order)))

    def _windows(
        self, x: Array, weight: Array, mask: Array, places: Array, groups: int
    ) -> Array:
        """The elements of x, channels first, that chosen products read."""
        count, channels = x.shape[:2]
        each = weight.shape[1]
        flat = x.reshape(count, channels, -1)
        padded = np.pad(flat, [(0, 0), (0, 0), (1, 0)])
        found = np.zeros(padded.shape, bool)
        taps = weight.reshape(len(weight), each, -1)
        image, output, spot = np.nonzero(mask.reshape(*mask.shape[:2], -1))
        first = output // (len(weight) // groups) * each
        step = max(CHUNK // max(each * taps.shape[2], 1), 1)
        for start in range(0, image.size, step):
            part = slice(start, start + step)
            at = (
                image[part, None, None],
                first[part, None, None] + np.arange(each)[None, :, None],
                places[:, spot[part]].T[:, None, :],
            )
            products = padded[at] * taps[output[part]]
            rows = products.reshape(len(products), -1)
            chosen = self._choose_terms(rows).reshape(products.shape)
            found[tuple(np.broadcast_to(i, products.shape)[chosen] for i in at)] = True
        return found[..., 1:].reshape(x.shape)


_RULES: Final[Mapping[str, Callable[[PathTracer, Op], None]]] = {
    "add": PathTracer._follow_sum,
    "subtract": PathTracer._follow_sum,
    "maximum": PathTracer._follow_extreme,
    "minimum": PathTracer._follow_extreme,
    "where": PathTracer._follow_selection,
    "sum": PathTracer._follow_reduction,
    "max": PathTracer._follow_reduction,
    "min": PathTracer._follow_reduction,
    "max_pool": PathTracer._follow_pool,
    "avg_pool": PathTracer._follow_pool,
    "matmul": PathTracer._follow_matmul,
    "conv": PathTracer._follow_conv,
}


def _channels_first(op: Op, rank: int) -> list[int]:
    """The axes of a value in the order batch, channels, space."""
    layout = expand_layout(op.attrs.get("layout", "NC*"), rank)
    first = [layout.index("N"), layout.index("C")]
    return first + [axis for axis in range(rank) if axis not in first]


def _element_numbers(value: Array, batch: Sequence[int]) -> Array:
    """The numbers of the elements of matrices, for all matrices of a result."""
    places = np.arange(value.size).reshape(value.shape)
    return np.broadcast_to(places, (*batch, *value.shape[-2:]))


def _window_places(
    op: Op, window: Sequence[int], size: Sequence[int], result: Sequence[int]
) -> Array:
    """Which place in space, from 1, each tap of a window reads; 0 is padding.

    Shape: taps, places of the result. It is the convolution of the numbers of the
    places with a kernel for each tap, which has the padding and strides of the op."""
    taps = int(np.prod(window, dtype=int))
    kernels = np.eye(taps).reshape(taps, 1, *window)
    places = np.arange(1, np.prod(size, dtype=int) + 1, dtype="float64")
    graph = Graph("amanda/std/1")
    attrs = {name: op.attrs[name] for name in ("strides", "padding", "dilations")
             if op.attrs.get(name) is not None}  # fmt: skip
    if op.attrs.get("ceil"):  # windows that begin inside may end outside
        pads = attrs.get("padding") or [(0, 0)] * len(window)
        steps = attrs.get("strides") or (1,) * len(window)
        attrs["padding"] = tuple(
            (int(low), int(high) + int(step))
            for (low, high), step in zip(pads, steps, strict=True)
        )
    x = graph.parameter(TensorType("float64", (1, 1, *size)), "x")
    kernel = graph.constant(Tensor.of(kernels)).output
    graph.result(graph.add("conv", [x, kernel], attrs=attrs).output, "y")
    [found] = run(graph, [places.reshape(1, 1, *size)], backend="numpy").values()
    cut = tuple(slice(each) for each in result)
    whole = np.asarray(found)[0][(slice(None), *cut)]
    numbers: Array = np.round(whole).astype("int64").reshape(taps, -1)
    return numbers


def _run_alone(op: Op, feeds: Sequence[Array]) -> list[Array]:
    """The results of an op on other values."""
    graph = Graph("amanda/std/1")
    types = (TensorType(str(feed.dtype), feed.shape) for feed in feeds)
    values = iter([graph.parameter(t, f"x{i}") for i, t in enumerate(types)])
    inputs = [None if port is None else next(values) for port in op.inputs]
    copy = graph.add(
        str(op.type), inputs, attrs=dict(op.attrs), outputs=len(op.outputs)
    )
    for index, port in enumerate(copy.outputs):
        graph.result(port, f"y{index}")
    found = run(graph, list(feeds), backend="numpy")
    return [np.asarray(value) for value in found.values()]
