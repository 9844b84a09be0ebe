"""The table of all ops in the documentation, derived from their definitions.

Also what their definitions lack: `amanda ops std --missing`."""

from __future__ import annotations

from collections.abc import Iterable

from amanda_std.engine.annotations import REQUIRED
from amanda_std.engine.operation import Operation
from amanda_std.ops import OPS, THEMES


def render_op_table() -> str:
    """Every op, theme by theme: how it is called and what it does.

    `*` marks primitives; the others are composites."""
    parts = []
    for theme in THEMES:
        rows = [op for op in vars(theme).values() if isinstance(op, Operation)]
        own = [op for op in rows if op.function.__module__ == theme.__name__]
        title = (theme.__doc__ or "").partition(":")[0].partition(".")[0].strip()
        lines = [f"### {title}", "", "| op | what it is | gradient |", "|---|---|---|"]
        lines += [_row(op) for op in dict.fromkeys(own)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + f"\n\n{len(OPS)} ops.\n"


def missing_declarations(
    ops: Iterable[Operation] = tuple(OPS.values()),
) -> dict[str, list[str]]:
    """What the definition of each op lacks; empty if complete.

    A composite has inference and a gradient through its definition."""
    lacking = {op.name: list(_lacks(op)) for op in ops}
    return {name: parts for name, parts in lacking.items() if parts}


def _lacks(op: Operation) -> Iterable[str]:
    if not op.doc:
        yield "a doc line"
    if op.samples_rule is None or not any(True for _ in op.samples_rule()):
        yield "samples"
    if not (op.is_composite or op.shape_rule or op.type_rule):
        yield "inference"
    if not (op.is_composite or op.gradient_rule or op.no_gradient):
        yield "a gradient, or the reason why there is none"


def _row(op: Operation) -> str:
    star = "" if op.is_composite else "\\*"
    return f"| `{render_call(op)}`{star} | {_cell(op.doc)} | {_gradient(op)} |"


def render_call(op: Operation) -> str:
    """How an op is called, without the defaults of its attributes."""
    words = [
        f"*{p.name}" if p.variadic else f"{p.name}?" if p.optional else p.name
        for p in op.form.params
    ]
    named = [
        f"{name}=" if default is REQUIRED else name
        for name, default in op.form.attributes.items()
    ]
    return f"{op.name}({', '.join([*words, *(['*', *named] if named else [])])})"


def _gradient(op: Operation) -> str:
    if op.no_gradient:
        answer = "no" if op.differentiable_if is None else "not always"
        return f"{answer}: {op.no_gradient}"
    return "yes"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
