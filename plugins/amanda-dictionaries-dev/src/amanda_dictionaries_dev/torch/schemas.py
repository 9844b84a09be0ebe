"""Op definitions of PyTorch operators, from their schemas.

A schema is a row, as in raw data:

    {"args": [{"name": "self", "type": "Tensor", "alias": "a!"},
              {"name": "dim", "type": "int", "default": 0, "kw": true}],
     "returns": [{"type": "Tensor"}], "tags": ["core"]}

Tensors are ports, as are values that only flow through a graph (`t[]`, `Dict(str, t)`);
other arguments are attributes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from amanda.dictionary import OpDef, format_literal, parse_signature
from amanda.types import DType

SEEDED = "nondeterministic_seeded"

_KINDS = {
    "int": "int",
    "SymInt": "dim",
    "float": "double",
    "bool": "bool",
    "str": "string",
    "Scalar": "number",
    "ScalarType": "dtype",
    "DeviceIndex": "int",  # as in the registry
    "Device": "any<Device>",
    "Dimname": "any<Dimname>",
    "DimnameList": "any<Dimname>[]",
    "Generator": "any<Generator>",
    "Layout": "any<Layout>",
    "MemoryFormat": "any<MemoryFormat>",
    "QScheme": "any<QScheme>",
    "Storage": "any<Storage>",
    "Stream": "any<Stream>",
    "SymBool": "any<SymBool>",
}
_PARTS = re.compile(r"(\w+)((?:\[\d*\]|\?)*)")
# PyTorch's numbers of element types; schemas use a few in defaults.
_SCALAR_TYPES = {4: "int64", 6: "float32", "float": "float32"}
_FLOWS = re.compile(  # types of TorchScript
    r"(?:t|t1|t2|tVal|Any|Future|RRef|AnyClassType|(?:Dict|Tuple)?\([\w\s,?\[\]]+\))"
    r"(?: ?\[\]|\?)*"
)


def is_schema(row: Mapping[str, Any]) -> bool:
    """True if every part has a name and a type of schemas.

    Error messages and Python code among the strings of a library may look like schemas.
    """
    arguments, results = row.get("args", ()), row.get("returns", ())
    if not all(re.fullmatch(r"[A-Za-z_]\w*", arg.get("name", "")) for arg in arguments):
        return False
    if any(arg.get("default") == [] and "[" not in arg["type"] for arg in arguments):
        return False  # a format string: "timeout={}"
    return all(_is_type(part.get("type", "")) for part in (*arguments, *results))


def _is_type(text: str) -> bool:
    parts = _PARTS.fullmatch(text)
    known = parts is not None and (parts[1] == "Tensor" or parts[1] in _KINDS)
    return known or _FLOWS.fullmatch(text) is not None


def op_def_of_row(name: str, row: Mapping[str, Any], *, seeded: bool = False) -> OpDef:
    """Convert a schema to an op definition; `seeded` if it draws random numbers.

    >>> args = [{"name": "self", "type": "Tensor"},
    ...         {"name": "dim", "type": "int[1]?"},
    ...         {"name": "keepdim", "type": "bool", "default": False, "kw": True}]
    >>> row = {"args": args, "returns": [{"type": "Tensor"}]}
    >>> print(op_def_of_row("aten.any.dims", row))
    aten.any.dims(self: tensor, attr dim: int[1]?, *, keepdim: bool = false) -> (tensor)
    """
    arguments: Sequence[Mapping[str, Any]] = row.get("args", ())
    positional = [_argument(arg) for arg in arguments if not arg.get("kw")]
    keywords = [_argument(arg, keyword=True) for arg in arguments if arg.get("kw")]
    inputs = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    outputs = ", ".join(map(_result, row.get("returns", ())))
    text = f"{name}({inputs}) -> ({outputs})"
    draws = any(arg.get("type", "").startswith("Generator") for arg in arguments)
    if seeded or draws:
        text += "  [nondeterministic]"
    if tags := row.get("tags"):
        text += "  " + " ".join(f"#{tag}" for tag in sorted(tags))
    return parse_signature(text)


def _argument(arg: Mapping[str, Any], *, keyword: bool = False) -> str:
    if arg.get("varargs"):
        return "*args: any >= 0"
    attr = _attr(arg)
    if attr is not None:
        return attr if keyword else f"attr {attr}"
    port = _port(arg)
    return f"port {port}" if keyword else port


def _attr(arg: Mapping[str, Any]) -> str | None:
    """The argument as an attribute, unless it is a port."""
    parts = _PARTS.fullmatch(arg["type"])
    if parts is None or parts[1] not in _KINDS or "alias" in arg:
        return None
    kind = _KINDS[parts[1]] + parts[2]
    if "default" not in arg:
        return f"{arg['name']}: {kind}"
    if arg["default"] is None:
        return f"{arg['name']}?: {kind.removesuffix('?')}"
    value = _default(parts[1], arg["default"])
    return f"{arg['name']}: {kind} = {format_literal(kind, value)}"


def _default(base: str, value: Any) -> Any:
    if isinstance(value, dict):  # a symbol
        value = value["sym"]
    return DType(_SCALAR_TYPES[value]) if base == "ScalarType" else value


def _port(arg: Mapping[str, Any]) -> str:
    kind = arg["type"]
    name = arg["name"]
    if not kind.startswith("Tensor"):
        return f"{name}: any<{kind}>{_alias(arg)}"
    if "[" in kind:
        return f"*{name}: {_tensors(kind)}{_alias(arg)} >= 0"
    if "default" in arg:  # always None
        return f"{name}?: tensor{_alias(arg)}"
    return f"{name}: {_tensors(kind)}{_alias(arg)}"


def _result(result: Mapping[str, Any]) -> str:
    name = f"{result['name']}: " if result.get("name") else ""
    kind = result["type"]
    if not kind.startswith("Tensor"):
        return f"{name}any<{kind}>{_alias(result)}"
    if "[" in kind:
        return f"*{name}{_tensors(kind)}{_alias(result)} >= 0"
    return f"{name}{_tensors(kind)}{_alias(result)}"


def _tensors(kind: str) -> str:
    return "tensor?" if kind.startswith("Tensor?") else "tensor"


def _alias(part: Mapping[str, Any]) -> str:
    return f"({part['alias']})" if part.get("alias") else ""


def op_family(name: str) -> str:
    """The common name of an op's overloads and its in-place form.

    >>> op_family("aten::add_.Tensor"), op_family("aten::__and__.Scalar")
    ('aten::add', 'aten::__and__')
    """
    base = name.partition(".")[0]
    return base if base.endswith("__") else base.removesuffix("_")


def seeded_families(rows: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The families with an op that is tagged as drawing random numbers."""
    return {
        op_family(name) for name, row in rows.items() if SEEDED in row.get("tags", ())
    }


