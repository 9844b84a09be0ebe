"""Applying tools to a graph, and running the instrumented graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import UsageError
from amanda.graph import unused_name
from amanda.host import host_in_use, use_host
from amanda.instrument._capabilities import find_capability
from amanda.instrument._instrumentation import (
    GradientCallback,
    Instrumentation,
    Labels,
    Pending,
)
from amanda.instrument._report import Probe, Report, Unobserved
from amanda.instrument._sources import Sources
from amanda.instrument._tool import Tool, order_of_tools

if TYPE_CHECKING:
    from amanda.backend import Compiled
    from amanda.graph import Graph, OutputPort
    from amanda.host import Host

__all__ = ["CompiledWithReport", "Instrumented", "apply"]

TOOLS_RECORD: Final = "amanda:tools"
"""The attribute of a graph with the names of the tools that were applied to it."""


class Instrumented:
    """A graph that tools were applied to, and their report.

    - `graph`: the instrumented graph; the observed values are results after those of
      the model
    - `report`: filled by runs through `compile` or `run`
    """

    def __init__(
        self, graph: Graph, report: Report, results: Sequence[str], host: Host
    ) -> None:
        self.graph = graph
        self.report = report
        self.results = tuple(results)
        """The names of the results of the model."""
        self._host = host

    def compile(self, backend: str | None = None, **options: Any) -> CompiledWithReport:
        """Compile the graph, as `amanda.compile`; each call adds to the report."""
        from amanda.api.compilation import compile

        compiled = compile(self.graph, backend, host=self._host, **options)
        return CompiledWithReport(compiled, self.report)

    def run(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        backend: str | None = None,
        **options: Any,
    ) -> dict[Any, Any]:
        """Run once on `feeds`; returns the results of the model."""
        return self.compile(backend, **options)(feeds)

    def __repr__(self) -> str:
        return f"<instrumented graph {self.graph.name or ''!r}: {self.report!r}>"


class CompiledWithReport:
    """A compiled instrumented graph: calls return the results of the model, and add
    what was observed to the report.

    `compiled` is what `amanda.compile` returned."""

    def __init__(self, compiled: Compiled, report: Report) -> None:
        self.compiled = compiled
        self.report = report
        self._observed = {
            name
            for probe in report.probes
            for name in (probe.result, probe.count_result)
            if name is not None
        }

    def __call__(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None = None,
    ) -> dict[Any, Any]:
        """Run on `feeds`; returns the results of the model."""
        results = self.compiled(feeds, out)
        self.report.add_run(results)
        return {
            name: value for name, value in results.items() if name not in self._observed
        }

    def __repr__(self) -> str:
        return f"<{self.compiled!r} with {self.report!r}>"


def apply(
    graph: Graph,
    *tools: Tool,
    loss: str | OutputPort | Callable[[dict[str, Any]], Any] | None = None,
    wrt: Iterable[str] | None = None,
    data: Sequence[Mapping[str, Any] | Sequence[Any]] = (),
    host: Host | None = None,
) -> Instrumented:
    """Apply tools to a copy of a graph, in the given order.

    Graphs are converted to the namespace that the tools work in, which is that of the
    hub unless they say otherwise; rows of the report name the ops of the model.

    Tools with callbacks of gradients need a loss: the name or handle of a result, or a
    function of the results by name that returns a value; the default is the only result
    of floats. Gradients are with respect to `wrt`: names of inputs and constants, by
    default all of floats. `data` are example inputs, for tools that calibrate.
    """
    if not tools:
        raise UsageError("no tool is given", hint="amanda.apply(graph, MyTool())")
    host = host or host_in_use()
    with use_host(host):
        applied = _applied_tools(graph)
        ordered = order_of_tools(tools, applied)
        copy, memo = _copy_in_namespace(graph, _namespace_of(ordered), host)
        results = _name_results(copy)
        report, sources, labels = Report(), Sources(graph, copy), Labels()
        parts = [
            Instrumentation(copy, tool, report, sources, labels, data, host)
            for tool in ordered
        ]
        for part in parts:
            part.tool.instrument(part)
        observed = _carry_out_of_bodies(copy, parts, report, host)
        if any(part.gradient_callbacks for part in parts):
            target = memo.get(loss, loss) if not isinstance(loss, str) else loss
            _add_gradients(copy, parts, target, wrt, results, host)
            observed += [(each, None) for part in parts for each in _in_order(part)]
        report.probes += [_add_result(copy, *each) for each in observed]
        _remove_unused_gradients(copy)
        report.tools = ordered
        copy.attrs[TOOLS_RECORD] = [*applied, *(tool.label() for tool in ordered)]
        return Instrumented(copy, report, results, host)


def _applied_tools(graph: Graph) -> list[str]:
    """The names of the tools that a graph was instrumented with before."""
    found = graph.attrs.get(TOOLS_RECORD) if graph.has_attrs else None
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _namespace_of(tools: Sequence[Tool]) -> str | None:
    """The namespace that all tools work in; None for the model's own."""
    wanted = {
        tool.namespace: tool.label() for tool in tools if tool.namespace is not None
    }
    if len(wanted) > 1:
        rows = ", ".join(f"{name} in {space}" for space, name in wanted.items())
        raise UsageError(
            "the tools work in different namespaces",
            got=rows,
            hint="apply them one after the other",
        )
    return next(iter(wanted), None)


