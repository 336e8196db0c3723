"""The verb token: a token is printed once, listed without its secret, and revoked by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.tokens.token import digest_of, read_tokens
from manager.cli.output import manager_access


@pytest.fixture
def file(control: Any) -> Path:
    control.say("POST /tokens/reload", {"ok": True, "connections": 2, "sessions": 1})
    return manager_access.user_paths().tokens_file


def test_a_token_is_printed_once_and_its_digest_is_kept(file: Path, run: Any) -> None:
    made = json.loads(run("token", "create", "laptop", "--expires", "30d", "--json").output)
    assert made["token"].startswith("lmtb_")
    assert made["scopes"] == ["mcp"]
    (kept,) = read_tokens(file)
    assert (kept.digest, kept.name) == (digest_of(made["token"]), "laptop")
    assert kept.expires is not None
    assert kept.expires - kept.created == 30 * 86_400_000
    assert made["token"] not in run("token", "list").output
    assert made["token"].encode() not in file.read_bytes()


def test_scopes_are_those_that_were_asked_for(file: Path, run: Any) -> None:
    run("token", "create", "watcher", "--scope", "read", "--scope", "act")
    assert read_tokens(file)[0].scopes == ("read", "act")
    assert run("token", "create", "x", "--scope", "all").exit_code == 2


def test_a_name_is_used_once(file: Path, run: Any) -> None:
    assert run("token", "create", "laptop").exit_code == 0
    again = run("token", "create", "laptop")
    assert again.exit_code == 1
    assert "lmtb token revoke laptop" in again.output
    assert run("token", "create", "a\x1b[31m").exit_code == 2


def test_a_revoked_token_is_gone_and_what_ended_is_said(file: Path, run: Any) -> None:
    for name in ("a", "b", "c"):
        run("token", "create", name)
    assert "ended connections: 2, sessions: 1" in run("token", "revoke", "b").output
    assert [one.name for one in read_tokens(file)] == ["a", "c"]
    assert run("token", "revoke", "b").exit_code == 1
    assert json.loads(run("token", "revoke", "--all", "--json").output)["revoked"] == ["a", "c"]
    assert run("token", "revoke").exit_code == 2
    assert "lmtb token create" in run("token", "list").output
