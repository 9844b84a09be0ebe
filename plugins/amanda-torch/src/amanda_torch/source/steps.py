"""Ops as steps; those with bodies of their own as calls of nested functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_torch.records import (
    INPUT_RECORDS,
    NODE_RECORDS,
    PROGRAM_RECORDS,
    positional_names,
    usual_groups,
)
from amanda_torch.source.forward import Body, Step, free_name, write_body
from amanda_torch.source.program import Program
from amanda_torch.source.python_text import (
    Code,
    Expression,
    constant_text,
    expression,
    format_statement,
    join,
    literal,
)
from amanda_torch.source.spelling import spell

__all__ = ["op_step", "result_items"]

_NAMES: Final = {
    "scaled_dot_product_attention": "attention", "softmax": "weights",
    "_softmax": "weights", "arange": "positions", "sym_size": "size", "topk": "top",
    "max": "maximum", "min": "minimum", "nonzero": "index", "argmax": "index",
}  # fmt: skip
_KEEPING: Final = frozenset(
    ["view", "reshape", "transpose", "permute", "contiguous", "to", "_to_copy", "clone",
     "slice", "select", "squeeze", "unsqueeze", "expand", "dropout", "flatten", "t",
     "unflatten", "chunk", "split", "split_with_sizes", "unbind", "detach", "movedim",
     "repeat", "_unsafe_view", "unsafe_split", "flip"]
)  # fmt: skip
"""Ops whose results are what their operands are, in another form."""

_COND: Final = "higher_order.cond"


def op_step(op: Op, program: Program) -> Step:
    """The step of an op."""
    parts = (op.type or "op").split(".")
    base = parts[1] if len(parts) > 1 else parts[0]
    name = _NAMES.get(base) or _general_name(op)
    keeps = base in _KEEPING
    bodies = {k: v for k, v in program.arguments[op].items() if isinstance(v, Graph)}
    groups = usual_groups(program.layout(op), len(op.outputs))
    is_list = len(op.outputs) > 1 or groups != [-1] * len(op.outputs)
    if not bodies:
        effect = program.has_effect(op)
        return Step(
            spell(op, program), op.outputs, name, is_list, effect, keeps, base in _NAMES
        )
    names = {key: "compute" if op.type in _REGIONS else key for key in bodies}
    text = _body_call(op, program, names)
    single = bool(NODE_RECORDS.of(op).get("single"))
    before = partial(_functions, bodies, names, program, _region(op, program))
    return Step(text, op.outputs, name, not single, True, before=before)


def _general_name(op: Op) -> str:
    """A name by the type of the result."""
    type = op.outputs[0].type if op.outputs else None
    kind = type.dtype.kind if isinstance(type, TensorType) else "float"
    if (op.type or "").startswith(("_operator.", "torch.sym_", "math.")):
        return "size"
    return {"bool": "mask", "int": "index", "uint": "index"}.get(kind, "x")


def _body_call(op: Op, program: Program, names: dict[str, str]) -> Expression:
    """The call of a higher-order op, with functions for its bodies."""
    record = NODE_RECORDS.of(op)
    layout = program.layout(op)
    given = program.arguments[op]
    items: list[Expression] = []
    positional = positional_names(layout, given)
    rest = [key for key in given if key not in positional]
    for key in [*positional, *rest]:
        if key not in given and key not in layout.variadic:
            continue
        value = given.get(key, [])
        spread = record.get("spread") and key in layout.variadic
        if isinstance(value, Graph):
            items.append(literal(Code(names[key])))
        elif isinstance(value, list) and spread:
            items += map(literal, value)
        elif isinstance(value, list):
            items.append(_tuple(value))
        else:
            items.append(literal(value))
    if op.type in _REGIONS:
        place = next(i for i, e in enumerate(items) if e.parts[0] in names.values())
        return expression(*items[place].parts, "(", join(items[place + 1 :]), ")")
    head = "torch.cond" if op.type == _COND else f"torch.ops.{op.type}"
    return expression(head, "(", join(items), ")")


def _region(op: Op, program: Program) -> list[str]:
    """The decorator of a function that is computed in a mode."""
    if op.type not in _REGIONS:
        return []
    given = list(program.arguments[op].values())
    values = [v for v in given if not isinstance(v, list | OutputPort | Graph)]
    if op.type == _GRAD:
        return [f"@torch.{'enable' if values[0] else 'no'}_grad()"]
    device, dtype, enabled, cached = map(constant_text, values)
    return [
        f"@torch.autocast({device}, {dtype}, enabled={enabled}, cache_enabled={cached})"
    ]


_GRAD: Final = "higher_order.wrap_with_set_grad_enabled"
_REGIONS: Final = (_GRAD, "higher_order.wrap_with_autocast")


def _tuple(values: list[Any]) -> Expression:
    end = ",)" if len(values) == 1 else ")"
    return expression("(", join(map(literal, values)), end)


def _functions(
    bodies: dict[str, Graph], names: dict[str, str], program: Program,
    decorators: list[str], indent: int,
) -> list[str]:  # fmt: skip
    """The nested functions of bodies."""
    lines: list[str] = []
    for key, body in bodies.items():
        inner = Program(body, program.dictionary, program.is_training)
        used: list[str] = []
        texts: dict[OutputPort, str] = {}
        for port in body.parameters:
            texts[port] = free_name(_short_name(port.name or "x"), used)
            used.append(texts[port])
        given = ", ".join(f"{name}: Tensor" for name in used)
        single = PROGRAM_RECORDS.of(body).get("single")
        items = list(result_items(inner))
        returned = items[0] if single else expression(
            "(", join(items), ",)" if len(items) == 1 else ")"
        )  # fmt: skip
        result = "Tensor" if single else "tuple[Tensor, ...]"
        steps = [op_step(op, inner) for op in inner.ops]
        lines += ["", *(" " * indent + each for each in decorators)]
        lines += format_statement(f"def {names[key]}({given}) -> {result}:", indent)
        lines += write_body(Body(steps, returned, texts), indent + 4)
    return [*lines, ""]


def _short_name(name: str) -> str:
    """
    >>> _short_name("arg0_1"), _short_name("b_rotary_inv_freq")
    ('x', 'rotary_inv_freq')
    """
    return "x" if re.fullmatch(r"arg\d.*", name) else re.sub("^[pbc]_", "", name)


def result_items(program: Program) -> Iterator[Expression]:
    """The results of a program, also those that are numbers."""
    for port, value in zip(program.graph.outputs, program.results, strict=True):
        if value is not None:
            yield literal(value)
            continue
        recorded = INPUT_RECORDS.of(port).get("value") or {}
        yield literal(next((v for k, v in recorded.items() if k != "as_none"), None))
