"""Ops as nodes. What most ops have is written in line, several thousand at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks, NameScope, encode_varint
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.types import VoidType
from amanda_onnx.domains import DEFAULT, domain_of
from amanda_onnx.format.attribute_reader import CODES, FIELDS
from amanda_onnx.format.attribute_writer import attribute_chunks
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of
from amanda_onnx.format.tensor_writer import string_entries

if TYPE_CHECKING:
    from amanda_onnx.format.writer import ModelWriter

__all__ = ["NodeWriter"]

_MESSAGE: Final = "NodeProto"
_AT_ONCE: Final = 1 << 12
_SIZED: Final = [chr(size) for size in range(128)]  # the size of a short field
_VOID: Final = VoidType()
_ATTRIBUTE: Final = SCHEMA.tag(_MESSAGE, "attribute")
_REMEMBERED: Final = 4096


class NodeWriter:
    """The nodes of one graph, in a field of what holds them."""

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
        self._texts: list[str] = []  # nodes that are yet to be encoded
        self._types: dict[str, str] = {}
        self._renamed = space.names.renamed

    def weights(self) -> None:
        """Constants that stand before all nodes; their names are taken first."""
        for op in self.space.graph:
            if _may_be_weight(op) and self._is_initializer(op):
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
        """Every node, in order; names are given as values come up."""
        taken, reserved = self.space.taken, self.space.reserved
        is_root, infos = self.space.outer is None, self.infos
        renamed = self._renamed
        for op in self.space.graph:
            rare = _may_be_weight(op)
            if rare and self._is_initializer(op):
                continue
            listed = not rare or self._lists_types(op)
            # Bodies come before the names of the outputs, which they do not see.
            bodies = self._bodies(op) if rare and op.bodies else None
            outputs: list[str] = []
            for port in op.outputs:
                word = port.name or ""
                free = word and is_root and word not in taken and word not in reserved
                if free and port not in renamed:
                    taken.add(word)  # in line, for most names are free
                else:
                    word = self._word(op, port)
                outputs.append(word)
                if listed and port.type is not None and word:
                    infos.append((port, word))
            if rare or not self._quick(op, outputs):
                self._rare(op, outputs, bodies)
        self._flush()
        return self.out

    def _lists_types(self, op: Op) -> bool:
        """The type of a constant is its tensor's, and listed where that is noted."""
        self._note(op)
        return op.own_namespace != CORE or bool(notes_of(op.output).get("value_info"))

    def _note(self, op: Op) -> None:
        self.noted += [port for port in op.outputs if port.has_attrs]

    def _word(self, op: Op, port: OutputPort) -> str:
        """The name of a value, which it gets here."""
        if port.type == _VOID and not port.users:
            return ""
        return self.space.assign(port, lambda: op.name or f"{op.type}_{port.index}")

    def _quick(self, op: Op, outputs: list[str]) -> bool:
        """Write an op with plain attributes and short names; False for any other."""
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
                text += "".join([self._plain(key, attrs[key]) for key in attrs])
        except (IndexError, TypeError, AmandaError):  # long, or no plain value
            return False
        size = len(text)
        sized = _SIZED[size] if size < 128 else encode_varint(size).decode("latin-1")
        self._texts.append(f"{self._key}{sized}{text}")
        if len(self._texts) >= _AT_ONCE:
            self._flush()
        return True

    def _plain(self, key: str, value: Any) -> str:
        """An attribute that is an int, a text or a list of ints, as it was before."""
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
            if key == NOTES_KEY:
                raise TypeError
            field = MessageChunks()
            field.append_message(_ATTRIBUTE, attribute_chunks(key, value, {}, None))
            raw = b"".join(part for part in field.parts if isinstance(part, bytes))
            found = raw.decode("latin-1")
            if len(known) < _REMEMBERED:
                known[key, kind, parts] = found
        return found

    def _type(self, op: Op) -> str:
        kind = op.type
        if not kind:
            raise TypeError
        head = self._types[kind] = f'"{_SIZED[len(kind)]}{kind}'
        return head

    def _flush(self) -> None:
        if self._texts:
            self.out.append("".join(self._texts).encode("latin-1"))
            self._texts.clear()

    # -- ops with more than names ----------------------------------------------------

    def _rare(
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
            self.job.problems.append(f"{op.label}: {_told(error)}")
            return
        self.out.append_message(self._field, node)

    def _refuse_rare(self, op: Op) -> None:
        """What an op of ours may have and a node cannot."""
        if isinstance(op, Graph):
            raise FormatError("ONNX has no graph that stands as an op")
        if op.type is None:
            raise FormatError("an op without a type")
        if op.control_inputs:
            raise FormatError("ONNX has no control edges")
        if op.feedback:
            raise FormatError("ONNX has no loops of this kind")
        for port in op.output_ports:
            strange = (
                [key for key in port.attrs if key != NOTES_KEY]
                if port.has_attrs
                else []
            )
            if strange:
                raise FormatError(f"ONNX has no attributes of values: {strange[0]!r}")
        for place in op.input_ports:
            if place.has_attrs or place.has_edge_attrs:
                raise FormatError("ONNX has no attributes of inputs and edges")

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
        tail.put_all("metadata_props", string_entries(notes.get("metadata_props")))
        tail.put_all("device_configurations", notes.get("device_configurations", ()))
        out.append(tail.put_raw(notes.get("rest", b"")).done())
        return out

    def _domain(self, op: Op) -> str:
        space = op.own_namespace
        if space is None:
            return ""
        found = domain_of(space)
        if found is None:
            raise FormatError(
                f"an op of {space}, which is no namespace of ONNX",
                hint="convert the graph to amanda/onnx first",
            )
        self.job.need(*found)
        return found[0]

    def _attributes(self, out: MessageChunks, op: Op, notes: Mapping[str, Any]) -> None:
        field = _ATTRIBUTE
        if op.has_attrs:
            for key, value in op.attrs.items():
                if key != NOTES_KEY:
                    out.append_message(
                        field, attribute_chunks(key, value, notes, self.job.outside)
                    )

    def _bodies(self, op: Op) -> dict[str, MessageChunks]:
        """The graphs of an op, each as a message."""
        return {k: self.job.graph(body, self.space) for k, body in op.bodies.items()}

    def _graphs(
        self,
        out: MessageChunks,
        notes: Mapping[str, Any],
        bodies: Mapping[str, MessageChunks],
    ) -> None:
        """Attributes that are graphs, or lists of them."""
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
        attribute.append(tail.put_raw(notes.get("rests", {}).get(name, b"")).done())
        out.append_message(_ATTRIBUTE, attribute)

    def _constant(self, out: MessageChunks, op: Op, notes: Mapping[str, Any]) -> None:
        """The attribute of a `Constant` node: the one that it was, or `value`."""
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


def _may_be_weight(op: Op) -> bool:
    """Whether there is more to an op than most have; quick, for it is asked of all."""
    return op.side_record is not None or op.type == "Constant"


def _told(error: AmandaError) -> str:
    got = f" ({error.got})" if error.got else ""
    return f"{error.message}{got}"


def _wide(size: int) -> str:
    return encode_varint(size).decode("latin-1")
