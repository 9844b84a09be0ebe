"""Messages between the two processes: JSON with its length before it, and files."""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["receive", "send"]

_LENGTH: Final = struct.Struct("!Q")


def send(channel: socket.socket, message: Any, files: Sequence[int] = ()) -> None:
    """Send a message, and descriptors of files with its first byte."""
    data = json.dumps(message).encode()
    head = _LENGTH.pack(len(data))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
    sent = channel.sendmsg([head], rights if files else [])
    channel.sendall(head[sent:] + data)


def receive(channel: socket.socket, most_files: int = 0) -> tuple[Any, list[int]]:
    """A message and the files with it; EOFError if the other process has ended."""
    head, files, _, _ = socket.recv_fds(channel, _LENGTH.size, most_files)
    head += _receive_bytes(channel, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    return json.loads(_receive_bytes(channel, length)), list(files)


def _receive_bytes(channel: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = channel.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return bytes(data)
