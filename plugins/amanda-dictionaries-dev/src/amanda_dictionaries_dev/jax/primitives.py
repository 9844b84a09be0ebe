"""Extract the primitives of JAX, the ops of jaxprs.

Names, and whether there are several results, are those of all primitives that JAX
defines (`listed_primitives.py`). Parameters and numbers of operands are collected from
traced programs (`traced_programs.py`); a primitive that none of them uses ends in
`...`, since its parameters are unknown.

Operands have no names in JAX. They get those of the first parameters of the public
function with the same name, if there is one.
"""

from __future__ import annotations

import enum
import inspect
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

from amanda.dictionary import DictionaryHeader, OpDef, parse_signature
from amanda_dictionaries_dev import Extractor, InstalledOps, requires_framework
from amanda_dictionaries_dev.jax.listed_primitives import list_primitives
from amanda_dictionaries_dev.jax.traced_programs import ExampleProgram, example_programs

__all__ = ["JAX", "PrimitivesExtractor", "list_equations", "trace_equations"]

_ANY: Final = "*operands: any >= 0"
# Primitives with a variable number of operands.
_INPUTS: Final = {
    "after_all": "*operands: any >= 0",
    "concatenate": "*operands: tensor",
    "cond": "index: tensor, *operands: any >= 0",
    "custom_jvp_call": _ANY,
    "custom_linear_solve": _ANY,
    "custom_vjp_call": _ANY,
    "device_put": _ANY,
    "dynamic_slice": "operand: tensor, *start_indices: tensor >= 0",
    "dynamic_update_slice": (
        "operand: tensor, update: tensor, *start_indices: tensor >= 0"
    ),
    "get": "ref: any, *indices: tensor >= 0",
    "jit": _ANY,
    "optimization_barrier": _ANY,
    "pmax": "*operands: tensor",
    "pmin": "*operands: tensor",
    "psum": "*operands: tensor",
    "reduce": "*operands: tensor",
    "reduce_window": "*operands: tensor",
    "remat2": _ANY,
    "scan": _ANY,
    "scatter": "operand: tensor, scatter_indices: tensor, updates: tensor",
    "select_n": "which: tensor, *cases: tensor",
    "sort": "*operands: tensor",
    "stack": "*operands: tensor",
    "swap": "ref: any, value: tensor, *indices: tensor >= 0",
    "while": _ANY,
}
# Primitives with a variable number of results.
_OUTPUTS: Final = {
    "cond", "custom_jvp_call", "custom_linear_solve", "custom_vjp_call", "device_put",
    "eig", "jit", "optimization_barrier", "pmax", "pmin", "psum", "qr", "reduce",
    "reduce_window", "remat2", "scan", "schur", "sort", "split", "svd", "unstack",
    "while",
}  # fmt: skip
_BODIES: Final = {
    ("cond", "branches"): "(inputs - 1, outputs)",
    ("custom_jvp_call", "call_jaxpr"): "(inputs, outputs)",
    ("custom_vjp_call", "call_jaxpr"): "(inputs, outputs)",
    ("jit", "jaxpr"): "(inputs, outputs)",
    ("reduce", "jaxpr"): "(inputs, outputs)",
    ("reduce_window", "jaxpr"): "(inputs, outputs)",
    ("remat2", "jaxpr"): "(inputs, outputs)",
    ("scan", "jaxpr"): "(inputs, outputs)",
    ("scatter-add", "update_jaxpr"): "(2, 1)",
    ("scatter-max", "update_jaxpr"): "(2, 1)",
    ("scatter-min", "update_jaxpr"): "(2, 1)",
    ("scatter-mul", "update_jaxpr"): "(2, 1)",
    ("scatter-sub", "update_jaxpr"): "(2, 1)",
}
# Parameters that take more kinds of values than programs on one device show.
_KIND_OVERRIDES: Final = {
    "axis_name": "any",
    "fill_value": "any?",
    "in_shardings": "any[]",
    "out_shardings": "any[]",
    "sharding": "any?",
    ("pmax", "axes"): "any[]",
    ("pmin", "axes"): "any[]",
    ("psum", "axes"): "any[]",
}
_DEFAULT_NAMES: Final = ("x", "y", "z")


class PrimitivesExtractor(Extractor):
    """The primitives of the installed JAX."""

    header = DictionaryHeader(namespace="amanda/jax", versions=())

    def installed_ops(self) -> InstalledOps:
        with requires_framework("jax", "jax"):
            import jax
        several = list_primitives()
        seen: dict[str, list[Any]] = {name: [] for name in several}
        for program in example_programs():
            for equation in trace_equations(program):
                name = equation.primitive.name
                several[name] = equation.primitive.multiple_results
                seen.setdefault(name, []).append(equation)
        op_defs = [_op_def(name, seen[name], several[name]) for name in sorted(seen)]
        return InstalledOps(f"jax {jax.__version__}", {jax.__version__: op_defs})


def trace_equations(program: ExampleProgram) -> Iterator[Any]:
    """The equations of a traced program, including nested jaxprs."""
    import jax

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as deprecations
        axes = list(program.axes)
        closed = jax.make_jaxpr(program.run, axis_env=axes)(*program.arguments)
    return list_equations(closed.jaxpr)


def list_equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr, each followed by those of its bodies."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                if _is_jaxpr(each):
                    yield from list_equations(getattr(each, "jaxpr", each))


