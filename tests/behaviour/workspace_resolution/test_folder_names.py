"""Folder names with characters that are special in URLs lead to the right workspace."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from yarl import URL

from lm_tools_bridge.protocol import headers, names
from manager.routing.matching import workspace_id
from support.clients.raw_clients import SessionClient
from support.clients.stateless_requests import body_of, headers_of
from support.processes.managers.manager_in_process import RunningManager, make_project

pytestmark = pytest.mark.processes

NAMES = ["a b", "a%20b", "100%", "c++", "q&a=1", "#1", "réf", "a;b"]


@pytest.mark.parametrize("name", NAMES)
async def test_an_encoded_cwd_is_decoded_exactly_once(
    manager: RunningManager, tmp_path: Path, name: str
) -> None:
    project = make_project(tmp_path / name)
    url = URL(f"{manager.address}?cwd={quote(str(project))}", encoded=True)
    body = body_of(names.DISCOVER)
    async with ClientSession() as client, client.post(url, json=body, headers=headers_of(body)) as response:
        assert response.status == 200
        assert response.headers[headers.WORKSPACE_SOURCE] == "query"
        assert response.headers[headers.WORKSPACE_ID] == workspace_id(str(project))


@pytest.mark.parametrize(("name", "written"), [("c++", "c++"), ("a b", "a+b")])
async def test_a_plus_is_tried_as_a_plus_and_then_as_a_space(
    manager: RunningManager, tmp_path: Path, name: str, written: str
) -> None:
    """Clients paste the folder into the URL as it is; forms write a blank as a plus."""
    project = make_project(tmp_path / name)
    url = URL(f"{manager.address}?cwd={quote(str(tmp_path))}/{written}", encoded=True)
    body = body_of(names.DISCOVER)
    async with ClientSession() as client, client.post(url, json=body, headers=headers_of(body)) as response:
        assert response.headers[headers.WORKSPACE_ID] == workspace_id(str(project))


async def test_a_name_that_is_not_utf8_is_refused(manager: RunningManager, tmp_path: Path) -> None:
    """JSON could not name it, neither in an answer nor in status."""
    folder = os.fsencode(tmp_path) + b"/p\xff"
    os.makedirs(folder + b"/.git")
    url = URL(f"{manager.address}?cwd={quote(folder)}", encoded=True)
    async with ClientSession() as http:
        client = await SessionClient.connect(http, str(url))
        answer = await client.call("calculator", {"expression": "1"})
        assert answer.refusal["reason"] == "invalid_cwd"
        assert answer.refusal["details"]["problem"] == "malformed"
        async with http.get(f"{manager.address}/status") as status:
            assert (await status.json())["sessions"] == 1
