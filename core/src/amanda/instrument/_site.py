"""Sites: what the callbacks of tools see of an op, and how they change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import TensorType, Type, accepts

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort
    from amanda.instrument._instrumentation import Instrumentation
    from amanda.instrument._sources import SourceOp

__all__ = ["GradientSite", "Site"]


class Site:
    """An op of a graph that is being instrumented.

    Values are those of the namespace: of the hub, what its ops take and return. New ops
    are added next to the op; the callbacks of a tool do not see them.
    """

    def __init__(self, instrumentation: Instrumentation, op: Op, label: str) -> None:
        self._instrumentation = instrumentation
        self.op = op
        """The op itself, for what is not here."""
        self.label = label
        """Its name in reports."""

    # -- the op -----------------------------------------------------------------------

    @property
    def type(self) -> str:
        return self.op.type or ""

    @property
    def name(self) -> str | None:
        return self.op.name

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.op.attrs if self.op.has_attrs else {}

    @property
    def sources(self) -> tuple[SourceOp, ...]:
        """The ops of the model that it was converted from."""
        return self._instrumentation.sources.of(self.op)

    @property
    def scope(self) -> str:
        """The path of the module in which it was written; '' where none is known."""
        return self._instrumentation.sources.scope_of(self.op)

    @property
    def graph(self) -> Graph:
        """The graph or the body that the op is in."""
        if self.op.graph is None:
            raise UsageError(f"{self.label} is no longer in the graph")
        return self.op.graph

    @property
    def inputs(self) -> list[Any]:
        """The values that it reads; None for an input that is left out."""
        wrap = self._instrumentation.value_of
        return [None if port is None else wrap(port) for port in self.op.inputs]

    @property
    def outputs(self) -> list[Any]:
        wrap = self._instrumentation.value_of
        return [wrap(port) for port in self.op.outputs]

    @property
    def output(self) -> Any:
        """Its only output."""
        return self._instrumentation.value_of(self.op.output)

    def input_tensor(self, index: int) -> Any:
        """The tensor of an input that is a constant, such as a weight, or None."""
        port = self.op.inputs[index] if index < len(self.op.inputs) else None
        is_constant = port is not None and port.op.is_constant
        return port.op.attrs["value"] if port is not None and is_constant else None

    # -- observations -----------------------------------------------------------------

    def observe(self, key: str, value: Any, combine: str = "last") -> None:
        """Report a value that each run computes.

        Reductions run where the model runs, so that only their result is moved.
        `combine` is how the values of several runs, and of iterations of a loop, become
        one: last, sum, mean, max, min or stack (a list; not in loops).
        """
        self._instrumentation.observe(self, key, value, combine)

    def record(self, key: str, value: object) -> None:
        """Report a fact that no run computes."""
        self._instrumentation.record(self, key, value)

    def observe_on_host(
        self,
        key: str,
        function: Callable[..., Any],
        *values: Any,
        types: Sequence[Type | str],
        combine: str = "last",
    ) -> None:
        """Report what a Python function of whole values returns, of these types.

        The values leave the device; the report counts how many do."""
        with self._after():
            call = self._instrumentation.call_on_host
            made = call(self, key, function, values, types)
        for index, value in enumerate(made):
            name = key if len(made) == 1 else f"{key} {index}"
            self._instrumentation.observe(self, name, value, combine)

    # -- changes ----------------------------------------------------------------------

    def insert_before(self, function: Callable[[Any], Any], index: int = 0) -> None:
        """Let the op read `function(input)` instead of an input."""
        port = self.op.inputs[index]
        if port is None:
            raise UsageError(f"{self.label} has no input {index}: it is left out")
        with self.graph.before(self.op):
            new = self._new_port(function(self._instrumentation.value_of(port)))
        self._expect_type(f"input {index}", port, new)
        self.op.input_ports[index].connect(new)

    def insert_after(self, function: Callable[[Any], Any], index: int = 0) -> None:
        """Let all that read an output read `function(output)` instead."""
        port = self.op.outputs[index]
        users = list(port.users)
        with self._after():
            new = self._new_port(function(self._instrumentation.value_of(port)))
        self._expect_type(f"output {index}", port, new)
        for user in users:
            user.connect(new)

    def replace(self, function: Callable[..., Any]) -> None:
        """Replace the op by `function(*inputs)`, one value or one for each output."""
        graph = self.graph
        with graph.before(self.op):
            made = function(*self.inputs)
        many = made if isinstance(made, tuple | list) else (made,)
        ports = [self._new_port(value) for value in many]
        if len(ports) != len(self.op.outputs):
            raise UsageError(
                f"{self.label} is replaced by another number of values",
                expected=len(self.op.outputs),
                got=len(ports),
            )
        for index, (old, new) in enumerate(zip(self.op.outputs, ports, strict=True)):
            self._expect_type(f"output {index}", old, new)
        graph.replace(self.op, ports, self._instrumentation.tool.label())

    def remove(self, index: int = 0) -> None:
        """Remove the op; what reads its output reads one of its inputs instead."""
        if len(self.op.outputs) != 1 or self.op.inputs[index] is None:
            raise UsageError(
                f"{self.label} cannot be removed",
                expected="one output, and an input of its type",
                got=f"{len(self.op.outputs)} outputs",
            )
        self.replace(lambda *inputs: inputs[index])

    def insertion_point(self) -> Any:
        """`with site.insertion_point():` adds ops right after the op."""
        return self._after()

    def _after(self) -> Any:
        return self.graph.before(self._instrumentation.op_after(self.op))

    def _new_port(self, value: Any) -> OutputPort:
        return self._instrumentation.port_of(value)

    def _expect_type(self, place: str, old: OutputPort, new: OutputPort) -> None:
        if old.type is None or new.type is None:
            return
        before, after = old.type, new.type
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            fits: bool | None = before == after
        else:
            fits = accepts(before, after)
        if fits is False:
            raise InvalidTypeError(
                f"the tool {self._instrumentation.tool.label()} changes the type of a "
                "value",
                who=self.label,
                where=place,
                expected=old.type,
                got=new.type,
                hint="cast it back, or change the ops that read it as well",
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.type} {self.label!r}>"


class GradientSite(Site):
    """An output of an op of the forward graph, with its gradient.

    Ops are added to the backward part of the graph."""

    def __init__(
        self,
        instrumentation: Instrumentation,
        op: Op,
        label: str,
        port: OutputPort,
        gradient: Any,
    ) -> None:
        super().__init__(instrumentation, op, label)
        self.port = port
        self.gradient = gradient
        """The gradient of the loss with respect to the output."""
        self.new_gradient: Any = None

    @property
    def output(self) -> Any:
        """The output that the gradient is of."""
        port = self.port if self.port.graph is not None else self.port.resolve()
        return self._instrumentation.value_of(port)

    def replace_gradient(self, value: Any) -> None:
        """Continue the backward pass with another gradient."""
        self.new_gradient = value

    def _after(self) -> Any:
        return nullcontext()
