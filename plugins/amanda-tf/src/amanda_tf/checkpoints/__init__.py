"""Checkpoints: tensor bundles (`x.index`, `x.data-00000-of-00001`), read and written.

crc.py            checksums as TensorFlow masks them
snappy.py         decompression of blocks
table.py          sorted tables of keys and values, the form of index files
slice_keys.py     keys of the slices of partitioned variables
bundle.py         the tensors of a bundle, which stay in its files
bundle_writer.py  writing a bundle
single_file.py    checkpoints of version 1, one file each
graphs.py         checkpoints as graphs of constants
"""

from __future__ import annotations

from amanda_tf.checkpoints.bundle import INDEX, Bundle
from amanda_tf.checkpoints.bundle_writer import write_bundle
from amanda_tf.checkpoints.single_file import is_single_file, read_single_file

__all__ = ["INDEX", "Bundle", "is_single_file", "read_single_file", "write_bundle"]
