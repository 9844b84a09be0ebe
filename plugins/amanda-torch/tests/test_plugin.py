"""The plug-in and its entry points. No PyTorch here."""

from __future__ import annotations

from amanda.testing import PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-torch"
