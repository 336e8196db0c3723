"""Reads the hosts that the user has added (`lmtb remote add`): no others are ever connected to. Blocks.

# ~/.config/lm-tools-bridge/remote.toml
[hosts.build]
address = "ssh://ada@build"
command = "lmtb"
"""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from manager.routing.remote.address import Host, InvalidAddress, is_name, parse_address

FILE: Final = "remote.toml"
COMMAND: Final = "lmtb"
"""The program on a host, unless its entry names another one."""


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
        raise InvalidHostsFile(f"{file}: hosts is no table")
    return {name: _known(file, name, entry) for name, entry in entries.items()}


def known(hosts: Mapping[str, KnownHost], host: Host) -> KnownHost | None:
    """The entry of a host; None if the user has not added it."""
    return next((one for one in hosts.values() if one.host == host), None)


def login_socket(runtime_dir: Path, host: Host) -> Path:
    """Where ssh keeps the login that a person made for a host (`lmtb remote connect`)."""
    return runtime_dir / f"ssh-{hashlib.sha256(str(host).encode()).hexdigest()[:16]}"


def parse_host(text: str) -> Host | InvalidAddress:
    """Parse the address of a host, which may end with a slash."""
    whole = text.strip()
    found = parse_address(whole if whole.endswith("/") else f"{whole}/", {})
    if found is None:
        return InvalidAddress("it begins with none of ssh:// docker:// podman:// wsl:// kubectl://")
    if isinstance(found, InvalidAddress):
        return found
    return found.host if found.path == "/" else InvalidAddress("it names a folder; add the host alone")


def _known(file: Path, name: str, entry: Any) -> KnownHost:
    address = entry.get("address") if isinstance(entry, dict) else None
    host = parse_host(address) if isinstance(address, str) else InvalidAddress("it has no address")
    if isinstance(host, InvalidAddress):
        raise InvalidHostsFile(f"{file}: hosts.{name} cannot be used: {host.problem}")
    if not is_name(name):
        raise InvalidHostsFile(f"{file}: {name!r} cannot be the name of a host")
    command = entry.get("command", COMMAND)
    words = shlex.split(command) if isinstance(command, str) else []
    if not words or words[0].startswith("-"):
        raise InvalidHostsFile(f"{file}: hosts.{name}.command is no command")
    return KnownHost(name, host, tuple(words))
