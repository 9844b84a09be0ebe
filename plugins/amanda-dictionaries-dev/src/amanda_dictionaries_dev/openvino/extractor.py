"""The dictionary of OpenVINO: its opsets, as the installed library has them.

Four places of one wheel say one part each:

    opset tables       which ops an opset has, and of which class (`Interpolate`, `v11`)
    C++ constructors   how many inputs an op takes at least and at most
    Python builders    what inputs are called, which attributes have to be given
    the library        attributes, their kinds, defaults and words, asked one by one

Names of outputs stand nowhere, and how many there are only shows when an op is made
with inputs that fit: the few ops with several are a table here, which a test compares.
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
    Key,
    constructors,
    opsets,
    words,
)
from amanda_dictionaries_dev.openvino.python_builders import Builder, builders

__all__ = ["OPENVINO", "OpenVINOExtractor"]

_DETECTED = ("selected_outputs", "selected_indices", "selected_num")
_BOXES = ("selected_indices", "selected_scores", "valid_outputs")
_MANY = ("*outputs: any >= 0",)
_POOLED = ("output", "indices")
_OUTPUTS: Mapping[Key, tuple[str, ...]] = {
    Key("AdaptiveMaxPool", "v8"): _POOLED,
    Key("BGRtoNV12", "v17"): ("output", "uv?: tensor"),
    Key("CTCGreedyDecoderSeqLen", "v6"): ("classes", "lengths"),
    Key("ConvertPromoteTypes", "v14"): ("left", "right"),
    Key("ExperimentalDetectronDetectionOutput", "v6"): ("boxes", "classes", "scores"),
    Key("ExperimentalDetectronGenerateProposalsSingleImage", "v6"): ("rois", "scores"),
    Key("ExperimentalDetectronROIFeatureExtractor", "v6"): ("features", "rois"),
    Key("GRUSequence", "v5"): ("Y", "Ho"),
    Key("GenerateProposals", "v9"): ("rois", "scores", "rois_num"),
    Key("If", "v8"): _MANY,
    Key("LSTMCell", "v0"): ("Ho", "Co"),
    Key("LSTMCell", "v4"): ("Ho", "Co"),
    Key("LSTMSequence", "v5"): ("Y", "Ho", "Co"),
    Key("Loop", "v5"): _MANY,
    Key("MatrixNms", "v8"): _DETECTED,
    Key("MaxPool", "v14"): _POOLED,
    Key("MaxPool", "v8"): _POOLED,
    Key("MulticlassNms", "v8"): _DETECTED,
    Key("MulticlassNms", "v9"): _DETECTED,
    Key("NMSRotated", "v13"): _BOXES,
    Key("NonMaxSuppression", "v5"): _BOXES,
    Key("NonMaxSuppression", "v9"): _BOXES,
    Key("Proposal", "v4"): ("rois", "scores"),
    Key("RGBtoNV12", "v17"): ("output", "uv?: tensor"),
    Key("RNNSequence", "v5"): ("Y", "Ho"),
    Key("SparseFillEmptyRows", "v16"): ("indices", "values", "empty_row_indicator"),
    Key("Split", "v1"): ("outputs: num_splits * tensor",),
    Key("StringTensorUnpack", "v15"): ("begins", "ends", "symbols"),
    Key("TensorIterator", "v0"): _MANY,
    Key("TopK", "v1"): ("values", "indices"),
    Key("TopK", "v11"): ("values", "indices"),
    Key("TopK", "v3"): ("values", "indices"),
    Key("Unique", "v10"): ("values", "first_indices", "inverse_indices", "counts"),
    Key("VariadicSplit", "v1"): ("*outputs: tensor",),
}
# What the library says of no op that is made without inputs: bodies, the content of a
# constant, and variables, without which making one ends the process.
_STATED: Mapping[Key, tuple[str, ...]] = {
    Key("Assign", "v6"): ("variable_id: string",),
    Key("Constant", "v0"): ("element_type: dtype", "shape: shape", "value: tensor"),
    Key("If", "v8"): ("then_body: graph", "else_body: graph"),
    Key("Loop", "v5"): ("body: graph",),
    Key("ReadValue", "v6"): (
        "variable_id: string",
        "variable_type: dtype",
        "variable_shape: shape",
    ),
    Key("TensorIterator", "v0"): ("body: graph",),
}
_INPUTS: Mapping[Key, tuple[str, ...]] = {
    Key("If", "v8"): ("condition: tensor", "*inputs: any >= 0"),
    Key("Loop", "v5"): (
        "trip_count: tensor",
        "execution_condition: tensor",
        "*inputs: any >= 0",
    ),
    Key("TensorIterator", "v0"): ("*inputs: any >= 0",),
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

    def installed(self) -> InstalledOps:
        # found and not imported, as importing it sends reports from a forked process
        with requires_framework("openvino", "openvino"):
            release = version("openvino")
        found = find_spec("openvino")
        assert found is not None
        assert found.origin is not None
        wheel = Wheel(Path(found.origin).parent)
        versions = {
            str(number): [wheel.entry(key) for key in keys]
            for number, keys in wheel.opsets.items()
        }
        return InstalledOps(f"openvino {release}", versions)


@dataclass(frozen=True)
class Wheel:
    """What the installed package `openvino` says, read from its folder."""

    package: Path

    @property
    def include(self) -> Path:
        return self.package / "include"

    @cached_property
    def opsets(self) -> dict[int, list[Key]]:
        return opsets(self.include)

    @cached_property
    def constructors(self) -> dict[Key, list[list[str]]]:
        return constructors(self.include)

    @cached_property
    def builders(self) -> dict[Key, Builder]:
        """The first builder of each class."""
        found: dict[Key, Builder] = {}
        for builder in builders(self.package):
            for key in self.opsets[builder.opset]:
                if key.op == builder.op:
                    found.setdefault(key, builder)
        return found

    @cached_property
    def attributes(self) -> dict[Key, dict[str, dict[str, Any]]]:
        """What the library says of the attributes of each class."""
        found: dict[Key, dict[str, dict[str, Any]]] = {}
        known = words(self.include)
        for number, keys in self.opsets.items():
            new = [key for key in keys if key not in found]
            told = {b.op: b.doc for k, b in self.builders.items() if k in new}
            more = {op: re.findall(r"[A-Za-z_]+", doc) for op, doc in told.items()}
            ops = {key.op: [*known, *more.get(key.op, ())] for key in new}
            answers = asked(f"opset{number}", ops)
            found |= {key: answers.get(key.op, {}) for key in new}
        return found

    def entry(self, key: Key) -> OpDef:
        """What is known of a class, as an entry."""
        builder = self.builders.get(key)
        inputs = _INPUTS.get(key) or self.inputs(key)
        attrs = _STATED.get(key) or self.written_attributes(key)
        head = ", ".join([*inputs, *(["*", *attrs] if attrs else [])])
        outputs = ", ".join(map(_port, _OUTPUTS.get(key, ("output",))))
        trait = f"  [{_TRAITS[key.op]}]" if key.op in _TRAITS else ""
        text = f"{key.op}({head}) -> ({outputs}){trait}  #class={key.version}"
        doc = first_sentence(builder.doc) if builder is not None else ""
        return replace(parse_signature(text), doc=doc)

    def inputs(self, key: Key) -> tuple[str, ...]:
        """As many as constructors take, under the names that the builder gives."""
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

    def written_attributes(self, key: Key) -> tuple[str, ...]:
        """Attributes as a signature has them."""
        given = self.attributes[key].items()
        builder = self.builders.get(key)
        return tuple(format_attr(_attr(name, row, builder)) for name, row in given)


def asked(opset: str, ops: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """What the library says of the attributes of ops, for each the words to try.

    It is asked in another process, since making some ops ends it; those say nothing.
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
                f"OpenVINO does not say what {opset} has",
                got=done.stderr[-400:],
                where=begun or None,
            )
        passed.append(begun)


