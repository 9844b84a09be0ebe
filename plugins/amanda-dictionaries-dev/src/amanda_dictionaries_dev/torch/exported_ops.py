"""Ops of exported programs that are no operators: functions of Python on symbolic
numbers, and the op for parameters, buffers and constants.
"""

from __future__ import annotations

from amanda.dictionary import OpDef, parse_signature, version_key

_SINCE = "2.1.0"  # torch.export
_COMPARISONS = ("eq", "ne", "le", "ge", "lt", "gt")
_ARITHMETIC = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "and_", "or_", "lshift",
    "rshift",
)  # fmt: skip
_TEXTS = (
    "get_attr(*, target: string, kind: string "
    'in {"parameter", "buffer", "non_persistent_buffer", "constant", "custom_obj"})'
    " -> (any)",
    *(f"_operator.{name}(a: any, b: any) -> (any<SymBool>)" for name in _COMPARISONS),
    *(f"_operator.{name}(a: any, b: any) -> (any<Scalar>)" for name in _ARITHMETIC),
    "_operator.neg(a: any) -> (any<Scalar>)",
    "_operator.pos(a: any) -> (any<Scalar>)",
    "math.trunc(x: any) -> (any<SymInt>)",
    "torch.sym_not(a: any) -> (any<SymBool>)",
    "torch.sym_int(a: any) -> (any<SymInt>)",
    "torch.sym_float(a: any) -> (any<SymFloat>)",
    "torch.sym_ite(b: any, t: any, f: any) -> (any<Scalar>)",
    "torch.sym_max(a: any, b: any) -> (any<Scalar>)",
    "torch.sym_min(a: any, b: any) -> (any<Scalar>)",
    "torch._sym_sqrt(a: any) -> (any<SymFloat>)",
)


def op_defs_of_exports(version: str) -> list[OpDef]:
    """The definitions that a release has.

    >>> print(op_defs_of_exports("2.13.0")[0].name, len(op_defs_of_exports("2.0.0")))
    get_attr 0
    """
    if version_key(version) < version_key(_SINCE):
        return []
    return [parse_signature(text) for text in _TEXTS]
