"""The mapping between TensorFlow and the hub, both ways.

side.py            TensorFlow as one side of mappings: what is done before and after
placeholders.py    placeholder ops as parameters
unused_ops.py      what no result needs is left out
layouts.py         data formats and paddings
definitions.py     hub ops as other hub ops that TensorFlow has
operands.py        operands and attributes of ops that are written

Each sub-package is one theme: its rules (`*.rules`) are ops that correspond one to one,
and patterns; `read_*.py` and `write_*.py` are functions from and to TensorFlow, for ops
whose arguments decide what is built.
"""

from __future__ import annotations

from amanda.mapping import HubMapping
from amanda_tf.mapping.definitions import DEFINITIONS
from amanda_tf.mapping.side import tensorflow_side
from amanda_tf.notes import STATE_NOTES

__all__ = ["MAPPING"]

MAPPING = HubMapping(
    "tensorflow-std",
    "amanda/tensorflow",
    side=tensorflow_side,
    package=__name__,
    definitions=DEFINITIONS,
    empty_results=False,
    consumed_notes=STATE_NOTES,
)
"""The entry `tensorflow-std` of `amanda.mappings`."""
