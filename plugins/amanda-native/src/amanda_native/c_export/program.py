"""The program of a static graph: names in C, memory, and the text of its files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amanda_native.c_export.kernel_attributes import kernel_attributes
from amanda_native.c_export.kernel_source import (
    C_TYPES,
    kernel_rows,
    source_of_parts,
)
from amanda_native.c_export.literals import (
    element_literals,
    identifier,
    integer_literal,
    wrap_lines,
)
from amanda_native.c_export.memory import Lifetime, plan_memory
from amanda_native.c_export.static_graph import tensor_type

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort

__all__ = ["Program"]

_BYTES: Final = {"float32": 4, "int32": 4, "int64": 8, "bool": 1}
_HEADER: Final = """\
/* {name}, written by `amanda export --c`.
 *
 * Returns NULL, or what is wrong. Arrays are row-major; bool is 0 or 1. It allocates
 * nothing, has {bytes} bytes of static memory beside the weights, and is called once at
 * a time.
{shapes}
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{declaration};

#ifdef __cplusplus
}}
#endif
#endif
"""
_SOURCE: Final = """\
/* {name}, written by `amanda export --c`; see {name}.h. */
#include "{name}.h"

#include <math.h>
#include <string.h>

{kernels}

#include "{name}_weights.h"

{tensors}

