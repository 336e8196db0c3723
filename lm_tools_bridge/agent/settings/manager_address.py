"""Finds the address that the user's manager has by its own settings, `http_port` and `LMTB_HTTP_PORT`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.settings.settings import default
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.text.toml_text import parse_toml

PORT_VARIABLE: Final = "LMTB_HTTP_PORT"
_PORT: Final = "http_port"
_LIMIT: Final = 1024 * 1024
_LARGEST_PORT: Final = 65_535


def manager_endpoint(config_file: Path, environ: Mapping[str, str]) -> str:
    """The endpoint at the port of the environment, else of the file, else the default one.

    A manager whose port the system chooses (0) tells it when it is started, and so does one whose settings
    cannot be read.
    """
    port_text = environ.get(PORT_VARIABLE, "")
    port: Any = int(port_text) if port_text.isascii() and port_text.isdecimal() else _configured(config_file)
    if type(port) is not int or not 0 < port <= _LARGEST_PORT:
        return str(default("endpoint"))
    return f"http://127.0.0.1:{port}/mcp"


def _configured(config_file: Path) -> Any:
    try:
        content = private_files.read(config_file.resolve(), _LIMIT, private=False) or b""
        return parse_toml(content.decode()).get(_PORT)
    except (private_files.UnsafePathError, OSError, ValueError, RecursionError):
        return None
