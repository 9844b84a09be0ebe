"""The format `jax`: a function is traced, and its jaxpr is read as a graph."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

import jax
import numpy as np
from jax.extend import core

from amanda.errors import FormatError, UsageError
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_jax.formats.jaxprs.dims import ArgumentForms, dim_of, is_symbolic
from amanda_jax.formats.jaxprs.random_keys import (
    has_keys,
    is_key,
    type_of_data,
    with_words,
)

__all__ = ["Format"]

_CALLS: Final = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}
"""Primitives that call a jaxpr once, with the parameter that holds it."""
_FUNCTIONS: Final = {"reduce_window": "jaxpr", "scatter": "update_jaxpr"}
"""Primitives that apply a jaxpr to elements, with the parameter that holds it."""
_AS_JIT: Final = "jax.jit(function)(...) has to run with the same arguments"
_ALL_SIZES: Final = (
    "JAX traces it for all sizes at once; where that is not possible, pass arguments "
    "of one size"
)


class Format:
    """Reads functions of JAX, and jaxprs. Jaxprs that are called are inlined.

    `args` and `kwargs` are the arguments that the function is traced with: arrays,
    `jax.ShapeDtypeStruct`, or types such as `"float32[batch, 4]"`, in any pytree.
    Arrays that the function closes over become weights. Random keys are their data."""

    def read(
        self,
        source: Any,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Graph:
        if isinstance(source, core.ClosedJaxpr):
            return _read_jaxpr(source, [None] * len(source.in_avals), "jaxpr")
        if not callable(source):
            raise FormatError(
                "only functions of JAX and jaxprs can be read",
                got=type(source).__name__,
            )
        if args is None:
            raise UsageError(
                "a function of JAX is read by tracing it",
                hint="pass its arguments: amanda.load(f, 'jax', args=(x, y))",
            )
        _check_arguments(args, kwargs)
        forms = ArgumentForms().replace_types((tuple(args), dict(kwargs or {})))
        traced = _trace(source, *forms)
        graph = _read_jaxpr(
            traced.jaxpr,
            _input_names(traced),
            getattr(source, "__name__", "function"),
        )
        result_paths = jax.tree_util.tree_flatten_with_path(traced.out_info)[0]
        for port, (path, _) in zip(graph.outputs, result_paths, strict=True):
            port.name = _path_text(path) or None
        return graph


def _check_arguments(args: Any, kwargs: Any) -> None:
    """UsageError unless the arguments are a tuple or list, and a dict."""
    if not isinstance(args, tuple | list):
        raise UsageError(
            "`args` has the positional arguments of the function, one item for each",
            who="load",
            where="args",
            expected="a tuple or a list",
            got=f"{args!r:.80} ({type(args).__name__})",
            hint="a single argument is args=(x,)",
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(
            "`kwargs` has the keyword arguments of the function by name",
            who="load",
            where="kwargs",
            expected="a dict",
            got=f"{kwargs!r:.80} ({type(kwargs).__name__})",
            hint="kwargs={'name': x}",
        )


def _trace(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What JAX traces: a jaxpr, with the forms of its arguments and results."""
    wrapped: Any = function
    try:
        if not isinstance(function, jax.stages.Wrapped):
            wrapped = jax.jit(_as_new_function(function))
        return wrapped.trace(*args, **kwargs)
    except Exception as cause:  # the function may raise anything
        raise FormatError(
            f"{getattr(function, '__name__', 'the function')} cannot be traced",
            got=f"{type(cause).__name__}: {cause}",
            hint=_ALL_SIZES if _has_symbolic_dims((args, kwargs)) else _AS_JIT,
        ) from cause


def _has_symbolic_dims(arguments: Any) -> bool:
    shapes = (getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(arguments))
    return any(is_symbolic(dim) for shape in shapes for dim in shape)


def _as_new_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the same signature that JAX has not traced before."""

    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _input_names(traced: Any) -> list[str]:
    """The names of the inputs: parameters of the function, with the path in each.

    Where the signature is not available, `args` with the position."""
    paths = jax.tree_util.tree_flatten_with_path(traced.args_info)[0]
    known = traced.jaxpr.jaxpr.debug_info.arg_names or [None] * len(paths)
    return [
        _input_name(path, name) for (path, _), name in zip(paths, known, strict=True)
    ]


def _input_name(path: Any, known: str | None) -> str:
    """The name of an input, from its path in the arguments and JAX's name of it."""
    (which, *rest), inner = path, path[2:]
    if which.idx:
        return _path_text(rest)
    head = (known or "").removesuffix(jax.tree_util.keystr(inner))
    found = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", head)
    parts = (
        [part for part in found.groups() if part]
        if found
        else ["args", str(rest[0].idx)]
    )
    return ".".join([*parts, _path_text(inner)]).rstrip(".")


def _path_text(path: Any) -> str:
    parts = (
        str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
        for key in path
    )
    return ".".join(parts)


