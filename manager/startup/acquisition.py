"""Acquires what the daemon needs before it serves: private folders, the lock, the listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Final

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError, make_private
from manager import __version__, exit_codes
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.log import logger
from manager.startup import systemd
from manager.startup.lock import Lock, LockHolder
from manager.startup.port import PortTaken, bind_fixed
from manager.startup.replacement import taken_over_lock

HOST: Final = "127.0.0.1"
# With the pause below, 5 s in all: a manager that takes longer to end counts as one that serves.
_ENDING_LOOKS: Final = 100
_ENDING_PAUSE_S: Final = 0.05
"""A manager that ends closes its control socket within moments after it has released its lock."""


async def acquire_lock(paths: Paths) -> Lock | int:
    """Make the private folders and take the lock; an exit code if that fails, which is logged."""
    try:
        for folder in (paths.runtime_dir, paths.control_socket.parent):
            make_private(folder)
        with contextlib.suppress(OSError):  # then the manager serves from memory; the store logs that
            for folder in (paths.state_dir, paths.logs_dir, *filter(None, [paths.memory_dir])):
                make_private(folder)
        lock = await _lock(paths)
    except UnsafePathError as error:
        return _refused(f"{error.path} {error.reason}", error.hint)
    except OSError as error:
        hint = f"make {paths.runtime_dir} writable, or set LMTB_RUNTIME_DIR to a folder that is"
        why = f"the lock and the control socket cannot be made in {paths.runtime_dir}: {worded(error)}"
        return _refused(why, hint)
    if isinstance(lock, LockHolder):
        _other_manager(lock)
        return exit_codes.OK
    return lock


def settled(paths: Paths) -> Paths:
    """The paths of a manager that is to serve now.

    A manager of an earlier version may have ended since the paths were read; its folder is used no more.
    """
    for _ in range(_ENDING_LOOKS):
        if not paths.is_former or isinstance(lock := Lock.acquire(paths.lock_file), LockHolder):
            break
        lock.release()
        time.sleep(_ENDING_PAUSE_S)
        paths = Paths.of_user(starts=True)
    return paths


async def acquire_port(settings: Settings) -> socket.socket | int | None:
    """The listening socket, from systemd or bound; an exit code if that fails, which is logged.

    None for a manager without a port.
    """
    if not settings.tcp:
        return None
    try:
        return await _listener(settings)
    except OSError as error:
        return _refused(f"{HOST}:{settings.http_port}: {error}", "choose another http_port")


def address_of(listener: socket.socket | None) -> tuple[int, str]:
    """The port of a manager, and the URL of its endpoint; 0 and a clause if it has none."""
    if listener is None:
        return 0, "no port"
    port: int = listener.getsockname()[1]
    return port, f"http://{HOST}:{port}/mcp"


def _other_manager(holder: LockHolder) -> None:
    log, why = logger(), f"another manager serves already: {holder}"
    if holder.version in {None, __version__}:
        log.warning("start.refused", why=why)
    else:
        log.warning("start.refused", why=why, hint=f"to change over to version {__version__}: lmtb restart")


async def _lock(paths: Paths) -> Lock | LockHolder:
    """The lock, or its holder, which gets up to 1 s to write its address if it is just starting."""
    held = taken_over_lock()
    for _ in range(20):
        lock = Lock.acquire(paths.lock_file, held, paths.base_folders)
        held = None
        if isinstance(lock, Lock) or lock.address is not None:
            break
        await asyncio.sleep(0.05)
    return lock


async def _listener(settings: Settings) -> socket.socket | int:
    listener = systemd.http_socket() or await bind_fixed(
        HOST,
        settings.http_port,
        sleep=asyncio.sleep,
        monotonic=time.monotonic,
        on_wait=lambda occupied: logger().warning("start.waiting", why=str(occupied)),
    )
    if isinstance(listener, systemd.UnusableSockets):
        return _refused(listener.reason, listener.hint)
    if isinstance(listener, PortTaken):
        code = exit_codes.HOPELESS if listener.kind == "listener" else exit_codes.PORT_BUSY
        return _refused(str(listener), "look closer with: lmtb doctor", code)
    return listener


def _refused(why: str, hint: str, code: int = exit_codes.HOPELESS) -> int:
    logger().error("start.refused", why=why, hint=hint)
    return code
