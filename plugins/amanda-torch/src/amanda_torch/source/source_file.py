"""Files of Python source with a module of PyTorch, and the weights beside them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import amanda
from amanda.files import replace_file, write_safetensors
from amanda.formatkit import file_errors
from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_torch.records import PROGRAM_RECORDS
from amanda_torch.source.classes import SourceClass, make_classes
from amanda_torch.source.forward import Step
from amanda_torch.source.modules import Module, build_modules
from amanda_torch.source.program import Program, Weight
from amanda_torch.source.python_text import expression, format_statement, literal
from amanda_torch.source.scopes import Call, build_calls, is_below
from amanda_torch.source.signature import Signature, read_signature

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["SourceFormat"]

_QUANTIZED_OPS: Final = (
    "import torch.ao.quantization.fx._decomposed  # registers the ops of quantization"
)


class SourceFormat:
    """Writes modules as Python source, with their weights in a file `.safetensors`."""

    def write(self, graph: Graph, path: Path) -> None:
        """Write the source of a module and, beside it, its weights."""
        path = Path(path)
        weights = path.with_suffix(".safetensors")
        dictionary: Any = amanda.namespace(graph.namespace or "torch", assume=True)
        source = Source(graph, dictionary)
        text = source.text(weights.name)
        with file_errors(path):
            with replace_file(weights) as file:
                write_safetensors(source.tensors(), file)
            with replace_file(path) as file:
                file.write(text.encode())


class Source:
    """The source of the module that a graph is."""

    def __init__(self, graph: Graph, dictionary: Dictionary) -> None:
        self._read(Program(graph, dictionary))
        plain: set[Op] = set()
        while ops := self.program.without_states.intersection(_plain_ops(self.root)):
            plain |= ops
            self._read(Program(graph, dictionary, with_states=plain))
        self.classes = make_classes([
            module.instance for module in self.modules.values()
            if not module.call.is_sequential
        ])  # fmt: skip

    def _read(self, program: Program) -> None:
        """Find the modules of a program."""
        self.program = program
        self.signature = read_signature(program)
        self.root = build_calls(program)
        self.is_sequence = self._is_sequence()
        self.root.is_sequential = False
        self.modules = build_modules(self.root, program)

    def _is_sequence(self) -> bool:
        """Whether the whole module is an `nn.Sequential`, called with one tensor."""
        signature = self.signature
        single = len(signature.parameters) == 1 and signature.result == "Tensor"
        numbers = [
            int(call.path) for call in self.root.calls() if call.path.isdecimal()
        ]
        whole = numbers == list(range(len(self.root.items)))
        return self.root.is_sequential and single and whole and not signature.writes

    # -- text -----------------------------------------------------------------------

    def text(self, weights: str) -> str:
        """The text of the file; `weights` is the name of the file of weights."""
        blocks = ["\n".join(self._class(each)) for each in self.classes]
        blocks.append("\n".join(self._load(self.classes[-1].name)))
        body = "\n\n\n".join(blocks)
        name = f'WEIGHTS = Path(__file__).with_name("{weights}")'
        return f"{self._imports(body)}\n\n{name}\n\n\n{body}\n"

    def _imports(self, body: str) -> str:
        lines = [
            '"""A module of PyTorch, written by Amanda; `load` loads its weights."""'
        ]
        lines += ["", "from pathlib import Path", ""]
        if "math." in body:
            lines.insert(2, "import math")
        if re.search(r"\btorch\.", body):
            lines.append("import torch")
        if "torch.ops.quantized_decomposed." in body:
            lines.append(_QUANTIZED_OPS)
        if re.search(r"\bF\.", body):
            lines.append("import torch.nn.functional as F")
        lines.append("from safetensors.torch import load_model")
        names = "Tensor, nn" if re.search(r"\bTensor\b", body) else "nn"
        return "\n".join([*lines, f"from torch import {names}"])

    def _class(self, source: SourceClass) -> list[str]:
        module = self.modules[source.first.path]
        if module.call is self.root and self.is_sequence:
            return self._sequence(source)
        lines = [f"class {source.name}(nn.Module):"]
        body = source.constructor()
        is_root = module.call is self.root
        if is_root:
            for tied, path in self._ties():
                body += format_statement(f"{tied} = {path}", 8)
        method = self._root_method(module) if is_root else module.method()
        if body[1:] != ["        super().__init__()"]:
            lines += [*body, ""]
        return lines + method

    def _sequence(self, source: SourceClass) -> list[str]:
        """The class of a module that is a sequence."""
        items = [
            source.text(line.construct, places)
            for places in [itertools.count()]
            for line in source.first.lines if line.construct is not None
        ]  # fmt: skip
        call = f"super().__init__({', '.join(items)})"
        head = [
            f"class {source.name}(nn.Sequential):",
            "    def __init__(self) -> None:",
        ]
        return [*head, *format_statement(call, 8)]

    def _root_method(self, module: Module) -> list[str]:
        """`forward` of the whole module."""
        signature = self.signature
        texts = {**signature.texts}
        for value in module.inputs:
            texts.setdefault(value, value.name or "x")
        writes = list(self._writes(signature, module))
        reserved = frozenset(re.split(r"\W", t)[0] for t in texts.values() if "[" in t)
        head = format_statement(signature.head(), 4)
        return head + module.body_lines(texts, signature.returned, writes, reserved)

    def _writes(self, signature: Signature, module: Module) -> Iterator[Step]:
        """The steps that give buffers and inputs their new values."""
        for role, target, value in signature.writes:
            text = module.text_of(target)
            if role == "user_input_mutation":
                port = next(p for p in signature.texts if p.name == target)
                text = signature.texts[port]
            copied = expression(f"{text}.copy_(", literal(value), ")")
            yield Step(copied, (), "x", has_effect=True)

    def _load(self, name: str) -> list[str]:
        mode = "train" if self.program.is_training else "eval"
        return [
            f"def load(path: str | Path = WEIGHTS) -> {name}:",
            '    """The module with the weights of a file, as it was exported."""',
            f"    model = {name}()",
            "    load_model(model, path)",
            f"    return model.{mode}()",
        ]

    # -- weights --------------------------------------------------------------------

    def _layers(self) -> Iterator[tuple[Call, str, Weight]]:
        """Calls of layers with their weights by name."""
        waiting = [self.root]
        while waiting:
            call = waiting.pop(0)
            waiting += call.calls()
            if call.layer is not None:
                for name, value in call.layer.weights.items():
                    yield call, name, self.program.weights[value]

    def _ties(self) -> list[tuple[str, str]]:
        """Weights of layers that are those of other modules."""
        root = self.modules[""]
        found = {
            f"{root.text_of(call.path)}.{name}": root.text_of(weight.path)
            for call, name, weight in self._layers()
            if not is_below(weight.path, call.path)
        }
        return list(found.items())

    def tensors(self) -> dict[str, Tensor]:
        """The weights of the module by their names."""
        used = {weight.path: weight for weight in self._all_weights()}
        found = {path: w.tensor for path, w in used.items() if w.tensor is not None}
        payloads = PROGRAM_RECORDS.of(self.program.graph).get("payloads", {})
        for call, _, _ in self._layers():
            name = f"{call.path}.num_batches_tracked"
            if call.layer is not None and call.layer.name.startswith("BatchNorm"):
                known = payloads.get(name, {}).get("tensor")
                weights = {w.path: w.tensor for w in self.program.weights.values()}
                found.setdefault(name, weights.get(name) or known or _ZERO)
        return found

    def _all_weights(self) -> Iterator[Weight]:
        for module in self.modules.values():
            for member in module.members.values():
                if isinstance(member, Weight):
                    yield member
        for _, _, weight in self._layers():
            yield weight


def _plain_ops(call: Call) -> Iterator[Op]:
    """The ops of a call that are written as such, and not as layers."""
    for item in call.items:
        if not isinstance(item, Call):
            yield item
        elif item.layer is None:
            yield from _plain_ops(item)


_DOC: Final = "A module of PyTorch, written by Amanda; `load` loads its weights."
_ZERO: Final = Tensor.of(0, "int64")
