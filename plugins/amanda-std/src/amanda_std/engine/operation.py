"""One definition of an op, read in several ways.

An `Operation` is a Python function with annotated parameters (see `annotations`).
Called on arrays it computes, on types it infers, on values of a graph it adds an op.
The function of a primitive is its kernel; that of a composite is its definition in
other ops, so a composite needs no kernel, inference or gradient of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    overload,
)

from amanda.argument_checks import checks_itself
from amanda.errors import AmandaError, Undecided, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import (
    TensorType,
    Type,
)
from amanda_std.engine import diagnostics
from amanda_std.engine.annotations import (
    BODY,
    REQUIRED,
    SHAPE_ARG,
    TENSOR,
    VALUE,
    OpForm,
    parse_form,
)
from amanda_std.engine.arrays import (
    Kernels,
    all_numpy,
    current_kernels,
    in_float32,
    number_as_array,
)
from amanda_std.engine.budget import (
    MAX_EAGER_ELEMENTS,
    count_elements,
    is_surely_small,
)
from amanda_std.engine.call_cache import CallCache, Ports, call_key
from amanda_std.engine.function_lookup import find_function
from amanda_std.engine.literals import (
    as_tensor,
    is_literal,
    is_number,
    normalize_attribute,
)
from amanda_std.engine.operands import (
    as_port,
    body_for_inference,
    call_mode,
    defer_numbers,
    dtype_for_numbers,
    flatten_args,
    named_bodies,
    pack_sequence,
    port_of,
    shares_dtype,
    tensor_type,
)
from amanda_std.engine.rule_binding import BoundRule
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import (
    Tracing,
    Typed,
    Value,
    count_definition_op,
    is_tracing,
    is_types_only,
    lift,
    require_tracing,
    trace,
    tracing_target,
    types_only,
    value_type,
)
from amanda_std.hub.effect_order import add_control_edges, may_hold_state
from amanda_std.inference import shapes, type_inference
from amanda_std.inference.shape_arguments import is_static, to_dims, to_integers

if TYPE_CHECKING:
    from amanda_std.engine.samples import Sample

P = ParamSpec("P")
R = TypeVar("R")

Function = Callable[..., Any]
Effect = Literal["holds", "reads", "writes", "shows", "draws"]
"""What an op does besides computing: declares a variable, reads it, writes it, is
visible from outside (prints, probes, callbacks), or draws from a random stream."""


class Operation:
    """An op of the hub. Created by `primitive` and `composite`."""

    sums_gradients = False
    label_attribute: tuple[str, str] | None = None
    """The attribute that memory plans and errors show, and the word before it."""

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
        effect: Effect | None = None,
        form: OpForm | None = None,
    ) -> None:
        self.name = name or function.__name__.rstrip("_")
        self.function = function
        if form is not None:
            self.form = form
        self.is_composite = composite
        self.shape_rule = self._rule(shape)
        """Types of tensors and dims of shape arguments -> the shape of each result."""
        self.content_rule = content if content is True else self._rule(content or None)
        """True: the kernel computes known content, on object arrays of dims."""
        self.commutative = commutative
        self.numpy_only = numpy_only
        """Whether other array libraries need a kernel of their own."""
        is_pointwise = shape in (shapes.pointwise, shapes.elementwise)
        self.traits = frozenset([Trait.POINTWISE] if is_pointwise else [])
        """What passes and backends may rely on: see `Trait`."""
        self.effect = effect
        """What it does besides computing its results, or what these depend on."""
        self.type_rule: BoundRule | None = None
        self.body_rule: BoundRule | None = None
        self.compile_time_rule: Callable[[Op], Iterable[str]] | None = None
        self.gradient_rule: BoundRule | None = None
        self.no_gradient: str | None = None
        self.differentiable_if: str | None = None
        """The attribute that, if set, gives it a gradient after all."""
        self.definition: Function | None = function if composite else None
        """What replaces the op where a target does not support it."""
        self.complex_rule: Function | None = None
        """The definition on real and imaginary parts, for targets without complex
        numbers."""
        self.state_rule: Function | None = None
        """The op on values of variables, for targets without variables."""
        self.unrolled: Function | None = None
        """For containers: the definition over values of a graph, where it differs."""
        self.samples_rule: Callable[[], Iterable[Sample]] | None = None
        self._known = type_inference.TypeCache()
        self.repeats = CallCache(self)

    @cached_property
    def form(self) -> OpForm:
        """The signature, read from the function when it is first asked for."""
        return parse_form(self.function)

    @cached_property
    def _many(self) -> bool:
        return self.form.many

    @property
    def doc(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    # -- declaration -----------------------------------------------------------

    def _rule(self, function: Function | None, *extra: str) -> BoundRule | None:
        return None if function is None else BoundRule(function, self, extra)

    def trait(self, *traits: Trait) -> None:
        """Declare properties of the op."""
        self.traits |= frozenset(traits)
        if Trait.MOVES_ELEMENTS in traits:
            self.traits |= {Trait.PARTWISE}

    def compile_time(self, rule: Callable[[Op], Iterable[str]]) -> Any:
        """Names of the arguments that a compiler has to know, besides shape arguments:
        a function of the op in a graph."""
        self.compile_time_rule = rule
        return rule

    def infer(self, rule: Function) -> Function:
        """Set the types of the results, for ops whose bodies or types decide them."""
        self.type_rule = self._rule(rule)
        return rule

    def bodies(self, rule: Function) -> Function:
        """Set the types of each body's parameters, from those of the arguments."""
        self.body_rule = self._rule(rule)
        return rule

    def gradient(self, rule: Function) -> Function:
        """Set the gradient: one for each argument, from `g`, the gradient of the result
        `y`.

        With several results, `g` and `y` are tuples. The rule of an op with bodies
        has parameters `op` and `wanted`, the values to differentiate by; it returns
        a dict of gradients by values, captured ones included."""
        self.gradient_rule = self._rule(rule, "g", "y", "op", "wanted")
        return rule

    def broadcast_gradient(self, rule: Function) -> Function:
        """Set a gradient of broadcasting operands: each is summed to its operand's
        shape."""
        self.sums_gradients = True
        return self.gradient(rule)

    def not_differentiable(self, why: str, unless: str | None = None) -> None:
        """Declare that there is no gradient, and why; `unless` this attribute is
        set."""
        self.no_gradient, self.differentiable_if = why, unless

    def decomposition(self, rule: Function) -> Function:
        """Set the definition of a primitive in other ops; it may raise Decline."""
        self.definition = rule
        return rule

    def on_complex_parts(self, rule: Function) -> Function:
        """Set the definition for targets without complex numbers; it may raise Decline.

        Complex arguments are `ComplexParts`, and so are complex results."""
        self.complex_rule = rule
        return rule

    def explicit_state(self, rule: Function) -> Function:
        """Set the definition for targets without variables, on `VariableValues`."""
        self.state_rule = rule
        return rule

    def unroll(self, rule: Function) -> Function:
        """Set the definition over values of a graph and Python lists of them, for ops
        that build or read containers and do not have the trait `CONTAINER`."""
        self.unrolled = rule
        return rule

    def samples(self, rule: Callable[[], Iterable[Sample]]) -> Any:
        """Set the samples that every backend is tested with."""
        self.samples_rule = rule
        return rule

    # -- readings --------------------------------------------------------------

    @checks_itself
    def __call__(self, *args: Any, name: str | None = None, **attrs: Any) -> Any:
        """Compute, infer or add an op, depending on the arguments."""
        into = tracing_target()
        ports: Ports = []
        key = None if into is None else call_key(args, attrs, ports)
        if into is None or key is None:
            return self._dispatch_call(args, attrs, name)
        made = self.repeats.add(key, ports, into, name)
        if not made:
            before = len(into.made)
            found = self._dispatch_call(args, attrs, name)
            self.repeats.learn(key, ports, into.made[before:])
            return found
        return tuple(map(Value, made)) if self._many else Value(made[0])

    def _dispatch_call(
        self, args: Sequence[Any], attrs: Mapping[str, Any], name: str | None
    ) -> Any:
        bound, given = self.bind(args, attrs)
        values: tuple[Any, ...]
        kind = call_mode(bound)
        if kind is None and self._is_traced_always and is_tracing():
            kind = Value
        if kind is None and self._is_computed_now(bound, given):
            return self.run(bound, given)
        if kind is Typed or is_types_only():
            count_definition_op()
            with types_only():
                found = self.types(self.normal(bound), given)
            values = tuple(Typed(t) if isinstance(t, TensorType) else t for t in found)
        else:
            values = self.trace(bound, given, name)
        return values if self._many else values[0]

    def _is_computed_now(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
        """Whether a call on arrays is computed: always, except for large results while
        a graph is built or types are inferred."""
        if not (is_types_only() or is_tracing()) or is_surely_small(args, attrs):
            return True
        if self.body_rule is not None or not all_numpy(args):
            return True
        found = count_elements(self.types(self.normal(args), attrs))
        return found is not None and found <= MAX_EAGER_ELEMENTS

    @property
    def _is_traced_always(self) -> bool:
        """Whether a call on arrays alone still adds an op while a graph is traced.

        So it does for containers, which are no constants, for bodies, which may
        capture values, and for effects and placement, which happen when the graph
        runs."""
        if self.body_rule is not None or self.effect is not None:
            return True
        if Trait.NOT_FOLDED in self.traits:
            return True
        return self.form.results[0].role == VALUE

    @checks_itself
    def bind(
        self, args: Sequence[Any], attrs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by position and all attributes, with defaults filled in."""
        bound = list(args)
        rest = dict(attrs)
        fixed = self.form.fixed_params
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
                given[key] = diagnostics.check_attribute(
                    self, key, normalize_attribute, rest.pop(key)
                )
            elif default is REQUIRED:
                raise UsageError(f"{self.name} needs {key}=", expected=str(self))
            else:
                given[key] = default
        if rest:
            unknown = f"{self.name} has no {', '.join(sorted(rest))}"
            raise UsageError(unknown, expected=str(self))
        return bound, given

    @checks_itself
    def run(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Call the kernel on arrays."""
        params = self.form.params_of(len(args))
        dtype = type_inference.array_dtype(self, params, args)
        try:
            ready = [
                to_integers(a)
                if p.kind.role == SHAPE_ARG
                else number_as_array(a, dtype, args)
                if is_number(a) and p.kind.role == TENSOR
                else as_tensor(a, dtype if shares_dtype(p) else None).numpy()
                if isinstance(a, list) and p.kind.role == TENSOR and is_literal(a)
                else a
                for p, a in zip(params, args, strict=True)
            ]
            return self.implementation(current_kernels())(*ready, **attrs)
        except AmandaError as error:
            diagnostics.add_context(error, self, args)
            raise
        except diagnostics.BARE_ERRORS as error:
            found = self._explain_failure(args, attrs, error)
            if found is error:
                raise
            raise found from error

    def _explain_failure(
        self, args: Sequence[Any], attrs: Mapping[str, Any], error: Exception
    ) -> Exception:
        """The error to raise where a kernel failed, from inference on the same call.

        Errors about arrays of other libraries are left as they are."""
        if not all_numpy(args):
            return error
        found = diagnostics.find_mismatch(self, args, attrs)
        if found is not None:
            return found
        try:
            self.types(self.normal(args), attrs)
        except AmandaError as mistake:
            diagnostics.add_context(mistake, self, args)
            return mistake
        except diagnostics.BARE_ERRORS as other:
            error = other
        return diagnostics.explain_error(self, args, attrs, error)

    @checks_itself
    def implementation(self, kernels: Kernels | None) -> Function:
        """The kernel in a table, else the function itself."""
        row = None if kernels is None else kernels.get(self.name)
        if row is not None:
            return row
        exact = self.body_rule is not None or Trait.EXACT_DTYPES in self.traits
        if self.is_composite and not exact:
            return partial(in_float32, self.function)
        return self.function

    @checks_itself
    def types(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
        """Types of the results. `args` are `normal`: types, dims and bodies."""
        return type_inference.result_types(self, args, attrs, self._known)

    @checks_itself
    def normal(self, args: Sequence[Any]) -> list[Any]:
        """Arguments as inference expects them: types, dims and bodies."""
        params = self.form.params_of(len(args))
        return [
            to_dims(a)
            if p.kind.role == SHAPE_ARG
            else a
            if p.kind.role == BODY or a is None
            else tensor_type(a, params, args)
            for p, a in zip(params, args, strict=True)
        ]

    @checks_itself
    def trace(
        self, args: Sequence[Any], attrs: Mapping[str, Any], name: str | None = None
    ) -> tuple[Value, ...]:
        """Add one op to the graph being traced, with inferred types.

        On an error the graph is left unchanged."""
        given = () if is_tracing() else map(port_of, flatten_args(args))
        into = require_tracing([port for port in given if port is not None])
        before = len(into.made)
        try:
            return self._add_op(into, args, attrs, name)
        except AmandaError as error:
            diagnostics.add_context(error, self, args)
            into.take_back(before)
            raise
        except diagnostics.BARE_ERRORS as error:
            into.take_back(before)
            raise diagnostics.explain_error(self, args, attrs, error) from error

    def _add_op(
        self,
        into: Tracing,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        name: str | None,
    ) -> tuple[Value, ...]:
        params = self.form.params_of(len(args))
        try:
            dtype = dtype_for_numbers(params, args)
        except Undecided:
            args, dtype = defer_numbers(params, args), None
        inputs: list[OutputPort | None] = []
        stored: dict[str, Any] = {}
        seen: list[Any] = []
        bodies, named = self._bodies(params, args, attrs, into)
        stored.update(named)
        for p, a in zip(params, args, strict=True):
            if p.kind.role == BODY:
                seen.append(body_for_inference(p, bodies, named, into))
                continue
            if p.kind.role == SHAPE_ARG:
                known = to_dims(a)
                if is_static(known):
                    if p.name == "axes" and type(known) is int:
                        known = (known,)  # mappings expect a list of axes
                    if known != p.default:
                        stored[p.name] = known
                    inputs.append(None)
                    seen.append(known)
                    continue
                a = as_port(a, into)
            if p.kind.role == VALUE and isinstance(a, list):
                a = pack_sequence(a)
            port = (
                None if a is None else lift(a, into, dtype if shares_dtype(p) else None)
            )
            inputs.append(port)
            own = None if port is None else value_type(port)
            seen.append(to_dims(own) if p.kind.role == SHAPE_ARG else own)
        while inputs and inputs[-1] is None:
            inputs.pop()
        changed = {k: v for k, v in attrs.items() if v != self.form.attributes[k]}
        diagnostics.check_attributes(self, changed)
        stored |= changed
        types = self.types(seen, attrs)
        op = into.graph.add(
            self.name, inputs, stored, name=name, outputs=len(types), bodies=bodies
        )
        return self._new_values(into.note(op), types)

    def _new_values(self, op: Op, types: Sequence[Type]) -> tuple[Value, ...]:
        """The values of an op that was just added."""
        for port, found in zip(op.outputs, types, strict=True):
            port.type = found
        if self.effect in ("reads", "writes") or may_hold_state(op):
            add_control_edges(op)
        return tuple(map(Value, op.outputs))

    def _bodies(
        self,
        params: Sequence[Any],
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        into: Tracing,
    ) -> tuple[dict[str, Graph], dict[str, Any]]:
        """The function arguments as graphs; Python functions are traced.

        Functions of the root are given by name and stored as attributes."""
        found: dict[str, Graph] = {}
        named: dict[str, Any] = {}
        wanted = None
        for p, a in zip(params, args, strict=True):
            if p.kind.role != BODY:
                continue
            if isinstance(a, str | FunctionRef):
                named[p.name] = FunctionRef(a) if isinstance(a, str) else a
                continue
            for key, body in named_bodies(p, a):
                if not isinstance(body, Graph):
                    if wanted is None:
                        assert self.body_rule is not None
                        wanted = self.body_rule(self._inference_args(args, into), attrs)
                    body = trace(body, wanted[p.name], key, around=into)
                found[key] = body
        return found, named

    def _inference_args(self, args: Sequence[Any], into: Tracing) -> list[Any]:
        """Arguments for inference, with functions given by name looked up."""
        known = [
            find_function(into.graph, a) if isinstance(a, FunctionRef) else a
            for a in args
        ]
        return self.normal(known)

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


if TYPE_CHECKING:

    class TypedOperation(Operation, Generic[P, R]):
        """An op as type checkers see it: called like the function that defines it."""

        @overload  # type: ignore[override]
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

        @overload
        def __call__(self, *args: Any, name: str | None, **attrs: Any) -> R: ...

        def __call__(self, *args: Any, **attrs: Any) -> Any: ...

else:
    TypedOperation = Operation

UnaryOperation: TypeAlias = "TypedOperation[[Any], Any]"
BinaryOperation: TypeAlias = "TypedOperation[[Any, Any], Any]"


def primitive(**options: Any) -> Callable[[Callable[P, R]], TypedOperation[P, R]]:
    """Declare a primitive: the function is a kernel over an array namespace."""

    def declare(function: Callable[P, R]) -> TypedOperation[P, R]:
        return TypedOperation(function, composite=False, **options)

    return declare


def composite(function: Callable[P, R]) -> TypedOperation[P, R]:
    """Declare a composite: the function is its definition in other ops."""
    return TypedOperation(function, composite=True)


def why_no_kernel(operation: Operation, kernels: Kernels | None) -> str | None:
    """Why an array library cannot run an op, or None."""
    if kernels is None or operation.name in kernels or not operation.numpy_only:
        return None
    return f"{kernels.library} has no kernel for {operation.name}"
