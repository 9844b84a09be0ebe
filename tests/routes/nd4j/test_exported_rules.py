"""The rules of nd4j's mappings, exported in each form and read back with their code."""

from __future__ import annotations

from pathlib import Path

import pytest
from routes.nd4j.account import settings

from amanda.cli import run_command_line
from amanda.cli.rule_mappings import installed_mappings
from amanda.mapping import RuleSet


@pytest.mark.parametrize("form", ["yaml", "proto", "text"])
@pytest.mark.parametrize("name", ["nd4j-tensorflow", "nd4j-onnx", "nd4j-std"])
def test_exported_rules_are_read(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    for variable, value in settings(data).items():
        monkeypatch.setenv(variable, value)
    (found,) = (each for each in installed_mappings() if each.entry.name == name)
    rules = found.mapping.rules
    suffix = {"yaml": "yaml", "proto": "pb", "text": "rules"}[form]
    file = tmp_path / f"rules.{suffix}"
    assert run_command_line(["rules", name, "--to", form, "--output", str(file)]) == 0
    again = RuleSet("again", rules.left, rules.right)
    again.callables = dict(rules.callables)
    for lens_name, lens in rules.lenses.items():
        if form == "text" or not lens.rows:  # a table is in the other two
            again.lenses[lens_name] = lens
    again.load(file)
    assert [row.full_text for row in again.rows] == [
        row.full_text for row in rules.rows
    ]
