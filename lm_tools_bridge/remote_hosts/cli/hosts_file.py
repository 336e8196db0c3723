"""Changes the file of hosts, and leaves everything else in it as it is."""

from __future__ import annotations

import shlex
from pathlib import Path

import tomlkit

from lm_tools_bridge.machine.files import private_files
from lm_tools_bridge.remote_hosts.known_hosts import COMMAND, FILE, KnownHost


def add_host(config_dir: Path, entry: KnownHost) -> None:
    """Add a host, or replace the one of this name."""
    document = _read(config_dir)
    hosts = document.setdefault("hosts", tomlkit.table(is_super_table=True))
    table = tomlkit.table()
    table["address"] = f"{entry.host}"
    if entry.command != (COMMAND,):
        table["command"] = shlex.join(entry.command)
    hosts[entry.name] = table
    private_files.write(config_dir / FILE, tomlkit.dumps(document).encode())


def remove_host(config_dir: Path, name: str) -> None:
    """Remove a host."""
    document = _read(config_dir)
    document.get("hosts", {}).pop(name, None)
    private_files.write(config_dir / FILE, tomlkit.dumps(document).encode())


def _read(config_dir: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse((config_dir / FILE).read_text("utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
