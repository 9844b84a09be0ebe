"""The extractor of OpenVINO: the opsets of the installed library.

Each part of a definition has its own source in the wheel:

    opset tables       the ops of an opset, and their classes (`Interpolate`, `v11`)
    C++ constructors   the minimum and maximum number of inputs
    Python builders    names of inputs, required attributes
    the library        attributes with kinds, defaults and allowed values

Outputs have no names, and their number only shows when an op is created with valid
inputs: the few ops with several outputs are a table here, which a test compares.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from amanda.dictionary import (
    Attr,
    DictionaryHeader,
    OpDef,
    format_attr,
    parse_dtype_name,
    parse_signature,
    round_to_float32,
)
from amanda.errors import NamespaceError
from amanda_dictionaries_dev import (
    Extractor,
    InstalledOps,
    first_sentence,
    requires_framework,
)
from amanda_dictionaries_dev.openvino.cpp_headers import (
    OpClass,
    read_constructors,
    read_enum_values,
    read_opsets,
)
from amanda_dictionaries_dev.openvino.python_builders import Builder, read_builders

__all__ = ["OPENVINO", "OpenVINOExtractor"]

_DETECTED = ("selected_outputs", "selected_indices", "selected_num")
_BOXES = ("selected_indices", "selected_scores", "valid_outputs")
_VARIADIC = ("*outputs: any >= 0",)
_POOLED = ("output", "indices")
_OUTPUTS: Mapping[OpClass, tuple[str, ...]] = {
    OpClass("AdaptiveMaxPool", "v8"): _POOLED,
    OpClass("BGRtoNV12", "v17"): ("output", "uv?: tensor"),
    OpClass("CTCGreedyDecoderSeqLen", "v6"): ("classes", "lengths"),
    OpClass("ConvertPromoteTypes", "v14"): ("left", "right"),
    OpClass("ExperimentalDetectronDetectionOutput", "v6"): (
        "boxes",
        "classes",
        "scores",
    ),
    OpClass("ExperimentalDetectronGenerateProposalsSingleImage", "v6"): (
        "rois",
        "scores",
    ),
    OpClass("ExperimentalDetectronROIFeatureExtractor", "v6"): ("features", "rois"),
    OpClass("GRUSequence", "v5"): ("Y", "Ho"),
    OpClass("GenerateProposals", "v9"): ("rois", "scores", "rois_num"),
    OpClass("If", "v8"): _VARIADIC,
    OpClass("LSTMCell", "v0"): ("Ho", "Co"),
    OpClass("LSTMCell", "v4"): ("Ho", "Co"),
    OpClass("LSTMSequence", "v5"): ("Y", "Ho", "Co"),
    OpClass("Loop", "v5"): _VARIADIC,
    OpClass("MatrixNms", "v8"): _DETECTED,
    OpClass("MaxPool", "v14"): _POOLED,
    OpClass("MaxPool", "v8"): _POOLED,
    OpClass("MulticlassNms", "v8"): _DETECTED,
    OpClass("MulticlassNms", "v9"): _DETECTED,
    OpClass("NMSRotated", "v13"): _BOXES,
    OpClass("NonMaxSuppression", "v5"): _BOXES,
    OpClass("NonMaxSuppression", "v9"): _BOXES,
    OpClass("Proposal", "v4"): ("rois", "scores"),
    OpClass("RGBtoNV12", "v17"): ("output", "uv?: tensor"),
    OpClass("RNNSequence", "v5"): ("Y", "Ho"),
    OpClass("SparseFillEmptyRows", "v16"): ("indices", "values", "empty_row_indicator"),
    OpClass("Split", "v1"): ("outputs: num_splits * tensor",),
    OpClass("StringTensorUnpack", "v15"): ("begins", "ends", "symbols"),
    OpClass("TensorIterator", "v0"): _VARIADIC,
    OpClass("TopK", "v1"): ("values", "indices"),
    OpClass("TopK", "v11"): ("values", "indices"),
    OpClass("TopK", "v3"): ("values", "indices"),
    OpClass("Unique", "v10"): ("values", "first_indices", "inverse_indices", "counts"),
    OpClass("VariadicSplit", "v1"): ("*outputs: tensor",),
}
# Attributes that the library does not report for ops created without inputs: bodies,
# the value of a constant, and variables, without which creation ends the process.
_KNOWN_ATTRS: Mapping[OpClass, tuple[str, ...]] = {
    OpClass("Assign", "v6"): ("variable_id: string",),
    OpClass("Constant", "v0"): ("element_type: dtype", "shape: shape", "value: tensor"),
    OpClass("If", "v8"): ("then_body: graph", "else_body: graph"),
    OpClass("Loop", "v5"): ("body: graph",),
    OpClass("ReadValue", "v6"): (
        "variable_id: string",
        "variable_type: dtype",
        "variable_shape: shape",
    ),
    OpClass("TensorIterator", "v0"): ("body: graph",),
}
_INPUTS: Mapping[OpClass, tuple[str, ...]] = {
    OpClass("If", "v8"): ("condition: tensor", "*inputs: any >= 0"),
    OpClass("Loop", "v5"): (
        "trip_count: tensor",
        "execution_condition: tensor",
        "*inputs: any >= 0",
    ),
    OpClass("TensorIterator", "v0"): ("*inputs: any >= 0",),
}
_TRAITS = {
    "Assign": "stateful",
    "Multinomial": "nondeterministic",
    "RandomUniform": "nondeterministic",
    "ReadValue": "stateful",
}


class OpenVINOExtractor(Extractor):
    """All opsets; version 16 is opset16."""

    header = DictionaryHeader(namespace="amanda/openvino", versions=())

    def installed_ops(self) -> InstalledOps:
        # not imported: importing sends telemetry from a forked process
        with requires_framework("openvino", "openvino"):
            release = version("openvino")
        found = find_spec("openvino")
        assert found is not None
        assert found.origin is not None
        wheel = OpenVINOWheel(Path(found.origin).parent)
        versions = {
            str(number): [wheel.op_def(key) for key in keys]
            for number, keys in wheel.opsets.items()
        }
        return InstalledOps(f"openvino {release}", versions)


@dataclass(frozen=True)
class OpenVINOWheel:
    """The installed package `openvino`, read from its folder."""

    package: Path

    @property
    def include(self) -> Path:
        return self.package / "include"

    @cached_property
    def opsets(self) -> dict[int, list[OpClass]]:
        return read_opsets(self.include)

    @cached_property
    def constructors(self) -> dict[OpClass, list[list[str]]]:
        return read_constructors(self.include)

    @cached_property
    def builders(self) -> dict[OpClass, Builder]:
        """The first builder of each class."""
        found: dict[OpClass, Builder] = {}
        for builder in read_builders(self.package):
            for key in self.opsets[builder.opset]:
                if key.op == builder.op:
                    found.setdefault(key, builder)
        return found

    @cached_property
    def attributes(self) -> dict[OpClass, dict[str, dict[str, Any]]]:
        """The attributes of each class, from the library."""
        found: dict[OpClass, dict[str, dict[str, Any]]] = {}
        known = read_enum_values(self.include)
        for number, keys in self.opsets.items():
            new = [key for key in keys if key not in found]
            docs = {b.op: b.doc for k, b in self.builders.items() if k in new}
            more = {op: re.findall(r"[A-Za-z_]+", doc) for op, doc in docs.items()}
            ops = {key.op: [*known, *more.get(key.op, ())] for key in new}
            answers = probe_attributes(f"opset{number}", ops)
            found |= {key: answers.get(key.op, {}) for key in new}
        return found

    def op_def(self, key: OpClass) -> OpDef:
        """The op definition of a class."""
        builder = self.builders.get(key)
        inputs = _INPUTS.get(key) or self.inputs(key)
        attrs = _KNOWN_ATTRS.get(key) or self.formatted_attributes(key)
        head = ", ".join([*inputs, *(["*", *attrs] if attrs else [])])
        outputs = ", ".join(map(_format_port, _OUTPUTS.get(key, ("output",))))
        trait = f"  [{_TRAITS[key.op]}]" if key.op in _TRAITS else ""
        text = f"{key.op}({head}) -> ({outputs}){trait}  #class={key.version}"
        doc = first_sentence(builder.doc) if builder is not None else ""
        return replace(parse_signature(text), doc=doc)

    def inputs(self, key: OpClass) -> tuple[str, ...]:
        """Inputs of the constructors, with the names of the builder."""
        taken = sorted(self.constructors[key], key=lambda names: len(names))
        if len(taken[-1]) == 1 and taken[-1][0].startswith("*"):
            return (f"{taken[-1][0]}: tensor",)
        single = [inputs for inputs in taken if not any(n[0] == "*" for n in inputs)]
        names = list(single[-1])
        least = min(map(len, single))
        if key in self.builders:
            named = [port.name for port in self.builders[key].inputs]
            names[: len(named)] = named[: len(names)]
        return tuple(
            f"{name}{'?' if i >= least else ''}: tensor" for i, name in enumerate(names)
        )

    def formatted_attributes(self, key: OpClass) -> tuple[str, ...]:
        """Attributes in signature syntax."""
        given = self.attributes[key].items()
        builder = self.builders.get(key)
        return tuple(format_attr(_attr(name, row, builder)) for name, row in given)


def probe_attributes(opset: str, ops: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Query the attributes of ops from the library, with candidate enum values of each.

    This runs in a separate process, since creating some ops ends it; those are skipped.
    """
    found: dict[str, Any] = {}
    passed: list[str] = []
    content = json.dumps({op: list(words) for op, words in ops.items()})
    command = [
        sys.executable,
        "-m",
        "amanda_dictionaries_dev.openvino.library_probe",
        opset,
    ]
    while True:
        done = subprocess.run(
            [*command, *passed], input=content, capture_output=True, text=True
        )
        begun = ""
        for kind, op, *answer in map(json.loads, done.stdout.splitlines()):
            begun = op
            if kind != "begin":
                passed.append(op)
            if kind == "found":
                found[op] = answer[0]
        if done.returncode == 0:
            return found
        if done.returncode > 0 or not begun or begun in passed:
            raise NamespaceError(
                f"the attributes of OpenVINO's {opset} cannot be queried",
                got=done.stderr[-400:],
                where=begun or None,
            )
        passed.append(begun)


