"""A workspace's root folder is replaced or deleted while in use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession

from manager.supervision import workspaces
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project

pytestmark = pytest.mark.processes


def a_link(root: Path, elsewhere: Path) -> None:
    root.symlink_to(elsewhere)


def a_file(root: Path, elsewhere: Path) -> None:
    root.write_text("")


def nothing(root: Path, elsewhere: Path) -> None:
    pass


@pytest.mark.parametrize("instead", [a_link, a_file, nothing])
async def test_another_folder_in_place_of_a_root_is_not_served(
    manager: RunningManager,
    http: ClientSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    instead: Callable[[Path, Path], None],
) -> None:
    """A link in the place of the folder would lead the tools to files that nobody chose."""
    elsewhere = tmp_path / "private"
    elsewhere.mkdir()
    (elsewhere / "key").write_text("a private key")
    root = make_project(tmp_path / "proj")
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(root)
    shutil.rmtree(root)
    instead(root, elsewhere)
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 0)
    answer = await client.call("lm_readFile", {"filePath": "key"})
    assert b"a private key" not in answer.body
    assert answer.refusal["reason"] == "workspace_gone"


async def test_only_the_existence_of_a_root_is_cached(
    manager: RunningManager, http: ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that a root *is* there is remembered; else its server is started in vain, five times."""
    root = make_project(tmp_path / "proj")
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(root)
    shutil.rmtree(root)
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 0)
    assert (await client.call("datetime")).refusal["reason"] == "workspace_gone"
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 3600)
    assert (await client.call("datetime")).refusal["reason"] == "workspace_gone"
    make_project(root)
    assert not (await client.call("datetime")).result.get("isError")
