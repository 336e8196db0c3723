"""The manager's own resources."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from manager.answers.exchange import Located
from manager.answers.handshake import read_own
from manager.answers.replies import Plain
from manager.configuration.settings import Settings
from manager.disk.filesystem import FolderExaminer
from manager.routing.discovery import CALL_TOOL_TEXT
from manager.routing.resolution import WorkspaceSource
from manager.state_file import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from support.clients.exchanges import legacy, session_of
from support.processes.managers.manager_in_process import make_project


def result_of(reply: Plain | None) -> dict[str, Any]:
    assert reply is not None
    assert reply.status == 200
    found: dict[str, Any] = json.loads(reply.body)["result"]
    return found


def reading(uri: str, **members: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
    return legacy(message, **members)


def snapshot(text: str) -> dict[str, Any]:
    """The JSON behind the line that announces it."""
    before, _, after = text.partition("\nStatus snapshot:\n")
    assert "lmToolsBridge.requestWorkspaceMCPServer" in before
    found: dict[str, Any] = json.loads(after)
    return found


@pytest.fixture
async def workspaces(tmp_path: Path) -> AsyncIterator[Workspaces]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    dependencies = Dependencies(Settings(), store, tmp_path, os.environ)
    examiner = FolderExaminer()
    registered_servers = RegisteredServers(dependencies, examiner)
    yield Workspaces(dependencies, examiner, registered_servers, home=None, windows=False)
    await store.close()


@pytest.fixture
async def workspace(workspaces: Workspaces, tmp_path: Path) -> Workspace:
    """A known workspace whose server never ran."""
    found = await workspaces.find(str(make_project(tmp_path / "proj")), ambient=False)
    assert isinstance(found, Workspace)
    return found


def test_the_call_tool_resource_is_the_same_for_everybody(workspaces: Workspaces) -> None:
    uri = "lm-tools-bridge://callTool"
    found = result_of(read_own(reading(uri), None, workspaces))
    assert found["contents"] == [{"uri": uri, "mimeType": "text/plain", "text": CALL_TOOL_TEXT}]


@pytest.mark.parametrize("uri", ["lm-tools://names", "lm-tools-bridge://calltool", "file:///x", ""])
def test_other_resources_are_not_the_managers(uri: str, workspaces: Workspaces) -> None:
    assert read_own(reading(uri), None, workspaces) is None


def test_the_handshake_resource_shows_an_unbound_session(workspaces: Workspaces) -> None:
    (content,) = result_of(read_own(reading("lm-tools-bridge://handshake"), None, workspaces))["contents"]
    assert snapshot(content["text"]) == {
        "ready": False,
        "online": False,
        "workspaceSetExplicitly": False,
        "workspace": None,
        "cwd": None,
        "offlineDurationSec": None,
        "target": None,
    }


async def test_reading_the_handshake_resource_starts_nothing(
    workspaces: Workspaces, workspace: Workspace
) -> None:
    session = session_of(workspace=workspace.id, cwd="/srv/proj")
    exchange = reading("lm-tools-bridge://handshake", session=session)
    located = Located(workspace, WorkspaceSource.SESSION)
    (content,) = result_of(read_own(exchange, located, workspaces))["contents"]
    found = snapshot(content["text"])
    assert (found["ready"], found["online"], found["target"]) == (False, False, None)
    assert (found["workspaceSetExplicitly"], found["workspace"], found["cwd"]) == (
        True,
        workspace.id,
        "/srv/proj",
    )
    assert workspace.supervisor.instance is None
    assert workspace.supervisor.lifecycle.started_at is None