{declaration} {{
{body}
}}
"""
_SAME: Final = "same"
"""The kernel that only copies: its result is its input, in another shape."""


class Program:
    """A graph of static shape, with names in C for its values."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.name = name
        self.ops = list(graph)
        self.parameters = list(graph.parameters)
        self.results = [value for value in graph.results if value is not None]
        values = [*self.parameters, *(op.output for op in self.ops)]
        self.names = {value: f"v{i}" for i, value in enumerate(values)}
        inputs = [identifier("in", p.name, p.index) for p in graph.parameters]
        self.inputs: dict[OutputPort, str] = dict(
            zip(self.parameters, inputs, strict=True)
        )
        self.outputs = [identifier("out", p.name, p.index) for p in graph.outputs]
        self.steps = [op for op in self.ops if not op.is_constant]
        self.owners = {value: self._owner(value) for value in values}
        self.direct = self._direct_results()
        self.offsets, self.arena_bytes = self._plan()
        self.kernels = {
            _kernel(op) for op in self.steps if self.owners[op.output] is op.output
        }
        self.declaration = self._declaration()
        constants = [op.output for op in self.ops if op.is_constant]
        self.weight_bytes = sum(map(_size, constants))

    def _owner(self, value: OutputPort) -> OutputPort:
        """The value whose memory this one is: that before copies in another shape."""
        while not value.op.is_graph and not value.op.is_constant:
            if _kernel(value.op) != _SAME:
                break
            (value,) = (v for v in value.op.inputs[:1] if v is not None)
        return value

    def _direct_results(self) -> dict[OutputPort, str]:
        """Computed values that are written to a result of the caller at once."""
        found: dict[OutputPort, str] = {}
        for value, output in zip(self.results, self.outputs, strict=True):
            owner = self.owners[value]
            is_computed = not owner.op.is_graph and not owner.op.is_constant
            if is_computed and owner not in found:
                found[owner] = output
        return found

    def _plan(self) -> tuple[dict[OutputPort, int], int]:
        """Offsets of the values that are in the arena, and its size."""
        last: dict[OutputPort, int] = {}
        first: dict[OutputPort, int] = {}
        for i, op in enumerate(self.steps):
            if self.owners[op.output] is op.output:
                first[op.output] = last[op.output] = i
            for value in op.inputs:
                if value is not None and self.owners[value] in first:
                    last[self.owners[value]] = i
        names = {self.names[value]: value for value in first}
        lives = [
            Lifetime(self.names[value], _size(value), first[value], last[value])
            for value in first
            if value not in self.direct
        ]
        offsets, size = plan_memory(lives)
        return {names[name]: offset for name, offset in offsets.items()}, size

    def _declaration(self) -> str:
        inputs = [
            f"const {_c_type(value)} *{name}" for value, name in self.inputs.items()
        ]
        outputs = [
            f"{_c_type(value)} *{name}"
            for value, name in zip(self.results, self.outputs, strict=True)
        ]
        arguments = ", ".join([*inputs, *outputs]) or "void"
        return f"const char *{self.name}_run({arguments})"

    # -- the files --------------------------------------------------------------------

    def header(self) -> str:
        rows = [
            *((name, value) for value, name in self.inputs.items()),
            *zip(self.outputs, self.results, strict=True),
        ]
        shapes = "\n".join(f" *   {name}: {_type_text(value)}" for name, value in rows)
        return _HEADER.format(
            name=self.name,
            guard=f"{self.name.upper()}_H",
            shapes=shapes,
            bytes=self.arena_bytes,
            declaration=self.declaration,
        )

    def source(self) -> str:
        return _SOURCE.format(
            name=self.name,
            kernels=source_of_parts(self.kernels),
            tensors="\n".join(self._tensors()),
            declaration=self.declaration,
            body="\n".join(self._body()),
        )

    def _tensors(self) -> Iterator[str]:
        """The memory, and a tensor for each value."""
        if self.offsets:
            yield "static union {"
            yield "  double aligned;"
            yield f"  unsigned char bytes[{max(self.arena_bytes, 1)}];"
            yield "} arena;"
        for value in self._used_values():
            dtype, shape = tensor_type(value)
            dims = ", ".join(map(str, shape)) or "0"
            place, kind = self._static_place(value), C_TYPES[dtype][0]
            yield (
                f"static tensor {self.names[value]} = {{{kind}, {len(shape)}, "
                f"{{{dims}}}, {place}}};"
            )
        for op in self.steps:
            if self.owners[op.output] is op.output and (text := _attributes(op)):
                yield f"static const attributes a{self.names[op.output][1:]} = {text};"

    def _used_values(self) -> list[OutputPort]:
        """The values that kernels read or write."""
        used: dict[OutputPort, None] = {}
        for op in self.steps:
            if self.owners[op.output] is op.output:
                used.update(dict.fromkeys(v for v in op.inputs if v is not None))
                used[op.output] = None
        return [value for value in self.names if value in used]

    def _static_place(self, value: OutputPort) -> str:
        owner = self.owners[value]
        if owner.op.is_constant:
            return f"(void *)w{self.names[owner][1:]}"
        if owner in self.offsets:
            return f"arena.bytes + {self.offsets[owner]}"
        return "NULL"

    def _body(self) -> Iterator[str]:
        """The calls of the kernels."""
        yield "  const char *fault = NULL;"
        for value in self._used_values():
            owner = self.owners[value]
            if owner in self.inputs:
                yield f"  {self.names[value]}.data = (void *){self.inputs[owner]};"
            elif owner in self.direct:
                yield f"  {self.names[value]}.data = {self.direct[owner]};"
        yield from self._unused_inputs()
        for op in self.steps:
            if self.owners[op.output] is op.output:
                yield from self._call(op)
        yield from self._copies()
        yield "  return fault;"

    def _unused_inputs(self) -> Iterator[str]:
        owners = {self.owners[value] for value in (*self._used_values(), *self.results)}
        for value, name in self.inputs.items():
            if value not in owners:
                yield f"  (void){name};"

    def _call(self, op: Op) -> Iterator[str]:
        letters = kernel_rows()[str(op.type)].inputs
        data = [
            value
            for i, value in enumerate(op.inputs)
            if letters[0] == "*" or letters[i] in "toi"
        ]
        names = ["NULL" if v is None else f"&{self.names[v]}" for v in data]
        names += ["NULL"] * (3 - len(names))
        attrs = f"&a{self.names[op.output][1:]}" if kernel_attributes(op) else "NULL"
        comment = (op.name or str(op.type)).replace("*/", "* /").replace("\\", "/")
        yield f"  /* {' '.join(comment.split())} */"
        yield f"  if (!fault) fault = k_{_kernel(op)}("
        yield from wrap_lines(
            f"&{self.names[op.output]}, (const tensor *const[]){{{', '.join(names)}}}, "
            f"{attrs});",
            "      ",
        )

    def _copies(self) -> Iterator[str]:
        """Results that no kernel wrote to its place: inputs, weights, second uses."""
        written: set[str] = set()
        for value, output in zip(self.results, self.outputs, strict=True):
            owner = self.owners[value]
            if self.direct.get(owner) == output and output not in written:
                written.add(output)
                continue
            if owner.op.is_constant:
                place = f"w{self.names[owner][1:]}"
            else:
                place = self.inputs.get(owner) or self.direct[owner]
            yield f"  memcpy({output}, {place}, {_size(value)});"

    def weights(self) -> str:
        lines = [f"/* The weights of {self.name}. */"]
        for op in self.ops:
            if op.is_constant and self._is_read(op.output):
                name = f"w{self.names[op.output][1:]}"
                size = max(_elements(op.output), 1)
                lines.append(f"static const {_c_type(op.output)} {name}[{size}] = {{")
                lines += wrap_lines(", ".join(element_literals(op)) or "0", "    ")
                lines.append("};")
        return "\n".join([*lines, ""])

    def _is_read(self, constant: OutputPort) -> bool:
        used = {self.owners[value] for value in (*self._used_values(), *self.results)}
        return constant in used


def _kernel(op: Op) -> str:
    return kernel_rows()[str(op.type)].kernel


def _c_type(value: OutputPort) -> str:
    return C_TYPES[tensor_type(value)[0]][1]


def _type_text(value: OutputPort) -> str:
    dtype, shape = tensor_type(value)
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _elements(value: OutputPort) -> int:
    return math.prod(tensor_type(value)[1])


def _size(value: OutputPort) -> int:
    return _elements(value) * _BYTES[tensor_type(value)[0]]


def _attributes(op: Op) -> str:
    """An initializer of `attributes`, or an empty text."""
    fields = kernel_attributes(op)
    lists = [
        f"[{key}] = {{{len(n)}, {{{', '.join(map(integer_literal, n)) or '0'}}}}}"
        for key, n in fields.items()
        if key.isupper()
    ]
    parts = [f".list = {{{', '.join(lists)}}}"] if lists else []
    parts += [f".{key} = {n}" for key, n in fields.items() if not key.isupper()]
    return f"{{{', '.join(parts)}}}" if parts else ""
