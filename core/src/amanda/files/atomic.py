"""Replacement of files and folders: the old one stays until the new one is complete.

The content of a file is written to a new file in the same folder, synchronized to disk,
and then renamed over the old file in one step. A killed process leaves the old file
unchanged, and perhaps a file `.NAME.RANDOM.amanda-tmp`, which may be deleted. Folders
of several files are described at `replace_folder`.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from typing import Any, BinaryIO

from amanda.errors import FormatError
from amanda.files.mapped_file import read_or_map

__all__ = [
    "LEFT_OVER",
    "NewFile",
    "Path",
    "lock_folder",
    "map_file",
    "new_file",
    "read_errors",
    "replace_file",
    "replace_folder",
]

Path = str | os.PathLike[str]

LEFT_OVER = ".amanda-tmp"
"""The suffix of files and folders that a killed save leaves behind."""

_MODE = 0o666  # as of open(); the umask applies
_NAME_BYTES = 255  # maximum length of a file name
_TRIES = 100
_STREAMED_BYTES = 1 << 23  # between requests to begin writing

_CAUSES = {
    errno.ENOENT: ("no such folder", "make the folder first"),
    errno.ENOTDIR: ("a part of the path is not a folder", None),
    errno.EACCES: ("no permission", None),
    errno.EPERM: ("not permitted", None),
    errno.EROFS: ("the file system is read-only", None),
    errno.ELOOP: ("its symbolic links lead in a circle", None),
    errno.ENAMETOOLONG: ("the name is too long", None),
    errno.ENOSPC: ("the disk is full", "free some space, or write elsewhere"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or write elsewhere"),
    errno.EFBIG: ("larger than files may be here", "write to another file system"),
    errno.EIO: ("the device failed", None),
}
# Only raised by writes, so they concern the new file even if the caller's code in the
# block uses other files.
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` if the block raises no exception.

    Permissions of the old file are kept. Of a symbolic link, the target is replaced.
    After an exception the old file is unchanged.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "note.txt")
    ...     with replace_file(path) as file:
    ...         _ = file.write(b"whole")
    ...     path.read_bytes()
    b'whole'
    """
    with new_file(path) as new:
        yield new.file
        new.replace()


@contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """A file without a name yet; its `replace()` renames it to `path`.

    So several files can be complete before the first has its name. It is deleted at the
    end of the block if it was not renamed.
    """
    target, old = _resolve_target(path)
    try:
        temporary, file = _create_temporary(target, old)
    except OSError as error:
        raise _io_error("write", path, error) from error
    new = NewFile(path, target, temporary, file)
    try:
        with file:
            yield new
    except OSError as error:
        if error.errno in _OF_WRITING:
            raise _io_error("write", path, error) from error
        raise
    finally:
        if not new.is_replaced:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def replace_folder(path: Path, parts: Sequence[str]) -> Iterator[str]:
    """An empty folder whose content replaces `parts` of the folder `path`.

    `parts` are the names of all files and folders that the old and the new content may
    have, those without which no reader accepts the folder first. Other files in the
    folder stay. After an exception in the block all is as it was.

    A folder that does not exist appears in one step. In one that exists, the old parts
    are moved away in this order, and the new ones into place in the reverse order, by
    renaming. So a process that is killed leaves the old content, the new content, or,
    killed between two of these renames, a folder that no reader accepts: the old parts
    are then in `.NAME.RANDOM.amanda-tmp/old` in it. Such a folder may be deleted if
    `path` can be read.

    The folder itself is not replaced by another one, which would take fewer renames: it
    may be a mount point or mounted elsewhere, the current folder of a process, in a
    folder without write permission, and have other files and an access list.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model")
    ...     with replace_folder(path, ["graph", "weights"]) as new:
    ...         _ = pathlib.Path(new, "graph").write_text("new")
    ...     [each.name for each in path.iterdir()]
    ['graph']
    """
    target, old = _find_target(path)
    if old is not None and not stat.S_ISDIR(old.st_mode):
        raise FormatError("cannot write a folder: it is a file", who=os.fspath(path))
    _expect_writable(target, parts)
    place = os.path.dirname(target) if old is None else target
    with _staging_folder(path, place, os.path.basename(target)) as new:
        with _errors_of_staging(path, new):
            yield new
        try:
            _keep_permissions(new, target)
            _sync_folders(new)
            if old is not None or not _rename_to_free(new, target):
                _exchange_parts(new, target, parts)
        except OSError as error:
            raise _io_error("write", path, error) from error


