"""Merges the workspaces of a status with their servers, and finds those whose folder is gone."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manager.status_reading.responses import objects


def merged_workspaces(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each known workspace merged with its server; servers without a known workspace last."""
    servers: dict[object, list[dict[str, Any]]] = {}
    for one in objects(status, "instanceDetails"):
        servers.setdefault(one.get("workspace"), []).append(one)
    rows = [
        {**known, **server, "workspace": known.get("id")}
        for known in objects(status, "workspaceDetails")
        for server in servers.pop(known.get("id"), [{}])
    ]
    return rows + [one for rest in servers.values() for one in rest]


def is_gone(row: Mapping[str, Any]) -> bool:
    """Whether this workspace has no server, and its folder does not exist: it was deleted or moved."""
    root = row.get("root")
    if row.get("state") != "stopped" or not isinstance(root, str):
        return False
    try:
        return not stat.S_ISDIR(Path(root).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # nobody knows
        return False
