"""The op dictionaries, as data files in this folder; `index.json` lists them.

Every dictionary history is an attribute of this module, as the entry points name it:
the path with underscores, `onnx_ml` for `amanda/onnx.ml`. Files are read on first use.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.dictionary import DictionaryHistory

__version__ = "0.1.0"


def __getattr__(name: str) -> DictionaryHistory:
    from amanda.dictionary import DictionaryFolder

    folder = DictionaryFolder(files(__name__), "amanda-namespaces")
    for path in () if name.startswith("__") else folder:
        history = folder[path]
        globals()[_attribute_name(path)] = history
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]  # type: ignore[no-any-return]


def _attribute_name(path: str) -> str:
    """
    >>> _attribute_name("amanda/onnx.ml")
    'onnx_ml'
    """
    return path.rpartition("/")[2].replace(".", "_").replace("-", "_")
