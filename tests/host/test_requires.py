"""Which requirements on amanda-core a core of some version meets."""

from __future__ import annotations

import pytest

from amanda.host._requires import requirement_fault


@pytest.mark.parametrize(
    ("requires", "version", "fits"),
    [
        ([], "1.0", True),
        (["numpy>99"], "1.0", True),
        (["amanda-core"], "1.0", True),
        (["amanda-core>=1.2,<2"], "1.4.1", True),
        (["amanda-core>=1.2,<2"], "2.0", False),
        (["amanda-core>=1.2,<2"], "1.1", False),
        (["Amanda.Core ~= 1.2"], "1.9", True),
        (["amanda_core!=1.4.*"], "1.4.2", False),
        (["amanda-core>=1.2", "amanda-core<1.5"], "1.5", False),
        (["amanda-core>=1.4"], "1.4.0.dev3", True),
        (["amanda-core>=1.4"], "1.4.0rc1+local", True),
        (["amanda-core<2"], "2.0.dev1", False),
        (["amanda-core>9; python_version<'3'"], "1.0", True),
        (["amanda-core<1; python_version>='3'"], "1.0", False),
        (["amanda-core @ https://example.org/a.whl"], "1.0", True),
        (["amanda-core-extras<1"], "1.0", True),
    ],
)
def test_range(requires, version, fits):
    assert (requirement_fault(requires, version=version) == "") is fits


def test_extras_count_when_they_are_meant():
    requires = ['amanda-core<1; extra == "old"', 'amanda-core>=1; extra == "new"']
    both = ("old", "new")
    assert requirement_fault(requires, both, version="1.0") == ""
    assert requirement_fault(requires, both, ["old"], version="1.0") == (
        "made for amanda-core <1; this is 1.0"
    )
    assert requirement_fault(requires[:1], ["old"], version="1.0") != ""
    assert (
        requirement_fault([*requires[:1], "amanda-core"], ["old"], version="1.0") == ""
    )


def test_what_cannot_be_read_is_told():
    assert requirement_fault(["amanda-core >>1"], version="1.0") == (
        "its requirement 'amanda-core >>1' cannot be read"
    )
    assert requirement_fault(["other >>1"], version="1.0") == ""
