"""Ops that write into their arguments, as ops that return what they would write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import Dictionary, OpDef
from amanda.graph import TRAINABLE_NOTE, Graph, Op, OutputPort, Provenance
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_torch.aliases import written_inputs
from amanda_torch.mapping.control.autocast import add_autocasts
from amanda_torch.mapping.control.vmap import add_maps
from amanda_torch.mapping.functionalization.custom_ops import (
    attach_custom_ops,
    is_custom,
)
from amanda_torch.mapping.functionalization.diagonals import fill_diagonal
from amanda_torch.mapping.functionalization.effects import remove_unused, unwrap_effects
from amanda_torch.mapping.functionalization.foreach import expand_foreach
from amanda_torch.mapping.functionalization.memory import read_memory, sees_memory
from amanda_torch.mapping.functionalization.mutation_results import assign_mutated
from amanda_torch.mapping.functionalization.number_results import add_numbers
from amanda_torch.mapping.functionalization.statistics import (
    update_instance_statistics,
)
from amanda_torch.mapping.functionalization.storages import Storage, Storages
from amanda_torch.mapping.functionalization.views import (
    base_name,
    is_view,
    viewed_input,
)
from amanda_torch.mapping.weight_kinds import usual_kind, weight_kind
from amanda_torch.records import (
    INPUT_RECORDS,
    NODE_RECORDS,
    PROGRAM_RECORDS,
    VALUE,
    WEIGHT_NOTE,
    WEIGHT_OF_PYTORCH,
    is_trained,
)

__all__ = ["functionalize"]

_FUNCTIONAL: Final = {
    "aten.bernoulli_.float": "aten.bernoulli.p",
    "aten.float_power_.Scalar": "aten.float_power.Tensor_Scalar",
    "aten.float_power_.Tensor": "aten.float_power.Tensor_Tensor",
    "aten.floor_divide_.Tensor": "aten.floor_divide.default",
    "aten.ldexp_.default": "aten.ldexp.Tensor",
    "aten.pow_.Scalar": "aten.pow.Tensor_Scalar",
    "aten.pow_.Tensor": "aten.pow.Tensor_Tensor",
    "aten.transpose_.default": "aten.transpose.int",
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.random_.default": "aten.random.default",
    "aten._native_batch_norm_legit.default":
        "aten._native_batch_norm_legit_functional.default",
    "aten._batch_norm_with_update.default":
        "aten._batch_norm_with_update_functional.default",
    "aten.batch_norm.default": "aten._native_batch_norm_legit_functional.default",
    "aten.native_batch_norm.default":
        "aten._native_batch_norm_legit_functional.default",
}  # fmt: skip
"""Ops that return what others write, where the name does not follow from theirs."""
_HANDLES: Final = (
    "detach_", "squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_",
    "as_strided_",
)  # fmt: skip
"""Ops that change how a tensor sees its memory, and not the memory."""


def functionalize(graph: Graph) -> Graph:
    """A copy of a program without writes; those into buffers are made at its end."""
    copy = graph.clone()
    unwrap_effects(copy)
    expand_foreach(copy)
    kept = attach_custom_ops(copy)
    kept |= assign_mutated(copy)
    add_numbers(copy)
    add_autocasts(copy)
    add_maps(copy)
    for part in list(copy.graphs()):
        kept |= _Functionalization(part).run(kept)
    remove_unused(copy, kept)
    _use_constants(copy, kept)
    _forget_files(copy)
    return copy


def _forget_files(graph: Graph) -> None:
    """Drop from a graph what its file had beside it."""
    for part in graph.graphs():
        part.attrs.pop(PROGRAM_RECORDS.key, None)
        for port in (*part.parameters, *part.outputs):
            if port.has_attrs:
                port.attrs.pop(INPUT_RECORDS.key, None)
        for op in part:
            if op.has_attrs:
                op.attrs.pop(NODE_RECORDS.key, None)


def _made_from(op: Op) -> Provenance:
    return Provenance((op.name or op.type or "",), "functionalize")


class _Functionalization:
    """One graph whose writes are replaced, in the order of execution."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.storages = Storages(graph)
        self.dictionary: Any = namespace(graph.namespace or "torch", assume=True)

    def run(self, updates: set[Op]) -> set[Op]:
        """Replace all writes but `updates`; returns the ops that update buffers."""
        order = [op for op in self.graph if op not in updates]
        for op in order:
            for then in list(op.control_outputs):
                self.graph.uncontrol(op, then)
        if not any(map(self._needs_storages, order)):
            return set()
        for i, op in enumerate(order):
            given = list(op.inputs)  # as storages are found by
            written = self._writes(op)
            self._refresh(op, [] if is_custom(op) else written)
            if given and given[0] is not None and sees_memory(op):
                read_memory(self.graph, self.storages, op, given[0])
            if is_custom(op):
                self._record_writes(op, given, next(iter(order[i + 1 :]), None))
            elif base_name(op) in _HANDLES and given[0] is not None:
                self._replace_handle(op, given[0])
            elif written:
                self._replace_write(op, written)
            elif op.outputs and op.outputs[0] in self.storages.views:
                continue
            elif given and given[0] is not None and is_view(op, given[0]):
                self._add_views(op, given)
        for op in [op for op in self.graph if op in updates]:
            self._refresh(op, [0])
        for result in self.graph.result_ports:
            if result.source is not None:
                result.connect(self.storages.current(result.source, None))
        return self._update_buffers()

    def _refresh(self, op: Op, written: list[int]) -> None:
        """Let an op read what its arguments hold now."""
        for port in op.input_ports:
            value = port.source
            if value is not None and value.graph is self.graph:
                now = self.storages.current(value, op)
                if now is not value and port.index not in written:
                    port.connect(now)

    def _needs_storages(self, op: Op) -> bool:
        """Whether an op writes memory, or sees it in another way than its operands."""
        is_handle = base_name(op) in _HANDLES
        return bool(self._writes(op)) or is_handle or sees_memory(op)

    def _writes(self, op: Op) -> list[int]:
        """The inputs whose memory an op writes: none of those of handles."""
        if base_name(op) in _HANDLES:
            return []
        is_known = (op.type or "").startswith("aten.") or is_custom(op)
        return written_inputs(op, op.definition) if is_known else []

    def _add_views(self, op: Op, given: Sequence[OutputPort | None]) -> None:
        for i, port in enumerate(op.outputs):
            base = given[viewed_input(op, i)]
            if base is not None:
                self.storages.add_view(port, op, i, base)

    def _record_writes(
        self, op: Op, given: Sequence[OutputPort | None], after: Op | None
    ) -> None:
        """Record the new values that a custom op returns behind its results."""
        ports = enumerate(op.definition.inputs)
        targets = [given[i] for i, port in ports if port.is_written]
        new = op.outputs[len(op.outputs) - len(targets) :]
        for target, value in zip(targets, new, strict=True):
            if target is not None:
                self.storages.write(target, value, after)

    def _replace_handle(self, op: Op, base: OutputPort) -> None:
        """Replace an op that changes a tensor object: it is a view from now on."""
        views = self.storages.views
        if op.outputs[0] not in views:
            self.storages.add_view(op.outputs[0], op, 0, base)
        views[base] = views[op.outputs[0]]
        functional = self._functional_type(op)
        assert functional is not None
        op.type = functional

    def _replace_write(self, op: Op, written: list[int]) -> None:
        """Replace a write by an op whose result is the new value."""
        targets = [op.inputs[i] for i in written]
        if base_name(op) == "instance_norm":
            found = update_instance_statistics(self.graph, op, targets, self.storages)
            for target, value in zip(targets, found, strict=True):
                assert target is not None
                self.storages.write(target, value, op)
            return
        if base_name(op) == "fill_diagonal_":
            self._replace_fill(op, targets[0])
            return
        functional = self._functional_type(op)
        if functional is None:
            self._replace_out(op, written, targets)
            return
        plain = len(op.outputs) if op.type in _FUNCTIONAL and len(written) > 1 else 0
        results = self._add_functional(op, functional, plain + len(written))
        if not plain:
            results = results[:1]
        for target, new in zip(targets, results[-len(written) :], strict=True):
            assert target is not None
            self.storages.write(target, self._like(op, new, target), op)
        for i, port in enumerate(op.outputs):
            now = results[i] if plain else targets[0]
            for user in port.users:
                user.connect(now)
        self.graph.remove(op)

    def _replace_fill(self, op: Op, target: OutputPort | None) -> None:
        """Replace an op that fills a diagonal."""
        assert target is not None
        new = fill_diagonal(self.graph, op, self.storages.current(target, op))
        new.type = target.type
        self.storages.write(target, new, op)
        for user in op.output.users:
            user.connect(target)
        self.graph.remove(op)

    def _replace_out(
        self, op: Op, written: list[int], targets: list[OutputPort | None]
    ) -> None:
        """Replace an op whose results go into arguments of their own: `add.out`.

        An argument of another size is resized: what is read of it has the new type."""
        type = _type_without_out(self.dictionary, op.type or "")
        if type is None:
            return
        values = [v for i, v in enumerate(op.inputs) if i not in written]
        with self.graph.before(op):
            made = self.graph.add(type, values, dict(op.attrs), outputs=len(written))
        made.provenance = _made_from(op)
        for i, target in enumerate(targets):
            assert target is not None
            new = self._like(op, made.outputs[i], target)
            new.type = made.outputs[i].type = op.outputs[i].type
            self.storages.write(target, new, op)
            for user in op.outputs[i].users:
                user.connect(target)
        self.graph.remove(op)

    def _functional_type(self, op: Op) -> str | None:
        type = op.type or ""
        if type in _FUNCTIONAL:
            return _FUNCTIONAL[type]
        name, _, overload = type.removeprefix("aten.").partition(".")
        if not name.endswith("_") or name.endswith("__"):
            name = name.replace("__i", "__", 1) if name.startswith("__i") else ""
        found = f"aten.{name.rstrip('_') if not name.startswith('__') else name}"
        found = f"{found}.{overload}"
        return found if found in self.dictionary else None

    def _add_functional(
        self, op: Op, type: str, outputs: int
    ) -> tuple[OutputPort, ...]:
        attrs = _required_defaults(op, self.dictionary[type]) | dict(op.attrs)
        if base_name(op) == "batch_norm":
            attrs.pop("cudnn_enabled", None)
        if op.type == "aten.batch_norm.default":
            outputs = 5
        with self.graph.before(op):
            values = [
                None if v is None else self.storages.current(v, op) for v in op.inputs
            ]
            made = self.graph.add(type, values, attrs, outputs=outputs)
        made.provenance = _made_from(op)
        for i, port in enumerate(op.input_ports):
            if port.name is not None:
                made.input_ports[i].set_name(port.name)
        return made.outputs

    def _like(self, op: Op, new: OutputPort, target: OutputPort) -> OutputPort:
        """A new value with the element type of the tensor that it is written into."""
        known = target.type
        new.type = known
        if base_name(op) in ("copy_", "fill_", "zero_", "resize_", "resize_as_"):
            return new
        if not isinstance(known, TensorType):
            return new
        with self.graph.before(op):
            cast = self.graph.add("aten.to.dtype", [new], {"dtype": known.dtype})
        cast.output.type = known
        return cast.output

    def _update_buffers(self) -> set[Op]:
        """Assign the new values of buffers at the end of the program."""
        found = set()
        for storage in self.storages.written_storages():
            if storage.origin.op.type == "get_attr":
                found |= self._update(storage)
        return found

    def _update(self, storage: Storage) -> set[Op]:
        update = self.graph.add("aten.copy_.default", [storage.origin, storage.value])
        update.output.type = storage.origin.type
        return {update, storage.origin.op}


