"""What every plug-in must do."""

from __future__ import annotations

from amanda.testing import PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-tools"