def _read_jaxpr(closed: Any, names: Sequence[str | None], name: str) -> Graph:
    graph = Graph(f"amanda/jax/{jax.__version__}", name)
    jaxpr = closed.jaxpr
    values: dict[Any, OutputPort] = {}
    for variable, input_name in zip(jaxpr.invars, names, strict=True):
        values[variable] = graph.parameter(_type_of(variable.aval), input_name)
    for result in _add_equations(graph, closed, values):
        graph.result(result)
    return graph


def _add_equations(
    graph: Graph, closed: Any, values: dict[Any, OutputPort]
) -> list[Any]:
    """Add the equations of a jaxpr to a graph; return its results."""
    for variable, constant in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        values[variable] = _add_constant(graph, constant)

    def value(atom: Any) -> OutputPort:
        if isinstance(atom, core.Literal):
            aval: Any = atom.aval
            return _add_constant(graph, np.asarray(atom.val, aval.dtype))
        return values[atom]

    for equation in closed.jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        inner = equation.params.get(_CALLS.get(equation.primitive.name, ""))
        if equation.primitive.name == "custom_linear_solve":
            inner, inputs = _solve_call(equation.params, inputs)
        if inner is not None:
            program = (
                inner if isinstance(inner, core.ClosedJaxpr) else _as_closed(inner)
            )
            scope = dict(zip(program.jaxpr.invars, inputs, strict=True))
            results: Sequence[OutputPort] = _add_equations(graph, program, scope)
        else:
            results = _add_op(graph, equation, inputs)
        values.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in closed.jaxpr.outvars]


def _solve_call(params: Any, inputs: list[OutputPort]) -> tuple[Any, list[OutputPort]]:
    """The jaxpr that solves the equations, with its constants and right sides."""
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    right_sides = inputs[sum(lengths) :]
    return params["jaxprs"].solve, [
        *inputs[first : first + lengths.solve],
        *right_sides,
    ]


def _as_closed(jaxpr: Any) -> Any:
    return core.ClosedJaxpr(jaxpr, ())


def _add_op(
    graph: Graph, equation: Any, inputs: list[OutputPort]
) -> Sequence[OutputPort]:
    attrs, bodies = {}, {}
    op_type, params = equation.primitive.name, equation.params
    if has_keys(equation):
        inputs, params = with_words(graph, equation, inputs)
    for key, param in params.items():
        if isinstance(param, core.Jaxpr) and _FUNCTIONS.get(op_type) == key:
            param = _as_closed(param)
        many = param if isinstance(param, list | tuple) else (param,)
        if any(isinstance(each, core.ClosedJaxpr) for each in many):
            for i, program in enumerate(many):
                bodies[f"{key}{i}" if many is param else key] = _read_body(program)
        else:
            attrs[key] = _attribute(op_type, key, param)
    op = graph.add(
        op_type,
        inputs,
        attrs,
        outputs=len(equation.outvars),
        bodies=bodies,
    )
    for port, variable in zip(op.outputs, equation.outvars, strict=True):
        port.type = _type_of(variable.aval)
    return op.outputs


def _read_body(closed: Any) -> Graph:
    body = Graph()
    values = {v: body.parameter(_type_of(v.aval)) for v in closed.jaxpr.invars}
    for result in _add_equations(body, closed, dict(values)):
        body.result(result)
    return body


def _add_constant(graph: Graph, array: Any) -> OutputPort:
    data = jax.random.key_data(array) if is_key(array) else array
    tensor = Tensor.of(np.asarray(data))
    results = graph.constant(tensor).output
    results.type = tensor.type
    return results


def _type_of(aval: Any) -> TensorType:
    if is_key(aval):
        return type_of_data(aval)
    dtype = getattr(aval, "dtype", None)
    if not isinstance(dtype, np.dtype):
        raise FormatError(
            "a value of the function is not a tensor of numbers", got=str(aval)
        )
    return TensorType(DType.of(dtype), [dim_of(dim) for dim in aval.shape])


def _attribute(primitive: str, key: str, value: Any) -> Any:
    """A parameter as an attribute: numbers, strings, lists and dicts of them."""
    if isinstance(value, enum.Enum):  # some are integers too
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_symbolic(value):
        return dim_of(value)
    if isinstance(value, np.dtype):
        return DType.of(value)
    if isinstance(value, np.generic):
        return value.item()
    if key == "impl":  # of random keys, with functions
        return value.name
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        rows = zip(value._fields, value, strict=True)
        return {name: _attribute(primitive, key, each) for name, each in rows}
    if isinstance(value, list | tuple):
        return tuple(_attribute(primitive, key, each) for each in value)
    fields = getattr(value, "__dict__", None) or {
        name: getattr(value, name) for name in getattr(value, "__slots__", ())
    }
    if fields and key == "dimension_numbers":
        return {name: _attribute(primitive, key, each) for name, each in fields.items()}
    return None if "shard" in key or "mesh" in key else str(value)
