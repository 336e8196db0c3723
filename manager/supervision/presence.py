"""Finds the server that serves a workspace now, or since when none does, without starting or asking one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from manager.supervision.instance import Instance
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces


def serving(workspaces: Workspaces, workspace: Workspace) -> Instance | None:
    """The server that a session's next call goes to, whoever started it; None if none is ready."""
    registered = workspaces.registered_servers.serving(workspace.root)
    if registered is not None or workspaces.registered_servers.left_at(workspace.root) is not None:
        return registered
    supervisor = workspace.supervisor
    return supervisor.instance if supervisor.lifecycle.is_serving else None


def reported(instance: Instance, member: str) -> list[Any]:
    """The list `member` (sources or issues) of the server's last health answer."""
    rows = jsonrpc.members_of(instance.health).get(member)
    return [] if rows is None else list(msgspec.json.decode(rows, type=list[Any]))


def source_ids(workspaces: Workspaces) -> Callable[[str], tuple[str, ...]]:
    """Make a function: id of a workspace -> ids of its sources, as its server reported them last.

    It may be called in one other thread; equal answers of a server are read once.
    """
    ids_by_workspace: dict[str, tuple[object, tuple[str, ...]]] = {}

    def ids(workspace: str) -> tuple[str, ...]:
        workspace_entry = workspaces.get(workspace)
        instance = None if workspace_entry is None else serving(workspaces, workspace_entry)
        if instance is None:
            return ids_by_workspace[workspace][1] if workspace in ids_by_workspace else ()
        if workspace not in ids_by_workspace or ids_by_workspace[workspace][0] is not instance.health:
            rows = reported(instance, "sources")
            read = tuple(str(row.get("id")) for row in rows if isinstance(row, dict))
            ids_by_workspace[workspace] = instance.health, read
        return ids_by_workspace[workspace][1]

    return ids


def state(workspaces: Workspaces, workspace: Workspace) -> str:
    """The state of the server that a workspace has; a registered one comes before our own."""
    record = workspaces.registered_servers.registrations.for_root(workspace.root)
    found: str = (record or workspace.supervisor.lifecycle).state.value
    return found


def offline_since(workspaces: Workspaces, workspace: Workspace) -> float | None:
    """Monotonic time when its registered server left; None while one serves, or if it never had one."""
    if serving(workspaces, workspace) is not None:
        return None
    return workspaces.registered_servers.left_at(workspace.root)


def target_of(instance: Instance) -> dict[str, Any]:
    """A server's address as clients are shown it."""
    return {
        "sessionId": instance.id,
        "host": instance.host,
        "port": instance.port,
        "workspaceFolders": list(instance.folders),
        "workspaceFile": instance.workspace_file,
    }
