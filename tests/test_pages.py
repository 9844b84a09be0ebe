"""Every Python example of a page runs as it stands and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("*.md", "docs/*.md", "plugins/[!_]*/README.md", "examples/*/README.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for pattern in FOLDERS
    for path in sorted(ROOT.glob(pattern))
}
WITH_PYTHON = [page for page, text in PAGES.items() if "```python\n" in text]
NOT_RUN: dict[str, int] = {}
"""How many blocks of a page cannot run. The page has the reasons."""
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
SHOWN = re.compile(r"^<!-- file: (\w+)", re.MULTILINE)
"""The packages that a page has the files of."""


PLUGIN_OF = {
    ".onnx": "amanda-onnx", ', "onnx@18': "amanda-onnx",
    '"std': "amanda-std", '"amanda/std/1': "amanda-std", '"numpy': "amanda-std",
    '"jax': "amanda-jax", '"onnxruntime': "amanda-onnxruntime",
}  # fmt: skip
"""Plug-ins by the ends of strings in examples that use them."""


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "tools" / "run_page.py")]
    return subprocess.run(
        [*command, str(page)],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )


def modules(page: str) -> set[str]:
    """The modules that the examples of a page import, and plug-ins that they use."""
    code = "".join(re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL))
    plugins = set(re.findall(r"^plugins/(.+)/", page))
    plugins |= {name for text, name in PLUGIN_OF.items() if f'{text}"' in code}
    imported = set(IMPORT.findall(code)) - set(SHOWN.findall(PAGES[page]))
    return imported | {name.replace("-", "_") for name in plugins}


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_page(page: str, tmp_path: Path) -> None:
    missing = [name for name in modules(page) if not installed(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")
    done = run_page(ROOT / page, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f" {NOT_RUN.get(page, 0)} not run" in done.stdout


def installed(module: str) -> bool:
    return module in sys.stdlib_module_names or find_spec(module) is not None


def test_python_is_marked_as_such() -> None:
    """Examples in indented blocks, or as an interpreter session, would not be run."""
    unmarked = re.compile(r"^(?:    (?:import|from) \w|\s*>>> )", re.MULTILINE)
    assert [page for page, text in PAGES.items() if unmarked.search(text)] == []


def test_readers_see_the_names_of_files() -> None:
    for page, text in PAGES.items():
        for name in re.findall(r"^<!-- file: (.+) -->", text, re.MULTILINE):
            assert f"`{name}`" in text, page


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nprint(1)  # 2\n```\n", "page.md:2 says"),
        ("```python\nprint(1)\n```\n\n    2\n", "page.md:2 says"),
        ("```python\nprint(1)\n```\n", "page.md:2 says\n(nothing)"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page.md:2 says"),
        (
            "```python\nx = 1\n```\n\n```python\n\nprint(y)\n```\n",
            "line 7, in <module>",
        ),
    ],
)
def test_a_wrong_page_fails(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(text)
    done = run_page(Path("page.md"), tmp_path)
    assert done.returncode == 1
    assert fault in done.stderr


def test_notes_belong_to_the_next_block(tmp_path: Path) -> None:
    text = (
        "<!-- not run: why -->\n\n```python\n1 / 0\n```\n\n"
        "<!-- file: a.txt -->\n```text\nhello\n```\n\n"
        "```python\nprint(open('a.txt').read())  # hel...\n```\n"
    )
    (tmp_path / "page.md").write_text(text)
    done = run_page(Path("page.md"), tmp_path)
    assert done.stdout == "page.md: 1 blocks run, 1 not run\n", done.stderr