def _required_defaults(op: Op, functional: OpDef) -> dict[str, Any]:
    """The defaults of the arguments of an op that its functional form must have."""
    known = {} if op.definition is None else op.definition.attrs_by_name
    required = [attr.name for attr in functional.attrs if attr.required]
    return {name: known[name].default for name in required if name in known
            and not known[name].required}  # fmt: skip


@cache
def _type_without_out(dictionary: Dictionary, type: str) -> str | None:
    """The overload with the same arguments but those that are written."""
    op_def = dictionary.get(type)
    name = type.rpartition(".")[0]
    if op_def is None:
        return None
    written = {port.name for port in op_def.inputs if port.is_written}

    def arguments(definition: Any) -> list[list[str]]:
        named = ([a.name for a in definition.arguments()],
                 [p.name for p in definition.inputs])  # fmt: skip
        return [[n for n in names if n not in written] for names in named]

    wanted = arguments(op_def)
    for other in dictionary:
        if other.startswith(f"{name}.") and other != type:
            ports = dictionary[other].inputs
            if not any(p.is_written for p in ports) and (
                arguments(dictionary[other]) == wanted
            ):
                return other
    return None


def _use_constants(graph: Graph, written: set[Op]) -> None:
    """Replace parameters and buffers that nothing writes by constants."""
    for op in list(graph):
        value = op.attrs.get(VALUE) if op.type == "get_attr" else None
        if op in written or not isinstance(value, Tensor):
            continue
        with graph.before(op):
            constant = graph.constant(value)
        constant.output.type = value.type_with_content()
        name, kind = str(op.attrs["target"]), weight_kind(op)
        if kind != usual_kind(op.output, value, name):
            constant.attrs[WEIGHT_NOTE] = kind
        if value.dtype.kind == "float" and not is_trained(op):
            constant.attrs[TRAINABLE_NOTE] = False
        constant.provenance = Provenance((name,), WEIGHT_OF_PYTORCH)
        graph.replace_uses(op.output, constant.output)
        graph.remove(op)
        constant.name = graph.fresh_name(name)
