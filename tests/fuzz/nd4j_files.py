"""Files of nd4j: op descriptors and rule sets, as text of protobuf."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from fuzz.graph_files import change_text
from fuzz.readers import Mutant, Reader
from fuzz.stages import REFUSED, run_stage

from amanda_nd4j.namespace import Descriptor, descriptors, from_file
from amanda_nd4j.rulesets import Declaration, read_declarations
from amanda_nd4j.translation import translate_declarations

__all__ = ["READERS"]

_OPS = """
opList {
  name: "conv"
  argDescriptor { name: "weights" argType: INPUT_TENSOR argIndex: 1 }
  argDescriptor { name: "input" argType: INPUT_TENSOR }
  argDescriptor { name: "outputs" argType: OUTPUT_TENSOR }
  argDescriptor { name: "kH" argType: INT64 }
  argDescriptor { name: "kW" argType: INT64 argIndex: 1 }
  argDescriptor { name: "rate" argType: DOUBLE }
  argDescriptor { name: "same" argType: BOOL }
  argDescriptor { name: "dtype" argType: DATA_TYPE }
  opDeclarationType: CONFIGURABLE_OP_IMPL
}
opList { name: "relu" argDescriptor { name: "input" argType: INPUT_TENSOR } }
# a comment
opList {
  name: "sum"
  argDescriptor { name: "(block.numI()" argType: INT64 }
  argDescriptor { name: "keep_dims" argType: BOOL }
  argDescriptor { name: "dimensions" argType: INPUT_TENSOR argIndex: 1 }
}
"""
_RULES = """
mappings {
  frameworkName: "tensorflow" opName: "relu" inputFrameworkOpName: "Relu"
  rule { ruleName: "ndarraymapping" functionName: "ndarraymapping"
    inputTensorName: "features" outputTensorName: "input"
    inputToOutput { key: "input" value: "features" } ruleType: "tensor"
    inputFrameworkOpName: "Relu" }
}
mappings {
  frameworkName: "tensorflow" opName: "conv" inputFrameworkOpName: "Conv2D"
  rule { ruleName: "ndarraymapping"
    inputToOutput { key: "input" value: "input" }
    inputToOutput { key: "weights" value: "filter" } }
  rule { ruleName: "conditionalfieldvalueintindex"
    inputToOutput { key: "kH" value: "strides" }
    transformerArgs { key: "kH"
      transformerArgs { name: "targetValue" argType: STRING stringValue: "NCHW" }
      transformerArgs { name: "trueIndex" argType: INT64 int64Value: 2 }
      transformerArgs { name: "falseIndex" argType: INT64 int64Value: 1 argIndex: 1 }
      transformerArgs { name: "attributeNameOfListAttribute"
        stringValue: "data_format" } } }
  rule { ruleName: "stringequals" inputToOutput { key: "same" value: "padding" }
    transformerArgs { key: "same"
      transformerArgs { name: "same" argType: STRING stringValue: "SAME" } } }
  rule { ruleName: "argdescriptorconstant"
    transformerArgs { key: "value"
      transformerArgs { name: "rate" argType: DOUBLE doubleValue: 0.5 } } }
}
mappings {
  frameworkName: "tensorflow" opName: "sum" inputFrameworkOpName: "Sum"
  rule { ruleName: "ndarraymapping" inputToOutput { key: "input" value: "input" }
    inputToOutput { key: "dimensions" value: "reduction_indices" } }
  rule { ruleName: "invertbooleannumber"
    inputToOutput { key: "keep_dims" value: "keep_dims" } }
  rule { ruleName: "ndarraytointattributevalue"
    inputToOutput { key: "dimensions" value: "reduction_indices" } }
}
"""


@cache
def _descriptors(folder: Path) -> list[Descriptor]:
    file = folder / "descriptors.pbtxt"
    file.write_text(_OPS)
    return descriptors(file)


@cache
def _declarations(folder: Path) -> list[Declaration]:
    file = folder / "declarations.pbtxt"
    file.write_text(_RULES)
    return read_declarations(file)


def _try_ops(path: Path, folder: Path, choose: random.Random) -> str:
    """Read descriptors as a dictionary, and translate rule sets with them."""
    history = run_stage("read", from_file, path)
    if history is None:
        return REFUSED
    dictionary = history.at("1")
    for name in dictionary:
        assert str(dictionary[name])
    ops = descriptors(path)
    rules = _declarations(folder)
    made = run_stage("translate", translate_declarations, "tensorflow", rules, ops)
    return "read" if made is None else "translated"


def _try_rules(path: Path, folder: Path, choose: random.Random) -> str:
    """Read rule sets, and translate them."""
    found = run_stage("read", read_declarations, path)
    if found is None:
        return REFUSED
    found = [each for each in found if each.framework == "tensorflow"]
    ops = _descriptors(folder)
    made = run_stage("translate", translate_declarations, "tensorflow", found, ops)
    return "read" if made is None else "translated"


READERS = [
    Reader(
        "nd4j-ops",
        3,
        lambda: (Mutant("pbtxt", _OPS.encode()),),
        change_text,
        _try_ops,
    ),
    Reader(
        "nd4j-rules",
        3,
        lambda: (Mutant("pbtxt", _RULES.encode()),),
        change_text,
        _try_rules,
    ),
]
