"""Rows of schemas as they were released, beside what onnx says of the same ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import amanda
from amanda_dictionaries_dev.onnx.extractor import op_def_of_schema
from amanda_dictionaries_dev.onnx.released_opsets import RELEASED, op_def_of_row

defs = pytest.importorskip("onnx.defs", reason="needs onnx, to compare with")


def row_of(schema: Any) -> dict[str, Any]:
    """A schema as a row, in the way of onnx' own attributes."""
    from onnx import helper

    def port(given: Any) -> dict[str, Any]:
        return {
            "name": given.name,
            "type": given.type_str,
            "option": given.option.name.lower(),
            "homogeneous": given.is_homogeneous,
            "min": given.min_arity,
        }

    attrs: dict[str, Any] = {}
    for name, attr in schema.attributes.items():
        attrs[name] = {"type": attr.type.name.lower(), "required": attr.required}
        if attr.default_value.type:
            value = helper.get_attribute_value(attr.default_value)
            attrs[name]["default"] = value.decode() if type(value) is bytes else value
    return {
        "since": schema.since_version,
        "deprecated": schema.deprecated,
        "support": schema.support_level.name.lower(),
        "inputs": list(map(port, schema.inputs)),
        "outputs": list(map(port, schema.outputs)),
        "attrs": attrs,
        "types": {
            each.type_param_str: each.allowed_type_strs
            for each in schema.type_constraints
        },
        "doc": schema.doc,
    }


def test_rows_say_what_schemas_say() -> None:
    compared = 0
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain:
            expected = op_def_of_schema(schema)
            traits = expected.traits - {"function", "nondeterministic"}
            row = row_of(schema)
            assert op_def_of_row(schema.name, row) == replace(expected, traits=traits)
            compared += 1
    assert compared > 600


def test_the_installed_one_knows_its_own_newest_opset() -> None:
    (version,) = RELEASED.installed_ops().versions
    assert int(version) == defs.onnx_opset_version()
    assert RELEASED.extract(None) is None


def test_documentation_is_that_of_the_schemas() -> None:
    """It is the start of each description, without markup."""
    onnx = amanda.namespace("onnx")
    checked = 0
    for name in onnx:
        schema = defs.get_schema(name, int(onnx.version), "")
        parts = {p.name: p.description for p in (*schema.inputs, *schema.outputs)}
        for port in (*onnx[name].inputs, *onnx[name].outputs):
            described = _letters(parts[port.name])
            assert bool(port.doc) == bool(described)
            checked += described.startswith(_letters(port.doc.removesuffix(" ...")))
    assert checked > 600


def _letters(text: str) -> str:
    return re.sub(r"<[^>]*>|\W", "", text)
