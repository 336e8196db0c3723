"""A manager from which a feature was removed: what needs it is refused or gone, and all else works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from manager import features
from manager.client import Control, ControlRefusal
from support.clients.raw_clients import StatelessClient
from support.projects.gateway import FORMS, running_gateway

SCRIPT = "import pathlib; pathlib.Path('ran.txt').open('a').write('x'); print('done')\n"
YES = {"action": "accept", "content": {"approve": True}}
TOKEN = {"Authorization": "Bearer lmtb_secret"}


def remove(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rest = tuple(feature for feature in features.FEATURES if feature.name != name)
    assert len(rest) == len(features.FEATURES) - 1
    monkeypatch.setattr(features, "FEATURES", rest)


async def test_without_tokens_nobody_passes_where_they_are_required(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "tokens")
    async with running_gateway(tmp_path, require_token=True) as gateway, aiohttp.ClientSession() as http:
        for method, path in [("POST", "/mcp"), ("GET", "/"), ("GET", "/mcp/status"), ("GET", "/nowhere")]:
            for shown in ({}, TOKEN):
                body = {} if method == "POST" else None
                url = gateway.manager.base + path
                async with http.request(method, url, headers=shown, json=body) as response:
                    assert response.status == 403
                    assert "cannot check any" in await response.text()
        control = Control(gateway.manager.paths.control_socket)
        assert (await asyncio.to_thread(control.get, "/status"))["ok"] is True


async def test_without_tokens_the_users_own_programs_pass_where_none_is_required(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "tokens")
    async with running_gateway(tmp_path) as gateway:
        gateway.user_tool("plain", SCRIPT)
        project = gateway.project("shop")
        assert (await project.modern.call("plain")).result["content"][0]["text"] == "done"
        control = Control(gateway.manager.paths.control_socket)
        with pytest.raises(ControlRefusal):
            await asyncio.to_thread(control.post, "/tokens/reload", {})


async def test_without_approvals_a_call_is_refused_at_once_if_its_client_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "approvals")
    async with running_gateway(tmp_path, approval_wait_s=60.0) as gateway:
        gateway.user_tool("risky", SCRIPT, "requires_approval = true\n")
        project = gateway.project("shop")
        refused = (await project.modern.call("risky")).refusal
        assert (refused["code"], refused["reason"]) == (47120, "approval_required")
        assert "lmtb tools allow risky" in refused["nextStep"]
        assert not (project.root / "ran.txt").exists()
        control = Control(gateway.manager.paths.control_socket)
        with pytest.raises(ControlRefusal):
            await asyncio.to_thread(control.get, "/approvals")


async def test_without_approvals_the_client_is_asked_and_the_call_runs_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "approvals")
    async with running_gateway(tmp_path, approval_wait_s=60.0) as gateway:
        gateway.user_tool("risky", SCRIPT, "requires_approval = true\n")
        project = gateway.project("shop")
        question = await project.modern.call("risky", meta=FORMS)
        answered = await repeat(project.modern, question.result["requestState"])
        assert answered == "done"
        assert (project.root / "ran.txt").read_text() == "x"


async def test_without_other_hosts_their_addresses_are_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "remote_hosts")
    async with running_gateway(tmp_path) as gateway:
        gateway.user_tool("plain", SCRIPT)
        far = StatelessClient(gateway.http, f"{gateway.manager.address}?cwd=ssh%3A//build/srv/app")
        refused = (await far.call("plain")).refusal
        assert refused["reason"] == "host_not_added"
        assert "this installation reaches no other hosts: ssh://build/srv/app" in refused["message"]
        project = gateway.project("shop")
        assert (await project.modern.call("plain")).result["content"][0]["text"] == "done"
        control = Control(gateway.manager.paths.control_socket)
        for target in ("/lines", "/tunnel"):
            with pytest.raises(ControlRefusal):
                await asyncio.to_thread(control.post, target, {})


async def test_without_the_recorder_calls_are_answered_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(monkeypatch, "recorder")
    async with running_gateway(tmp_path) as gateway, aiohttp.ClientSession() as http:
        gateway.user_tool("plain", SCRIPT)
        project = gateway.project("shop")
        for _ in range(4):  # also on the fast path
            assert (await project.modern.call("plain")).result["content"][0]["text"] == "done"
        control = Control(gateway.manager.paths.control_socket)
        status = await asyncio.to_thread(control.get, "/mcp/status")
        assert (status["state"], "recorder" in status) == ("ready", False)
        async with http.get(f"{gateway.manager.base}/metrics") as response:
            assert "lmtb_calls_total" in await response.text()
        async with http.get(f"{gateway.manager.base}/page/calls") as response:
            assert response.status == 404
        with pytest.raises(ControlRefusal):
            await asyncio.to_thread(control.post, "/recorded/write", {})
        assert not gateway.manager.paths.calls_file.exists()


async def repeat(client: StatelessClient, state: str) -> str:
    """Send the call again with a yes; what it returns."""
    params = {"name": "risky", "arguments": {}, "requestState": state, "_meta": FORMS}
    answer = await client.ask("tools/call", {**params, "inputResponses": {"approval": YES}})
    return str(answer.result["content"][0]["text"])