def _copy_in_namespace(
    graph: Graph, namespace: str | None, host: Host
) -> tuple[Graph, dict[Any, Any]]:
    """A copy of a graph in a namespace, without calls of functions where it can be;
    and its values by those of the graph, where it was not converted."""
    from amanda.api.conversion import convert
    from amanda.dictionary import parse_name

    memo: dict[Any, Any] = {}
    own = graph.namespace
    if namespace is None or (
        own is not None and parse_name(own) == parse_name(namespace)
    ):
        copy = graph.clone(memo=memo)
    else:
        copy = convert(graph, namespace, host=host)
        if copy is graph:
            copy = graph.clone(memo=memo)
    inline_calls = find_capability(copy, "inline_calls", host)
    if inline_calls is not None:
        inline_calls(copy)
    return copy, memo


def _name_results(graph: Graph) -> list[str]:
    """The names of the results; those without one get one."""
    taken = {port.name for port in graph.outputs}
    for port in graph.outputs:
        if port.name is None:
            port.name = _free_name(f"result_{port.index}", taken)
    return [str(port.name) for port in graph.outputs]


def _free_name(stem: str, taken: set[str | None]) -> str:
    name = unused_name(stem, taken.__contains__)
    taken.add(name)
    return name


def _carry_out_of_bodies(
    graph: Graph, parts: Sequence[Instrumentation], report: Report, host: Host
) -> list[tuple[Pending, OutputPort | None]]:
    """The observed values as values of the graph itself, with their counts.

    What is in a body of control flow is carried out of it; what cannot be is listed in
    the report."""
    pending = [each for part in parts for each in part.take_pending()]
    inner = [each for each in pending if _graph_of(each.port) is not graph]
    made: list[Any] = []
    if inner:
        lift = find_capability(graph, "lift_values", host)
        if lift is None:
            made = ["its namespace does not carry values out of bodies"] * len(inner)
        else:
            made = lift(graph, [(each.port, each.combine) for each in inner])
    carried = dict(zip(map(id, inner), made, strict=True))
    found: list[tuple[Pending, OutputPort | None]] = []
    for each in pending:
        answer = carried.get(id(each))
        if isinstance(answer, str):
            place = (each.op.tool, each.op.name, each.key)
            report.unobserved.append(Unobserved(*place, answer))
        elif answer is not None:
            value, times = answer
            found.append((each._replace(port=value), times))
        else:
            found.append((each, None))
    return found


