"""The modules of a program: their members, and the code of `forward`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType, float32
from amanda_torch.mapping.module_stacks import UNKNOWN_CLASS
from amanda_torch.source.classes import Construct, Instance, Line
from amanda_torch.source.forward import (
    Body,
    Step,
    body_structure,
    free_name,
    returned_tuple,
    write_body,
)
from amanda_torch.source.layers import Argument
from amanda_torch.source.program import Program, Weight, values_of
from amanda_torch.source.python_text import (
    Code,
    Expression,
    Number,
    constant_text,
    expression,
    format_statement,
    is_name,
    join,
    literal,
    member_text,
)
from amanda_torch.source.scopes import Call, interface, is_below
from amanda_torch.source.steps import op_step

__all__ = ["Module", "build_modules"]

_GENERIC: Final = frozenset(
    ["self", "input", "other", "tensors", "tensor", "mat1", "mat2", "mat", "batch1",
     "batch2", "vec", "vec2", "a", "b", "condition", "size"]
)  # fmt: skip


class Module:
    """A module at a path, by its first call."""

    def __init__(
        self, call: Call, program: Program, modules: dict[str, Module]
    ) -> None:
        self.call = call
        self.program = program
        self.modules = modules
        self.inputs, self.outputs = interface(call, program)
        self.members = dict(self._members())
        self.steps: list[Step] = []
        lines: list[str] = []
        numbers: list[Number] = []
        if not call.is_sequential:
            self.steps += self._steps()
            texts = {value: f"x{i}_" for i, value in enumerate(self.inputs)}
            lines, numbers = body_structure(self._body(texts, self._returned_values()))
        self.instance = Instance(
            call.path, _type_name(call), _hint(call), self._lines(), lines, numbers
        )

    # -- members --------------------------------------------------------------------

    def _relative(self, path: str) -> str:
        return path[len(self.call.path) + 1 :] if self.call.path else path

    def _members(self) -> Iterator[tuple[str, Call | Weight]]:
        """What the module has, by its path within it."""
        own = self.call.path
        called = {c.path: c for c in self.call.calls() if is_below(c.path, own)}
        for path, call in called.items():
            if not any(is_below(path, other) for other in called):
                yield self._relative(path), call
        layers = [value for call in called.values() if call.layer is not None
                  for value in call.layer.weights.values()]  # fmt: skip
        for value in (*self._values(), *self.program.weights_read):
            weight = self.program.weights.get(value)
            if weight is None or not is_below(weight.path, own) or value in layers:
                continue
            if not any(is_below(weight.path, path) for path in called):
                yield self._relative(weight.path), weight

    def _values(self) -> Iterator[OutputPort]:
        """The values that the module reads itself, and passes to its modules."""
        for item in self.call.items:
            if isinstance(item, Call):
                yield from self._inputs_of(item)
            else:
                yield from values_of(self.program.arguments[item])

    def _inputs_of(self, call: Call) -> Sequence[OutputPort]:
        if call.layer is not None:
            return call.layer.inputs
        return self.modules[call.path].inputs_for(call)

    def inputs_for(self, call: Call) -> Sequence[OutputPort]:
        return self.inputs if call is self.call else interface(call, self.program)[0]

    def _lines(self) -> list[Line]:
        """The lines of the constructor."""
        if self.call.is_sequential:
            return [Line("", self.construct_of(self.call))]
        tree: dict[str, Any] = {}
        for path, member in self.members.items():
            node = tree
            *outer, last = path.split(".")
            for part in outer:
                node = node.setdefault(part, {})
            node[last] = member
        lines = [
            line for name, node in tree.items()
            for line in self._member_lines("self", name, node)
        ]  # fmt: skip
        return lines if self.call.path else [*lines, *self._frozen_lines()]

    def _frozen_lines(self) -> Iterator[Line]:
        """The lines of the root that freeze parameters: by module, where it has no
        others."""
        program = self.program
        trained = {
            weight.path for weight in program.weights.values()
            if weight.kind == "parameter" and weight.path not in program.frozen
        }  # fmt: skip
        for path in dict.fromkeys(_largest_part(p, trained) for p in program.frozen):
            kind = "parameter" if path in program.frozen else "submodule"
            place = f"self.{path}"
            if not all(map(is_name, path.split("."))):
                place = f"self.get_{kind}({constant_text(path)})"
            yield Line(f"{place}.requires_grad_(False)")

    def _member_lines(self, owner: str, name: str, node: Any) -> Iterator[Line]:
        if isinstance(node, Weight):
            yield self._weight_line(owner, name, node)
        elif isinstance(node, Call) or _is_list(node):
            construct = self._node_construct(node)
            yield self._new_module(owner, name, "", construct)
        elif self._is_parameter_list(node):
            items = ", ".join(_new_weight(node[key]) for key in sorted(node, key=int))
            yield self._new_module(owner, name, f"nn.ParameterList([{items}])")
        else:
            yield from self._container_lines(owner, name, node)

    def _is_parameter_list(self, node: Mapping[str, Any]) -> bool:
        first = next(iter(node.values()))
        are_weights = all(isinstance(each, Weight) for each in node.values())
        return are_weights and self.program.is_parameter_list(first.owner)

    @staticmethod
    def _new_module(
        owner: str, name: str, text: str, construct: Construct | None = None
    ) -> Line:
        """The line that makes a module a member."""
        if is_name(name):
            return Line(f"{owner}.{name} = {text}", construct)
        return Line(f"{owner}.add_module({constant_text(name)}, {text}", construct, ")")

    def _weight_line(self, owner: str, name: str, weight: Weight) -> Line:
        """A parameter or buffer whose value is loaded."""
        before, construct, after = _empty(weight, self.program.size_names(weight))
        if weight.kind == "parameter" and is_name(name):
            return Line(f"{owner}.{name} = {before}", construct, after)
        kind = "parameter" if weight.kind == "parameter" else "buffer"
        head = f"{owner}.register_{kind}({constant_text(name)}, {before}"
        return Line(head, construct, f"{after})")

    def _container_lines(
        self, owner: str, name: str, node: Mapping[str, Any]
    ) -> Iterator[Line]:
        """A module that has others and is not called itself."""
        is_list = all(
            key.isdecimal() and not isinstance(inner, Weight)
            for key, inner in node.items()
        )
        size = 1 + max(map(int, node)) if is_list else 0
        items = f"nn.Module() for _ in range({size})"
        new = f"nn.ModuleList([{items}])" if is_list else "nn.Module()"
        place = member_text(owner, name)
        yield self._new_module(owner, name, new)
        for key, inner in node.items():
            if not is_list:
                yield from self._member_lines(place, key, inner)
            elif isinstance(inner, Call) or _is_list(inner):
                yield Line(f"{place}[{key}] = ", self._node_construct(inner))
            else:
                for last, each in inner.items():
                    yield from self._member_lines(f"{place}[{key}]", last, each)

    def _node_construct(self, node: Any) -> Construct:
        if isinstance(node, Call):
            return self.construct_of(node)
        return _list("ModuleList", {
            int(key): self._node_construct(inner) for key, inner in node.items()
        })  # fmt: skip

    def construct_of(self, call: Call) -> Construct:
        if call.layer is not None:
            return Construct(call.layer.name, call.layer.arguments)
        if call.is_sequential:
            return _list("Sequential", {
                int(child.path.rpartition(".")[2]): self.construct_of(child)
                for child in call.calls()
            })  # fmt: skip
        return Construct("", instance=self.modules[call.path].instance)

    def text_of(self, path: str) -> str:
        """A member as an expression: `self.layer[0]`."""
        text, owner, holder = "self", self.call.path, self
        for part in self._relative(path).split("."):
            module = self if owner == self.call.path else self.modules.get(owner)
            holder = module or holder
            if part.isdecimal() and module is not None:
                is_item = module.call.is_sequential
                text += f"[{part}]" if is_item else f'.get_submodule("{part}")'
            elif part.isdecimal() and holder.is_list(owner):
                text += f"[{part}]"
            else:
                text = member_text(text, part)
            owner = f"{owner}.{part}" if owner else part
        return text

    def is_list(self, owner: str) -> bool:
        """Whether a member that is not called itself is a list."""
        inside = self._relative(owner)
        found = {
            path[len(inside) + 1 :]: member for path, member in self.members.items()
            if is_below(path, inside)
        }  # fmt: skip
        if any(isinstance(found[path], Weight) for path in found if "." not in path):
            return self.program.is_parameter_list(owner)
        return all(path.partition(".")[0].isdecimal() for path in found)

    # -- forward --------------------------------------------------------------------

    def _returned_values(self) -> Expression:
        return returned_tuple([literal(value) for value in self.outputs])

    def body_lines(
        self, texts: Mapping[OutputPort, str], returned: Expression,
        more: Sequence[Step] = (), reserved: frozenset[str] = frozenset(),
    ) -> list[str]:  # fmt: skip
        """The lines of the body of `forward`."""
        return write_body(self._body(texts, returned, more, reserved), 8)

    def _body(
        self, texts: Mapping[OutputPort, str], returned: Expression,
        more: Sequence[Step] = (), reserved: frozenset[str] = frozenset(),
    ) -> Body:  # fmt: skip
        own = {
            value: self.text_of(weight.path)
            for value, weight in self.program.weights.items()
            if is_below(weight.path, self.call.path)
        }
        source = None if not hasattr(self, "instance") else self.instance.source
        numbers = {} if source is None else source.numbers()
        steps = [*self.steps, *more]
        return Body(steps, returned, {**own, **texts}, reserved, numbers)

    def _steps(self) -> Iterator[Step]:
        items = list(self.call.items)
        place = 0
        while place < len(items):
            item = items[place]
            run = self._run(items[place:]) if isinstance(item, Call) else 1
            if run > 1:
                yield self._loop_step(items[place : place + run])
            elif isinstance(item, Call):
                yield self._call_step(item)
            else:
                yield op_step(item, self.program)
            place += run

    def _call_step(self, call: Call) -> Step:
        inputs, outputs = self._inputs_of(call), _outputs_of(call, self.program)
        targets = "" if call.layer is None else call.layer.targets
        if targets:
            [op] = call.ops()
            outputs = list(op.outputs)
        arguments = join(literal(value) for value in inputs)
        text = expression(self.text_of(call.path), "(", arguments, ")")
        name = next(
            part for part in reversed(call.path.split(".")) if not part.isdecimal() or
            part == call.path
        ) if re.search(r"[A-Za-z]", call.path) else "x"  # fmt: skip
        writes = any(self.program.has_effect(op) for op in call.ops())
        return Step(
            text, outputs, name.lower(), has_effect=writes, is_call=True,
            targets=targets,
        )  # fmt: skip

    def _run(self, items: Sequence[Op | Call]) -> int:
        """How many modules of a list and of one structure are called in turn."""
        first = items[0]
        assert isinstance(first, Call)
        member, _, number = first.path.rpartition(".")
        if not number.isdecimal() or not self._relative(member):
            return 1
        inputs = [list(self._inputs_of(first))]
        count = 1
        carried: int | None = None
        for item in items[1:]:
            if (
                not isinstance(item, Call)
                or item.path != f"{member}.{int(number) + count}"
            ):
                break
            if item.layer is not None or first.layer is not None:
                break
            last = _outputs_of(items[count - 1], self.program)  # type: ignore[arg-type]
            given = list(self._inputs_of(item))
            if len(given) != len(inputs[0]) or len(_outputs_of(item, self.program)) > 1:
                break
            changed = [i for i, v in enumerate(given) if v != inputs[0][i]]
            if len(last) != 1 or len(changed) != 1 or given[changed[0]] != last[0]:
                break
            if carried not in (None, changed[0]) or self._users(last[0]) != 1:
                break
            carried = changed[0]
            inputs.append(given)
            count += 1
        return count

    def _users(self, value: OutputPort) -> int:
        found = sum(value in self._inputs_of(i) if isinstance(i, Call)
                    else value in list(values_of(self.program.arguments[i]))
                    for i in self.call.items)  # fmt: skip
        return found + (value in self.outputs)

    def _loop_step(self, items: Sequence[Any]) -> Step:
        first, second, last = items[0], items[1], items[-1]
        given = list(self._inputs_of(first))
        after = list(self._inputs_of(second))
        place = next(i for i, v in enumerate(after) if v != given[i])
        member, _, number = first.path.rpartition(".")
        text = self.text_of(member)
        start, stop = int(number), int(number) + len(items)
        total = sum(
            isinstance(m, Call) and path.rpartition(".")[0] == self._relative(member)
            for path, m in self.members.items()
        )
        if (start, stop) != (0, total):
            text += f"[{start or ''}:{stop if stop < total else ''}]"
        name = member.rpartition(".")[2]
        stem = name[:-1] if name.endswith("s") and len(name) > 2 else name
        variable = free_name(stem if len(stem) > 1 else "block", ())
        arguments = join(literal(value) for value in given)
        call = expression(variable, "(", arguments, ")")
        effect = any(self.program.has_effect(op) for op in first.ops())
        return Step(
            call, _outputs_of(last, self.program), "x", has_effect=effect,
            repeats=(text, variable), carried=given[place],
        )  # fmt: skip

    # -- names of parameters --------------------------------------------------------

    def parameter_names(self) -> list[str]:
        """Names for the inputs: by their origin in the program, or by their use."""
        names: list[str] = []
        for value in self.inputs:
            names.append(free_name(self._parameter_name(value) or "x", names))
        return names

    def _parameter_name(self, value: OutputPort) -> str | None:
        if value.op is self.program.graph:
            return value.name
        if value in self.program.weights:
            return self.program.weights[value].name
        for item in self.call.items:
            if isinstance(item, Call):
                inputs = list(self._inputs_of(item))
                if item.layer is None and not item.is_sequential and value in inputs:
                    name = self.modules[item.path].names[inputs.index(value)]
                    if not re.fullmatch(r"[xyz](_\d+)?", name):
                        return name
                continue
            for name, given in self.program.arguments[item].items():
                if given is value and name not in _GENERIC:
                    return name
        return None

    @property
    def names(self) -> list[str]:
        if not hasattr(self, "_names"):
            self._names = self.parameter_names()
        return self._names

    def _names_of_class(self) -> list[str]:
        """Names for the inputs, general ones where those of modules differ."""
        source = self.instance.source
        paths = [] if source is None else source.paths
        names: list[str] = []
        for found in zip(*(self.modules[path].names for path in paths), strict=True):
            name = found[0] if len(set(found)) == 1 else "x"
            names.append(free_name(name, names))
        return names

    def method(self) -> list[str]:
        """The lines of `forward` and its head."""
        names = self._names_of_class()
        given = "".join(
            f", {name}: {type_hint(value)}"
            for name, value in zip(names, self.inputs, strict=True)
        )
        kinds = [type_hint(value) for value in self.outputs]
        result = kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"
        head = format_statement(f"def forward(self{given}) -> {result}:", 4)
        texts = dict(zip(self.inputs, names, strict=True))
        return head + self.body_lines(texts, self._returned_values())


def type_hint(value: OutputPort) -> str:
    """`Tensor`, or the type of a symbolic number."""
    entry = value.op.type or "" if not isinstance(value.op, Graph) else ""
    if not entry.startswith(("aten.sym_", "_operator.", "torch.sym_")):
        return "Tensor"
    kind = value.type.dtype.kind if isinstance(value.type, TensorType) else "int"
    return {"float": "float", "bool": "bool"}.get(kind, "int")


def _outputs_of(call: Call, program: Program) -> list[OutputPort]:
    return interface(call, program)[1]


def _is_list(node: Any) -> bool:
    """Whether a container has numbered modules only."""
    return isinstance(node, dict) and all(
        key.isdecimal() and (isinstance(inner, Call) or _is_list(inner))
        for key, inner in node.items()
    )


def _list(name: str, items: Mapping[int, Construct]) -> Construct:
    """A list of modules; places that the program does not use are `nn.Identity()`."""
    size = max(items) + 1
    return Construct(
        name, items=[items.get(i, Construct("Identity")) for i in range(size)]
    )


def _largest_part(path: str, trained: Collection[str]) -> str:
    """The largest module of a parameter without trained ones; itself if there is none.

    >>> _largest_part("a.b.weight", {"a.c.weight"})
    'a.b'
    """
    parts = path.split(".")
    for end in range(1, len(parts)):
        module = ".".join(parts[:end])
        if not any(is_below(other, module) for other in trained):
            return module
    return path


def _new_weight(weight: Weight) -> str:
    """A parameter, or the tensor of a buffer, without its values."""
    before, construct, after = _empty(weight, ())
    sizes = [constant_text(a.value) for a in construct.arguments if a.name == "size"]
    *_, dtype = construct.arguments
    if dtype.value is not None:
        sizes.append(f"dtype={constant_text(dtype.value)}")
    return f"{before}torch.empty({', '.join(sizes)}){after}"


def _empty(weight: Weight, names: Sequence[str]) -> tuple[str, Construct, str]:
    """The constructor of a parameter or buffer, with what is before and after it."""
    tensor = weight.tensor
    shape = [] if tensor is None else list(tensor.shape)
    dtype = float32 if tensor is None else tensor.dtype
    sizes = [Argument(name, int(size)) for name, size in zip(
        names or ["size"] * len(shape), shape, strict=True
    )]  # fmt: skip
    arguments = [
        *(sizes or [Argument("size", Code("()"))]),
        Argument("dtype", None if dtype == float32 else dtype, None),
    ]
    construct = Construct("torch.empty", arguments)
    if weight.kind != "parameter":
        return "", construct, ""
    is_float = dtype.kind in ("float", "complex")
    return "nn.Parameter(", construct, ")" if is_float else ", requires_grad=False)"


def _type_name(call: Call) -> str:
    """The name of the class of a module; empty if it is not known."""
    if call.type == UNKNOWN_CLASS:
        return "" if call.path else "Model"
    return call.type.rpartition(".")[2]


def _hint(call: Call) -> str:
    """The name for the class of a module."""
    name = _type_name(call)
    if not name:
        parts = [p for p in call.path.split(".") if not p.isdecimal()]
        name = parts[-1] if parts else "Model"
        name = "".join(p[:1].upper() + p[1:] for p in re.split(r"[_\W]+", name))
        is_item = call.path.rpartition(".")[2].isdecimal()
        name = re.sub(r"(?<=[a-z]{2})s$", "", name) if is_item else name
    name = re.sub(r"\W", "_", name)
    name = "Model" if name == "Sequential" else name
    return name if name[:1].isalpha() else f"Module{name}"


def build_modules(root: Call, program: Program) -> dict[str, Module]:
    """All modules that are classes, each behind those that it contains."""
    modules: dict[str, Module] = {}
    _use_one_form(root)
    _build(root, program, modules)
    return modules


def _use_one_form(root: Call) -> None:
    """Write the ops of a layer where another call of its module is none."""
    calls = [root]
    for call in calls:
        calls += call.calls()
    classes = {call.path for call in calls if call.layer is None}
    for call in calls:
        call.items = [
            inner for item in call.items for inner in (
                item.items if isinstance(item, Call) and item.layer is not None
                and item.path in classes else [item]
            )
        ]  # fmt: skip


def _build(call: Call, program: Program, modules: dict[str, Module]) -> None:
    for child in call.calls():
        if child.layer is None:
            _build(child, program, modules)
    call.items = [
        inner for item in call.items
        for inner in _inner_items(item, call, modules)
    ]  # fmt: skip
    found = Module(call, program, modules)
    modules.setdefault(call.path, found)
    call.key = found.instance.key


def _inner_items(
    item: Op | Call, parent: Call, modules: dict[str, Module]
) -> list[Op | Call]:
    """A call, or what it computes where it is none of a member in its known form."""
    if not isinstance(item, Call) or item.layer is not None:
        return [item]
    is_known = modules[item.path].instance.key == item.key
    is_member = is_below(item.path, parent.path)
    return [item] if is_known and is_member else item.items
