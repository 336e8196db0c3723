"""Reads and changes the hosts that the user has added: no others are ever connected to. Blocks.

# ~/.config/lm-tools-bridge/remote.toml
[hosts.build]
address = "ssh://ada@build"
command = "lmtb"
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.own_process import own_euid
from lm_tools_bridge.remote_hosts.address import Host, InvalidAddress, is_name, parse_address
from lm_tools_bridge.text.toml_edit import Document, edit_text, put_value, remove_value

FILE: Final = "remote.toml"
COMMAND: Final = "lmtb"
"""The program on a host, unless its entry names another one."""
_MAX_SOCKET_PATH: Final = 107 - 17
"""Bytes: ssh makes the socket under a longer name first, with a dot and 16 letters behind it."""


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A host that the user has added.

    Attributes:
        name: what the user calls it.
        command: the words that run this program there.
    """

    name: str
    host: Host
    command: tuple[str, ...] = (COMMAND,)


class InvalidHostsFile(Exception):
    """The file of hosts cannot be used. The message names the file and the problem."""


def read_known_hosts(config_dir: Path) -> Mapping[str, KnownHost]:
    """The hosts by name; none if there is no file.

    Raises:
        InvalidHostsFile: the file cannot be read, or an entry is wrong.
    """
    file = config_dir / FILE
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidHostsFile(f"{file} cannot be read: {error}") from error
    entries = content.get("hosts", {})
    if not isinstance(entries, dict):
        raise InvalidHostsFile(f"{file}: hosts must be a table")
    return {name: _parse_entry(file, name, entry) for name, entry in entries.items()}


def add_host(config_dir: Path, entry: KnownHost) -> None:
    """Add a host, or replace the one of this name. Everything else in the file stays as it is.

    Raises:
        InvalidHostsFile: the file cannot be changed.
    """

    def change(document: Document) -> None:
        put_value(document, ["hosts", entry.name, "address"], f"{entry.host}")
        command = ["hosts", entry.name, "command"]
        if entry.command != (COMMAND,):
            put_value(document, command, shlex.join(entry.command))
        else:
            remove_value(document, command)

    _edit_file(config_dir, change)


def remove_host(config_dir: Path, name: str) -> None:
    """Remove a host. Raises like `add_host`."""
    _edit_file(config_dir, lambda document: remove_value(document, ["hosts", name]))


def _edit_file(config_dir: Path, change: Callable[[Document], None]) -> None:
    file = config_dir / FILE
    try:
        text = edit_text(file.read_text("utf-8") if file.exists() else "", change)
    except ValueError as error:  # also for bytes that are no text
        raise InvalidHostsFile(f"{file} cannot be changed: {error}") from error
    private_files.write(file, text.encode())


def find_entry(hosts: Mapping[str, KnownHost], host: Host) -> KnownHost | None:
    """The entry of a host; None if the user has not added it."""
    return next((entry for entry in hosts.values() if entry.host == host), None)


def login_socket(runtime_dir: Path, host: Host) -> Path:
    """Where ssh keeps the login that a person made for a host (`lmtb remote connect`).

    A path that would be too long for a socket is replaced by one in a folder under /tmp, which has to be made
    private before it is used, like that of the control socket.
    """
    name = f"ssh-{hashlib.sha256(str(host).encode()).hexdigest()[:16]}"
    path = runtime_dir / name
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(runtime_dir)).hexdigest()[:12]
    return Path("/tmp", f"lmtb-{own_euid()}-{digest}", name)  # noqa: S108  made private before use


def login_at(runtime_dir: Path, host: Host) -> Path | None:
    """The socket of a login that was made for a host; None if there is none, or it is not this user's."""
    path = login_socket(runtime_dir, host)
    try:
        owners = {path.lstat().st_uid, path.parent.lstat().st_uid}
    except OSError:
        return None
    return path if owners == {own_euid()} else None


def parse_host(text: str) -> Host | InvalidAddress:
    """Parse the address of a host, which may end with a slash."""
    whole = text.strip()
    address = parse_address(whole if whole.endswith("/") else f"{whole}/", {})
    if address is None:
        return InvalidAddress("it begins with none of ssh:// docker:// podman:// wsl:// kubectl://")
    if isinstance(address, InvalidAddress):
        return address
    return address.host if address.path == "/" else InvalidAddress("it names a folder; add the host alone")


def command_words(text: str) -> tuple[str, ...] | None:
    """The words of a command that runs this program on a host; None if it is none."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote is open
        return None
    return tuple(words) if words and not words[0].startswith("-") else None


def _parse_entry(file: Path, name: str, entry: Any) -> KnownHost:
    address = entry.get("address") if isinstance(entry, dict) else None
    host = parse_host(address) if isinstance(address, str) else InvalidAddress("it has no address")
    if isinstance(host, InvalidAddress):
        raise InvalidHostsFile(f"{file}: hosts.{name} cannot be used: {host.problem}")
    if not is_name(name):
        raise InvalidHostsFile(f"{file}: {name!r} cannot be the name of a host")
    command = entry.get("command", COMMAND)
    words = command_words(command) if isinstance(command, str) else None
    if words is None:
        raise InvalidHostsFile(f"{file}: hosts.{name}.command is no command")
    return KnownHost(name, host, words)