class NewFile:
    """A file that is written, and then renamed."""

    def __init__(self, path: Path, target: str, temporary: str, file: BinaryIO) -> None:
        self.file = file
        self.is_replaced = False
        self._path = path
        self._target = target
        self._temporary = temporary

    def synchronize(self) -> None:
        """Write the content to disk and close the file."""
        if not self.file.closed:
            _sync_file(self.file, self._path)
            self.file.close()

    def replace(self, name: str | None = None) -> None:
        """Rename it over its path, or to another name in the same folder."""
        self.synchronize()
        folder = os.path.dirname(self._target)
        target = self._target if name is None else os.path.join(folder, name)
        _rename_over(self._temporary, target, self._path)
        self.is_replaced = True
        _sync_folder(folder)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process or thread at a time execute the block for a folder.

    It does nothing on systems without such locks.
    """
    try:
        from fcntl import LOCK_EX, flock

        number = os.open(folder or os.curdir, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):  # some network file systems have none
            flock(number, LOCK_EX)
        yield
    finally:
        os.close(number)  # which unlocks it


def map_file(path: Path) -> memoryview:
    """The bytes of a file, read-only: small files are copied, larger ones mapped.

    The view, and any slice of it, keeps the mapping alive. The file may be replaced or
    deleted meanwhile. Tensors in a map raise FormatError if the file was written to in
    place; see `amanda.files.mapped_file`.
    """
    with read_errors(path):
        return read_or_map(path)[0]


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Raise errors of the system while a file is read as FormatError."""
    try:
        yield
    except OSError as error:
        raise _io_error("read", path, error) from error
    except ValueError as error:
        raise _invalid_path(path) from error


def _invalid_path(path: Path) -> FormatError:
    """A path with a null character."""
    return FormatError("cannot be a path: a null character in it", who=repr(path))


def _find_target(path: Path) -> tuple[str, os.stat_result | None]:
    """What `path` stands for, links resolved, and its status if it exists."""
    name = os.fspath(path)
    try:
        if not name:
            raise FormatError("no path given to write to", who="''")
        target = os.path.realpath(name)
        return target, os.stat(target)
    except FileNotFoundError:
        return target, None
    except OSError as error:
        raise _io_error("write", path, error) from error
    except ValueError as error:
        raise _invalid_path(path) from error


def _resolve_target(path: Path) -> tuple[str, os.stat_result | None]:
    """The file behind `path`, links resolved, and its status if it exists."""
    name = os.fspath(path)
    target, old = _find_target(path)
    if old is None:
        if name.endswith(os.sep):
            raise FormatError("cannot write: it is a folder", who=name)
        return target, None
    if stat.S_ISDIR(old.st_mode):
        hint = "give the name of a file in it"
        raise FormatError("cannot write: it is a folder", who=name, hint=hint)
    if not stat.S_ISREG(old.st_mode):  # renaming over /dev/null would end it
        raise FormatError("cannot write: not a regular file", who=name)
    if not os.access(target, os.W_OK):  # which the rename would not ask for
        raise FormatError("cannot write: the file is write-protected", who=name)
    return target, old


def _create_temporary(target: str, old: os.stat_result | None) -> tuple[str, BinaryIO]:
    """Create a temporary file beside `target`; its permissions are those of `old`."""
    folder, name = os.path.split(target)
    mode = _MODE if old is None else stat.S_IMODE(old.st_mode) & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    for _ in range(_TRIES):
        left_over = _temporary_path(folder, name)
        try:
            number = os.open(left_over, flags, mode)
        except FileExistsError:
            continue
        if old is not None and hasattr(os, "fchmod"):
            with suppress(OSError):  # not every file system has permissions
                os.fchmod(number, mode)
        return left_over, BufferedWriter(_StreamedFile(number, "wb"), 1 << 18)
    raise FileExistsError(errno.EEXIST, "no free name for a temporary file", folder)


def _temporary_path(folder: str, name: str) -> str:
    """A path in `folder` for the content that `name` will have."""
    room = _NAME_BYTES - len(LEFT_OVER) - 20
    stem = os.fsdecode(os.fsencode(name)[:room])
    return os.path.join(folder, f".{stem}.{secrets.token_hex(6)}{LEFT_OVER}")


class _StreamedFile(FileIO):
    """A file whose content is on its way to disk while it is still written, so that
    `fsync` has less to wait for."""

    _written = _started = 0

    def write(self, data: Any, /) -> int:
        count = super().write(data)
        self._written += count
        size = self._written - self._started
        if size >= _STREAMED_BYTES and hasattr(os, "posix_fadvise"):
            # Linux begins to write the dirty pages, and would drop clean ones.
            with suppress(OSError):  # some file systems have none
                os.posix_fadvise(
                    self.fileno(), self._started, size, os.POSIX_FADV_DONTNEED
                )
            self._started = self._written
        return count


