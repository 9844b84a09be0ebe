"""A compiled graph: sessions of onnxruntime, called with arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

from amanda.backend import Implementation, Key, Profile, implementation_lines
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, TensorType, unknown
from amanda_onnxruntime.profiling import graph_labels, read_trace
from amanda_onnxruntime.session_ports import SessionPort
from amanda_onnxruntime.sessions import SessionFactory
from amanda_onnxruntime.supported_forms import SupportedForm, supported_forms
from amanda_onnxruntime.widening import has_narrow_ports, widen_ports

__all__ = ["OnnxRuntimeExecutable"]

_DTypes = tuple[DType | None, ...]


class SessionReport(NamedTuple):
    """How an executable runs."""

    form: str
    """How the running graph differs from the compiled one; empty if it does not."""
    providers: tuple[str, ...]
    """The execution providers, the preferred one first."""
    implementations: tuple[Implementation, ...]
    """The op of onnxruntime, of a domain and an opset, that runs each op."""

    def __str__(self) -> str:
        lines = [f"on {', '.join(self.providers)}"]
        lines += [f"run {self.form}"] if self.form else []
        return "\n".join([*lines, *implementation_lines(self.implementations)])


class OnnxRuntimeExecutable:
    """Thread-safe, as onnxruntime's sessions are."""

    mapped_files = ()
    """Sessions copy all weights."""

    def __init__(
        self, graph: Graph, factory: SessionFactory, draws: bool = False
    ) -> None:
        self.draws = draws
        """Whether a call draws random numbers, from generators of the session."""
        self._factory = factory
        self._labels = graph_labels(graph) if factory.profiles else {}
        self._lock = Lock()
        self._runners: dict[_DTypes, FormRunner] = {}
        self._untyped = [_is_untyped(port.type) for port in graph.parameters]
        self._graph: Graph | None = None
        if any(self._untyped):  # the feeds of a call decide the dtypes
            self._graph = graph.clone()
        else:
            dtypes = (None,) * len(self._untyped)
            self._runners[dtypes] = FormRunner(graph, factory)

    @property
    def session(self) -> Any:
        """The InferenceSession; that of the first call where inputs have no dtypes."""
        return self._first_runner().session.session

    @property
    def form(self) -> str:
        """How the running graph differs from the compiled one; empty if it does not.

        Shows any fallback: another opset, wider dtypes.
        """
        return self._first_runner().form

    @property
    def ir_version(self) -> int | None:
        """The IR version written, where it is not the model's own."""
        return self._factory.ir_version

    def report(self) -> SessionReport:
        """What runs each op, in the form that runs."""
        runner = self._first_runner()
        providers = tuple(runner.session.session.get_providers())
        return SessionReport(runner.form, providers, runner.implementations)

    def _first_runner(self) -> FormRunner:
        for runner in self._runners.values():
            return runner
        raise BackendError("there is no session before the first call")

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        """Run with checked feeds in the order of the inputs; results in their order.

        The session writes directly to arrays in `out` where it can.
        """
        values = list(feeds.values())
        dtypes: _DTypes = tuple(
            _dtype_of(value) if untyped else None
            for value, untyped in zip(values, self._untyped, strict=True)
        )
        runner = self._runners.get(dtypes)
        if runner is None:
            with self._lock:
                runner = self._runners.get(dtypes) or self._runner_for(dtypes)
                self._runners[dtypes] = runner
        return runner(values, out)

    def profile(self, feeds: Mapping[Key, Any]) -> Profile:
        """The time of each node, as onnxruntime measures it; this ends its trace."""
        if not self._factory.profiles:
            raise BackendError(
                "nodes are timed only where the option `profile` was given",
                hint="compile with profile=True",
            )
        self(feeds)
        start = perf_counter()
        results = self(feeds)
        call = perf_counter() - start
        path = Path(self.session.end_profiling())
        ops = read_trace(path, self._labels)
        rmtree(path.parent)
        how = "each node, as onnxruntime traces it after its optimizations"
        return Profile(how, ops, call, results)

    def _runner_for(self, dtypes: _DTypes) -> FormRunner:
        assert self._graph is not None
        graph = self._graph.clone()
        for port, dtype in zip(graph.parameters, dtypes, strict=True):
            if dtype is not None:
                old = port.type
                shape = old.shape if isinstance(old, TensorType) else None
                port.type = TensorType(dtype, shape)
        return FormRunner(graph, self._factory)