def _is_jaxpr(value: Any) -> bool:
    from jax.extend import core

    return isinstance(value, core.ClosedJaxpr | core.Jaxpr)


def _op_def(name: str, seen: list[Any], several: bool) -> OpDef:
    inputs = _INPUTS.get(name) or _inputs(name, seen)
    params = _params(name, seen) if seen else ["..."]
    head = ", ".join(filter(None, [inputs, *(["*", *params] if params else [])]))
    tags = "  #multiple_results" if several else ""
    outputs = _outputs(name, seen, several)
    return parse_signature(f"{name}({head}) -> ({outputs}){_traits(name, seen)}{tags}")


def _inputs(name: str, seen: list[Any]) -> str:
    if not seen:
        return _ANY
    counts = {len(equation.invars) for equation in seen}
    if len(counts) > 1:
        raise ValueError(f"{name} has {sorted(counts)} operands; add it to _INPUTS")
    columns = zip(*(equation.invars for equation in seen), strict=True)
    kinds = [_port_kind(column) for column in columns]
    named = zip(_names(name, len(kinds)), kinds, strict=True)
    return ", ".join(f"{called}: {kind}" for called, kind in named)


def _names(name: str, count: int) -> list[str]:
    """Names of operands: those of the public function, or x, y, z."""
    from jax import lax

    function = getattr(lax, name.replace("-", "_"), None)
    function = function or getattr(lax.linalg, name, None)
    if callable(function):
        parameters = list(inspect.signature(function).parameters.values())[:count]
        named = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if len(parameters) == count and all(p.kind is named for p in parameters):
            return [parameter.name for parameter in parameters]
    return (
        list(_DEFAULT_NAMES[:count]) if count <= 3 else [f"x{i}" for i in range(count)]
    )


def _outputs(name: str, seen: list[Any], several: bool) -> str:
    if name in _OUTPUTS or (several and not seen):
        return "*results: any >= 0"
    if not seen:
        return "any"
    counts = {len(equation.outvars) for equation in seen}
    if len(counts) > 1:
        raise ValueError(f"{name} has {sorted(counts)} results; add it to _OUTPUTS")
    columns = zip(*(equation.outvars for equation in seen), strict=True)
    return ", ".join(map(_port_kind, columns))


def _port_kind(column: Iterable[Any]) -> str:
    """`tensor` if all values are; keys, tokens and references are `any`."""
    import numpy as np
    from jax.core import ShapedArray

    avals = [variable.aval for variable in column]
    plain = all(
        type(aval) is ShapedArray and isinstance(aval.dtype, np.dtype) for aval in avals
    )
    return "tensor" if plain else "any"


def _traits(name: str, seen: list[Any]) -> str:
    if name == "rng_uniform":  # "stateful PRNG generator", as its text has it
        return "  [nondeterministic]"
    effects = {type(effect).__name__ for eqn in seen for effect in eqn.effects}
    # that an axis is named is no effect on anything
    return "  [stateful]" if effects - {"NamedAxisEffect"} else ""


# -- parameters ------------------------------------------------------------------------


def _params(name: str, seen: list[Any]) -> list[str]:
    names = sorted({param for equation in seen for param in equation.params})
    found = []
    for param in names:
        values = [e.params[param] for e in seen if param in e.params]
        mark = "?" if len(values) < len(seen) else ""
        wide = _KIND_OVERRIDES.get((name, param)) or _KIND_OVERRIDES.get(param)
        kind, words = (wide, "") if wide else _kind(values)
        found.append(f"{param}{mark}: {kind}{_BODIES.get((name, param), '')}{words}")
    return found


def _kind(values: list[Any]) -> tuple[str, str]:
    """The kind of a parameter, and the members of an enumeration."""
    given = [value for value in values if value is not None]
    none = "?" if len(given) < len(values) else ""
    kinds = {kind for value in given if (kind := _kind_of(value))}
    members = [m for value in given for m in _members(value)]
    words = f" in {{{', '.join(dict.fromkeys(members))}}}" if members else ""
    if len(kinds) != 1:
        # only empty tuples and None, or several kinds
        is_list = not kinds and given
        return f"any{'[]' if is_list else ''}{none}", ""
    return f"{kinds.pop()}{none}", words


def _kind_of(value: Any) -> str:
    """The kind of one value; empty for an empty tuple."""
    import numpy as np

    plain = {bool: "bool", int: "int", float: "double", str: "string"}
    if isinstance(value, enum.Enum):
        return f"enum<{type(value).__name__}>"
    if type(value) in plain:
        return plain[type(value)]
    if isinstance(value, np.integer):
        return "int"
    if isinstance(value, np.dtype):
        return "dtype"
    if _is_jaxpr(value):
        return "graph"
    if type(value) in (tuple, list):
        return _list_kind(value)
    return f"any<{type(value).__name__}>"


def _list_kind(value: Any) -> str:
    kinds = {_kind_of(item) for item in value if item is not None} - {""}
    none = "?" if None in value else ""
    if not value:
        return ""
    if len(kinds) != 1:
        return f"any{none}[]"
    return f"{kinds.pop()}{none}[]"


def _members(value: Any) -> list[str]:
    if isinstance(value, tuple | list) and value:
        return _members(value[0])
    return list(type(value).__members__) if isinstance(value, enum.Enum) else []


JAX = PrimitivesExtractor()
