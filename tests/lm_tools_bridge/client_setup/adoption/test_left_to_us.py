"""Tests of which servers Claude Code is told not to start, and how its settings change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.decision import Adoption
from lm_tools_bridge.client_setup.adoption.left_to_us import SETTINGS_FILE, decide_left_to_us
from lm_tools_bridge.client_setup.refusals import Refusal

DB = {"command": "db"}


def decide(settings: bytes | None = None, names: tuple[str, ...] = (), **servers: Any) -> Adoption | Refusal:
    content = json.dumps({"mcpServers": servers}).encode()
    return decide_left_to_us({SETTINGS_FILE: settings, ".mcp.json": content}, names, {"told_before"})


def told(adoption: Adoption | Refusal) -> list[str]:
    assert isinstance(adoption, Adoption)
    return json.loads(adoption.changes[SETTINGS_FILE].after)["disabledMcpjsonServers"]


def reasons(adoption: Adoption | Refusal) -> dict[str, str | None]:
    assert isinstance(adoption, Adoption)
    return {server.name: server.reason for server in adoption.servers}


def test_every_server_is_told_by_the_name_that_the_file_has() -> None:
    adoption = decide(db=DB, **{"my server": {"type": "http", "url": "https://a.example/mcp"}})
    assert told(adoption) == ["db", "my server"]


def test_only_named_servers_are_told() -> None:
    assert told(decide(None, ("b",), a=DB, b=DB)) == ["b"]


def test_keys_by_which_other_clients_ask_less_often_keep_no_server_back() -> None:
    assert told(decide(a={**DB, "alwaysAllow": ["x"]}, b={**DB, "autoApprove": ["*"]})) == ["a", "b"]


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({**DB, "disabled": True}, "it is disabled"),
        ({**DB, "sandboxEnabled": True}, "it may not run here as it does in Claude Code"),
        ({"command": "lmtb", "args": ["connect"]}, "it leads to LM Tools Bridge itself"),
        ({"url": "http://127.0.0.1:47100/mcp"}, "it leads to LM Tools Bridge itself"),
        ("text", "it may not run here as it does in Claude Code"),
    ],
)
def test_a_server_that_would_be_lost_is_not_told(entry: Any, part: str) -> None:
    adoption = decide(entry=entry)
    assert part in (reasons(adoption)["entry"] or "") and not getattr(adoption, "changes", None)


def test_what_was_told_before_is_not_told_again() -> None:
    adoption = decide(told_before=DB)
    assert "was told before" in (reasons(adoption)["told_before"] or "")


def test_comments_other_settings_and_names_in_the_file_stay() -> None:
    before = b'{\n  // mine\n  "permissions": {"allow": []},\n  "disabledMcpjsonServers": ["old"]\n}\n'
    adoption = decide(before, db=DB)
    assert isinstance(adoption, Adoption)
    after = adoption.changes[SETTINGS_FILE].after.decode()
    assert "// mine" in after and '"permissions": {"allow": []}' in after
    assert json.loads(after.replace("  // mine\n", ""))["disabledMcpjsonServers"] == ["old", "db"]


@pytest.mark.parametrize(
    "settings",
    [b'{"disabledMcpjsonServers": "db"}', b'{"disabledMcpjsonServers": [1]}', b"[", b"\xff", b"[]"],
)
def test_settings_that_cannot_be_understood_are_refused(settings: bytes) -> None:
    refusal = decide(settings, db=DB)
    assert isinstance(refusal, Refusal) and SETTINGS_FILE in refusal.message
