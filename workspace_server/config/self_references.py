"""Detects configured servers that point back to the manager, which would call itself for ever. Pure."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Final
from urllib.parse import urlsplit

MANAGER_PORT: Final = 47100
_PROGRAMS: Final = frozenset({"lmtb", "lm-tools-bridge"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def url_targets_manager(url: str, ports: Collection[int]) -> bool:
    """Whether a URL is an MCP endpoint of the manager: this machine, one of `ports`, `mcp` in the path."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError:
        return False
    if port not in ports or parts.hostname is None or "mcp" not in parts.path.split("/"):
        return False
    return is_this_machine(parts.hostname)


def command_targets_manager(command: Sequence[str], ports: Collection[int]) -> bool:
    """Whether a command is `lmtb connect`, or has the manager's URL as an argument.

    Launchers before it (`uvx`, `npx`, `env`) are allowed for.
    """
    for position, word in enumerate(command):
        if _program(word) in _PROGRAMS and "connect" in command[position + 1 :]:
            return True
        if "://" in word and url_targets_manager(word, ports):
            return True
    return False


def is_this_machine(host: str) -> bool:
    """Whether a URL's host is this machine, in any spelling of a loopback address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:  # 127.1, 0x7f.1, 2130706433
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped if mapped is not None else address
    return address.is_loopback or address.is_unspecified


def _program(word: str) -> str:
    """The program's name without folder, `.exe` and version (`lm-tools-bridge@1.2`, `…==1.2`)."""
    name = PureWindowsPath(PurePath(word).name).name
    return name.removesuffix(".exe").split("@")[0].split("==")[0].lower()
