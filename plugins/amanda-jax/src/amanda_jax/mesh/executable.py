"""Executables whose arrays are sharded over a mesh of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.types import TensorType
from amanda_jax.compile.code import BuildContext, CompiledCode
from amanda_jax.compile.partition import compile_graph
from amanda_jax.compile.passes import prepare_graph
from amanda_jax.executable import Executable, Report, as_feed
from amanda_jax.mesh.arrays import MESH_LOCK, ArrayInfo, MeshWeights, array_infos
from amanda_jax.mesh.plan import PortSharding, prepare_for_mesh, sharding_plan
from amanda_jax.mesh.specs import Spec, mesh_axes_of, parse_shardings
from amanda_jax.settings import Settings
from amanda_jax.shapes.bucketing import compile_padded

__all__ = ["MeshExecutable", "PortReport"]


class PortReport(NamedTuple):
    """How an input, a weight or a result is sharded, and its bytes on each device."""

    kind: str
    name: str
    type: str
    spec: Spec
    """The axes of the mesh that each of its axes is sharded over; none: replicated."""
    bytes: int | None
    """On each device; None where its size is not known before a call."""
    why: str = ""
    """Why it is replicated, where a policy was to shard it."""

    def __str__(self) -> str:
        how = f"by {self.spec}" if any(map(mesh_axes_of, self.spec)) else "whole"
        size = "" if self.bytes is None else f", {self.bytes} bytes on each device"
        why = self.why and f": {self.why}"
        return f"{self.kind} {self.name!r}: {self.type} {how}{size}{why}"


class MeshCode(CompiledCode):
    """Puts the feeds on the mesh, runs other code, and returns its results."""

    def __init__(
        self, code: CompiledCode, weights: MeshWeights, as_numpy: bool
    ) -> None:
        self._code = code
        self._weights = weights
        self._as_numpy = as_numpy

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = self._weights.shard_feeds([*args])
        results = self._code(feeds)
        self._weights.last_call = array_infos(feeds), array_infos(results)
        return self._weights.collect_results(results, as_numpy=self._as_numpy)

    @property
    def aliased_results(self) -> frozenset[int]:
        return self._code.aliased_results

    def children(self) -> Sequence[CompiledCode]:
        return (self._code,)


class MeshExecutable(Executable):
    """Called as any executable; each call runs on all devices of the mesh.

    Several threads may call it. Their calls take turns, since devices that exchange
    data must all run the same programs in one order."""

    def __init__(self, graph: Graph, mesh: Mesh, settings: Settings) -> None:
        self._mesh = mesh
        self._mesh_weights: MeshWeights
        process = jax.process_index()
        local = [d for d in mesh.devices.flat if d.process_index == process]
        super().__init__(graph, local[0], settings.for_platform("a mesh"))
        self._types = [port.type for port in self._graph.parameters]

    def _prepare(
        self, graph: Graph, device: Any, settings: Settings
    ) -> tuple[Graph, MeshWeights]:
        sizes = dict(self._mesh.shape)
        lines = parse_shardings(settings.shardings, sizes)
        passes: Callable[[Graph], Graph] = partial(
            prepare_graph, platform=device.platform, without=settings.without
        )
        prepared = prepare_for_mesh(graph, lines, passes)
        plan = sharding_plan(prepared, lines, sizes)
        parts = settings.fed == "parts"
        self._mesh_weights = MeshWeights(self._mesh, plan, parts=parts)
        return prepared, self._mesh_weights

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """As on one device; `out` is not used."""
        del out
        rows = zip(feeds.values(), self._dtypes, strict=True)
        values = [as_feed(value, dtype) for value, dtype in rows]
        with MESH_LOCK, self._mesh_weights.redirect_messages():
            token = self._compilations.start()
            try:
                results = self._run(values)
            finally:
                self._compilations.stop(token)
        return self._to_numpy(results) if self._as_numpy else results

    def _compile(self, graph: Graph, build: BuildContext) -> CompiledCode:
        def compile_on_mesh(graph: Graph, build: BuildContext) -> CompiledCode:
            code = compile_graph(graph, build)
            return MeshCode(code, self._mesh_weights, build.settings.results == "numpy")

        return compile_padded(graph, build, compile_on_mesh)

    def report(self) -> Report:
        """Report how it runs, and how its arrays are sharded."""
        report = super().report()
        ports = tuple(self._port_reports())
        return report._replace(device=str(self._mesh_weights), ports=ports)

    def _port_reports(self) -> Iterator[PortReport]:
        plan = self._mesh_weights.plan
        feeds, results = self._mesh_weights.last_call
        for i, port in enumerate(plan.inputs):
            info = feeds[i] if feeds else _info_of_type(self._types[i])
            yield self._port_report(port, info)
        for tensor, port in plan.weights.values():
            info = ArrayInfo(tuple(tensor.shape), tensor.dtype, tensor.nbytes)
            yield self._port_report(port, info)
        for i, name in enumerate(self._names[1]):
            info = results[i] if results else None
            if info is not None:
                result = plan.results[i]
                spec = info.spec if result is None else result.spec
                port = PortSharding("result", name or str(i), spec)
                yield self._port_report(port, info)

    def _port_report(self, port: PortSharding, info: ArrayInfo | None) -> PortReport:
        if info is None:
            return PortReport(port.kind, port.name, "", port.spec, None, port.why)
        sizes = self._mesh_weights.plan.sizes
        parts = prod(sizes[a] for part in port.spec for a in mesh_axes_of(part))
        text = f"{info.dtype}[{', '.join(map(str, info.shape))}]"
        size = None if info.nbytes is None else info.nbytes // parts
        return PortReport(port.kind, port.name, text, port.spec, size, port.why)

    def export(self, *, symbolic: Any = False) -> Any:
        del symbolic
        raise UsageError(
            "what runs on a mesh cannot be saved: its parts are for these devices",
            got=str(self._mesh_weights),
            hint="compile it without `mesh` to save it",
        )

    def __repr__(self) -> str:
        return f"<executable on {self._mesh_weights}>"


def _info_of_type(own: Any) -> ArrayInfo | None:
    """Shape, dtype and bytes as far as a type has them."""
    if not isinstance(own, TensorType) or not own.shape.has_rank:
        return None
    shape = tuple(own.shape.dims)
    if not own.shape.is_static or own.dtype.kind == "unknown":
        return ArrayInfo(shape, own.dtype, None)
    nbytes = prod(map(int, shape)) * own.dtype.bits // 8
    return ArrayInfo(shape, own.dtype, nbytes)
