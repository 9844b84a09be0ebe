"""SavedModel, MetaGraphDef and checkpoints, as saved_model.proto declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amanda.formatkit import ProtoSchema
from amanda_tf.messages import SCHEMA

__all__ = ["SAVED"]

SAVED: Final = ProtoSchema.parse(
    "\n".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("tensorflow.proto", "saved_model.proto")
    ),
    located=SCHEMA.located,
)
"""The messages of SCHEMA, and those of these files."""
