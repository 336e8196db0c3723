"""Reads what the service verbs decide from: systemd, installed files, the port, a running manager."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.own_process import own_uid
from manager.cli.service import service_manager as service_files
from manager.cli.service.plan import Situation, Supervisor
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.configuration.settings import ConfigurationError, load_settings
from manager.startup.port import PortTaken, bind_fixed

_CACHES: Final = frozenset({"archive-v0", "environments-v2", "builds-v0"})
"""Folders of uv's cache in which `uvx` and `uv run` make environments."""
_WANTS: Final = {
    service_files.SOCKET: "sockets.target.wants",
    service_files.SERVICE: "default.target.wants",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found: `seen` is what is decided from; `status` is the running manager's, if there is one."""

    seen: Situation
    status: dict[str, Any] | None


def gather(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Facts:
    """Everything there is to know, at this moment. The service gets no `LMTB_` variables of this shell.

    Raises:
        UnsafePathError: a folder of the user cannot be used.
    """
    plain = {name: value for name, value in environ.items() if not name.startswith("LMTB_")}
    paths = Paths.of_user(plain)
    supervisor = _supervisor(platform)
    status = _status(paths)
    port = _port(paths)
    program, folder = program_command(), files_folder(plain, platform)
    files_to_write = _wanted(supervisor, program, port if isinstance(port, int) else 0, folder, paths)
    active, enabled = _state(supervisor)
    return Facts(
        Situation(
            supervisor=supervisor,
            is_temporary=is_in_cache(Path(sys.executable)),
            port=port,
            wanted=files_to_write,
            found={path: path.read_bytes() for path in files_to_write if path.is_file()},
            links=tuple(link for link in _links(folder) if link.is_symlink()),
            is_active=active,
            is_enabled=enabled,
            manager=_described(status),
            port_holder=_port_holder(port) if isinstance(port, int) and port and not active else None,
            ignored=tuple(sorted(environ.keys() - plain.keys())),
            user=own_uid(),
        ),
        status,
    )


def program_command() -> tuple[str, ...]:
    """How the service starts this program: the script of this installation, else its Python."""
    folder = Path(sys.executable).parent
    script = shutil.which("lm-tools-bridge", path=str(folder))
    return (script,) if script else (sys.executable, "-I", "-m", "manager")


def is_in_cache(program: Path) -> bool:
    """Whether a program is in an environment that uv may delete at any time."""
    return not _CACHES.isdisjoint(program.parts)


def files_folder(environ: Mapping[str, str], platform: str) -> Path:
    """Where the files of the user's services belong."""
    home = Path(environ.get("HOME") or Path.home())
    if platform == "darwin":
        return home / "Library" / "LaunchAgents"
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (config if config.is_absolute() else home / ".config") / "systemd" / "user"


def _supervisor(platform: str) -> Supervisor:
    if platform == "darwin":
        return Supervisor.LAUNCHD
    if platform != "linux" or not service_files.is_installed():
        return Supervisor.NONE
    return Supervisor.SYSTEMD if service_files.answers().ok else Supervisor.NO_USER_SYSTEMD


def _wanted(
    supervisor: Supervisor, program: tuple[str, ...], port: int, folder: Path, paths: Paths
) -> dict[Path, bytes]:
    if supervisor is Supervisor.LAUNCHD:
        log = str(paths.logs_dir / "manager.log")
        return {folder / f"{service_files.LABEL}.plist": service_files.launchd_plist(program, log)}
    units = service_files.systemd_units(service_files.shipped_units(), program, port)
    return {folder / name: text.encode() for name, text in units.items()}


def _links(folder: Path) -> list[Path]:
    return [folder / wants / name for name, wants in _WANTS.items()]


def _state(supervisor: Supervisor) -> tuple[bool, bool]:
    """Whether the service is active, and whether it is enabled."""
    if supervisor is Supervisor.SYSTEMD:
        active = [service_files.state(unit) for unit in service_files.UNITS]
        return "active" in active, service_files.enabled(service_files.SOCKET) == "enabled"
    if supervisor is Supervisor.LAUNCHD:
        is_loaded = service_files.run(
            ["launchctl", "print", f"gui/{own_uid()}/{service_files.LABEL}"], 3.0
        ).ok
        return is_loaded, is_loaded
    return False, False


def _port(paths: Paths) -> int | str:
    try:
        return load_settings(paths.config_file, {}, {}).http_port
    except ConfigurationError as error:
        return str(error)


def _status(paths: Paths) -> dict[str, Any] | None:
    try:
        return Control(paths.control_socket).get("/status")
    except (NoManager, ManagerFault, ControlRefusal):
        return None


def _described(status: dict[str, Any] | None) -> str | None:
    if status is None:
        return None
    return f"pid {status.get('pid')}, at {status.get('address')}, version {status.get('version')}"


def _port_holder(port: int) -> str | None:
    """Who has the port, found by binding it for a moment."""
    bound = asyncio.run(
        bind_fixed(
            "127.0.0.1",
            port,
            patience=0,
            sleep=asyncio.sleep,
            monotonic=time.monotonic,
            on_wait=lambda _: None,
        )
    )
    if isinstance(bound, PortTaken):
        return str(bound)
    bound.close()
    return None
