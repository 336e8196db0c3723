"""The checks of doctor: functions that yield findings, change nothing and never hang.

`Situation` is read once, so that all checks describe the same moment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.doctor.port_holder import extension_on, manager_on
from lm_tools_bridge.doctor.workspace_checks import (
    contradictions,
    languages,
    sources,
    unexpanded_variables,
    workspaces,
)
from manager import __version__
from manager.cli.output.findings import Finding, Level, Situation
from manager.cli.service import service_manager as service_files
from manager.cli.service.service_manager import UNITS
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import APP_NAME, BASE_FOLDERS, Paths
from manager.configuration.settings import Settings
from manager.features import has_feature
from manager.startup.lock import Lock
from manager.startup.port import PortTaken, bind_fixed

_OWN_FOLDERS: Final = frozenset({"LMTB_STATE_DIR", "LMTB_RUNTIME_DIR"})
"""With one of them, base folders are those of this environment."""


def all_findings(
    paths: Paths, waiting: Callable[[str], None] = lambda _: None, folder: Path | None = None
) -> Iterator[Finding]:
    """Every finding, in the order in which a person should read them.

    Args:
        paths: the user's files.
        waiting: is told what is done before a check that may take seconds.
        folder: where clients are played; None for the current folder.
    """
    situation = replace(Situation.of(paths), folder=folder)
    for check in CHECKS:
        if check is _clients:
            waiting("playing the configured clients; one answer may take 10 s")
        yield from check(situation)
        waiting("checking")


def _python(_: Situation) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(Level.OK, "python", f"{version} ({sys.executable})")


def _configuration(situation: Situation) -> Iterator[Finding]:
    if isinstance(situation.settings, str):
        yield Finding(
            Level.FAIL, "configuration", situation.settings, "correct it; a manager would refuse to start"
        )
    else:
        file = situation.paths.config_file
        text = str(file) if file.exists() else f"default values; there is no {file}"
        yield Finding(Level.OK, "configuration", text)


def _folders(situation: Situation) -> Iterator[Finding]:
    paths = situation.paths
    private = {"state": paths.state_dir, "runtime": paths.runtime_dir, "control": paths.control_socket.parent}
    checked: set[Path] = set()
    for name, folder in {"config": paths.config_dir, **private}.items():
        if folder not in checked:
            checked.add(folder)
            yield _folder(f"{name} folder", folder, private=name in private)
    for name in BASE_FOLDERS:
        used, here = paths.base_folders.get(name), os.environ.get(name, "")
        if used is not None and not here:
            text = f"{name}={used}, as the last manager had it; not set here"
            yield Finding(Level.OK, "folders", text)
        elif here.startswith("/") and here != used and not os.environ.keys() & _OWN_FOLDERS:
            text = f"{name}={here} is not used: the running manager has {used or 'the default'}"
            hint = "it counts for a manager that is started with it, which systemd does not do"
            yield Finding(Level.WARN, "folders", text, hint)
    if paths.runtime_dir.name.startswith(f"{APP_NAME}-"):
        text = f"{paths.runtime_dir} has the sockets, because {paths.state_dir} is on no known local disk"
        yield Finding(Level.OK, "folders", text)


def _folder(check: str, folder: Path, *, private: bool) -> Finding:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return _missing_folder(check, folder)
    except OSError as error:
        return Finding(
            Level.FAIL, check, f"{folder}: {error.strerror}", "check owner and mode of its parents"
        )
    if not stat.S_ISDIR(status.st_mode) and not (not private and folder.is_dir()):
        return Finding(Level.FAIL, check, f"{folder} is not a folder", f"remove {folder}")
    if sys.platform == "win32":
        return Finding(Level.OK, check, str(folder))
    if status.st_uid != os.geteuid():
        return Finding(
            Level.FAIL,
            check,
            f"{folder} belongs to another user (uid {status.st_uid})",
            f"remove {folder}, or run as its owner"
            if status.st_uid
            else f'give it to yourself: sudo chown -R "$USER" {folder}',
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & (0o077 if private else 0o022):
        return Finding(
            Level.FAIL, check, f"{folder} is open to other users (mode {mode:o})", f"chmod 700 {folder}"
        )
    return Finding(Level.OK, check, f"{folder} (mode {mode:o})")


def _missing_folder(check: str, folder: Path) -> Finding:
    """Whether a folder could be made below the nearest one that exists."""
    nearest = next(parent for parent in folder.parents if parent.exists())
    if os.access(nearest, os.W_OK | os.X_OK):
        return Finding(Level.OK, check, f"{folder} does not exist yet")
    text = f"{folder} cannot be made, because {nearest} is not writable"
    return Finding(Level.FAIL, check, text, f"make {nearest} writable, or set HOME to a folder that is")


def _manager(situation: Situation) -> Iterator[Finding]:
    status = situation.status
    if situation.fault is not None:
        yield Finding(Level.FAIL, "manager", situation.fault, _fault_cure(situation.paths))
    if status is None:
        if situation.fault is None:
            yield Finding(Level.WARN, "manager", "no manager is running", "start it with: lmtb up")
        return
    about = f"version {status.get('version')}, pid {status.get('pid')}, {status.get('address')}"
    if status.get("version") != __version__:
        hint = "change over with: lmtb restart"
        yield Finding(Level.WARN, "manager", f"{about}; installed is version {__version__}", hint)
    else:
        yield Finding(Level.OK, "manager", about)
    degraded = status.get("degraded")
    for reason in degraded if isinstance(degraded, list) else []:
        yield Finding(Level.WARN, "manager", f"degraded: {reason}", _degraded_cure(str(reason)))
    if status.get("state") == "draining":
        yield Finding(Level.WARN, "manager", "is stopping", "wait, then start it again: lmtb up")


def _degraded_cure(reason: str) -> str:
    """What helps, and what is lost until then: that depends on what does not work."""
    if "installed program" in reason:
        return "servers that run go on; no other one starts until then"
    if reason.startswith("state"):
        return "sessions may not survive a restart; free disk space or repair the state folder"
    return "free disk space or repair the state folder; calls themselves go on"


def _fault_cure(paths: Paths) -> str:
    """What ends a manager that answers nothing sensible, so that `lmtb stop` and `restart` fail as well."""
    holder = Lock.holder(paths.lock_file)
    if holder is None:
        return (
            f"correct what fails above; if all is well, no manager answers there: rm {paths.control_socket}"
        )
    return f"correct what fails above; if all is well: kill -KILL {holder.pid}; then: lmtb up"


def _port_cure(paths: Paths) -> str:
    """How the manager gets the configured port; a service has it from its units."""
    try:
        status = Control(paths.control_socket).get("/status")
    except (NoManager, ManagerFault, ControlRefusal):
        status = {}
    if status.get("startedBy") != "service":
        return "start it with that port: lmtb stop && lmtb up"
    if "LMTB_HTTP_PORT" in os.environ:
        return (
            "the service does not get LMTB_HTTP_PORT of this shell: unset it, or set http_port in config.toml"
        )
    return "renew the service, and do what its note says: lmtb service install"


def _port(situation: Situation) -> Iterator[Finding]:
    port = situation.port
    if port is None:
        return
    settings = situation.settings
    if situation.status is not None:
        if isinstance(settings, Settings) and settings.http_port not in {0, port}:
            text = f"the manager listens on {port}, but {settings.http_port} is configured"
            yield Finding(Level.WARN, "port", text, _port_cure(situation.paths))
        else:
            yield Finding(Level.OK, "port", f"127.0.0.1:{port} is the manager's")
    elif (holder_of_port := _port_holder("127.0.0.1", port)) is None:
        yield Finding(Level.OK, "port", f"127.0.0.1:{port} is free")
    elif holder_of_port.kind == "listener" and (holder := manager_on(port) or extension_on(port)) is not None:
        who, hint = holder
        yield Finding(Level.FAIL, "port", f"127.0.0.1:{port} is taken by {who}", hint)
    elif holder_of_port.kind == "listener":
        hint = "end that program, or set another http_port in config.toml"
        yield Finding(Level.FAIL, "port", str(holder_of_port), hint)
    else:
        yield Finding(Level.WARN, "port", str(holder_of_port), "the manager waits up to 75 s for it")
    if isinstance(settings, Settings) and settings.http_port == port:
        yield from _ephemeral(port)


def _ephemeral(port: int) -> Iterator[Finding]:
    """An outgoing connection may sit on a port of this range when the manager starts."""
    folder = Path("/proc/sys/net/ipv4")
    try:
        first, last = map(int, (folder / "ip_local_port_range").read_text().split())
        reserved = (folder / "ip_local_reserved_ports").read_text()
    except (OSError, ValueError):
        return
    if first <= port <= last and not _is_listed(port, reserved):
        text = f"{port} is also used for outgoing connections ({first}-{last}), which is harmless"
        yield Finding(Level.OK, "ephemeral ports", text)


def _is_listed(port: int, ranges: str) -> bool:
    """Whether a port is in a kernel list such as `8080,9000-9010`."""
    for part in filter(None, ranges.strip().split(",")):
        first, _, last = part.partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False


def _other_loopback(situation: Situation) -> Iterator[Finding]:
    """Another program on [::1] receives what a client sends to `localhost`."""
    if situation.port is None:
        return
    try:
        holder_of_port = _port_holder("::1", situation.port)
    except OSError:
        return  # no IPv6 here, so nobody listens
    own = situation.status.get("pid") if situation.status else None
    if (
        holder_of_port is None
        or holder_of_port.kind != "listener"
        or (holder_of_port.pid is not None and holder_of_port.pid == own)
    ):
        return
    hint = "write 127.0.0.1, not localhost, in every client's configuration, or end that program"
    yield Finding(Level.WARN, "localhost", str(holder_of_port), hint)


def _port_holder(host: str, port: int) -> PortTaken | None:
    """The holder of a port, found by binding it for a moment."""
    result = asyncio.run(
        bind_fixed(
            host,
            port,
            patience=0,
            sleep=asyncio.sleep,
            monotonic=time.monotonic,
            on_wait=lambda _: None,
        )
    )
    if isinstance(result, PortTaken):
        return result
    result.close()
    return None


def _peer_lookup(_: Situation) -> Iterator[Finding]:
    from manager.listener.peer_identity import find_peer_lookup  # brings the web server along

    if find_peer_lookup() is not None:
        yield Finding(Level.OK, "other users", "their connections are recognised and refused")
    else:
        text = "this system does not tell which user a connection comes from, so the port asks for tokens"
        yield Finding(Level.WARN, "other users", text, "make one for each client: lmtb token create NAME")


def _ripgrep(_: Situation) -> Iterator[Finding]:
    beside = str(Path(sys.executable).parent)
    if program := shutil.which("rg") or shutil.which("rg", path=beside):
        yield Finding(Level.OK, "ripgrep", program)
    else:
        text = "not found; searches use the built-in engine, which is slower"
        yield Finding(
            Level.WARN,
            "ripgrep",
            text,
            "install ripgrep on the manager's PATH",
        )


def _systemd(_: Situation) -> Iterator[Finding]:
    if sys.platform != "linux" or not service_files.is_installed():
        return
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = [config / "systemd/user", Path("/etc/systemd/user"), Path("/usr/lib/systemd/user")]
    units = [name for name in UNITS if any((place / name).exists() for place in places)]
    if not units:
        text = "units are not installed (to start the manager at login: lmtb service install)"
        yield Finding(Level.OK, "systemd", text)
        return
    if len(units) < len(UNITS):
        text = f"only {units[0]} is installed"
        yield Finding(Level.WARN, "systemd", text, "install both units: lmtb service install")
    for name in units:
        state = service_files.state(name) or "installed"
        level, hint = Level.OK, ""
        if state == "failed":
            level = Level.FAIL
            hint = f"journalctl --user -u {name}; then: systemctl --user reset-failed {name}"
        yield Finding(level, "systemd", f"{name} is {state}", hint)


def _clients(situation: Situation) -> Iterator[Finding]:
    """What configured clients would see; nothing without the part of this program that configures them."""
    if has_feature("client_setup"):
        from lm_tools_bridge.client_setup.client_checks import clients

        yield from clients(situation)


def _client_servers(situation: Situation) -> Iterator[Finding]:
    if has_feature("client_setup"):
        from lm_tools_bridge.client_setup.configuration_checks import client_servers

        yield from client_servers(situation)


CHECKS: Final[tuple[Callable[[Situation], Iterator[Finding]], ...]] = (
    _python,
    _configuration,
    _folders,
    _manager,
    _port,
    _other_loopback,
    workspaces,
    sources,
    languages,
    _clients,
    unexpanded_variables,
    contradictions,
    _client_servers,
    _peer_lookup,
    _ripgrep,
    _systemd,
)