def overload_name(name: str, number: int = 1) -> str:
    """The name of an overload in exported programs.

    >>> overload_name("aten::add.Tensor"), overload_name("aten::relu", 2)
    ('aten.add.Tensor', 'aten.relu.default_2')
    """
    space, _, rest = name.partition("::")
    if "." in rest:
        return f"{space}.{rest}"
    return f"{space}.{rest}.default" + ("" if number == 1 else f"_{number}")


def number_overloads(
    rows: Mapping[str, Mapping[str, Any]],
) -> dict[str, Mapping[str, Any]]:
    """Rows by overload name, of a version without overload names; they are numbered.

    The rows come from the strings of a library. Duplicates without defaults, and
    strings that are not schemas, are dropped.
    """
    seen: dict[str, set[tuple[Any, ...]]] = {}
    for name, row in rows.items():
        if "overloads" not in row and is_schema(row):
            seen.setdefault(name.partition(".")[0], set()).add(_shape(row))
    found: dict[str, Mapping[str, Any]] = {}
    for name, row in rows.items():
        if not re.fullmatch(r"aten::\w+(?:\.\w+)?", name):
            continue
        if "overloads" not in row:
            if is_schema(row):
                found[overload_name(name)] = row
            continue
        rest = _most_detailed(row["overloads"], seen.get(name, ()))
        found |= {overload_name(name, i): each for i, each in enumerate(rest, 1)}
    return found


def _most_detailed(
    rows: Sequence[Mapping[str, Any]], seen: Collection[tuple[Any, ...]]
) -> list[Mapping[str, Any]]:
    """Of rows with the same arguments, the one with the most detail."""
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in filter(is_schema, rows):
        key = _shape(row)
        if key in seen:
            continue
        if key not in best or _detail(row) > _detail(best[key]):
            best[key] = row
    return list(best.values())


def _shape(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Names and types of the arguments, without list sizes."""
    sizes = re.compile(r"\[\d+\]")
    return tuple((a["name"], sizes.sub("[]", a["type"])) for a in row.get("args", ()))


def _detail(row: Mapping[str, Any]) -> tuple[int, int, int]:
    arguments = row.get("args", ())
    defaults = sum("default" in arg for arg in arguments)
    sizes = sum(bool(re.search(r"\[\d", arg["type"])) for arg in arguments)
    return defaults, sum(bool(arg.get("kw")) for arg in arguments), sizes