def _sync_file(file: BinaryIO, path: Path) -> None:
    """Synchronize the content to disk before the rename."""
    try:
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise _io_error("write", path, error) from error


def _rename_over(left_over: str, target: str, path: Path) -> None:
    try:
        os.replace(left_over, target)
    except OSError as error:
        raise _io_error("write", path, error) from error


def _sync_folder(folder: str) -> None:
    """Synchronize the folder entry to disk, where the system supports it."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _expect_writable(folder: str, parts: Sequence[str]) -> None:
    """Refuse to replace what is write-protected; renaming would not ask.

    Links are replaced, not what they name. What another process moves away meanwhile
    is not protected.
    """
    for part in parts:
        paths = [os.path.join(folder, part)]
        while paths:
            path = paths.pop()
            if os.path.islink(path) or not os.path.exists(path):
                continue
            if not _is_writable(path):
                raise FormatError("cannot write: it is write-protected", who=path)
            with suppress(FileNotFoundError, NotADirectoryError):
                paths += [os.path.join(path, name) for name in os.listdir(path)]


def _is_writable(path: str) -> bool:
    """Whether a file or folder may be written to, or is gone."""
    if os.access(path, os.W_OK):
        return True
    return not os.path.exists(path) or os.access(path, os.W_OK)


@contextmanager
def _staging_folder(path: Path, place: str, name: str) -> Iterator[str]:
    """An empty folder in a temporary one in `place`; what is still there at the end of
    the block is deleted, as are folders made for it that are empty."""
    made = _missing_folders(place)
    temporary = _temporary_path(place, name)
    new = os.path.join(temporary, "new")
    try:
        try:
            os.makedirs(new)
        except OSError as error:
            raise _io_error("write", path, error) from error
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for folder in (temporary, *made):
            with suppress(OSError):  # old parts that could not be moved back, or used
                os.rmdir(folder)


def _missing_folders(folder: str) -> list[str]:
    """The folders that do not exist of a path, innermost first."""
    found = []
    while not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


@contextmanager
def _errors_of_staging(path: Path, new: str) -> Iterator[None]:
    """Name the folder that is written in errors, not the temporary one."""
    try:
        yield
    except FormatError as error:
        if error.who is not None:
            error.who = error.who.replace(new, os.fspath(path))
        raise
    except OSError as error:
        if error.errno in _OF_WRITING:
            raise _io_error("write", path, error) from error
        raise


def _keep_permissions(new: str, old: str) -> None:
    """Give new files and folders the permissions of the old ones of the same name."""
    for place, folders, files in os.walk(new):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            with suppress(OSError):  # no old one, or no permissions
                found = os.stat(os.path.join(old, os.path.relpath(path, new))).st_mode
                mode = os.stat(path).st_mode
                if stat.S_IFMT(found) == stat.S_IFMT(mode):
                    os.chmod(path, stat.S_IMODE(mode) & ~0o777 | found & 0o777)


def _sync_folders(root: str) -> None:
    for place, _, _ in os.walk(root, topdown=False):
        _sync_folder(place)


def _rename_to_free(new: str, target: str) -> bool:
    """Rename a folder to a path; False if there is another one by now."""
    try:
        os.rename(new, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    _sync_folder(os.path.dirname(target))
    return True


def _exchange_parts(new: str, folder: str, parts: Sequence[str]) -> None:
    """Replace the parts of a folder by those in `new`; all or none, if not killed."""
    old = os.path.join(os.path.dirname(new), "old")
    os.mkdir(old)
    moves = [(folder, old, name) for name in parts]
    moves += [(new, folder, name) for name in reversed(parts)]
    begun: list[tuple[str, str]] = []
    with lock_folder(folder):
        try:
            for before, after, name in moves:
                source = os.path.join(before, name)
                if os.path.lexists(source):
                    begun.append((source, os.path.join(after, name)))
                    os.rename(*begun[-1])
        except BaseException:
            for source, moved in reversed(begun):
                with suppress(OSError):  # the last one, which was not moved
                    os.rename(moved, source)
            with suppress(OSError):
                os.rmdir(old)
            raise
        _sync_folder(folder)
    shutil.rmtree(old, ignore_errors=True)


def _io_error(verb: str, path: Path, error: OSError) -> FormatError:
    cause, hint = _CAUSES.get(error.errno or 0, (error.strerror or str(error), None))
    if verb == "read" and error.errno == errno.ENOENT:
        cause, hint = "no such file", None
    if error.errno == errno.EISDIR:
        cause = "it is a folder"
    return FormatError(f"cannot {verb}: {cause}", who=os.fspath(path), hint=hint)