def _in_order(part: Instrumentation) -> list[Pending]:
    """What was observed of gradients, in the order of the forward ops."""
    order = {callback.label: i for i, callback in enumerate(part.gradient_callbacks)}
    return sorted(part.take_pending(), key=lambda each: order[each.op.name])


def _graph_of(port: OutputPort) -> Graph | None:
    return port.graph if port.graph is not None else port.resolve().graph


def _add_gradients(
    graph: Graph,
    parts: Sequence[Instrumentation],
    loss: Any,
    wrt: Iterable[str] | None,
    results: Sequence[str],
    host: Host,
) -> None:
    """Add the gradients of a loss, calling the callbacks of the tools."""
    grad = find_capability(graph, "grad", host)
    if grad is None:
        raise UsageError(
            f"the namespace {graph.namespace} has no gradients",
            hint="set the namespace of the tool to that of the hub",
        )
    of = _loss_port(graph, loss, results, parts[0])
    targets = _ports_to_differentiate(graph, wrt)
    hooks: dict[OutputPort, list[GradientCallback]] = {}
    for callback in (c for part in parts for c in part.gradient_callbacks):
        hooks.setdefault(callback.port.resolve(), []).append(callback)
    grad(graph, of, targets, hooks)


def _loss_port(
    graph: Graph, loss: Any, results: Sequence[str], part: Instrumentation
) -> OutputPort:
    """The value to differentiate."""
    from amanda.backend import target_of

    values = dict(zip(results, graph.results, strict=True))
    if loss is None:
        floats = [name for name, value in values.items() if _is_float(value)]
        if len(floats) != 1:
            raise UsageError(
                "gradients are of a loss, and it is not clear which result that is",
                expected="loss= with one of " + ", ".join(floats or results),
            )
        loss = floats[0]
    if isinstance(loss, str) and (known := values.get(loss)) is not None:
        return known
    if callable(loss):
        wrapped = {
            name: part.value_of(value)
            for name, value in values.items()
            if value is not None
        }
        return part.port_of(loss(wrapped))
    return target_of(graph, loss)


def _is_float(value: OutputPort | None) -> bool:
    dtype = getattr(None if value is None else value.type, "dtype", None)
    return getattr(dtype, "kind", "") == "float"


def _ports_to_differentiate(
    graph: Graph, wrt: Iterable[str] | None
) -> list[OutputPort]:
    """The inputs and constants of these names; without names, all of floats."""
    ports: dict[str | None, OutputPort] = {port.name: port for port in graph.parameters}
    constants = [op for op in graph if op.is_constant]
    if wrt is None:
        found = [*graph.parameters, *(op.output for op in constants)]
        return [port for port in found if _is_float(port)]
    ports |= {op.name: op.output for op in constants}
    names = list(wrt)
    missing = [name for name in names if name not in ports]
    if missing:
        raise UsageError(
            "there are no inputs or constants of these names",
            got=", ".join(missing),
            expected="names in wrt= of inputs or weights",
        )
    return [ports[name] for name in names]


def _remove_unused_gradients(graph: Graph) -> None:
    """Remove the ops of gradients that nothing uses: those that nobody observes."""
    for op in reversed(list(graph)):
        made = op.provenance
        is_gradient = made is not None and made.by == "gradient"
        if is_gradient and not any(port.is_used for port in op.outputs):
            graph.remove(op, "apply")


def _add_result(graph: Graph, pending: Pending, times: OutputPort | None) -> Probe:
    """Make an observed value a result of the graph."""
    taken = {port.name for port in graph.outputs}
    stem = f"{pending.op.tool}/{pending.op.name}/{pending.key}"
    name = _free_name(stem, taken)
    graph.result(pending.port.resolve(), name)
    probe = Probe(pending.op, pending.key, pending.combine, name)
    if times is not None:
        probe.count_result = _free_name(f"{stem}/count", taken)
        graph.result(times, probe.count_result)
    return probe
