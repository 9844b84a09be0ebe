"""The nodes of exported programs, from ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import Attr, CallLayout, cast_value
from amanda.errors import FormatError
from amanda.graph import CORE, Graph, Op, OutputPort
from amanda.types import DType
from amanda_torch.codes import (
    DTYPES,
    KINDS_OF_FRAMEWORK,
    LAYOUTS,
    MEMORY_FORMATS,
    code_of,
    device_fields,
    json_number,
    target_of,
)
from amanda_torch.records import NODE_RECORDS, is_number, positional_names, usual_groups
from amanda_torch.written_values import ValueTable

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["NodeWriter"]

_POSITIONAL, _KEYWORD = 1, 2
_HIGHER_ORDER: Final = "higher_order."
_EMPTY: Final = {
    "dim": "as_ints", "int": "as_ints", "double": "as_floats", "float": "as_floats",
    "bool": "as_bools", "string": "as_strings",
}  # fmt: skip


class NodeWriter:
    """Writes the ops of one graph; `write_body` writes the graphs that they hold."""

    def __init__(
        self, dictionary: Dictionary, values: ValueTable,
        write_body: Callable[[Graph], dict[str, Any]],
    ) -> None:  # fmt: skip
        self.dictionary = dictionary
        self.values = values
        self.write_body = write_body
        self._bodies: dict[str, dict[str, Any]] = {
            str(op.attrs["target"]).partition(".")[0]: {}
            for op in values.op_names if is_weight(op)
        }  # fmt: skip
        """Graphs by their names, which are attributes of a module, as weights are."""

    def node(self, op: Op) -> dict[str, Any]:
        """The node of an op."""
        if op.type is None or isinstance(op, Graph) or op.own_namespace is not None:
            raise FormatError(
                "an op that PyTorch does not have", who=op.label,
                expected=f"an op of {self.dictionary.name}",
                got=op.own_namespace or "a nested graph",
            )  # fmt: skip
        record = NODE_RECORDS.of(op)
        is_higher_order = op.type.startswith(_HIGHER_ORDER)
        layout = CallLayout(self.dictionary.get(op.type))
        arguments = layout.arguments(op)
        given = (
            self._arguments_by_position(arguments, layout, record) if is_higher_order
            else self._arguments_by_name(arguments, layout, record)
        )  # fmt: skip
        return {
            "target": target_of(op.type),
            "inputs": list(given),
            "outputs": self._outputs(op, layout, record),
            "metadata": dict(record.get("metadata", {})),
            "is_hop_single_tensor_return":
                bool(record.get("single")) if is_higher_order else None,
            "name": self.values.op_names[op],
        }  # fmt: skip

    def _outputs(
        self, op: Op, layout: CallLayout, record: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        count = len(op.outputs)
        groups = record.get("groups") or usual_groups(layout, count)
        if sum(n if n >= 0 else 1 for n in groups) != count:
            groups = usual_groups(layout, count)
        found, ports = [], list(op.outputs)
        for size in groups:
            if size < 0:
                found.append(self.values.argument(ports.pop(0)))
                continue
            names = [{"name": self.values.name(port)} for port in ports[:size]]
            found.append({"as_tensors": names})
            del ports[:size]
        return found

    # -- arguments ------------------------------------------------------------------

    def _arguments_by_name(
        self, arguments: dict[str, Any], layout: CallLayout, record: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """The arguments of an operator: those that it has, under their names.

        After a positional one that is omitted, others are passed by name.
        """
        arguments |= dict.fromkeys(record.get("nulls", ()))
        kinds = record.get("kinds", {})
        by_name = set(record.get("keywords", ()))
        positional = positional_names(layout, arguments)
        passed = [n for n in positional if n in arguments and n not in by_name]
        last = positional.index(passed[-1]) if passed else -1
        for i, name in enumerate(positional):
            if name in arguments:
                kind = _KEYWORD if name in by_name else _POSITIONAL
                value = self._argument(name, arguments[name], layout, kinds)
                label = "" if layout.op_def is None and is_number(name) else name
                yield {"name": label, "arg": value, "kind": kind}
            elif name not in layout.optional or (i < last and _is_null(layout, name)):
                yield {"name": name, "arg": {"as_none": True}, "kind": _POSITIONAL}
            elif i < last:
                by_name |= set(positional[i:])
        for name, value in arguments.items():
            if name not in positional:
                given = self._argument(name, value, layout, kinds)
                yield {"name": name, "arg": given, "kind": _KEYWORD}

    def _arguments_by_position(
        self, arguments: dict[str, Any], layout: CallLayout, record: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """The arguments of a higher-order op, which have no names."""
        kinds = record.get("kinds", {})
        by_name = set(record.get("keywords", ()))
        names = [n for n in positional_names(layout, arguments) if n not in by_name]
        for name in names:
            if name not in arguments and name not in layout.variadic:
                continue
            value = arguments.get(name, [])
            spread = record.get("spread") and name in layout.variadic
            for item in value if spread else [value]:
                given = self._argument(name, item, layout, kinds)
                yield {"name": "", "arg": given, "kind": _POSITIONAL}
        for name, value in arguments.items():
            if name not in names:
                given = self._argument(name, value, layout, kinds)
                yield {"name": name, "arg": given, "kind": _KEYWORD}

    def _argument(
        self, name: str, value: Any, layout: CallLayout, kinds: Mapping[str, str]
    ) -> dict[str, Any]:
        attr = layout.attrs.get(name)
        kind = kinds.get(name) or _framework_kind(attr)
        if kind is not None and value is not None and not isinstance(value, OutputPort):
            return {kind: _framework_value(kind, value)}
        if attr is not None and isinstance(value, str | list):
            value = value if _has_values(value) else cast_value(attr, value)
        return self._value(value, attr)

    def _value(self, value: Any, attr: Attr | None = None) -> dict[str, Any]:
        """An argument in the kind that its value has."""
        if value is None:
            return {"as_none": True}
        if isinstance(value, OutputPort):
            return self.values.argument(value)
        if isinstance(value, Graph):
            return {"as_graph": self._body(value)}
        if isinstance(value, list | tuple):
            return self._list(list(value), attr)
        if isinstance(value, dict):
            items = {key: self._value(item) for key, item in value.items()}
            return {"as_string_to_argument": items}
        if isinstance(value, DType):
            return {"as_scalar_type": DTYPES.code(value)}
        if isinstance(value, complex):
            parts = {"real": json_number(value.real), "imag": json_number(value.imag)}
            return {"as_complex": parts}
        kind = _SCALARS.get(type(value))
        if kind is None:
            raise FormatError(
                "an argument that files cannot have", got=f"{value!r:.60}"
            )
        return {kind: json_number(value)}

    def _body(self, body: Graph) -> dict[str, Any]:
        """A graph with a name of its own: of those with one name PyTorch keeps one."""
        written = self.write_body(body)
        stem = body.name or body.body_name or "graph"
        names = itertools.chain([stem], (f"{stem}_{i}" for i in itertools.count(1)))
        name = next(n for n in names if self._bodies.get(n, written) == written)
        self._bodies[name] = written
        return {"name": name, "graph": written}

    def _list(self, items: list[Any], attr: Attr | None) -> dict[str, Any]:
        if not items:
            return {_EMPTY.get(attr.base if attr else "", "as_tensors"): []}
        if any(isinstance(item, OutputPort) for item in items):
            return self._list_of_values(items)
        if all(isinstance(item, list | tuple) for item in items):
            return self._lists(items)
        if all(item is None for item in items):
            return {"as_optional_tensors": [{"as_none": True} for _ in items]}
        found = {type(item) for item in items}
        if found == {int, float}:
            items, found = [float(item) for item in items], {float}
        kind = _SCALARS.get(found.pop()) if len(found) == 1 else None
        if kind is None:
            raise FormatError("a list that files cannot have", got=f"{items!r:.60}")
        return {f"{kind}s": [json_number(item) for item in items]}

    def _lists(self, items: list[Any]) -> dict[str, Any]:
        flat = [one for item in items for one in item]
        if any(isinstance(one, OutputPort) for one in flat) or not flat:
            names = [
                [{"name": self.values.name(one)} for one in item] for item in items
            ]
            return {"as_nested_tensors": names}
        if all(type(one) is int for one in flat):
            return {"as_int_lists": [list(item) for item in items]}
        rows = [[json_number(float(each)) for each in item] for item in items]
        return {"as_float_lists": rows}

    def _list_of_values(self, items: list[Any]) -> dict[str, Any]:
        """A list with values: of tensors, or of symbolic numbers among numbers."""
        values = [item for item in items if isinstance(item, OutputPort)]
        kinds = {self.values.kinds.get(value, "") for value in values}
        if len(kinds) == 1 and (kind := kinds.pop()).startswith("as_sym"):
            constant = kind.replace("sym_", "")
            return {f"{kind}s": [
                {"as_name": self.values.name(item)} if isinstance(item, OutputPort)
                else {constant: json_number(item)} for item in items
            ]}  # fmt: skip
        if len(values) < len(items):
            return {"as_optional_tensors": [
                {"as_none": True} if item is None
                else {"as_tensor": {"name": self.values.name(item)}} for item in items
            ]}  # fmt: skip
        return {"as_tensors": [{"name": self.values.name(item)} for item in items]}


_SCALARS: Final[Mapping[type, str]] = {
    bool: "as_bool", int: "as_int", float: "as_float", str: "as_string",
}  # fmt: skip


def _has_values(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_values, value))
    return isinstance(value, OutputPort)


def _is_null(layout: CallLayout, name: str) -> bool:
    """Whether an argument is null where it is omitted."""
    attr = layout.attrs.get(name)
    return attr is None or attr.default is None


def _framework_kind(attr: Attr | None) -> str | None:
    kind = "" if attr is None else attr.kind.rstrip("?")
    return next((k for k, v in KINDS_OF_FRAMEWORK.items() if v == kind), None)


def _framework_value(kind: str, value: Any) -> Any:
    if kind == "as_device":
        return device_fields(str(value))
    if kind == "as_layout":
        return code_of(LAYOUTS, value, "layout")
    if kind == "as_memory_format":
        return code_of(MEMORY_FORMATS, value, "memory format")
    return value


def is_weight(op: Op) -> bool:
    """Whether an op is a parameter, a buffer or a constant of the program."""
    return op.type == "get_attr" and op.own_namespace in (None, CORE)
