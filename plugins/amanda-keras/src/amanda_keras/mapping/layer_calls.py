"""Mapping functions with the arguments of a layer, of its call, and its variables.

A function of a layer gets the arguments of the call by position, `weights`, the
variables by name, and what it names of the layer's config and of the call's keywords:

    def read_dense(inputs, *, weights, activation=None):
        return apply_activation(ops.matmul(inputs, weights["kernel"]), activation)

    READ = layers({"Dense": read_dense})
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, parse_element
from amanda_keras.records import CALL, INPUT, VARIABLES
from amanda_std import ops

__all__ = [
    "Weights",
    "as_axes",
    "cast_to",
    "expect",
    "expect_arguments",
    "kind_of",
    "layers",
    "operations",
    "rank_of",
]

_IGNORED: Final = ("training",)
_IMPLICIT: Final = ("weights", "outputs", "dtype")
_CALL_NAMES: Final = frozenset([
    "mask", "query", "value", "key", "query_mask", "value_mask", "key_mask",
    "attention_mask", "use_causal_mask", "return_attention_scores", "initial_state",
    "reverse",
])  # fmt: skip
"""Keywords of calls, which are no arguments of layers."""


class Weights(dict[str, Any]):
    """The variables of a layer by name; a missing one is a reason to decline."""

    def __missing__(self, name: str) -> Any:
        raise Decline(f"the variable {name} is missing")

    def below(self, path: str) -> Weights:
        """The variables of a layer in this one."""
        start = f"{path}/"
        return Weights(
            {k.removeprefix(start): v for k, v in self.items() if k.startswith(start)}
        )


def expect(condition: object, why: str) -> None:
    """Raise Decline unless a condition holds."""
    if not condition:
        raise Decline(why)


def rank_of(value: Any) -> int:
    """The rank of a value or an array; Undecided where it is not known."""
    return value.ndim if isinstance(value, np.ndarray) else int(value.type.shape.rank)


def kind_of(value: Any) -> str:
    """The kind of the elements of a value or an array: "bool", "int", "float"."""
    return str(DType(str(value.dtype)).kind)


def cast_to(value: Any, dtype: Any) -> Any:
    """A value of a dtype, cast only where it has another."""
    if str(value.dtype) == str(dtype):
        return value
    return ops.astype(value, dtype=str(dtype))


def layers(table: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Mapping functions of layers, by op type.

    Floating-point inputs and variables are cast to the dtype of the layer's policy.
    """
    return {type: _adapt(function, True) for type, function in table.items()}


