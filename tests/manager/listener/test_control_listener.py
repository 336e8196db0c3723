"""Tests that the control socket is made again if it is removed, and only while the manager serves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from manager.listener.control_listener import ControlListener


class NoServers:
    """Serves this user, and knows no registered server."""

    def renew(self, session_id: str) -> bool:
        return False

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        return True


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "control.sock"


@pytest.fixture
async def listener(path: Path) -> AsyncIterator[ControlListener]:
    path.parent.mkdir(mode=0o700)
    made = ControlListener(path, NoServers(), lambda _: web.AppRunner(web.Application()))
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize("what", ["socket", "folder"])
async def test_a_removed_socket_is_made_again(listener: ControlListener, path: Path, what: str) -> None:
    assert connects(path)
    path.unlink()
    if what == "folder":
        path.parent.rmdir()
    await listener.reopen_if_removed()
    assert connects(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_socket_in_its_place_is_left_alone(listener: ControlListener, path: Path) -> None:
    before = path.stat()
    await listener.reopen_if_removed()
    assert path.stat().st_ino == before.st_ino


async def test_a_closed_socket_is_not_made_again(listener: ControlListener, path: Path) -> None:
    await listener.close()
    await listener.reopen_if_removed()
    assert not path.exists()
