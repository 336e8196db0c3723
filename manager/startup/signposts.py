"""Leaves links to the control socket where programs of earlier versions look for it.

After an upgrade, programs that were started before it go on: `lmtb connect` in an agent, and servers that
register themselves. They find the manager through a link in place of the socket that they know.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_BESIDE: Final = ".control.sock.new"


def leave_signposts(control_socket: Path, former_dirs: Iterable[Path]) -> None:
    """Leave a link in each of these folders that exists and is ours. Failures are harmless and ignored.

    The caller is the manager of `control_socket`, and has seen that none serves in these folders.
    """
    for folder in former_dirs:
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
                beside = folder / _BESIDE
                beside.unlink(missing_ok=True)
                beside.symlink_to(control_socket)
                beside.replace(folder / control_socket.name)


def remove_signposts(control_socket: Path, former_dirs: Iterable[Path]) -> None:
    """Remove the links that lead to this socket."""
    for folder in former_dirs:
        link = folder / control_socket.name
        with suppress(OSError):
            if link.readlink() == control_socket:
                link.unlink()
