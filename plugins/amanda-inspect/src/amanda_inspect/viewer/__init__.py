"""Graphs as pages, pictures and files of other viewers."""

from amanda_inspect.viewer.overlays import Overlay, read_overlay
from amanda_inspect.viewer.page import GraphPage, view

__all__ = ["GraphPage", "Overlay", "read_overlay", "view"]
