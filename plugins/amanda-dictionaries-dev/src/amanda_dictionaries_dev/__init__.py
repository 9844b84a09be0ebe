"""Extract op dictionaries from installed frameworks, and compare the two.

    extractor.py       what an extractor is; helpers for those who write one
    raw_data.py        files of data extracted from many releases of a framework
    merging.py         adding the installed version to a dictionary history
    comparison.py      a dictionary compared with the installed framework
    data_folder.py     writing data files, their index and manifest
    command.py         `amanda namespace`
    tensorflow/, torch/, keras/, tflite/, openvino/, onnx/, onnxruntime/, jax/
                       the extractors, one folder for each framework

This is a development tool: the dictionaries themselves are in `amanda-namespaces`, and
reading them needs neither this package nor any framework.
"""

from __future__ import annotations

from amanda_dictionaries_dev.comparison import Comparison, compare
from amanda_dictionaries_dev.data_folder import manifest_text, save
from amanda_dictionaries_dev.extractor import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    first_sentence,
    requires_framework,
    sort_patterns,
)
from amanda_dictionaries_dev.merging import merge_versions
from amanda_dictionaries_dev.raw_data import RawData, op_histories, read_raw_data

__all__ = [
    "Comparison",
    "ExtractedDictionary",
    "Extractor",
    "InstalledOps",
    "RawData",
    "compare",
    "first_sentence",
    "manifest_text",
    "merge_versions",
    "op_histories",
    "read_raw_data",
    "requires_framework",
    "save",
    "sort_patterns",
]
