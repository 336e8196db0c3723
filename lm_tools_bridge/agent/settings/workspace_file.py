"""Adds servers to the user's `workspace.toml`, while everything else in the file stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.settings.file import NotEditable
from lm_tools_bridge.machine import private_files

_LARGEST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A stdio server, as an entry of `workspace.toml`."""

    namespace: str
    command: tuple[str, ...]
    enabled: bool


def add_servers(file: Path, servers: Sequence[StdioServer]) -> list[str]:
    """Add entries to the user's `workspace.toml`; the names of those that it did not have. Blocks.

    Raises:
        NotEditable: the file is not TOML.
        private_files.LockTimeout, private_files.UnsafePathError, OSError: it cannot be written.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if not servers:
        return []
    target = file.resolve()
    private_files.make_private(target.parent)
    with private_files.locked(target.with_name(f".{target.name}.lock")):
        text = (private_files.read(target, _LARGEST, private=False) or b"").decode("utf-8", "strict")
        try:
            document: Any = tomlkit.parse(text)
            entries = document.setdefault("mcp", tomlkit.table(is_super_table=True)).setdefault(
                "stdio_servers", tomlkit.aot()
            )
            namespaces = {str(entry.get("namespace")) for entry in entries}
            new = [server for server in servers if server.namespace not in namespaces]
            for server in new:
                entries.append(_entry(server))
        except (TOMLKitError, TypeError, AttributeError) as error:
            raise NotEditable(f"{file} cannot be changed: {error}") from error
        private_files.write(target, tomlkit.dumps(document).encode())
    return [server.namespace for server in new]


def _entry(server: StdioServer) -> Any:
    import tomlkit

    entry = tomlkit.table()
    entry["namespace"] = server.namespace
    entry["command"] = list(server.command)
    if not server.enabled:
        entry["enabled"] = False
    return entry