def operations(table: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Mapping functions of operations, by the names of their classes."""
    return {f"ops.{name}": _adapt(each, False) for name, each in table.items()}


def _adapt(function: Callable[..., Any], is_layer: bool) -> Callable[..., Any]:
    signature = inspect.signature(function)
    parameters = signature.parameters
    named = {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    positional = [
        p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    config = named - {*_IMPLICIT} - (_CALL_NAMES if is_layer else set())
    if not is_layer:
        config |= set(positional)

    def read(*inputs: Any, **given: Any) -> Any:
        call, variables = given.pop(CALL, {}), given.pop(VARIABLES, {})
        dtype, outputs = given.pop("dtype", None), given.pop("outputs", 1)
        if is_layer:
            inputs = tuple(_cast_inputs(inputs, _compute_dtype(dtype)))
        arguments = _Arguments(inputs)
        args = [arguments.resolve(value) for value in call.get("args", [])]
        for name, value in call.get("kwargs", {}).items():
            if name in named or name in positional:
                given[name] = arguments.resolve(value)
            elif name not in _IGNORED and value is not None and value is not False:
                raise Decline(f"the argument {name} of the call is not supported")
        for name in set(positional[: len(args)]) & given.keys():
            if given.pop(name) is not None and not is_layer:
                raise Decline(f"the argument {name} is given twice")
        if "weights" in named:
            pairs = ((name, inputs[i]) for name, i in variables.items())
            given["weights"] = Weights(pairs)
        if "outputs" in named:
            given["outputs"] = outputs
        if "dtype" in named or ("dtype" in positional and dtype is not None):
            given["dtype"] = dtype
        expect_arguments(signature, args, given, is_layer)
        return function(*args, **given)

    kinds = inspect.Parameter
    names = sorted(config | {CALL, VARIABLES, "dtype", "outputs"})
    read.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            kinds("inputs", kinds.VAR_POSITIONAL),
            *(kinds(name, kinds.KEYWORD_ONLY, default=None) for name in names),
        ]
    )
    read.__name__ = function.__name__
    read.__wrapped__ = function  # type: ignore[attr-defined]
    return read


def expect_arguments(
    signature: inspect.Signature, args: list[Any], given: dict[str, Any], is_layer: bool
) -> None:
    """Decline arguments of other kinds than a function declares."""
    try:
        found = signature.bind(*args, **given).arguments
    except TypeError as error:
        raise Decline(f"the arguments do not fit: {error}") from error
    for name, value in found.items():
        parameter = signature.parameters[name]
        kinds = _KINDS.get(str(parameter.annotation))
        if kinds is not None and type(value) not in kinds:
            text = f"{parameter.annotation} is expected"
            raise Decline(f"{name}={value!r:.60}: {text}")
        is_needed = parameter.default is parameter.empty
        is_tensor = is_layer or name in ("x", "xs")
        if (
            is_tensor
            and is_needed
            and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ):
            listed = value if isinstance(value, list | tuple) else [value]
            expect(listed and all(hasattr(v, "port") for v in listed),
                   f"the argument {name} of the call is no tensor")  # fmt: skip


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,),
}  # fmt: skip


def as_axes(axis: Any, x: Any) -> list[int]:
    """Axes of a value, counted from the first, in the order given."""
    listed = list(axis) if isinstance(axis, list | tuple) else [axis]
    rank = rank_of(x)
    for each in listed:
        expect(type(each) is int and -rank <= each < rank, f"axis={axis!r:.60}")
    return [each % rank for each in listed]


def _compute_dtype(policy: Any) -> str | None:
    """The dtype in which a layer of a policy computes."""
    if isinstance(policy, dict):
        config = policy.get("config")
        policy = config.get("name") if isinstance(config, dict) else None
    if not isinstance(policy, str):
        return None
    expect("_from_" not in policy, f"layers of dtype {policy} are not supported")
    return policy.removeprefix("mixed_")


def _cast_inputs(inputs: tuple[Any, ...], dtype: str | None) -> Iterator[Any]:
    is_floating = dtype is not None and parse_element(dtype).kind == "float"
    for value in inputs:
        own = getattr(value, "dtype", None)
        if is_floating and own is not None and own.kind == "float":
            yield cast_to(value, dtype)
        else:
            yield value


class _Arguments:
    """The arguments of a call, with values in their places."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        self.inputs = inputs

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if INPUT in value:
            index = value[INPUT]
            known = type(index) is int and 0 <= index < len(self.inputs)
            expect(known, f"the call has no input {index}")
            return self.inputs[index]
        config = value.get("config")
        config = config if isinstance(config, dict) else {}
        match value.get("class_name"):
            case "__slice__":
                return slice(*(self.resolve(config.get(k)) for k in
                               ("start", "stop", "step")))  # fmt: skip
            case "__tuple__":
                return tuple(self.resolve(item) for item in config.get("items", []))
            case "__ellipsis__":
                return Ellipsis
            case "__tensor__" | "__numpy__":
                dtype = config.get("dtype") or "float32"
                array = np.asarray(config.get("value"))
                return Tensor.of(array.astype(dtype)).numpy()
            case None:
                return {k: self.resolve(v) for k, v in value.items()}
        raise Decline(f"an argument of class {value['class_name']} is not supported")
