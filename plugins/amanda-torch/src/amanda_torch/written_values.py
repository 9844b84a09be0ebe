"""Values of graphs as files have them: names, kinds, and what they say of types."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import CallLayout
from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import (
    OpaqueType,
    Sym,
    TensorType,
    TokenType,
    Type,
    VoidType,
    bool_,
    float64,
)
from amanda_torch.records import INPUT_RECORDS, NODE_RECORDS, is_trained, usual_groups
from amanda_torch.value_types import TypeReader, tensor_entry

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef

__all__ = ["ValueTable", "value_kind"]

_TABLES: Final = {
    "as_tensor": "tensor_values", "as_sym_int": "sym_int_values",
    "as_sym_float": "sym_float_values", "as_sym_bool": "sym_bool_values",
    "as_custom_obj": "custom_obj_values",
}  # fmt: skip


def value_kind(value: OutputPort, dictionary: Dictionary) -> str:
    """The kind of argument that a value is.

    Whether `int64[]` is a tensor or a symbolic number is recorded, or follows from the
    definition of its op.
    """
    type = value.type
    if isinstance(type, VoidType):
        return "as_none"
    if isinstance(type, TokenType):
        return "as_token"
    if isinstance(type, OpaqueType):
        return "as_custom_obj"
    if isinstance(value.op, Graph):
        return str(INPUT_RECORDS.of(value).get("kind") or "as_tensor")
    return _number_kind(type) if _is_number(value, dictionary) else "as_tensor"


def _is_number(value: OutputPort, dictionary: Dictionary) -> bool:
    entry = recorded_entry(value)
    if entry is not None:
        return "dtype" not in entry
    return is_number_output(dictionary.get(value.op.type), value.index)


def is_number_output(op_def: OpDef | None, index: int) -> bool:
    """Whether an output is a symbolic number, by its definition."""
    if op_def is None or not op_def.outputs:
        return False
    declared = op_def.outputs[min(index, len(op_def.outputs) - 1)].type
    return isinstance(declared, str) and declared.startswith("any<S")


def _number_kind(type: Type | None) -> str:
    dtype = type.dtype if isinstance(type, TensorType) else None
    if dtype == bool_:
        return "as_sym_bool"
    return "as_sym_float" if dtype == float64 else "as_sym_int"


def recorded_entry(value: OutputPort) -> Mapping[str, Any] | None:
    """What a file said of a value."""
    if isinstance(value.op, Graph):
        return INPUT_RECORDS.of(value).get("value")
    values = NODE_RECORDS.of(value.op).get("values", ())
    return values[value.index] if value.index < len(values) else None


def _stem(type: str) -> str:
    """The name of an op type without its overload.

    >>> _stem("aten.add.Tensor"), _stem("higher_order.cond"), _stem("get_attr")
    ('add', 'cond', 'get_attr')
    """
    parts = type.split(".")
    return parts[1] if len(parts) > 1 else type


class ValueTable:
    """The names of the values of one graph, and the tables of what they are."""

    def __init__(self, graph: Graph, dictionary: Dictionary, types: TypeReader) -> None:
        self.graph = graph
        self.dictionary = dictionary
        self.types = types
        self.names: dict[OutputPort, str] = {}
        self.op_names: dict[Op, str] = {}
        self.kinds: dict[OutputPort, str] = {}
        self.tables: dict[str, dict[str, Any]] = {t: {} for t in _TABLES.values()}
        self._used = {"output"}  # the name of the node of results
        self._name_all()

    def _name_all(self) -> None:
        """Give every value its own name, or a new one."""
        for i, parameter in enumerate(self.graph.parameters):
            self._name(parameter, parameter.name or f"arg{i}")
        for op in self.graph:
            name = self._fresh(op.name or _stem(op.type or "op"))
            self.op_names[op] = name
            is_list = len(op.outputs) > 1 or self._is_list(op)
            for port in op.outputs:
                own = port.name or (f"{name}_{port.index}" if is_list else "")
                if own:
                    self._name(port, own)
                else:
                    self.names[port] = name
                    self._describe(port)

    def _is_list(self, op: Op) -> bool:
        """Whether an op with one output returns a list of it."""
        kind = op.type or ""
        if kind.startswith("higher_order."):
            return not NODE_RECORDS.of(op).get("single")
        layout = CallLayout(self.dictionary.get(kind))
        return usual_groups(layout, 1) != [-1]

    def _fresh(self, name: str) -> str:
        stem, count = "".join(c if c.isalnum() else "_" for c in name) or "value", 0
        stem = f"{stem}_" if iskeyword(stem) else stem
        found = stem
        while found in self._used or found[0].isdigit():
            count += 1
            found = (
                f"{stem}_{count}" if not stem[0].isdigit() else f"value_{stem}_{count}"
            )
        self._used.add(found)
        if hasattr(builtins, found):
            self._used.add(f"{found}_1")  # which PyTorch makes of it in code
        return found

    def _name(self, port: OutputPort, name: str) -> None:
        self.names[port] = self._fresh(name)
        self._describe(port)

    def _describe(self, port: OutputPort) -> None:
        """Add what is known of a value to the tables; as recorded, if that fits."""
        kind = self.kinds[port] = value_kind(port, self.dictionary)
        table = _TABLES.get(kind)
        if table is None:
            return
        name, entry = self.names[port], recorded_entry(port)
        if entry is not None and self._fits(kind, port, entry):
            self.tables[table][name] = entry
        else:
            self.tables[table][name] = self._new_entry(kind, port, name)

    def _fits(self, kind: str, port: OutputPort, entry: Mapping[str, Any]) -> bool:
        tables = {_TABLES[kind]: {"value": entry}}
        found, _ = self.types.value(kind, "value", {"tensor_values": {}, **tables})
        return str(found) == str(port.type)

    def _new_entry(self, kind: str, port: OutputPort, name: str) -> dict[str, Any]:
        type = port.type
        if kind == "as_tensor":
            trained = not isinstance(port.op, Graph) and is_trained(port.op)
            return tensor_entry(type, name, self.types.hints, trained)
        if kind == "as_custom_obj":
            return {"name": name, "class_fqn": str(getattr(type, "name", ""))}
        value = type.value if isinstance(type, TensorType) else None
        if isinstance(value, int | Sym) and kind == "as_sym_int":
            return self.types.hints.entry(value)
        return self.types.hints.new_entry()

    # -- references -----------------------------------------------------------------

    def name(self, value: OutputPort) -> str:
        found = self.names.get(value)
        if found is None:
            raise FormatError(
                "a body reads a value of the graph around it, and has no input for it",
                who=value.op.label,
            )
        return found

    def argument(self, value: OutputPort) -> dict[str, Any]:
        """A value as an argument."""
        kind, name = self.kinds.get(value, ""), self.name(value)
        if kind.startswith("as_sym"):
            return {kind: {"as_name": name}}
        if kind == "as_custom_obj":
            fields = self.tables["custom_obj_values"][name]
            return {kind: {"name": name, "class_fqn": fields["class_fqn"]}}
        return {"as_none": True} if kind == "as_none" else {kind: {"name": name}}
