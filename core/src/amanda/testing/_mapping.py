"""Checks of mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import amanda
from amanda.dictionary import parse_span
from amanda.errors import ConversionError
from amanda.graph import Graph
from amanda.mapping import Mapper
from amanda.testing._plugin import expect_chosen
from amanda.testing._suite import Suite, for_each


class MappingSample(NamedTuple):
    """A graph, the target namespace, and optionally the expected result."""

    graph: Graph
    to: str
    expected: Graph | None = None


class MappingSuite(Suite):
    """Checks of the mapping of this name, on its `samples`."""

    mapping: ClassVar[str]

    def samples(self) -> Mapping[str, Callable[[], MappingSample]]:
        """Functions that build graphs without gaps, by name."""
        raise NotImplementedError("a suite of a mapping says samples()")

    def _convert(self, sample: MappingSample, *, keep_foreign: bool = False) -> Graph:
        return amanda.convert(
            sample.graph, sample.to, keep_foreign=keep_foreign, host=self.host()
        )

    def _first(self) -> MappingSample:
        return next(iter(self.samples().values()))()

    def _with_strangers(self) -> MappingSample:
        """The first sample with two unknown ops, one in a body."""
        sample = self._first()
        body = Graph()
        body.result(body.add("amanda_no_such_op", [], name="strange_2").output)
        sample.graph.add("amanda_no_such_op", [], name="strange_1", bodies={"in": body})
        return sample

    # The checks

    def check_is_chosen_by_name(self) -> None:
        expect_chosen(self, "mappings", self.mapping)

    def check_has_the_protocol(self) -> None:
        assert isinstance(self.host().get("mappings", self.mapping), Mapper)

    def check_tells_its_ends(self) -> None:
        manifest = self.host().find("mappings", self.mapping).manifest
        for end in ("from", "to"):
            parse_span(manifest[end])

    @for_each("samples")
    def check_is_on_the_route(self, case: str) -> None:
        sample = self.samples()[case]()
        route = amanda.plan(sample.graph, sample.to, host=self.host())
        names = [step.mapping.rpartition(":")[2] for step in route.steps]
        assert self.mapping.rpartition(":")[2] in names, str(route)

    @for_each("samples")
    def check_maps(self, case: str) -> None:
        sample = self.samples()[case]()
        result = self._convert(sample)
        assert not result.check(), result.check()
        if sample.expected is not None:
            difference = _without_provenance(result).difference(
                _without_provenance(sample.expected)
            )
            assert difference is None, difference

    @for_each("samples")
    def check_keeps_inputs_and_outputs(self, case: str) -> None:
        sample = self.samples()[case]()
        result = self._convert(sample)
        for ports in ("parameters", "outputs"):
            names = [
                [p.name for p in getattr(g, ports)] for g in (sample.graph, result)
            ]
            assert names[0] == names[1], f"{ports}: {names[1]}, not {names[0]}"

    @for_each("samples")
    def check_leaves_the_graph_as_it_was(self, case: str) -> None:
        sample = self.samples()[case]()
        copy = sample.graph.clone()
        self._convert(sample)
        assert sample.graph.difference(copy) is None, sample.graph.difference(copy)

    def check_tells_every_gap_at_once(self) -> None:
        try:
            self._convert(self._with_strangers())
        except ConversionError as error:
            told = str(error)
        else:
            raise AssertionError("ops that nobody knows were mapped")
        for name in ("strange_1", "strange_2"):
            assert name in told, f"{name} is not told: {told}"

    def check_keeps_foreign_ops(self) -> None:
        result = self._convert(self._with_strangers(), keep_foreign=True)
        kept = {op.name for op in result.walk() if op.type == "amanda_no_such_op"}
        assert kept == {"strange_1", "strange_2"}, f"kept {kept or 'none'}"


def _without_provenance(graph: Graph) -> Graph:
    """A copy without provenance."""
    copy = graph.clone()
    for op in copy.walk():
        op.provenance = None
    return copy
