"""The conformance suite of plug-ins, on the extractors."""

from __future__ import annotations

from amanda.testing import PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-dictionaries-dev"
