"""An executable whose arrays are spread over a mesh of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.types import TensorType
from amanda_jax.compile.code import Build, Code, Told
from amanda_jax.compile.partition import code_of
from amanda_jax.compile.passes import prepared
from amanda_jax.executable import Executable, Report, fed
from amanda_jax.mesh.arrays import TURN, Forms, OnMesh
from amanda_jax.mesh.plan import Placed, divided, planned
from amanda_jax.mesh.specs import Spec, asked, shares
from amanda_jax.settings import Settings
from amanda_jax.shapes.bucketing import coded

__all__ = ["Port", "Spread"]


class Port(NamedTuple):
    """An input, a weight or a result: how it is divided, and what devices have."""

    kind: str
    name: str
    type: str
    spec: Spec
    """By which axes of the mesh each of its axes is divided; it is whole without."""
    bytes: int | None
    """On each device; None where its size is not known before a call."""
    why: str = ""
    """Why it is whole, where a rule was to divide it."""

    def __str__(self) -> str:
        how = f"by {self.spec}" if any(map(shares, self.spec)) else "whole"
        size = "" if self.bytes is None else f", {self.bytes} bytes on each device"
        why = self.why and f": {self.why}"
        return f"{self.kind} {self.name!r}: {self.type} {how}{size}{why}"


class _There:
    """Code whose arguments are put on the mesh, and whose results are brought back."""

    quick = None
    compilations = 0
    told = Told()

    def __init__(self, code: Code, over: OnMesh, as_numpy: bool) -> None:
        self._code = code
        self._over = over
        self._as_numpy = as_numpy

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        given = self._over.fed([*args])
        made = self._code(given)
        self._over.forms = Forms.of(given, made)
        return self._over.delivered(made, as_numpy=self._as_numpy)

    @property
    def copied(self) -> frozenset[int]:
        return self._code.copied

    @property
    def pieces(self) -> int:
        return self._code.pieces

    def parts(self) -> Iterator[Code]:
        yield self
        yield from self._code.parts()


class Spread(Executable):
    """Called as any executable; each call runs on all devices of the mesh.

    Several threads may call it: their calls take turns, since devices that wait for
    each other must all have begun the same program."""

    def __init__(self, graph: Graph, mesh: Mesh, settings: Settings) -> None:
        self._mesh = mesh
        self._over: OnMesh
        process = jax.process_index()
        local = [d for d in mesh.devices.flat if d.process_index == process]
        super().__init__(graph, local[0], settings.on("a mesh"))
        self._types = [port.type for port in self._graph.parameters]

    def _placed(
        self, graph: Graph, device: Any, settings: Settings
    ) -> tuple[Graph, OnMesh]:
        sizes = dict(self._mesh.shape)
        lines = asked(settings.shardings, sizes)
        ready = divided(
            graph,
            lines,
            partial(prepared, platform=device.platform, without=settings.without),
        )
        plan = planned(ready, lines, sizes)
        self._over = OnMesh(self._mesh, plan, parts=settings.fed == "parts")
        return ready, self._over

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """As on one device; `out` is an offer not taken."""
        del out
        rows = zip(feeds.values(), self._dtypes, strict=True)
        values = [fed(value, dtype) for value, dtype in rows]
        with TURN, self._over.aside():
            made = self._looked_at(values)
        return self._as_arrays(made) if self._as_numpy else made

    def _coded(self, graph: Graph, build: Build) -> Code:
        as_numpy = build.settings.results == "numpy"
        over = self._over
        return coded(graph, build, lambda *g: _There(code_of(*g), over, as_numpy))

    def report(self) -> Report:
        """How it runs, and what lies where."""
        told = super().report()
        return told._replace(device=str(self._over), ports=tuple(self._ports()))

    def _ports(self) -> Iterator[Port]:
        plan, forms = self._over.plan, self._over.forms
        for i, placed in enumerate(plan.inputs):
            form = forms.given[i] if forms.given else _typed(self._types[i])
            yield self._port(placed, form)
        for tensor, placed in plan.weights.values():
            yield self._port(placed, (tuple(tensor.shape), tensor.dtype, tensor.nbytes))
        for i, name in enumerate(self._slots[1]):
            form = forms.made[i] if forms.made else None
            if form is not None:
                placed_so = plan.results[i]
                spec = form[3] if placed_so is None else placed_so.spec
                yield self._port(Placed("result", name or str(i), spec), form)

    def _port(self, placed: Placed, form: Any) -> Port:
        """`form`: its shape, its element type, and its bytes."""
        if form is None:
            return Port(placed.kind, placed.name, "", placed.spec, None, placed.why)
        shape, dtype, nbytes = form[:3]
        sizes = self._over.plan.sizes
        parts = prod(sizes[a] for part in placed.spec for a in shares(part))
        text = f"{dtype}[{', '.join(map(str, shape))}]"
        each = None if nbytes is None else nbytes // parts
        return Port(placed.kind, placed.name, text, placed.spec, each, placed.why)

    def written(self, *, symbolic: Any = False) -> Any:
        del symbolic
        raise UsageError(
            "what runs on a mesh cannot be saved: its parts are for these devices",
            got=str(self._over),
            hint="compile it without `mesh` to save it",
        )

    def __repr__(self) -> str:
        return f"<executable on {self._over}>"


def _typed(found: Any) -> Any:
    """The form that a type tells."""
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return None
    shape = tuple(found.shape.dims)
    if not found.shape.is_static or found.dtype.kind == "unknown":
        return shape, found.dtype, None
    return shape, found.dtype, prod(map(int, shape)) * found.dtype.bits // 8
