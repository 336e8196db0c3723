"""When the registry counts as read."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.team.registry import bucket
from lm_tools_bridge.team.registry.bucket import RegistryFault
from lm_tools_bridge.team.registry.reader import Reader


class Client:
    """A connection that is lost at the first question."""

    is_connected = True


async def test_a_connection_that_is_lost_while_it_reads_has_read_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def listed(client: Any, name: str) -> dict[str, bytes]:
        client.is_connected = False
        raise RegistryFault("the registry does not answer")

    async def at_once(seconds: float) -> None:
        """Pauses of the test take no time."""

    monkeypatch.setattr(bucket, "listed", listed)
    monkeypatch.setattr("lm_tools_bridge.team.registry.reader.asyncio.sleep", at_once)
    reader = Reader("me", lambda _, __: None)
    assert not await reader.read_all(Client())
    assert not reader.view.is_listed
    assert reader.error == "the registry does not answer"


async def test_a_complete_list_has_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(client: Any, name: str) -> dict[str, bytes]:
        return {}

    monkeypatch.setattr(bucket, "listed", listed)
    reader = Reader("me", lambda _, __: None)
    assert await reader.read_all(Client())
    assert reader.view.is_listed
