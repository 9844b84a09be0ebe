"""SavedModel folders and MetaGraph files, read and written.

meta_graphs.py      one MetaGraphDef of a file as a graph, and back
signatures.py       SignatureDef and entries of graphs
variable_values.py  which tensor of a checkpoint belongs to which variable
assets.py           the values of a graph that are paths of files beside it
folders.py          the files of a SavedModel
saver.py            variables and the ops that save and restore them, for new files
"""

from __future__ import annotations

from amanda_tf.saved_models.folders import (
    read_meta_graph_file,
    read_saved_model,
    write_meta_graph_file,
    write_saved_model,
)

__all__ = [
    "read_meta_graph_file",
    "read_saved_model",
    "write_meta_graph_file",
    "write_saved_model",
]