class FormRunner:
    """Runs the first form of a graph that onnxruntime loads and executes.

    Some kernels are missing or fail in the first call only; then the next form is
    tried. Once a call succeeded, errors are those of the feeds.
    """

    def __init__(self, graph: Graph, factory: SessionFactory) -> None:
        self._keys = [port.name for port in graph.outputs]
        self._narrow: tuple[list[DType | None], list[DType | None]] | None = None
        graph = graph.clone()
        if has_narrow_ports(graph):
            self._narrow = widen_ports(graph)
        self._lock = Lock()
        self._forms: Iterator[SupportedForm] | None = supported_forms(graph, factory)
        self._use(next(self._forms))

    def _use(self, form: SupportedForm) -> None:
        self.form, self.session = form.description, SessionRunner(form.session)
        self.implementations = form.implementations

    def __call__(
        self, values: Sequence[Any], out: Mapping[Key, Any] | None
    ) -> list[Any]:
        if self._narrow is None:
            return self._run(values, self._arrays_by_index(out))
        inputs, outputs = self._narrow
        results = self._run(_cast_all(values, [_int8_of(d) for d in inputs]), {})
        return _cast_all(results, [None if d is None else d.numpy for d in outputs])

    def _arrays_by_index(self, out: Mapping[Key, Any] | None) -> dict[int, Any]:
        """The arrays to write to, by the index of the output."""
        keys = {key: i for i, key in enumerate(self._keys)}
        return {keys[k]: v for k, v in (out or {}).items() if k in keys}

    def _run(self, values: Sequence[Any], out: dict[int, Any]) -> list[Any]:
        if self._forms is None:
            return self.session(values, out)
        first: Exception | None = None
        while True:
            try:
                results = self.session(values, out)
            except BackendError:
                raise  # about the feeds
            except Exception as error:  # noqa: BLE001 - its errors have no common base
                first = first or error
                if not self._use_next_form():
                    raise first from None
                continue
            self._forms = None
            return results

    def _use_next_form(self) -> bool:
        with self._lock:
            form = None if self._forms is None else next(self._forms, None)
            if form is None:
                return False
            self._use(form)
            return True


class SessionRunner:
    """Calls an InferenceSession: by arrays, by OrtValues, or bound to `out`."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._inputs = [SessionPort(each) for each in session.get_inputs()]
        self._outputs = [SessionPort(each) for each in session.get_outputs()]
        ports = (*self._inputs, *self._outputs)
        self._has_numpy_dtypes = all(port.has_numpy_dtype for port in ports)
        self._is_bindable = all(port.is_bindable for port in ports)

    def __call__(self, values: Sequence[Any], out: dict[int, Any]) -> list[Any]:
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        pairs = list(zip(self._inputs, values, strict=True))
        names = [port.name for port in self._outputs]
        try:
            if out and self._can_bind(out):
                return self._run_bound(pairs, out)
            if self._has_numpy_dtypes:
                arrays = {port.name: port.to_array(value) for port, value in pairs}
                return list(self.session.run(names, arrays))
            feeds = {port.name: port.to_ort_value(value) for port, value in pairs}
            results = self.session.run_with_ort_values(names, feeds)
        except InvalidArgument as error:
            raise BackendError("onnxruntime refuses the feeds", got=error) from error
        return [
            port.from_ort_value(value)
            for port, value in zip(self._outputs, results, strict=True)
        ]

    def _can_bind(self, out: dict[int, Any]) -> bool:
        return self._is_bindable and all(a.flags.c_contiguous for a in out.values())

    def _run_bound(
        self, pairs: list[tuple[SessionPort, Any]], out: dict[int, Any]
    ) -> list[Any]:
        """A call that writes its results to the arrays in `out`."""
        binding = self.session.io_binding()
        for port, value in pairs:
            binding.bind_cpu_input(port.name, port.to_array(value))
        for i, port in enumerate(self._outputs):
            array = out.get(i)
            if array is None:
                binding.bind_output(port.name)
            else:
                target = ("cpu", 0, array.dtype, array.shape, array.ctypes.data)
                binding.bind_output(port.name, *target)
        self.session.run_with_iobinding(binding)
        values = binding.get_outputs()
        return [out[i] if i in out else v.numpy() for i, v in enumerate(values)]


def _cast_all(values: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    import numpy as np

    return [
        value if dtype is None else np.asarray(value).astype(dtype)
        for value, dtype in zip(values, dtypes, strict=True)
    ]


def _int8_of(dtype: DType | None) -> str | None:
    """The 8-bit dtype that holds a narrower one."""
    if dtype is None:
        return None
    return "int8" if dtype.kind == "int" else "uint8"


def _is_untyped(type_: object) -> bool:
    return type_ is None or (isinstance(type_, TensorType) and type_.dtype is unknown)


def _dtype_of(value: Any) -> DType:
    import numpy as np

    return DType.of(value if hasattr(value, "dtype") else np.asarray(value))
