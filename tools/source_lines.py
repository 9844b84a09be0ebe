"""Count the lines of Python outside of tests, by kind, in revisions of the repository.

    python tools/source_lines.py v0.1.0 HEAD
    python tools/source_lines.py HEAD --without plugins/amanda-tf

Code is what is left without imports, docstrings, comments and blank lines. Statements
do not depend on how lines are wrapped.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections import Counter
from collections.abc import Iterator

KINDS = ("files", "lines", "blank", "comments", "docstrings", "imports", "code")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def git(*args: str, text: bytes | None = None) -> bytes:
    """The output of a git command."""
    return subprocess.run(
        ["git", *args], input=text, check=True, capture_output=True
    ).stdout


def sources(revision: str, without: list[str]) -> Iterator[str]:
    """The text of each Python file of a revision outside of tests."""
    listed = git("ls-tree", "-r", "--name-only", revision).decode().splitlines()
    for path in listed:
        outside = "tests" not in path.split("/") and not path.startswith(tuple(without))
        if outside and path.endswith((".py", ".pyi")):
            yield git("show", f"{revision}:{path}").decode()


def count(text: str) -> Counter[str]:
    """Lines of each kind, and statements other than imports and docstrings."""
    tree, lines = ast.parse(text), text.splitlines()
    counts = Counter({"files": 1, "lines": len(lines)})
    counts["blank"] = sum(not line.strip() for line in lines)
    counts["comments"] = sum(line.lstrip().startswith("#") for line in lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            counts["imports"] += _length(node)
        elif isinstance(node, ast.stmt):
            counts["statements"] += 1
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            counts["docstrings"] += _length(node.body[0])
            counts["statements"] -= 1
    return counts


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="+")
    parser.add_argument("--without", action="append", default=[], metavar="FOLDER")
    args = parser.parse_args()
    header = ("revision", *KINDS, "statements")
    print(" ".join(f"{title:>10}" for title in header))
    for revision in args.revision:
        total = Counter[str]()
        for text in sources(revision, args.without):
            total += count(text)
        other = sum(total[kind] for kind in KINDS[2:6])
        total["code"] = total["lines"] - other
        row = (revision, *(total[kind] for kind in header[1:]))
        print(" ".join(f"{cell:>10}" for cell in row))


if __name__ == "__main__":
    main()
