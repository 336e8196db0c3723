from __future__ import annotations

from typing import Any

import pytest

from support.projects.config_home import ConfigHome
from workspace_server.config.formats import restrictions
from workspace_server.config.model import StdioServer


def entry(home: ConfigHome, file: str = ".mcp.json", **more: Any) -> StdioServer:
    member = "servers" if file.startswith(".vscode") else "mcpServers"
    home.put(file, {member: {"s": {"command": "x", **more}}})
    (server,) = home.current().stdio
    return server


@pytest.mark.parametrize(
    "limit",
    [
        {"sandbox": {"filesystem": {"allowWrite": []}}},
        {"sandbox": "read-only"},
        {"sandbox": 1},
        {"readOnly": True},
        {"read_only": True},
        {"mode": "readonly"},
        {"network": False},
        {"network": "none"},
        {"networkAccess": False},
        {"noNetwork": True},
        {"no_internet_access": True},
        {"inactive": True},
        {"off": True},
        {"allowedDomains": []},
        {"allowed_paths": ["src"]},
        {"allowWrite": False},
        {"denyRead": ["~/.ssh"]},
        {"requireApproval": "always"},
        {"require_approval": {"never": {}}},
        {"default_tools_approval_mode": "prompt"},
        {"tools": {"rm": {"approval_mode": "prompt"}}},
        {"security": {"isolation": True}},
        {"tool_configuration": {"enabled": False}},
        {"tool_configuration": {"allowed_tools": ["a"]}},
        {"isActive": False},
        {"permissions": {"deny": ["x"]}},
        {"dryRun": True},
        {"docker": {"image": "x"}},
    ],
)
def test_an_entry_with_a_limit_that_cannot_be_kept_is_not_started(
    home: ConfigHome, limit: dict[str, Any]
) -> None:
    assert entry(home, **limit).unkept == tuple(limit)


@pytest.mark.parametrize(
    "open_value",
    [
        {"sandboxEnabled": False},
        {"sandbox": None},
        {"readOnly": False},
        {"network": True},
        {"noNetwork": False},
        {"note": "off"},
        {"networkTimeout": 30},
        {"allowedDomains": ["*"]},
        {"require_approval": "never"},
        {"tools": {"search": {"approval_mode": "approve"}}},
        {"alwaysAllow": ["x"]},
        {"autoApprove": False},
        {"blockedTools": []},
        {"note": "read the docs"},
        {"metadata": {"owner": "me"}},
    ],
)
def test_a_key_that_limits_nothing_keeps_no_entry_from_starting(
    home: ConfigHome, open_value: dict[str, Any]
) -> None:
    assert entry(home, **open_value).unkept == ()


@pytest.mark.parametrize("file", [".mcp.json", ".cursor/mcp.json"])
def test_a_limit_of_the_whole_file_holds_for_each_of_its_servers(home: ConfigHome, file: str) -> None:
    home.put(
        file, {"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b.example"}}, "sandbox": {"x": 1}}
    )
    assert [server.unkept for server in home.current().servers] == [("sandbox",), ("sandbox",)]


def test_a_limit_in_our_own_file_counts_as_well(home: ConfigHome) -> None:
    home.workspace('[[mcp.stdio_servers]]\nnamespace = "s"\ncommand = ["x"]\noffline = true\n')
    assert home.current().stdio[0].unkept == ("offline",)
    home.workspace('[mcp]\nreadonly = true\n[[mcp.stdio_servers]]\nnamespace = "s"\ncommand = ["x"]\n')
    assert home.current().stdio[0].unkept == ("readonly",)


def test_the_user_can_give_a_limit_up(home: ConfigHome) -> None:
    limit = {"sandboxEnabled": True, "network": False}
    assert entry(home, **limit, ignore_restrictions=["sandboxEnabled"]).unkept == ("network",)
    assert entry(home, **limit, ignore_restrictions=["sandboxEnabled", "network"]).unkept == ()
    assert home.codes() == []


def test_the_reason_names_the_keys_and_the_line_to_add() -> None:
    text = restrictions.explain(["sandbox", "network"], as_json=True)
    assert 'add "ignore_restrictions": ["sandbox", "network"] to the entry' in text
    assert 'add ignore_restrictions = ["x"] to' in restrictions.explain(["x"], as_json=False)


@pytest.mark.parametrize(
    ("written", "include", "exclude"),
    [
        ({"tools": ["a", "b"]}, ("a", "b"), ()),
        ({"tools": ["*"]}, (), ()),
        ({"tools": "*"}, (), ()),
        ({"tools": []}, (), ("*",)),
        ({"tools": {"a": True, "b": False}}, (), ("b",)),
        ({"includeTools": ["a(x)"], "excludeTools": ["b"]}, ("a",), ("b",)),
        ({"enabled_tools": ["a"], "disabled_tools": ["a"]}, ("a",), ("a",)),
        ({"allowedTools": ["a"]}, ("a",), ()),
        ({"disabledTools": ["b", "c"]}, (), ("b", "c")),
        ({"disabledTools": [], "exclude": ["d"]}, (), ("d",)),
        ({"include": []}, (), ("*",)),
    ],
)
def test_lists_of_tools_are_kept_by_every_name_that_clients_have_for_them(
    home: ConfigHome, written: dict[str, Any], include: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    server = entry(home, **written)
    assert (server.include, server.exclude, server.unkept) == (include, exclude, ())
    assert home.codes() == []


@pytest.mark.parametrize(
    "written",
    [{"includeTools": "a"}, {"disabledTools": 1}, {"include": ["a"], "enabled_tools": ["b"]}],
)
def test_an_entry_whose_lists_of_tools_cannot_be_read_is_skipped(
    home: ConfigHome, written: dict[str, Any]
) -> None:
    home.put(".mcp.json", {"mcpServers": {"s": {"command": "x", **written}}})
    assert (home.current().stdio, home.codes()) == ((), ["CONFIG_ENTRY_SKIPPED"])
