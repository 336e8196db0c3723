"""What stands for other hosts where none can be reached."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.state_file import WorkspaceRow
from manager.supervision.remote_hosts import NoRemoteHosts


@pytest.mark.parametrize("address", ["ssh://build/srv/app", "build:/srv/app"])
async def test_an_address_of_another_host_is_refused_with_a_reason(address: str) -> None:
    refusal = await NoRemoteHosts().find(address, urgent=True)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.HOST_NOT_ADDED
    assert address in refusal.message
    assert refusal.delivered == "no"


async def test_other_texts_are_left_to_the_search_on_this_machine() -> None:
    assert await NoRemoteHosts().find("vscode-remote://ssh-remote+build/srv", urgent=True) is None


async def test_a_project_of_another_host_is_not_restored_as_a_folder_of_this_machine() -> None:
    assert await NoRemoteHosts().restore(WorkspaceRow("app-1", "ssh://build/srv/app")) is None
