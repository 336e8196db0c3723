"""Tests of finding pinned packages in a `workspace.toml`, and of changing the version of one."""

from __future__ import annotations

import tomllib

import pytest

from lm_tools_bridge.published_servers.pinned_servers import is_newer, pinned_servers, put_server
from lm_tools_bridge.published_servers.server_names import PackageName
from lm_tools_bridge.text.toml_edit import Document, NotEditableError, edit_text

TEXT = """\
# mine
[[mcp.stdio_servers]]
namespace = "memory"  # remembers
command = ["npx", "-y", "@scope/memory@1.0.0", "--flag", "1.0.0"]
timeout_s = 5

[[mcp.remote_servers]]
namespace = "docs"
url = "https://docs.example.com"
"""


def changed(entry: dict[str, object], package: PackageName | None = None, text: str = TEXT) -> str:
    kind = "remote_servers" if "url" in entry else "stdio_servers"

    def change(document: Document) -> None:
        put_server(document, kind, entry, package)  # type: ignore[arg-type]  # one of the two words

    return edit_text(text, change)


@pytest.mark.parametrize(
    ("command", "pinned"),
    [
        (["npx", "-y", "@a/b@1.2.3", "x@9.9.9"], PackageName("npm", "@a/b", "1.2.3")),
        (["/usr/bin/npx", "b@1.2.3"], PackageName("npm", "b", "1.2.3")),
        (["npx.cmd", "--yes", "b@1.2.3"], PackageName("npm", "b", "1.2.3")),
        (["uvx", "mcp-server-time@2025.1"], PackageName("pypi", "mcp-server-time", "2025.1")),
        (["uvx", "--from", "x==2.0", "y"], PackageName("pypi", "x", "2.0")),
        (["npx", "-y", "b"], None),
        (["npx", "-y", "b@latest"], None),
        (["npx", "-p", "b@1.2.3", "c"], None),
        (["node", "b@1.2.3"], None),
        (["npx"], None),
        ([], None),
        ([1], None),
    ],
)
def test_a_package_at_a_version_is_pinned(command: list[object], pinned: PackageName | None) -> None:
    document = {"mcp": {"stdio_servers": [{"namespace": "x", "command": command}]}}
    assert [server.package for server in pinned_servers(document)] == ([pinned] if pinned else [])


@pytest.mark.parametrize("text", ["", "mcp = 1", "mcp.stdio_servers = 1", "mcp.stdio_servers = [1]"])
def test_a_file_of_another_form_has_no_pinned_servers(text: str) -> None:
    assert list(pinned_servers(tomllib.loads(text))) == []


def test_a_new_entry_goes_to_the_end_and_all_else_stays() -> None:
    text = changed({"namespace": "time", "command": ["uvx", "time@1.0"], "env": {"A": "1"}})
    assert text.startswith(TEXT.split("[[mcp.remote", maxsplit=1)[0].rstrip())
    servers = tomllib.loads(text)["mcp"]
    assert [server["namespace"] for server in servers["stdio_servers"]] == ["memory", "time"]
    assert servers["stdio_servers"][1]["env"] == {"A": "1"}
    assert servers["remote_servers"] == tomllib.loads(TEXT)["mcp"]["remote_servers"]


def test_the_same_package_gets_its_new_version_and_keeps_its_arguments() -> None:
    entry = {"namespace": "memory", "command": ["npx", "-y", "@scope/memory@2.0.0"]}
    text = changed(entry, PackageName("npm", "@scope/memory", "2.0.0"))
    assert text == TEXT.replace("memory@1.0.0", "memory@2.0.0")


def test_the_same_version_changes_nothing() -> None:
    entry = {"namespace": "memory", "command": ["npx", "-y", "@scope/memory@1.0.0"]}
    assert changed(entry, PackageName("npm", "@scope/memory", "1.0.0")) == TEXT


@pytest.mark.parametrize(
    ("entry", "package"),
    [
        (
            {"namespace": "memory", "command": ["npx", "-y", "evil@1.0.0"]},
            PackageName("npm", "evil", "1.0.0"),
        ),
        ({"namespace": "memory", "command": ["uvx", "memory@1.0"]}, PackageName("pypi", "memory", "1.0")),
        ({"namespace": "docs", "command": ["npx", "-y", "docs@1.0.0"]}, PackageName("npm", "docs", "1.0.0")),
        ({"namespace": "docs", "url": "https://other.example.com"}, None),
    ],
)
def test_another_server_is_never_replaced(entry: dict[str, object], package: PackageName | None) -> None:
    with pytest.raises(NotEditableError, match="it has another server"):
        changed(entry, package)


@pytest.mark.parametrize(
    ("version", "pinned", "newer"),
    [
        ("1.10.0", "1.9.0", True),
        ("1.9.0", "1.10.0", False),
        ("1.0.0", "1.0.0", False),
        ("1.0", "1.0.0", False),
        ("2.0.0", "2.0.0-rc.1", True),
        ("2.0.0-rc.1", "2.0.0", False),
        ("2.0", "2.0b1", True),
        ("1.0.0+b", "1.0.0+a", False),
    ],
)
def test_numbers_decide_which_version_is_newer(version: str, pinned: str, newer: bool) -> None:
    assert is_newer(version, pinned) is newer
