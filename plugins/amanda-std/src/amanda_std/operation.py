"""One definition of an op, in several readings.

An `Operation` is a Python function with annotated parameters (see `kinds`). Called on
arrays it computes, on types it infers, on values of a graph it adds one op. The
function of a primitive is its kernel; that of a composite is its meaning in other
operations, so a composite needs no kernel, inference or gradient of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort, Parameter
from amanda.types import DType, Sym, TensorType, Type
from amanda_std import inference
from amanda_std.arrays import (
    Kernels,
    array_type,
    as_number,
    chosen_kernels,
    in_single,
)
from amanda_std.calling import Rule
from amanda_std.hosts import hosted, is_plain, plain
from amanda_std.kinds import BODY, HOST, REQUIRED, TENSOR, Form, form_of
from amanda_std.values import (
    Tracing,
    Typed,
    Value,
    current,
    is_number,
    lift,
    port_type,
    trace,
)

if TYPE_CHECKING:
    from amanda_std.samples import Sample

Function = Callable[..., Any]

_TYPES = (Typed, TensorType)
_VALUES = (Value, OutputPort, Parameter)


class Operation:
    """An op of the hub set. Made by `primitive` and `composite`."""

    def __init__(
        self,
        function: Function,
        *,
        composite: bool,
        shape: Function | None = None,
        content: Function | bool = False,
        name: str | None = None,
        commutative: bool = False,
        numpy_only: bool = False,
        form: Form | None = None,
    ) -> None:
        self.name = name or function.__name__.rstrip("_")
        self.function = function
        self.form = form or form_of(function)
        self.is_composite = composite
        self.shape_rule = self._rule(shape)
        """Types of tensors and dims of host arguments -> the shape of each result."""
        self.content_rule = content if content is True else self._rule(content or None)
        """True: the kernel, on object arrays of dims, tells the content of results."""
        self.commutative = commutative
        self.numpy_only = numpy_only
        """Whether other array libraries need a kernel of their own."""
        self.type_rule: Rule | None = None
        self.body_rule: Rule | None = None
        self.gradient_rule: Rule | None = None
        self.sums_gradients = False
        self.no_gradient: str | None = None
        self.samples_rule: Callable[[], Iterable[Sample]] | None = None
        self._known = inference.Memo()

    @property
    def doc(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    # -- declaration -----------------------------------------------------------

    def _rule(self, function: Function | None, *extra: str) -> Rule | None:
        return None if function is None else Rule(function, self.form, extra)

    def infer(self, rule: Function) -> Function:
        """Types of the results, whole: for ops whose bodies or types decide them."""
        self.type_rule = self._rule(rule)
        return rule

    def bodies(self, rule: Function) -> Function:
        """The types of the parameters of each body, from those of the arguments."""
        self.body_rule = self._rule(rule)
        return rule

    def gradient(self, rule: Function) -> Function:
        """What the arguments get of `g`, the gradient of the result `y`: one for each.

        Where there are several results, `g` and `y` are tuples."""
        self.gradient_rule = self._rule(rule, "g", "y")
        return rule

    def broadcast_gradient(self, rule: Function) -> Function:
        """A gradient of operands that broadcast: each is summed to its own shape."""
        self.sums_gradients = True
        return self.gradient(rule)

    def not_differentiable(self, why: str) -> None:
        self.no_gradient = why

    def samples(self, rule: Callable[[], Iterable[Sample]]) -> Any:
        self.samples_rule = rule
        return rule

    # -- readings --------------------------------------------------------------

    def __call__(self, *args: Any, name: str | None = None, **attrs: Any) -> Any:
        """Computes, infers or adds an op, by what the arguments are."""
        bound, given = self.bind(args, attrs)
        reading = _reading(bound)
        if reading is None:
            return self.run(bound, given)
        if reading is Typed:
            found = self.types(self.normal(bound), given)
            values: Any = tuple(
                Typed(t) if isinstance(t, TensorType) else t for t in found
            )
        else:
            values = self.trace(bound, given, name)
        return values if self.form.many else values[0]

    def bind(
        self, args: Sequence[Any], attrs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by position and every attribute, as the form has them."""
        bound = list(args)
        rest = dict(attrs)
        fixed = self.form.fixed
        if len(bound) > len(fixed) and len(fixed) == len(self.form.params):
            raise UsageError(
                f"{self.name} takes at most {len(fixed)} arguments", got=len(bound)
            )
        for p in fixed[len(bound) :]:
            if p.name in rest:
                bound.append(rest.pop(p.name))
            elif p.optional:
                bound.append(p.default)
            else:
                raise UsageError(f"{self.name} needs {p.name}", expected=str(self))
        given = {}
        for key, default in self.form.attributes.items():
            if key in rest:
                given[key] = attribute(key, rest.pop(key))
            elif default is REQUIRED:
                raise UsageError(f"{self.name} needs {key}=", expected=str(self))
            else:
                given[key] = default
        if rest:
            names = ", ".join(sorted(rest))
            raise UsageError(f"{self.name} has no {names}", expected=str(self))
        return bound, given

    def run(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """What the kernel makes of arrays."""
        params = self.form.each(len(args))
        dtype = inference.array_dtype(self, params, args)
        ready = [
            plain(a)
            if p.kind.role == HOST
            else as_number(a, dtype, args)
            if is_number(a) and p.kind.role == TENSOR
            else a
            for p, a in zip(params, args, strict=True)
        ]
        return self.implementation(chosen_kernels())(*ready, **attrs)

    def implementation(self, kernels: Kernels | None) -> Function:
        """What computes this op: the row of a table, else the function itself."""
        row = None if kernels is None else kernels.get(self.name)
        if row is not None:
            return row
        return partial(in_single, self.function) if self.is_composite else self.function

    def types(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
        """Types of the results. `args` are `normal`: types, dims and bodies."""
        return inference.result_types(self, args, attrs, self._known)

    def normal(self, args: Sequence[Any]) -> list[Any]:
        """Arguments as inference wants them."""
        params = self.form.each(len(args))
        return [
            hosted(a)
            if p.kind.role == HOST
            else a
            if p.kind.role == BODY or a is None
            else _tensor_type(a, params, args)
            for p, a in zip(params, args, strict=True)
        ]

    def trace(
        self, args: Sequence[Any], attrs: Mapping[str, Any], name: str | None = None
    ) -> tuple[Value, ...]:
        """One op in the graph that is being traced, with inferred types."""
        into = current([a for a in map(_port, _flat(args)) if a is not None])
        params = self.form.each(len(args))
        dtype = _dtype_beside(params, args)
        inputs: list[OutputPort | None] = []
        stored: dict[str, Any] = {}
        seen: list[Any] = []
        bodies = self._bodies(params, args)
        for p, a in zip(params, args, strict=True):
            if p.kind.role == BODY:
                seen.append(bodies[p.name])
                continue
            if p.kind.role == HOST:
                known = hosted(a)
                if is_plain(known):
                    if known != p.default:
                        stored[p.name] = known
                    inputs.append(None)
                    seen.append(known)
                    continue
                a = _computed(a, into)
            port = None if a is None else lift(a, into, dtype if _ties(p) else None)
            inputs.append(port)
            own = None if port is None else port_type(port)
            seen.append(hosted(own) if p.kind.role == HOST else own)
        while inputs and inputs[-1] is None:
            inputs.pop()
        stored |= {k: v for k, v in attrs.items() if v != self.form.attributes[k]}
        types = self.types(seen, attrs)
        op = into.graph.add(
            self.name, inputs, stored, name=name, outputs=len(types), bodies=bodies
        )
        into.note(op)
        for port, found in zip(op.outputs, types, strict=True):
            port.type = found
        return tuple(map(Value, op.outputs))

    def _bodies(self, params: Sequence[Any], args: Sequence[Any]) -> dict[str, Graph]:
        """The function arguments as graphs, traced where they are functions."""
        found: dict[str, Graph] = {}
        wanted = None
        for p, a in zip(params, args, strict=True):
            if p.kind.role != BODY:
                continue
            if not isinstance(a, Graph):
                if wanted is None:
                    assert self.body_rule is not None
                    wanted = self.body_rule(self.normal(args), {})
                a = trace(a, wanted[p.name], p.name)
            found[p.name] = a
        return found

    def __str__(self) -> str:
        parts = [
            f"*{p.name}"
            if p.variadic
            else f"{p.name}={p.default}"
            if p.optional
            else p.name
            for p in self.form.params
        ]
        named = [
            name if default is REQUIRED else f"{name}={default!r}"
            for name, default in self.form.attributes.items()
        ]
        star = ["*"] if named else []
        return f"{self.name}({', '.join([*parts, *star, *named])})"

    def __repr__(self) -> str:
        kind = "composite" if self.is_composite else "primitive"
        return f"<{kind} {self}>"


def primitive(**options: Any) -> Callable[[Function], Operation]:
    """The function is a kernel over an array namespace."""
    return lambda function: Operation(function, composite=False, **options)


def composite(function: Function) -> Operation:
    """The function is the meaning, in other operations."""
    return Operation(function, composite=True)


def attribute(key: str, value: Any) -> Any:
    """An attribute as ops keep it: hashable, in Python's and our own types."""
    if isinstance(value, list | tuple):
        return tuple(attribute(key, item) for item in value)
    if key == "dtype" and value is not None and not isinstance(value, DType):
        return DType(value) if isinstance(value, str) else DType.of(value)
    if hasattr(value, "tolist") and not isinstance(value, Sym):
        return attribute(key, value.tolist())
    return value


def _reading(args: Sequence[Any]) -> type | None:
    """Typed, Value, or None for arrays. Types win: a body may capture values."""
    has_values = has_dims = False
    for a in args:
        kind = a.__class__
        if kind in _TYPES:
            return Typed
        if kind in _VALUES:
            has_values = True
        elif kind is Sym:
            has_dims = True
        elif kind is list or kind is tuple:
            inner = _reading(a)
            if inner is Typed and not all(i.__class__ in (Sym, int) for i in _flat(a)):
                return Typed
            has_values = has_values or inner is Value
            has_dims = has_dims or inner is Typed
    if has_values:
        return Value
    return Typed if has_dims else None


def _flat(args: Iterable[Any]) -> Iterable[Any]:
    for a in args:
        if isinstance(a, list | tuple):
            yield from _flat(a)
        else:
            yield a


def _port(value: Any) -> OutputPort | None:
    if isinstance(value, Value):
        return value.port
    return value if isinstance(value, OutputPort) else None


def _ties(param: Any) -> bool:
    return bool(param.kind.role == TENSOR and param.kind.shared)


def _dtype_beside(params: Sequence[Any], args: Sequence[Any]) -> Any:
    """The element type that Python numbers take: that of the tensors they meet."""
    numbers = False
    for p, a in zip(params, args, strict=True):
        if not _ties(p) or a is None:
            continue
        if is_number(a):
            numbers = True
        else:
            found = _own_dtype(a)
            if found.kind != "unknown":
                return found
    if numbers:
        raise inference.unknown_dtype()
    return None


def _own_dtype(a: Any) -> Any:
    port = _port(a)
    if port is not None:
        return port_type(port).dtype
    if isinstance(a, Typed):
        return a.type.dtype
    return a.dtype if isinstance(a, TensorType) else DType.of(a)


def _tensor_type(a: Any, params: Sequence[Any], args: Sequence[Any]) -> Type:
    if isinstance(a, Type):
        return a
    if isinstance(a, Typed):
        return a.type
    port = _port(a)
    if port is not None:
        return port_type(port)
    if isinstance(a, Sym):
        return TensorType("int64", (), value=a)
    if is_number(a):
        return array_type(as_number(a, _dtype_beside(params, args), ()))
    return array_type(a)


def _computed(value: Any, into: Tracing) -> Any:
    """A host argument as one value: lists of values are stacked."""
    if isinstance(value, list | tuple):
        from amanda_std import ops

        return ops.OPS["stack"](*[_computed(item, into) for item in value])
    if isinstance(value, int | Sym):
        return lift(value, into, DType("int64"))
    return value


def check_kernels(operation: Operation, kernels: Kernels | None) -> str | None:
    """Why an array library cannot run an op, or None."""
    if kernels is None or operation.name in kernels or not operation.numpy_only:
        return None
    return f"{kernels.library} has no kernel for {operation.name}"
