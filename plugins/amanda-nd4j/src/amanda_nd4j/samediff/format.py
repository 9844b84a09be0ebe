"""The format of SameDiff's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from amanda.dictionary import version_key
from amanda.files import replace_file
from amanda.formatkit import MessageFile, file_errors
from amanda.graph import Graph
from amanda_nd4j.namespace import PATH, installed_files

__all__ = ["Format"]

_MEMBER: Final = "model"


class Format:
    """Reads and writes `.fb`, `.sdnb` and `.sdz` files, without Deeplearning4j.

    The names of arguments are those of the op descriptors in `AMANDA_ND4J_OPS`.
    """

    def read(self, source: Path | bytes | Any) -> Graph:
        """The graph of a file; data of arrays stays in it."""
        from amanda_nd4j.samediff.archives import parts_of
        from amanda_nd4j.samediff.reader import read_flat_graph, read_parts

        namespace = f"{PATH}/{max(installed_files(), key=version_key)}"
        with file_errors(source):
            tables, generation = read_parts(parts_of(MessageFile.open(source)))
            return read_flat_graph(tables, generation, namespace)

    def write(self, graph: Graph, path: Path) -> None:
        """Write a file; its suffix says which of the three."""
        from amanda_nd4j.samediff.archives import sdnb_of, write_sdz
        from amanda_nd4j.samediff.schema import CURRENT
        from amanda_nd4j.samediff.tables import write_root
        from amanda_nd4j.samediff.writer import flat_graph

        path = Path(path)
        with file_errors(path):
            content = write_root(flat_graph(graph), CURRENT, "FlatGraph")
            with replace_file(path) as file:
                if path.suffix == ".sdz":
                    write_sdz(file, content, _MEMBER)
                else:
                    file.write(sdnb_of(content) if path.suffix == ".sdnb" else content)
