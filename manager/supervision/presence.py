"""Finds the server that serves a workspace now, or since when none does, without starting or asking one."""

from __future__ import annotations

from typing import Any

from manager.supervision.instance import Instance
from manager.supervision.workspaces import Workspace, Workspaces


def serving(workspaces: Workspaces, workspace: Workspace) -> Instance | None:
    """The server that a session's next call goes to, whoever started it; None if none is ready."""
    registered = workspaces.registered_servers.serving(workspace.root)
    if registered is not None or workspaces.registered_servers.left_at(workspace.root) is not None:
        return registered
    supervisor = workspace.supervisor
    return supervisor.instance if supervisor.lifecycle.is_serving else None


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
