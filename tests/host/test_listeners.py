"""Hooks: who is called, with what, and what a bad listener can do (nothing)."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from amanda.errors import UsageError
from amanda.hookspecs import HOOKS
from amanda.host import Host

EVENT = {"graph": "g", "path": "p", "format": "f"}


def test_every_hook_has_a_docstring():
    for name, spec in HOOKS.items():
        assert spec.declaration.__doc__, name
        assert "." in spec.declaration.__doc__, name


def test_listeners_get_what_they_name(caplog):
    host, heard = Host(()), []

    class Listener:
        def __call__(self, path, graph):
            heard.append(("object", path, graph))

        def method(self, format):
            heard.append(("method", format))

    host.register_hook("after_save", lambda: heard.append("nothing"))
    host.register_hook("after_save.a", Listener())
    host.register_hook("after_save.b", Listener().method)
    host.register_hook("after_save.c", lambda **event: heard.append(sorted(event)))
    host.register_hook("after_save.d", lambda path, mine=3: heard.append((path, mine)))
    host.register_hook("after_save.e", lambda *, path="x": heard.append(path))
    assert host.fire("after_save", **EVENT) == []
    assert heard == [
        "nothing",
        ("object", "p", "g"),
        ("method", "f"),
        ["format", "graph", "path"],
        ("p", 3),
        "p",
    ]
    assert caplog.records == []


def test_a_listener_that_raises_ends_nothing(caplog):
    host, heard = Host(()), []
    host.register_hook("after_save.1", lambda path: heard.append(1))
    host.register_hook("after_save.2", lambda path: 1 / 0)
    host.register_hook("after_save.3", lambda path: sys.exit(3))
    host.register_hook("after_save.4", lambda path: heard.append(4))
    host.register_hook(
        "plugin_faulted", lambda name, fault: heard.append((name, fault))
    )
    for _ in range(2):
        host.fire("after_save", **EVENT)
    faults = [
        ("after_save.2", "raised in after_save: ZeroDivisionError: division by zero"),
        ("after_save.3", "raised in after_save: SystemExit: 3"),
    ]
    assert heard == [1, *faults, 4, 1, 4]  # told once, called again
    assert [record.message for record in caplog.records] == [
        f"hook {name!r} of this program: {fault}" for name, fault in faults
    ]
    assert host.find("hooks", "after_save.2").state == "broken"


def test_an_interrupt_passes():
    host = Host(())

    def interrupted(path):
        raise KeyboardInterrupt

    host.register_hook("after_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.fire("after_save", **EVENT)


def test_a_fault_of_who_listens_to_faults_is_told_once(caplog):
    host = Host(())
    host.register_hook("plugin_faulted", lambda fault: 1 / 0)
    host.register_hook("after_save", lambda path: 1 / 0)
    host.fire("after_save", **EVENT)
    assert len(caplog.records) == 2


def test_the_first_answer_counts_where_it_is_for_one():
    host = Host(())
    gap = {"op": "o", "why": (), "build": None, "inputs": []}
    assert host.fire("gap_met", **gap) is None
    host.register_hook("gap_met.1", lambda op: None)
    host.register_hook("gap_met.2", lambda op: 1 / 0)
    host.register_hook("gap_met.3", lambda op: ["value"])
    host.register_hook("gap_met.4", lambda op: pytest.fail("asked after the answer"))
    logging.disable(logging.WARNING)
    try:
        assert host.fire("gap_met", **gap) == ["value"]
    finally:
        logging.disable(logging.NOTSET)


def test_order_can_be_asked_for():
    import pluggy

    mark = pluggy.HookimplMarker("amanda")
    host, heard = Host(()), []
    host.register_hook("after_save.a", mark(trylast=True)(lambda: heard.append("last")))
    host.register_hook("after_save.b", lambda: heard.append("between"))
    host.register_hook(
        "after_save.c", mark(tryfirst=True)(lambda: heard.append("first"))
    )
    host.fire("after_save", **EVENT)
    assert heard == ["first", "between", "last"]


def wrapper(path):
    yield


wrapper.amanda_impl = {"wrapper": True}


async def coroutine(path):
    pass


@pytest.mark.parametrize(
    ("listener", "got"),
    [
        (wrapper, "is a wrapper; listeners observe, they do not wrap"),
        (coroutine, "is a coroutine; listeners are called, not awaited"),
        (
            lambda colour: 1,
            "takes (colour), but after_save gives by name: graph, path, f",
        ),
        (
            lambda path, /: 1,
            "takes (path, /), but after_save gives by name: graph, path",
        ),
        (3, "has no __call__()"),
    ],
)
def test_a_bad_listener_is_refused_when_registered(listener, got):
    with pytest.raises(Exception, match="cannot be registered") as caught:
        Host(()).register_hook("after_save", listener)
    assert got in str(caught.value)


def test_an_unknown_hook_is_told():
    with pytest.raises(UsageError, match="there is no hook 'after_sleep'"):
        Host(()).fire("after_sleep")
    with pytest.raises(
        Exception, match="there is no hook 'after_sleep'; there are befo"
    ):
        Host(()).register_hook("after_sleep", len)


def test_only_the_listeners_of_the_event_are_imported(site):
    site.add(
        "amanda-x",
        "[amanda.hooks]\nafter_save = amanda_x:f\nafter_load = amanda_y:f\n",
        "heard = []\ndef f(path): heard.append(path)\n",
    )
    host = site.host()
    host.fire("before_save", **EVENT)
    assert "amanda_x" not in sys.modules
    host.fire("after_save", **EVENT)
    import amanda_x

    assert amanda_x.heard == ["p"]


def test_no_listener_no_pluggy():
    code = (
        "import sys\nfrom amanda.host import Host\n"
        "print(Host(()).fire('after_save', graph=1, path=2, format=3))\n"
        "print('pluggy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "False"]


def test_listeners_come_and_go():
    host, heard = Host(()), []
    host.register_hook("after_save", lambda: heard.append(1))
    host.register_hook("after_save", lambda: heard.append(2))  # any number may listen
    host.fire("after_save", **EVENT)
    host.unregister("hooks", "after_save")
    host.fire("after_save", **EVENT)
    assert heard == [1, 2]


def test_threads_fire_at_once():
    host, heard = Host(()), []
    host.register_hook("after_save", lambda: heard.append(1))
    threads = [
        threading.Thread(target=lambda: host.fire("after_save", **EVENT))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [1] * 8
