"""Creates and removes the internal channel's socket, and the private file that names it. Blocks."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from lm_tools_bridge.machine.files import private_files, stale_sockets
from lm_tools_bridge.machine.files.private_socket import listening_socket

FOLDER: Final = "internal"
BACKLOG: Final = 32
MAX_SOCKET_PATH_BYTES: Final = 100
"""sockaddr_un holds 104 bytes on macOS and 108 on Linux, terminator included."""
_MAX_FILE: Final = 4096
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """The files and the token of one run's channel.

    Attributes:
        file: the JSON file `{socket, auth, pid}`, mode 0600, that the user's programs read.
        socket: the path of the socket, with a new name for every run.
        auth: the token of this run: 32 random bytes in hex.
    """

    file: Path
    socket: Path
    auth: str = field(repr=False)


def new_address(runtime_dir: Path, workspace: str, home: Path | None = None) -> ChannelAddress:
    """A new address for the workspace with this id; nothing is created yet.

    The socket lies beside the file; if its path would be too long, in the user's home folder; if that is too
    long, too, in a private folder under /tmp.
    """
    folder = runtime_dir / FOLDER
    hashed = hashlib.sha256(os.fsencode(f"{runtime_dir}\0{workspace}")).hexdigest()[:16]
    name = workspace if _PLAIN.match(workspace) else hashed
    run = token_hex(4)
    candidates = [
        folder / f"{name}-{run}.sock",
        folder / f"{hashed}-{run}.sock",
        (home or Path.home()) / f".lmtb-{hashed}" / f"{run}.sock",
    ]
    fitting = [path for path in candidates if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES]
    last = Path("/tmp", f"lmtb-{os.getuid()}-{hashed}", f"{run}.sock")  # noqa: S108  make_private checks it
    return ChannelAddress(folder / f"{name}.json", next(iter(fitting), last), token_hex(32))


def listen(address: ChannelAddress) -> socket.socket:
    """Create the file and a listening socket; removes both again on failure.

    Raises:
        private_files.UnsafePathError: other users can access a folder.
        OSError: the socket or the file cannot be created.
    """
    for folder in (address.file.parent, address.socket.parent):
        private_files.make_private(folder)
    content = {"socket": str(address.socket), "auth": address.auth, "pid": os.getpid()}
    with stale_sockets.exclusive(address.file.parent):
        _remove_stale_sockets(address)
        # first: should this process be killed, the file tells the manager where the socket is
        private_files.write(address.file, msgspec.json.encode(content) + b"\n")
        try:
            return listening_socket(address.socket, BACKLOG)
        except BaseException:
            withdraw(address)
            raise


def withdraw(address: ChannelAddress) -> None:
    """Remove the socket, and the file unless a later run replaced it."""
    with suppress(OSError):
        address.socket.unlink(missing_ok=True)
    with suppress(OSError, private_files.UnsafePathError, msgspec.DecodeError, TypeError, KeyError):
        content = private_files.read(address.file, _MAX_FILE)
        if content is not None and msgspec.json.decode(content)["socket"] == str(address.socket):
            address.file.unlink(missing_ok=True)
    if address.socket.parent != address.file.parent:
        with suppress(OSError):
            address.socket.parent.rmdir()  # fails if another socket is in it


def _remove_stale_sockets(address: ChannelAddress) -> None:
    """Remove sockets that earlier runs of this workspace left behind."""
    beginning = address.socket.name.rpartition("-")[0]
    for path in address.socket.parent.glob(f"{beginning}-????????.sock" if beginning else "*.sock"):
        with suppress(OSError):
            stale_sockets.remove_if_stale(path)
