"""The op dictionaries, as data files beside this one; `index.json` lists them.

Every vocabulary stands here under its path with underscores, `onnx_ml` for
`amanda/onnx.ml`: that is what the entry points of this distribution name. Opening one
reads no file; `amanda.dictionary` does when it is asked for something.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.dictionary import DictionaryHistory

__version__ = "0.1.0"


def __getattr__(name: str) -> DictionaryHistory:
    from amanda.dictionary import DictionaryFolder

    shelf = DictionaryFolder(files(__name__), "amanda-namespaces")
    for path in () if name.startswith("__") else shelf:
        history = shelf[path]
        globals()[_called(path)] = history
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]  # type: ignore[no-any-return]


def _called(path: str) -> str:
    """
    >>> _called("amanda/onnx.ml")
    'onnx_ml'
    """
    return path.rpartition("/")[2].replace(".", "_").replace("-", "_")