def _port(text: str) -> str:
    return text if ":" in text else f"{text}: tensor"


def _attr(name: str, row: Mapping[str, Any], builder: Builder | None) -> Attr:
    """An attribute: what the library says, and what the builder asks for.

    A default is the builder's where it says one. The library's own are what a member
    happens to hold, which means something only where a constructor may leave it so; so
    without a builder, what is zero or empty has to be given.
    """
    kind, allowed = row["kind"], tuple(row.get("allowed", ()))
    default = _plain(kind, row["default"])
    if builder is None:
        required = not default
    else:
        given = builder.given.get(name)
        required = given is not None and given.required
        if given is not None and given.default is not None:
            default = _plain(kind, _as_word(given.default, allowed))
    return Attr(name, kind, required, None if required else default, allowed)


def _as_word(value: Any, allowed: Iterable[str]) -> Any:
    """Builders write `"NUMPY"` where the library says `numpy`; it takes both."""
    same = [w for w in allowed if isinstance(value, str) and w.lower() == value.lower()]
    return same[0] if same else value


def _plain(kind: str, value: Any) -> Any:
    if kind == "dtype":
        return parse_dtype_name(str(value).replace("f8e4m3", "f8e4m3fn"))
    if kind == "float":
        return round_to_float32(float(value))
    return tuple(value) if isinstance(value, list) else value


OPENVINO = OpenVINOExtractor()
