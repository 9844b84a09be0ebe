"""What docs/text-forms.md shows is what is read and written."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from amanda.files.text import readable, yaml_form
from amanda.files.text.document.attribute_values import _DECODERS
from amanda.files.text.document.reader import _FIELDS, _GRAPH_ONLY, MAX_COUNT
from amanda.files.text.document.writer import _MAX_INLINE_DEPTH
from amanda.files.text.syntax.plain_data import MAX_NESTING

PAGE = (Path(__file__).parents[2] / "docs" / "text-forms.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("form", "fence"),
    [(yaml_form, "```yaml\n(.*?)```"), (readable, "```\n(amanda 1.*?)```")],
)
def test_examples_are_written_as_they_stand(form: ModuleType, fence: str) -> None:
    examples = re.findall(fence, PAGE, re.DOTALL)
    assert examples
    for text in examples:
        assert form.dumps(form.loads(text)) == text


def test_every_field_kind_and_limit_is_told() -> None:
    rows = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert {*_FIELDS, "bodies", *_GRAPH_ONLY, *_DECODERS} <= rows
    assert f"at most {MAX_NESTING} deep" in PAGE.replace("\n", " ")
    assert f"at most {MAX_COUNT};" in PAGE
    assert f"to a depth of {_MAX_INLINE_DEPTH}." in PAGE
