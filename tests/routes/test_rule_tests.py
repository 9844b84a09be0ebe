"""`amanda rules NAME --test` for every installed mapping with rules."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amanda.cli import run_command_line
from amanda.cli.rule_mappings import installed_mappings
from amanda.host import default_host

NAMES = [entry.name for entry in default_host().entries("mappings")]


@pytest.fixture(autouse=True)
def _nd4j(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ.get("AMANDA_TEST_DATA", "")) / "dl4j" / "2025"
    if folder.is_dir():
        rules = [folder / f"{n}-mapping-ruleset.pbtxt" for n in ("tensorflow", "onnx")]
        monkeypatch.setenv("AMANDA_ND4J_OPS", str(folder / "nd4j-op-def.pbtxt"))
        monkeypatch.setenv("AMANDA_ND4J_RULES", os.pathsep.join(map(str, rules)))


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_is_named_with_its_sample(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [each for each in installed_mappings() if each.entry.name == name]
    if not found:
        pytest.skip(f"{name} has no rules, or lacks its files")
    code = run_command_line(["rules", name, "--test", "--json"])
    data = json.loads(capsys.readouterr().out)
    rules = found[0].mapping.rules
    directions = sum(row.runs(way) for row in rules.rows for way in (True, False))
    assert len(data["tests"]) == directions + len(rules.functions)
    assert {each["rule"] for each in data["tests"]} == {
        rule.id for rule in (*rules.rows, *rules.functions)
    }
    for each in data["tests"]:
        assert each["sample"] if each["result"] == "passed" else each["why"], each
    assert data["broken_lenses"] == {}
    assert data["not_back"] == []
    assert code == 0
