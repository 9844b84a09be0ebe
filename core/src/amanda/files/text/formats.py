"""The text forms as formats, chosen by name or suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from amanda.errors import FormatError, UsageError
from amanda.graph import Graph

__all__ = ["JsonFormat", "TextFormat", "YamlFormat"]

Loads: TypeAlias = Callable[[str | bytes, str], Any]
Dumps: TypeAlias = Callable[[Graph], str]


class _TextFormat:
    """Reads and writes files of one text form."""

    def read(self, source: Path, **options: Any) -> Graph:
        """The graph in a file; a single op is returned in a graph."""
        from amanda.files.atomic import map_file
        from amanda.files.text.document.schema import graph_of_document
        from amanda.files.text.syntax.plain_data import check_size

        _refuse_options(options, "read")
        if not isinstance(source, str | os.PathLike):
            raise FormatError("this format reads files", got=type(source).__name__)
        name = os.fspath(source)
        data = map_file(source)
        check_size(len(data), name)
        loads, _ = self._codec()
        return graph_of_document(loads(bytes(data), name), name)

    def write(self, graph: Graph, path: Path, **options: Any) -> None:
        """Write a graph to a file; an old file is replaced at the end."""
        from amanda.files.atomic import replace_file

        dumps = self._dumps(options)
        data = dumps(graph).encode()
        with replace_file(path) as file:
            file.write(data)

    def _dumps(self, options: dict[str, Any]) -> Dumps:
        """The function that writes the text, from the options."""
        _refuse_options(options, "write")
        return self._codec()[1]

    def _codec(self) -> tuple[Loads, Dumps]:
        """`loads` and `dumps` of the form, imported on first use."""
        raise NotImplementedError


class _SchemaFormat(_TextFormat):
    """A text form with the option `schema`: "exact" (default) or "published"."""

    def _dumps(self, options: dict[str, Any]) -> Dumps:
        schema = options.pop("schema", "exact")
        if schema not in ("exact", "published"):
            raise UsageError(
                "an unknown schema", expected="exact or published", got=repr(schema)
            )
        exact = super()._dumps(options)
        return exact if schema == "exact" else self._published_dumps()

    def _published_dumps(self) -> Dumps:
        """`dumps_published` of the form, imported on first use."""
        raise NotImplementedError


class YamlFormat(_SchemaFormat):
    """`.yaml`: the schema of YAML and JSON, as YAML."""

    def _codec(self) -> tuple[Loads, Dumps]:
        from amanda.files.text import yaml_form

        return yaml_form.loads, yaml_form.dumps

    def _published_dumps(self) -> Dumps:
        from amanda.files.text import yaml_form

        return yaml_form.dumps_published


class JsonFormat(_SchemaFormat):
    """`.json`: the same schema, as JSON."""

    def _codec(self) -> tuple[Loads, Dumps]:
        from amanda.files.text import json_form

        return json_form.loads, json_form.dumps

    def _published_dumps(self) -> Dumps:
        from amanda.files.text import json_form

        return json_form.dumps_published


class TextFormat(_TextFormat):
    """`.amtxt`: the readable form."""

    def _codec(self) -> tuple[Loads, Dumps]:
        from amanda.files.text import readable

        return readable.loads, readable.dumps


def _refuse_options(options: dict[str, Any], verb: str) -> None:
    if options:
        names = ", ".join(sorted(options))
        raise UsageError(f"unknown options to {verb} this format: {names}")
