"""Read schemas and docs from the operator registry of the installed PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Tags that the registry adds to the declared ones.
_ADDED = {"generated", "inplace", "out", "pt2_compliant_tag"}
_ALIAS = re.compile(r"\(([a-z](?:\|[a-z])*!?(?: -> [^)]*)?|\*!?)\)")


def read_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of all callable operators of aten, by name, `aten::add.Tensor`."""
    import torch

    schemas = {
        s.name + (f".{s.overload_name}" if s.overload_name else ""): s
        for s in torch._C._jit_get_all_schemas()
    }
    names = torch._C._dispatch_get_all_op_names()
    return {n: _row(schemas[n]) for n in sorted(names) if n.startswith("aten::")}


def _row(schema: Any) -> dict[str, Any]:
    import torch

    inside, _, after = _split_schema(str(schema))
    parts = list(_split_arguments(inside))
    texts = [text for text in parts if text not in ("*", "...")]
    args = [
        _argument(text, arg) for text, arg in zip(texts, schema.arguments, strict=True)
    ]
    if "..." in parts:
        args.append({"varargs": True})
    after = after.strip().removeprefix("->").strip()
    is_many = after.startswith("(")
    results = list(_split_arguments(after[1:-1])) if is_many else [after]
    row: dict[str, Any] = {
        "args": args,
        "returns": [
            _parse_type(text, ret.name)
            for text, ret in zip(results, schema.returns, strict=True)
        ],
    }
    _, _, found = torch._C._get_operation_overload(schema.name, schema.overload_name)
    tags = {tag.name for tag in found}
    if "generated" not in tags:  # else they are those of its source operator
        row["tags"] = sorted(tags - _ADDED)
    return row


def _argument(text: str, arg: Any) -> dict[str, Any]:
    """The type is that of the schema text, which has list sizes such as int[2]."""
    row = _parse_type(text.partition("=")[0], arg.name)
    if arg.kwarg_only:
        row["kw"] = True
    if arg.has_default_value():
        row["default"] = arg.default_value
    return row


def _parse_type(text: str, name: str) -> dict[str, Any]:
    text = text.strip()
    row: dict[str, Any] = {"name": name} if name else {}
    text = text.removesuffix(f" {name}") if name else text
    if alias := _ALIAS.search(text):
        row["alias"] = alias[1]
        text = _ALIAS.sub("", text)
    row["type"] = text.strip()
    return row


def _split_schema(text: str) -> tuple[str, str, str]:
    """The arguments of a schema, an empty string, and the rest."""
    depth = 0
    start = text.index("(")
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at], "", text[at + 1 :]
    raise ValueError(f"not a schema: {text}")


def _split_arguments(text: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotes."""
    depth, part, quote = 0, "", ""
    for sign in text:
        if quote:
            quote = "" if sign == quote and not _is_escaped(part) else quote
        elif sign in "\"'":
            quote = sign
        depth += 0 if quote else {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and not depth and not quote:
            yield part.strip()
            part = ""
        else:
            part += sign
    if part.strip():
        yield part.strip()


def _is_escaped(before: str) -> bool:
    """True if an odd number of backslashes precedes the next character."""
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def list_higher_order_ops() -> set[str]:
    """Names of the higher-order operators; imports the modules that define them."""
    import pkgutil
    from importlib import import_module

    import torch
    import torch._higher_order_ops as package
    import torch._prims.rng_prims
    from torch._ops import _higher_order_ops

    del torch
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return set(_higher_order_ops)


def read_docs(names: set[str]) -> dict[str, str]:
    """Docstrings of the public functions with the names of these ops."""
    import torch

    homes = {
        "": (torch, torch.nn.functional, torch.Tensor),
        "fft_": (torch.fft,),
        "linalg_": (torch.linalg,),
        "special_": (torch.special,),
    }
    found = {}
    for name in sorted(names):
        for prefix, modules in homes.items():
            function = name.removeprefix(prefix)
            if name.startswith(prefix) and function and function[0] != "_":
                for module in modules:
                    text = getattr(getattr(module, function, None), "__doc__", None)
                    if text and name not in found:
                        found[name] = text
    return found
