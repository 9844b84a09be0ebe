"""The tables of the README are those of the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", README.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(["the beginning", *parts[1::2]], parts[::2], strict=True))


def test_every_option_is_there():
    from amanda_jax.cpu_tuning.steps import STEPS
    from amanda_jax.settings import Settings

    text = sections()["the beginning"] + sections()["Optimization steps"]
    rows = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == sorted([*Settings._fields, *(step.name for step in STEPS)])


def test_the_table_of_steps_is_that_of_the_code():
    tool = runpy.run_path(str(README.parents[2] / "tools/optimization_steps.py"))
    text = README.read_text("utf-8")
    assert tool["updated_page"](text) == text, "run tools/optimization_steps.py"


def test_steps_for_the_cpu_state_what_they_were_measured_with():
    from amanda_jax.cpu_tuning.steps import STEPS

    assert all(step.reason for step in STEPS)
    assert [s.name for s in STEPS if s.platform == "cpu" and not s.jaxlib] == []
