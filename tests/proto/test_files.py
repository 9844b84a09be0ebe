"""Safe writing: the old file is whole until the new one is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amanda.errors import FormatError
from amanda.files import atomic
from amanda.files.atomic import LEFT_OVER, map_file, replace_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    path = tmp_path / "new"
    old = os.umask(0o027)
    try:
        with replace_file(path) as file:
            file.write(b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["new"]


def test_permissions_of_the_old_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"a")
    path.chmod(0o606)
    with replace_file(path) as file:
        file.write(b"b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o606
    assert path.read_bytes() == b"b"


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        (left_over,) = (name for name in names(tmp_path) if name != "a.bin")
        assert left_over.startswith(".a.bin.")
        assert left_over.endswith(LEFT_OVER)
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no such system call")
def test_large_files_are_on_their_way_to_disk_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, int]] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda number, at, size, how: started.append((at, size))
    )
    content = os.urandom(5 << 20) * 5
    with replace_file(tmp_path / "new") as file:
        for at in range(0, len(content), 1 << 20):
            file.write(content[at : at + (1 << 20)])
    assert (tmp_path / "new").read_bytes() == content
    assert len(started) == 3
    assert [at for at, _ in started] == [0, started[0][1], sum(started[1])]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, FormatError])
def test_an_exception_leaves_all_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(error), replace_file(path) as file:
        file.write(b"half of the ne")
        raise error("stop")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_links_stay_and_their_target_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    target = folder / "target"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    with replace_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(folder / "not yet")
    with replace_file(dangling) as file:
        file.write(b"there")
    assert (folder / "not yet").read_bytes() == b"there"


def test_long_names_leave_room(tmp_path: Path) -> None:
    for name in ("n" * 255, "名" * 85):
        with replace_file(tmp_path / name) as file:
            file.write(b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def assert_refused(path: str | Path, text: str) -> None:
    with pytest.raises(FormatError) as caught, replace_file(path) as file:
        file.write(b"x")
    assert str(caught.value) == text


def test_what_cannot_be_written(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "file"
    assert_refused(
        missing,
        f"cannot write: no such folder\n  who:      {missing}\n"
        "  to do:    make the folder first",
    )
    assert_refused(
        tmp_path,
        f"cannot write: it is a folder\n  who:      {tmp_path}\n"
        "  to do:    give the name of a file in it",
    )
    assert_refused(
        f"{tmp_path}/new/", f"cannot write: it is a folder\n  who:      {tmp_path}/new/"
    )
    assert_refused("", "no path given to write to\n  who:      ''")
    assert_refused(
        "a\0b", "cannot be a path: a null character in it\n  who:      'a\\x00b'"
    )
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert_refused(
        loop,
        f"cannot write: its symbolic links lead in a circle\n  who:      {loop}",
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert_refused(fifo, f"cannot write: not a regular file\n  who:      {fifo}")
    part = tmp_path / "part"
    part.write_bytes(b"")
    assert_refused(
        part / "x",
        f"cannot write: a part of the path is not a folder\n  who:      {part / 'x'}",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o444)
    assert_refused(
        path, f"cannot write: the file is write-protected\n  who:      {path}"
    )
    path.chmod(0o644)
    tmp_path.chmod(0o555)
    try:
        assert_refused(path, f"cannot write: no permission\n  who:      {path}")
    finally:
        tmp_path.chmod(0o755)


def test_a_write_protected_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert_refused(
        path, f"cannot write: the file is write-protected\n  who:      {path}"
    )


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", full)
    assert_refused(
        path,
        f"cannot write: the disk is full\n  who:      {path}\n"
        "  to do:    free some space, or write elsewhere",
    )
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_in_the_block(tmp_path: Path) -> None:
    """What the block raises is about the file, if only a write can raise it."""
    path = tmp_path / "a"
    with (
        pytest.raises(FormatError, match="the disk is full"),
        replace_file(path),
        open("/dev/full", "wb", buffering=0) as file,
    ):
        file.write(b"x")
    with pytest.raises(FileNotFoundError), replace_file(path):
        (tmp_path / "weights that are gone").read_bytes()
    assert names(tmp_path) == []


def test_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    view = map_file(path)
    assert view.readonly
    with replace_file(path) as file:
        file.write(b"xyz")
    assert bytes(view) == b"abc"
    path.write_bytes(b"")
    assert bytes(map_file(path)) == b""


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, cause in {
        "no": "no such file",
        ".": "it is a folder",
        "fifo": "not a regular file",
    }.items():
        with pytest.raises(FormatError, match=f"^cannot read: {cause}"):
            map_file(tmp_path / name)
    with pytest.raises(FormatError, match="cannot be a path"):
        map_file("a\0b")


SAVERS = """
import os
from amanda.files.atomic import replace_file

def save(path):
    versions = [(97, 30_000), (98, 50_000)]
    for letter, size in versions if os.getpid() % 2 else reversed(versions):
        with replace_file(path) as file:
            for _ in range(10):
                file.write(bytes([letter]) * (size // 10))
                file.flush()
"""


def test_killed_while_saving(
    tmp_path: Path, killed_savers: Callable[..., Iterator[None]]
) -> None:
    """Killed at 200 random moments, the file is one of the two versions, whole."""
    path = tmp_path / "file"
    versions = {b"a" * 30_000, b"b" * 50_000}
    path.write_bytes(b"a" * 30_000)
    seen = set()
    for _ in killed_savers(SAVERS, path):
        content = path.read_bytes()
        assert content in versions
        seen.add(content)
    assert seen == versions
    left_over = [name for name in names(tmp_path) if name != "file"]
    assert left_over, "none was killed in the middle of a save"
    assert all(name.endswith(LEFT_OVER) for name in left_over)
