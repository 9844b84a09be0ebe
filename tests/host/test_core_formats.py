"""The core's own formats, by the suites that every plug-in has to pass."""

from __future__ import annotations

import pytest

import amanda
from amanda.host import default_host
from amanda.testing import FormatSuite, PluginSuite, skip

LATE = ("numpy", "ml_dtypes", "google.protobuf", "yaml", "msgspec")


class TestCore(PluginSuite):
    dist = "amanda-core"

    def check_says_which_core_it_is_for(self):
        skip("it is the core")

    def check_is_listed_without_import(self):
        skip("it does the listing")


class TestAmanda(FormatSuite):
    format = "amanda"
    late = LATE


class TestJson(FormatSuite):
    format = "json"
    late = LATE


class TestPb(FormatSuite):
    format = "pb"
    late = LATE


class TestText(FormatSuite):
    format = "text"
    late = LATE


class TestYaml(FormatSuite):
    format = "yaml"
    late = LATE


def test_these_are_all():
    suites = [suite for suite in globals().values() if isinstance(suite, type)]
    tested = {suite.format for suite in suites if hasattr(suite, "format")}
    entries = default_host().entries("formats")
    assert tested == {e.name for e in entries if e.dist == "amanda-core"}


@pytest.mark.parametrize("format", ["amanda", "pb"])
def test_binary_files_are_known_without_their_suffix(tmp_path, format):
    graph = amanda.Graph("some/space/1", name="known")
    amanda.save(graph, tmp_path / "nameless", format)
    assert amanda.load(tmp_path / "nameless").name == "known"