def _format_port(text: str) -> str:
    return text if ":" in text else f"{text}: tensor"


def _attr(name: str, row: Mapping[str, Any], builder: Builder | None) -> Attr:
    """An attribute, from the library and the builder.

    The default is the builder's, if it has one. The library's defaults are initial
    values of members, which are meaningful only if a constructor may keep them; so
    without a builder, an attribute whose value is zero or empty is required.
    """
    kind, allowed = row["kind"], tuple(row.get("allowed", ()))
    default = _to_python(kind, row["default"])
    if builder is None:
        required = not default
    else:
        given = builder.given.get(name)
        required = given is not None and given.required
        if given is not None and given.default is not None:
            default = _to_python(kind, _match_case(given.default, allowed))
    return Attr(name, kind, required, None if required else default, allowed)


def _match_case(value: Any, allowed: Iterable[str]) -> Any:
    """Builders have `"NUMPY"` where the library has `numpy`; it accepts both."""
    same = [w for w in allowed if isinstance(value, str) and w.lower() == value.lower()]
    return same[0] if same else value


def _to_python(kind: str, value: Any) -> Any:
    if kind == "dtype":
        return parse_dtype_name(str(value).replace("f8e4m3", "f8e4m3fn"))
    if kind == "float":
        return round_to_float32(float(value))
    return tuple(value) if isinstance(value, list) else value


OPENVINO = OpenVINOExtractor()
