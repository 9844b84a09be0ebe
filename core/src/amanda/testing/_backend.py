"""Checks of backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import amanda
from amanda.backend import Backend
from amanda.dictionary import parse_span
from amanda.errors import AmandaError, BackendError, UsageError
from amanda.graph import Graph
from amanda.testing._plugin import expect_chosen, expect_lazy
from amanda.testing._suite import Suite, for_each

if TYPE_CHECKING:
    from amanda.backend import Compiled

_THREADS = 4
_ROUNDS = 5


class BackendSample(NamedTuple):
    """A graph, its feeds in order, and the expected results in order."""

    graph: Graph
    feeds: Sequence[Any]
    expected: Sequence[Any]


class BackendSuite(Suite):
    """Checks of the backend of this name.

    `samples` adds graphs of its namespace to those of the suite, which have no ops.
    """

    backend: ClassVar[str]
    device: ClassVar[str | None] = None
    late: ClassVar[tuple[str, ...]] = ()
    """Libraries that importing the backend must not import."""
    tolerance: ClassVar[float] = 1e-5

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        """Functions that build graphs, by name."""
        return {}

    # The graphs

    def every_sample(self) -> Mapping[str, Callable[[], BackendSample]]:
        own = {
            "passed_through": self._passed_through,
            "weight": self._weight,
            "swapped": self._swap_sample,
            "unnamed": self._unnamed_sample,
        }
        return {**own, **self.samples()}

    def namespace(self) -> str:
        """An exact namespace that the backend consumes."""
        made: Backend = self.host().get("backends", self.backend)
        span = parse_span(made.namespace)
        version = span.high or span.low
        return made.namespace if version is None else f"{span.path}/{version}"

    def _passed_through(self) -> BackendSample:
        graph = Graph(self.namespace())
        x = graph.parameter(name="x")
        graph.result(x, "once")
        graph.result(x, "again")
        return BackendSample(graph, [_array(2, 3)], [_array(2, 3)] * 2)

    def _weight(self) -> BackendSample:
        from amanda.tensors import Tensor

        graph = Graph(self.namespace())
        graph.result(graph.constant(Tensor.of(_array(4))).output, "w")
        return BackendSample(graph, [], [_array(4)])

    def _swap_sample(self) -> BackendSample:
        graph = Graph(self.namespace())
        x, y = graph.parameter(name="x"), graph.parameter(name="y")
        graph.result(y, "first")
        graph.result(x, "second")
        return BackendSample(
            graph, [_array(2), _array(3, 1)], [_array(3, 1), _array(2)]
        )

    def _unnamed_sample(self) -> BackendSample:
        graph = Graph(self.namespace())
        graph.result(graph.parameter())
        return BackendSample(graph, [_array(1)], [_array(1)])

    def _compile(self, graph: Graph) -> Compiled:
        host = self.host()
        host.caches.clear()  # so that every check compiles
        return amanda.compile(graph, self.backend, self.device, host=host)

    # The checks

    def check_is_chosen_by_name(self) -> None:
        expect_chosen(self, "backends", self.backend)

    def check_imports_its_library_late(self) -> None:
        expect_lazy(self.host().find("backends", self.backend), self.late)

    def check_has_the_protocol(self) -> None:
        made = self.host().get("backends", self.backend)
        assert isinstance(made, Backend)
        assert made.name == self.backend.rpartition(":")[2], "is named otherwise"
        parse_span(made.namespace)

    def check_lists_its_devices(self) -> None:
        devices = list(self.host().get("backends", self.backend).devices())
        assert devices, "sees no device here"
        assert all(isinstance(device, str) and device for device in devices)
        assert len(set(devices)) == len(devices), "lists a device twice"

    @for_each("every_sample")
    def check_computes(self, case: str) -> None:
        sample = self.every_sample()[case]()
        results = self._compile(sample.graph)(sample.feeds)
        self._expect(results.values(), sample.expected)

    @for_each("every_sample")
    def check_repeats_itself(self, case: str) -> None:
        import numpy as np

        sample = self.every_sample()[case]()
        compiled = self._compile(sample.graph)
        one, other = compiled(sample.feeds), compiled(sample.feeds)
        for key, value in one.items():
            np.testing.assert_array_equal(value, other[key])

    @for_each("every_sample")
    def check_leaves_the_graph_as_it_was(self, case: str) -> None:
        sample = self.every_sample()[case]()
        copy = sample.graph.clone()
        self._compile(sample.graph)(sample.feeds)
        assert sample.graph.difference(copy) is None

    @for_each("every_sample")
    def check_leaves_the_feeds_as_they_were(self, case: str) -> None:
        import numpy as np

        sample = self.every_sample()[case]()
        before = [np.array(feed) for feed in sample.feeds]
        self._compile(sample.graph)(sample.feeds)
        for feed, was in zip(sample.feeds, before, strict=True):
            np.testing.assert_array_equal(feed, was)

    def check_takes_feeds_by_name_and_in_order(self) -> None:
        sample = self._swap_sample()
        compiled = self._compile(sample.graph)
        by_name = compiled({"y": sample.feeds[1], "x": sample.feeds[0]})
        assert list(by_name) == ["first", "second"], "results are out of order"
        self._expect(by_name.values(), sample.expected)
        self._expect(compiled(sample.feeds).values(), sample.expected)

    def check_refuses_an_unknown_feed(self) -> None:
        compiled = self._compile(self._passed_through().graph)
        error = _raised_error(
            UsageError, lambda: compiled({"x": _array(1), "z": _array(1)})
        )
        assert "'z'" in str(error), f"does not name it: {error}"

    def check_refuses_a_missing_feed(self) -> None:
        compiled = self._compile(self._swap_sample().graph)
        error = _raised_error(UsageError, lambda: compiled({"y": _array(1)}))
        assert "'x'" in str(error), f"does not name it: {error}"

    def check_returns_results_of_their_own(self) -> None:
        import numpy as np

        sample = self._passed_through()
        once, again = self._compile(sample.graph)(sample.feeds).values()
        arrays = [np.asarray(a) for a in (sample.feeds[0], once, again)]
        for i, array in enumerate(arrays):
            for other in arrays[:i]:
                assert not np.shares_memory(array, other), "shares memory"

    def check_keeps_executables_apart(self) -> None:
        from amanda.tensors import Tensor

        made = []
        for value in (_array(2), _array(5)):
            graph = Graph(self.namespace())
            graph.result(graph.constant(Tensor.of(value)).output, "w")
            made.append((self._compile(graph), value))
        for compiled, value in made:
            self._expect(compiled([]).values(), [value])

    def check_serves_threads(self) -> None:
        samples = [make() for make in self.every_sample().values()]
        compiled = [self._compile(sample.graph) for sample in samples]

        def serve(_: int) -> None:
            for call, sample in zip(compiled, samples, strict=True):
                self._expect(call(sample.feeds).values(), sample.expected)

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(serve, range(_THREADS * _ROUNDS)))

    def check_tells_what_it_does_not_take(self) -> None:
        graph = Graph(self.namespace())
        x = graph.parameter(name="x")
        graph.result(graph.add("amanda_no_such_op", [x], name="strange").output)
        made = self.host().get("backends", self.backend)
        answer = made.takes(graph["strange"])
        assert isinstance(answer, str), "takes() must give True or the reason"
        assert answer, "gives no reason"
        error = _raised_error(BackendError, lambda: self._compile(graph))
        assert "strange" in str(error), f"does not name the op: {error}"

    def check_refuses_an_unknown_device(self) -> None:
        graph = self._passed_through().graph
        _raised_error(
            AmandaError,
            lambda: amanda.compile(
                graph, self.backend, "no such device", host=self.host()
            ),
        )

    def _expect(self, got: Any, expected: Sequence[Any]) -> None:
        import numpy as np

        values = [np.asarray(value) for value in got]
        assert len(values) == len(expected), f"{len(values)} results"
        for value, wanted in zip(values, map(np.asarray, expected), strict=True):
            assert value.dtype == wanted.dtype, f"{value.dtype}, not {wanted.dtype}"
            np.testing.assert_allclose(
                value, wanted, rtol=self.tolerance, atol=self.tolerance
            )


def _array(*shape: int) -> Any:
    """Distinct numbers, as float32."""
    import numpy as np

    size = int(np.prod(shape))
    return (np.arange(size, dtype="float32") + len(shape)).reshape(shape)


def _raised_error(kind: type[AmandaError], action: Callable[[], object]) -> AmandaError:
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
