"""Examples in the help of verbs, from the docstrings of their functions.

The lines after `Examples:` are commands, which tests run in the folder examples/digits.
One whose exit code is not 0 states it: `amanda check a.onnx --for jax  # exit code 1`.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

__all__ = ["Example", "split_examples"]

_TITLE = re.compile(r"^Examples:\n", re.MULTILINE)
_CODE = re.compile(r"\s+# exit code (\d+).*$")


class Example(NamedTuple):
    """A command line and its exit code.

    >>> Example.parse("amanda check a.onnx --for jax  # exit code 1: it has gaps")
    Example(command='amanda check a.onnx --for jax', exit_code=1)
    """

    command: str
    exit_code: int = 0

    @classmethod
    def parse(cls, line: str) -> Example:
        found = _CODE.search(line)
        return cls(_CODE.sub("", line), int(found[1]) if found else 0)


def split_examples(doc: str) -> tuple[str, list[str]]:
    """The text of a docstring, and the lines of its examples, which end it.

    >>> split_examples("Count.\\n\\n    Examples:\\n        amanda count a.onnx\\n    ")
    ('Count.', ['amanda count a.onnx'])
    """
    text, *examples = _TITLE.split(cleandoc(doc), maxsplit=1)
    lines = examples[0].splitlines() if examples else []
    return text.rstrip(), [line.strip() for line in lines if line.strip()]
