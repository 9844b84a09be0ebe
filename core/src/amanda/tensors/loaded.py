"""Classes of libraries that the program has imported."""

from __future__ import annotations

import sys

__all__ = ["loaded_class"]


def loaded_class(module: str, name: str) -> type | None:
    """A class of a module, or None unless it is imported; imports nothing.

    A module that another thread is still importing may lack the class, and has no
    objects of it.

    >>> loaded_class("collections", "OrderedDict")
    <class 'collections.OrderedDict'>
    >>> loaded_class("collections", "NotThere"), loaded_class("not_there", "List")
    (None, None)
    """
    return getattr(sys.modules.get(module), name, None)
