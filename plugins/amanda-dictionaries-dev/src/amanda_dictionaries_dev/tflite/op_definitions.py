"""Op definitions of TensorFlow Lite operators, from the rows of a schema.

The schema lists operators, tables of options and enums separately. The options of an
operator follow from its name, and the enum of a field from the name of the field; the
tables below have the exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amanda.dictionary import Attr, BodyArity, EnumMember, OpDef, parse_signature
from amanda_dictionaries_dev.tflite.operands import NUMBERED, OPERANDS

_OPTIONS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(
        (
            "MEAN",
            "REDUCE_ALL",
            "REDUCE_ANY",
            "REDUCE_MAX",
            "REDUCE_MIN",
            "REDUCE_PROD",
            "SUM",
        ),
        "ReducerOptions",
    ),
    **dict.fromkeys(
        ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), "RandomOptions"
    ),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
_ENUMS = {
    "Algorithm": "RngAlgorithm",
    "Combiner": "CombinerType",
    "CompareType": "StablehloComparisonType",
    "ComparisonDirection": "StablehloComparisonDirection",
    "CompositeAttributesFormat": "CustomOptionsFormat",
    "FusedActivationFunction": "ActivationFunctionType",
    "IdxOutType": "TensorType",
    "InDataType": "TensorType",
    "KernelType": "LSTMKernelType",
    "KeyDtype": "TensorType",
    "Mode": "MirrorPadMode",
    "OutDataType": "TensorType",
    "OutType": "TensorType",
    "OutputType": "TensorType",
    "Padding": "Padding",
    "PrecisionConfig": "StablehloPrecisionConfig",
    "QuantizedBiasType": "TensorType",
    "ReduceFunction": "ReduceWindowFunction",
    "Type": "LSHProjectionType",
    "ValueDtype": "TensorType",
    "WeightsFormat": "FullyConnectedOptionsWeightsFormat",
}
# Fields that refer to a subgraph: bodies, with their numbers of parameters and results
# where the operator fixes them.
_BODIES: Mapping[tuple[str, str], BodyArity | None] = {
    ("CALL", "Subgraph"): BodyArity("inputs", "outputs"),
    ("CALL_ONCE", "InitSubgraphIndex"): BodyArity("0", "0"),
    ("IF", "ElseSubgraphIndex"): BodyArity("inputs - 1", "outputs"),
    ("IF", "ThenSubgraphIndex"): BodyArity("inputs - 1", "outputs"),
    ("STABLEHLO_COMPOSITE", "DecompositionSubgraphIndex"): BodyArity(
        "inputs", "outputs"
    ),
    ("STABLEHLO_REDUCE", "BodySubgraphIndex"): None,
    ("STABLEHLO_REDUCE_WINDOW", "BodySubgraphIndex"): None,
    ("STABLEHLO_SCATTER", "UpdateComputationSubgraphIndex"): None,
    ("STABLEHLO_SORT", "ComparatorSubgraphIndex"): None,
    ("STABLEHLO_WHILE", "BodySubgraphIndex"): BodyArity("inputs", "outputs"),
    ("STABLEHLO_WHILE", "CondSubgraphIndex"): BodyArity("inputs", "1"),
    ("WHILE", "BodySubgraphIndex"): BodyArity("inputs", "outputs"),
    ("WHILE", "CondSubgraphIndex"): BodyArity("inputs", "1"),
}
_BODY_LISTS = {("STABLEHLO_CASE", "BranchSubgraphIndices")}
_STATEFUL = {
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "HASHTABLE",
    "HASHTABLE_FIND",
    "HASHTABLE_IMPORT",
    "HASHTABLE_SIZE",
    "READ_VARIABLE",
    "VAR_HANDLE",
}
_RANDOM = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM",
           "STABLEHLO_RNG_BIT_GENERATOR"}  # fmt: skip
_OPEN = {"CUSTOM", "DELEGATE"}  # user-defined


def operator_definitions(rows: Mapping[str, Any]) -> Iterator[OpDef]:
    """Definitions of all operators of a version."""
    tables = {n.partition(":")[2].lower(): n for n in rows if n.startswith("options:")}
    for name, number in rows.items():
        kind, _, op = name.partition(":")
        if kind != "op":
            continue
        own = f"{op.replace('_', '').lower()}options"
        table = tables.get(_OPTIONS.get(op, own).lower(), "")
        yield _op_def(op, number, table, rows)


def _op_def(op: str, code: int, table: str, rows: Mapping[str, Any]) -> OpDef:
    fields = sorted(rows.get(table, {}).items(), key=lambda item: item[1]["slot"])
    ports = parse_signature(op + OPERANDS.get(op, NUMBERED))
    traits = {"stateful"} if op in _STATEFUL else set()
    traits |= {"nondeterministic"} if op in _RANDOM else set()
    tags = {f"code={code}"}
    if table:
        tags.add(f"options={table.partition(':')[2]}")
    return OpDef(
        op,
        ports.inputs,
        ports.outputs,
        tuple(_attr(op, name, row, rows) for name, row in fields),
        traits=frozenset(traits),
        tags=frozenset(tags),
        open=op in _OPEN,
    )


def _attr(op: str, field: str, row: Mapping[str, Any], rows: Mapping[str, Any]) -> Attr:
    name = to_snake_case(field)
    if (op, field) in _BODIES:
        return Attr(name, "graph", body=_BODIES[op, field])
    if (op, field) in _BODY_LISTS:
        return Attr(name, "graph[]")
    enum = _ENUMS.get(field)
    is_list = row.get("vector", False)
    if enum is not None and not (field == "Padding" and is_list):
        return _enum_attr(name, enum, row, rows)
    kind = row["type"] if row["type"] in ("bool", "string") else _kind(row["type"])
    if is_list or kind == "string":  # may be absent
        return Attr(name, kind + ("[]" if is_list else ""), required=False)
    return Attr(name, kind, required=False, default=row["default"])


def _kind(type_: str) -> str:
    return "float" if type_.startswith("float") else "int"


def _enum_attr(
    name: str, enum: str, row: Mapping[str, Any], rows: Mapping[str, Any]
) -> Attr:
    numbers: Mapping[str, int] = rows[f"enum:{enum}"]
    members = tuple(
        EnumMember(member, number)
        for member, number in sorted(numbers.items(), key=lambda item: item[1])
    )
    if row.get("vector"):
        return Attr(name, f"enum<{enum}>[]", required=False, allowed=members)
    (default,) = (member for member in members if member.number == row["default"])
    return Attr(name, f"enum<{enum}>", required=False, default=default, allowed=members)


def to_snake_case(name: str) -> str:
    """The name of a field in the schema, which flatbuffers converts to camel case.

    >>> to_snake_case("FusedActivationFunction"), to_snake_case("PotScaleInt16")
    ('fused_activation_function', 'pot_scale_int16')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
