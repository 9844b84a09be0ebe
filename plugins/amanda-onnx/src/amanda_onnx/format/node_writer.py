"""Ops as nodes. The usual fields are written inline, thousands of nodes at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks, NameScope, encode_varint
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort, is_note
from amanda.types import VoidType
from amanda_onnx.domains import DEFAULT, domain_of
from amanda_onnx.format.attribute_reader import CODES, FIELDS
from amanda_onnx.format.attribute_writer import attribute_chunks
from amanda_onnx.format.free_attributes import metadata_of_node
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of
from amanda_onnx.format.subgraphs import subgraph_fault
from amanda_onnx.format.tensor_writer import string_entries

if TYPE_CHECKING:
    from amanda_onnx.format.writer import ModelWriter

__all__ = ["NodeWriter"]

_MESSAGE: Final = "NodeProto"
_BATCH: Final = 1 << 12
_SIZED: Final = [chr(size) for size in range(128)]  # the length of a short field
_VOID: Final = VoidType()
_ATTRIBUTE: Final = SCHEMA.tag(_MESSAGE, "attribute")
_CACHE_SIZE: Final = 4096


class NodeWriter:
    """Writes the nodes of one graph as a field of the message around them."""

    def __init__(
        self, job: ModelWriter, space: NameScope, field: bytes, in_function: bool
    ) -> None:
        self.job = job
        self.space = space
        self.out = MessageChunks()
        self.initializers: list[tuple[Op, str]] = []
        self.infos: list[tuple[OutputPort, str]] = []  # whose types are listed
        self.noted: list[OutputPort] = []
        self._field = field
        self._key = field.decode("latin-1")
        self._in_function = in_function
        self._pending: list[str] = []  # nodes that are yet to be encoded
        self._types: dict[str, str] = {}
        self._renamed = space.names.renamed

    def weights(self) -> None:
        """Collect the initializers; their names are assigned before those of nodes."""
        for op in self.space.graph:
            if _may_be_constant(op) and self._is_initializer(op):
                word = self._word(op, op.outputs[0])
                self._note(op)
                self.initializers.append((op, word))

    def _is_initializer(self, op: Op) -> bool:
        if self._in_function:
            return False
        if op.type == CONSTANT and op.own_namespace == CORE:
            return not notes_of(op).get("node")
        return bool(op.type == "Constant" and notes_of(op).get("initializer"))

    def write(self) -> MessageChunks:
        """Write all nodes in order, assigning names to values on the way."""
        taken, reserved = self.space.taken, self.space.reserved
        is_root, infos = self.space.outer is None, self.infos
        renamed = self._renamed
        for op in self.space.graph:
            rare = _may_be_constant(op)
            if rare and self._is_initializer(op):
                continue
            listed = not rare or self._lists_types(op)
            # Bodies come before the outputs are named: they cannot capture them.
            bodies = self._bodies(op) if rare and op.bodies else None
            outputs: list[str] = []
            for port in op.outputs:
                word = port.name or ""
                free = word and is_root and word not in taken and word not in reserved
                if free and port not in renamed:
                    taken.add(word)  # inline, since most names are free
                else:
                    word = self._word(op, port)
                outputs.append(word)
                if listed and port.type is not None and word:
                    infos.append((port, word))
            if rare or not self._write_quick(op, outputs):
                self._write_rare(op, outputs, bodies)
        self._flush()
        return self.out

    def _lists_types(self, op: Op) -> bool:
        """Whether value_info lists the type; that of a constant only if recorded."""
        self._note(op)
        return op.own_namespace != CORE or bool(notes_of(op.output).get("value_info"))

    def _note(self, op: Op) -> None:
        self.noted += [port for port in op.outputs if port.has_attrs]

    def _word(self, op: Op, port: OutputPort) -> str:
        """Assign the name of a value."""
        if port.type == _VOID and not port.users:
            return ""
        return self.space.assign(port, lambda: op.name or f"{op.type}_{port.index}")

    def _write_quick(self, op: Op, outputs: list[str]) -> bool:
        """Write an op with simple attributes and short names; False for any other."""
        renamed = self._renamed
        text = ""
        try:
            for value in op.inputs:
                if value is None:
                    text += "\n\0"
                    continue
                word = value.name or ""
                if renamed and value in renamed:
                    word = renamed[value]
                text += f"\n{_SIZED[len(word)]}{word}"
            for word in outputs:
                text += f"\x12{_SIZED[len(word)]}{word}"
            name = op.name
            if name:
                text += f"\x1a{_SIZED[len(name)]}{name}"
            text += self._types.get(op.type) or self._type(op)  # type: ignore[arg-type]
            if not text.isascii():
                return False
            if op.has_attrs:
                attrs = op.attrs
                text += "".join(
                    [self._plain_attribute(key, attrs[key]) for key in attrs]
                )
            if self.job.scopes is not None:
                text += self.job.scopes.encode(op).decode("latin-1")
        except (
            IndexError,
            TypeError,
            AmandaError,
        ):  # a long name, or not a simple value
            return False
        size = len(text)
        sized = _SIZED[size] if size < 128 else encode_varint(size).decode("latin-1")
        self._pending.append(f"{self._key}{sized}{text}")
        if len(self._pending) >= _BATCH:
            self._flush()
        return True

    def _plain_attribute(self, key: str, value: Any) -> str:
        """An encoded attribute that is an int, a string or a list of ints; cached."""
        kind = value.__class__
        if kind is list:
            parts = tuple(value)
            if any(part.__class__ is not int for part in parts):
                raise TypeError
        else:
            parts = value
        if kind is not int and kind is not str and kind is not list:
            raise TypeError
        known = self.job.plain
        found = known.get((key, kind, parts))
        if found is None:
            if key == NOTES_KEY or is_note(key):
                raise TypeError
            field = MessageChunks()
            field.append_message(_ATTRIBUTE, attribute_chunks(key, value, {}, None))
            raw = b"".join(part for part in field.parts if isinstance(part, bytes))
            found = raw.decode("latin-1")
            if len(known) < _CACHE_SIZE:
                known[key, kind, parts] = found
        return found

    def _type(self, op: Op) -> str:
        kind = op.type
        if not kind:
            raise TypeError
        head = self._types[kind] = f'"{_SIZED[len(kind)]}{kind}'
        return head

    def _flush(self) -> None:
        if self._pending:
            self.out.append("".join(self._pending).encode("latin-1"))
            self._pending.clear()

    # -- ops with more than names ----------------------------------------------------

    def _write_rare(
        self, op: Op, outputs: list[str], bodies: dict[str, MessageChunks] | None
    ) -> None:
        self._flush()
        of = self.space.names.name_of
        inputs = ["" if value is None else of(value) for value in op.inputs]
        try:
            self._refuse_rare(op)
            node = self._node(op, inputs, outputs, bodies or {})
        except AmandaError as error:
            if isinstance(error, FormatError) and error.problems:
                raise
            self.job.problems.append(f"{op.label}: {_describe_error(error)}")
            return
        self.out.append_message(self._field, node)

    def _refuse_rare(self, op: Op) -> None:
        """Refuse what an op may have and a node cannot."""
        if isinstance(op, Graph):
            raise FormatError(
                "a subgraph that can be no local function", got=subgraph_fault(op)
            )
        if not op.type:
            raise FormatError("an op without a type")
        if op.control_inputs:
            raise FormatError("ONNX has no control edges")
        if op.feedback:
            raise FormatError("ONNX has no feedback edges")

    def _node(
        self,
        op: Op,
        inputs: list[str],
        outputs: list[str],
        bodies: Mapping[str, MessageChunks],
    ) -> MessageChunks:
        notes = notes_of(op)
        is_weight = op.type == CONSTANT and op.own_namespace == CORE
        domain = "" if is_weight else self._domain(op)
        name = op.name or notes.get("name")
        kind = "Constant" if is_weight else op.type
        head = (
            SCHEMA.writer(_MESSAGE).put_all("input", inputs).put_all("output", outputs)
        )
        out = MessageChunks(head.put_if("name", name).put("op_type", kind).done())
        if is_weight:
            self._constant(out, op, notes)
        else:
            self._attributes(out, op, notes)
            self._graphs(out, notes, bodies)
        written = notes.get("domain") if domain in DEFAULT else domain
        tail = SCHEMA.writer(_MESSAGE).put_if("doc_string", notes.get("doc_string"))
        tail.put_if("domain", written).put_if("overload", notes.get("overload"))
        pairs = metadata_of_node(op, notes.get("metadata_props"))
        tail.put_all("metadata_props", string_entries(pairs))
        tail.put_all("device_configurations", notes.get("device_configurations", ()))
        out.append(tail.put_unknown(notes.get("rest", b"")).done())
        if self.job.scopes is not None and not notes.get("metadata_props"):
            out.append(self.job.scopes.encode(op))
        return out

    def _domain(self, op: Op) -> str:
        space = op.own_namespace
        if space is None:
            return ""
        found = domain_of(space)
        if found is None:
            raise FormatError(
                f"an op of {space}, which is not a namespace of ONNX",
                hint="convert the graph to amanda/onnx first",
            )
        self.job.require_domain(*found)
        return found[0]

    def _attributes(self, out: MessageChunks, op: Op, notes: Mapping[str, Any]) -> None:
        field = _ATTRIBUTE
        if op.has_attrs:
            for key, value in op.attrs.items():
                if key != NOTES_KEY and not is_note(key):
                    out.append_message(
                        field, attribute_chunks(key, value, notes, self.job.outside)
                    )

    def _bodies(self, op: Op) -> dict[str, MessageChunks]:
        """The bodies of an op, each as a message."""
        return {k: self.job.graph(body, self.space) for k, body in op.bodies.items()}

    def _graphs(
        self,
        out: MessageChunks,
        notes: Mapping[str, Any],
        bodies: Mapping[str, MessageChunks],
    ) -> None:
        """Write attributes that are graphs or lists of them."""
        kinds = notes.get("kinds", {})
        lists = [name for name, kind in kinds.items() if kind == "GRAPHS"]
        for name in lists:
            found: list[MessageChunks] = []
            while (key := f"{name}[{len(found)}]") in bodies:
                found.append(bodies[key])
            self._graph(out, name, "GRAPHS", found, notes)
        for key, body in bodies.items():
            if key.rpartition("[")[0] not in lists:
                self._graph(out, key, "GRAPH", [body], notes)

    @staticmethod
    def _graph(
        out: MessageChunks,
        name: str,
        kind: str,
        bodies: list[MessageChunks],
        notes: Mapping[str, Any],
    ) -> None:
        message = "AttributeProto"
        attribute = MessageChunks(SCHEMA.writer(message).put("name", name).done())
        for body in bodies:
            attribute.append_message(SCHEMA.tag(message, FIELDS[kind]), body)
        tail = SCHEMA.writer(message).put_if(
            "doc_string", notes.get("docs", {}).get(name)
        )
        tail.put("type", CODES[kind])
        attribute.append(tail.put_unknown(notes.get("rests", {}).get(name, b"")).done())
        out.append_message(_ATTRIBUTE, attribute)

    def _constant(self, out: MessageChunks, op: Op, notes: Mapping[str, Any]) -> None:
        """Write the attribute of a `Constant` node: as it was read, or `value`."""
        tensor = op.attrs.get("value")
        key = notes.get("node") or "value"
        value = tensor
        if key != "value" and tensor is not None:
            value = tensor.numpy().tolist()
        outside = self.job.outside
        out.append_message(
            SCHEMA.tag(_MESSAGE, "attribute"),
            attribute_chunks(key, value, notes, outside),
        )


def _may_be_constant(op: Op) -> bool:
    """Whether an op may be a constant or has rare parts; called for every op."""
    if op.type == "Constant" or op.is_graph:
        return True
    more = op.side_record  # its provenance is not written
    return more is not None and bool(
        more.namespace is not None
        or more.bodies
        or more.extras
        or more.control
        or more.feedback
    )


def _describe_error(error: AmandaError) -> str:
    got = f" ({error.got})" if error.got else ""
    return f"{error.message}{got}"
