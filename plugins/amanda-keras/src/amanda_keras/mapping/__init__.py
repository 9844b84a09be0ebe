"""The mapping from Keras to the hub.

side.py          Keras as one side of mappings: models inlined, arguments normalized
masks.py         the masks that layers pass on implicitly, as arguments of calls
layer_calls.py   mapping functions with the arguments of a layer
activations.py   activation functions by name
interpolation.py images of another size

`read_*.py` are functions from layers and operations, by theme.
"""

from __future__ import annotations

from amanda.mapping import HubMapping
from amanda_keras.mapping.side import keras_side

__all__ = ["MAPPING"]

MAPPING = HubMapping("keras-std", "amanda/keras", side=keras_side, package=__name__)
"""The entry `keras-std` of `amanda.mappings`."""
